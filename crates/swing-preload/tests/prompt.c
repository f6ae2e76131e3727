/* Asks for a name on the terminal that it is started on, and greets. */
#include <stdio.h>

int main(void) {
    char name[100];
    FILE *other = fopen("/dev/tty", "w");
    printf("name? ");
    if (!fgets(name, sizeof name, stdin)) {
        return 1;
    }
    printf("hello %s", name);
    if (other) {
        fprintf(other, "a line\n");
    }
    return fgets(name, sizeof name, stdin) ? 0 : 2;
}
