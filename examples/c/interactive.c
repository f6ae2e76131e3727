/* A producer or consumer that does what it is told, in the shape of the original library. Start two
 * in two terminals, and type:
 *
 *     one                         the other
 *     create 12288                hook 1234           (the token that the one has printed)
 *     write 100 hello             read 100
 *     enable                      write 100 mine
 *
 * Reads lines: create LEN, hook TOKEN, enable, disable, write OFFSET WORD, read OFFSET, load OFFSET
 * LEN FILE, save OFFSET LEN FILE, release, quit. Prints one line for each: what was asked for,
 * `ok`, or `-1`. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <swing.h>
#include <unistd.h>

static void say(int status) {
    printf(status == 0 ? "ok\n" : "-1\n");
}

/* System calls load from areas and store into them as plain loads and stores do. */
static int transfer(int load, char *at, unsigned long len, const char *path) {
    int fd = load ? open(path, O_RDONLY) : open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    ssize_t done;
    if (fd < 0) {
        return -1;
    }
    done = load ? read(fd, at, len) : write(fd, at, len);
    return close(fd) == 0 && done == (ssize_t)len ? 0 : -1;
}

int main(void) {
    char line[256], word[128];
    void *addr = NULL;
    int token = 0, other, talk = isatty(0);
    unsigned long at, len;
    if (talk) {
        printf("create LEN | hook TOKEN | enable | disable | write OFFSET WORD | read OFFSET |\n"
               "load OFFSET LEN FILE | save OFFSET LEN FILE | release | quit\n");
    }
    while (fgets(line, sizeof line, stdin) != NULL && strncmp(line, "quit", 4) != 0) {
        if (sscanf(line, "create %lu", &at) == 1) {
            printf("%d\n", createarea(&addr, &token, at) == 0 ? token : -1);
        } else if (sscanf(line, "hook %d", &other) == 1) {
            printf("%d\n", hook(&addr, &token, other) == 0 ? token : -1);
        } else if (strncmp(line, "enable", 6) == 0) {
            say(enablehook(token));
        } else if (strncmp(line, "disable", 7) == 0) {
            say(disablehook(token));
        } else if (strncmp(line, "release", 7) == 0) {
            say(releasearea(token));
        } else if (addr == NULL) {
            printf("no area: create or hook one first\n");
        } else if (sscanf(line, "write %lu %127s", &at, word) == 2) {
            strcpy((char *)addr + at, word);
            say(0);
        } else if (sscanf(line, "read %lu", &at) == 1) {
            printf("%s\n", (char *)addr + at);
        } else if (sscanf(line, "load %lu %lu %127s", &at, &len, word) == 3) {
            say(transfer(1, (char *)addr + at, len, word));
        } else if (sscanf(line, "save %lu %lu %127s", &at, &len, word) == 3) {
            say(transfer(0, (char *)addr + at, len, word));
        } else {
            printf("?\n");
        }
        fflush(stdout);
    }
    return 0;
}
