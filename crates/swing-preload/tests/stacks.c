/* Uses memory from malloc as stacks. For each step: `? ` and its name, then a byte on standard
 * input when another process may have hooked the heap, and so the stack it runs on; then what came
 * of it.
 *
 *     stacks [quiet]      quiet: no signals, whose frames the kernel stores on the stack */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK ((size_t)256 << 10)
#define THREADS 200

static int quiet;

static void tell(const char *format, ...) {
    char line[200];
    va_list rest;
    va_start(rest, format);
    int len = vsnprintf(line, sizeof line, format, rest);
    va_end(rest);
    if (write(1, line, (size_t)len) != len) {
        _exit(9);
    }
}

/* The stack of the caller is frozen when this returns. */
static void step(const char *name) {
    char go;
    tell("? %s\n", name);
    if (read(0, &go, 1) != 1) {
        _exit(8);
    }
}

static void *from_heap(void) {
    void *at = NULL;
    return posix_memalign(&at, 4096, STACK) == 0 ? memset(at, 1, STACK) : NULL;
}

/* Coroutines. */

struct routine {
    ucontext_t own, back;
    int steps;
};

static __thread struct routine *current;

static void leave(void) {
    swapcontext(&current->own, &current->back);
}

static void counts(void) {
    for (;;) {
        volatile char room[5000];
        memset((char *)room, current->steps, sizeof room);
        current->steps += room[4999] == (char)current->steps;
        leave();
    }
}

static void asks(void) {
    step("in a coroutine");
    tell("%d\n", ++current->steps);
    leave();
    step("in a coroutine again");
    tell("%d\n", ++current->steps);
    leave();
}

/* What the kernel stores lies on the stack, as does what a library puts in its place. */
static void calls(void) {
    struct timespec left = {0}, time = {.tv_nsec = 20000000};
    struct sockaddr_un whom;
    socklen_t len = sizeof whom;
    char buffer[64], name[64], control[64];
    int pair[2], ends[2];
    struct iovec vector = {buffer, sizeof buffer};
    struct msghdr head = {.msg_iov = &vector, .msg_iovlen = 1, .msg_name = name,
                          .msg_namelen = sizeof name, .msg_control = control,
                          .msg_controllen = sizeof control};
    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair);
    if (pipe(ends) != 0 || write(ends[1], "abc", 3) != 3 || send(pair[0], "message", 7, 0) != 7) {
        _exit(7);
    }
    struct pollfd polls[2] = {{ends[0], POLLIN, 0}, {pair[1], POLLIN, 0}};
    struct rlimit limit;
    sigset_t mask;
    step("calls in a coroutine");
    int polled = poll(polls, 2, 1000);
    tell("%d %d %zd %zd %d %d %d %d %d\n", polled, polls[1].revents, read(ends[0], buffer, 9),
         recvmsg(pair[1], &head, 0), head.msg_flags, nanosleep(&time, &left),
         getsockname(pair[0], (struct sockaddr *)&whom, &len), getrlimit(RLIMIT_CORE, &limit),
         sigprocmask(SIG_BLOCK, NULL, &mask));
    leave();
}

static volatile sig_atomic_t handled;

static void handles(int number) {
    (void)number;
    volatile char room[1000];
    memset((char *)room, 1, sizeof room);
    handled += room[999];
}

static void is_interrupted(void) {
    step("a signal in a coroutine");
    raise(SIGUSR1);
    tell("%d\n", handled);
    leave();
}

static void forks(void) {
    step("fork in a coroutine");
    pid_t child = fork();
    if (child == 0) {
        current->steps = 5;
        leave();
        _exit(6);
    }
    int status = 0;
    waitpid(child, &status, 0);
    tell("%d\n", WEXITSTATUS(status));
    leave();
}

static struct routine *routine(void (*body)(void)) {
    /* A hook may come between the stores of swapcontext: the kernel's, of the mask, fails then. */
    struct routine *new = quiet ? mmap(NULL, sizeof *new, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                : calloc(1, sizeof *new);
    getcontext(&new->own);
    new->own.uc_stack.ss_sp = from_heap();
    new->own.uc_stack.ss_size = STACK;
    makecontext(&new->own, body, 0);
    return new;
}

static void resume(struct routine *it) {
    current = it;
    swapcontext(&it->back, &it->own);
}

static void coroutines(void) {
    struct routine *counter = routine(counts), *asker = routine(asks);
    resume(counter);
    step("suspended");
    resume(counter);
    tell("%d\n", counter->steps);
    resume(asker);
    resume(counter);
    resume(asker);
    resume(routine(calls));
    if (!quiet) {
        signal(SIGUSR1, handles);
        resume(routine(is_interrupted));
    }
    pid_t self = getpid();
    resume(routine(forks));
    if (getpid() != self) {
        resume(counter);
        _exit(current->steps + 10);
    }
}

/* Threads. */

static void *in_thread(void *name) {
    volatile char room[20000];
    step(name);
    memset((char *)room, 7, sizeof room);
    coroutines();
    return (void *)(size_t)room[19999];
}

static int in_other_thread(void *name) {
    return (int)(size_t)in_thread(name);
}

static void *waits(void *unused) {
    step("cancelled in a coroutine");
    /* What is not stored to for some milliseconds is protected ahead of the next hook. */
    for (;;)
        usleep(1000);
    return unused;
}

static void is_cancelled(void) {
    waits(NULL);
}

static void *resumes(void *it) {
    resume(it);
    return NULL;
}

static void *looks(void *told) {
    *(int *)told = 1;
    return NULL;
}

static void threads(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    void *stack = from_heap(), *at, *result;
    size_t len;
    int kind;
    thrd_t other;
    sigset_t mask;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, STACK);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    pthread_attr_setsigmask_np(&attributes, &mask);
    pthread_create(&thread, &attributes, in_thread, "a thread on a stack from malloc");
    pthread_join(thread, &result);
    pthread_attr_getstack(&attributes, &at, &len);
    tell("%zu %d %zu\n", (size_t)result, at == stack, len);
    pthread_create(&thread, NULL, in_thread, "a thread");
    pthread_join(thread, &result);
    tell("%zu\n", (size_t)result);
    thrd_create(&other, in_other_thread, "a thread of C11");
    thrd_join(other, &kind);
    tell("%d\n", kind);
    if (!quiet) {
        pthread_create(&thread, NULL, resumes, routine(is_cancelled));
        usleep(100000);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        tell("%d\n", result == PTHREAD_CANCELED);
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    volatile int seen = 0;
    pthread_create(&thread, &attributes, looks, (void *)&seen);
    while (!seen) {
        usleep(1000);
    }
    tell("%d\n", seen);
}

/* What the program sees of stacks for signal handlers. */

static void seen(const char *when) {
    stack_t told = {(void *)1, 1, 1};
    int result = sigaltstack(NULL, &told);
    tell("%s %d %d %zu\n", when, result, told.ss_flags, told.ss_size);
}

static void *for_handlers(void *unused) {
    stack_t stack = {.ss_sp = malloc(STACK), .ss_size = STACK}, none = {.ss_flags = SS_DISABLE};
    stack_t told;
    seen("at first");
    sigaltstack(&stack, &told);
    tell("before %d %zu\n", told.ss_flags, told.ss_size);
    seen("one");
    sigaltstack(&none, &told);
    tell("before %d %zu %d\n", told.ss_flags, told.ss_size, told.ss_sp == stack.ss_sp);
    seen("none");
    return unused;
}

static void *ends(void *counter) {
    __atomic_fetch_add((int *)counter, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static int mappings(void) {
    int lines = 0, c;
    FILE *maps = fopen("/proc/self/maps", "r");
    while ((c = getc(maps)) != EOF) {
        lines += c == '\n';
    }
    fclose(maps);
    return lines;
}

static void many(void) {
    pthread_t thread;
    int count = 0;
    pthread_create(&thread, NULL, ends, &count);
    pthread_join(thread, NULL);
    int before = mappings();
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&thread, NULL, ends, &count);
        pthread_join(thread, NULL);
    }
    tell("%d threads %s\n", count, mappings() < before + 40 ? "leave nothing" : "leave mappings");
}

int main(int argc, char **argv) {
    pthread_t thread;
    (void)argv;
    quiet = argc > 1;
    coroutines();
    threads();
    for_handlers(NULL);
    pthread_create(&thread, NULL, for_handlers, NULL);
    pthread_join(thread, NULL);
    many();
    coroutines();
    tell("end\n");
    return 0;
}
