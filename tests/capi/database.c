/* What swingdb.h says of mistakes, of values and of rows that outlive their session. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <swingdb.h>

#define EXPECT(what)                                                                               \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, swingdb_last_error());           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void nothing_is_null(void) {
    swingdb_database *database = NULL;
    swingdb_session *session = NULL;
    swingdb_statement *statement = NULL;
    EXPECT(swingdb_open(NULL, NULL, NULL, &database) == SWINGDB_E_ARGUMENT);
    EXPECT(strstr(swingdb_last_error(), "null") != NULL);
    EXPECT(swingdb_open("x", NULL, NULL, NULL) == SWINGDB_E_ARGUMENT);
    EXPECT(swingdb_open("x", NULL, "commit", &database) == SWINGDB_E_ARGUMENT);
    EXPECT(swingdb_open("\xff", NULL, NULL, &database) == SWINGDB_E_ARGUMENT);
    EXPECT(swingdb_connect(NULL, &session) == SWINGDB_E_ARGUMENT);
    EXPECT(swingdb_execute(NULL, "SELECT 1", NULL, NULL) == SWINGDB_E_ARGUMENT);
    EXPECT(swingdb_prepare(NULL, "SELECT 1", &statement) == SWINGDB_E_ARGUMENT);
    EXPECT(swingdb_bind_null(NULL, 1) == SWINGDB_E_ARGUMENT);
    EXPECT(swingdb_run(NULL, NULL, NULL) == SWINGDB_E_ARGUMENT);
    EXPECT(swingdb_share(NULL) == SWINGDB_E_ARGUMENT);
    EXPECT(database == NULL && session == NULL && statement == NULL);
    EXPECT(swingdb_close(NULL) == 0 && swingdb_disconnect(NULL) == 0 && swingdb_finish(NULL) == 0);
    for (int code = -19; code <= 0; code++) EXPECT(strlen(swingdb_strerror(code)) > 3);
    EXPECT(strstr(swingdb_strerror(7), "no error") != NULL);
}

static void stores(const char *folder) {
    char store[4096], copy[4096];
    swingdb_database *database, *other;
    snprintf(store, sizeof store, "%s/store", folder);
    snprintf(copy, sizeof copy, "%s/copy", folder);
    EXPECT(swingdb_open("d", store, "often", &database) == SWINGDB_E_ARGUMENT);
    EXPECT(swingdb_snapshot("d", NULL, &other) == SWINGDB_E_NOT_FOUND);
    EXPECT(swingdb_open("d", store, "manual", &database) == 0);
    EXPECT(swingdb_open("d", store, "manual", &other) == SWINGDB_E_BUSY);
    swingdb_session *session;
    EXPECT(swingdb_connect(database, &session) == 0);
    EXPECT(swingdb_execute(session, "CREATE TABLE t AS SELECT 1 AS a", NULL, NULL) == 0);
    EXPECT(swingdb_snapshot("d", NULL, &other) == SWINGDB_E_NOT_FOUND);
    EXPECT(swingdb_share(database) == 0);
    EXPECT(swingdb_snapshot("d", "e", &other) == 0);
    int newer = 7;
    EXPECT(swingdb_refresh(other, &newer) == 0 && newer == 0);
    EXPECT(swingdb_execute(session, "INSERT INTO t VALUES (2)", NULL, NULL) == 0);
    EXPECT(swingdb_share(database) == 0);
    EXPECT(swingdb_refresh(other, &newer) == 0 && newer == 1);
    EXPECT(swingdb_close(other) == 0);
    EXPECT(swingdb_checkpoint(database, NULL) == 0);
    EXPECT(swingdb_checkpoint(database, copy) == 0);
    EXPECT(swingdb_checkpoint(database, copy) == SWINGDB_E_IO);
    EXPECT(swingdb_close(database) == 0);
    EXPECT(swingdb_execute(session, "INSERT INTO t VALUES (3)", NULL, NULL) == SWINGDB_E_CLOSED);
    EXPECT(swingdb_disconnect(session) == 0);
    EXPECT(swingdb_restore(copy, NULL, &other) == SWINGDB_E_EXISTS);
    EXPECT(swingdb_restore(copy, "f", &other) == 0);
    EXPECT(swingdb_close(other) == 0);
    EXPECT(swingdb_drop("f") == 0 && swingdb_drop("d") == 0);
    EXPECT(swingdb_drop("d") == SWINGDB_E_NOT_FOUND);
}

static void statements(void) {
    swingdb_database *database;
    swingdb_session *session;
    swingdb_statement *insert;
    int64_t changed = 7;
    EXPECT(swingdb_open(":memory:", NULL, NULL, &database) == 0);
    EXPECT(swingdb_connect(database, &session) == 0);
    EXPECT(swingdb_execute(session, "SELEKT 1", NULL, NULL) == SWINGDB_E_SQL);
    EXPECT(swingdb_execute(session, "SELECT * FROM nowhere", NULL, NULL) == SWINGDB_E_NOT_FOUND);
    EXPECT(swingdb_execute(session, "COMMIT", NULL, NULL) == SWINGDB_E_TRANSACTION);
    EXPECT(swingdb_execute(session, "SELECT CAST('x' AS INTEGER)", NULL, NULL) < 0);
    EXPECT(swingdb_checkpoint(database, NULL) == SWINGDB_E_NOT_SUPPORTED);
    const char *sql =
        "CREATE TABLE v (b BOOLEAN, i BIGINT, d DOUBLE, t VARCHAR, x BLOB, n INTEGER)";
    EXPECT(swingdb_execute(session, sql, NULL, &changed) == 0 && changed == -1);
    EXPECT(swingdb_prepare(session, "INSERT INTO v VALUES (?, ?, ?, ?, ?, ?)", &insert) == 0);
    EXPECT(swingdb_bind_null(insert, 6) == 0);
    EXPECT(swingdb_bind_bool(insert, 1, 5) == 0);
    EXPECT(swingdb_bind_int64(insert, 2, INT64_MIN) == 0);
    EXPECT(swingdb_bind_double(insert, 3, 0.5) == 0);
    EXPECT(swingdb_bind_text(insert, 4, "a\0b", 3) == 0);
    EXPECT(swingdb_bind_blob(insert, 5, NULL, 0) == 0);
    EXPECT(swingdb_bind_int64(insert, 0, 1) == SWINGDB_E_ARGUMENT);
    EXPECT(swingdb_bind_int64(insert, 1 << 20, 1) == SWINGDB_E_ARGUMENT);
    EXPECT(swingdb_bind_text(insert, 4, "\xc3", 1) == SWINGDB_E_ARGUMENT);
    EXPECT(swingdb_bind_text(insert, 4, NULL, 1) == SWINGDB_E_ARGUMENT);
    EXPECT(swingdb_run(insert, NULL, &changed) == 0 && changed == 1);
    EXPECT(swingdb_bind_text(insert, 4, "", 0) == 0);
    EXPECT(swingdb_run(insert, NULL, &changed) == 0 && changed == 1);
    EXPECT(swingdb_finish(insert) == 0);

    struct ArrowArrayStream rows;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    sql = "SELECT i, length(t), b AND d = 0.5 AND n IS NULL AND octet_length(x) = 0 FROM v";
    EXPECT(swingdb_execute(session, sql, &rows, &changed) == 0 && changed == -1);
    EXPECT(swingdb_disconnect(session) == 0);
    EXPECT(swingdb_close(database) == 0);
    EXPECT(rows.get_schema(&rows, &schema) == 0);
    EXPECT(schema.n_children == 3 && strcmp(schema.children[0]->format, "l") == 0);
    schema.release(&schema);
    EXPECT(rows.get_next(&rows, &batch) == 0 && batch.length == 2);
    const int64_t *numbers = batch.children[0]->buffers[1];
    EXPECT(numbers[batch.children[0]->offset] == INT64_MIN);
    const uint8_t *bits = batch.children[2]->buffers[1];
    EXPECT((bits[0] >> batch.children[2]->offset & 3) == 3);
    batch.release(&batch);
    EXPECT(rows.get_next(&rows, &batch) == 0 && batch.release == NULL);
    rows.release(&rows);
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    nothing_is_null();
    stores(arguments[1]);
    statements();
    puts("ok");
    return 0;
}
