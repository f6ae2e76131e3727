/* Figure 8 of the paper: a process hands `MIB` of filled memory to another one, which is there
 * already. Prints, a line for each time, nanoseconds until the other has it:
 *
 *   fig8 MODE MIB small|huge TIMES
 *
 * MODE one of hook, again, first, pipe, fifo, socket, shm, memcpy, fork. `hook` comes right after
 * the owner has stored to all of it, which has been hooked once before that; `again` when it has
 * stored nothing since a hook before; `first` is as `hook`, but the first hook that either process
 * ever sees. The other two happen once. What is received is received into memory that is there.
 * `huge`: also private memory has huge pages; what is shared has what the file system of
 * $SWINGDB_HOME gives. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <swing.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHUNK ((size_t)1 << 20)

static int is(const char *mode, const char *other) {
    return strcmp(mode, other) == 0;
}

static int hooks(const char *mode) {
    return is(mode, "hook") || is(mode, "again") || is(mode, "first");
}

static void need(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "%s: %s\n", what, swing_last_error());
        perror(what);
        _exit(1);
    }
}

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void all(ssize_t (*call)(int, void *, size_t), int fd, char *at, size_t len) {
    while (len > 0) {
        ssize_t n = call(fd, at, len < CHUNK ? len : CHUNK);
        need(n > 0, "transfer");
        at += n;
        len -= (size_t)n;
    }
}

static ssize_t put(int fd, void *at, size_t len) {
    return write(fd, at, len);
}

static int huge;

static void *memory(int fd, size_t len, int fill) {
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    size_t room = len + ((size_t)2 << 20);
    char *at = mmap(NULL, room, PROT_READ | PROT_WRITE, flags, fd, 0);
    need(at != MAP_FAILED, "mmap");
    at += -(uintptr_t)at & (((size_t)2 << 20) - 1);
    if (fd >= 0) {
        /* At an address where the file's huge pages fit. */
        at = mmap(at, len, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
        need(at != MAP_FAILED, "mmap");
    }
    madvise(at, len, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    if (fill) {
        memset(at, fill, len);
    }
    return at;
}

static volatile unsigned long long sink;

static void scan(const void *at, size_t len) {
    const unsigned long long *word = at;
    unsigned long long sum = 0;
    for (size_t i = 0; i < len / 8; i++) {
        sum += word[i];
    }
    sink = sum;
}

/* The other process: says that it is ready; takes each time that it is told to, and says how long
 * that took (0: ask the clock of the giver). */
static void taker(const char *mode, size_t len, int data, int from, int to, const char *path) {
    int token, told = 0;
    long long took = 0;
    char *into = NULL;
    int shared = is(mode, "shm");
    if (is(mode, "fifo")) {
        need((data = open(path, O_RDONLY)) >= 0, "fifo");
    }
    if (!hooks(mode) && !shared) {
        into = memory(-1, len, 1);
    }
    need(write(to, &took, sizeof took) == sizeof took, "ready");
    while (read(from, &token, sizeof token) == sizeof token) {
        swing_area area;
        if (is(mode, "again") && !took) {
            need(swing_hook(token, 0, &area) == 0, "hook");
        }
        if (hooks(mode)) {
            long long start = now();
            need(swing_hook(token, 0, &area) == 0, "hook");
            took = now() - start;
            /* Before the owner has stored there is nothing to read. */
            int empty = is(mode, "hook") && !told++;
            need(empty || ((char *)area.address)[len - 1] == 7, "contents");
            need(swing_release(area.token) == 0, "release");
        } else if (shared) {
            need(flock(data, LOCK_SH) == 0, "lock");
            void *at = memory(data, len, 0);
            scan(at, len);
            munmap(at, len);
            need(flock(data, LOCK_UN) == 0, "unlock");
        } else {
            all(read, data, into, len);
            need(into[len - 1] == 7, "contents");
        }
        need(write(to, &took, sizeof took) == sizeof took, "done");
    }
    _exit(0);
}

static void local(const char *mode, size_t len, int times) {
    char *from = memory(-1, len, 7), *to = NULL, byte = 1;
    int pipe_to[2];
    if (is(mode, "memcpy")) {
        to = memory(-1, len, 1);
    }
    need(pipe(pipe_to) == 0, "pipe");
    while (times-- > 0) {
        long long start = now();
        if (to) {
            memcpy(to, from, len);
            printf("%lld\n", now() - start);
            sink = (unsigned char)to[len - 1];
            continue;
        }
        pid_t child = fork();
        if (child == 0) {
            _exit(write(pipe_to[1], &byte, 1) != 1);
        }
        need(child > 0 && read(pipe_to[0], &byte, 1) == 1, "fork");
        printf("%lld\n", now() - start);
        waitpid(child, NULL, 0);
    }
}

/* The memory to hand over, filled. */
static char *filled(const char *mode, size_t len, int file, int go, int back, int *token) {
    if (!hooks(mode)) {
        return memory(file, len, 7);
    }
    /* Hooks are allowed first: a hook has to protect what was stored to since. */
    swing_area area;
    long long took;
    need(swing_create(len, &area) == 0, "create");
    need(swing_allow_hooks(area.token, 1) == 0, "allow");
    *token = area.token;
    if (is(mode, "hook")) {
        need(write(go, token, sizeof *token) == sizeof *token, "go");
        need(read(back, &took, sizeof took) == sizeof took, "hooked");
    }
    return memset(area.address, 7, len);
}

int main(int argc, char **argv) {
    need(argc == 5, "usage: fig8 MODE MIB small|huge TIMES");
    const char *mode = argv[1], *home = getenv("SWINGDB_HOME");
    size_t len = (size_t)atol(argv[2]) << 20;
    huge = strcmp(argv[3], "huge") == 0;
    int times = atoi(argv[4]), back[2], go[2], data[2] = {-1, -1}, token = 0, file = -1;
    if (is(mode, "memcpy") || is(mode, "fork")) {
        local(mode, len, times);
        return 0;
    }
    long long took;
    char path[] = "/tmp/swing-fig8-XXXXXX";
    need(pipe(back) == 0 && pipe(go) == 0, "pipe");
    if (is(mode, "pipe")) {
        need(pipe(data) == 0, "pipe");
    } else if (is(mode, "socket")) {
        need(socketpair(AF_UNIX, SOCK_STREAM, 0, data) == 0, "socket");
    } else if (is(mode, "shm")) {
        file = open(home ? home : "/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        need(file >= 0 && ftruncate(file, (off_t)len) == 0, "file");
    } else if (is(mode, "fifo")) {
        need(mkdtemp(path) != NULL, "directory");
    }
    char fifo[64];
    snprintf(fifo, sizeof fifo, "%s/fifo", path);
    need(!is(mode, "fifo") || mkfifo(fifo, 0600) == 0, "fifo");
    pid_t child = fork();
    need(child >= 0, "fork");
    if (child == 0) {
        close(go[1]);
        taker(mode, len, file >= 0 ? file : data[0], go[0], back[1], fifo);
    }
    char *from;
    if (!is(mode, "fifo")) {
        need(read(back[0], &took, sizeof took) == sizeof took, "ready");
    }
    from = filled(mode, len, file, go[1], back[0], &token);
    if (is(mode, "fifo")) {
        need((data[1] = open(fifo, O_WRONLY)) >= 0, "fifo");
        unlink(fifo);
        rmdir(path);
        need(read(back[0], &took, sizeof took) == sizeof took, "ready");
    }
    while (times-- > 0) {
        long long start = now();
        need(write(go[1], &token, sizeof token) == sizeof token, "go");
        if (data[1] >= 0) {
            all(put, data[1], from, len);
        }
        need(read(back[0], &took, sizeof took) == sizeof took, "done");
        printf("%lld\n", took ? took : now() - start);
    }
    return 0;
}
