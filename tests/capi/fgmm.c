/* The paper's calls: plain pointers to more objects than memory holds, beside numbers, areas with
 * their own handler, and threads. FGMM_DIRECTORY says where. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* syscall */
#endif
#include <errno.h>
#include <fcntl.h>
#include <fgmm.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define OBJECTS 20000

static unsigned char *objects[OBJECTS];
static const char text_of_program[] = "no object";
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

/* Asks the kernel without any library. */
static long raw_read(int fd, void *to, size_t size) {
#ifdef __x86_64__
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"((long)SYS_read), "D"((long)fd), "S"(to), "d"(size)
                     : "rcx", "r11", "memory");
    return result;
#else
    long result = syscall(SYS_read, fd, to, size);
    return result < 0 ? -errno : result;
#endif
}

/* System calls with addresses: the functions of the C library bring the objects in, and the kernel
 * itself does not. Pinned objects stay. */
static void system_calls(void) {
    unsigned char *first = (unsigned char *)nv_malloc(4000), *second;
    int pipes[2], zero = open("/dev/zero", O_RDONLY);
    struct iovec two[2];
    size_t i;
    second = (unsigned char *)nv_malloc(4000);
    CHECK(first != NULL && second != NULL && zero >= 0 && pipe(pipes) == 0);
    for (i = 0; i < 4000; i++) first[i] = (unsigned char)i;
    for (i = 0; i < 4; i++) {
        size_t k;
        memset(second, 1, 4000);
        /* More pages than the window has. */
        for (k = i % 7; k < OBJECTS; k += 7) CHECK(objects[k][0] != (k % 251));
        CHECK(write(pipes[1], first, 4000) == 4000);
        for (k = i % 11; k < OBJECTS; k += 11) CHECK(objects[k][0] != (k % 251));
        CHECK(read(pipes[0], second, 4000) == 4000 && memcmp(first, second, 4000) == 0);
    }
    two[0].iov_base = first;
    two[1].iov_base = second;
    two[0].iov_len = two[1].iov_len = 1500;
    CHECK(writev(pipes[1], two, 2) == 3000 && readv(pipes[0], two, 2) == 3000);
    CHECK(first[1499] == 1499 % 256 && second[1499] == 1499 % 256);
    /* By number; then past the C library, without and with a pin. */
    for (i = 0; i < OBJECTS; i++) CHECK(objects[i][0] != (i % 251));
    CHECK(syscall(SYS_read, zero, first, (size_t)4000) == 4000 && first[77] == 0);
    memset(first, 1, 4000);
    for (i = 0; i < OBJECTS; i++) CHECK(objects[i][0] != (i % 251));
#ifdef __x86_64__
    CHECK(raw_read(zero, first, 4000) == -EFAULT);
#endif
    CHECK(nv_pin(first + 100) == 0 && nv_pin(first) == 0);
    for (i = 0; i < OBJECTS; i++) CHECK(objects[i][0] != (i % 251));
    CHECK(raw_read(zero, first, 4000) == 4000 && first[77] == 0);
    first[78] = 78;
    CHECK(nv_unpin(first) == 0 && nv_unpin(first + 3999) == 0 && nv_unpin(first) == -1);
    CHECK(nv_pin(first + 4000) == -1 && nv_pin(text_of_program) == -1 && nv_pin(NULL) == -1);
    CHECK(first[77] == 0 && first[78] == 78);
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0 && close(zero) == 0);
    nv_free(first);
    nv_free(second);
    /* What was freed is no memory of the program's. */
    zero = open("/dev/zero", O_RDONLY);
    CHECK(read(zero, first, 10) == -1 && errno == EFAULT && close(zero) == 0);
}

int main(void) {
    swing_heap_counters counters;
    swing_object object;
    pthread_t threads[4];
    size_t firsts[4], i;
    swing_area hooked;
    unsigned char byte, *address;
    char text[8];
    int pipes[2], status;
    pid_t child;
    CHECK(nv_malloc(1) == NULL && strstr(swing_last_error(), "sysInit") != NULL);
    CHECK(setenv("FGMM_BUDGET_MIB", "8", 1) == 0);
    CHECK(sysInit() == 0 && sysInit() == 0);
    CHECK(swing_create(4 << 20, &area) == 0 && swing_allow_hooks(area.token, 1) == 0);
    for (i = 0; i < 4; i++) {
        firsts[i] = i;
        CHECK(pthread_create(&threads[i], NULL, work, &firsts[i]) == 0);
    }
    for (i = 0; i < 4; i++) {
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
    system_calls();
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
    /* A child has no use of its parent's heap, and may have one of its own. */
    child = fork();
    if (child == 0) {
        unsigned char *own;
        CHECK(nv_malloc(1) == NULL && sysInit() == 0 && sysInit() == 0);
        own = (unsigned char *)nv_calloc(1, 500);
        CHECK(own != NULL && own[499] == 0);
        own[499] = 7;
        CHECK(own[499] == 7 && sysQuit() == 0 && nv_malloc(1) == NULL);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(address[0] == 'B');
    CHECK(sysQuit() == 0 && sysQuit() == 0 && nv_malloc(1) == NULL);
    CHECK(swing_release(area.token) == 0);
    return 0;
}
