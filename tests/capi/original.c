/* A producer and consumer with several areas that is told what to do, in the shape of the original
 * library. Areas have numbers from 0; a call's token is given, so that wrong ones can be, too.
 *
 *     create AREA LENGTH          prints the token, or -1
 *     hook AREA TOKEN             prints the new area's token, or -1
 *     enable TOKEN, disable TOKEN, release TOKEN       print 0 or -1
 *     fill AREA OFFSET LENGTH BYTE    stores; prints 0
 *     load AREA OFFSET LENGTH FILE    stores what read() gives; prints its result
 *     save AREA OFFSET LENGTH FILE    writes by write(); prints its result
 *     sum AREA OFFSET LENGTH      prints a checksum of the bytes */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <swing.h>
#include <unistd.h>

#define AREAS 16

static unsigned char *at[AREAS];

static unsigned long sum_of(const unsigned char *bytes, unsigned long n) {
    unsigned long i, sum = 5381;
    for (i = 0; i < n; i++) {
        sum = (sum * 33 + bytes[i]) & 0xffffffffUL;
    }
    return sum;
}

static long transfer(const char *verb, void *bytes, unsigned long n, const char *path) {
    long done;
    int saving = verb[0] == 's';
    int fd = open(path, saving ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, 0600);
    if (fd < 0) {
        return -2;
    }
    done = saving ? write(fd, bytes, n) : read(fd, bytes, n);
    close(fd);
    return done;
}

static long perform(const char *line) {
    char verb[16], path[200];
    unsigned area;
    unsigned long offset, n;
    int token, byte;
    void *address;
    if (sscanf(line, "create %u %lu", &area, &n) == 2 && area < AREAS) {
        if (createarea(&address, &token, n) != 0) {
            return -1;
        }
        at[area] = (unsigned char *)address;
        return token;
    }
    if (sscanf(line, "hook %u %d", &area, &byte) == 2 && area < AREAS) {
        if (hook(&address, &token, byte) != 0) {
            return -1;
        }
        at[area] = (unsigned char *)address;
        return token;
    }
    if (sscanf(line, "fill %u %lu %lu %d", &area, &offset, &n, &byte) == 4 && area < AREAS) {
        memset(at[area] + offset, byte, n);
        return 0;
    }
    if (sscanf(line, "sum %u %lu %lu", &area, &offset, &n) == 3 && area < AREAS) {
        return (long)sum_of(at[area] + offset, n);
    }
    if (sscanf(line, "%15s %u %lu %lu %199s", verb, &area, &offset, &n, path) == 5 &&
        area < AREAS) {
        return transfer(verb, at[area] + offset, n, path);
    }
    if (sscanf(line, "%15s %d", verb, &token) == 2) {
        return strcmp(verb, "enable") == 0    ? enablehook(token)
               : strcmp(verb, "disable") == 0 ? disablehook(token)
               : strcmp(verb, "release") == 0 ? releasearea(token)
                                              : -99;
    }
    return -99;
}

int main(void) {
    char line[512];
    while (fgets(line, sizeof line, stdin) != NULL) {
        printf("%ld\n", perform(line));
        fflush(stdout);
    }
    return 0;
}
