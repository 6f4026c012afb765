/*
 * execute.c - runs a program over a layout in host memory.
 *
 * The elements are numbered in the layout's order and cut into ranges, one for each thread.  A
 * range is walked row by row; evaluate.c computes the rows.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "evaluate.h"

/* A thread that is woken for less than this much traffic costs more than it brings. */
#define THREAD_MIN_NBYTES (1024 * 1024)

/* Parts of the work for each thread. */
#define SHARES 4

/*
 * A program over a layout, whose operands have the strides that `e` was made for in the innermost
 * dimension.  `memory` has a share for each of at most `threads` threads, if registers need it.
 */
typedef struct run {
    const mylib_evaluator *e;
    const mylib_layout *layout;
    char *memory;
    int threads;
} run;

/* Elements [begin, end) in the layout's order, by thread `t`. */
static void run_range(const run *r, int t, int64_t begin, int64_t end, int bypass)
{
    const mylib_evaluator *e = r->e;
    const mylib_layout *l = r->layout;
    int inner = l->ndim - 1;
    int64_t index[MYLIB_MAX_NDIM], rest = begin;
    mylib_places places;

    mylib_places_init(&places, e,
                      r->memory != NULL ? r->memory + (size_t)t * e->memory_nbytes : NULL);
    char **place = places.place;
    for (int k = 0; k < l->operands; k++)
        place[k] = l->data[k];
    for (int d = inner; d >= 0; d--) {
        index[d] = rest % l->shape[d];
        rest /= l->shape[d];
        for (int k = 0; k < l->operands; k++)
            place[k] += index[d] * l->strides[k][d];
    }
    while (begin < end) {
        int64_t n = l->shape[inner] - index[inner];
        n = n < end - begin ? n : end - begin;
        if (bypass)
            mylib_evaluate_past_cache(e, n, place);
        else
            mylib_evaluate(e, n, place);
        begin += n;
        if (begin == end)
            break;
        /* To the start of the next row. */
        for (int k = 0; k < l->operands; k++)
            place[k] -= index[inner] * l->strides[k][inner];
        index[inner] = 0;
        for (int d = inner - 1; d >= 0; d--) {
            int wraps = ++index[d] == l->shape[d];
            for (int k = 0; k < l->operands; k++)
                place[k] += l->strides[k][d] * (wraps ? 1 - l->shape[d] : 1);
            if (!wraps)
                break;
            index[d] = 0;
        }
    }
    if (bypass)
        e->cpu->stream_fence();
}

/*
 * The size beyond which the last-level cache does not help a second pass over the operands.  A
 * virtual machine may report the cache of the whole host, most of which is others'.
 */
#define MOST_CACHE_NBYTES (32 * 1024 * 1024)

static int64_t cache_nbytes(void)
{
    static _Atomic int64_t known_nbytes; /* every thread writes the same value */
    int64_t known = atomic_load_explicit(&known_nbytes, memory_order_relaxed);
    if (known == 0) {
        long size = -1;
#ifdef _SC_LEVEL3_CACHE_SIZE
        size = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
        known = size > 0 && size < MOST_CACHE_NBYTES ? size : MOST_CACHE_NBYTES;
        atomic_store_explicit(&known_nbytes, known, memory_order_relaxed);
    }
    return known;
}

/*
 * Whether to store past the cache: a large, contiguous output that is no input, and a good part of
 * the traffic.
 */
static int pays_to_bypass(const mylib_program *p, const mylib_layout *l, int64_t nbytes)
{
    int inner = l->ndim - 1;
    int64_t size = mylib_program_operand_size(p, 0);
    if (nbytes < cache_nbytes() || l->strides[0][inner] != size || l->shape[inner] * size < 4096 ||
        l->count * size < nbytes / 5)
        return 0;
    for (int k = 1; k < l->operands; k++)
        if (l->data[k] == l->data[0])
            return 0;
    return 1;
}

/* The bytes that all operands of a layout make up together, repeated ones as often as read. */
static int64_t traffic(const mylib_program *p, const mylib_layout *l)
{
    int64_t size = 0;
    for (int k = 0; k < l->operands; k++)
        size += mylib_program_operand_size(p, k);
    return l->count * size;
}

/* How many threads pay for so much traffic. */
static int choose_threads(int64_t nbytes)
{
    if (nbytes < 2 * THREAD_MIN_NBYTES)
        return 1;
    int64_t most = nbytes / THREAD_MIN_NBYTES;
    int threads = mylib_cpu_threads();
    return threads < most ? threads : (int)most;
}

/* Elements that a thread takes at once. */
typedef struct shares {
    const run *r;
    int64_t size;
    int bypass;
} shares;

static void run_share(void *context, int thread, int64_t i)
{
    const shares *s = context;
    int64_t begin = i * s->size, rest = s->r->layout->count - begin;
    run_range(s->r, thread, begin, begin + (s->size < rest ? s->size : rest), s->bypass);
}

/* All elements, on as many threads as pay. */
static void run_layout(const run *r)
{
    const mylib_layout *l = r->layout;
    int64_t nbytes = traffic(r->e->program, l);
    int bypass = pays_to_bypass(r->e->program, l, nbytes), threads = choose_threads(nbytes);
    threads = threads < r->threads ? threads : r->threads;
    if (threads <= 1) {
        run_range(r, 0, 0, l->count, bypass);
        return;
    }
    /*
     * Several for each thread, as one may come late; multiples of 4096 elements, so that no two
     * threads store to one cache line of a contiguous output.
     */
    int64_t wanted = (int64_t)threads * SHARES;
    shares s = {r, ((l->count + wanted - 1) / wanted + 4095) / 4096 * 4096, bypass};
    mylib_cpu_parallel(threads, (l->count + s.size - 1) / s.size, run_share, &s);
}

/*
 * Operands that disagree on the innermost dimension (A + B.T) would fetch a cache line for each
 * element.  Elements are therefore taken in square tiles, which use up a line while it is in the
 * cache.
 */
#define TILE 64

/* A dimension other than the innermost in which some operand moves least; -1 when there is none. */
static int other_fast_dimension(const mylib_layout *l)
{
    int inner = l->ndim - 1;
    for (int k = 1; k < l->operands; k++)
        for (int d = 0; d < inner; d++)
            if (l->strides[k][d] != 0 && l->shape[d] >= 2 * TILE &&
                llabs(l->strides[k][d]) < llabs(l->strides[k][inner]))
                return d;
    return -1;
}

/* The part of a layout that begins at `begin` in dimension d and has `size` there. */
static void take_part(mylib_layout *l, int d, int64_t begin, int64_t size)
{
    l->count = l->count / l->shape[d] * size;
    l->shape[d] = size;
    for (int k = 0; k < l->operands; k++)
        l->data[k] += begin * l->strides[k][d];
}

/* Turns dimension d, a multiple of TILE, into two: the tiles at d, their elements at the end. */
static void split_dimension(mylib_layout *l, int d)
{
    int last = l->ndim++;
    l->shape[last] = TILE;
    l->shape[d] /= TILE;
    for (int k = 0; k < l->operands; k++) {
        l->strides[k][last] = l->strides[k][d];
        l->strides[k][d] *= TILE;
    }
}

/* A layout in tiles, where some operand moves least in dimension d. */
static mylib_status run_tiles(const run *whole, int d)
{
    const mylib_layout *l = whole->layout;
    int inner = l->ndim - 1;
    int64_t rows = l->shape[d], columns = l->shape[inner];
    int64_t whole_rows = rows - rows % TILE, whole_columns = columns - columns % TILE;
    mylib_strides few[MYLIB_FEW_ROWS];
    mylib_layout part;
    mylib_status st = mylib_take_rows(&part, few, l->operands);
    if (st != MYLIB_OK)
        return st;
    mylib_layout_copy(&part, l);
    const run r = {whole->e, &part, whole->memory, whole->threads};
    take_part(&part, d, 0, whole_rows);
    take_part(&part, inner, 0, whole_columns);
    split_dimension(&part, d);
    split_dimension(&part, inner);
    run_layout(&r);
    if (whole_columns < columns) {
        mylib_layout_copy(&part, l);
        take_part(&part, inner, whole_columns, columns - whole_columns);
        run_layout(&r);
    }
    if (whole_rows < rows) {
        mylib_layout_copy(&part, l);
        take_part(&part, d, whole_rows, rows - whole_rows);
        take_part(&part, inner, 0, whole_columns);
        run_layout(&r);
    }
    mylib_free_rows(&part, few);
    return MYLIB_OK;
}

/* The evaluator for the rows of a layout, and memory for so many threads. */
static mylib_status begin_run(run *r, mylib_evaluator *e, const mylib_program *p,
                              const mylib_layout *l, int threads)
{
    int64_t strides[MYLIB_MAX_OPERANDS];
    void *memory = NULL;
    *r = (run){e, l, NULL, threads};
    for (int k = 0; k < l->operands; k++)
        strides[k] = l->strides[k][l->ndim - 1];
    mylib_status st = mylib_evaluator_init(e, p, strides);
    if (st != MYLIB_OK)
        return st;
    if (e->memory_nbytes != 0 &&
        posix_memalign(&memory, MYLIB_LINE_NBYTES, (size_t)threads * e->memory_nbytes) != 0) {
        mylib_evaluator_free(e);
        return mylib_fail(MYLIB_ERR_NO_MEMORY, "no memory for the %d registers of a program",
                          p->registers);
    }
    r->memory = memory;
    return MYLIB_OK;
}

static void end_run(run *r, mylib_evaluator *e)
{
    free(r->memory);
    mylib_evaluator_free(e);
}

mylib_status mylib_cpu_execute(const mylib_program *p, const mylib_layout *l)
{
    int inner = l->ndim - 1, d = -1;
    int64_t nbytes = traffic(p, l);
    mylib_evaluator e;
    run r;
    if (p->statements == 1 && l->ndim == 1 && nbytes < 2 * THREAD_MIN_NBYTES) {
        int64_t strides[MYLIB_MAX_OPERANDS];
        for (int k = 0; k < l->operands; k++)
            strides[k] = l->strides[k][0];
        mylib_evaluate_alone(p, l->count, l->data, strides);
        return MYLIB_OK;
    }
    mylib_status st = begin_run(&r, &e, p, l, choose_threads(nbytes));
    if (st != MYLIB_OK)
        return st;
    if (l->ndim > 1 && l->ndim <= MYLIB_MAX_NDIM - 2 && l->shape[inner] >= 2 * TILE)
        d = other_fast_dimension(l);
    if (d < 0)
        run_layout(&r);
    else
        st = run_tiles(&r, d);
    end_run(&r, &e);
    return st;
}

/*
 * Kernels with an output stride of 0 are plain loops, and keep the order by themselves; those of
 * f16 go block by block.
 */
static int keeps_order(const mylib_program *p, const mylib_layout *l)
{
    return l->ndim == 1 && l->strides[0][0] == 0 && p->statements == 1 &&
           p->statement[0].opcode < MYLIB_OP_COUNT && p->statement[0].type != MYLIB_F16;
}

mylib_status mylib_cpu_execute_in_order(const mylib_program *p, const mylib_layout *l)
{
    mylib_evaluator e;
    run r;
    mylib_status st = begin_run(&r, &e, p, l, 1);
    if (st != MYLIB_OK)
        return st;
    int64_t step = keeps_order(p, l) ? l->count : 1;
    for (int64_t i = 0; i < l->count; i += step)
        run_range(&r, 0, i, i + step, 0);
    end_run(&r, &e);
    return MYLIB_OK;
}
