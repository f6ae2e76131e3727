/* A database with a store on a disk: written, shared, taken by a snapshot, and opened again.
 *
 *     database DIRECTORY
 *
 * Its rows are read by the Arrow C stream interface. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <swingdb.h>

static void check(int result, const char *what) {
    if (result != 0) {
        fprintf(stderr, "%s: %s: %s\n", what, swingdb_strerror(result), swingdb_last_error());
        exit(1);
    }
}

/* The sum of the first column, of 64-bit integers. */
static int64_t sum(struct ArrowArrayStream *rows) {
    int64_t total = 0;
    for (;;) {
        struct ArrowArray batch;
        if (rows->get_next(rows, &batch) != 0) {
            fprintf(stderr, "rows: %s\n", rows->get_last_error(rows));
            exit(1);
        }
        if (batch.release == NULL) break;
        const struct ArrowArray *column = batch.children[0];
        const int64_t *values = (const int64_t *)column->buffers[1] + column->offset;
        for (int64_t row = 0; row < column->length; row++) total += values[row];
        batch.release(&batch);
    }
    rows->release(rows);
    return total;
}

static int64_t ask(const swingdb_database *database, const char *sql) {
    swingdb_session *session;
    struct ArrowArrayStream rows;
    check(swingdb_connect(database, &session), "connect");
    check(swingdb_execute(session, sql, &rows, NULL), sql);
    /* The rows stay when the session is given back. */
    check(swingdb_disconnect(session), "disconnect");
    return sum(&rows);
}

static void fill(const swingdb_database *database) {
    swingdb_session *session;
    swingdb_statement *insert;
    int64_t changed;
    check(swingdb_connect(database, &session), "connect");
    check(swingdb_execute(session, "CREATE TABLE city (name VARCHAR PRIMARY KEY, people BIGINT)",
                          NULL, NULL), "create");
    check(swingdb_prepare(session, "INSERT INTO city VALUES (?, ?)", &insert), "prepare");
    const char *names[] = {"Oslo", "Bergen", "Tromsø"};
    const int64_t people[] = {717710, 291940, 78745};
    for (int i = 0; i < 3; i++) {
        check(swingdb_bind_text(insert, 1, names[i], strlen(names[i])), "bind");
        check(swingdb_bind_int64(insert, 2, people[i]), "bind");
        check(swingdb_run(insert, NULL, &changed), "insert");
        printf("%d of %s\n", (int)changed, names[i]);
    }
    /* The last one once more: its key is taken. */
    if (swingdb_run(insert, NULL, NULL) != SWINGDB_E_CONSTRAINT) exit(1);
    printf("refused: %s\n", swingdb_last_error());
    check(swingdb_finish(insert), "finish");
    check(swingdb_disconnect(session), "disconnect");
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    const char *people = "SELECT people FROM city";
    swingdb_database *writer, *snapshot;

    check(swingdb_open("cities", arguments[1], "commit", &writer), "open");
    fill(writer);
    check(swingdb_share(writer), "share");
    check(swingdb_snapshot("cities", NULL, &snapshot), "snapshot");
    swingdb_session *session;
    check(swingdb_connect(writer, &session), "connect");
    check(swingdb_execute(session, "DELETE FROM city WHERE name = 'Oslo'", NULL, NULL), "delete");
    check(swingdb_disconnect(session), "disconnect");
    printf("snapshot: %lld, writer: %lld\n", (long long)ask(snapshot, people),
           (long long)ask(writer, people));
    check(swingdb_close(snapshot), "close");
    check(swingdb_close(writer), "close");

    /* As after a restart of the machine: the memory is gone, the store is there. */
    check(swingdb_drop("cities"), "drop");
    check(swingdb_open("cities", arguments[1], NULL, &writer), "open again");
    printf("from the store: %lld\n", (long long)ask(writer, people));
    check(swingdb_close(writer), "close");
    /* One that is closed while it is still read from its store leaves nothing in memory. */
    int dropped = swingdb_drop("cities");
    if (dropped != SWINGDB_E_NOT_FOUND) check(dropped, "drop");
    return 0;
}
