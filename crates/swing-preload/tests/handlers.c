/* Handlers of forks that use the heap, of a library (compiled with LIBRARY) that begins before the
   preloaded one, and a program that forks beside threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BEFORE, IN_PARENT, IN_CHILD, BLOCKS = 64, FORKS = 20, SECONDS = 60 };

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
#include "children.h"

static void *churn(void *arg) {
    for (unsigned i = 0;; i++)
        free(malloc(i % 5000));
    return arg;
}

static int allocate(void) {
    char *block = malloc(100000);
    block[99999] = 1;
    free(block);
    return calls[IN_CHILD] == 1 ? 0 : 1;
}

int main(void) {
    pthread_t thread;
    alarm(SECONDS);
    if (!all_end(FORKS / 2, SECONDS, allocate))
        return 1;
    pthread_create(&thread, NULL, churn, NULL);
    if (!all_end(FORKS / 2, SECONDS, allocate))
        return 1;
    printf("%d %d %d\n", calls[BEFORE], calls[IN_PARENT], calls[IN_CHILD]);
    return 0;
}
#endif
