/* Children that are forked beside whatever other threads are about. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Forks so often; each child does the work, for which it has some seconds, and ends with its
   result. Says which one did not end with 0. */
static int all_end(int forks, int seconds, int (*work)(void)) {
    for (int i = 0; i < forks; i++) {
        int status = -1;
        if (fork() == 0) {
            alarm(seconds);
            _exit(work());
        }
        if (wait(&status) < 0 || status != 0) {
            printf("child %d: %d\n", i, status);
            return 0;
        }
    }
    return 1;
}
