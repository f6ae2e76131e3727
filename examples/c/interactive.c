/* A producer or consumer that does what it is told, in the shape of the original library. Reads
 * lines: create LEN, hook TOKEN, enable, disable, write OFFSET WORD, read OFFSET, release, quit.
 * Prints one line for each: what was asked for, `ok`, or `-1`. */
#include <stdio.h>
#include <string.h>
#include <swing.h>

static void say(int status) {
    printf(status == 0 ? "ok\n" : "-1\n");
}

int main(void) {
    char line[256], word[128];
    void *addr = NULL;
    int token = 0, other;
    unsigned long at;
    while (fgets(line, sizeof line, stdin) != NULL && strncmp(line, "quit", 4) != 0) {
        if (sscanf(line, "create %lu", &at) == 1) {
            printf("%d\n", createarea(&addr, &token, at) == 0 ? token : -1);
        } else if (sscanf(line, "hook %d", &other) == 1) {
            printf("%d\n", hook(&addr, &token, other) == 0 ? token : -1);
        } else if (strncmp(line, "enable", 6) == 0) {
            say(enablehook(token));
        } else if (strncmp(line, "disable", 7) == 0) {
            say(disablehook(token));
        } else if (sscanf(line, "write %lu %127s", &at, word) == 2) {
            strcpy((char *)addr + at, word);
            say(0);
        } else if (sscanf(line, "read %lu", &at) == 1) {
            printf("%s\n", (char *)addr + at);
        } else if (strncmp(line, "release", 7) == 0) {
            say(releasearea(token));
        } else {
            printf("?\n");
        }
        fflush(stdout);
    }
    return 0;
}
