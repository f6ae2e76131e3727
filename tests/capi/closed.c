/* A program that closes all descriptors, also those it did not open, and goes on with its areas and
 * with files of its own at these numbers. Lines in, an answer out:
 *
 *     close DIRECTORY  closes all, and opens files there
 *     store N          stores a number in the area
 *     hook N           hooks the area of another process with this token: what it finds there
 *     find             what it finds there now
 *     intact           whether its files are as they were */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

#define FILES 40
#define WORDS ((size_t)1 << 16)

static int files[FILES];

static void close_all(const char *directory) {
    char path[4096];
    int i;
    CHECK(syscall(SYS_close_range, 3u, ~0u, 0u) == 0);
    for (i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/own-%d", directory, i);
        files[i] = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        CHECK(files[i] >= 3 && write(files[i], "the program's own", 17) == 17);
    }
}

static int intact(void) {
    char text[32];
    struct stat facts;
    int i;
    for (i = 0; i < FILES; i++) {
        if (fstat(files[i], &facts) != 0 || facts.st_size != 17 ||
            pread(files[i], text, sizeof text, 0) != 17 ||
            memcmp(text, "the program's own", 17) != 0 || lseek(files[i], 0, SEEK_CUR) != 17) {
            return 0;
        }
    }
    return 1;
}

/* The number that fills the area's first pages; -1: not all are the same. */
static long found(const swing_area *area) {
    const volatile long *words = (const volatile long *)area->address;
    size_t i;
    for (i = 1; i < WORDS; i++) {
        if (words[i] != words[0]) {
            return -1;
        }
    }
    return words[0];
}

/* Its owner may have to listen again first, on a socket that its program has closed. */
static void hook_now(int token, swing_area *out) {
    int status, tries = 0;
    while ((status = swing_hook(token, 0, out)) == SWING_E_STALE && tries++ < 10000) {
        usleep(5000);
    }
    CHECK(status == 0 && swing_is_fresh(out->token) == 1);
}

int main(void) {
    char line[4200], *word;
    swing_area area, hooked = {0};
    size_t i;
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK(swing_create((size_t)64 << 20, &area) == 0 && swing_allow_hooks(area.token, 1) == 0);
    printf("%d\n", area.token);
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = 0;
        word = strchr(line, ' ');
        word = word == NULL ? line + strlen(line) : word + 1;
        if (strncmp(line, "close ", 6) == 0) {
            close_all(word);
            puts("closed");
        } else if (strncmp(line, "store ", 6) == 0) {
            for (i = 0; i < WORDS; i++) {
                ((volatile long *)area.address)[i] = atol(word);
            }
            puts("stored");
        } else if (strncmp(line, "hook ", 5) == 0) {
            CHECK(hooked.token == 0 || swing_release(hooked.token) == 0);
            hook_now(atoi(word), &hooked);
            printf("%ld\n", found(&hooked));
        } else if (strcmp(line, "find") == 0) {
            printf("%ld\n", found(&hooked));
        } else {
            printf("%d\n", intact());
        }
    }
    CHECK(hooked.token == 0 || swing_release(hooked.token) == 0);
    CHECK(swing_release(area.token) == 0 && intact());
    return 0;
}
