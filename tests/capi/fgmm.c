/* The paper's calls: plain pointers to more objects than memory holds, beside numbers, areas with
 * their own handler, and threads. FGMM_DIRECTORY says where. */
#include <fgmm.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define OBJECTS 20000

static unsigned char *objects[OBJECTS];
static swing_area area;

static size_t size_of(size_t i) {
    return 1 + i * 7919 % 2000;
}

/* Each thread has every fourth object, and stores into the area, which is hooked meanwhile. */
static void *work(void *argument) {
    size_t first = *(size_t *)argument, i;
    for (i = first; i < OBJECTS; i += 4) {
        objects[i] = (unsigned char *)nv_malloc(size_of(i));
        CHECK(objects[i] != NULL && objects[i][size_of(i) - 1] == 0);
        memset(objects[i], (int)(i % 251), size_of(i));
        ((unsigned char *)area.address)[i * 97 % area.length] = objects[i][0];
    }
    for (i = first; i < OBJECTS; i += 4) {
        CHECK(objects[i][0] == i % 251 && objects[i][size_of(i) - 1] == i % 251);
        objects[i][0] ^= 255;
    }
    return NULL;
}

static void list(void) {
    struct node {
        struct node *next;
        int value;
        char rest[300];
    } *head = NULL, *node;
    int i, sum = 0;
    for (i = 0; i < 20000; i++) {
        node = (struct node *)nv_malloc(sizeof *node);
        CHECK(node != NULL);
        node->next = head;
        node->value = i;
        head = node;
    }
    for (node = head; node != NULL; node = node->next) sum += node->value;
    CHECK(sum == 199990000);
    while (head != NULL) {
        node = head->next;
        nv_free(head);
        head = node;
    }
}

int main(void) {
    swing_heap_counters counters;
    swing_object object;
    pthread_t threads[4];
    size_t firsts[4], i;
    swing_area hooked;
    unsigned char byte, *address;
    char text[8];
    int pipes[2];
    CHECK(nv_malloc(1) == NULL);
    CHECK(setenv("FGMM_BUDGET_MIB", "8", 1) == 0);
    CHECK(sysInit() == 0 && sysInit() == 0);
    CHECK(swing_create(4 << 20, &area) == 0 && swing_allow_hooks(area.token, 1) == 0);
    for (i = 0; i < 4; i++) {
        firsts[i] = i;
        CHECK(pthread_create(&threads[i], NULL, work, &firsts[i]) == 0);
    }
    for (i = 0; i < 20; i++) {
        CHECK(swing_hook(area.token, 0, &hooked) == 0 && swing_release(hooked.token) == 0);
    }
    for (i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (i = 0; i < OBJECTS; i++) {
        CHECK(objects[i][0] == (i % 251 ^ 255));
        CHECK(swing_heap_object(swing_heap_common(), objects[i], &object) == 0);
        CHECK(swing_heap_read(swing_heap_common(), object, 0, &byte, 1) == 0);
        CHECK(byte == objects[i][0]);
    }
    CHECK(swing_heap_get_counters(swing_heap_common(), &counters) == 0);
    CHECK(counters.objects == OBJECTS && counters.misses > 0 && counters.used_bytes <= 8 << 20);
    list();
    /* realloc and calloc. */
    address = (unsigned char *)nv_calloc(25, 4);
    memset(address, 7, 100);
    address = (unsigned char *)nv_realloc(address, 4000);
    CHECK(address != NULL && address[99] == 7 && address[100] == 0 && address[3999] == 0);
    address = (unsigned char *)nv_realloc(address, 10);
    CHECK(address != NULL && address[9] == 7);
    CHECK(nv_realloc(address, 4097) == NULL && address[9] == 7);
    CHECK(nv_realloc(address, 0) == NULL);
    CHECK(swing_heap_object(swing_heap_common(), address, &object) == SWING_E_NO_OBJECT);
    CHECK(nv_calloc((size_t)-1, 16) == NULL && nv_malloc(4097) == NULL && nv_malloc(0) == NULL);
    nv_free(NULL);
    /* Copies for system calls; from one object to another, and to itself. */
    address = (unsigned char *)nv_malloc(8);
    memcpy(address, "ABCDEFGH", 8);
    CHECK(nv_read(address, 0, text, 8) == 0 && pipe(pipes) == 0);
    CHECK(write(pipes[1], text, 8) == 8 && read(pipes[0], text, 8) == 8);
    CHECK(memcmp(text, "ABCDEFGH", 8) == 0);
    CHECK(nv_write(objects[0], 0, address, 1) == 0 && objects[0][0] == 'A');
    CHECK(nv_write(address, 0, address + 1, 7) == 0 && memcmp(address, "BCDEFGHH", 8) == 0);
    CHECK(nv_read(address + 1, 0, text, 1) == -1 && nv_read(address, 4, text, 8) == -1);
    CHECK(sysQuit() == 0 && sysQuit() == 0 && nv_malloc(1) == NULL);
    CHECK(swing_release(area.token) == 0);
    return 0;
}
