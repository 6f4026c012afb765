/*
 * execute.c - runs a program over a layout in host memory.
 *
 * The elements are numbered in the layout's order and cut into ranges, one for each thread.  A
 * range is walked row by row, a row block by block, a block instruction by instruction:
 * intermediate and converted values stay in the L1 cache.
 */
#include <stdlib.h>
#include <unistd.h>

#include "flags.h"
#include "internal.h"

/*
 * Bytes of a block of intermediate values; with two operands as large it fits the smallest L1 in
 * use (32 KiB).  On the way past the cache a short block is better, for it is copied while it is
 * still on its way through the store buffers.
 */
#define BLOCK_NBYTES 8192
#define BYPASS_BLOCK_NBYTES 1024
#define LINE_NBYTES 64

/* A thread that is woken for less than this much traffic costs more than it brings. */
#define THREAD_MIN_NBYTES (1024 * 1024)

/* The most threads of one call, for the arrays on the stack; beyond, memory is the limit anyway. */
#define MAX_THREADS 256

/* One operand's position in a row, and how it moves. */
typedef struct cursor {
    char *data[MYLIB_MAX_OPERANDS];
    int64_t stride[MYLIB_MAX_OPERANDS];
} cursor;

/* A program and what it calls at the level in use. */
typedef struct plan {
    const mylib_code *program;
    const mylib_cpu_level *cpu;
    mylib_kernel *kernel[MYLIB_CODE_MAX_INSTRUCTIONS]; /* of the operations */
    mylib_selection *selection;
    int converts;                             /* some input */
    mylib_type read_type[MYLIB_MAX_OPERANDS]; /* to which an input is converted, if some are */
    int needs_blocks; /* for intermediate values, of more than one operation or of conversions */
} plan;

/* Whether some input is not of the type in which it is used. */
static int converts(const mylib_code *p)
{
    for (int k = 0; k < p->inputs; k++)
        if (p->input_type[k] != mylib_operand_read_type(p, 1 + k))
            return 1;
    return 0;
}

static void plan_program(plan *how, const mylib_code *p)
{
    int loads = 0;
    how->program = p;
    how->cpu = mylib_cpu();
    how->converts = converts(p);
    for (int k = 1; k <= p->inputs && how->converts; k++)
        how->read_type[k] = mylib_operand_read_type(p, k);
    for (int i = 0; i < p->instructions; i++) {
        int opcode = p->code[i].opcode;
        if (opcode < MYLIB_OP_COUNT)
            how->kernel[i] = how->cpu->kernel((mylib_op)opcode, (mylib_type)p->type);
        else if (opcode == MYLIB_OPCODE_SELECT)
            how->selection = how->cpu->selection((mylib_type)p->type);
        loads += opcode == MYLIB_OPCODE_LOAD || opcode == MYLIB_OPCODE_MASK;
    }
    how->needs_blocks = p->instructions > loads + 1 || (how->converts && p->instructions > 1);
}

/* Blocks of intermediate values: a converted mask and operand, and the accumulator. */
typedef struct scratch {
    _Alignas(LINE_NBYTES) char acc[BLOCK_NBYTES];
    _Alignas(LINE_NBYTES) char operand[BLOCK_NBYTES];
    _Alignas(LINE_NBYTES) char mask[BLOCK_NBYTES];
} scratch;

/* An operand's elements, where they are or converted into `buffer`. */
static const char *read_operand(const plan *how, int k, int64_t n, const cursor *c, char *buffer,
                                int64_t *stride_ret)
{
    mylib_type to = how->read_type[k], from = (mylib_type)how->program->input_type[k - 1];
    *stride_ret = c->stride[k];
    if (to == from)
        return c->data[k];
    if (c->stride[k] != 0)
        *stride_ret = (int64_t)mylib_type_size(to);
    how->cpu->convert(to, from, c->stride[k] != 0 ? n : 1, buffer, *stride_ret, c->data[k],
                      c->stride[k]);
    return buffer;
}

/*
 * The result of n elements at the cursor goes to `out`.  `s` is NULL for a program that needs no
 * blocks.
 */
static void run_block(const plan *how, int64_t n, const cursor *c, char *out, int64_t out_stride,
                      scratch *s)
{
    const mylib_code *p = how->program;
    const char *acc = NULL, *mask = NULL;
    int64_t acc_stride = 0, mask_stride = 0;
    if (p->instructions == 2 && !how->converts) {
        /* One operation on short arrays is worth a way without the cases below. */
        int a = 1 + p->code[0].operand, b = p->inputs == 2 ? 1 + p->code[1].operand : 0;
        how->kernel[1](n, out, out_stride, c->data[a], c->stride[a], c->data[b], c->stride[b]);
        return;
    }
    for (int i = 0; i < p->instructions; i++) {
        int opcode = p->code[i].opcode, is_last = i + 1 == p->instructions;
        int k = p->code[i].operand == MYLIB_NO_OPERAND ? 0 : 1 + p->code[i].operand;
        const char *operand = c->data[k];
        int64_t operand_stride = c->stride[k], dst_stride = out_stride;
        char *dst = out;
        if (opcode == MYLIB_OPCODE_LOAD && is_last) {
            how->cpu->convert((mylib_type)p->type, (mylib_type)p->input_type[k - 1], n, out,
                              out_stride, operand, operand_stride);
            return;
        }
        if (k > 0 && how->converts)
            operand = read_operand(how, k, n, c,
                                   opcode == MYLIB_OPCODE_LOAD   ? s->acc
                                   : opcode == MYLIB_OPCODE_MASK ? s->mask
                                                                 : s->operand,
                                   &operand_stride);
        if (opcode == MYLIB_OPCODE_LOAD) {
            acc = operand;
            acc_stride = operand_stride;
            continue;
        }
        if (opcode == MYLIB_OPCODE_MASK) {
            mask = operand;
            mask_stride = operand_stride;
            continue;
        }
        if (!is_last) {
            dst = s->acc;
            dst_stride = (int64_t)mylib_type_size((mylib_type)p->type);
        }
        if (opcode == MYLIB_OPCODE_SELECT)
            how->selection(n, dst, dst_stride, mask, mask_stride, acc, acc_stride, operand,
                           operand_stride);
        else
            how->kernel[i](n, dst, dst_stride, acc, acc_stride, operand, operand_stride);
        acc = dst;
        acc_stride = dst_stride;
    }
}

/* n elements of one row, block by block; `bypass`: the output goes past the cache. */
static void run_blocks(const plan *how, int64_t n, cursor c, int bypass)
{
    const mylib_code *p = how->program;
    _Alignas(LINE_NBYTES) char result[BLOCK_NBYTES];
    scratch s;
    int64_t size = (int64_t)mylib_type_size((mylib_type)p->type), out_size = c.stride[0];
    int64_t most = BLOCK_NBYTES / size;
    if (bypass && BYPASS_BLOCK_NBYTES / out_size < most)
        most = BYPASS_BLOCK_NBYTES / out_size;
    int64_t m = most;
    if (bypass) {
        /* Blocks end where cache lines end, so that each line is stored in one way only. */
        int64_t beyond =
            (int64_t)(((uintptr_t)c.data[0] + (uintptr_t)(m * out_size)) % LINE_NBYTES);
        m -= beyond / out_size;
    }
    while (n > 0) {
        m = n < m ? n : m;
        if (bypass) {
            run_block(how, m, &c, result, out_size, &s);
            how->cpu->stream_copy(c.data[0], result, (size_t)(m * out_size));
        } else {
            run_block(how, m, &c, c.data[0], out_size, &s);
        }
        for (int k = 0; k <= p->inputs; k++)
            c.data[k] += m * c.stride[k];
        n -= m;
        m = most;
    }
}

/* Elements [begin, end) in the layout's order. */
static void run_range(const mylib_code *p, const mylib_layout *l, int64_t begin, int64_t end,
                      int bypass)
{
    plan how;
    int inner = l->ndim - 1;
    int64_t index[MYLIB_MAX_NDIM], rest = begin;
    cursor c = {{NULL}, {0}};

    plan_program(&how, p);
    for (int k = 0; k < l->operands; k++) {
        c.data[k] = l->data[k];
        c.stride[k] = l->strides[k][inner];
    }
    for (int d = inner; d >= 0; d--) {
        index[d] = rest % l->shape[d];
        rest /= l->shape[d];
        for (int k = 0; k < l->operands; k++)
            c.data[k] += index[d] * l->strides[k][d];
    }
    while (begin < end) {
        int64_t n = l->shape[inner] - index[inner];
        n = n < end - begin ? n : end - begin;
        if (bypass || how.needs_blocks)
            run_blocks(&how, n, c, bypass);
        else
            run_block(&how, n, &c, c.data[0], c.stride[0], NULL);
        begin += n;
        if (begin == end)
            break;
        /* To the start of the next row. */
        for (int k = 0; k < l->operands; k++)
            c.data[k] -= index[inner] * l->strides[k][inner];
        index[inner] = 0;
        for (int d = inner - 1; d >= 0; d--) {
            int wraps = ++index[d] == l->shape[d];
            for (int k = 0; k < l->operands; k++)
                c.data[k] += l->strides[k][d] * (wraps ? 1 - l->shape[d] : 1);
            if (!wraps)
                break;
            index[d] = 0;
        }
    }
    if (bypass)
        how.cpu->stream_fence();
}

/*
 * The size beyond which the last-level cache does not help a second pass over the operands.  A
 * virtual machine may report the cache of the whole host, most of which is others'.
 */
#define MOST_CACHE_NBYTES (32 * 1024 * 1024)

static int64_t cache_nbytes(void)
{
    static int64_t known; /* every thread writes the same value */
    if (known == 0) {
        long size = -1;
#ifdef _SC_LEVEL3_CACHE_SIZE
        size = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
        known = size > 0 && size < MOST_CACHE_NBYTES ? size : MOST_CACHE_NBYTES;
    }
    return known;
}

/*
 * Whether to store past the cache: a large, contiguous output that is no input, and a good part of
 * the traffic.
 */
static int pays_to_bypass(const mylib_code *p, const mylib_layout *l, int64_t nbytes)
{
    int inner = l->ndim - 1;
    int64_t size = (int64_t)mylib_operand_size(p, 0);
    if (nbytes < cache_nbytes() || l->strides[0][inner] != size || l->shape[inner] * size < 4096 ||
        l->count * size < nbytes / 5)
        return 0;
    for (int k = 1; k < l->operands; k++)
        if (l->data[k] == l->data[0])
            return 0;
    return 1;
}

/* All elements, on as many threads as pay. */
static void run_layout(const mylib_code *p, const mylib_layout *l)
{
    int64_t nbytes = 0;
    for (int k = 0; k < l->operands; k++)
        nbytes += l->count * (int64_t)mylib_operand_size(p, k);
    if (nbytes < 2 * THREAD_MIN_NBYTES) {
        run_range(p, l, 0, l->count, 0);
        return;
    }
    int bypass = pays_to_bypass(p, l, nbytes);
    int threads = mylib_cpu_threads();
    threads = threads < MAX_THREADS ? threads : MAX_THREADS;
    if (threads > nbytes / THREAD_MIN_NBYTES)
        threads = (int)(nbytes / THREAD_MIN_NBYTES);
    if (threads <= 1) {
        run_range(p, l, 0, l->count, bypass);
        return;
    }
#ifdef _OPENMP
    /*
     * Multiples of 4096 elements, so that no two threads store to one cache line of a contiguous
     * output.
     */
    int64_t share = ((l->count + threads - 1) / threads + 4095) / 4096 * 4096;
    int flags = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(| : flags)
    for (int t = 0; t < threads; t++) {
        int64_t begin = t * share, end = begin + share < l->count ? begin + share : l->count;
        /* Flags are the thread's own: a worker hands them over, the caller raises them. */
        int before = mylib_test_flags();
        mylib_clear_flags();
        if (begin < end)
            run_range(p, l, begin, end, bypass);
        flags |= mylib_test_flags();
        mylib_clear_flags();
        mylib_raise_flags(before);
    }
    mylib_raise_flags(flags);
#endif
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

void mylib_cpu_execute(const mylib_code *p, const mylib_layout *l)
{
    int inner = l->ndim - 1, d = -1;
    if (l->ndim > 1 && l->ndim <= MYLIB_MAX_NDIM - 2 && l->shape[inner] >= 2 * TILE)
        d = other_fast_dimension(l);
    if (d < 0) {
        run_layout(p, l);
        return;
    }
    int64_t rows = l->shape[d], columns = l->shape[inner];
    int64_t whole_rows = rows - rows % TILE, whole_columns = columns - columns % TILE;
    mylib_layout part = *l;
    take_part(&part, d, 0, whole_rows);
    take_part(&part, inner, 0, whole_columns);
    split_dimension(&part, d);
    split_dimension(&part, inner);
    run_layout(p, &part);
    if (whole_columns < columns) {
        part = *l;
        take_part(&part, inner, whole_columns, columns - whole_columns);
        run_layout(p, &part);
    }
    if (whole_rows < rows) {
        part = *l;
        take_part(&part, d, whole_rows, rows - whole_rows);
        take_part(&part, inner, 0, whole_columns);
        run_layout(p, &part);
    }
}

void mylib_cpu_execute_in_order(const mylib_code *p, const mylib_layout *l)
{
    /* Kernels with an output stride of 0 are plain loops, and keep the order by themselves. */
    if (l->ndim == 1 && l->strides[0][0] == 0 && p->instructions <= 2 && p->type != MYLIB_F16 &&
        !converts(p)) {
        run_range(p, l, 0, l->count, 0);
        return;
    }
    for (int64_t i = 0; i < l->count; i++)
        run_range(p, l, i, i + 1, 0);
}
