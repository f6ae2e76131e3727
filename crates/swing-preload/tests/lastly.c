/* Its main thread ends before the others: "pthread_exit". Each says when it ends. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

static pthread_key_t key;

static void end(void *name) {
    printf("%s ends\n", (char *)name);
    free(name);
}

static void say(const char *name) {
    pthread_setspecific(key, strdup(name));
}

static void at_exit(void) {
    puts("the program ends");
}

static void *work(void *name) {
    say(name);
    if (strcmp(name, "first") == 0) {
        usleep(150000);
        pthread_exit(NULL);
    }
    usleep(300000);
    return NULL;
}

static int work_as_well(void *name) {
    usleep(450000);
    say(name);
    return 3;
}

int main(int argc, char **argv) {
    pthread_t first, second;
    thrd_t third;
    const char *way = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    pthread_key_create(&key, end);
    if (strcmp(way, "child") == 0) {
        pid_t child = fork();
        int status = -1;
        if (child > 0) {
            waitpid(child, &status, 0);
            printf("child %d\n", status);
        }
    }
    atexit(at_exit);
    say("main");
    if (strcmp(way, "alone") != 0) {
        pthread_create(&first, NULL, work, "first");
        pthread_create(&second, NULL, work, "second");
        thrd_create(&third, work_as_well, "third");
    }
    if (strcmp(way, "joined") == 0) {
        pthread_join(first, NULL);
        pthread_join(second, NULL);
        thrd_join(third, NULL);
        return 4;
    }
    pthread_exit(NULL);
}
