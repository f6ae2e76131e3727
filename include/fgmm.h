/* An object heap that is larger than memory: objects of 1 byte to 64 KiB, of which those in use lie
 * in memory, within a budget, and the others in blocks on a disk (FG_MM, 2017).
 *
 * An object is known by a number, swing_object. Its bytes are copied by swing_heap_read and
 * swing_heap_write, or used in place between swing_heap_begin and swing_heap_end: until then the
 * object stays in memory, at that address. An object of at most 4096 bytes can also have a plain
 * address: loads and stores there bring it into memory and change it.
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
#define SWING_HEAP_S3FIFO 1u     /* evicts by S3-FIFO, as without a flag */
#define SWING_HEAP_PERSISTENT 2u /* the directory keeps the heap for the next process */
#define SWING_HEAP_TWO_LISTS 4u  /* evicts by the paper's two lists */

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
    uint64_t written_bytes;    /* written to the disk */
    uint64_t read_bytes;       /* read from the disk */
    uint64_t file_bytes;       /* of the heap's file */
    uint64_t live_bytes;       /* of the file that objects need */
    uint64_t kept_bytes;       /* of the file that only snapshots need */
    uint64_t evicted_objects;  /* that left memory */
    uint64_t dropped_objects;  /* of these, without a write: the disk had the same bytes */
    uint64_t flushed_bytes;    /* objects that flushes wrote */
    uint64_t moved_bytes;      /* objects that garbage collection wrote again */
    uint64_t damaged;          /* reads that found damaged bytes */
} swing_heap_counters;

/* Hits by accesses; 1 before the first access. */
static inline double swing_heap_hit_rate(const swing_heap_counters *c) {
    return c->hits + c->misses == 0 ? 1.0 : (double)c->hits / (double)(c->hits + c->misses);
}

/* Bytes written to the disk for each byte of objects that left memory with a write, or that a flush
 * wrote; 1 before the first such object. */
static inline double swing_heap_write_amplification(const swing_heap_counters *c) {
    uint64_t bytes = c->evicted_bytes + c->flushed_bytes;
    return bytes == 0 ? 1.0 : (double)c->written_bytes / (double)bytes;
}

/* The part of the memory for cells that holds no object's bytes. */
static inline double swing_heap_fragmentation(const swing_heap_counters *c) {
    uint64_t cells = c->used_bytes - c->metadata_bytes;
    return cells == 0 ? 0.0 : 1.0 - (double)c->resident_bytes / (double)cells;
}

/* An empty heap whose file lies in the directory, which is made if need be. The file has no name:
 * its room is free again when the heap, or the process, ends. `config` may be NULL. */
int swing_heap_open(const char *directory, const swing_heap_config *config, swing_heap **out);

/* With SWING_HEAP_PERSISTENT the directory holds the heap, and no other. A directory without one
 * gets an empty one. Another process that has it open is SWING_E_BUSY, damaged files are
 * SWING_E_CORRUPT; files of something else, or of another version, are SWING_E_ARGUMENT. What the
 * newest flush made durable is there again; `progress`, unless it is NULL, is told meanwhile how
 * many of all entries of the object table have been read. */
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
 * object for too long; SWING_E_CORRUPT if its bytes on the disk are damaged. A write of all bytes
 * reads nothing from the disk. */
int swing_heap_read(swing_heap *heap, swing_object object, size_t offset, void *to, size_t size);
int swing_heap_write(swing_heap *heap, swing_object object, size_t offset, const void *from,
                     size_t size);

/* Gives an object these bytes, and `size` as its length, without reading what it was; its number
 * stays. After an error it is what it was. */
int swing_heap_replace(swing_heap *heap, swing_object object, const void *from, size_t size);

/* Begins an access in place, and ends it with the same kind. `out` gets the address, a multiple of
 * 16, and the object's length. SWING_E_BUSY also if this thread has another access that excludes
 * this one. */
int swing_heap_begin(swing_heap *heap, swing_object object, unsigned int access, swing_block *out);
int swing_heap_end(swing_heap *heap, swing_object object, unsigned int access);

/* Brings objects into memory, several reads at a time. Nothing keeps them there. */
int swing_heap_prefetch(swing_heap *heap, const swing_object *objects, size_t count);

/* Plain pointers. The address of an object of at most 4096 bytes is valid as long as the object is
 * there and keeps its size. Any thread may load from it and store to it; numbers and addresses may
 * be mixed, both see the same bytes. A page for the object is filled at the first touch, by a
 * handler of SIGBUS, or of SIGSEGV where the system refuses userfaultfd, both the system call and
 * /dev/userfaultfd; other faults go on to the handler that the program had. At most `window` bytes
 * of pages are filled at a time, within the budget; 0: an eighth of it. swing_heap_enable_pointers
 * only chooses that; the first address does it otherwise.
 *
 * An object that cannot be read ends the process by that signal. A child of fork() has no such
 * addresses: it ends by SIGSEGV.
 *
 * The kernel itself does not fill pages. read, write, recv, send, fread and the other functions of
 * the C library that swing.h names do it for a program that is linked with libswing. Where a buffer
 * is used otherwise (system calls by number, io_uring, other threads' libraries that were bound
 * before), pin its object first: EFAULT else, unless the page happens to be filled.
 *
 * Of a heap in an area the addresses may be used while states are shared. A state has what was
 * stored up to one moment, the same for all threads; a memcpy that is just going on may be there in
 * part.
 *
 * swing_heap_malloc makes an object of zeros, swing_heap_remalloc changes its size and gives its
 * new address, swing_heap_dispose ends it. swing_heap_object has the number of the object that
 * begins at an address, else SWING_E_NO_OBJECT. */
int swing_heap_enable_pointers(swing_heap *heap, uint64_t window);
int swing_heap_malloc(swing_heap *heap, size_t size, void **out);
int swing_heap_remalloc(swing_heap *heap, void *address, size_t size, void **out);
int swing_heap_dispose(swing_heap *heap, void *address);
int swing_heap_pointer(swing_heap *heap, swing_object object, void **out);
int swing_heap_object(swing_heap *heap, const void *address, swing_object *out);

/* Keeps the object that an address lies in at its address, in memory, until it is unpinned as
 * often: for system calls, devices and io_uring. Loads and stores of all threads go on. Other calls
 * with the object wait for the end of the pin, and are SWING_E_BUSY when it comes too late. A flush
 * or a share shows the bytes as they are at that moment. SWING_E_NO_OBJECT: no object lies there,
 * or it is not pinned. SWING_E_NO_MEMORY: half of the window is pinned. A heap with pins is not
 * closed. */
int swing_heap_pin(swing_heap *heap, const void *address);
int swing_heap_unpin(swing_heap *heap, const void *address);

/* Heaps in an area, of which other processes read states. swing_heap_open_in opens an empty heap
 * whose objects in memory lie in an area of the namespace ($SWINGDB_HOME, else
 * /dev/shm/swingdb-<uid>) that has the name. It ends with the process. SWING_E_EXISTS: another area
 * has the name.
 *
 * swing_heap_share shares the present state of all objects; copies nothing but what was stored
 * through plain pointers. Waits for accesses that write, and for those that read what was changed
 * through a pointer, and is SWING_E_BUSY if they last too long. `epoch`, unless it is NULL,
 * gets the number of the state. */
int swing_heap_open_in(const char *name, const char *directory, const swing_heap_config *config,
                       swing_heap **out);
int swing_heap_share(swing_heap *heap, uint64_t *epoch);

/* A state that the heap of a name has shared, the newest one, to be read by any process of the same
 * user: all objects of that moment, those on the disk too. It stays as it is until it is closed,
 * whether the heap goes on, is closed, or its process is killed; so does a forked child's.
 * SWING_E_NOT_FOUND: no such heap, or its process has ended. SWING_E_REFUSED: it has shared
 * nothing. SWING_E_CORRUPT: the area holds no heap. Any thread may read. */
typedef struct swing_heap_snapshot swing_heap_snapshot;
int swing_heap_snapshot_open(const char *name, swing_heap_snapshot **out);
int swing_heap_snapshot_close(swing_heap_snapshot *snapshot);
int swing_heap_snapshot_epoch(swing_heap_snapshot *snapshot, uint64_t *out);
int swing_heap_snapshot_root(swing_heap_snapshot *snapshot, swing_object *out);

/* The numbers of objects, up to `room` of them, behind object `last`; 0: from the first one on.
 * `count` gets how many; 0: there are no more. */
int swing_heap_snapshot_objects(swing_heap_snapshot *snapshot, swing_object last,
                                swing_object *objects, size_t room, size_t *count);
int swing_heap_snapshot_size(swing_heap_snapshot *snapshot, swing_object object, size_t *out);

/* Copies `size` bytes of an object from `offset` on. SWING_E_NO_OBJECT: the state has none of that
 * number. SWING_E_CORRUPT: its bytes on the disk are damaged. */
int swing_heap_snapshot_read(swing_heap_snapshot *snapshot, swing_object object, size_t offset,
                             void *to, size_t size);

/* Where an object is, to be read in place until the snapshot is closed. The address is NULL if the
 * object was on the disk: copy it then. */
int swing_heap_snapshot_in_place(swing_heap_snapshot *snapshot, swing_object object,
                                 swing_block *out);

/* The heap of the paper's calls, below: it lies in $FGMM_DIRECTORY, else /var/tmp, with a budget of
 * $FGMM_BUDGET_MIB, else 64, and at most $FGMM_DISK_MIB on the disk. swing_heap_common is NULL
 * before swing_heap_begin_common and after swing_heap_end_common. In a child of fork()
 * swing_heap_begin_common opens a heap of the child's own. */
int swing_heap_begin_common(void);
swing_heap *swing_heap_common(void);
int swing_heap_end_common(void);

/* Another budget, at once. */
int swing_heap_set_budget(swing_heap *heap, uint64_t budget);

int swing_heap_get_counters(swing_heap *heap, swing_heap_counters *out);

/* The calls under the names of the paper. sysInit and sysQuit return 0 or -1; the paper's return
 * nothing. An address is one of plain pointers, above: objects have 1 to 4096 bytes; larger ones
 * are for malloc. nv_calloc makes one object of `count` times `size` bytes. NULL on failure. */
static inline int sysInit(void) {
    return swing_heap_begin_common() == 0 ? 0 : -1;
}

static inline int sysQuit(void) {
    return swing_heap_end_common() == 0 ? 0 : -1;
}

/* Bytes of an object: zeros, as of nv_calloc. */
static inline void *nv_malloc(size_t size) {
    void *address = NULL;
    return swing_heap_malloc(swing_heap_common(), size, &address) == 0 ? address : NULL;
}

static inline void *nv_calloc(size_t count, size_t size) {
    return size != 0 && count > (size_t)-1 / size ? NULL : nv_malloc(count * size);
}

static inline void nv_free(void *address) {
    if (address != NULL) (void)swing_heap_dispose(swing_heap_common(), address);
}

static inline void *nv_realloc(void *address, size_t size) {
    void *changed = NULL;
    if (address == NULL) return nv_malloc(size);
    if (size == 0) {
        nv_free(address);
        return NULL;
    }
    return swing_heap_remalloc(swing_heap_common(), address, size, &changed) == 0 ? changed : NULL;
}

/* As swing_heap_pin and swing_heap_unpin: 0 or -1. */
static inline int nv_pin(const void *address) {
    return swing_heap_pin(swing_heap_common(), address) == 0 ? 0 : -1;
}

static inline int nv_unpin(const void *address) {
    return swing_heap_unpin(swing_heap_common(), address) == 0 ? 0 : -1;
}

/* Copies between an object and memory of the program's, which system calls may use. 0 or -1. */
static inline int nv_read(const void *address, size_t offset, void *to, size_t size) {
    swing_object object;
    if (swing_heap_object(swing_heap_common(), address, &object) != 0) return -1;
    return swing_heap_read(swing_heap_common(), object, offset, to, size) == 0 ? 0 : -1;
}

static inline int nv_write(void *address, size_t offset, const void *from, size_t size) {
    swing_object object;
    if (swing_heap_object(swing_heap_common(), address, &object) != 0) return -1;
    return swing_heap_write(swing_heap_common(), object, offset, from, size) == 0 ? 0 : -1;
}

#ifdef __cplusplus
}
#endif
#endif
