/* YCSB's core workloads A to F on Redis, as its Redis binding does them: a record is a hash of ten
 * fields of 100 bytes, and one sorted set indexes all keys for scans (a scan reads its records one
 * after the other). Distributions and mixes are YCSB's: scrambled zipfian (0.99 over 10^10), latest
 * for D, scans of 1 to 100 records, all fields read, one field updated.
 *
 *   ycsb PORT load RECORDS CONNECTIONS
 *   ycsb PORT A..F RECORDS CONNECTIONS SECONDS
 *
 * One thread, closed loop: each connection asks again when it has its answer. All values begin
 * with their record's key, and every answer is checked for it: a store that went elsewhere ends the
 * run. Prints JSON: operations a second (also for each tenth of a second) and latencies in
 * nanoseconds. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FIELDS 10
#define VALUE 100
#define MARK 16 /* digits at the begin of a value: the key of its record */
#define MAX_SCAN 100
#define MAX_CONNECTIONS 256
#define ROOM (1 << 16)
#define TENTHS (1 << 15)
#define INDEX "_indices"

static _Noreturn void fail(const char *what) {
    fprintf(stderr, "ycsb: %s (%s)\n", what, strerror(errno));
    exit(1);
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* ---- what YCSB draws ------------------------------------------------------------------------- */

static uint64_t seed_word = 88172645463325252ULL;

static uint64_t draw(void) {
    seed_word ^= seed_word << 13;
    seed_word ^= seed_word >> 7;
    seed_word ^= seed_word << 17;
    return seed_word * 2685821657736338717ULL;
}

static double unit(void) {
    return (double)(draw() >> 11) / 9007199254740992.0;
}

/* Utils.fnvhash64 of YCSB: also what turns a record's number into its key. */
static uint64_t fnv(uint64_t number) {
    uint64_t hash = 0xCBF29CE484222325ULL;
    for (int i = 0; i < 8; i++) {
        hash = (hash ^ (number & 255)) * 1099511628211ULL;
        number >>= 8;
    }
    int64_t signed_hash = (int64_t)hash;
    return (uint64_t)(signed_hash < 0 ? -signed_hash : signed_hash);
}

struct zipf {
    double items, theta, zeta_n, alpha, eta, half;
};

static double zeta(double from, double to, double theta) {
    double sum = 0;
    for (double i = from; i < to; i++) {
        sum += pow(i + 1, -theta);
    }
    return sum;
}

static struct zipf zipf_of(double items, double zeta_n) {
    struct zipf z = {.items = items, .theta = 0.99, .zeta_n = zeta_n, .alpha = 1 / (1 - 0.99)};
    double zeta_2 = zeta(0, 2, z.theta);
    z.eta = (1 - pow(2 / items, 1 - z.theta)) / (1 - zeta_2 / zeta_n);
    z.half = 1 + pow(0.5, z.theta);
    return z;
}

static uint64_t zipf_next(const struct zipf *z) {
    double u = unit(), uz = u * z->zeta_n;
    if (uz < 1) {
        return 0;
    }
    if (uz < z->half) {
        return 1;
    }
    return (uint64_t)(z->items * pow(z->eta * u - z->eta + 1, z->alpha));
}

/* ---- the work -------------------------------------------------------------------------------- */

enum kind { READ, UPDATE, INSERT, SCAN, MODIFY, KINDS };
static const char *const names[KINDS] = {"read", "update", "insert", "scan", "read-modify-write"};

/* Percent of each kind. */
static const int mixes[6][KINDS] = {
    {50, 50, 0, 0, 0}, {95, 5, 0, 0, 0}, {100, 0, 0, 0, 0},
    {95, 0, 5, 0, 0},  {0, 0, 5, 95, 0}, {50, 0, 0, 0, 50},
};

enum expect { HASH, STATUS, NUMBER, KEYS };

struct connection {
    int fd;
    char in[ROOM];
    size_t begin, end; /* what has been received and not been looked at */
    enum kind kind;
    int64_t since;
    uint64_t record, key;
    enum expect expect;
    uint64_t scan[MAX_SCAN];
    int found, next;
};

static struct connection connections[MAX_CONNECTIONS];
static int connection_count, workload;
/* Records that are there; and numbers given to records, some of which are on their way: `arrived`
 * has those of them that are there before one with a smaller number. */
static uint64_t records, given;
static char arrived[2 * MAX_CONNECTIONS];
static struct zipf scrambled, latest;
static int64_t *samples[KINDS];
static size_t sample_count[KINDS], sample_room[KINDS];
static uint32_t tenths[TENTHS];
static int64_t began;

static void keep_sample(enum kind kind, int64_t took) {
    if (sample_count[kind] == sample_room[kind]) {
        sample_room[kind] = sample_room[kind] ? 2 * sample_room[kind] : 1 << 16;
        samples[kind] = realloc(samples[kind], sample_room[kind] * sizeof *samples[kind]);
        if (!samples[kind]) {
            fail("memory");
        }
    }
    samples[kind][sample_count[kind]++] = took;
}

static uint64_t choose_record(void) {
    if (workload == 'D') {
        uint64_t back = zipf_next(&latest);
        return records - 1 - (back < records ? back : records - 1);
    }
    return fnv(zipf_next(&scrambled)) % records;
}

static enum kind choose_kind(void) {
    int at = (int)(draw() % 100);
    const int *mix = mixes[workload - 'A'];
    int kind = 0;
    while (at >= mix[kind]) {
        at -= mix[kind++];
    }
    return (enum kind)kind;
}

/* The commands, written to `out`; each returns its length. */
static size_t key_of(uint64_t key, char *out) {
    return (size_t)sprintf(out, "user%llu", (unsigned long long)key);
}

static size_t put_read(uint64_t number, char *out) {
    char key[32];
    size_t len = key_of(number, key);
    return (size_t)sprintf(out, "*2\r\n$7\r\nHGETALL\r\n$%zu\r\n%s\r\n", len, key);
}

static void put_value(uint64_t key, char *out) {
    char mark[MARK + 1];
    snprintf(mark, sizeof mark, "%016llx", (unsigned long long)key);
    memcpy(out, mark, MARK);
    uint64_t bits = draw();
    for (int i = MARK; i < VALUE; i++) {
        out[i] = (char)('a' + (bits >> (i % 48)) % 16);
    }
    memcpy(out + VALUE, "\r\n", 2);
}

static size_t put_fields(uint64_t number, int first, int count, char *out) {
    char key[32], *at = out;
    size_t len = key_of(number, key);
    at += sprintf(at, "*%d\r\n$5\r\nHMSET\r\n$%zu\r\n%s\r\n", 2 + 2 * count, len, key);
    for (int i = first; i < first + count; i++) {
        at += sprintf(at, "$6\r\nfield%d\r\n$%d\r\n", i, VALUE);
        put_value(number, at);
        at += VALUE + 2;
    }
    return (size_t)(at - out);
}

/* The binding orders keys by a hash of theirs; this one is exact in a double. */
static uint64_t score_of(uint64_t key) {
    return fnv(key) >> 11;
}

static size_t put_index(uint64_t number, char *out) {
    char key[32], score[32];
    size_t len = key_of(number, key);
    int digits = sprintf(score, "%llu", (unsigned long long)score_of(number));
    const char *form = "*4\r\n$4\r\nZADD\r\n$8\r\n" INDEX "\r\n$%d\r\n%s\r\n$%zu\r\n%s\r\n";
    return (size_t)sprintf(out, form, digits, score, len, key);
}

static size_t put_range(uint64_t key, int count, char *out) {
    char score[32], limit[8];
    int digits = sprintf(score, "%llu", (unsigned long long)score_of(key));
    int limit_digits = sprintf(limit, "%d", count);
    return (size_t)sprintf(out,
                           "*7\r\n$13\r\nZRANGEBYSCORE\r\n$8\r\n" INDEX
                           "\r\n$%d\r\n%s\r\n$4\r\n+inf\r\n$5\r\nLIMIT\r\n$1\r\n0\r\n$%d\r\n%s\r\n",
                           digits, score, limit_digits, limit);
}

static void send_all(int fd, const char *at, size_t len) {
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            fail("send");
        }
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
}

static void ask(struct connection *c, size_t len, const char *command, enum expect expect) {
    c->expect = expect;
    send_all(c->fd, command, len);
}

static void start(struct connection *c) {
    char command[4096];
    c->since = now();
    c->kind = choose_kind();
    c->record = c->kind == INSERT ? given++ : choose_record();
    c->key = fnv(c->record);
    switch (c->kind) {
    case READ:
    case MODIFY: ask(c, put_read(c->key, command), command, HASH); break;
    case UPDATE:
        ask(c, put_fields(c->key, (int)(draw() % FIELDS), 1, command), command, STATUS);
        break;
    case INSERT: ask(c, put_fields(c->key, 0, FIELDS, command), command, STATUS); break;
    default:
        ask(c, put_range(c->key, 1 + (int)(draw() % MAX_SCAN), command), command, KEYS);
        break;
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

/* A line of an answer: its number; NULL when it is not there completely. */
static const char *line(const char *at, const char *end, char sign, long long *number) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) {
        return NULL;
    }
    if (*at != sign) {
        fprintf(stderr, "ycsb: the answer is %.*s\n", (int)(stop - at), at);
        exit(1);
    }
    *number = strtoll(at + 1, NULL, 10);
    return stop + 1;
}

/* An array of texts; the end, or NULL when not there completely. */
static const char *texts(struct connection *c, const char *at, const char *end) {
    char mark[MARK + 1], user[32];
    long long count, len;
    snprintf(mark, sizeof mark, "%016llx", (unsigned long long)c->key);
    at = line(at, end, '*', &count);
    if (!at) {
        return NULL;
    }
    if (c->expect == HASH && count != 2 * FIELDS) {
        fail("a record has other fields than it was given");
    }
    int found = 0;
    for (long long i = 0; i < count; i++) {
        at = line(at, end, '$', &len);
        if (!at || end - at < len + 2) {
            return NULL;
        }
        if (c->expect == HASH && i % 2 == 1 && (len != VALUE || memcmp(at, mark, MARK) != 0)) {
            fail("a value is not of the record that was read");
        }
        if (c->expect == KEYS && found < MAX_SCAN && len < (long long)sizeof user) {
            snprintf(user, sizeof user, "%.*s", (int)len, at);
            c->scan[found++] = strtoull(user + 4, NULL, 10);
        }
        at += len + 2;
    }
    c->found = c->expect == KEYS ? found : c->found;
    return at;
}

/* Takes one complete answer off the buffer; 0 when there is none. */
static int take(struct connection *c) {
    const char *at = c->in + c->begin, *end = c->in + c->end;
    long long ignored;
    if (at == end) {
        return 0;
    }
    switch (c->expect) {
    case HASH:
    case KEYS: at = texts(c, at, end); break;
    case STATUS: at = line(at, end, '+', &ignored); break;
    default: at = line(at, end, ':', &ignored); break;
    }
    if (!at) {
        return 0;
    }
    c->begin = (size_t)(at - c->in);
    if (c->begin == c->end) {
        c->begin = c->end = 0;
    }
    return 1;
}

/* After an answer: the next request of the operation; 0 when the operation is complete. */
static int go_on(struct connection *c) {
    char command[4096];
    if (c->kind == MODIFY && c->expect == HASH) {
        int field = (int)(draw() % FIELDS);
        ask(c, put_fields(c->key, field, 1, command), command, STATUS);
        return 1;
    }
    if (c->kind == INSERT && c->expect == STATUS) {
        ask(c, put_index(c->key, command), command, NUMBER);
        return 1;
    }
    if (c->kind == SCAN) {
        c->next = c->expect == KEYS ? 0 : c->next + 1;
        if (c->next < c->found) {
            c->key = c->scan[c->next];
            ask(c, put_read(c->key, command), command, HASH);
            return 1;
        }
    }
    return 0;
}

static void inserted(uint64_t record) {
    arrived[record % sizeof arrived] = 1;
    while (arrived[records % sizeof arrived]) {
        arrived[records++ % sizeof arrived] = 0;
    }
}

static void receive(struct connection *c) {
    if (c->begin > 0 && c->end > ROOM / 2) {
        memmove(c->in, c->in + c->begin, c->end - c->begin);
        c->end -= c->begin;
        c->begin = 0;
    }
    ssize_t n = recv(c->fd, c->in + c->end, ROOM - c->end, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        fail("the server has closed the connection");
    }
    c->end += n > 0 ? (size_t)n : 0;
}

/* ---- load and run ---------------------------------------------------------------------------- */

static int open_connections(int port) {
    int group = epoll_create1(0), yes = 1;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < connection_count; i++) {
        struct connection *c = &connections[i];
        c->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(c->fd, (struct sockaddr *)&to, sizeof to) != 0) {
            fail("connect");
        }
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        if (epoll_ctl(group, EPOLL_CTL_ADD, c->fd, &event) != 0) {
            fail("epoll");
        }
    }
    return group;
}

/* Each record's two commands on one connection, a hundred records in flight. */
static void load(void) {
    static char out[100 * 4096];
    struct connection *c = &connections[0];
    for (uint64_t first = 0; first < records; first += 100) {
        size_t len = 0;
        uint64_t end = first + 100 < records ? first + 100 : records;
        for (uint64_t record = first; record < end; record++) {
            len += put_fields(fnv(record), 0, FIELDS, out + len);
            len += put_index(fnv(record), out + len);
        }
        send_all(c->fd, out, len);
        for (uint64_t i = 0; i < 2 * (end - first); i++) {
            c->expect = i % 2 ? NUMBER : STATUS;
            while (!take(c)) {
                struct pollfd readable = {.fd = c->fd, .events = POLLIN};
                poll(&readable, 1, -1);
                receive(c);
            }
        }
    }
}

static void run(int group, double seconds) {
    struct epoll_event events[MAX_CONNECTIONS];
    began = now();
    int64_t end = began + (int64_t)(seconds * 1e9);
    int busy = connection_count;
    for (int i = 0; i < connection_count; i++) {
        start(&connections[i]);
    }
    while (busy > 0) {
        int n = epoll_wait(group, events, MAX_CONNECTIONS, -1);
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            receive(c);
            if (!take(c) || go_on(c)) {
                continue;
            }
            int64_t at = now();
            if (c->kind == INSERT) {
                inserted(c->record);
            }
            if (at >= end) {
                busy--;
                continue;
            }
            keep_sample(c->kind, at - c->since);
            int64_t tenth = (at - began) / 100000000;
            tenths[tenth < TENTHS ? tenth : TENTHS - 1]++;
            start(c);
        }
    }
}

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void print_latencies(const char *name, int64_t *of, size_t count) {
    qsort(of, count, sizeof *of, by_size);
    printf("\"%s\": {\"count\": %zu", name, count);
    static const double at[] = {0.5, 0.9, 0.99, 0.999, 0.9999};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        printf(", \"p%g\": %lld", at[i] * 100, (long long)of[(size_t)(at[i] * (double)count)]);
    }
    printf(", \"most\": %lld}", (long long)of[count - 1]);
}

static void report(double seconds) {
    size_t all = 0, at = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        all += sample_count[kind];
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double used = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                  (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    printf("{\"throughput\": %.1f, \"records\": %llu, \"client_busy\": %.3f, ",
           (double)all / seconds, (unsigned long long)records, used / seconds);
    int64_t *every = malloc((all ? all : 1) * sizeof *every);
    if (!every || !all) {
        fail("no operation was completed");
    }
    for (int kind = 0; kind < KINDS; kind++) {
        if (sample_count[kind] > 0) {
            memcpy(every + at, samples[kind], sample_count[kind] * sizeof *every);
            at += sample_count[kind];
            print_latencies(names[kind], samples[kind], sample_count[kind]);
            printf(", ");
        }
    }
    print_latencies("all", every, all);
    printf(", \"tenths\": [");
    for (int i = 0; i < (int)(seconds * 10) && i < TENTHS; i++) {
        printf("%s%u", i ? ", " : "", tenths[i]);
    }
    printf("]}\n");
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fail("usage: ycsb PORT load|A|B|C|D|E|F RECORDS CONNECTIONS [SECONDS]");
    }
    records = given = strtoull(argv[3], NULL, 10);
    connection_count = atoi(argv[4]);
    workload = argv[2][0];
    double seconds = argc > 5 ? atof(argv[5]) : 0;
    if (records == 0 || connection_count < 1 || connection_count > MAX_CONNECTIONS) {
        fail("RECORDS or CONNECTIONS");
    }
    int group = open_connections(atoi(argv[1]));
    if (workload == 'l') {
        load();
        return 0;
    }
    if (workload < 'A' || workload > 'F' || seconds < 0.1) {
        fail("the workload is one of A to F, for some seconds");
    }
    seed_word ^= (uint64_t)now();
    /* YCSB's ScrambledZipfianGenerator: over 10^10 items, whose zeta it knows. */
    scrambled = zipf_of(1e10, 26.46902820178302);
    latest = zipf_of((double)records, zeta(0, (double)records, 0.99));
    run(group, seconds);
    report(seconds);
    return 0;
}
