/* A heap of more objects than memory holds, which another process reads while its owner goes on.
 *
 *     cc -O2 shared_objects.c -o shared_objects $(pkg-config --cflags --libs swing)
 *     ./shared_objects own /var/tmp      # until a line comes
 *     ./shared_objects read              # in another terminal */
#include <fgmm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECTS = 100000, SIZE = 500, SOME = 1000 };

static void check(int status) {
    if (status != 0) {
        fprintf(stderr, "%s: %s\n", swing_strerror(status), swing_last_error());
        exit(1);
    }
}

static void own(const char *directory) {
    swing_object *objects = malloc(OBJECTS * sizeof *objects);
    swing_heap_config config;
    swing_heap *heap;
    char bytes[SIZE];
    int i;

    if (objects == NULL) exit(1);
    memset(&config, 0, sizeof config);
    config.budget = 16 << 20;
    check(swing_heap_open_in("example-objects", directory, &config, &heap));
    for (i = 0; i < OBJECTS; i++) {
        memset(bytes, 'a' + i % 26, sizeof bytes);
        check(swing_heap_alloc(heap, bytes, sizeof bytes, &objects[i]));
    }
    check(swing_heap_share(heap, NULL));
    printf("shared %d objects\n", OBJECTS);
    fflush(stdout);
    /* What comes now, no snapshot of that state sees. */
    for (i = 0; i < OBJECTS; i += 2) check(swing_heap_free(heap, objects[i]));
    (void)getchar();
    check(swing_heap_close(heap));
    free(objects);
}

static void read_all(void) {
    static swing_object objects[SOME];
    swing_heap_snapshot *snapshot;
    swing_object last = 0;
    size_t count, all = 0, in_place = 0, i;
    unsigned long sum = 0;
    char bytes[SIZE];

    check(swing_heap_snapshot_open("example-objects", &snapshot));
    do {
        check(swing_heap_snapshot_objects(snapshot, last, objects, SOME, &count));
        for (i = 0; i < count; i++) {
            swing_block block;
            check(swing_heap_snapshot_in_place(snapshot, objects[i], &block));
            if (block.address == NULL) { /* it was on the disk */
                check(swing_heap_snapshot_read(snapshot, objects[i], 0, bytes, block.size));
            } else {
                memcpy(bytes, block.address, block.size);
                in_place++;
            }
            sum += (unsigned char)bytes[0];
        }
        if (count > 0) last = objects[count - 1];
        all += count;
    } while (count > 0);
    printf("%lu objects, %lu of them in memory; sum %lu\n", (unsigned long)all,
           (unsigned long)in_place, sum);
    check(swing_heap_snapshot_close(snapshot));
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "own") == 0) {
        own(argv[2]);
    } else if (argc == 2 && strcmp(argv[1], "read") == 0) {
        read_all();
    } else {
        fprintf(stderr, "own DIRECTORY, or read\n");
        return 2;
    }
    return 0;
}
