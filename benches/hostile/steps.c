/* Counts the steps of a program, for `.ci/linear`. A step is a basic block that is entered (the compiler inserts a call to
 * __sanitizer_cov_trace_pc into each), or a block of 32 bytes that a libc function processes (the linker replaces NAME with
 * __wrap_NAME).
 *
 * The count is in a file that the program maps, so that Rust code can read it without unsafe code. Only one thread counts.
 */

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t not_counted;
static uint64_t *steps = &not_counted;

__attribute__((constructor)) static void map_count(void) {
    const char *name = getenv("TOOLWIRE_STEPS");
    if (!name)
        return;
    int file = open(name, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof *steps) != 0)
        abort();
    void *page = mmap(NULL, sizeof *steps, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED)
        abort();
    steps = page;
    close(file);
}

void __sanitizer_cov_trace_pc(void) { ++*steps; }

#define BLOCKS(bytes) ((bytes) / 32)

void *__real_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes) {
    *steps += BLOCKS(bytes);
    return __real_memcpy(to, from, bytes);
}

void *__real_memmove(void *to, const void *from, size_t bytes);
void *__wrap_memmove(void *to, const void *from, size_t bytes) {
    *steps += BLOCKS(bytes);
    return __real_memmove(to, from, bytes);
}

void *__real_memset(void *to, int value, size_t bytes);
void *__wrap_memset(void *to, int value, size_t bytes) {
    *steps += BLOCKS(bytes);
    return __real_memset(to, value, bytes);
}

/* Counts all bytes, although these functions may stop early. */
int __real_memcmp(const void *left, const void *right, size_t bytes);
int __wrap_memcmp(const void *left, const void *right, size_t bytes) {
    *steps += BLOCKS(bytes);
    return __real_memcmp(left, right, bytes);
}

int __real_bcmp(const void *left, const void *right, size_t bytes);
int __wrap_bcmp(const void *left, const void *right, size_t bytes) {
    *steps += BLOCKS(bytes);
    return __real_bcmp(left, right, bytes);
}

/* Counts all bytes, although the block may grow in place. */
void *__real_realloc(void *block, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes) {
    *steps += BLOCKS(bytes);
    return __real_realloc(block, bytes);
}
