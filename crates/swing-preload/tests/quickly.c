/* Ends by quick_exit, in a forked child first; its handlers use the heap. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *kept;

static void last(void) {
    char *block = malloc(100);
    if (block && kept[99999] == 7) {
        printf("last\n");
        fflush(stdout);
    }
    free(block);
    free(kept);
}

int main(int argc, char **argv) {
    char go;
    kept = malloc(100000);
    if (!kept || at_quick_exit(last) != 0) {
        return 2;
    }
    memset(kept, 7, 100000);
    pid_t child = fork();
    if (child == 0) {
        quick_exit(0);
    }
    if (waitpid(child, NULL, 0) != child || write(1, "ready\n", 6) != 6 ||
        read(0, &go, 1) != 1) {
        return 3;
    }
    quick_exit(argc + (argv == NULL));
}
