/* malloc's whole family as its users know it: what each call gives for good, odd and impossible
 * arguments, and what the heap says about itself. With `lines` it says what must be the same with
 * any allocator; with `heap` it looks at what only this one promises. */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile size_t huge = SIZE_MAX;

static void say(const char *what, const void *block) {
    printf("%s %s %d\n", what, block ? "block" : "null", block ? 0 : errno);
    errno = 0;
}

static int filled(const unsigned char *at, int value, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (at[i] != value) {
            return 0;
        }
    }
    return 1;
}

static void impossible(void) {
    void *block = (void *)7;
    errno = 0;
    say("malloc", malloc(huge));
    say("malloc of half", malloc(huge / 2));
    say("calloc", calloc(huge / 2, 3));
    say("reallocarray", reallocarray(NULL, huge / 2, 3));
    say("aligned_alloc", aligned_alloc((size_t)1 << 63, 10));
    say("memalign", memalign(huge - 5, 10));
    say("pvalloc", pvalloc(huge - 5));
    for (size_t align = 0; align < 5; align++) {
        printf("posix_memalign %zu: %d\n", align, posix_memalign(&block, align, 10));
    }
    printf("posix_memalign: %d\n", posix_memalign(&block, 64, huge));
    printf("the pointer is as it was: %d\n", block == (void *)7);
    block = malloc(100);
    memset(block, 5, 100);
    void *moved = realloc(block, huge / 2);
    say("realloc", moved);
    if (moved == NULL) {
        printf("the block stays: %d\n", filled(block, 5, 100));
        free(block);
    }
}

static void possible(void) {
    for (size_t length = 0; length < 3000000; length = length * 3 + 1) {
        for (size_t align = 8; align <= 65536; align *= 4) {
            void *blocks[3] = {memalign(align, length), aligned_alloc(align, length), NULL};
            assert(posix_memalign(&blocks[2], align, length) == 0);
            for (int i = 0; i < 3; i++) {
                assert(blocks[i] && (uintptr_t)blocks[i] % align == 0);
                assert(malloc_usable_size(blocks[i]) >= length);
                memset(blocks[i], 7, malloc_usable_size(blocks[i]));
            }
            /* Also an aligned block can be made longer and shorter. */
            blocks[0] = realloc(blocks[0], length * 2 + 1);
            assert(blocks[0] && filled(blocks[0], 7, length));
            for (int i = 0; i < 3; i++) {
                free(blocks[i]);
            }
        }
        unsigned char *zeros = calloc(1, length), *grown = malloc(length);
        assert(zeros && grown && filled(zeros, 0, length));
        memset(grown, 9, length);
        grown = reallocarray(grown, 3, length + 1);
        assert(grown && filled(grown, 9, length));
        grown = realloc(grown, length / 2 + 1);
        assert(grown && filled(grown, 9, length / 2));
        free(zeros);
        free(grown);
    }
    assert((uintptr_t)memalign(48, 10) % 64 == 0 && memalign(0, 10) != NULL);
    assert((uintptr_t)valloc(10) % 4096 == 0 && malloc_usable_size(pvalloc(10)) >= 4096);
    assert(malloc_usable_size(NULL) == 0 && realloc(malloc(10), 0) == NULL);
    void *none = malloc(0), *other = malloc(0);
    assert(none && other && none != other);
    free(none);
    free(other);
    free(NULL);
    errno = 77;
    free(malloc(5000000));
    printf("errno after free: %d\n", errno);
}

static void *work(void *seed) {
    unsigned random = (unsigned)(uintptr_t)seed;
    unsigned char *blocks[64] = {0};
    size_t lengths[64] = {0};
    for (int i = 0; i < 40000; i++) {
        random = random * 1664525 + 1013904223;
        unsigned at = random >> 26, length = (random >> 8) % 6000;
        if (blocks[at]) {
            assert(filled(blocks[at], (int)at, lengths[at]));
        }
        blocks[at] = realloc(blocks[at], length + 1);
        assert(blocks[at]);
        memset(blocks[at], (int)at, lengths[at] = length + 1);
    }
    for (int at = 0; at < 64; at++) {
        free(blocks[at]);
    }
    return NULL;
}

static void threads(void) {
    pthread_t running[8];
    for (uintptr_t i = 0; i < 8; i++) {
        assert(pthread_create(&running[i], NULL, work, (void *)(i + 1)) == 0);
    }
    for (int i = 0; i < 8; i++) {
        assert(pthread_join(running[i], NULL) == 0);
    }
    puts("threads: done");
}

/* More than ten extents full. */
enum { MANY = 1200 };

static void heap(void) {
    size_t before = mallinfo2().uordblks;
    /* Volatile: a compiler may leave out blocks of which nothing is read. */
    unsigned char *volatile blocks[MANY], *volatile large = malloc(100 << 20);
    memset(large, 1, 100 << 20);
    for (int i = 0; i < MANY; i++) {
        memset(blocks[i] = malloc(20000), 1, 20000);
    }
    struct mallinfo2 now = mallinfo2();
    assert(now.uordblks >= before + (100 << 20) + MANY * 20000);
    assert(now.arena == now.uordblks + now.fordblks && now.hblkhd == 0);
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    assert((size_t)mallinfo().uordblks >= now.uordblks);
    free(large);
    /* Those freed last are cached: each in an extent of its own, of which nothing else is left. */
    for (int apart = 0; apart < 2; apart++) {
        for (int i = 0; i < MANY; i++) {
            if ((i % 120 == 60) == apart) {
                free(blocks[i]);
            }
        }
    }
    assert(mallinfo2().uordblks < now.uordblks - (100 << 20) - 100 * 20000);
    assert(malloc_trim(0) == 1 && malloc_trim(0) == 0);
    assert(mallinfo2().fordblks <= now.fordblks + (1 << 20));
    assert(mallopt(M_ARENA_MAX, 1) == 1 && mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1);
    assert(mallopt(0, 1) == 0 && mallopt(99, 1) == 0);
    assert(malloc_info(1, stdout) == -1 && errno == EINVAL);
    assert(malloc_info(0, stdout) == 0);
    fflush(stdout);
    malloc_stats();
    puts("heap: done");
}

int main(int count, char **arguments) {
    assert(count == 2);
    if (strcmp(arguments[1], "heap") == 0) {
        heap();
        return 0;
    }
    impossible();
    possible();
    threads();
    return 0;
}
