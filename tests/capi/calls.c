/* What each call answers; the argument says what to test. Prints `fine`, or what is wrong. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <swing.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define EXTENT ((size_t)64 << 10)

static swing_area create(size_t length, int hookable) {
    swing_area area;
    CHECK(swing_create(length, &area) == 0 && area.length >= length && area.at_origin);
    CHECK(!hookable || swing_allow_hooks(area.token, 1) == 0);
    return area;
}

static swing_area hooked(int token, unsigned flags) {
    swing_area area;
    CHECK(swing_hook(token, flags, &area) == 0 && area.token != token);
    return area;
}

static void arguments(void) {
    swing_area area = create(1, 0), other;
    swing_block block;
    swing_stats stats;
    size_t size;
    const int no_tokens[] = {0, -1, 4096, 1 << 30};
    char *nowhere;
    size_t i;
    for (i = 0; i < 4; i++) {
        int token = no_tokens[i];
        CHECK(swing_hook(token, 0, &other) == SWING_E_ARGUMENT);
        CHECK(swing_allow_hooks(token, 1) == SWING_E_ARGUMENT);
        CHECK(swing_copy_ahead(token, 1) == SWING_E_ARGUMENT);
        CHECK(swing_publish(token) == SWING_E_ARGUMENT);
        CHECK(swing_release(token) == SWING_E_ARGUMENT);
        CHECK(swing_set_threshold(token, 1) == SWING_E_ARGUMENT);
        CHECK(swing_hold(token) == SWING_E_ARGUMENT);
        CHECK(swing_get_stats(token, &stats) == SWING_E_ARGUMENT);
        CHECK(swing_alloc(token, 1, &block) == SWING_E_ARGUMENT);
        CHECK(swing_reserved(token, &block) == SWING_E_ARGUMENT);
    }
    CHECK(swing_create(0, &other) == SWING_E_ARGUMENT);
    CHECK(swing_create((size_t)-1, &other) == SWING_E_ARGUMENT);
    CHECK(swing_create(((size_t)16 << 40) + 1, &other) == SWING_E_ARGUMENT);
    CHECK(swing_create(1, NULL) == SWING_E_ARGUMENT);
    CHECK(swing_hook(area.token, 0, NULL) == SWING_E_ARGUMENT);
    CHECK(swing_hook(area.token, 8, &other) == SWING_E_ARGUMENT);
    CHECK(swing_get_stats(area.token, NULL) == SWING_E_ARGUMENT);
    CHECK(swing_alloc(area.token, 1, NULL) == SWING_E_ARGUMENT);
    CHECK(swing_realloc(area.address, 1, NULL) == SWING_E_ARGUMENT);
    CHECK(swing_reserved(area.token, NULL) == SWING_E_ARGUMENT);
    CHECK(strstr(swing_last_error(), "null") != NULL);
    CHECK(swing_alloc(area.token, 1, &block) == 0 && swing_free(block.address) == 0);
    CHECK(swing_resume(area.token) == SWING_E_ARGUMENT);
    CHECK(swing_hold(area.token) == 0 && swing_hold(area.token) == SWING_E_ARGUMENT);
    CHECK(swing_resume(area.token) == 0 && swing_resume(area.token) == SWING_E_ARGUMENT);
    CHECK(swing_release(area.token) == 0);
    area = create((size_t)1 << 30, 0);
    CHECK(swing_alloc(area.token, 0, &block) == 0 && swing_free(block.address) == 0);
    CHECK(swing_alloc(area.token, 100, &block) == 0 && block.size >= 100);
    CHECK(swing_usable_size(block.address, &size) == 0 && size == block.size);
    nowhere = (char *)area.address + area.length - EXTENT;
    CHECK(swing_usable_size(nowhere, &size) == SWING_E_ARGUMENT);
    CHECK(swing_free(nowhere) == SWING_E_ARGUMENT);
    CHECK(swing_realloc(nowhere, 10, &block) == SWING_E_ARGUMENT);
    CHECK(swing_usable_size(block.address, NULL) == SWING_E_ARGUMENT);
    CHECK(swing_hold(area.token) == 0);
    CHECK(swing_alloc(area.token, 1, &block) == SWING_E_BUSY);
    CHECK(swing_free(block.address) == SWING_E_BUSY && swing_publish(area.token) == 0);
    CHECK(swing_allow_hooks(area.token, 1) == SWING_E_BUSY); /* both wait for each other else */
    CHECK(swing_allow_hooks(area.token, 0) == SWING_E_BUSY);
    CHECK(swing_resume(area.token) == 0);
    CHECK(swing_free(block.address) == 0 && swing_free(NULL) == 0);
    CHECK(swing_token_at(block.address) == area.token && swing_token_at(nowhere) == area.token);
}

static void names_and_copies(void) {
    char longest[257] = "";
    swing_area area = create((size_t)1 << 30, 0), copy, again;
    swing_block block, other;
    memset(longest, 'n', 256);
    CHECK(swing_set_name(area.token, longest) == SWING_E_ARGUMENT);
    CHECK(swing_find(longest) == SWING_E_ARGUMENT && swing_find("") == SWING_E_ARGUMENT);
    CHECK(swing_find(NULL) == SWING_E_ARGUMENT);
    CHECK(swing_set_name(area.token, NULL) == SWING_E_ARGUMENT);
    CHECK(swing_find("prices") == SWING_E_NOT_FOUND);
    CHECK(swing_set_name(area.token, "prices") == 0 && swing_find("prices") == area.token);
    CHECK(swing_set_name(area.token, "prices") == 0);
    CHECK(swing_alloc(area.token, 100, &block) == 0);
    strcpy(block.address, "before");
    CHECK(swing_copy(area.token, NULL) == SWING_E_ARGUMENT);
    CHECK(swing_copy(area.token, &copy) == 0 && copy.length == area.length && !copy.at_origin);
    strcpy(block.address, "after");
    other.address = (char *)copy.address + ((char *)block.address - (char *)area.address);
    CHECK(strcmp(other.address, "before") == 0);
    CHECK(swing_free(other.address) == 0 && swing_alloc(copy.token, 5000, &other) == 0);
    CHECK(swing_hook(area.token, SWING_PUBLISHED, &again) == SWING_E_REFUSED);
    CHECK(swing_hook(copy.token, 0, &again) == SWING_E_REFUSED);
    CHECK(swing_set_name(copy.token, "prices") == SWING_E_EXISTS);
    CHECK(swing_hold(area.token) == 0 && swing_copy(area.token, &again) == 0);
    CHECK(swing_resume(area.token) == 0 && swing_release(again.token) == 0);
    CHECK(swing_release(area.token) == 0 && swing_find("prices") == SWING_E_NOT_FOUND);
    CHECK(swing_copy(area.token, &again) == SWING_E_NOT_FOUND);
    CHECK(swing_set_name(area.token, "prices") == SWING_E_NOT_FOUND);
    CHECK(swing_set_name(copy.token, "prices") == 0 && swing_find("prices") == copy.token);
    CHECK(swing_set_name(copy.token, "") == 0 && swing_find("prices") == SWING_E_NOT_FOUND);
}

static void not_found(void) {
    swing_area area = create(1, 1), other;
    swing_block block;
    swing_stats stats;
    size_t size;
    int gone = area.token, here = 0;
    CHECK(swing_release(gone) == 0);
    CHECK(swing_hook(gone, 0, &other) == SWING_E_NOT_FOUND);
    CHECK(strstr(swing_last_error(), "no living process") != NULL);
    CHECK(swing_allow_hooks(gone, 1) == SWING_E_NOT_FOUND);
    CHECK(swing_copy_ahead(gone, 1) == SWING_E_NOT_FOUND);
    CHECK(swing_publish(gone) == SWING_E_NOT_FOUND && swing_hold(gone) == SWING_E_NOT_FOUND);
    CHECK(swing_release(gone) == SWING_E_NOT_FOUND);
    CHECK(swing_set_threshold(gone, 1) == SWING_E_NOT_FOUND);
    CHECK(swing_get_stats(gone, &stats) == SWING_E_NOT_FOUND);
    CHECK(swing_alloc(gone, 1, &block) == SWING_E_NOT_FOUND);
    CHECK(swing_free(&here) == SWING_E_NOT_FOUND && swing_token_at(&here) == SWING_E_NOT_FOUND);
    CHECK(swing_usable_size(&here, &size) == SWING_E_NOT_FOUND);
    CHECK(swing_writable(&here, sizeof here) == 0 && swing_writable(NULL, 0) == 0);
}

static void refused_and_taken(void) {
    swing_area area = create(1 << 20, 0), other;
    CHECK(swing_hook(area.token, 0, &other) == SWING_E_REFUSED);
    CHECK(swing_hook(area.token, SWING_PUBLISHED, &other) == SWING_E_REFUSED);
    CHECK(swing_publish(area.token) == 0 && area.published_ns == 0);
    CHECK(swing_hook(area.token, 0, &other) == SWING_E_REFUSED);
    CHECK(strstr(swing_last_error(), "SWING_PUBLISHED") != NULL);
    other = hooked(area.token, SWING_PUBLISHED);
    CHECK(!other.at_origin && other.published_ns != 0 && swing_release(other.token) == 0);
    CHECK(swing_hook(area.token, SWING_AT_ORIGIN | SWING_PUBLISHED, &other) ==
          SWING_E_ADDRESS_TAKEN);
    CHECK(swing_allow_hooks(area.token, 0) == 0);
    CHECK(swing_hook(area.token, SWING_PUBLISHED, &other) == SWING_E_REFUSED);
    CHECK(swing_hook(area.token, 0, &other) == SWING_E_REFUSED);
    CHECK(swing_allow_hooks(area.token, 1) == 0 && swing_hook(area.token, 0, &other) == 0);
    CHECK(swing_is_fresh(other.token) == 1 && swing_is_fresh(area.token) == 0);
    other = hooked(area.token, SWING_PUBLISHED);
    CHECK(swing_is_fresh(other.token) == 0);
    CHECK(swing_hook(area.token, SWING_PUBLISHED | SWING_STALE, &other) == SWING_E_ARGUMENT);
    other = hooked(area.token, SWING_STALE);
    CHECK(swing_is_fresh(other.token) == 1);
    CHECK(swing_pin(area.address, 10) == 0 && swing_publish(area.token) == SWING_E_BUSY);
    CHECK(swing_hook(area.token, 0, &other) == SWING_E_STALE);
    CHECK(strstr(swing_last_error(), "pinned") != NULL);
    CHECK(swing_unpin(area.address, 10) == 0 && swing_publish(area.token) == 0);
    CHECK(swing_unpin(area.address, 10) == SWING_E_ARGUMENT);
}

static void shortage(void) {
    swing_area area = create((size_t)1 << 30, 0), other;
    swing_block block, large;
    struct rlimit limit;
    CHECK(swing_alloc(area.token, (size_t)1 << 40, &block) == SWING_E_NO_MEMORY);
    CHECK(swing_alloc(area.token, 500, &block) == 0);
    memset(block.address, 'x', 500);
    CHECK(swing_realloc(block.address, (size_t)1 << 40, &large) == SWING_E_NO_MEMORY);
    CHECK(((char *)block.address)[499] == 'x' && swing_free(block.address) == 0);
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = (rlim_t)8 << 30;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    CHECK(swing_create((size_t)1 << 40, &other) == SWING_E_NO_ADDRESSES);
    other = create(1 << 20, 1);
    *(char *)other.address = 1;
}

static atomic_int stop;

/* Stores the same number into two extents, one after the other, for ever. */
static void *store_pairs(void *address) {
    volatile long *a = address, *b = (volatile long *)((char *)address + 3 * EXTENT);
    long i;
    for (i = 1; !stop; i++) {
        *a = i;
        *b = i;
    }
    return NULL;
}

static void *hold_and_end(void *token) {
    CHECK(swing_hold(*(int *)token) == 0);
    return NULL;
}

static void *resume_anothers(void *token) {
    CHECK(swing_resume(*(int *)token) == SWING_E_ARGUMENT);
    return NULL;
}

static void in_thread(void *(*what)(void *), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, what, argument) == 0 && pthread_join(thread, NULL) == 0);
}

static volatile long *number_at(const swing_area *area, size_t extent) {
    return (volatile long *)((char *)area->address + extent * EXTENT);
}

/* Hooks while another thread is in the middle of a change: it is seen whole, or not at all. */
static void *hook_meanwhile(void *token) {
    swing_area copy = hooked(*(int *)token, 0);
    CHECK(*number_at(&copy, 7) == *number_at(&copy, 9));
    CHECK(swing_release(copy.token) == 0);
    return NULL;
}

static void hold(void) {
    swing_area area = create(1 << 20, 1), copy;
    volatile long *a = number_at(&area, 0), *b = number_at(&area, 3);
    pthread_t thread, hooking;
    long round;
    CHECK(pthread_create(&thread, NULL, store_pairs, area.address) == 0);
    while (*b == 0) { /* a first touch by the holder would open the extent to all */
        usleep(100);
    }
    for (round = 1; round <= 60; round++) {
        long before;
        copy = hooked(area.token, 0);
        before = *number_at(&copy, 0);
        CHECK(*number_at(&copy, 3) == before || *number_at(&copy, 3) == before - 1);
        CHECK(swing_release(copy.token) == 0);
        CHECK(swing_hold(area.token) == 0);
        before = *a;
        *number_at(&area, 7) = round;
        CHECK(pthread_create(&hooking, NULL, hook_meanwhile, &area.token) == 0);
        usleep(500);
        *number_at(&area, 9) = round;
        CHECK(*a == before && (*b == before || *b == before - 1));
        CHECK(swing_publish(area.token) == 0);
        copy = hooked(area.token, SWING_PUBLISHED);
        CHECK(*a == before && swing_resume(area.token) == 0);
        CHECK(*number_at(&copy, 0) == before && *number_at(&copy, 9) == round);
        CHECK(swing_release(copy.token) == 0 && pthread_join(hooking, NULL) == 0);
        while (*a == before) {
        }
    }
    in_thread(hold_and_end, &area.token);
    CHECK(swing_hold(area.token) == 0);
    in_thread(resume_anothers, &area.token);
    CHECK(swing_resume(area.token) == 0);
    stop = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(swing_hold(area.token) == 0 && swing_release(area.token) == 0);
    CHECK(swing_resume(area.token) == SWING_E_ARGUMENT);
}

static swing_stats stats_of(int token) {
    swing_stats stats;
    CHECK(swing_get_stats(token, &stats) == 0 && stats.mapped == stats.own + stats.foreign);
    return stats;
}

/* Memory after stores to k extents is that of k extents more. */
static void memory_taken(void) {
    swing_area area = create((size_t)32 << 20, 1), copy;
    swing_stats of_area, of_copy;
    char *at = area.address;
    size_t i, k = 9;
    memset(at, 'o', (size_t)8 << 20);
    of_area = stats_of(area.token);
    CHECK(of_area.own == (uint64_t)8 << 20 && of_area.foreign == 0 && of_area.retired == 0);
    copy = hooked(area.token, 0);
    of_copy = stats_of(copy.token);
    CHECK(of_copy.foreign == (uint64_t)8 << 20 && of_copy.own == 0);
    for (i = 0; i < k; i++) {
        ((char *)copy.address)[i * 3 * EXTENT + i] = 'c';
        at[i * 5 * EXTENT + i] = 'a';
    }
    of_area = stats_of(area.token);
    of_copy = stats_of(copy.token);
    CHECK(of_copy.own == k * EXTENT && of_copy.foreign == ((uint64_t)8 << 20) - k * EXTENT);
    CHECK(of_copy.copied == k * EXTENT && of_area.copied == k * EXTENT);
    CHECK(of_area.own == (uint64_t)8 << 20 && of_area.retired == k * EXTENT);
    /* Who stores again to what is his pays nothing. */
    for (i = 0; i < k; i++) {
        at[i * 5 * EXTENT + i] = 'b';
    }
    CHECK(stats_of(area.token).copied == k * EXTENT);
}

static void threshold(void) {
    swing_area area = create((size_t)16 << 20, 1), copy, other;
    size_t i;
    memset(area.address, 'o', (size_t)4 << 20);
    CHECK(swing_set_threshold(area.token, 4 * EXTENT) == 0);
    copy = hooked(area.token, 0);
    for (i = 0; i < 4; i++) {
        ((char *)area.address)[i * EXTENT] = 'a';
    }
    other = hooked(area.token, 0); /* up to the threshold, not over it */
    CHECK(swing_release(other.token) == 0);
    ((char *)area.address)[5 * EXTENT] = 'a';
    CHECK(swing_hook(area.token, 0, &other) == SWING_E_REFUSED);
    CHECK(((char *)copy.address)[5 * EXTENT] == 'o');
    CHECK(swing_set_threshold(area.token, 0) == 0);
    other = hooked(area.token, 0);
    CHECK(swing_set_threshold(area.token, 4 * EXTENT) == 0);
    CHECK(swing_release(other.token) == 0 && swing_release(copy.token) == 0);
    other = hooked(area.token, 0); /* what was kept for them has come free */
    CHECK(((char *)other.address)[0] == 'a');
}

static void in_child(swing_area area, char *block) {
    swing_area mine, copy;
    swing_block other;
    swing_stats stats;
    char *at = area.address;
    CHECK(at[5] == 'p' && block[0] == 'b');
    at[5] = 'c', block[0] = 'c'; /* private */
    CHECK(swing_publish(area.token) == SWING_E_FORKED);
    CHECK(swing_allow_hooks(area.token, 0) == SWING_E_FORKED);
    CHECK(swing_copy_ahead(area.token, 1) == SWING_E_FORKED);
    CHECK(swing_release(area.token) == SWING_E_FORKED);
    CHECK(swing_hold(area.token) == SWING_E_FORKED);
    CHECK(swing_set_threshold(area.token, 1) == SWING_E_FORKED);
    CHECK(swing_get_stats(area.token, &stats) == SWING_E_FORKED);
    CHECK(swing_alloc(area.token, 10, &other) == SWING_E_FORKED);
    CHECK(swing_free(block) == SWING_E_FORKED && swing_token_at(block) == SWING_E_FORKED);
    CHECK(swing_release(4095) == SWING_E_NOT_FOUND || area.token == 4095);
    copy = hooked(area.token, 0);
    CHECK(((char *)copy.address)[5] == 'p');
    mine = create(1 << 20, 1);
    CHECK(mine.token != area.token && mine.token != copy.token);
    strcpy(mine.address, "mine");
    at[5] = 'd';
    CHECK(swing_release(mine.token) == 0);
}

static void after_fork(void) {
    swing_area area = create((size_t)1 << 30, 1), other;
    swing_block block;
    int status, round;
    pid_t child;
    CHECK(swing_alloc(area.token, 100, &block) == 0);
    other = create(1 << 20, 1);
    for (round = 0; round < 2; round++) {
        ((char *)other.address)[5] = 'p', *(char *)block.address = 'b';
        child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            in_child(other, block.address);
            if (round == 1) { /* and its child */
                child = fork();
                if (child == 0) {
                    CHECK(swing_publish(other.token) == SWING_E_FORKED);
                    _exit(7);
                }
                CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
            }
            exit(0); /* an orderly end, which releases nothing of the parent's */
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        CHECK(((char *)other.address)[5] == 'p' && *(char *)block.address == 'b');
    }
    CHECK(swing_release(hooked(other.token, 0).token) == 0);
    CHECK(swing_publish(other.token) == 0 && swing_free(block.address) == 0);
    CHECK(swing_release(other.token) == 0 && swing_release(area.token) == 0);
}

#define THREADS 8
static int rounds = 25;
static atomic_int tokens[THREADS];

/* Each makes areas, and hooks those of the others while these store. */
static void *make_and_hook(void *number) {
    int me = (int)(intptr_t)number, round;
    for (round = 0; round < rounds; round++) {
        swing_area area = create((size_t)(me % 2 ? 1 : 70) << 20, 1), copy;
        volatile long *a = area.address, *b = (volatile long *)((char *)a + 200000);
        int other = tokens[(me + round) % THREADS], status, i;
        tokens[me] = area.token;
        for (i = 0; i < 200; i++) {
            *a = i, *b = i;
        }
        status = other == 0 ? SWING_E_NOT_FOUND : swing_hook(other, 0, &copy);
        CHECK(status == 0 || status == SWING_E_NOT_FOUND || status == SWING_E_REFUSED);
        if (status == 0) {
            long x = *(long *)copy.address, y = *(long *)((char *)copy.address + 200000);
            CHECK(x == y || x == y + 1);
            CHECK(swing_release(copy.token) == 0);
        }
        CHECK(*a == 199 && *b == 199);
        tokens[me] = 0;
        CHECK(swing_release(area.token) == 0);
    }
    return NULL;
}

static swing_area heap;
static atomic_int copies;

static void *allocate(void *number) {
    unsigned seed = (unsigned)(intptr_t)number;
    swing_block blocks[64] = {{0, 0}};
    while (!stop) {
        swing_block *one = &blocks[rand_r(&seed) % 64];
        if (one->address == NULL) {
            CHECK(swing_alloc(heap.token, 1 + (size_t)rand_r(&seed) % 3000, one) == 0);
            memset(one->address, 'h', one->size);
        } else if (rand_r(&seed) % 4 == 0) {
            CHECK(swing_realloc(one->address, 1 + (size_t)rand_r(&seed) % 9000, one) == 0);
            CHECK(*(char *)one->address == 'h');
        } else {
            CHECK(swing_free(one->address) == 0);
            one->address = NULL;
        }
    }
    return NULL;
}

/* A heap that is hooked in the middle of allocations is whole; holding it hurts nobody. */
static void *use_copies(void *unused) {
    int round;
    for (round = 0; round < rounds; round++) {
        CHECK(swing_hold(heap.token) == 0);
        usleep(100);
        CHECK(swing_publish(heap.token) == 0 && swing_resume(heap.token) == 0);
        swing_area copy = hooked(heap.token, 0);
        swing_block blocks[20];
        int i;
        for (i = 0; i < 20; i++) {
            CHECK(swing_alloc(copy.token, 700, &blocks[i]) == 0);
            memset(blocks[i].address, 'x', 700);
        }
        for (i = 0; i < 20; i++) {
            CHECK(swing_free(blocks[i].address) == 0);
        }
        CHECK(swing_release(copy.token) == 0);
        copies++;
    }
    stop = 1;
    return unused;
}

static void threads(void) {
    pthread_t all[THREADS];
    intptr_t i;
    for (i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&all[i], NULL, make_and_hook, (void *)i) == 0);
    }
    for (i = 0; i < THREADS; i++) {
        CHECK(pthread_join(all[i], NULL) == 0);
    }
    heap = create((size_t)1 << 30, 1);
    for (i = 0; i < 4; i++) {
        CHECK(pthread_create(&all[i], NULL, i == 0 ? use_copies : allocate, (void *)i) == 0);
    }
    for (i = 0; i < 4; i++) {
        CHECK(pthread_join(all[i], NULL) == 0);
    }
    CHECK(copies == rounds && swing_release(heap.token) == 0);
}

/* The number that a call gives in a namespace that somebody has spoilt. */
static void answers(char **words) {
    swing_area area;
    int token = words[1] == NULL ? 0 : atoi(words[1]);
    int answer = strcmp(words[0], "creating") == 0     ? swing_create(1, &area)
                 : strcmp(words[0], "hooking") == 0    ? swing_hook(token, SWING_PUBLISHED, &area)
                 : strcmp(words[0], "finding") == 0    ? swing_find(words[1])
                 : strcmp(words[0], "collecting") == 0 ? swing_collect()
                                                       : -99;
    printf("%d %s\n", answer, answer < 0 ? swing_last_error() : "");
    exit(0);
}

/* Publishes, says the token, and then does what each line of input says. */
static void serve(void) {
    swing_area area = create(8 << 20, 1), other;
    char line[64];
    memset(area.address, 's', 1 << 20);
    CHECK(swing_publish(area.token) == 0);
    printf("%d\n", area.token);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        int answer = strncmp(line, "create", 6) == 0    ? swing_create(1, &other)
                     : strncmp(line, "publish", 7) == 0 ? swing_publish(area.token)
                     : strncmp(line, "hook", 4) == 0    ? swing_hook(area.token, 0, &other)
                     : strncmp(line, "store", 5) == 0   ? (memset(area.address, 't', 1 << 20), 0)
                     : strncmp(line, "name", 4) == 0    ? swing_set_name(area.token, "served")
                     : strncmp(line, "release", 7) == 0 ? swing_release(area.token)
                                                        : -99;
        printf("%d %s\n", answer, answer < 0 ? swing_last_error() : "");
        fflush(stdout);
    }
    exit(0);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*test)(void);
    } all[] = {
        {"arguments", arguments}, {"not_found", not_found}, {"refused", refused_and_taken},
        {"shortage", shortage},   {"hold", hold},           {"memory", memory_taken},
        {"threshold", threshold}, {"fork", after_fork},     {"threads", threads},
        {"names", names_and_copies},
    };
    size_t i;
    const char *wanted = argc > 1 ? argv[1] : "";
    if (getenv("ROUNDS") != NULL) {
        rounds = atoi(getenv("ROUNDS"));
    }
    if (strcmp(wanted, "serve") == 0) {
        serve();
    }
    for (i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(wanted, all[i].name) == 0) {
            all[i].test();
            printf("fine\n");
            return 0;
        }
    }
    if (argc > 1) {
        answers(argv + 1);
    }
    return 2;
}
