/* Frees what may not be freed.
 *
 *     misuse WHAT LENGTH */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So that the compiler does not know what becomes of a block. */
static char *volatile block;

int main(int argc, char **argv) {
    if (argc != 3) {
        return 2;
    }
    const char *what = argv[1];
    size_t length = strtoul(argv[2], NULL, 10);
    block = malloc(length);
    if (!block) {
        return 3;
    }
    /* What is longer and has memory is given back at once: a thread of the library might have it
     * by the time it is freed again. */
    if (length <= 1 << 20) {
        memset(block, 1, length);
    }
#define IS(name) (strcmp(what, name) == 0)
    if (IS("once")) {
        free(block);
    } else if (IS("twice")) {
        free(block);
        free(block);
    } else if (IS("by realloc")) {
        free(block);
        block = realloc(block, 3 * length);
    } else if (IS("by realloc in place")) {
        free(block);
        block = realloc(block, length - length / 10);
    } else if (IS("realloc in place")) {
        block = realloc(block, length - length / 10);
    } else if (IS("one byte inside")) {
        block += 1;
        free(block);
    } else if (IS("in the middle")) {
        block += length / 2 / 16 * 16;
        free(block);
    }
    puts("goes on");
    return 0;
}
