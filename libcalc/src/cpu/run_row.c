/*
 * run_row.c - runs a program's statements over a row of elements.
 *
 * A row is cut into blocks, and a block goes through all statements before the next one begins, so
 * that intermediate values stay in the L1 cache.  Statements read inputs in place; the last
 * statement writes to the output, or past the cache.
 */
#include <stdlib.h>
#include <string.h>

#include "cpu/run_row.h"

/*
 * Bytes of one block of the widest operand.  All registers together have MYLIB_REGISTERS_NBYTES at
 * most, which leaves room for a few operands' blocks in the smallest L1 in use (32 KiB).
 */
#define BLOCK_NBYTES 4096

/* Fewer elements than this cost more in calls than the cache saves. */
#define MIN_BLOCK 128

/*
 * Short blocks suit stores past the cache: the processor loads the next one while it computes, and
 * a result is still in the store buffers when it is copied.  An elementary function leaves the
 * memory more time, and each of its calls costs more: its blocks are longer if operands are few.
 */
#define BYPASS_NBYTES 1024
#define ELEMENTARY_NBYTES 8192 /* of all operands */

/* The distance of prefetching, in these blocks. */
#define BLOCKS_AHEAD 2

/* Keeps equal offsets in two registers from having the same low address bits. */
#define GAP_NBYTES MYLIB_LINE_NBYTES

/* ---- Binding ---- */

/* data[] holds operands, registers, registers of uniform values, constants, in this order. */
static int register_slot(const mylib_row_program *rp, int index, int is_uniform)
{
    return rp->operands + index + (is_uniform ? rp->program->registers : 0);
}

static int constant_slot(const mylib_row_program *rp, int index)
{
    return rp->operands + 2 * rp->program->registers + index;
}

static void bind_operand(const mylib_row_program *rp, mylib_call *c, int k, mylib_value v,
                         const int64_t *strides, const uint8_t *holds_one)
{
    switch (v.kind) {
    case MYLIB_VALUE_INPUT:
        c->operand[k] = (uint16_t)(1 + v.index);
        c->stride[k] = strides[1 + v.index];
        break;
    case MYLIB_VALUE_CONSTANT:
        c->operand[k] = (uint16_t)constant_slot(rp, v.index);
        c->stride[k] = 0;
        break;
    default:
        c->operand[k] = (uint16_t)register_slot(rp, v.index, holds_one[v.index]);
        c->stride[k] = holds_one[v.index] ? 0 : (int64_t)mylib_type_size((mylib_type)v.type);
    }
}

/* Binds a statement.  holds_one[i]: register i holds a uniform value at this statement. */
static void bind_statement(const mylib_row_program *rp, mylib_call *c, const mylib_statement *s,
                           const int64_t *strides, uint8_t *holds_one)
{
    int is_last = s->target == MYLIB_TARGET_OUT, is_uniform = !is_last;
    c->opcode = s->opcode;
    c->to = s->type;
    c->from = s->operand[0].type;
    c->function.kernel = NULL;
    if (s->opcode == MYLIB_OPCODE_SELECT)
        c->function.selection = rp->cpu->selection((mylib_type)s->type);
    else if (s->opcode != MYLIB_OPCODE_CONVERT)
        c->function.kernel = rp->cpu->kernel((mylib_op)s->opcode, (mylib_type)s->type);
    for (int k = 0; k < 3; k++) {
        /* Kernels ignore operands that the operation does not have. */
        bind_operand(rp, c, k, s->operand[k < s->operands ? k : 0], strides, holds_one);
        is_uniform &= c->stride[k] == 0;
    }
    c->is_uniform = (uint8_t)is_uniform;
    if (is_last) {
        c->target = 0;
        c->target_stride = strides[0];
    } else {
        holds_one[s->target] = (uint8_t)is_uniform;
        c->target = (uint16_t)register_slot(rp, s->target, is_uniform);
        c->target_stride = (int64_t)mylib_type_size((mylib_type)s->result_type);
    }
}

int64_t mylib_widest_size(const mylib_program *p, int64_t least)
{
    int64_t widest = least;
    for (int k = 0; k <= p->inputs; k++)
        if (mylib_program_operand_size(p, k) > widest)
            widest = mylib_program_operand_size(p, k);
    return widest;
}

static void choose_block(mylib_row_program *rp)
{
    const mylib_program *p = rp->program;
    int64_t size = p->max_register_size, registers = p->registers;
    rp->block = BLOCK_NBYTES / mylib_widest_size(p, size);
    if (rp->block * registers * size > MYLIB_REGISTERS_NBYTES)
        rp->block = MYLIB_REGISTERS_NBYTES / (registers * size);
    rp->block = rp->block < MIN_BLOCK ? MIN_BLOCK : rp->block / 64 * 64;
    rp->register_nbytes = mylib_round_up(rp->block * size, MYLIB_LINE_NBYTES) + GAP_NBYTES;
    size_t nbytes = mylib_registers_nbytes(rp);
    if (nbytes > sizeof((mylib_row_data *)NULL)->registers || rp->pointers > MYLIB_FEW_POINTERS)
        rp->memory_nbytes = mylib_round_up_to_lines(nbytes + (size_t)rp->pointers * sizeof(char *));
}

mylib_status mylib_row_program_init(mylib_row_program *rp, const mylib_program *p,
                                    const int64_t *strides)
{
    uint8_t few[MYLIB_FEW_POINTERS], *holds_one = few;
    rp->program = p;
    rp->cpu = mylib_cpu();
    rp->calls = rp->few;
    rp->operands = 1 + p->inputs;
    memcpy(rp->stride, strides, (size_t)rp->operands * sizeof *strides);
    rp->pointers = rp->operands + 2 * p->registers + p->constants;
    rp->block = INT64_MAX;
    rp->register_nbytes = 0;
    rp->memory_nbytes = 0;
    if (p->registers > 0)
        choose_block(rp);
    if (p->statements > MYLIB_FEW_CALLS || p->registers > MYLIB_FEW_POINTERS) {
        size_t nbytes = (size_t)p->statements * sizeof *rp->calls;
        rp->calls = malloc(nbytes + (size_t)p->registers);
        if (rp->calls == NULL)
            return mylib_fail(MYLIB_ERR_NO_MEMORY, "no memory to run a program of %d statements",
                              p->statements);
        holds_one = (uint8_t *)rp->calls + nbytes;
    }
    for (int i = 0; i < p->statements; i++)
        bind_statement(rp, &rp->calls[i], &p->statement[i], strides, holds_one);
    return MYLIB_OK;
}

void mylib_row_program_free(const mylib_row_program *rp)
{
    if (rp->calls != rp->few)
        free(rp->calls);
}

void mylib_row_data_init(mylib_row_data *d, const mylib_row_program *rp, char *memory)
{
    const mylib_program *p = rp->program;
    char *registers = memory != NULL ? memory : d->registers;
    char *uniforms = registers + p->registers * rp->register_nbytes;
    d->data = d->few;
    if (memory != NULL)
        d->data = (char **)(uniforms + (size_t)p->registers * sizeof(t_c128));
    for (int i = 0; i < p->registers; i++) {
        d->data[register_slot(rp, i, 0)] = registers + i * rp->register_nbytes;
        d->data[register_slot(rp, i, 1)] = uniforms + (size_t)i * sizeof(t_c128);
    }
    for (int i = 0; i < p->constants; i++)
        d->data[constant_slot(rp, i)] = (char *)p->constant[i].value;
}

/* ---- Running ---- */

static inline void call_kernel(const mylib_row_program *rp, const mylib_call *c, int64_t n,
                               char *out, char *const *data, int64_t done)
{
    const char *a = data[c->operand[0]] + done * c->stride[0];
    const char *b = data[c->operand[1]] + done * c->stride[1];
    if (c->opcode < MYLIB_OP_COUNT)
        c->function.kernel(n, out, c->target_stride, a, c->stride[0], b, c->stride[1]);
    else if (c->opcode == MYLIB_OPCODE_CONVERT)
        rp->cpu->convert((mylib_type)c->to, (mylib_type)c->from, n, out, c->target_stride, a,
                         c->stride[0]);
    else
        c->function.selection(n, out, c->target_stride, a, c->stride[0], b, c->stride[1],
                              data[c->operand[2]] + done * c->stride[2], c->stride[2]);
}

/* Runs all statements but the last for a block of n elements; returns the last. */
static inline const mylib_call *run_block(const mylib_row_program *rp, int64_t n, char *const *data)
{
    const mylib_call *c = rp->calls, *last = c + rp->program->statements - 1;
    for (; c < last; c++)
        call_kernel(rp, c, c->is_uniform ? 1 : n, data[c->target], data, 0);
    return c;
}

static inline void move_operands(const mylib_row_program *rp, int64_t n, char **data)
{
    for (int k = 0; k < rp->operands; k++)
        data[k] += n * rp->stride[k];
}

void mylib_run_row(const mylib_row_program *rp, int64_t n, char **data)
{
    int64_t done = 0;
    for (; n - done > rp->block; done += rp->block) {
        call_kernel(rp, run_block(rp, rp->block, data), rp->block, data[0], data, 0);
        move_operands(rp, rp->block, data);
    }
    call_kernel(rp, run_block(rp, n - done, data), n - done, data[0], data, 0);
    if (done > 0)
        move_operands(rp, -done, data);
}

static mylib_line_loop *find_lines(const mylib_row_program *rp, const char *out)
{
    const mylib_call *c = &rp->calls[rp->program->statements - 1];
    int64_t size = rp->stride[0];
    if (c->opcode >= MYLIB_OP_COUNT || (uintptr_t)out % (uint64_t)size != 0 ||
        (c->stride[0] != size && c->stride[0] != 0) || (c->stride[1] != size && c->stride[1] != 0))
        return NULL;
    return rp->cpu->lines((mylib_op)c->opcode, (mylib_type)c->to);
}

static void run_call_in_lines(const mylib_row_program *rp, const mylib_call *c,
                              mylib_line_loop *lines, int64_t n, char *const *data)
{
    _Alignas(MYLIB_LINE_NBYTES) char repeated[2][MYLIB_LINE_NBYTES];
    int64_t size = rp->stride[0], width = MYLIB_LINE_NBYTES / size;
    int64_t before = (int64_t)(-(uintptr_t)data[0] % MYLIB_LINE_NBYTES) / size;
    int64_t head = mylib_lesser(before, n), whole = (n - head) / width;
    int64_t done = head + whole * width, stride[2];
    const char *in[2];
    for (int k = 0; k < 2; k++) {
        in[k] = data[c->operand[k]] + head * c->stride[k];
        stride[k] = c->stride[k] * width;
        if (stride[k] == 0) {
            mylib_copy_strided((size_t)size, width, repeated[k], size, in[k], 0);
            in[k] = repeated[k];
        }
    }
    if (head > 0)
        call_kernel(rp, c, head, data[0], data, 0);
    lines(whole, data[0] + head * size, in[0], stride[0], in[1], stride[1]);
    if (done < n)
        call_kernel(rp, c, n - done, data[0] + done * size, data, done);
}

static void prefetch(const mylib_row_program *rp, int64_t begin, int64_t end, char *const *data)
{
    for (int k = 1; k < rp->operands; k++) {
        int64_t stride = rp->stride[k];
        if (stride <= 0 || stride > MYLIB_LINE_NBYTES)
            continue;
        for (int64_t i = begin * stride; i < end * stride; i += MYLIB_LINE_NBYTES)
            __builtin_prefetch(data[k] + i);
    }
}

/*
 * Runs all statements but the last for a block of n elements.  Computing leaves the memory idle, so
 * each statement, including the last, prefetches its share of a later block.
 */
static const mylib_call *run_block_ahead(const mylib_row_program *rp, int64_t n, char *const *data)
{
    const mylib_call *c = rp->calls, *last = c + rp->program->statements - 1;
    int64_t at = BLOCKS_AHEAD * n, end = at + n;
    int64_t share = mylib_round_up(mylib_divide_up(n, rp->program->statements), 16);
    for (;; c++, at += share) {
        if (at < end)
            prefetch(rp, at, mylib_lesser(at + share, end), data);
        if (c == last)
            return c;
        call_kernel(rp, c, c->is_uniform ? 1 : n, data[c->target], data, 0);
    }
}

static int has_elementary_function(const mylib_program *p)
{
    for (int i = 0; i < p->statements; i++)
        if (mylib_is_elementary(p->statement[i].opcode))
            return 1;
    return 0;
}

static int64_t bypass_block(const mylib_row_program *rp)
{
    const mylib_program *p = rp->program;
    const int64_t size =
        p->statements == 1 ? rp->stride[0] : mylib_widest_size(p, p->max_register_size);
    int64_t nbytes = ELEMENTARY_NBYTES / rp->operands;
    if (nbytes < BYPASS_NBYTES || !has_elementary_function(p))
        nbytes = BYPASS_NBYTES;
    return mylib_lesser(nbytes, BLOCK_NBYTES) / size / 64 * 64;
}

void mylib_run_row_past_cache(const mylib_row_program *rp, int64_t n, char **data)
{
    _Alignas(MYLIB_LINE_NBYTES) char result[BLOCK_NBYTES];
    mylib_line_loop *lines = find_lines(rp, data[0]);
    int64_t size = rp->stride[0], rest = n;
    int is_single = rp->program->statements == 1;
    int64_t block = mylib_lesser(rp->block, bypass_block(rp));
    if (is_single && lines != NULL)
        block = n;
    /* Blocks end at the ends of cache lines, so that each line is stored in one way only. */
    int64_t beyond = (int64_t)((uintptr_t)data[0] % MYLIB_LINE_NBYTES) / size;
    for (int64_t m; rest > 0; rest -= m, beyond = 0) {
        m = block < rest ? block - beyond : rest;
        const mylib_call *last = is_single ? rp->calls : run_block_ahead(rp, m, data);
        if (lines != NULL) {
            run_call_in_lines(rp, last, lines, m, data);
        } else {
            call_kernel(rp, last, m, result, data, 0);
            rp->cpu->stream_copy(data[0], result, (size_t)(m * size));
        }
        move_operands(rp, m, data);
    }
    move_operands(rp, -n, data);
}

void mylib_run_single_statement(const mylib_program *p, int64_t n, char *const *data,
                                const int64_t *strides)
{
    mylib_row_program rp;
    char *pointers[MYLIB_MAX_OPERANDS + 3]; /* a statement reads three constants at most */
    uint8_t no_registers[1] = {0};
    rp.program = p;
    rp.cpu = mylib_cpu();
    rp.operands = 1 + p->inputs;
    for (int k = 0; k <= p->inputs; k++)
        pointers[k] = data[k];
    for (int i = 0; i < p->constants; i++)
        pointers[constant_slot(&rp, i)] = (char *)p->constant[i].value;
    bind_statement(&rp, rp.few, p->statement, strides, no_registers);
    call_kernel(&rp, rp.few, n, data[0], pointers, 0);
}
