/* For programs that test the library: what must hold. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <swing.h>

/* Ends the program, saying where and what, and what the library said last. */
#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #what, swing_last_error());    \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#endif
