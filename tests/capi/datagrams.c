/* Datagrams arrive in an area that another process hooks all the while. None may be lost or
 * damaged, and what is hooked has each record whole as far as it had been received.
 *
 *     datagrams COUNT SEED        prints how many hooks there were meanwhile */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <swing.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH ((size_t)4 << 20)

static int ends[2];
static uint32_t count, seed;

static uint32_t size_of_one(uint32_t i) {
    return 8 + (i * 2654435761u + seed) % 6000;
}

static void *send_all(void *unused) {
    static unsigned char bytes[8192];
    uint32_t i;
    for (i = 0; i < count; i++) {
        memset(bytes, (int)(i % 251), sizeof bytes);
        memcpy(bytes, &i, 4);
        if (send(ends[0], bytes, size_of_one(i), 0) != (ssize_t)size_of_one(i)) {
            perror("send");
            exit(1);
        }
    }
    return unused;
}

/* The other process: hooks until it is killed, and says how often. */
static int hooker(int tokens, int counts) {
    uint32_t hooks = 0;
    int token;
    swing_area area;
    if (read(tokens, &token, sizeof token) != sizeof token) {
        return 1;
    }
    for (;;) {
        int status = swing_hook(token, 0, &area);
        if (status != 0) {
            fprintf(stderr, "hook: %s\n", swing_last_error());
            return 1;
        }
        hooks++;
        if (write(counts, &hooks, 4) != 4 || swing_release(area.token) != 0) {
            return 1;
        }
    }
}

int main(int argc, char **argv) {
    int tokens[2], counts[2], status;
    uint32_t i, j, hooks = 0;
    pthread_t sender;
    swing_area area;
    pid_t child;
    count = argc > 1 ? (uint32_t)atoi(argv[1]) : 0;
    seed = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
    if (pipe(tokens) != 0 || pipe(counts) != 0) {
        return 1;
    }
    child = fork();
    if (child == 0) {
        close(counts[0]);
        close(tokens[1]);
        signal(SIGPIPE, SIG_IGN);
        return hooker(tokens[0], counts[1]);
    }
    close(counts[1]);
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0 || swing_create(LENGTH, &area) != 0 ||
        swing_allow_hooks(area.token, 1) != 0 ||
        write(tokens[1], &area.token, sizeof area.token) != sizeof area.token ||
        read(counts[0], &hooks, 4) != 4 || pthread_create(&sender, NULL, send_all, NULL) != 0) {
        fprintf(stderr, "begin: %s\n", swing_last_error());
        return 1;
    }
    for (i = 0; i < count; i++) {
        unsigned char *at =
            (unsigned char *)area.address + (i * 40503u + seed) % (LENGTH - 8192);
        ssize_t got = recv(ends[1], at, 8192, 0);
        uint32_t which;
        memcpy(&which, at, 4);
        if (got != (ssize_t)size_of_one(i) || which != i) {
            fprintf(stderr, "datagram %u: %zd bytes, number %u\n", i, got, which);
            return 1;
        }
        for (j = 4; j < (uint32_t)got; j++) {
            if (at[j] != i % 251) {
                fprintf(stderr, "datagram %u: byte %u is %u\n", i, j, at[j]);
                return 1;
            }
        }
        if (i % 16 == 0 && read(counts[0], &hooks, 4) != 4) {
            fprintf(stderr, "the other process has ended\n");
            return 1;
        }
    }
    pthread_join(sender, NULL);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    printf("%u\n", hooks);
    return 0;
}
