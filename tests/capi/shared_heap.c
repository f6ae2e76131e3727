/* Object heaps in areas: one process owns the heap, others read states of it. Arguments: a
 * directory on a disk; for another process also what it does. */
#include <fgmm.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define MIB ((uint64_t)1 << 20)
#define OBJECTS 24000
#define SIZE 1000

static const char *directory;
static const char *program;

/* What object `i` holds in round `round`. */
static void fill(unsigned char *bytes, size_t i, unsigned round) {
    memset(bytes, (int)(i * 31 + round * 7), SIZE);
    memcpy(bytes, &i, sizeof i);
    memcpy(bytes + sizeof i, &round, sizeof round);
}

static swing_heap *open_heap(const char *name, uint64_t max_wait_ms) {
    swing_heap_config config;
    swing_heap *heap = NULL;
    memset(&config, 0, sizeof config);
    config.budget = 8 * MIB;
    config.max_wait_ms = max_wait_ms;
    CHECK(swing_heap_open_in(name, directory, &config, &heap) == 0 && heap != NULL);
    return heap;
}

/* All objects of the snapshot are those of one round. Returns how many were in memory. */
static size_t check_state(swing_heap_snapshot *snapshot, unsigned round) {
    static swing_object objects[1000];
    unsigned char bytes[SIZE], found[SIZE];
    static unsigned char seen[OBJECTS];
    swing_object last = 0;
    size_t count, all = 0, in_memory = 0, size, i, k;
    memset(seen, 0, sizeof seen);
    do {
        CHECK(swing_heap_snapshot_objects(snapshot, last, objects, 1000, &count) == 0);
        for (k = 0; k < count; k++) {
            swing_block block;
            CHECK(swing_heap_snapshot_size(snapshot, objects[k], &size) == 0 && size == SIZE);
            CHECK(swing_heap_snapshot_read(snapshot, objects[k], 0, found, SIZE) == 0);
            memcpy(&i, found, sizeof i);
            CHECK(i < OBJECTS && !seen[i]);
            seen[i] = 1;
            fill(bytes, i, round);
            CHECK(memcmp(bytes, found, SIZE) == 0);
            CHECK(swing_heap_snapshot_in_place(snapshot, objects[k], &block) == 0);
            CHECK(block.size == SIZE);
            if (block.address != NULL) {
                CHECK(memcmp(block.address, bytes, SIZE) == 0);
                in_memory++;
            }
        }
        if (count > 0) last = objects[count - 1];
        all += count;
    } while (count > 0);
    CHECK(all == OBJECTS);
    return in_memory;
}

/* A reader: opens the state, says so, waits for a line, and looks at all of it again. */
static int reader(unsigned round) {
    swing_heap_snapshot *snapshot;
    char line[16];
    size_t in_memory;
    CHECK(swing_heap_snapshot_open("c-heap", &snapshot) == 0);
    in_memory = check_state(snapshot, round);
    CHECK(in_memory > 0 && in_memory < OBJECTS);
    CHECK(printf("ready\n") > 0 && fflush(stdout) == 0);
    CHECK(fgets(line, sizeof line, stdin) != NULL);
    CHECK(check_state(snapshot, round) == in_memory);
    CHECK(swing_heap_snapshot_close(snapshot) == 0);
    return 0;
}

struct process {
    pid_t pid;
    FILE *to, *from;
};

static struct process start(const char *what) {
    struct process made;
    int to[2], from[2];
    char line[16];
    CHECK(pipe(to) == 0 && pipe(from) == 0);
    made.pid = fork();
    if (made.pid == 0) {
        CHECK(dup2(to[0], 0) == 0 && dup2(from[1], 1) == 1);
        close(to[1]);
        close(from[0]);
        execl(program, program, directory, what, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    made.to = fdopen(to[1], "w");
    made.from = fdopen(from[0], "r");
    CHECK(made.to != NULL && made.from != NULL);
    CHECK(fgets(line, sizeof line, made.from) != NULL && strcmp(line, "ready\n") == 0);
    return made;
}

static void finish(struct process it) {
    int status;
    CHECK(fprintf(it.to, "go\n") > 0 && fclose(it.to) == 0);
    CHECK(waitpid(it.pid, &status, 0) == it.pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(fclose(it.from) == 0);
}

static swing_object objects[OBJECTS];

static void write_round(swing_heap *heap, unsigned round) {
    unsigned char bytes[SIZE];
    size_t i;
    for (i = 0; i < OBJECTS; i++) {
        fill(bytes, i, round);
        if (objects[i] == 0) {
            CHECK(swing_heap_alloc(heap, bytes, SIZE, &objects[i]) == 0);
        } else {
            CHECK(swing_heap_write(heap, objects[i], 0, bytes, SIZE) == 0);
        }
    }
}

/* Readers keep their states while the owner changes, evicts and collects everything. */
static void states_stay(void) {
    swing_heap *heap = open_heap("c-heap", 0);
    swing_heap_counters counters;
    struct process first, second;
    uint64_t epoch = 0, later = 0;
    unsigned round;
    memset(objects, 0, sizeof objects);
    write_round(heap, 0);
    CHECK(swing_heap_share(heap, &epoch) == 0 && epoch > 0);
    first = start("0");
    write_round(heap, 1);
    CHECK(swing_heap_share(heap, &later) == 0 && later > epoch);
    second = start("1");
    for (round = 2; round < 5; round++) write_round(heap, round);
    /* All bytes of an object are written without reading it, and others are read. */
    CHECK(swing_heap_get_counters(heap, &counters) == 0 && counters.misses == 0);
    CHECK(swing_heap_prefetch(heap, objects, 1000) == 0);
    CHECK(swing_heap_get_counters(heap, &counters) == 0);
    CHECK(counters.kept_bytes > 10 * MIB && counters.evicted_objects > OBJECTS);
    CHECK(swing_heap_write_amplification(&counters) >= 1.0);
    CHECK(swing_heap_fragmentation(&counters) > 0 && swing_heap_fragmentation(&counters) < 0.5);
    CHECK(swing_heap_hit_rate(&counters) < 1.0);
    finish(first);
    finish(second);
    /* Without readers nothing is kept but what the newest state shows. */
    CHECK(swing_heap_share(heap, NULL) == 0);
    CHECK(swing_heap_get_counters(heap, &counters) == 0 && counters.kept_bytes < 2 * MIB);
    CHECK(swing_heap_close(heap) == 0);
}

/* Loads and stores through addresses, beside stores into the area, which are trapped. */
static void write_by_pointers(swing_heap *heap, unsigned round) {
    unsigned char bytes[SIZE];
    void *address;
    size_t i;
    for (i = 0; i < OBJECTS; i++) {
        fill(bytes, i, round);
        CHECK(swing_heap_pointer(heap, objects[i], &address) == 0);
        CHECK(((unsigned char *)address)[SIZE - 1] == (unsigned char)(i * 31 + (round - 1) * 7));
        memcpy(address, bytes, SIZE);
    }
}

static void states_show_what_was_stored_through_addresses(void) {
    swing_heap *heap = open_heap("c-heap", 0);
    struct process readers[3];
    swing_block block;
    unsigned round;
    memset(objects, 0, sizeof objects);
    write_round(heap, 0);
    for (round = 1; round < 4; round++) {
        char text[4];
        write_by_pointers(heap, round);
        CHECK(snprintf(text, sizeof text, "%u", round) > 0);
        CHECK(swing_heap_share(heap, NULL) == 0);
        readers[round - 1] = start(text);
    }
    write_by_pointers(heap, 4);
    for (round = 1; round < 4; round++) finish(readers[round - 1]);
    CHECK(swing_heap_begin(heap, objects[7], SWING_HEAP_READ, &block) == 0);
    CHECK(((unsigned char *)block.address)[SIZE - 1] == (unsigned char)(7 * 31 + 4 * 7));
    CHECK(swing_heap_end(heap, objects[7], SWING_HEAP_READ) == 0);
    CHECK(swing_heap_close(heap) == 0);
}

/* An owner that waits to be killed. */
static int owner(void) {
    swing_heap *heap = open_heap("c-heap", 0);
    write_round(heap, 9);
    CHECK(swing_heap_share(heap, NULL) == 0);
    CHECK(printf("ready\n") > 0 && fflush(stdout) == 0);
    for (;;) pause();
}

static void a_killed_owner(void) {
    struct process killed = start("owner"), reading = start("9");
    swing_heap_snapshot *snapshot;
    int status;
    CHECK(swing_heap_snapshot_open("c-heap", &snapshot) == 0);
    CHECK(kill(killed.pid, SIGKILL) == 0);
    CHECK(waitpid(killed.pid, &status, 0) == killed.pid && WIFSIGNALED(status));
    CHECK(fclose(killed.to) == 0 && fclose(killed.from) == 0);
    CHECK(check_state(snapshot, 9) > 0);
    finish(reading);
    {
        /* Nobody opens the state now, and the name can be used again. */
        swing_heap_snapshot *none;
        int opened = swing_heap_snapshot_open("c-heap", &none);
        swing_heap *heap;
        CHECK(opened == SWING_E_NOT_FOUND);
        heap = open_heap("c-heap", 0);
        CHECK(swing_heap_snapshot_open("c-heap", &none) == SWING_E_REFUSED);
        CHECK(check_state(snapshot, 9) > 0);
        CHECK(swing_heap_close(heap) == 0);
    }
    CHECK(swing_heap_snapshot_close(snapshot) == 0);
}

static void mistakes(void) {
    swing_heap *heap = open_heap("c-heap", 300), *other;
    swing_heap_snapshot *snapshot, *none = NULL;
    swing_heap_config config;
    swing_object object, root;
    swing_block block;
    void *address;
    uint64_t number, epoch;
    size_t count;
    char bytes[4];
    pid_t child;
    int status;
    memset(&config, 0, sizeof config);
    CHECK(swing_heap_open_in("c-heap", directory, &config, &other) == SWING_E_EXISTS);
    CHECK(swing_heap_open_in("", directory, &config, &other) == SWING_E_ARGUMENT);
    CHECK(swing_heap_open_in("\xff", directory, &config, &other) == SWING_E_ARGUMENT);
    CHECK(swing_heap_open_in(NULL, directory, &config, &other) == SWING_E_ARGUMENT);
    config.flags = SWING_HEAP_PERSISTENT;
    CHECK(swing_heap_open_in("other", directory, &config, &other) == SWING_E_ARGUMENT);
    CHECK(swing_heap_snapshot_open("other", &snapshot) == SWING_E_NOT_FOUND);
    CHECK(swing_heap_snapshot_open("c-heap", &snapshot) == SWING_E_REFUSED);
    CHECK(swing_heap_alloc(heap, "abc", 3, &object) == 0);
    CHECK(swing_heap_pointer(heap, object, &address) == 0);
    /* A reader keeps what it sees, so what was stored meanwhile cannot be shared. */
    CHECK(swing_heap_begin(heap, object, SWING_HEAP_READ, &block) == 0);
    CHECK(memcmp(address, "abc", 3) == 0);
    memcpy(address, "ABC", 3);
    CHECK(swing_heap_share(heap, NULL) == SWING_E_BUSY && memcmp(block.address, "abc", 3) == 0);
    CHECK(swing_heap_end(heap, object, SWING_HEAP_READ) == 0);
    CHECK(swing_heap_share(heap, NULL) == 0);
    memcpy(address, "abc", 3);
    CHECK(swing_heap_set_root(heap, object) == 0);
    CHECK(swing_heap_begin(heap, object, SWING_HEAP_WRITE, &block) == 0);
    CHECK(swing_heap_share(heap, NULL) == SWING_E_BUSY);
    CHECK(swing_heap_end(heap, object, SWING_HEAP_WRITE) == 0);
    CHECK(swing_heap_share(heap, &number) == 0);
    CHECK(swing_heap_snapshot_open("c-heap", &snapshot) == 0);
    CHECK(swing_heap_snapshot_epoch(snapshot, &epoch) == 0 && epoch == number);
    CHECK(swing_heap_snapshot_root(snapshot, &root) == 0 && root == object);
    CHECK(swing_heap_snapshot_read(snapshot, root, 1, bytes, 3) == SWING_E_ARGUMENT);
    CHECK(swing_heap_snapshot_read(snapshot, root, 1, bytes, 2) == 0 && bytes[0] == 'b');
    CHECK(swing_heap_snapshot_read(snapshot, root + 1, 0, bytes, 1) == SWING_E_NO_OBJECT);
    CHECK(swing_heap_snapshot_read(snapshot, 0, 0, bytes, 1) == SWING_E_NO_OBJECT);
    CHECK(swing_heap_snapshot_objects(snapshot, 0, &object, 1, &count) == 0 && count == 1);
    CHECK(swing_heap_snapshot_objects(snapshot, object, &object, 1, &count) == 0 && count == 0);
    CHECK(swing_heap_free(heap, object) == 0);
    child = fork();
    if (child == 0) {
        int shared = swing_heap_share(heap, NULL);
        int read = swing_heap_snapshot_read(snapshot, root, 0, bytes, 3);
        _exit(shared == SWING_E_FORKED && read == 0 && memcmp(bytes, "abc", 3) == 0 ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(swing_heap_close(heap) == 0);
    CHECK(swing_heap_share(heap, NULL) == SWING_E_ARGUMENT);
    CHECK(swing_heap_snapshot_read(snapshot, root, 0, bytes, 3) == 0);
    CHECK(swing_heap_snapshot_close(snapshot) == 0);
    CHECK(swing_heap_snapshot_read(snapshot, root, 0, bytes, 3) == SWING_E_ARGUMENT);
    CHECK(swing_heap_snapshot_close(snapshot) == SWING_E_ARGUMENT);
    CHECK(swing_heap_snapshot_close(none) == SWING_E_ARGUMENT);
    CHECK(swing_heap_open(directory, NULL, &heap) == 0);
    CHECK(swing_heap_share(heap, NULL) == SWING_E_ARGUMENT);
    CHECK(swing_heap_close(heap) == 0);
    /* An area of something else is none of a heap. */
    {
        swing_area area;
        char name[32];
        CHECK(swing_create(MIB, &area) == 0);
        CHECK(swing_publish(area.token) == 0);
        CHECK(snprintf(name, sizeof name, "swing-token-%d", area.token) > 0);
        CHECK(swing_heap_snapshot_open(name, &snapshot) == SWING_E_CORRUPT);
        CHECK(swing_heap_open_in(name, directory, NULL, &other) == SWING_E_EXISTS);
        CHECK(swing_release(area.token) == 0);
    }
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    program = argv[0];
    directory = argv[1];
    signal(SIGPIPE, SIG_IGN);
    if (argc == 3) return strcmp(argv[2], "owner") == 0 ? owner() : reader((unsigned)atoi(argv[2]));
    mistakes();
    states_stay();
    states_show_what_was_stored_through_addresses();
    a_killed_owner();
    return 0;
}
