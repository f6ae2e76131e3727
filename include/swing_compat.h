/* The calls under the names of the paper ("Memory Instant Snapshot Sharing Mechanism and Its
 * Application in Database", Chinese Journal of Computers, 2018). An area's address and token come
 * in one word: the token is in its low 12 bits. Failure is (void *)-1, or -1. Not together with
 * original/swing.h, which gives the same names other shapes. */
#ifndef SWINGDB_SWING_COMPAT_H
#define SWINGDB_SWING_COMPAT_H
#ifdef SWINGDB_ORIGINAL_SWING_H
#error "swing_compat.h and original/swing.h give the same names to different functions"
#endif

#include "swing.h"

#define SWING_FAILED ((void *)-1)

/* What swingmalloc grants: both 0 on failure. */
typedef struct AddressInformation {
    void *addr;
    size_t size;
} AddressInformation;

/* The address in, and the token in, what createarea() and hook() return. */
static inline void *swingaddress(const void *area) {
    return (void *)((uintptr_t)area & ~(uintptr_t)4095);
}

static inline int swingtoken(const void *area) {
    return (int)((uintptr_t)area & 4095);
}

static inline void *swing_compat_word(const swing_area *area) {
    return (void *)((uintptr_t)area->address | (uintptr_t)area->token);
}

/* A new area, not hookable yet. */
static inline void *createarea(size_t length) {
    swing_area area;
    return swing_create(length, &area) == 0 ? swing_compat_word(&area) : SWING_FAILED;
}

/* A new area of the caller with the contents of area `token`. */
static inline void *hook(int token) {
    swing_area area;
    return swing_hook(token, 0, &area) == 0 ? swing_compat_word(&area) : SWING_FAILED;
}

/* Not 0: others may hook; 0: they may not. */
static inline int changehookstatus(int token, int status) {
    return swing_allow_hooks(token, status) == 0 ? 0 : -1;
}

static inline int release(int token) {
    return swing_release(token) == 0 ? 0 : -1;
}

static inline AddressInformation swing_compat_block(int status, const swing_block *block) {
    AddressInformation information = {NULL, 0};
    if (status == 0) {
        information.addr = block->address;
        information.size = block->size;
    }
    return information;
}

static inline AddressInformation swingmalloc(int token, size_t size) {
    swing_block block = {NULL, 0};
    int status = swing_alloc(token, size, &block);
    return swing_compat_block(status, &block);
}

static inline AddressInformation swingrealloc(void *addr, size_t size) {
    swing_block block = {NULL, 0};
    int status = swing_realloc(addr, size, &block);
    return swing_compat_block(status, &block);
}

static inline void swingfree(void *addr) {
    (void)swing_free(addr);
}

#endif
