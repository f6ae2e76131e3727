/* Handlers of forks that use the heap, of a library (compiled with LIBRARY) that begins before the
   preloaded one, and a program that forks beside threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BEFORE, IN_PARENT, IN_CHILD, BLOCKS = 64, FORKS = 50, SECONDS = 20 };

extern int calls[3];

#ifdef LIBRARY
int calls[3];
static char *kept[BLOCKS];

static void work(int which) {
    for (int i = 0; i < BLOCKS; i++) {
        size_t len = (size_t)16 << (i % 20);
        free(kept[i]);
        kept[i] = malloc(len);
        memset(kept[i], which, len);
    }
    kept[0] = realloc(kept[0], 100000);
    kept[0][99999] = 1;
    calls[which]++;
}

static void before(void) { work(BEFORE); }
static void in_parent(void) { work(IN_PARENT); }
static void in_child(void) { work(IN_CHILD); }

__attribute__((constructor)) static void begin(void) {
    pthread_atfork(before, in_parent, in_child);
}
#else
static void *churn(void *arg) {
    for (unsigned i = 0;; i++)
        free(malloc(i % 5000));
    return arg;
}

int main(void) {
    pthread_t thread;
    alarm(SECONDS);
    for (int i = 0; i < FORKS; i++) {
        int status = -1;
        if (i == FORKS / 2)
            pthread_create(&thread, NULL, churn, NULL);
        if (fork() == 0) {
            alarm(SECONDS);
            char *block = malloc(100000);
            block[99999] = 1;
            free(block);
            _exit(calls[IN_CHILD] == 1 ? 0 : 1);
        }
        if (wait(&status) < 0 || status != 0) {
            printf("child %d: %d\n", i, status);
            return 1;
        }
    }
    printf("%d %d %d\n", calls[BEFORE], calls[IN_PARENT], calls[IN_CHILD]);
    return 0;
}
#endif
