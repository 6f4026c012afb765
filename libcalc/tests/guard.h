/*
 * guard.h - memory between two pages that may not be touched: a byte read or written too far
 * crashes, and the crash names the case (test.h).
 */
#ifndef MYLIB_GUARD_H
#define MYLIB_GUARD_H

#include "test.h"

#include <sys/mman.h>
#include <unistd.h>

typedef struct guard {
    unsigned char *begin; /* the first byte that may be touched */
    unsigned char *end;   /* the first byte after it that may not */
    unsigned char *map;
    size_t map_nbytes;
} guard;

/* Allocates at least 'nbytes' of zeroed memory, in whole pages. */
static inline void guard_open(guard *g, size_t nbytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t inner = (nbytes + page - 1) / page * page;
    g->map_nbytes = inner + 2 * page;
    void *map = mmap(NULL, g->map_nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        test_give_up("mmap failed");
    g->map = map;
    g->begin = g->map + page;
    g->end = g->begin + inner;
    if (mprotect(g->begin, inner, PROT_READ | PROT_WRITE) != 0)
        test_give_up("mprotect failed");
}

static inline void guard_close(guard *g)
{
    munmap(g->map, g->map_nbytes);
    memset(g, 0, sizeof *g);
}

/* Returns the bytes from the first to the last of n elements. */
static inline int64_t guard_span(int64_t n, int64_t stride, int64_t size)
{
    return n == 0 ? 0 : (n - 1) * (stride < 0 ? -stride : stride) + size;
}

/*
 * Returns the address of element 0 of n that lie against the front guard page ('back' false) or the
 * back one.  With n == 0 it points to memory that may not be touched.
 */
static inline unsigned char *guard_place(const guard *g, int back, int64_t n, int64_t stride,
                                         int64_t size)
{
    unsigned char *low = back ? g->end - guard_span(n, stride, size) : g->begin;
    if (n == 0)
        return back ? g->end : g->map;
    return stride < 0 ? low + (n - 1) * -stride : low;
}

#endif /* MYLIB_GUARD_H */
