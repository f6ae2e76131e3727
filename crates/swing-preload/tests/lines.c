/* Forks while other threads read lines, which allocates under a file's lock, and flush all files. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
    for (int i = 0; i < FORKS; i++) {
        int status = -1;
        if (fork() == 0) {
            alarm(SECONDS);
            free(malloc(1000));
            fflush(NULL);
            _exit(0);
        }
        if (wait(&status) < 0 || status != 0) {
            printf("child %d: %d\n", i, status);
            return 1;
        }
    }
    puts("all have ended");
    return 0;
}
