/* Forks while other threads begin and end all the time; each child starts a thread, too. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "children.h"

enum { THREADS = 8, FORKS = 400, SECONDS = 20 };

static void *work(void *arg) {
    char *block = malloc(100000), line[100];
    memset(block, 1, 100000);
    FILE *file = fopen("/proc/self/stat", "r");
    if (file == NULL || fgets(line, sizeof line, file) == NULL)
        _exit(2);
    fclose(file);
    free(block);
    return arg;
}

static void start_one(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) != 0)
        _exit(3);
    pthread_join(thread, NULL);
}

static void *start_many(void *arg) {
    for (;;)
        start_one();
    return arg;
}

static int in_child(void) {
    start_one();
    return 0;
}

int main(void) {
    pthread_t thread;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread, NULL, start_many, NULL);
    if (!all_end(FORKS, SECONDS, in_child))
        return 1;
    puts("all have ended");
    return 0;
}
