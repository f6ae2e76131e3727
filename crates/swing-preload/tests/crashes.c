/* Ends by a signal, or nearly: what becomes of faults that are none of the heap's.
 *
 *     crashes WHAT */
#define _GNU_SOURCE
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile int *volatile nowhere = (int *)8;
static sigjmp_buf back;
static char *heap;
static char *page;

static void say(const char *text) {
    if (write(1, text, strlen(text)) < 0) {
        _exit(9);
    }
}
static void gives_up(int number) {
    say("mine\n");
    signal(number, SIG_DFL);
}
/* With SIGSEGV not blocked meanwhile, or the kernel would end the process at the store. */
static void stores(int number) {
    heap[5] = 5;
    gives_up(number);
}
/* For one time: the kernel restores the default action before it calls this. */
static void returns(int number) {
    (void)number;
    say("once\n");
}
/* What is then stored elsewhere is no fault of the program. */
static void mends(int number) {
    gives_up(number);
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}
static void raises(int number) {
    say("raised\n");
    signal(number, SIG_DFL);
    raise(number);
}
/* As compilers for older standards name it. */
extern __sighandler_t __sysv_signal(int, __sighandler_t);
static void leaves(int number) {
    (void)number;
    heap[6]++;
    siglongjmp(back, 1);
}
static void ends(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    say(info->si_addr == (void *)8 ? "at 8\n" : "elsewhere\n");
    _exit(42);
}
static void install(void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    if (sigaction(SIGSEGV, &action, NULL) != 0) {
        _exit(8);
    }
}
/* Puts back what was found, as a program does that only wanted to know for a while. */
static void restored(int by_signal) {
    struct sigaction found, mine = {.sa_handler = gives_up};
    if (by_signal) {
        void (*before)(int) = signal(SIGSEGV, gives_up);
        signal(SIGSEGV, before);
    } else {
        sigaction(SIGSEGV, &mine, &found);
        sigaction(SIGSEGV, &found, NULL);
    }
    heap[5]++;
    say("stored\n");
}
/* In the heap, of which a part was frozen, and of which nothing may be there yet. */
static void stack_in_the_heap(void) {
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16}, told;
    if (!stack.ss_sp || sigaltstack(&stack, NULL) != 0 || sigaltstack(NULL, &told) != 0 ||
        told.ss_sp != stack.ss_sp || told.ss_size != stack.ss_size) {
        _exit(7);
    }
}
static void *in_a_thread(void *unused) {
    stack_in_the_heap();
    *nowhere = 1;
    return unused;
}
static int deeper(int depth) {
    volatile char room[1000];
    room[0] = (char)depth;
    return room[0] + (depth > 0 ? deeper(depth + 1) : 0);
}
static void *overflows(void *unused) {
    deeper(1);
    return unused;
}

/* By an older function of that name. */
static int install_by(const char *name) {
    static const struct {
        const char *name;
        __sighandler_t (*install)(int, __sighandler_t);
        void (*handler)(int);
    } ways[] = {
        {"signal", signal, gives_up},
        {"sysv_signal", sysv_signal, returns},
        {"__sysv_signal", __sysv_signal, gives_up},
        {"ssignal", ssignal, gives_up},
        {"sigset", sigset, gives_up},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(name, ways[i].name) == 0) {
            return ways[i].install(SIGSEGV, ways[i].handler) != SIG_ERR;
        }
    }
    return 0;
}
/* The signal alone is blocked, as it is in a program that was started by one that blocks all. */
static void starts_itself(char *self) {
    char *arguments[] = {self, "inherits", "at once", NULL};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_SETMASK, &set, NULL);
    execv("/proc/self/exe", arguments);
    say("not started\n");
}

static void joined(void *(*routine)(void *)) {
    pthread_t thread;
    pthread_create(&thread, NULL, routine, NULL);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    char go;
    heap = calloc(1, 8 << 20);
    heap[0] = 1;
    if (argc > 2) {
        say("started\n");
        return 0;
    }
    say("ready\n");
    if (read(0, &go, 1) != 1) {
        return 2;
    }
#define IS(name) (strcmp(what, name) == 0)
    if (install_by(what)) {
        heap[8] = 1;
    } else if (IS("gives_up")) {
        install(gives_up, 0);
    } else if (IS("restored") || IS("restored_by_signal")) {
        restored(IS("restored_by_signal"));
    } else if (IS("reset")) {
        install(gives_up, SA_RESETHAND);
    } else if (IS("once")) {
        install(returns, SA_RESETHAND);
    } else if (IS("once_sent")) {
        install(returns, SA_RESETHAND | SA_NODEFER);
        raise(SIGSEGV);
    } else if (IS("once_again")) {
        install(returns, SA_RESETHAND);
        raise(SIGSEGV);
        install(returns, SA_RESETHAND);
    } else if (IS("stores")) {
        install(stores, SA_NODEFER);
    } else if (IS("raises")) {
        install(raises, SA_NODEFER);
    } else if (IS("on_its_stack")) {
        stack_in_the_heap();
        install(gives_up, SA_ONSTACK);
    } else if (IS("overflow")) {
        struct sigaction action = {.sa_flags = SA_ONSTACK | SA_SIGINFO, .sa_sigaction = ends};
        stack_in_the_heap();
        sigaction(SIGSEGV, &action, NULL);
        return deeper(1);
    } else if (IS("overflow_on_it")) {
        install(gives_up, 0);
        return deeper(1);
    } else if (IS("overflow_in_a_thread")) {
        install(gives_up, 0);
        joined(overflows);
    } else if (IS("told")) {
        struct sigaction action = {.sa_flags = SA_SIGINFO, .sa_sigaction = ends};
        sigaction(SIGSEGV, &action, NULL);
    } else if (IS("leaves")) {
        install(leaves, SA_NODEFER);
        /* At the same depth of the stack each time. */
        for (volatile int times = 0; times < 3; times++) {
            if (sigsetjmp(back, 1) == 0) {
                *nowhere = 1;
            }
        }
        printf("left %d times\n", heap[6]);
        return 0;
    } else if (IS("ignored")) {
        signal(SIGSEGV, SIG_IGN);
        kill(getpid(), SIGSEGV);
        say("goes on\n");
    } else if (IS("sent")) {
        install(gives_up, 0);
        kill(getpid(), SIGSEGV);
        heap[7]++;
        say("goes on\n");
    } else if (IS("mends")) {
        page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        install(mends, 0);
        *page = 1;
        heap[7]++;
        say("goes on\n");
    } else if (IS("thread")) {
        install(gives_up, SA_ONSTACK);
        joined(in_a_thread);
    } else if (IS("sigsetmask") || IS("sigblock")) {
        IS("sigblock") ? sigblock(-1) : sigsetmask(-1);
        heap[8] = 1;
        say("stored\n");
    } else if (IS("inherits")) {
        starts_itself(argv[0]);
    } else if (IS("protected")) {
        nowhere = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    } else if (IS("abort")) {
        abort();
    } else if (IS("wild")) {
        char *volatile block = calloc(1, 64 << 20);
        char *volatile inside = block + (1 << 20);
        free(inside);
    }
    *nowhere = 1;
    say("never\n");
    return 0;
}
