/* The object heap as programs in C and C++ use it. Argument: a directory on a disk. */
#include <fgmm.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define MIB ((uint64_t)1 << 20)
#define OBJECTS 20000

static const char *directory;

static swing_heap *open_heap(uint64_t budget, uint64_t disk_limit, uint64_t max_wait_ms) {
    swing_heap_config config;
    swing_heap *heap = NULL;
    memset(&config, 0, sizeof config);
    config.budget = budget;
    config.disk_limit = disk_limit;
    config.max_wait_ms = max_wait_ms;
    CHECK(swing_heap_open(directory, &config, &heap) == 0 && heap != NULL);
    return heap;
}

static size_t size_of(size_t i) {
    return 1 + i * 7919 % 3000;
}

/* Larger than memory, by four threads, each with objects of its own. */
struct work {
    swing_heap *heap;
    size_t first;
};

static void *work(void *argument) {
    struct work *mine = (struct work *)argument;
    static swing_object objects[4][OBJECTS / 4];
    swing_object *own = objects[mine->first];
    unsigned char bytes[3000], found[3000];
    size_t i;
    for (i = 0; i < OBJECTS / 4; i++) {
        memset(bytes, (int)(i + mine->first), size_of(i));
        CHECK(swing_heap_alloc(mine->heap, bytes, size_of(i), &own[i]) == 0 && own[i] != 0);
    }
    for (i = 0; i < OBJECTS / 4; i += 3) {
        unsigned char last = 99;
        CHECK(swing_heap_write(mine->heap, own[i], size_of(i) - 1, &last, 1) == 0);
    }
    CHECK(swing_heap_prefetch(mine->heap, own, OBJECTS / 4) == 0);
    for (i = 0; i < OBJECTS / 4; i++) {
        size_t size = 0;
        memset(bytes, (int)(i + mine->first), size_of(i));
        if (i % 3 == 0) bytes[size_of(i) - 1] = 99;
        CHECK(swing_heap_size(mine->heap, own[i], &size) == 0 && size == size_of(i));
        CHECK(swing_heap_read(mine->heap, own[i], 0, found, size) == 0);
        CHECK(memcmp(found, bytes, size) == 0);
        CHECK(swing_heap_free(mine->heap, own[i]) == 0);
    }
    return NULL;
}

static void larger_than_memory(void) {
    swing_heap *heap = open_heap(8 * MIB, 0, 0);
    swing_heap_counters counters;
    struct work parts[4];
    pthread_t threads[4];
    size_t i;
    for (i = 0; i < 4; i++) {
        parts[i].heap = heap;
        parts[i].first = i;
        CHECK(pthread_create(&threads[i], NULL, work, &parts[i]) == 0);
    }
    CHECK(swing_heap_set_budget(heap, 7 * MIB) == 0);
    for (i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(swing_heap_get_counters(heap, &counters) == 0);
    CHECK(counters.objects == 0 && counters.live_bytes == 0 && counters.misses > 0);
    CHECK(counters.budget_bytes == 7 * MIB && counters.used_bytes <= 7 * MIB);
    CHECK(counters.miss_p50_ns > 0 && counters.miss_p50_ns <= counters.miss_p999_ns);
    CHECK(swing_heap_close(heap) == 0);
}

static void in_place(void) {
    swing_heap *heap = open_heap(8 * MIB, 0, 200);
    swing_object object;
    swing_block block, other;
    char bytes[4];
    CHECK(swing_heap_alloc(heap, "abc", 3, &object) == 0);
    CHECK(swing_heap_begin(heap, object, SWING_HEAP_READ, &block) == 0);
    CHECK(block.size == 3 && memcmp(block.address, "abc", 3) == 0);
    CHECK((uintptr_t)block.address % 16 == 0);
    CHECK(swing_heap_begin(heap, object, SWING_HEAP_READ, &other) == 0);
    CHECK(other.address == block.address);
    /* Nobody writes, frees or closes meanwhile. */
    CHECK(swing_heap_begin(heap, object, SWING_HEAP_WRITE, &other) == SWING_E_BUSY);
    CHECK(swing_heap_free(heap, object) == SWING_E_BUSY);
    CHECK(swing_heap_close(heap) == SWING_E_BUSY);
    CHECK(strstr(swing_last_error(), "2 accesses") != NULL);
    CHECK(swing_heap_end(heap, object, SWING_HEAP_READ) == 0);
    CHECK(swing_heap_end(heap, object, SWING_HEAP_READ) == 0);
    CHECK(swing_heap_end(heap, object, SWING_HEAP_READ) == SWING_E_NO_OBJECT);
    CHECK(swing_heap_end(heap, object, SWING_HEAP_PIN) == SWING_E_NO_OBJECT);
    CHECK(swing_heap_begin(heap, object, SWING_HEAP_WRITE, &block) == 0);
    memcpy(block.address, "xyz", 3);
    CHECK(swing_heap_end(heap, object, SWING_HEAP_WRITE) == 0);
    CHECK(swing_heap_realloc(heap, object, 4) == 0);
    CHECK(swing_heap_read(heap, object, 0, bytes, 4) == 0 && memcmp(bytes, "xyz", 4) == 0);
    CHECK(swing_heap_close(heap) == 0);
}

static uint64_t told;

static void tell(uint64_t done, uint64_t all, void *argument) {
    CHECK(argument == &told && done <= all);
    told = done;
}

static void kept_by_a_directory(void) {
    char path[4096];
    swing_heap_config config;
    swing_heap *heap, *other;
    swing_object objects[5000], root, freed;
    swing_block block;
    size_t i;
    pid_t child;
    int status;
    CHECK(snprintf(path, sizeof path, "%s/kept-%d", directory, (int)getpid()) > 0);
    memset(&config, 0, sizeof config);
    config.budget = 16 * MIB;
    config.max_wait_ms = 200;
    config.flags = SWING_HEAP_PERSISTENT | SWING_HEAP_S3FIFO;
    child = fork();
    if (child == 0) {
        CHECK(swing_heap_open(path, &config, &heap) == 0);
        CHECK(swing_heap_root(heap, &root) == 0 && root == 0);
        for (i = 0; i < 5000; i++) {
            CHECK(swing_heap_alloc(heap, &i, sizeof i, &objects[i]) == 0);
        }
        CHECK(swing_heap_alloc(heap, objects, sizeof objects, &root) == 0);
        CHECK(swing_heap_set_root(heap, root) == 0);
        CHECK(swing_heap_set_root(heap, 12345) == SWING_E_NO_OBJECT);
        CHECK(swing_heap_flush(heap) == 0);
        CHECK(swing_heap_free(heap, objects[7]) == 0);
        _exit(0); /* as a crash: what is not flushed is lost */
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(swing_heap_open_with(path, &config, tell, &told, &heap) == 0 && told == 5001);
    CHECK(swing_heap_open(path, &config, &other) == SWING_E_BUSY);
    CHECK(swing_heap_root(heap, &root) == 0 && root != 0);
    CHECK(swing_heap_read(heap, root, 0, objects, sizeof objects) == 0);
    for (i = 0; i < 5000; i++) {
        size_t found = 0;
        CHECK(swing_heap_read(heap, objects[i], 0, &found, sizeof found) == 0 && found == i);
    }
    freed = objects[7];
    CHECK(swing_heap_free(heap, freed) == 0);
    CHECK(swing_heap_begin(heap, objects[8], SWING_HEAP_WRITE, &block) == 0);
    CHECK(swing_heap_flush(heap) == SWING_E_BUSY);
    CHECK(swing_heap_end(heap, objects[8], SWING_HEAP_WRITE) == 0);
    CHECK(swing_heap_close(heap) == 0);
    CHECK(swing_heap_open(path, &config, &heap) == 0);
    CHECK(swing_heap_read(heap, freed, 0, &i, 1) == SWING_E_NO_OBJECT);
    CHECK(swing_heap_close(heap) == 0);
    /* An ephemeral heap in the same place has nothing to do with it. */
    config.flags = 0;
    CHECK(swing_heap_open(path, &config, &heap) == 0);
    CHECK(swing_heap_flush(heap) == SWING_E_ARGUMENT);
    CHECK(swing_heap_set_root(heap, 1) == SWING_E_ARGUMENT);
    CHECK(swing_heap_close(heap) == 0);
}

static void mistakes(void) {
    swing_heap *heap = open_heap(8 * MIB, 0, 200);
    swing_heap_config config;
    swing_object object, next;
    swing_block block;
    char bytes[8];
    CHECK(swing_heap_alloc(heap, NULL, 0, &object) == SWING_E_ARGUMENT);
    CHECK(swing_heap_alloc(heap, bytes, SWING_HEAP_MAX_OBJECT + 1, &object) == SWING_E_ARGUMENT);
    CHECK(swing_heap_alloc(heap, NULL, 8, NULL) == SWING_E_ARGUMENT);
    CHECK(swing_heap_alloc(NULL, NULL, 8, &object) == SWING_E_ARGUMENT);
    CHECK(swing_heap_alloc(heap, NULL, 8, &object) == 0);
    CHECK(swing_heap_read(heap, object, 0, bytes, 8) == 0);
    CHECK(memcmp(bytes, "\0\0\0\0\0\0\0", 8) == 0);
    CHECK(swing_heap_read(heap, object, 1, bytes, 8) == SWING_E_ARGUMENT);
    CHECK(swing_heap_read(heap, object, (size_t)-1, bytes, 8) == SWING_E_ARGUMENT);
    CHECK(swing_heap_read(heap, object, 0, NULL, 8) == SWING_E_ARGUMENT);
    CHECK(swing_heap_read(heap, object, 8, NULL, 0) == 0);
    CHECK(swing_heap_begin(heap, object, 3, &block) == SWING_E_ARGUMENT);
    CHECK(swing_heap_set_budget(heap, 1) == SWING_E_ARGUMENT);
    CHECK(swing_heap_free(heap, object) == 0);
    CHECK(swing_heap_free(heap, object) == SWING_E_NO_OBJECT);
    CHECK(swing_heap_alloc(heap, NULL, 8, &next) == 0 && next != object);
    CHECK(swing_heap_read(heap, object, 0, bytes, 8) == SWING_E_NO_OBJECT);
    CHECK(swing_heap_read(heap, 0, 0, bytes, 8) == SWING_E_NO_OBJECT);
    CHECK(swing_heap_read(heap, UINT64_MAX, 0, bytes, 8) == SWING_E_NO_OBJECT);
    CHECK(swing_heap_close(heap) == 0);
    CHECK(swing_heap_close(heap) == SWING_E_ARGUMENT);
    CHECK(swing_heap_alloc(heap, NULL, 8, &object) == SWING_E_ARGUMENT);
    memset(&config, 0, sizeof config);
    config.flags = 1 << 20;
    CHECK(swing_heap_open(directory, &config, &heap) == SWING_E_ARGUMENT);
    config.flags = SWING_HEAP_S3FIFO | SWING_HEAP_TWO_LISTS;
    CHECK(swing_heap_open(directory, &config, &heap) == SWING_E_ARGUMENT);
    config.flags = SWING_HEAP_TWO_LISTS;
    CHECK(swing_heap_open(directory, &config, &heap) == 0 && swing_heap_close(heap) == 0);
    CHECK(swing_heap_open("/proc/none", NULL, &heap) == SWING_E_IO);
}

static void a_full_disk(void) {
    swing_heap *heap = open_heap(6 * MIB, 4 * MIB, 2000);
    swing_object object;
    char byte;
    int status, made = 0;
    while ((status = swing_heap_alloc(heap, NULL, 1000, &object)) == 0) made++;
    CHECK(status == SWING_E_DISK_FULL && made > 4000);
    CHECK(swing_heap_read(heap, object, 0, &byte, 1) == 0 && byte == 0);
    CHECK(swing_heap_close(heap) == 0);
}

static void a_child_has_no_heap(void) {
    swing_heap *heap = open_heap(8 * MIB, 0, 200);
    swing_object object;
    pid_t child;
    int status;
    CHECK(swing_heap_alloc(heap, "abc", 3, &object) == 0);
    child = fork();
    if (child == 0) {
        char bytes[3];
        int read = swing_heap_read(heap, object, 0, bytes, 3);
        _exit(read == SWING_E_FORKED && swing_heap_close(heap) == SWING_E_FORKED ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(swing_heap_close(heap) == 0);
}

/* New bytes for objects on the disk, which is not read for that. */
static void replace(void) {
    swing_heap *heap = open_heap(6 * MIB, 0, 0);
    swing_heap_counters before, after;
    static swing_object objects[OBJECTS];
    unsigned char bytes[3000], found[3000];
    size_t i, size;
    memset(bytes, 1, sizeof bytes);
    for (i = 0; i < OBJECTS; i++) CHECK(swing_heap_alloc(heap, bytes, 1000, &objects[i]) == 0);
    CHECK(swing_heap_get_counters(heap, &before) == 0 && before.evicted_objects > OBJECTS / 2);
    for (i = 0; i < OBJECTS; i++) {
        memset(bytes, (int)i, sizeof bytes);
        if (i % 2 == 0) {
            CHECK(swing_heap_write(heap, objects[i], 0, bytes, 1000) == 0);
        } else {
            CHECK(swing_heap_replace(heap, objects[i], bytes, 1 + i % 3000) == 0);
        }
    }
    CHECK(swing_heap_get_counters(heap, &after) == 0);
    CHECK(after.read_bytes == before.read_bytes && after.misses == before.misses);
    for (i = 0; i < OBJECTS; i++) {
        memset(bytes, (int)i, sizeof bytes);
        CHECK(swing_heap_size(heap, objects[i], &size) == 0);
        CHECK(size == (i % 2 == 0 ? 1000 : 1 + i % 3000));
        CHECK(swing_heap_read(heap, objects[i], 0, found, size) == 0);
        CHECK(memcmp(found, bytes, size) == 0);
    }
    CHECK(swing_heap_replace(heap, objects[0], bytes, 0) == SWING_E_ARGUMENT);
    CHECK(swing_heap_replace(heap, objects[0], NULL, 5) == SWING_E_ARGUMENT);
    CHECK(swing_heap_replace(heap, objects[0], bytes, 65537) == SWING_E_ARGUMENT);
    CHECK(swing_heap_free(heap, objects[0]) == 0);
    CHECK(swing_heap_replace(heap, objects[0], bytes, 5) == SWING_E_NO_OBJECT);
    CHECK(swing_heap_close(heap) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    directory = argv[1];
    larger_than_memory();
    replace();
    in_place();
    kept_by_a_directory();
    mistakes();
    a_full_disk();
    a_child_has_no_heap();
    return 0;
}
