/* Records every allocation of a program: LD_PRELOAD=record_malloc.so RECORD_MALLOC=FILE program ...
 *
 * Two kinds of programs: those that call the C library's malloc, and those that have mimalloc
 * linked in, as ours do. Of the latter the four functions that Rust's allocator interface calls are
 * found in the symbol table and their first bytes overwritten by a jump to here (x86-64 only).
 * Everything is served by the C library.
 *
 * FILE gets 24 bytes an event, in the order in which they happened: a byte that says what (1:
 * allocate, 2: free, 3: reallocate; of the last, first comes the old block as 3, then the new one
 * as 1), 3 bytes of nothing, the thread as 4 bytes, the address as 8, the length as 8.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void __libc_free(void *);
extern void *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void *__libc_calloc(size_t, size_t);

struct event {
    uint32_t what, thread;
    uint64_t address, length;
};
enum { ALLOCATED = 1, FREED = 2, MOVED = 3, MOST = 64 << 20 };

static struct event *events;
static atomic_ulong used;
static int file = -1;
/* Reallocation is two events that belong together. */
static atomic_flag turn = ATOMIC_FLAG_INIT;

static void note(uint32_t what, void *address, size_t length)
{
    if (!events || !address) return;
    unsigned long at = atomic_fetch_add(&used, 1);
    if (at >= MOST) return;
    events[at] = (struct event){ what, (uint32_t)gettid(), (uint64_t)address, length };
}

/* Frees are written down before, allocations after they happen: nobody else has the block. */
static void *allocated(void *block, size_t length)
{
    note(ALLOCATED, block, length);
    return block;
}

static void *moved(void *block, size_t length, size_t align)
{
    if (!block) return allocated(__libc_memalign(align, length), length);
    size_t old = malloc_usable_size(block);
    void *new = __libc_memalign(align, length);
    if (!new) return 0;
    memcpy(new, block, old < length ? old : length);
    while (atomic_flag_test_and_set(&turn)) { }
    note(MOVED, block, 0);
    note(ALLOCATED, new, length);
    atomic_flag_clear(&turn);
    __libc_free(block);
    return new;
}

static size_t at_least(size_t align) { return align < 16 ? 16 : align; }

void *malloc(size_t length) { return allocated(__libc_malloc(length), length); }
void *calloc(size_t n, size_t length) { return allocated(__libc_calloc(n, length), n * length); }
void *realloc(void *block, size_t length) { return moved(block, length, 16); }
void *memalign(size_t align, size_t length)
{
    return allocated(__libc_memalign(at_least(align), length), length);
}
void *aligned_alloc(size_t align, size_t length) { return memalign(align, length); }
int posix_memalign(void **block, size_t align, size_t length)
{
    *block = memalign(align, length);
    return *block ? 0 : 12;
}
void free(void *block)
{
    note(FREED, block, 0);
    __libc_free(block);
}

static void *mi_malloc_aligned(size_t length, size_t align) { return memalign(align, length); }
static void *mi_zalloc_aligned(size_t length, size_t align)
{
    void *block = __libc_memalign(at_least(align), length);
    if (block) memset(block, 0, length);
    return allocated(block, length);
}
static void *mi_realloc_aligned(void *block, size_t length, size_t align)
{
    return moved(block, length, at_least(align));
}

static void jump(char *from, void *to)
{
    long page = sysconf(_SC_PAGESIZE);
    char *start = (char *)((uintptr_t)from & -(uintptr_t)page);
    if (mprotect(start, (size_t)(from + 12 - start), PROT_READ | PROT_WRITE | PROT_EXEC)) abort();
    memcpy(from, "\x48\xb8", 2); /* mov $to, %rax; jmp *%rax */
    memcpy(from + 2, &to, 8);
    memcpy(from + 10, "\xff\xe0", 2);
}

/* Where the program was loaded: the lowest mapping of it. */
static char *loaded(void)
{
    unsigned long start = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    if (!maps || fscanf(maps, "%lx", &start) != 1) abort();
    fclose(maps);
    return (char *)start;
}

static void replace_mimalloc(void)
{
    const struct { const char *name; void *by; } functions[] = {
        { "mi_malloc_aligned", mi_malloc_aligned }, { "mi_zalloc_aligned", mi_zalloc_aligned },
        { "mi_realloc_aligned", mi_realloc_aligned }, { "mi_free", free },
    };
    int program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (program < 0 || fstat(program, &info)) abort();
    char *image = mmap(0, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, program, 0);
    if (image == MAP_FAILED) abort();
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + header->e_shoff);
    for (int s = 0; s < header->e_shnum; s++) {
        if (sections[s].sh_type != SHT_SYMTAB) continue;
        const Elf64_Sym *symbols = (const Elf64_Sym *)(image + sections[s].sh_offset);
        const char *names = image + sections[sections[s].sh_link].sh_offset;
        for (size_t i = 0; i < sections[s].sh_size / sizeof *symbols; i++)
            for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
                if (symbols[i].st_value && !strcmp(names + symbols[i].st_name, functions[f].name))
                    jump((header->e_type == ET_DYN ? loaded() : 0) + symbols[i].st_value,
                         functions[f].by);
    }
    munmap(image, (size_t)info.st_size);
    close(program);
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("RECORD_MALLOC");
    if (!path) return;
    replace_mimalloc();
    size_t bytes = MOST * sizeof *events;
    file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0 || ftruncate(file, (off_t)bytes)) abort();
    void *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) abort();
    events = at;
}

__attribute__((destructor)) static void end(void)
{
    if (file < 0) return;
    unsigned long count = atomic_load(&used);
    events = 0;
    if (ftruncate(file, (off_t)((count < MOST ? count : MOST) * sizeof *events))) abort();
}
