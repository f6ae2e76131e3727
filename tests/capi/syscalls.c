/* System calls whose buffers lie in an area that has just been hooked, so that it is protected, or
 * in parts of one that have no memory yet. Each must do what it does elsewhere, and what has been
 * hooked must not change.
 *
 *     syscalls LENGTH        the length of the areas; prints the number of checks */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <swing.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        checks++;                                                                                  \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #what, errno);           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static int checks;
static size_t length;
static swing_area area, before;
static char *at;

/* From here on every byte of the area is protected, and `before` has the state. */
static void freeze(void) {
    if (before.token != 0) {
        CHECK(swing_release(before.token) == 0);
    }
    memset(at, 'o', 8192);
    CHECK(swing_hook(area.token, 0, &before) == 0);
}

/* What was stored at `offset` came, and was not seen by whoever had hooked. */
static void came(size_t offset, const char *what, size_t n) {
    const char *old = (const char *)before.address;
    CHECK(memcmp(at + offset, what, n) == 0);
    CHECK(old[offset] == 'o' && old[offset + n - 1] == 'o' && at[offset + n] == 'o');
}

static int file_with(const char *what, size_t n) {
    char name[] = "/tmp/swing-syscalls-XXXXXX";
    int fd = mkstemp(name);
    CHECK(fd >= 0 && unlink(name) == 0);
    CHECK(write(fd, what, n) == (ssize_t)n && lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

static void streams_of_bytes(void) {
    struct iovec vectors[2];
    int ends[2], fd = file_with("0123456789", 10);
    FILE *stream;
    freeze();
    CHECK(read(fd, at + 10, 4) == 4);
    came(10, "0123", 4);
    freeze();
    CHECK(pread(fd, at + 4000, 5, 3) == 5);
    came(4000, "34567", 5);
    freeze();
    vectors[0].iov_base = at + 7, vectors[0].iov_len = 2;
    vectors[1].iov_base = at + 5000, vectors[1].iov_len = 100;
    CHECK(readv(fd, vectors, 2) == 6);
    came(7, "45", 2);
    came(5000, "6789", 4);
    freeze();
    CHECK(preadv(fd, vectors, 2, 1) == 9);
    came(5000, "3456789", 7);
    freeze();
    CHECK(pipe((int *)(void *)at) == 0);
    memcpy(ends, at, sizeof ends);
    CHECK(write(ends[1], "through", 7) == 7);
    freeze();
    CHECK(read(ends[0], at + 1, 4000) == 7);
    came(1, "through", 7);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && (stream = fdopen(fd, "r")) != NULL);
    freeze();
    CHECK(fread(at + 8, 1, 5000, stream) == 10 && feof(stream));
    came(8, "0123456789", 10);
    freeze();
    rewind(stream);
    CHECK(fgets(at + 5, 5, stream) != NULL);
    came(5, "0123", 5);
    CHECK(fclose(stream) == 0);
    freeze();
    CHECK(read(-1, at, 10) == -1 && errno == EBADF);
    CHECK(at[0] == 'o');
}

/* Longer than a buffer that is replaced, and longer than a stream's. */
static void long_reads(void) {
    size_t n = length / 2, i;
    char *what = malloc(n);
    FILE *stream;
    int fd;
    for (i = 0; i < n; i++) {
        what[i] = (char)(i * 7 + i / 4096);
    }
    fd = file_with(what, n);
    freeze();
    CHECK(read(fd, at + 100, n) == (ssize_t)n);
    CHECK(memcmp(at + 100, what, n) == 0 && ((char *)before.address)[100] == 'o');
    memset(at + 100, 0, n);
    freeze();
    CHECK(pread(fd, at + 100, n, 77) == (ssize_t)n - 77);
    CHECK(memcmp(at + 100, what + 77, n - 77) == 0 && at[100 + n - 77] == 0);
    freeze();
    /* More than there is, up to and over the end of the area. */
    CHECK(lseek(fd, -50000, SEEK_END) == (off_t)n - 50000);
    CHECK(read(fd, at + length - 60000, 60000) == 50000);
    CHECK(memcmp(at + length - 60000, what + n - 50000, 50000) == 0);
    freeze();
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && (stream = fdopen(fd, "r")) != NULL);
    CHECK(fread(at + 3, 1, n, stream) == n && memcmp(at + 3, what, n) == 0);
    CHECK(((char *)before.address)[3] == 'o');
    CHECK(fclose(stream) == 0);
    memset(at, 0, n + 100);
    free(what);
}

static void sockets(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct msghdr message = {0};
    struct iovec vector;
    struct pollfd *polled = (struct pollfd *)(void *)(at + 64);
    struct epoll_event *event = (struct epoll_event *)(void *)(at + 128);
    struct epoll_event wanted = {.events = EPOLLIN, .data.u64 = 77};
    socklen_t *len = (socklen_t *)(void *)(at + 192);
    fd_set *set = (fd_set *)(void *)(at + 256);
    int ends[2], epoll, left, right;
    freeze();
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, (int *)(void *)at) == 0);
    memcpy(ends, at, sizeof ends);
    left = ends[0], right = ends[1];
    CHECK(send(left, "first", 5, 0) == 5 && send(left, "second", 6, 0) == 6);
    CHECK(send(left, "third", 5, 0) == 5 && send(left, "fourth", 6, 0) == 6);
    polled->fd = right, polled->events = POLLIN, polled->revents = 0;
    CHECK(swing_release(before.token) == 0 && swing_hook(area.token, 0, &before) == 0);
    CHECK(poll(polled, 1, 0) == 1 && polled->revents == POLLIN);
    freeze();
    CHECK((epoll = epoll_create1(0)) >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, right, &wanted) == 0);
    CHECK(epoll_wait(epoll, event, 4, 0) == 1 && event->data.u64 == 77);
    FD_ZERO(set);
    FD_SET(right, set);
    CHECK(swing_release(before.token) == 0 && swing_hook(area.token, 0, &before) == 0);
    CHECK(select(right + 1, set, NULL, NULL, NULL) == 1 && FD_ISSET(right, set));
    freeze();
    CHECK(recv(right, at + 20, 100, 0) == 5);
    came(20, "first", 5);
    freeze();
    *len = sizeof name;
    CHECK(recvfrom(right, at + 20, 100, 0, NULL, NULL) == 6);
    came(20, "second", 6);
    freeze();
    vector.iov_base = at + 4090, vector.iov_len = 3000;
    message.msg_iov = &vector, message.msg_iovlen = 1;
    CHECK(recvmsg(right, &message, 0) == 5);
    came(4090, "third", 5);
    freeze();
    CHECK(read(right, at + 1, 1000) == 6);
    came(1, "fourth", 6);
    freeze();
    *len = sizeof(int);
    CHECK(swing_release(before.token) == 0 && swing_hook(area.token, 0, &before) == 0);
    CHECK(getsockopt(left, SOL_SOCKET, SO_TYPE, at, len) == 0);
    CHECK(*(int *)(void *)at == SOCK_DGRAM && *len == sizeof(int));
    freeze();
    *len = sizeof name;
    CHECK(getsockname(left, (struct sockaddr *)(void *)at, len) == 0);
    CHECK(((struct sockaddr *)(void *)at)->sa_family == AF_UNIX);
    CHECK(close(epoll) == 0 && close(left) == 0 && close(right) == 0);
}

static void facts(void) {
    struct stat *facts = (struct stat *)(void *)at, elsewhere;
    struct rusage *usage = (struct rusage *)(void *)at;
    char text[4096];
    ssize_t n;
    pid_t child;
    CHECK(stat("/", &elsewhere) == 0);
    freeze();
    CHECK(stat("/", facts) == 0 && facts->st_ino == elsewhere.st_ino);
    freeze();
    CHECK(lstat("/", facts) == 0 && facts->st_dev == elsewhere.st_dev);
    freeze();
    CHECK(fstatat(AT_FDCWD, "/", facts, 0) == 0 && facts->st_mode == elsewhere.st_mode);
    freeze();
    CHECK((n = readlink("/proc/self/exe", at, 4096)) > 0);
    CHECK(readlink("/proc/self/exe", text, sizeof text) == n && memcmp(at, text, n) == 0);
    freeze();
    CHECK(getcwd(at, 4096) == at && getcwd(text, sizeof text) == text && strcmp(at, text) == 0);
    freeze();
    CHECK(getrandom(at, 64, 0) == 64 && at[64] == 'o');
    freeze();
    CHECK(getrusage(RUSAGE_SELF, usage) == 0 && usage->ru_maxrss > 0);
    freeze();
    fflush(stdout);
    child = fork();
    if (child == 0) {
        _exit(read(-1, at, 1) == -1 && at[100] == 'o' ? 42 : 1);
    }
    CHECK(waitpid(child, (int *)(void *)at, 0) == child);
    CHECK(WEXITSTATUS(*(int *)(void *)at) == 42);
}

/* Memory nobody has stored to: the kernel reads zeros there. */
static void sending_what_was_never_stored(void) {
    swing_area fresh;
    int fd = file_with("x", 1);
    struct iovec vectors[2];
    struct stat facts;
    FILE *stream;
    char *zeros;
    size_t i;
    CHECK(swing_create(length, &fresh) == 0);
    zeros = (char *)fresh.address;
    CHECK(write(fd, zeros + length / 8, 70000) == 70000);
    vectors[0].iov_base = zeros + length / 4, vectors[0].iov_len = 100;
    vectors[1].iov_base = zeros + length / 2, vectors[1].iov_len = 70000;
    CHECK(writev(fd, vectors, 2) == 70100);
    CHECK(pwrite(fd, zeros + length - 9000, 9000, 1 << 20) == 9000);
    CHECK((stream = fdopen(fd, "w")) != NULL && fseek(stream, 0, SEEK_END) == 0);
    CHECK(fwrite(zeros + length / 8 * 3, 1, 90000, stream) == 90000 && fflush(stream) == 0);
    CHECK(fstat(fd, &facts) == 0 && facts.st_size == (1 << 20) + 9000 + 90000);
    CHECK(fclose(stream) == 0);
    for (i = 0; i < 70000; i++) {
        if (zeros[length / 8 + i] != 0) {
            CHECK(!"zeros");
        }
    }
    CHECK(swing_release(fresh.token) == 0);
}

/* Buffers in no area, and bad ones. */
static void elsewhere(void) {
    void *volatile nowhere = (void *)8;
    char *heap = malloc(100);
    int fd = file_with("abc", 3);
    CHECK(read(fd, heap, 100) == 3 && memcmp(heap, "abc", 3) == 0);
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && read(fd, nowhere, 3) == -1 && errno == EFAULT);
    CHECK(read(fd, at, 0) == 0);
    CHECK(close(fd) == 0);
    free(heap);
}

int main(int argc, char **argv) {
    length = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    CHECK(length >= 1 << 20);
    CHECK(swing_create(length, &area) == 0 && swing_allow_hooks(area.token, 1) == 0);
    at = (char *)area.address;
    streams_of_bytes();
    long_reads();
    sockets();
    facts();
    sending_what_was_never_stored();
    elsewhere();
    printf("%d\n", checks);
    return 0;
}
