/* A linked list with raw pointers goes from process to process to process.
 *
 *     list create              makes a list of three, prints the token, waits for a line of input
 *     list extend TOKEN        hooks it, appends an element, prints its own token, waits
 *     list print TOKEN         hooks it and prints it
 *
 * Each process changes and passes on its own version; nobody sees another's changes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <swing.h>

struct node {
    struct node *next;
    long value;
};

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, swing_last_error());
    return 1;
}

/* The list's root lies in the part of the area that the allocator leaves alone. */
static struct node **root_of(int token) {
    swing_block reserved;
    return swing_reserved(token, &reserved) == 0 ? (struct node **)reserved.address : NULL;
}

static int append(int token, long value) {
    struct node **at = root_of(token);
    swing_block block;
    if (at == NULL || swing_alloc(token, sizeof(struct node), &block) != 0) {
        return -1;
    }
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = (struct node *)block.address;
    (*at)->next = NULL;
    (*at)->value = value;
    return 0;
}

static void print(int token) {
    struct node **root = root_of(token);
    struct node *node = root == NULL ? NULL : *root;
    for (; node != NULL; node = node->next) {
        printf("%ld ", node->value);
    }
    printf("\n");
    fflush(stdout);
}

static int offer(int token) {
    char line[16];
    if (swing_allow_hooks(token, 1) != 0) {
        return fail("allow");
    }
    printf("%d\n", token);
    fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL) {
        line[0] = '\0';
    }
    print(token);
    return swing_release(token) == 0 ? 0 : fail("release");
}

int main(int argc, char **argv) {
    swing_area area;
    long value;
    if (argc == 2 && strcmp(argv[1], "create") == 0) {
        if (swing_create((size_t)1 << 30, &area) != 0) {
            return fail("create");
        }
        for (value = 1; value <= 3; value++) {
            if (append(area.token, value) != 0) {
                return fail("append");
            }
        }
        return offer(area.token);
    }
    if (argc != 3) {
        fprintf(stderr, "usage: list create | extend TOKEN | print TOKEN\n");
        return 2;
    }
    if (swing_hook(atoi(argv[2]), SWING_AT_ORIGIN, &area) != 0) {
        return fail("hook");
    }
    if (strcmp(argv[1], "extend") == 0) {
        if (append(area.token, 100) != 0) {
            return fail("append");
        }
        return offer(area.token);
    }
    print(area.token);
    return swing_release(area.token) == 0 ? 0 : fail("release");
}
