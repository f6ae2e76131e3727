/* The calls in the shape of the authors' own user library, so that programs written for it compile
 * unchanged: cc program.c $(pkg-config --cflags --libs swing-original). Each returns 0 or -1. An
 * area may have any length and is stored to by plain stores. Not together with swing_compat.h. */
#ifndef SWINGDB_ORIGINAL_SWING_H
#define SWINGDB_ORIGINAL_SWING_H
#ifdef SWINGDB_SWING_COMPAT_H
#error "original/swing.h and swing_compat.h give the same names to different functions"
#endif

#include "../swing.h"

static __inline__ int swing_original_give(int status, const swing_area *area, void **addr,
                                          int *token) {
    if (status != 0) {
        return -1;
    }
    *addr = area->address;
    *token = area->token;
    return 0;
}

/* A new area, not hookable before enablehook(). */
static __inline__ int createarea(void **addr, int *token, unsigned long len) {
    swing_area area;
    int status;
    if (addr == NULL || token == NULL) {
        return -1;
    }
    status = swing_create(len, &area);
    return swing_original_give(status, &area, addr, token);
}

/* A new area of the caller, with a token of its own, and the contents that `token` has now. */
static __inline__ int hook(void **addr, int *mytoken, int token) {
    swing_area area;
    int status;
    if (addr == NULL || mytoken == NULL) {
        return -1;
    }
    status = swing_hook(token, 0, &area);
    return swing_original_give(status, &area, addr, mytoken);
}

static __inline__ int enablehook(int token) {
    return swing_allow_hooks(token, 1) == 0 ? 0 : -1;
}

static __inline__ int disablehook(int token) {
    return swing_allow_hooks(token, 0) == 0 ? 0 : -1;
}

static __inline__ int releasearea(int token) {
    return swing_release(token) == 0 ? 0 : -1;
}

#endif
