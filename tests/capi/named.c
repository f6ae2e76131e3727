/* Hooks areas by name, and the heap of a program that knows nothing of areas: a line of input each.
 *
 *     hook NAME       the live state, checked as a heap: its token and how many blocks it has
 *     published NAME  the state published last
 *     find TEXT       whether the area hooked last holds the text
 *     change          allocates and frees in it, and checks it again */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <swing.h>

static swing_area area;

static void hooked(int status) {
    size_t blocks = 0;
    if (status == 0) {
        status = swing_check_heap(area.token, &blocks);
    }
    if (status == 0) {
        printf("%d %zu\n", area.token, blocks);
    } else {
        printf("%d %s\n", status, swing_last_error());
    }
}

/* In what has memory only: everything else is zeros. */
static int found(const char *text) {
    const char *from = (const char *)area.address;
    swing_block range;
    while (swing_next_range(area.token, from, &range) == 0) {
        const char *at = (const char *)range.address;
        if (memmem(at, range.size, text, strlen(text)) != NULL) {
            return 1;
        }
        from = at + range.size;
    }
    return 0;
}

static int changed(void) {
    swing_block blocks[100];
    size_t before, after, i;
    if (swing_check_heap(area.token, &before) != 0) {
        return -1;
    }
    for (i = 0; i < 100; i++) {
        if (swing_alloc(area.token, i * 977 + 1, &blocks[i]) != 0) {
            return -2;
        }
        memset(blocks[i].address, 7, blocks[i].size);
    }
    for (i = 0; i < 100; i++) {
        if (swing_free(blocks[i].address) != 0) {
            return -3;
        }
    }
    return swing_check_heap(area.token, &after) == 0 && after == before ? 0 : -4;
}

int main(void) {
    char line[400], *word;
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = 0;
        word = strchr(line, ' ');
        word = word == NULL ? line + strlen(line) : word + 1;
        if (strncmp(line, "hook ", 5) == 0) {
            hooked(swing_hook_named(word, 0, &area));
        } else if (strncmp(line, "published ", 10) == 0) {
            hooked(swing_hook_named(word, SWING_PUBLISHED, &area));
        } else if (strncmp(line, "origin ", 7) == 0) {
            hooked(swing_hook_named(word, SWING_AT_ORIGIN, &area));
        } else if (strncmp(line, "find ", 5) == 0) {
            printf("%d\n", found(word));
        } else if (strcmp(line, "change") == 0) {
            printf("%d\n", changed());
        } else if (strcmp(line, "wrong") == 0) {
            printf("%d %d %d %d\n", swing_hook_named(NULL, 0, &area),
                   swing_hook_named("", 0, &area), swing_hook_named("a", 64, &area),
                   swing_hook_named("a", 0, NULL));
        } else {
            return 1;
        }
    }
    return 0;
}
