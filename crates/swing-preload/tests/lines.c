/* Forks while other threads read lines, which allocates under a file's lock, and flush files. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "children.h"

enum { READERS = 3, FLUSHERS = 2, FORKS = 300, SECONDS = 20 };

static FILE *shared;

static void *read_lines(void *arg) {
    for (;;) {
        char *line = NULL;
        size_t len = 0;
        if (getline(&line, &len, shared) < 0)
            rewind(shared);
        free(line);
    }
    return arg;
}

static void *flush_all(void *arg) {
    for (;;)
        fflush(NULL);
    return arg;
}

static int in_child(void) {
    free(malloc(1000));
    fflush(NULL);
    return 0;
}

int main(void) {
    pthread_t thread;
    shared = tmpfile();
    for (int i = 0; i < 100; i++)
        fprintf(shared, "line %d\n", i);
    for (int i = 0; i < READERS; i++)
        pthread_create(&thread, NULL, read_lines, NULL);
    for (int i = 0; i < FLUSHERS; i++)
        pthread_create(&thread, NULL, flush_all, NULL);
    alarm(SECONDS);
    if (!all_end(FORKS, SECONDS, in_child))
        return 1;
    puts("all have ended");
    return 0;
}
