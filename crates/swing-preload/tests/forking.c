/* Forks while other threads begin and end all the time; each child starts a thread, too. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

int main(void) {
    pthread_t thread;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread, NULL, start_many, NULL);
    for (int i = 0; i < FORKS; i++) {
        int status = -1;
        if (fork() == 0) {
            alarm(SECONDS);
            start_one();
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
