/* Figure 8 of the paper: a process hands `MIB` of filled memory to another one, which is there
 * already. Prints nanoseconds until the other has it: fig8 MODE MIB,
 * MODE one of hook, again, pipe, fifo, socket, shm, memcpy, fork. `hook` comes right after the owner
 * has stored to all of it, `again` when it has stored nothing since a hook before. */
#define _GNU_SOURCE
#include <fcntl.h>
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

static void *memory(int fd, size_t len, int fill) {
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    char *at = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, fd, 0);
    need(at != MAP_FAILED, "mmap");
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

/* The other process: says that it is ready, waits, takes, says how long it took (0: ask the clock
 * of the giver). */
static void taker(const char *mode, size_t len, int data, int from, int to, const char *path) {
    int token;
    long long took = 0;
    char *into = NULL;
    if (data >= 0 && strcmp(mode, "shm") != 0) {
        into = memory(-1, len, 1);
    }
    if (strcmp(mode, "fifo") == 0) {
        need((data = open(path, O_RDONLY)) >= 0, "fifo");
        into = memory(-1, len, 1);
    }
    need(write(to, &took, sizeof took) == sizeof took, "ready");
    need(read(from, &token, sizeof token) == sizeof token, "go");
    if (strcmp(mode, "hook") == 0 || strcmp(mode, "again") == 0) {
        swing_area area;
        if (strcmp(mode, "again") == 0) {
            need(swing_hook(token, 0, &area) == 0, "hook");
        }
        long long start = now();
        need(swing_hook(token, 0, &area) == 0, "hook");
        took = now() - start;
        need(((char *)area.address)[len - 1] == 7, "contents");
    } else if (strcmp(mode, "shm") == 0) {
        need(flock(data, LOCK_SH) == 0, "lock");
        scan(memory(data, len, 0), len);
    } else {
        all(read, data, into, len);
        need(into[len - 1] == 7, "contents");
    }
    need(write(to, &took, sizeof took) == sizeof took, "done");
    _exit(0);
}

static long long local(const char *mode, size_t len) {
    char *from = memory(-1, len, 7);
    long long start;
    if (strcmp(mode, "memcpy") == 0) {
        char *to = memory(-1, len, 1);
        start = now();
        memcpy(to, from, len);
        start = now() - start;
        sink = (unsigned char)to[len - 1];
        return start;
    }
    int pipe_to[2];
    char byte = 1;
    need(pipe(pipe_to) == 0, "pipe");
    start = now();
    pid_t child = fork();
    if (child == 0) {
        _exit(write(pipe_to[1], &byte, 1) != 1);
    }
    need(child > 0 && read(pipe_to[0], &byte, 1) == 1, "fork");
    start = now() - start;
    waitpid(child, NULL, 0);
    return start;
}

int main(int argc, char **argv) {
    need(argc == 3, "usage: fig8 MODE MIB");
    const char *mode = argv[1];
    size_t len = (size_t)atol(argv[2]) << 20;
    if (strcmp(mode, "memcpy") == 0 || strcmp(mode, "fork") == 0) {
        printf("%lld\n", local(mode, len));
        return 0;
    }
    int back[2], go[2], data[2] = {-1, -1}, token = 0;
    long long start, took;
    char path[] = "/tmp/swing-fig8-XXXXXX";
    need(pipe(back) == 0 && pipe(go) == 0, "pipe");
    if (strcmp(mode, "pipe") == 0) {
        need(pipe(data) == 0, "pipe");
    } else if (strcmp(mode, "socket") == 0) {
        need(socketpair(AF_UNIX, SOCK_STREAM, 0, data) == 0, "socket");
    } else if (strcmp(mode, "shm") == 0) {
        data[0] = data[1] = memfd_create("fig8", MFD_CLOEXEC);
        need(ftruncate(data[0], (off_t)len) == 0, "memfd");
    } else if (strcmp(mode, "fifo") == 0) {
        need(mkdtemp(path) != NULL, "directory");
    }
    char fifo[64];
    snprintf(fifo, sizeof fifo, "%s/fifo", path);
    need(strcmp(mode, "fifo") != 0 || mkfifo(fifo, 0600) == 0, "fifo");
    pid_t child = fork();
    need(child >= 0, "fork");
    if (child == 0) {
        taker(mode, len, data[0], go[0], back[1], fifo);
    }
    char *from;
    if (strcmp(mode, "hook") == 0 || strcmp(mode, "again") == 0) {
        swing_area area;
        need(swing_create(len, &area) == 0, "create");
        from = memset(area.address, 7, len);
        token = area.token;
        need(swing_allow_hooks(token, 1) == 0, "allow");
        /* What the owner has stored to since the last hook is what a hook has to protect. */
        memset(from, 7, len);
    } else {
        from = memory(strcmp(mode, "shm") == 0 ? data[1] : -1, len, 7);
    }
    if (strcmp(mode, "fifo") == 0) {
        need((data[1] = open(fifo, O_WRONLY)) >= 0, "fifo");
        unlink(fifo);
        rmdir(path);
    }
    need(read(back[0], &took, sizeof took) == sizeof took, "ready");
    start = now();
    need(write(go[1], &token, sizeof token) == sizeof token, "go");
    if (data[1] >= 0 && strcmp(mode, "shm") != 0) {
        all(put, data[1], from, len);
    }
    need(read(back[0], &took, sizeof took) == sizeof took, "done");
    printf("%lld\n", took ? took : now() - start);
    return 0;
}
