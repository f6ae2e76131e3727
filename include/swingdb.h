/* SwingDB: databases in memory that other processes can take as their own, for C and C++.
 *
 * A database is opened by its one writer, and shared; any other process takes a snapshot of it,
 * which is constant time and copies nothing. With a store, a directory on a disk, it outlives a
 * restart of the machine. Databases lie in a namespace, the directory $SWINGDB_HOME or else
 * /dev/shm/swingdb-<uid>.
 *
 * Every call returns 0 or a negative SWINGDB_E_... number; swingdb_strerror() has words for it and
 * swingdb_last_error() the details, for the thread whose call failed. What a call gives back
 * through a pointer is set only if it returns 0. Texts are UTF-8.
 *
 * Any thread may call anything. Statements of one session run one after the other: use a session
 * for each thread. A prepared statement belongs to one thread at a time.
 *
 * Rows come by the Arrow C stream interface, without a copy: any Arrow library reads them. They
 * stay valid when the session and the database are closed, until their release callbacks are
 * called. Texts are string views ("vu") where a column of a table is handed out as it lies.
 *
 * Build: cc program.c $(pkg-config --cflags --libs swingdb) */
#ifndef SWINGDB_SWINGDB_H
#define SWINGDB_SWINGDB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SWINGDB_E_ARGUMENT (-1)      /* an argument is not possible */
#define SWINGDB_E_SQL (-2)           /* the statement is wrong, or failed */
#define SWINGDB_E_NOT_FOUND (-3)     /* a name does not exist, or was not shared yet */
#define SWINGDB_E_EXISTS (-4)        /* the name is taken */
#define SWINGDB_E_CONSTRAINT (-5)    /* a constraint is violated */
#define SWINGDB_E_CONVERSION (-6)    /* a value does not fit its type */
#define SWINGDB_E_NO_MEMORY (-7)     /* the memory file system is full, or a limit is reached */
#define SWINGDB_E_BUSY (-8)          /* somebody else has it open for writing */
#define SWINGDB_E_TRANSACTION (-9)   /* the statement does not fit the state of the transaction */
#define SWINGDB_E_IO (-10)           /* the operating system or the device failed */
#define SWINGDB_E_DAMAGED (-11)      /* database or store are damaged, or of another version */
#define SWINGDB_E_DISK_FULL (-12)    /* the disk is full; the commit was rolled back */
#define SWINGDB_E_MISMATCH (-13)     /* database in memory and store do not belong together */
#define SWINGDB_E_UNKNOWN (-14)      /* a commit failed half way: close the database, reopen it */
#define SWINGDB_E_INTERRUPTED (-15)  /* interrupted, or over a limit of the session */
#define SWINGDB_E_NOT_SUPPORTED (-16) /* not supported, or not allowed */
#define SWINGDB_E_FORKED (-17)       /* the database was opened before a fork */
#define SWINGDB_E_CLOSED (-18)       /* the database is closed */
#define SWINGDB_E_INTERNAL (-19)     /* a mistake in the library */

/* The Arrow C data and stream interfaces, as their specification gives them. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};
#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};
#endif

typedef struct swingdb_database swingdb_database;
typedef struct swingdb_session swingdb_session;
typedef struct swingdb_statement swingdb_statement;

/* ---- databases ----------------------------------------------------------------------- */

/* Opens a database for writing; it is made when it is missing, with its first commit. ":memory:"
 * is a database of this process alone.
 *
 * store: a directory on a disk, made when it is missing; NULL: the store that the database had
 * when it was last open, if any; "": none from now on, the store stays as it is. durability: when
 * changes get to the store. "commit": with each commit; "manual": with swingdb_checkpoint(); a
 * number of seconds, as "2.5": in the background; NULL: as the last time, "commit" at first.
 *
 * SWINGDB_E_BUSY while another process has it open. */
int swingdb_open(const char *name, const char *store, const char *durability,
                 swingdb_database **out);

/* A snapshot of the newest shared state of a database: the process's own, writable, and as it is
 * whatever others do. as_name: the name under which it can be shared on; NULL: none. */
int swingdb_snapshot(const char *name, const char *as_name, swingdb_database **out);

/* Reads a store, or a copy that swingdb_checkpoint() made, into memory as a new database without a
 * store. name: NULL: the one it has there. */
int swingdb_restore(const char *directory, const char *name, swingdb_database **out);

/* Makes the last committed state the one that new snapshots see. */
int swingdb_share(const swingdb_database *database);

/* Moves a snapshot without own changes to the newest shared state. newer: 1, or 0 if it had that
 * already; may be NULL. */
int swingdb_refresh(const swingdb_database *database, int *newer);

/* Brings the store to the last commit. With a directory, missing or empty: makes a copy of the last
 * committed state there, of a snapshot too. */
int swingdb_checkpoint(const swingdb_database *database, const char *directory);

/* Ends the use of a database and gives the handle back, whatever it returns; NULL does nothing.
 * Its sessions still read the last state; what changes something gets SWINGDB_E_CLOSED. They have
 * to be given back too. A named database stays in memory. */
int swingdb_close(swingdb_database *database);

/* Removes a database from memory; its store stays. */
int swingdb_drop(const char *name);

/* ---- statements ---------------------------------------------------------------------- */

/* A session: settings, a transaction. It begins outside of a transaction, where each statement
 * commits by itself; BEGIN, COMMIT and ROLLBACK are statements. */
int swingdb_connect(const swingdb_database *database, swingdb_session **out);

/* Gives a session back; what it had not committed is rolled back. NULL does nothing. */
int swingdb_disconnect(swingdb_session *session);

/* Interrupts the statement that another thread runs in the session. */
int swingdb_interrupt(const swingdb_session *session);

/* Runs one statement, or several separated by ';'. rows: gets the rows of the last one, which are
 * computed while they are read (a stream without columns if it has none); call its release()
 * afterwards. NULL: nobody wants them. changed: how many rows were inserted, updated or deleted, -1
 * for statements that do not count rows; may be NULL.
 *
 * An error while rows are read is one of the stream: its get_last_error() has the text. */
int swingdb_execute(const swingdb_session *session, const char *sql, struct ArrowArrayStream *rows,
                    int64_t *changed);

/* Keeps a text whose parameters (?, $1, $2 ...) get values, to be run again and again. The text is
 * looked at by swingdb_run(). A statement keeps its session. */
int swingdb_prepare(const swingdb_session *session, const char *sql, swingdb_statement **out);

/* Gives parameter `index`, from 1 on, a value, which stays until it gets another one. Texts and
 * blobs are copied; a length of 0 is the empty one. */
int swingdb_bind_null(swingdb_statement *statement, int index);
int swingdb_bind_bool(swingdb_statement *statement, int index, int value);
int swingdb_bind_int64(swingdb_statement *statement, int index, int64_t value);
int swingdb_bind_double(swingdb_statement *statement, int index, double value);
int swingdb_bind_text(swingdb_statement *statement, int index, const char *text, size_t length);
int swingdb_bind_blob(swingdb_statement *statement, int index, const void *bytes, size_t length);

/* Runs the statement with these values; as swingdb_execute(). */
int swingdb_run(const swingdb_statement *statement, struct ArrowArrayStream *rows,
                int64_t *changed);

/* Gives a statement back; NULL does nothing. */
int swingdb_finish(swingdb_statement *statement);

/* ---- errors -------------------------------------------------------------------------- */

/* The text of this thread's last failed call; valid until its next one. */
const char *swingdb_last_error(void);

/* What a number means, in a few words. */
const char *swingdb_strerror(int code);

#ifdef __cplusplus
}
#endif
#endif
