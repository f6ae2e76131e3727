/* A program that takes liberties with descriptors, beside a library that has some of its own. Says
 * "ready" when that is done, or begins, goes on until its input ends, and then says what became of
 * it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCKS = 64, LEN = 1 << 16, NUMBERS = 2048 };

static unsigned char *blocks[BLOCKS];

static void store(int round)
{
    for (int i = 0; i < BLOCKS; i++)
        memset(blocks[i], round + i, LEN);
}

static void check(int ok, const char *what)
{
    if (ok)
        return;
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

/* As a shell does: each end is closed twice, and one by somebody else in between. */
static void pipes(void)
{
    int ends[2];
    char text[32] = {0}, back[32];
    static int round;
    snprintf(text, sizeof text, "round %d", ++round);
    check(pipe(ends) == 0, "pipe");
    check(ends[0] < 10 && ends[1] < 10, "low numbers");
    check(write(ends[1], text, sizeof text) == sizeof text, "write");
    check(close(ends[1]) == 0, "close");
    check(close(ends[1]) == -1 && errno == EBADF, "close again");
    check(read(ends[0], back, sizeof back) == sizeof back, "read");
    check(memcmp(text, back, sizeof text) == 0, "what was written");
    check(read(ends[0], back, sizeof back) == 0, "the end of what was written");
    check(close(ends[0]) == 0, "close the other end");
    check(close(ends[0]) == -1 && errno == EBADF, "close the other end again");
}

/* Puts something at each number, as far as it may. */
static void places(void)
{
    int from = open("/dev/null", O_RDWR), refused = 0;
    for (int to = from + 1; to < NUMBERS && refused < 500; to++) {
        if (dup2(from, to) == to)
            check(close(to) == 0, "close");
        else if (errno == EBADF)
            break; /* beyond the limit */
        else
            check(errno == EBUSY && ++refused, "dup2");
    }
    check(refused > 0 && refused < 100, "the library's are left alone");
    check(dup3(from, from + 1, O_CLOEXEC) == from + 1 && close(from + 1) == 0, "dup3");
    check(dup2(from, -1) == -1 && errno == EBADF, "dup2 to no number");
    check(close(from) == 0, "close");
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    for (int i = 0; i < BLOCKS; i++)
        check((blocks[i] = malloc(LEN)) != NULL, "malloc");
    store(0);
    for (int fd = 3; strcmp(way, "close") == 0 && fd < NUMBERS; fd++)
        close(fd);
    if (strcmp(way, "closefrom") == 0)
        closefrom(3);
    if (strcmp(way, "close_range") == 0)
        check(close_range(3, ~0U, 0) == 0 && close_range(9, 3, 0) == -1, "close_range");
    if (strcmp(way, "numbers") == 0) {
        check(syscall(SYS_close_range, 3, ~0U, 0) == 0, "close_range by its number");
        check(syscall(SYS_close, 600) == -1 && errno == EBADF, "close by its number");
        int fd = dup(0);
        check(syscall(SYS_dup3, 0, fd + 1, 0) == fd + 1, "dup3 by its number");
        check(syscall(SYS_close, fd) == 0 && syscall(SYS_close, fd + 1) == 0, "close by number");
    }
    if (strcmp(way, "dup2") == 0)
        places();
    int fd = open("/dev/null", O_RDWR);
    check(fd == 3, "the lowest number");
    check(close(fd) == 0, "close");
    puts("ready");
    fflush(stdout);
    check(fcntl(0, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    char byte;
    for (int round = 1; read(0, &byte, 1) != 0; round++) {
        store(round);
        if (strcmp(way, "pipes") == 0)
            pipes();
    }
    for (int i = 1; i < BLOCKS; i++)
        check((unsigned char)(blocks[i][LEN - 1] - blocks[0][0]) == i, "the heap");
    puts("whole");
    return 0;
}
