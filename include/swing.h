/* SWING: copy-on-write memory areas shared between unrelated processes.
 *
 * An area is a range of addresses that one process reads and writes by plain loads and stores.
 * Other processes hook it: they get an area of their own with the same contents at that moment, in
 * constant time, whatever its size. From then on each side sees only its own stores; memory is
 * copied only where somebody stores.
 *
 * Every call returns 0 or a negative SWING_E_... number; swing_strerror() has words for it and
 * swing_last_error() the details. Any thread may call anything. Areas lie in a namespace, the
 * directory $SWINGDB_HOME or else /dev/shm/swingdb-<uid>, and are found by their token.
 *
 * An area ends with its process, however that ends; those who have hooked it keep their memory. A
 * child of fork() has a private copy of the memory and no areas.
 *
 * System calls may store into areas and load from them as plain stores and loads may: a program
 * that is linked with this library gets its read, recv, write and so on, which see to that. Where
 * such a call is made in another way (io_uring, a library opened by dlopen() in a program that is
 * not linked with this one), it fails with EFAULT: call swing_writable() on the buffer before.
 *
 * Build: cc program.c $(pkg-config --cflags --libs swing) */
#ifndef SWINGDB_SWING_H
#define SWINGDB_SWING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SWING_E_ARGUMENT (-1)      /* an argument is not possible */
#define SWING_E_NOT_FOUND (-2)     /* no such area, or its owner has ended */
#define SWING_E_REFUSED (-3)       /* not hookable, or over its copy-on-write threshold */
#define SWING_E_NO_MEMORY (-4)     /* the memory file system is full */
#define SWING_E_NO_ADDRESSES (-5)  /* no free range of addresses, mappings or areas */
#define SWING_E_ADDRESS_TAKEN (-6) /* SWING_AT_ORIGIN: something else lies there */
#define SWING_E_NO_TOKENS (-7)     /* 4095 areas live in the namespace */
#define SWING_E_FORKED (-8)        /* the area belongs to a parent process */
#define SWING_E_IO (-9)            /* a system call failed */
#define SWING_E_CORRUPT (-10)      /* a file is damaged */
#define SWING_E_BUSY (-11)         /* try again */
#define SWING_E_INTERNAL (-12)     /* a mistake in the library */
#define SWING_E_EXISTS (-13)       /* another area has the name; the area has an allocator */
#define SWING_E_STALE (-14)        /* the owner has not given its state of this moment */
#define SWING_E_NO_OBJECT (-15)    /* fgmm.h: freed, or never an object of this heap */
#define SWING_E_DISK_FULL (-16)    /* fgmm.h: the disk, or the heap's limit on it */

#define SWING_MAX_TOKEN 4095

/* Flags of swing_hook. */
#define SWING_AT_ORIGIN 1u /* at the addresses of the origin, or fail: raw pointers stay valid */
#define SWING_PUBLISHED 2u /* the state last published; the owner is not asked for a fresh one */
#define SWING_STALE 4u     /* the state last published, if the owner does not give a fresh one */

typedef struct swing_area {
    void *address;
    size_t length; /* rounded up to a multiple of 2 MiB, or of larger extents */
    int token;
    int at_origin; /* not 0: at its origin's addresses, so raw pointers stored in it are valid */
    uint64_t published_ns; /* hooked: by its owner's clock, when its state was
                            * published, ns since 1970; else 0 */
} swing_area;

typedef struct swing_block {
    void *address;
    size_t size; /* what was granted; often more than was asked for */
} swing_block;

typedef struct swing_stats {
    uint64_t mapped;  /* bytes that have memory */
    uint64_t own;     /* of these: in memory of the area's own */
    uint64_t foreign; /* of these: shared with its origin */
    uint64_t retired; /* old versions kept for those who hooked */
    uint64_t copied;  /* bytes copied so far */
} swing_stats;

/* How an area is made; zeros mean what swing_create does. */
typedef struct swing_options {
    size_t extent; /* the unit of copying behind the first 64th of the area, and the first such
                    * unit: a power of two from 64 KiB to 32 MiB. In these it is 64 KiB */
    void *address; /* where it shall begin: a multiple of 2 MiB from 2^44 to 5 * 2^44. Elsewhere if
                    * these addresses are not free, as the area's address then tells */
} swing_options;

/* How an allocator divides its area; zeros mean what it does by itself. */
typedef struct swing_class {
    size_t size;  /* bytes of a block: whole extents, as of swing_options */
    size_t count; /* so many of them */
} swing_class;

typedef struct swing_heap_options {
    size_t reserved;          /* bytes of swing_reserved; else a 1024th of the area */
    size_t limit;             /* larger requests prefer the table; else a 1024th, at least 4 MiB */
    const swing_class *table; /* blocks cut beforehand, ascending sizes; NULL: as it likes */
    size_t classes;           /* sizes in the table, up to 16; 0 with a table: no such blocks */
} swing_heap_options;

/* Bytes of an allocator. */
typedef struct swing_heap_stats {
    uint64_t capacity; /* addresses that blocks can have */
    uint64_t used;     /* in blocks of the program, as granted */
    uint64_t cached;   /* in free blocks that threads keep for themselves */
    uint64_t spare;    /* in free small blocks that no thread keeps */
    uint64_t metadata; /* addresses of its own tables; few of them have memory */
    uint64_t largest;  /* the largest free block */
} swing_heap_stats;

/* A new area of at least `length` bytes (1 to 16 TiB), all zeros. Takes addresses only; memory
 * comes with the first store. It is not hookable yet. */
int swing_create(size_t length, swing_area *out);
int swing_create_with(size_t length, const swing_options *options, swing_area *out);

/* A new area of this process with the contents that area `token` has at this moment, and a token of
 * its own. The owner may store all the while, and must have called swing_allow_hooks(): else
 * SWING_E_REFUSED, also where there is a published state. An owner that does not answer within five
 * seconds, because it is stopped or busy, or that has no memory for a publish, is SWING_E_STALE;
 * with SWING_STALE its last published state is hooked, and swing_is_fresh() says so.
 * SWING_E_NOT_FOUND, SWING_E_REFUSED, SWING_E_ADDRESS_TAKEN ... */
int swing_hook(int token, unsigned int flags, swing_area *out);

/* Of a hooked area: 1 if its owner published its state after the call of swing_hook, which asked
 * for that. 0: the state had been published before, or nobody asked. Clocks play no part in it. */
int swing_is_fresh(int token);

/* As swing_hook, of the area that has the name: by swing_set_name, or else in the namespace itself,
 * as the heap of a program on libswingmalloc_preload (SWING_PRELOAD_NAME) has one. */
int swing_hook_named(const char *name, unsigned int flags, swing_area *out);

/* As swing_hook of an area of this process, which need not be hookable: a new area with its present
 * contents. Nobody else can hook what was copied. */
int swing_copy(int token, swing_area *out);

/* Calls an area of this process by a name of up to 255 bytes, which no other living area has: else
 * SWING_E_EXISTS. The empty name takes its name away. A name is free again with its area. */
int swing_set_name(int token, const char *name);

/* The token of the area that has the name, or SWING_E_NOT_FOUND. By the time it is hooked its owner
 * may have ended, and another area may have the token. */
int swing_find(const char *name);

/* Not 0: from now on others may hook at any moment. 0: they may not. */
int swing_allow_hooks(int token, int allow);

/* Not 0: from now on, after each hook of any moment, a thread of this process copies what is stored
 * to again and again before it is, into memory that is held for that anyway. Stores wait less, most
 * of all where they go through all of the area in order: as long as they do, the area keeps up to
 * twice its size. It takes time of another processor. */
int swing_copy_ahead(int token, int yes);

/* Makes the present state the one that SWING_PUBLISHED hooks give. */
int swing_publish(int token);

/* Frees an area of this process and gives its token back. Its addresses must not be used again. */
int swing_release(int token);

/* Further hooks are refused while more than `bytes` of old versions are kept for those who hooked;
 * 0: never. */
int swing_set_threshold(int token, size_t bytes);

/* Every other thread's stores into the area, and hooks of it, wait until swing_resume(), so that
 * this thread can bring it, and publish it, in a consistent state. Both by the same thread, for
 * microseconds; take no lock meanwhile that a storing thread may hold. Where this thread stores or
 * touches memory first (to the next 64 KiB or 2 MiB), others may, too. The area's allocator and
 * swing_allow_hooks() answer SWING_E_BUSY to the holder. */
int swing_hold(int token);
int swing_resume(int token);

/* Makes a range ready for a system call that stores into it, and for plain stores, which end the
 * process when there is no memory: here that is SWING_E_NO_MEMORY. Others are left alone. */
int swing_writable(void *address, size_t length);

/* As swing_writable, until swing_unpin() of the same range: for direct I/O (O_DIRECT), io_uring and
 * asynchronous I/O that store into an area, from before the request, or the registration of the
 * buffer, until it is complete, or unregistered. They go past page protection: without a pin a hook
 * that comes meanwhile sees its memory change, and what arrives after it is lost. While something
 * is pinned hooks and swing_publish() wait, and fail after two seconds: SWING_E_STALE,
 * SWING_E_BUSY. */
int swing_pin(void *address, size_t length);
int swing_unpin(void *address, size_t length);

/* The token of this process's area that the address lies in, or a negative number. */
int swing_token_at(const void *address);

int swing_get_stats(int token, swing_stats *out);

/* The next part of the area that has memory, from the address `from` on, or from its begin when
 * that is NULL or before; SWING_E_NOT_FOUND behind the last. Who looks at all of an area looks at
 * these parts: elsewhere are zeros, and a load takes memory, too. */
int swing_next_range(int token, const void *from, swing_block *out);

/* Blocks inside an area into which the program itself has stored nothing. All that the allocator
 * knows lies in the area, so a hooked area can be allocated from and freed in at once. A block has
 * the size that is granted, at least 1, at a multiple of 16 or of `alignment`, a power of two.
 * swing_realloc leaves a block where it is if that can be; else `address` is free when it succeeds.
 * An address must be that of a block which has not been freed: SWING_E_ARGUMENT says that it is
 * not, but, as with free(), not every mistake is found. */
int swing_alloc(int token, size_t size, swing_block *out);
int swing_alloc_aligned(int token, size_t size, size_t alignment, swing_block *out);
int swing_realloc(void *address, size_t size, swing_block *out);
int swing_free(void *address);
int swing_usable_size(const void *address, size_t *out);

/* The allocator of an area that has none yet, divided as the program wants. Whoever hooks the area
 * later has it as it was made. SWING_E_EXISTS after the first swing_alloc. */
int swing_make_heap(int token, const swing_heap_options *options);

/* What the allocator has; other threads' calls wait some microseconds. */
int swing_get_heap_stats(int token, swing_heap_stats *out);

/* Verifies every invariant of the allocator, and counts the blocks of the program unless `blocks`
 * is NULL: SWING_E_CORRUPT says which one is violated, after a wrong or second swing_free, or a
 * stray store into what the allocator keeps. It looks at all that it knows: for tests. */
int swing_check_heap(int token, size_t *blocks);

/* The part of the area the allocator leaves to the program, at the same offset in every hooked
 * copy: the place for what the next process needs to find its data. */
int swing_reserved(int token, swing_block *out);

/* Takes away at once what ended processes left; create and hook do so too. Returns how many areas
 * that were, or a negative number. */
int swing_collect(void);

const char *swing_strerror(int code);
const char *swing_last_error(void); /* this thread's; valid until its next failure */
const char *swing_version(void);

#ifdef __cplusplus
}
#endif
#endif
