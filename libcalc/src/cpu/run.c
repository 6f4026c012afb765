/*
 * run.c - runs a program over a layout in host memory.
 *
 * The elements are numbered in the layout's order and cut into ranges, one for each task of the
 * threads.  A task walks its range row by row; run_row.c computes the rows.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/run_row.h"

/* Tasks for each thread: several, because a thread may start late. */
#define TASKS_PER_THREAD 4

/* Bytes of all operands of a task.  Short tasks let the threads end together. */
#define MAX_TASK_NBYTES (1024 * 1024)

/*
 * A program over a layout, bound to the layout's innermost strides.  If registers need it, `memory`
 * has memory_nbytes for each of at most `threads` threads.
 */
typedef struct cpu_run {
    const mylib_row_program *rp;
    const mylib_layout *layout;
    char *memory;
    int threads;
} cpu_run;

/* ---- Ranges and threads ---- */

static void run_range(const cpu_run *r, int thread, int64_t begin, int64_t end, int bypass)
{
    const mylib_row_program *rp = r->rp;
    const mylib_layout *l = r->layout;
    int inner = l->ndim - 1;
    int64_t index[MYLIB_MAX_NDIM];
    mylib_row_data row;

    mylib_row_data_init(&row, rp,
                        r->memory != NULL ? r->memory + (size_t)thread * rp->memory_nbytes : NULL);
    char **data = row.data;
    for (int k = 0; k < l->operands; k++)
        data[k] = l->data[k];
    mylib_layout_seek(l, l->strides, l->operands, begin, index, data);
    while (begin < end) {
        int64_t n = mylib_lesser(l->shape[inner] - index[inner], end - begin);
        if (bypass)
            mylib_run_row_past_cache(rp, n, data);
        else
            mylib_run_row(rp, n, data);
        begin += n;
        if (begin == end)
            break;
        for (int k = 0; k < l->operands; k++)
            data[k] -= index[inner] * l->strides[k][inner];
        index[inner] = 0;
        mylib_layout_next_row(l, l->strides, l->operands, index, data);
    }
    if (bypass)
        rp->cpu->stream_fence();
}

/* A virtual machine may report the cache of the whole host, which it shares with others. */
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

/* Tells whether to store past the cache: much traffic, in contiguous rows, not the inputs'. */
static int pays_to_bypass(const mylib_program *p, const mylib_layout *l, int64_t nbytes)
{
    int inner = l->ndim - 1;
    int64_t size = mylib_program_operand_size(p, 0);
    if (nbytes < cache_nbytes() || l->strides[0][inner] != size || l->shape[inner] * size < 4096)
        return 0;
    for (int k = 1; k < l->operands; k++)
        if (l->data[k] == l->data[0])
            return 0;
    return 1;
}

static int64_t traffic(const mylib_program *p, const mylib_layout *l)
{
    int64_t size = 0;
    for (int k = 0; k < l->operands; k++)
        size += mylib_program_operand_size(p, k);
    return l->count * size;
}

typedef struct tasks {
    const cpu_run *r;
    int64_t size; /* elements of a task */
    int bypass;
} tasks;

static void run_task(void *context, int thread, int64_t i)
{
    const tasks *t = context;
    int64_t begin = i * t->size, rest = t->r->layout->count - begin;
    run_range(t->r, thread, begin, begin + mylib_lesser(t->size, rest), t->bypass);
}

/*
 * Tells whether nobody has stored to the output: then the first store to a page clears it.  Two
 * threads in a huge page both clear all of it.
 */
static int is_untouched(const mylib_layout *l)
{
    unsigned char is_resident = 1;
    int64_t index[MYLIB_MAX_NDIM];
    char *last = l->data[0];
    mylib_layout_seek(l, l->strides, 1, l->count - 1, index, &last);
#ifdef __linux__
    (void)mincore(last - (uintptr_t)last % (uintptr_t)sysconf(_SC_PAGESIZE), 1, &is_resident);
#endif
    return !(is_resident & 1);
}

static void run_layout(const cpu_run *r)
{
    const mylib_layout *l = r->layout;
    int64_t nbytes = traffic(r->rp->program, l);
    int bypass = pays_to_bypass(r->rp->program, l, nbytes), threads = mylib_choose_threads(nbytes);
    threads = threads < r->threads ? threads : r->threads;
    if (threads <= 1) {
        run_range(r, 0, 0, l->count, bypass);
        return;
    }
    /* Multiples of 4096 elements keep two threads from storing to one cache line. */
    int64_t size = mylib_divide_up(l->count, (int64_t)threads * TASKS_PER_THREAD);
    const int64_t most = MAX_TASK_NBYTES / (nbytes / l->count);
    if (most < size && !is_untouched(l))
        size = most;
    tasks t = {r, mylib_round_up(size, 4096), bypass};
    mylib_cpu_parallel(threads, mylib_divide_up(l->count, t.size), run_task, &t);
}

/* ---- Tiles ---- */

/*
 * Operands that disagree on the innermost dimension (A + B.T) would fetch a cache line for each
 * element.  Square tiles use all of a line while it is in the cache.
 */
#define TILE 64

/* The bytes of a tile's rows.  Tiles of narrow elements are wider, as each row is a call. */
#define TILE_ROW_NBYTES 512

/*
 * Rows of few elements cost more in calls than in arithmetic.  If another dimension is long, the
 * innermost loop goes along that one, over COLUMN elements at a time.
 */
#define SHORT_ROW 6 /* elements */
#define SHORT_ROW_NBYTES 32
#define SHORT_ROW_OF_4 12 /* elements of 4 bytes */
/* Elements of functions, and if some operand lies along the other dimension. */
#define SHORT_ROW_SLOW 16
#define COLUMN 256

/* Returns a dimension other than the innermost in which some operand moves least, or -1. */
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

static int long_dimension(const mylib_program *p, const mylib_layout *l)
{
    int inner = l->ndim - 1, longest = inner;
    for (int d = 0; d < inner; d++)
        if (l->shape[d] > l->shape[longest])
            longest = d;
    const int64_t size = mylib_widest_size(p, 1);
    int64_t most = size == 4 ? SHORT_ROW_OF_4 : SHORT_ROW;
    for (int k = 1; k < l->operands; k++)
        if (l->strides[k][longest] != 0 &&
            llabs(l->strides[k][longest]) < llabs(l->strides[k][inner]))
            most = SHORT_ROW_SLOW;
    for (int i = 0; i < p->statements; i++)
        if (mylib_is_function(p->statement[i].opcode))
            most = SHORT_ROW_SLOW;
    const int is_short = l->shape[inner] <= most || l->shape[inner] * size <= SHORT_ROW_NBYTES;
    return is_short && l->shape[longest] >= COLUMN ? longest : -1;
}

static void cut_dimension(mylib_layout *l, int d, int64_t begin, int64_t size)
{
    l->count = l->count / l->shape[d] * size;
    l->shape[d] = size;
    for (int k = 0; k < l->operands; k++)
        l->data[k] += begin * l->strides[k][d];
}

static int64_t tile_width(const mylib_program *p, int64_t columns)
{
    int64_t width = TILE;
    while (2 * width <= columns && 2 * width * mylib_widest_size(p, 1) <= TILE_ROW_NBYTES)
        width *= 2;
    return width;
}

/* Turns dimension d, a multiple of `tile`, into two: the tiles at d, their elements at the end. */
static void split_dimension(mylib_layout *l, int d, int64_t tile)
{
    int last = l->ndim++;
    l->shape[last] = tile;
    l->shape[d] /= tile;
    for (int k = 0; k < l->operands; k++) {
        l->strides[k][last] = l->strides[k][d];
        l->strides[k][d] *= tile;
    }
}

/* Runs a layout in tiles of `height` elements of dimension d, and `width` of the innermost. */
static mylib_status run_tiles(const cpu_run *whole, int d, int64_t height, int64_t width)
{
    const mylib_layout *l = whole->layout;
    int inner = l->ndim - 1;
    int64_t rows = l->shape[d], columns = l->shape[inner];
    int64_t whole_rows = rows - rows % height, whole_columns = columns - columns % width;
    DECLARE_LARGE_LAYOUT(part, l->operands);
    mylib_layout_copy(&part, l);
    const cpu_run r = {whole->rp, &part, whole->memory, whole->threads};
    cut_dimension(&part, d, 0, whole_rows);
    cut_dimension(&part, inner, 0, whole_columns);
    split_dimension(&part, d, height);
    split_dimension(&part, inner, width);
    run_layout(&r);
    if (whole_columns < columns) {
        mylib_layout_copy(&part, l);
        cut_dimension(&part, inner, whole_columns, columns - whole_columns);
        run_layout(&r);
    }
    if (whole_rows < rows) {
        mylib_layout_copy(&part, l);
        cut_dimension(&part, d, whole_rows, rows - whole_rows);
        cut_dimension(&part, inner, 0, whole_columns);
        run_layout(&r);
    }
    return MYLIB_OK;
}

/* ---- Entry points ---- */

static mylib_status cpu_run_init(cpu_run *r, mylib_row_program *rp, const mylib_program *p,
                                 const mylib_layout *l, int threads)
{
    int64_t strides[MYLIB_MAX_OPERANDS];
    void *memory = NULL;
    *r = (cpu_run){rp, l, NULL, threads};
    for (int k = 0; k < l->operands; k++)
        strides[k] = l->strides[k][l->ndim - 1];
    RETURN_IF_ERROR(mylib_row_program_init(rp, p, strides));
    if (rp->memory_nbytes != 0 &&
        posix_memalign(&memory, MYLIB_LINE_NBYTES, (size_t)threads * rp->memory_nbytes) != 0) {
        mylib_row_program_free(rp);
        return mylib_fail(MYLIB_ERR_NO_MEMORY, "no memory for the %d registers of a program",
                          p->registers);
    }
    r->memory = memory;
    return MYLIB_OK;
}

static void cpu_run_free(const cpu_run *r)
{
    free(r->memory);
    mylib_row_program_free(r->rp);
}

mylib_status mylib_cpu_run(const mylib_program *p, const mylib_layout *l)
{
    int inner = l->ndim - 1, d = -1;
    int64_t nbytes = traffic(p, l);
    mylib_row_program rp;
    cpu_run r;
    if (p->statements == 1 && l->ndim == 1 && nbytes < 2 * MYLIB_THREAD_MIN_NBYTES) {
        int64_t strides[MYLIB_MAX_OPERANDS];
        for (int k = 0; k < l->operands; k++)
            strides[k] = l->strides[k][0];
        mylib_run_single_statement(p, l->count, l->data, strides);
        return MYLIB_OK;
    }
    const int is_deep = l->ndim > MYLIB_MAX_NDIM - 2; /* tiles add two dimensions */
    const int longest = is_deep ? -1 : long_dimension(p, l);
    mylib_status st = MYLIB_OK;
    DECLARE_LARGE_LAYOUT(turned, longest >= 0 ? l->operands : 0);
    if (longest >= 0) {
        mylib_layout_copy(&turned, l);
        mylib_layout_swap(&turned, longest, inner);
        l = &turned;
    }
    RETURN_IF_ERROR(cpu_run_init(&r, &rp, p, l, mylib_choose_threads(nbytes)));
    if (longest < 0 && !is_deep && l->shape[inner] >= 2 * TILE)
        d = other_fast_dimension(l);
    if (longest >= 0)
        st = run_tiles(&r, longest, l->shape[longest], COLUMN);
    else if (d >= 0)
        st = run_tiles(&r, d, TILE, tile_width(p, l->shape[inner]));
    else
        run_layout(&r);
    cpu_run_free(&r);
    return st;
}

/*
 * Tells whether one call of a kernel keeps the order.  With an output of stride 0, kernels are
 * plain loops, except those of f16 and of functions, which go block by block.
 */
static int keeps_order(const mylib_program *p, const mylib_layout *l)
{
    return l->ndim == 1 && l->strides[0][0] == 0 && p->statements == 1 &&
           p->statement[0].opcode < MYLIB_OP_COUNT && p->statement[0].type != MYLIB_F16 &&
           !mylib_is_function(p->statement[0].opcode);
}

mylib_status mylib_cpu_run_in_order(const mylib_program *p, const mylib_layout *l)
{
    mylib_row_program rp;
    cpu_run r;
    RETURN_IF_ERROR(cpu_run_init(&r, &rp, p, l, 1));
    int64_t step = keeps_order(p, l) ? l->count : 1;
    for (int64_t i = 0; i < l->count; i += step)
        run_range(&r, 0, i, i + step, 0);
    cpu_run_free(&r);
    return MYLIB_OK;
}
