/* Calls with odd, empty, huge and wrong arguments whose buffers lie in the heap. For each: its
 * name, then a byte on standard input when another process may have hooked the heap; then what the
 * call gave: results, errno, checksums. The transcript must be the same with the heap in an area
 * that is hooked before each call, and without. Nothing in it may differ from run to run. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define FILE_LEN (3 * MIB + 12345)
#define BLOCK (16 * MIB)

/* Some MiB inside a block that has many extents; the guard pages are outside of the heap. */
static char *block, *at, *guard;
static char file[] = "/tmp/swing-edges-XXXXXX", *expected;
static int fd, ends[2], pair[2], datagrams[2];
static char line[4096];
static int used;
static const char *own_name;

static void say(const char *name, long result) {
    int error = errno;
    used += snprintf(line + used, sizeof line - (size_t)used, " %s=%ld", name, result);
    if (result < 0) {
        used += snprintf(line + used, sizeof line - (size_t)used, "/%d", error);
    }
    errno = 0;
}

static long sum(const void *from, size_t len) {
    const unsigned char *bytes = from;
    unsigned long sum = 1469598103934665603u;
    for (size_t i = 0; i < len; i++) {
        sum = (sum ^ bytes[i]) * 1099511628211u;
    }
    return (long)(sum >> 1);
}

#define SAY(call) (errno = 0, say(#call, (long)(call)))
#define SUM(from, len) say("sum", sum(from, len))
/* Nothing that a compiler may warn of. */
static void *volatile nowhere = (void *)8;
static volatile size_t negative = (size_t)-1;
#define NOWHERE nowhere
#define TEST(name) static void test_##name(void)

static void rewound(void) {
    if (lseek(fd, 0, SEEK_SET) != 0) {
        abort();
    }
}

static int dead_pipe(void) {
    int some[2];
    if (pipe2(some, O_NONBLOCK) != 0) {
        abort();
    }
    close(some[1]);
    return some[0];
}

TEST(read_lengths) {
    rewound();
    SAY(read(fd, at, 0));
    SAY(read(fd, at, 1));
    SAY(read(fd, at + 1, 255));
    SAY(read(fd, at + 256, 256));
    SAY(read(fd, at + 512, 257));
    SAY(read(fd, at + 769, 4097));
    SAY(read(fd, at, negative));
    SAY(read(fd, at, negative << 63));
    SUM(at, 10000);
    SAY(lseek(fd, 0, SEEK_CUR));
}
TEST(read_long) {
    rewound();
    SAY(read(fd, at, 8 * MIB));
    SUM(at, 8 * MIB);
    SAY(read(fd, at, 8 * MIB));
    SAY(lseek(fd, -5, SEEK_END));
    SAY(read(fd, at, 4 * MIB));
    SUM(at, 4 * MIB);
}
TEST(read_refused) {
    int folder = open("/tmp", O_RDONLY | O_DIRECTORY), writable = open(file, O_WRONLY);
    int none = dead_pipe();
    rewound();
    SAY(read(-1, at, 100));
    SAY(read(folder, at, 100));
    SAY(read(writable, at, 100));
    SAY(read(ends[0], at, 100));
    SAY(read(ends[0], at, 2 * MIB));
    SAY(read(none, at, 2 * MIB));
    SAY(read(fd, NOWHERE, 100));
    SAY(read(fd, NOWHERE, 0));
    SAY(read(fd, guard + 4096, 100));
    SUM(at, 4096);
    close(folder), close(writable), close(none);
}
TEST(read_into_an_end) {
    rewound();
    SAY(read(fd, guard + 4096 - 100, 1000));
    SUM(guard + 4096 - 100, 100);
    SAY(lseek(fd, 0, SEEK_CUR));
    struct iovec vectors[] = {{at, 10}, {guard + 4000, 2000}, {at + 10, 10}};
    SAY(readv(fd, vectors, 3));
    SUM(at, 20);
    SUM(guard, 4096);
}
TEST(read_pipe) {
    SAY(write(ends[1], expected, 50000));
    SAY(read(ends[0], at, 2 * MIB));
    SUM(at, 60000);
    SAY(write(ends[1], expected + 3, 300));
    SAY(read(ends[0], at, 100));
    SAY(read(ends[0], at + 100, 1000));
    SUM(at, 2000);
}
TEST(pread) {
    SAY(pread(fd, at, 100, -1));
    SAY(pread(fd, at, 100, FILE_LEN));
    SAY(pread(fd, at, 100, FILE_LEN - 7));
    SAY(pread(ends[0], at, 100, 0));
    SAY(pread(fd, at, 3 * MIB, 4097));
    SUM(at, 3 * MIB);
    SAY(pread(fd, at + 5, 3 * MIB, MIB));
    SAY(pread(fd, at, 2 * MIB, INT64_MAX - 5));
    SUM(at, 4 * MIB);
}
TEST(vectors) {
    struct iovec *many = (void *)(at + 8 * MIB);
    size_t place = 0;
    for (size_t i = 0; i < 1025; i++) {
        many[i] = (struct iovec){at + place, i % 7};
        place += i % 7 + i % 3;
    }
    rewound();
    SAY(readv(fd, many, 0));
    SAY(readv(fd, many, (int)negative));
    SAY(readv(fd, many, 1025));
    SAY(readv(fd, NOWHERE, 2));
    SAY(readv(fd, many, 1024));
    SAY(readv(fd, many + 500, 300));
    SUM(at, 10000);
    SAY(write(ends[1], expected, 700));
    SAY(readv(ends[0], many, 700));
    SUM(at, 10000);
    for (size_t i = 0; i < 600; i++) {
        many[i] = (struct iovec){at + i * 10000, 5000};
    }
    SAY(readv(fd, many, 600));
    SUM(at, 6 * MIB);
    SAY(preadv(fd, many, 600, 999));
    SUM(at, 6 * MIB);
    many[3].iov_len = negative;
    SAY(readv(fd, many, 5));
    many[3] = (struct iovec){NOWHERE, 5000};
    rewound();
    SAY(readv(fd, many, 600));
    SUM(at, 100000);
}
TEST(vectors_at_offsets) {
    struct iovec two[] = {{at, 100}, {at + 5 * MIB, 2 * MIB}};
    rewound();
    SAY(preadv(fd, two, 2, -1));
    SAY(preadv2(fd, two, 2, -1, 0));
    SAY(lseek(fd, 0, SEEK_CUR));
    SAY(preadv2(fd, two, 2, 7, 0));
    SAY(preadv2(fd, two, 2, 7, 1 << 20));
    SAY(lseek(fd, 0, SEEK_CUR));
    SUM(at, 8 * MIB);
}
TEST(aligned) {
    int direct = open(file, O_RDONLY | O_DIRECT);
    char *page = (char *)(((uintptr_t)at + 4095) & ~(uintptr_t)4095);
    SAY(direct >= 0);
    for (size_t len = 512; direct >= 0 && len <= MIB; len *= 8) {
        SAY(pread(direct, page, len, 4096));
    }
    SUM(page, MIB);
    close(direct);
}

static void nothing(int number) {
    (void)number;
}
static void soon(void) {
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 20000}, {0, 20000}};
    setitimer(ITIMER_REAL, &timer, NULL);
}
static void no_more(void) {
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_DFL);
}
TEST(interrupted) {
    int group = epoll_create1(0);
    struct pollfd *polls = (void *)at;
    fd_set *set = (void *)(at + 4096);
    struct timespec *times = (void *)(at + 8192);
    struct epoll_event *events = (void *)(at + 12288);
    polls[0] = (struct pollfd){.fd = pair[0], .events = POLLIN, .revents = 77};
    FD_ZERO(set);
    FD_SET(pair[0], set);
    times[0] = (struct timespec){50, 0}, times[1] = (struct timespec){0, -1};
    soon();
    SAY(read(pair[0], at, 100));
    SAY(read(pair[0], at, 2 * MIB));
    SAY(recv(pair[0], at, 5000, MSG_WAITALL));
    SAY(poll(polls, 1, 50000));
    SAY(polls[0].revents);
    SAY(select(pair[0] + 1, set, NULL, NULL, NULL));
    SAY(epoll_wait(group, events, 10, 50000));
    SAY(nanosleep(times, times + 1));
    SAY(times[1].tv_sec > 0 && times[1].tv_sec < 50 && times[1].tv_nsec >= 0);
    SAY(clock_nanosleep(CLOCK_MONOTONIC, 0, times, times + 2));
    SAY(times[2].tv_sec > 0 && times[2].tv_sec < 50);
    SAY(wait((int *)(void *)at));
    no_more();
    close(group);
}
TEST(datagrams) {
    SAY(send(datagrams[1], "", 0, 0));
    SAY(recv(datagrams[0], at, 100, 0));
    SAY(send(datagrams[1], expected, 5000, 0));
    SAY(recv(datagrams[0], at, 10, MSG_PEEK));
    SAY(recv(datagrams[0], at + 10, 10, MSG_PEEK | MSG_TRUNC));
    SAY(recv(datagrams[0], at + 20, 3000, MSG_TRUNC));
    SUM(at, 6000);
    SAY(recv(datagrams[0], at, 3000, MSG_DONTWAIT));
    SAY(send(datagrams[1], expected, 100000, 0));
    SAY(recv(datagrams[0], at, 4 * MIB, 0));
    SUM(at, 200000);
    SAY(send(datagrams[1], expected, 100, 0));
    SAY(recv(datagrams[0], at, 0, 0));
    SAY(recv(datagrams[0], NOWHERE, 10, MSG_DONTWAIT));
    SAY(recv(fd, at, 10, 0));
}
TEST(senders) {
    struct sockaddr_un *name = (void *)at;
    socklen_t *len = (void *)(at + 4096);
    for (int room = -1; room < 120; room += 40) {
        memset(at, 'x', 4096);
        *len = (socklen_t)room;
        SAY(send(datagrams[1], expected, 100, 0));
        SAY(recvfrom(datagrams[0], at + 8192, 200, 0, (void *)name, len));
        SAY(recv(datagrams[0], at + 8192, 200, MSG_DONTWAIT));
        SAY(*len);
        SUM(at + 32, 4064);
        *len = (socklen_t)room;
        SAY(getsockname(datagrams[1], (void *)name, len));
        SAY(*len);
        SAY(memcmp(name->sun_path + 1, own_name, room < 4 ? 0 : 15));
        SUM(at + 32, 4064);
    }
    SAY(getsockname(datagrams[0], (void *)name, NOWHERE));
    SAY(getsockname(datagrams[0], NOWHERE, len));
    SAY(getpeername(datagrams[0], (void *)name, len));
    SAY(accept(pair[0], (void *)name, len));
    SAY(accept(-1, (void *)name, NOWHERE));
    SAY(accept(fd, NULL, NULL));
    for (int room = -1; room < 9; room++) {
        *len = (socklen_t)room;
        SAY(getsockopt(pair[0], SOL_SOCKET, SO_TYPE, at, len));
        SAY(*len);
        SUM(at, 16);
    }
    SAY(getsockopt(pair[0], SOL_SOCKET, 9999, at, len));
    SAY(getsockopt(pair[0], SOL_SOCKET, SO_TYPE, at, NOWHERE));
}
TEST(messages) {
    struct msghdr *message = (void *)(at + MIB);
    struct iovec *vectors = (void *)(at + 2 * MIB);
    for (size_t i = 0; i < 1024; i++) {
        vectors[i] = (struct iovec){at + 10 * i, 7};
    }
    for (size_t count = 0; count <= 1025; count += 205) {
        *message = (struct msghdr){.msg_name = at + 3 * MIB, .msg_namelen = 50,
                                   .msg_iov = vectors, .msg_iovlen = count,
                                   .msg_control = at + 4 * MIB, .msg_controllen = 64};
        memset(at + 3 * MIB, 'n', 100);
        SAY(send(datagrams[1], expected, 3001, 0));
        SAY(recvmsg(datagrams[0], message, 0));
        SAY(recv(datagrams[0], at + 5 * MIB, 10, MSG_DONTWAIT));
        SAY(message->msg_flags);
        SAY(message->msg_namelen);
        SAY((long)message->msg_controllen);
        SUM(at, 11000);
        SUM(at + 3 * MIB + 32, 100);
    }
    SAY(recvmsg(datagrams[0], NULL, 0));
    SAY(recvmsg(datagrams[0], NOWHERE, 0));
    message->msg_iovlen = negative;
    SAY(recvmsg(datagrams[0], message, MSG_DONTWAIT));
    *message = (struct msghdr){.msg_iov = NOWHERE, .msg_iovlen = 3};
    SAY(recvmsg(datagrams[0], message, MSG_DONTWAIT));
    struct mmsghdr *list = (void *)(at + 6 * MIB);
    for (size_t i = 0; i < 4; i++) {
        list[i].msg_hdr = (struct msghdr){.msg_iov = vectors + 100 * i, .msg_iovlen = 100};
        SAY(send(datagrams[1], expected + i, 100 * i, 0));
    }
    struct timespec *time = (void *)(at + 7 * MIB);
    *time = (struct timespec){5, 0};
    SAY(recvmmsg(datagrams[0], list, 4, 0, time));
    for (size_t i = 0; i < 4; i++) {
        SAY(list[i].msg_len);
        list[i].msg_len = 99;
    }
    SUM(at, 11000);
    SAY(recvmmsg(datagrams[0], list, 4, MSG_DONTWAIT, NULL));
    SAY(recvmmsg(datagrams[0], list, 0, 0, NULL));
    SAY(recvmmsg(datagrams[0], NOWHERE, 1, MSG_DONTWAIT, NULL));
    SAY(sendmmsg(datagrams[1], list, 3, 0));
    for (size_t i = 0; i < 3; i++) {
        SAY(list[i].msg_len);
        SAY(recv(datagrams[0], at + MIB, 5000, MSG_DONTWAIT));
    }
}
static void *pours(void *from) {
    for (size_t done = 0; done < 3 * MIB;) {
        ssize_t some = write(pair[1], (char *)from + done, 50000);
        if (some <= 0) {
            abort();
        }
        done += (size_t)some;
    }
    return NULL;
}
TEST(all_of_a_stream) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, pours, expected) != 0) {
        abort();
    }
    SAY(recv(pair[0], at, 3 * MIB - 1000, MSG_WAITALL));
    SUM(at, 3 * MIB);
    pthread_join(thread, NULL);
    for (long left; (left = recv(pair[0], at, MIB, MSG_DONTWAIT)) > 0;) {
    }
}
TEST(polls) {
    struct pollfd *polls = (void *)at;
    for (int i = 0; i < 3000; i++) {
        int fd = i % 3 ? -1 : i == 999 ? 500000 : pair[1];
        polls[i] = (struct pollfd){.fd = fd, .events = POLLOUT};
    }
    SAY(poll(polls, 0, 1));
    SAY(poll(polls, 900, 1));
    long told = 0;
    for (int i = 0; i < 900; i++) {
        told = told * 5 + polls[i].revents + polls[i].events;
    }
    SAY(told);
    SAY(poll(polls, 1u << 29, 0));
    SAY(poll(NOWHERE, 3, 0));
    SAY(ppoll(polls, 3, &(struct timespec){0, -1}, NULL));
    fd_set *sets = (void *)(at + MIB);
    struct timeval *time = (void *)(at + 2 * MIB);
    memset(sets, 0, 3 * sizeof *sets);
    FD_SET(pair[1], sets + 1);
    FD_SET(pair[0], sets);
    *time = (struct timeval){0, 1000};
    SAY(select(-1, sets, sets + 1, sets + 2, time));
    SAY(select(pair[1] + 1, sets, sets + 1, sets + 2, time));
    SAY(FD_ISSET(pair[0], sets) + 10 * FD_ISSET(pair[1], sets + 1));
    SAY(select(pair[1] + 1, sets, NULL, NULL, time));
    SAY(time->tv_sec + time->tv_usec);
    FD_SET(900, sets);
    /* The kernel looks at as many numbers as its table has room for: for all in either program. */
    close(fcntl(0, F_DUPFD, 1000));
    SAY(select(1024, sets, sets + 1, NULL, time));
    SAY(FD_ISSET(900, sets));
    SAY(select(pair[1] + 1, NOWHERE, NULL, NULL, time));
    *time = (struct timeval){-1, 0};
    SAY(select(0, NULL, NULL, NULL, time));
}
TEST(events) {
    struct epoll_event *events = (void *)at;
    int group = epoll_create1(0), some[300];
    for (int i = 0; i < 300; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = (uint64_t)i};
        some[i] = eventfd(1, 0);
        if (epoll_ctl(group, EPOLL_CTL_ADD, some[i], &event) != 0) {
            abort();
        }
    }
    SAY(epoll_wait(group, events, 0, 0));
    SAY(epoll_wait(group, events, (int)negative, 0));
    SAY(epoll_wait(fd, events, 5, 0));
    SAY(epoll_wait(-1, events, 5, 0));
    SAY(epoll_wait(group, events, 100, 0));
    /* The rest may come in several parts. */
    int count = 0, got;
    long data = 0;
    while ((got = epoll_wait(group, events, 1000, 0)) > 0) {
        for (int i = 0; i < got; i++) {
            data += (long)events[i].data.u64;
        }
        count += got;
    }
    SAY(count);
    SAY(data);
    for (int i = 0; i < 300; i++) {
        close(some[i]);
    }
    close(group);
}
TEST(facts) {
    struct stat *facts = (void *)at;
    memset(at, 'x', 4096);
    SAY(stat("/nowhere", facts));
    SAY(stat(NOWHERE, facts));
    SAY(stat(file, NOWHERE));
    SAY(fstat(-1, facts));
    SAY(fstatat(-1, "x", facts, 0));
    SAY(statx(fd, "", 1 << 30, STATX_SIZE, (void *)at));
    SUM(at, 4096);
    SAY(lstat(file, facts));
    SAY(facts->st_size);
    memset(at, 'x', 4096);
    SAY(readlink(file, at, 100));
    SAY(readlink("/proc/self/exe", at, 0));
    SAY(readlink("/proc/self/exe", at, 5));
    SAY(readlink("/proc/self/exe", NOWHERE, 5));
    SUM(at, 6);
    SAY(-(getcwd(at, 2) == NULL));
    SAY(-(getcwd(at, 0) == NULL));
    SAY(syscall(SYS_getcwd, at, 1L));
    SAY(clock_gettime(999, (void *)at));
    SAY(getgroups((int)negative, (void *)at));
    SAY(getrlimit(99, (void *)at));
    SAY(getrusage(99, (void *)at));
    SAY(pipe2((void *)at, -1));
    SAY(socketpair(99, 0, 0, (void *)at));
    SAY(sigaltstack(NOWHERE, NULL));
    SAY(fcntl(-1, F_GETLK, at));
    SAY(fcntl(fd, F_GETLK, NOWHERE));
    /* The kernel stores descriptors also where it refuses them. */
    SUM(at + 8, 200);
}
TEST(randomness) {
    memset(at, 0, 4 * MIB);
    SAY(getrandom(at, 0, 0));
    SAY(getrandom(at, 10, 999));
    SAY(getrandom(at, 3 * MIB, 0));
    SAY(memcmp(at, at + MIB, 100) != 0 && memcmp(at + MIB, at + 2 * MIB, 100) != 0);
    SAY(memcmp(at + 3 * MIB - 8, at + 3 * MIB, 8) != 0);
    SUM(at + 3 * MIB, MIB);
    SAY(getrandom(NOWHERE, 10, 0));
    SAY(getentropy(at, 257));
    SAY(getentropy(at, 0));
}
TEST(children) {
    int *status = (void *)at;
    *status = 123;
    SAY(waitpid(-1, status, WNOHANG));
    SAY(waitpid(-1, status, 999));
    SAY(*status);
    pid_t child = fork();
    if (child == 0) {
        /* The child's heap is its own; its reads and stores are as the parent's. */
        int good = pread(fd, at, 100000, 0) == 100000 && memcmp(at, expected, 100000) == 0;
        struct iovec two[] = {{at, 1000}, {at + MIB, 2 * MIB}};
        good &= preadv(fd, two, 2, 0) == (ssize_t)(2 * MIB + 1000);
        good &= memcmp(at + MIB, expected + 1000, 2 * MIB) == 0;
        char *own = malloc(3 * MIB);
        good &= pread(fd, own, 3 * MIB, 0) == (ssize_t)(3 * MIB);
        good &= memcmp(own, expected, 3 * MIB) == 0;
        free(own);
        _exit(good ? 42 : 1);
    }
    SAY(waitpid(child, status, 0) == child);
    SAY(WEXITSTATUS(*status));
    child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        execlp("sh", "sh", "-c", "echo started; exit 7", NULL);
        _exit(1);
    }
    SAY(waitpid(child, status, 0) == child);
    SAY(WEXITSTATUS(*status));
    SAY(read(ends[0], at + 100, 1000));
    SUM(at + 100, 20);
    SAY(waitid(P_PID, 1, (void *)at, WEXITED));
    SAY(wait4(-1, status, 0, (void *)(at + 4096)));
}
TEST(never_stored) {
    char *zeros = calloc(1, 8 * MIB), *fresh = malloc(8 * MIB);
    int to = memfd_create("to", 0);
    struct iovec vectors[] = {{zeros + 5 * MIB, 3 * MIB}, {zeros, MIB}};
    SAY(write(to, zeros + MIB, 2 * MIB));
    SAY(pwrite(to, fresh, 4 * MIB, 0));
    SAY(writev(to, vectors, 2));
    SAY(send(datagrams[1], zeros + 3 * MIB + 5, 1000, 0));
    SAY(recv(datagrams[0], at, 5000, 0));
    SUM(at, 1000);
    SAY(write(to, zeros, negative) < 0);
    FILE *stream = fdopen(dup(to), "w");
    SAY((long)fwrite(zeros + 4 * MIB, 1, 100000, stream));
    SAY(fclose(stream));
    SAY(lseek(to, 0, SEEK_END));
    close(to);
    free(zeros);
    free(fresh);
}
TEST(streams) {
    FILE *stream = fopen(file, "r");
    SAY((long)fread(at, 0, 10, stream));
    SAY((long)fread(at, 10, 0, stream));
    SAY((long)fread(at, 1000, 3, stream));
    SAY((long)fread(at + 5000, 7, 300000, stream));
    SUM(at, 3 * MIB);
    SAY(fgetc(stream));
    SAY((long)fread(at, 7777, 1000, stream));
    SAY(feof(stream) != 0);
    SAY(ferror(stream) != 0);
    SUM(at, 2 * MIB);
    fclose(stream);
    stream = fopen("/dev/null", "w");
    SAY((long)fread(at, 1, 10, stream));
    SAY(ferror(stream) != 0);
    fclose(stream);
    stream = fopen("/tmp", "r");
    SAY((long)fread(at, 1, 100000, stream));
    SAY(ferror(stream) != 0);
    fclose(stream);
}
TEST(between_files) {
    off64_t *places = (void *)at;
    int to = memfd_create("to", 0);
    places[0] = 100, places[1] = 7;
    SAY(sendfile(to, fd, places, 5000));
    SAY(places[0]);
    SAY(copy_file_range(fd, places, to, places + 1, 3000, 99));
    SAY(splice(fd, places, ends[1], NULL, 1000, 0));
    SAY(places[0]);
    SAY(read(ends[0], at + 4096, 5000));
    SUM(at, 10000);
    places[0] = -5;
    SAY(sendfile(to, fd, places, 10));
    SAY(sendfile(to, fd, NOWHERE, 10));
    SAY(splice(fd, NOWHERE, ends[1], NULL, 10, 0));
    close(to);
}
TEST(queues) {
    struct {
        long kind;
        char text[2000];
    } *letter = (void *)at;
    int queue = msgget(IPC_PRIVATE, 0600);
    SAY(queue >= 0);
    letter->kind = 5;
    memset(letter->text, 'q', 2000);
    SAY(msgsnd(queue, letter, 1000, 0));
    memset(at, 0, 4096);
    SAY(msgrcv(queue, letter, 100, 0, IPC_NOWAIT));
    SAY(msgrcv(queue, letter, 2000, 6, IPC_NOWAIT));
    SAY(msgrcv(queue, letter, 100, 0, MSG_NOERROR));
    SAY(letter->kind);
    SUM(at, 4096);
    SAY(msgrcv(queue, letter, 100, 0, IPC_NOWAIT));
    SAY(msgctl(queue, IPC_STAT, (void *)at));
    SAY(msgctl(queue, IPC_RMID, NULL));
    SAY(msgrcv(queue, letter, (size_t)-1, 0, 0));
}
TEST(of_oneself) {
    struct iovec here[] = {{at, 1000}, {at + MIB, 500000}}, there = {expected, 300000};
    SAY(process_vm_readv(getpid(), here, 2, &there, 1, 0));
    SUM(at, 2 * MIB);
    there.iov_base = NOWHERE;
    SAY(process_vm_readv(getpid(), here, 2, &there, 1, 0));
    SAY(process_vm_readv(getpid(), here, 2, &there, 1, 5));
    SAY(mincore(expected, 4096, NOWHERE));
    SAY(mincore(NOWHERE, 4096, (void *)at));
}
TEST(signals) {
    sigset_t *set = (void *)at, one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    SAY(sigprocmask(99, &one, set));
    SAY(sigprocmask(SIG_BLOCK, &one, set));
    SAY(sigismember(set, SIGUSR2));
    SAY(sigprocmask(SIG_BLOCK, NULL, set));
    SAY(sigismember(set, SIGUSR2));
    SAY(sigtimedwait(&one, (void *)(at + 4096), &(struct timespec){0, 1000}));
    SAY(sigtimedwait(&one, (void *)(at + 4096), &(struct timespec){0, -1}));
    SAY(kill(getpid(), SIGUSR2));
    SAY(sigpending(set));
    SAY(sigismember(set, SIGUSR2));
    SAY(sigwaitinfo(&one, (void *)(at + 4096)));
    SAY(((siginfo_t *)(void *)(at + 4096))->si_code);
    SAY(sigprocmask(SIG_UNBLOCK, &one, NULL));
}

enum { BLOCKED_IN = 6 };
static volatile int stored;
static void *blocked(void *which) {
    struct iovec vectors[] = {{at + 100, 100}, {at + MIB, 100}};
    struct msghdr message = {.msg_iov = vectors, .msg_iovlen = 2};
    struct pollfd *polls = (void *)(at + 4096);
    polls[0] = (struct pollfd){.fd = pair[0], .events = POLLIN};
    /* From here on no fault, in which nobody may be cancelled. */
    stored = 1;
    switch ((int)(intptr_t)which) {
    case 0: return (void *)read(pair[0], at, 100);
    case 1: return (void *)read(pair[0], at, 3 * MIB);
    case 2: return (void *)recv(pair[0], at, 5000, 0);
    case 3: return (void *)readv(pair[0], vectors, 2);
    case 4: return (void *)recvmsg(pair[0], &message, 0);
    default: return (void *)(intptr_t)poll(polls, 1, -1);
    }
}
TEST(cancelled) {
    for (intptr_t which = 0; which < BLOCKED_IN; which++) {
        pthread_t thread;
        void *result = NULL;
        stored = 0;
        if (pthread_create(&thread, NULL, blocked, (void *)which) != 0) {
            abort();
        }
        while (!stored) {
            usleep(1000);
        }
        usleep(10000);
        SAY(pthread_cancel(thread));
        SAY(pthread_join(thread, &result));
        SAY(result == PTHREAD_CANCELED);
    }
    SAY(write(pair[1], expected, 1000));
    SAY(read(pair[0], at, 2000));
    SUM(at, 2000);
}

#define CALL(name) {#name, test_##name}
static const struct {
    const char *name;
    void (*call)(void);
} tests[] = {
    CALL(read_lengths), CALL(read_long), CALL(read_refused), CALL(read_into_an_end),
    CALL(read_pipe), CALL(pread), CALL(vectors), CALL(vectors_at_offsets), CALL(aligned),
    CALL(interrupted), CALL(datagrams), CALL(senders), CALL(messages), CALL(all_of_a_stream),
    CALL(polls), CALL(events), CALL(facts), CALL(randomness), CALL(children), CALL(never_stored),
    CALL(streams), CALL(between_files), CALL(queues), CALL(of_oneself), CALL(signals),
    CALL(cancelled),
};

static void open_all(const char *run) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    own_name = run;
    expected = mmap(NULL, FILE_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    guard = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < FILE_LEN; i++) {
        expected[i] = (char)(i * 7 + i / 300 + i / 70000);
    }
    block = malloc(BLOCK);
    fd = mkstemp(file);
    if (!block || fd < 0 || write(fd, expected, FILE_LEN) != (ssize_t)FILE_LEN ||
        mprotect(guard + 4096, 4096, PROT_NONE) != 0 ||
        pipe2(ends, O_NONBLOCK) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
        abort();
    }
    for (int i = 0; i < 2; i++) {
        /* Names in the abstract space, of a fixed length. */
        snprintf(name.sun_path + 1, 30, "%.20s-%d", run, i);
        datagrams[i] = socket(AF_UNIX, SOCK_DGRAM, 0);
        if (bind(datagrams[i], (void *)&name, sizeof(sa_family_t) + 30) != 0) {
            abort();
        }
    }
    snprintf(name.sun_path + 1, 30, "%.20s-%d", run, 0);
    if (connect(datagrams[1], (void *)&name, sizeof(sa_family_t) + 30) != 0) {
        abort();
    }
}

static void put(const char *text, int len) {
    if (write(1, text, (size_t)len) != len) {
        _exit(2);
    }
}

int main(int argc, char **argv) {
    open_all(argc > 1 ? argv[1] : "swing-edges");
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        char go;
        /* A boundary of extents is somewhere inside every buffer of more than 2 MiB. */
        at = block + 100 + i;
        memset(block, 0, BLOCK);
        used = snprintf(line, sizeof line, "%s\n", tests[i].name);
        put(line, used);
        if (read(0, &go, 1) != 1) {
            return 2;
        }
        used = 0;
        /* What waits for ever ends the program. */
        alarm(60);
        tests[i].call();
        line[used++] = '\n';
        put(line, used);
        SAY(0);
    }
    unlink(file);
    return 0;
}
