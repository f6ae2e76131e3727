/* The allocator as programs in C and C++ use it: areas of any length, aligned blocks, its shape,
 * its numbers, its checker, and what it says to mistakes. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <swing.h>

#include "check.h"

#define MIB ((size_t)1 << 20)

static swing_area create(size_t length) {
    swing_area area;
    CHECK(swing_create(length, &area) == 0);
    return area;
}

static swing_block allocated(int token, size_t size) {
    swing_block block;
    CHECK(swing_alloc(token, size, &block) == 0 && block.size >= size);
    return block;
}

static int says(const char *part) {
    return strstr(swing_last_error(), part) != NULL;
}

/* Also the shortest areas have an allocator, and a hooked one goes on with it. */
static void any_length(void) {
    const size_t lengths[] = {1, 4096, 256 << 10, 2 * MIB, 3 * MIB, 64 * MIB, 65 * MIB, 1 << 30};
    size_t i;
    for (i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        swing_area area = create(lengths[i]), theirs;
        swing_block small = allocated(area.token, 100), large = allocated(area.token, 300000);
        swing_block reserved, next;
        size_t blocks = 99, offset = (size_t)((char *)small.address - (char *)area.address);
        memset(large.address, 7, large.size);
        memset(small.address, 5, small.size);
        CHECK(swing_reserved(area.token, &reserved) == 0 && reserved.size >= 65536);
        CHECK(swing_check_heap(area.token, &blocks) == 0 && blocks == 2);
        CHECK(swing_allow_hooks(area.token, 1) == 0 && swing_hook(area.token, 0, &theirs) == 0);
        CHECK(swing_free(small.address) == 0 && swing_free(large.address) == 0);
        CHECK(swing_check_heap(area.token, &blocks) == 0 && blocks == 0);
        CHECK(swing_check_heap(theirs.token, &blocks) == 0 && blocks == 2);
        CHECK(*((char *)theirs.address + offset) == 5);
        next = allocated(theirs.token, 5000);
        memset(next.address, 9, next.size);
        CHECK(swing_free((char *)theirs.address + offset) == 0);
        CHECK(swing_check_heap(theirs.token, NULL) == 0);
        CHECK(swing_release(theirs.token) == 0 && swing_release(area.token) == 0);
    }
}

/* Until it is full, and again after everything was freed. */
static void full(void) {
    swing_area area = create(2 * MIB);
    swing_block blocks[2000], none;
    swing_heap_stats empty, stats;
    size_t rounds, count, sum;
    for (rounds = 0; rounds < 3; rounds++) {
        const size_t sizes[] = {1000, 20000, 60000};
        count = sum = 0;
        while (count < 2000 && swing_alloc(area.token, sizes[rounds], &blocks[count]) == 0) {
            memset(blocks[count].address, (int)count & 255, blocks[count].size);
            sum += blocks[count++].size;
        }
        CHECK(sum > MIB / 2);
        while (count < 2000 && swing_alloc(area.token, 16, &none) == 0) {
            memset(none.address, (int)count & 255, none.size);
            blocks[count++] = none;
        }
        CHECK(swing_get_heap_stats(area.token, &stats) == 0 && stats.used >= sum);
        CHECK(stats.used <= stats.capacity && stats.capacity + stats.metadata <= area.length + MIB);
        CHECK(swing_alloc(area.token, MIB, &none) == SWING_E_NO_MEMORY);
        CHECK(swing_check_heap(area.token, NULL) == 0);
        while (count > 0) {
            count--;
            CHECK(*(unsigned char *)blocks[count].address == (count & 255));
            CHECK(swing_free(blocks[count].address) == 0);
        }
        CHECK(swing_get_heap_stats(area.token, &empty) == 0 && empty.used == 0);
        CHECK(empty.largest <= empty.capacity && empty.largest >= 65536);
    }
    CHECK(swing_release(area.token) == 0);
}

static void aligned(void) {
    swing_area area = create(1 << 30);
    swing_block block;
    size_t alignment, size, blocks = 0, counted;
    for (alignment = 1; alignment <= 2 * MIB; alignment *= 2) {
        for (size = 1; size < 3 * MIB; size = size * 7 + 3) {
            CHECK(swing_alloc_aligned(area.token, size, alignment, &block) == 0);
            CHECK((uintptr_t)block.address % alignment == 0 && block.size >= size);
            memset(block.address, 1, size);
            blocks++;
        }
    }
    CHECK(swing_check_heap(area.token, &counted) == 0 && counted == blocks);
    CHECK(swing_alloc_aligned(area.token, 8, 0, &block) == SWING_E_ARGUMENT && says("alignment"));
    CHECK(swing_alloc_aligned(area.token, 8, 24, &block) == SWING_E_ARGUMENT);
    CHECK(swing_alloc_aligned(area.token, 8, (size_t)1 << 62, &block) == SWING_E_ARGUMENT);
    CHECK(swing_alloc_aligned(area.token, (size_t)-1, 64, &block) == SWING_E_NO_MEMORY);
    CHECK(swing_alloc_aligned(area.token, 8, 8, NULL) == SWING_E_ARGUMENT);
    CHECK(swing_release(area.token) == 0);
}

static void mistakes(void) {
    swing_area area = create(128 * MIB), stored = create(128 * MIB), behind = create(128 * MIB);
    swing_block block = allocated(area.token, 1000), large = allocated(area.token, 5 * MIB), other;
    char *inside = (char *)block.address;
    size_t size;
    CHECK(swing_free(inside + 8) == SWING_E_ARGUMENT && says("no allocated block begins"));
    CHECK(swing_free(inside + 16) == SWING_E_ARGUMENT && swing_free(inside + 512) < 0);
    CHECK(swing_free((char *)large.address + 65536) == SWING_E_ARGUMENT);
    CHECK(swing_usable_size(inside + 16, &size) == SWING_E_ARGUMENT);
    CHECK(swing_realloc(inside + 16, 10, &other) == SWING_E_ARGUMENT);
    CHECK(swing_free(area.address) == SWING_E_ARGUMENT && swing_free(&area) == SWING_E_NOT_FOUND);
    CHECK(swing_realloc(NULL, 10, &other) == SWING_E_ARGUMENT && says("swing_alloc"));
    CHECK(swing_check_heap(area.token, &size) == 0 && size == 2);
    CHECK(swing_free(inside) == 0 && swing_free(inside) == SWING_E_ARGUMENT);
    CHECK(swing_usable_size(inside, &size) == SWING_E_ARGUMENT);
    CHECK(swing_free(large.address) == 0 && swing_free(large.address) == SWING_E_ARGUMENT);
    CHECK(swing_check_heap(area.token, &size) == 0 && size == 0);
    /* A store where only the allocator stores. */
    *((char *)area.address + 600) ^= 1;
    CHECK(swing_check_heap(area.token, &size) == SWING_E_CORRUPT || size == 0);
    *((char *)area.address + 20) ^= 1;
    CHECK(swing_check_heap(area.token, NULL) == SWING_E_CORRUPT && says("INV-HEAP-1"));
    /* What the program has stored itself is not taken for an allocator's. */
    *(char *)stored.address = 1;
    *((char *)behind.address + 100 * MIB) = 1;
    CHECK(swing_alloc(stored.token, 10, &block) == SWING_E_ARGUMENT && says("no room"));
    CHECK(swing_alloc(behind.token, 10, &block) == SWING_E_ARGUMENT && says("no room"));
    CHECK(*(char *)stored.address == 1 && *((char *)behind.address + 100 * MIB) == 1);
}

static void shapes(void) {
    swing_area area = create((size_t)16 << 30), theirs, plain;
    swing_class table[] = {{64 * MIB, 8}, {256 * MIB, 4}, {(size_t)2 << 30, 2}};
    swing_class odd[] = {{64 * MIB + 1, 1}}, falling[] = {{64 * MIB, 1}, {32 * MIB, 1}};
    swing_heap_options options = {3 * MIB, 32 * MIB, table, 3}, zeros = {0, 0, NULL, 0};
    swing_heap_options none = {0, 0, table, 0}, wrong = {0, 0, NULL, 5};
    swing_heap_stats stats;
    swing_block block, blocks[20];
    size_t count = 0;
    CHECK(swing_make_heap(area.token, NULL) == SWING_E_ARGUMENT);
    CHECK(swing_make_heap(area.token, &wrong) == SWING_E_ARGUMENT);
    wrong.table = odd;
    wrong.classes = 1;
    CHECK(swing_make_heap(area.token, &wrong) == SWING_E_ARGUMENT && says("multiple"));
    wrong.table = falling;
    wrong.classes = 2;
    CHECK(swing_make_heap(area.token, &wrong) == SWING_E_ARGUMENT && says("ascend"));
    wrong = options;
    wrong.reserved = SIZE_MAX;
    CHECK(swing_make_heap(area.token, &wrong) == SWING_E_ARGUMENT && says("reserved"));
    CHECK(swing_make_heap(area.token, &options) == 0);
    CHECK(swing_make_heap(area.token, &options) == SWING_E_EXISTS && says("already"));
    CHECK(swing_reserved(area.token, &block) == 0 && block.size == 3 * MIB);
    CHECK(swing_get_heap_stats(area.token, &stats) == 0 && stats.largest >= (size_t)2 << 30);
    /* Two of two GiB, then what the buddy part has. */
    while (count < 20 && swing_alloc(area.token, (size_t)1100 * MIB, &blocks[count]) == 0) {
        CHECK(blocks[count].size >= (size_t)1100 * MIB);
        count++;
    }
    CHECK(count >= 4 && blocks[0].size == (size_t)2 << 30);
    block = allocated(area.token, 40 * MIB);
    CHECK(block.size == 64 * MIB && swing_check_heap(area.token, &count) == 0);
    CHECK(swing_allow_hooks(area.token, 1) == 0 && swing_hook(area.token, 0, &theirs) == 0);
    CHECK(swing_reserved(theirs.token, &block) == 0 && block.size == 3 * MIB);
    CHECK(swing_make_heap(theirs.token, &zeros) == SWING_E_EXISTS);
    CHECK(allocated(theirs.token, 40 * MIB).size == 64 * MIB);
    plain = create((size_t)16 << 30);
    CHECK(swing_make_heap(plain.token, &none) == 0);
    CHECK(swing_get_heap_stats(plain.token, &stats) == 0 && stats.largest == (size_t)8 << 30);
    CHECK(swing_release(plain.token) == 0 && swing_release(theirs.token) == 0);
    CHECK(swing_release(area.token) == 0 && swing_make_heap(area.token, &zeros) < 0);
}

/* The unit of copying is the area's own, and its hookers'. */
static void extents(void) {
    size_t extent;
    for (extent = 65536; extent <= 32 * MIB; extent *= 8) {
        swing_options options = {extent, NULL};
        swing_area area, theirs;
        swing_stats before, after;
        char *far;
        CHECK(swing_create_with(256 * MIB, &options, &area) == 0);
        far = (char *)area.address + 128 * MIB;
        memset(far, 1, 2 * extent);
        CHECK(swing_allow_hooks(area.token, 1) == 0 && swing_hook(area.token, 0, &theirs) == 0);
        CHECK(swing_get_stats(area.token, &before) == 0);
        *far = 2;
        CHECK(swing_get_stats(area.token, &after) == 0);
        CHECK(after.copied - before.copied == extent);
        far = (char *)theirs.address + 128 * MIB;
        CHECK(*far == 1);
        *far = 3;
        CHECK(swing_get_stats(theirs.token, &after) == 0 && after.copied == extent);
        CHECK(swing_release(theirs.token) == 0 && swing_release(area.token) == 0);
    }
    {
        swing_options odd = {3 * MIB, NULL}, short_one = {4096, NULL}, there = {0, NULL};
        swing_area area, again;
        CHECK(swing_create_with(MIB, &odd, &area) == SWING_E_ARGUMENT && says("power of two"));
        CHECK(swing_create_with(MIB, &short_one, &area) == SWING_E_ARGUMENT);
        CHECK(swing_create_with(MIB, NULL, &area) == SWING_E_ARGUMENT);
        CHECK(swing_create_with(0, &there, &area) == SWING_E_ARGUMENT && says("0 bytes"));
        there.address = (void *)((uintptr_t)0x2a << 40);
        CHECK(swing_create_with(MIB, &there, &area) == 0 && area.address == there.address);
        CHECK(swing_create_with(MIB, &there, &again) == 0 && again.address != there.address);
        CHECK(swing_release(area.token) == 0 && swing_release(again.token) == 0);
    }
}

static void ranges(void) {
    swing_area area = create((size_t)8 << 30), theirs;
    swing_block range;
    const size_t far = (size_t)5 << 30;
    char *base = (char *)area.address;
    CHECK(swing_next_range(area.token, NULL, &range) == SWING_E_NOT_FOUND && says("no memory"));
    base[far] = 1;
    base[far + 2 * MIB] = 1;
    base[far + 8 * MIB] = 1;
    CHECK(swing_allow_hooks(area.token, 1) == 0 && swing_hook(area.token, 0, &theirs) == 0);
    base = (char *)theirs.address;
    CHECK(swing_next_range(theirs.token, NULL, &range) == 0);
    CHECK((char *)range.address == base + far && range.size == 4 * MIB);
    CHECK(swing_next_range(theirs.token, base + far + 100, &range) == 0);
    CHECK((char *)range.address == base + far + 100 && range.size == 4 * MIB - 100);
    CHECK(swing_next_range(theirs.token, base + far + 4 * MIB, &range) == 0);
    CHECK((char *)range.address == base + far + 8 * MIB && range.size == 2 * MIB);
    CHECK(swing_next_range(theirs.token, base + far + 10 * MIB, &range) == SWING_E_NOT_FOUND);
    CHECK(swing_next_range(theirs.token, base + theirs.length, &range) == SWING_E_NOT_FOUND);
    CHECK(swing_next_range(0, NULL, &range) == SWING_E_ARGUMENT);
    CHECK(swing_next_range(theirs.token, NULL, NULL) == SWING_E_ARGUMENT);
    CHECK(swing_release(theirs.token) == 0 && swing_release(area.token) == 0);
}

static void grown(void) {
    swing_area area = create((size_t)1 << 30);
    swing_block block = allocated(area.token, MIB), longer;
    memset(block.address, 3, MIB);
    /* A block of the buddy part begins at a multiple of its size, this one at 16 MiB. */
    while (block.size < 16 * MIB) {
        CHECK(swing_realloc(block.address, block.size * 2, &longer) == 0);
        CHECK(longer.address == block.address && longer.size >= 2 * block.size);
        block = longer;
    }
    CHECK(swing_realloc(block.address, 20 * MIB, &longer) == 0 && longer.size >= 20 * MIB);
    block = longer;
    CHECK(*((char *)block.address + MIB - 1) == 3 && swing_check_heap(area.token, NULL) == 0);
    CHECK(swing_release(area.token) == 0);
}

static void *work(void *argument) {
    int token = *(int *)argument, i;
    swing_block blocks[16];
    memset(blocks, 0, sizeof blocks);
    for (i = 0; i < 3000; i++) {
        swing_block *block = &blocks[i * 7 % 16];
        if (block->address != NULL) {
            CHECK(*(unsigned char *)block->address == (i * 7 % 16));
            CHECK(swing_free(block->address) == 0);
            block->address = NULL;
        }
        /* A short area may be full for a moment. */
        if (swing_alloc(token, (size_t)i % 900 + 1, block) == 0) {
            memset(block->address, i * 7 % 16, block->size);
        } else {
            block->address = NULL;
        }
    }
    for (i = 0; i < 16; i++) {
        CHECK(swing_free(blocks[i].address) == 0);
    }
    return NULL;
}

static void threads(size_t length) {
    swing_area area = create(length);
    pthread_t running[8];
    size_t i, blocks;
    for (i = 0; i < 8; i++) {
        CHECK(pthread_create(&running[i], NULL, work, &area.token) == 0);
    }
    for (i = 0; i < 8; i++) {
        CHECK(pthread_join(running[i], NULL) == 0);
    }
    CHECK(swing_check_heap(area.token, &blocks) == 0 && blocks == 0);
    CHECK(swing_release(area.token) == 0);
}

int main(void) {
    any_length();
    full();
    aligned();
    mistakes();
    shapes();
    extents();
    ranges();
    grown();
    threads(2 * MIB);
    threads(1 << 30);
    return 0;
}
