/* More objects than memory holds: a table of 200 000 objects of 1000 bytes, 200 MB, in 32 MiB.
 *
 *     cc -O2 objects.c -o objects $(pkg-config --cflags --libs swing) && ./objects /var/tmp */
#include <fgmm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECTS = 200000, SIZE = 1000 };

static void check(int status) {
    if (status != 0) {
        fprintf(stderr, "%s: %s\n", swing_strerror(status), swing_last_error());
        exit(1);
    }
}

int main(int argc, char **argv) {
    swing_object *objects = malloc(OBJECTS * sizeof *objects);
    swing_heap_config config;
    swing_heap_counters counters;
    swing_heap *heap;
    swing_block block;
    char bytes[SIZE];
    unsigned int random = 1, i;
    uint64_t sum = 0;

    if (objects == NULL) return 1;
    memset(&config, 0, sizeof config);
    config.budget = 32 << 20;
    check(swing_heap_open(argc > 1 ? argv[1] : "/var/tmp", &config, &heap));
    for (i = 0; i < OBJECTS; i++) {
        memset(bytes, (int)(i % 251), SIZE);
        check(swing_heap_alloc(heap, bytes, SIZE, &objects[i]));
    }
    for (i = 0; i < 100000; i++) {
        /* Four accesses of five go to a fifth of the objects. */
        unsigned int which;
        random = random * 1664525u + 1013904223u;
        which = (random >> 8) % (i % 5 ? OBJECTS / 5 : OBJECTS);
        check(swing_heap_begin(heap, objects[which], SWING_HEAP_READ, &block));
        sum += ((unsigned char *)block.address)[block.size - 1] == which % 251;
        check(swing_heap_end(heap, objects[which], SWING_HEAP_READ));
    }
    check(swing_heap_get_counters(heap, &counters));
    printf("%llu right of %u; %.0f %% were in memory; %llu MiB of %llu used\n",
           (unsigned long long)sum, i,
           100.0 * (double)counters.hits / (double)(counters.hits + counters.misses),
           (unsigned long long)(counters.used_bytes >> 20),
           (unsigned long long)(counters.budget_bytes >> 20));
    check(swing_heap_close(heap));
    free(objects);
    return sum == i ? 0 : 1;
}
