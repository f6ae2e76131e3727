/* An object heap that is larger than memory: objects of 1 byte to 64 KiB, of which those in use lie
 * in memory, within a budget, and the others in blocks on a disk (FG_MM, 2017).
 *
 * An object is known by a number, swing_object. Its bytes are copied by swing_heap_read and
 * swing_heap_write, or used in place between swing_heap_begin and swing_heap_end: until then the
 * object stays in memory, at that address.
 *
 * Every call returns 0 or a negative SWING_E_... number, as in swing.h. Any thread may call
 * anything. A heap stays with its process: in a child of fork() calls are SWING_E_FORKED.
 *
 * Build: cc program.c $(pkg-config --cflags --libs swing) */
#ifndef SWINGDB_FGMM_H
#define SWINGDB_FGMM_H

#include "swing.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SWING_HEAP_MAX_OBJECT 65536

/* Kinds of access. */
#define SWING_HEAP_READ 0u  /* beside other readers; nobody writes meanwhile */
#define SWING_HEAP_WRITE 1u /* alone */
#define SWING_HEAP_PIN 2u   /* keeps the object at its address; others may read and write it. Who
                             * stores through the address sees to it that nobody else does */

/* Flags of a heap. */
#define SWING_HEAP_S3FIFO 1u     /* evicts by S3-FIFO; else by the paper's two lists */
#define SWING_HEAP_PERSISTENT 2u /* the directory keeps the heap for the next process */

typedef struct swing_heap swing_heap;
typedef uint64_t swing_object; /* never 0 */

/* How a heap is opened; zeros mean what is said here. */
typedef struct swing_heap_config {
    uint64_t budget;      /* memory for objects, metadata and buffers together, 6 MiB to 64 GiB;
                           * else 64 MiB */
    uint64_t disk_limit;  /* the most bytes on the disk; else 1 TiB */
    uint64_t max_wait_ms; /* how long a call waits for an object in use, or for the disk, before it
                           * fails; else 10 000 */
    uint64_t flags;       /* SWING_HEAP_... */
} swing_heap_config;

typedef struct swing_heap_counters {
    uint64_t objects;          /* that exist */
    uint64_t object_bytes;     /* their lengths together */
    uint64_t resident_objects; /* in memory */
    uint64_t resident_bytes;   /* their lengths together */
    uint64_t budget_bytes;     /* the budget */
    uint64_t used_bytes;       /* what the heap takes of it */
    uint64_t metadata_bytes;   /* the part of that which is not for cells */
    uint64_t hits;             /* accesses that found the object in memory */
    uint64_t misses;           /* accesses that did not */
    uint64_t miss_p50_ns;      /* what half of the misses took at most */
    uint64_t miss_p99_ns;      /* what 99 % took at most */
    uint64_t miss_p999_ns;     /* what 99.9 % took at most */
    uint64_t evicted_bytes;    /* objects that left memory with a write */
    uint64_t written_bytes;    /* written to the disk; by evicted_bytes: write amplification */
    uint64_t read_bytes;       /* read from the disk */
    uint64_t file_bytes;       /* of the heap's file */
    uint64_t live_bytes;       /* of the file that objects need */
} swing_heap_counters;

/* An empty heap whose file lies in the directory, which is made if need be. The file has no name:
 * its room is free again when the heap, or the process, ends. `config` may be NULL. */
int swing_heap_open(const char *directory, const swing_heap_config *config, swing_heap **out);

/* With SWING_HEAP_PERSISTENT the directory holds the heap, and no other. A directory without one
 * gets an empty one. Another process that has it open is SWING_E_BUSY, damaged files are
 * SWING_E_CORRUPT. What the newest flush made durable is there again; `progress`, unless it is
 * NULL, is told meanwhile how many of all entries of the object table have been read. */
typedef void (*swing_heap_progress)(uint64_t done, uint64_t all, void *argument);
int swing_heap_open_with(const char *directory, const swing_heap_config *config,
                         swing_heap_progress progress, void *argument, swing_heap **out);

/* Makes all changes so far durable: they are there after a crash, too. Of what other threads change
 * meanwhile each object has all or nothing. Waits for accesses that write, and is SWING_E_BUSY
 * if they last too long. After any failure the state of the flush before stays durable. */
int swing_heap_flush(swing_heap *heap);

/* The object by which a program finds the others after opening; 0: none. Durable with the next
 * flush. */
int swing_heap_set_root(swing_heap *heap, swing_object object);
int swing_heap_root(swing_heap *heap, swing_object *out);

/* Flushes a persistent heap, and ends the heap; the objects of an ephemeral one end with it.
 * SWING_E_BUSY while accesses have not been ended: the heap is open then. After any other answer it
 * is closed. What is called afterwards is SWING_E_ARGUMENT. */
int swing_heap_close(swing_heap *heap);

/* A new object of `size` bytes, with a copy of `bytes`, or zeros if that is NULL. SWING_E_NO_MEMORY
 * if the budget has no room because all is in use; SWING_E_DISK_FULL. */
int swing_heap_alloc(swing_heap *heap, const void *bytes, size_t size, swing_object *out);

/* Changes an object's length; its number stays, and so do its bytes up to the shorter length. New
 * bytes are zero. */
int swing_heap_realloc(swing_heap *heap, swing_object object, size_t size);

/* Ends an object. From now on, and so for a second call, it is SWING_E_NO_OBJECT. */
int swing_heap_free(swing_heap *heap, swing_object object);

/* An object's length. Does not bring it into memory. */
int swing_heap_size(swing_heap *heap, swing_object object, size_t *out);

/* Copies `size` bytes of an object from `offset` on, or into it. SWING_E_BUSY if others use the
 * object for too long; SWING_E_CORRUPT if its bytes on the disk are damaged. */
int swing_heap_read(swing_heap *heap, swing_object object, size_t offset, void *to, size_t size);
int swing_heap_write(swing_heap *heap, swing_object object, size_t offset, const void *from,
                     size_t size);

/* Begins an access in place, and ends it with the same kind. `out` gets the address, a multiple of
 * 16, and the object's length. SWING_E_BUSY also if this thread has another access that excludes
 * this one. */
int swing_heap_begin(swing_heap *heap, swing_object object, unsigned int access, swing_block *out);
int swing_heap_end(swing_heap *heap, swing_object object, unsigned int access);

/* Brings objects into memory, several reads at a time. Nothing keeps them there. */
int swing_heap_prefetch(swing_heap *heap, const swing_object *objects, size_t count);

/* Another budget, at once. */
int swing_heap_set_budget(swing_heap *heap, uint64_t budget);

int swing_heap_get_counters(swing_heap *heap, swing_heap_counters *out);

#ifdef __cplusplus
}
#endif
#endif
