/* A thread that waits for something in the heap, made for several processes. Says "ready" when it
 * waits, stores beside it until its input ends, and then wakes it. */
#define _GNU_SOURCE
#include <assert.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct shared {
    unsigned beside;
    unsigned futex;
    sem_t semaphore;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    int is_told;
    pthread_barrier_t barrier;
    pthread_rwlock_t lock;
} *shared;

static const char *way;

static int is_way(const char *name)
{
    return strcmp(way, name) == 0;
}

static void *waits(void *none)
{
    if (is_way("futex")) {
        while (__atomic_load_n(&shared->futex, __ATOMIC_ACQUIRE) == 0)
            syscall(SYS_futex, &shared->futex, FUTEX_WAIT, 0, NULL, NULL, 0);
    } else if (is_way("semaphore")) {
        sem_wait(&shared->semaphore);
    } else if (is_way("condition")) {
        pthread_mutex_lock(&shared->mutex);
        while (!shared->is_told)
            pthread_cond_wait(&shared->condition, &shared->mutex);
        pthread_mutex_unlock(&shared->mutex);
    } else if (is_way("barrier")) {
        pthread_barrier_wait(&shared->barrier);
    } else {
        pthread_rwlock_wrlock(&shared->lock);
        pthread_rwlock_unlock(&shared->lock);
        pthread_mutex_lock(&shared->mutex);
        pthread_mutex_unlock(&shared->mutex);
    }
    return none;
}

static void wake(void)
{
    if (is_way("futex")) {
        __atomic_store_n(&shared->futex, 1, __ATOMIC_RELEASE);
        assert(syscall(SYS_futex, &shared->futex, FUTEX_WAKE, 1, NULL, NULL, 0) == 1);
    } else if (is_way("semaphore")) {
        sem_post(&shared->semaphore);
    } else if (is_way("condition")) {
        pthread_mutex_lock(&shared->mutex);
        shared->is_told = 1;
        pthread_cond_signal(&shared->condition);
        pthread_mutex_unlock(&shared->mutex);
    } else if (is_way("barrier")) {
        pthread_barrier_wait(&shared->barrier);
    } else {
        pthread_rwlock_unlock(&shared->lock);
        usleep(50000);
        pthread_mutex_unlock(&shared->mutex);
    }
}

static void make(void)
{
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    pthread_barrierattr_t barrier;
    pthread_rwlockattr_t lock;
    shared = calloc(1, sizeof *shared);
    assert(sem_init(&shared->semaphore, 1, 0) == 0);
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    assert(pthread_mutex_init(&shared->mutex, &mutex) == 0);
    pthread_condattr_init(&condition);
    pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
    assert(pthread_cond_init(&shared->condition, &condition) == 0);
    pthread_barrierattr_init(&barrier);
    pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
    assert(pthread_barrier_init(&shared->barrier, &barrier, 2) == 0);
    pthread_rwlockattr_init(&lock);
    pthread_rwlockattr_setpshared(&lock, PTHREAD_PROCESS_SHARED);
    assert(pthread_rwlock_init(&shared->lock, &lock) == 0);
}

int main(int argc, char **argv)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    pthread_t thread;
    way = argc > 1 ? argv[1] : "futex";
    make();
    if (is_way("lock")) {
        pthread_rwlock_wrlock(&shared->lock);
        pthread_mutex_lock(&shared->mutex);
    }
    assert(pthread_create(&thread, NULL, waits, NULL) == 0);
    usleep(50000);
    puts("ready");
    fflush(stdout);
    while (poll(&input, 1, 1) == 0)
        shared->beside++;
    /* A wake-up that is missed ends the program. */
    alarm(20);
    wake();
    pthread_join(thread, NULL);
    puts("woken");
    return 0;
}
