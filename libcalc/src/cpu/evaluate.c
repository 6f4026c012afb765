/*
 * evaluate.c - runs a program's statements over a row of elements.
 *
 * A row is cut into blocks, and a block goes through all statements before the next one begins, so
 * that intermediate values stay in the L1 cache.  Operands are read where they are; the last
 * statement writes to the output, or past the cache.
 */
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"

/*
 * Bytes of one block of the widest operand.  All registers together have MYLIB_REGISTERS_NBYTES at
 * most, which leaves room for a few operands' blocks in the smallest L1 in use (32 KiB).
 */
#define BLOCK_NBYTES 4096

/* Fewer elements than this cost more in calls than the cache brings. */
#define MIN_BLOCK 128

/* Past the cache a short block is better: it is copied while it is still in the store buffers. */
#define BYPASS_NBYTES 1024

/* Between registers, so that equal offsets in them do not share the low bits of an address. */
#define GAP_NBYTES MYLIB_LINE_NBYTES

/* ---- Preparing ----------------------------------------------------------------------------- */

/* Places: operands, registers, registers of uniform values, constants. */
static int register_place(const mylib_evaluator *e, int index, int is_uniform)
{
    return e->operands + index + (is_uniform ? e->program->registers : 0);
}

static int constant_place(const mylib_evaluator *e, int index)
{
    return e->operands + 2 * e->program->registers + index;
}

static void prepare_operand(const mylib_evaluator *e, mylib_call *c, int k, mylib_value v,
                            const int64_t *strides, const uint8_t *holds_one)
{
    switch (v.kind) {
    case MYLIB_VALUE_INPUT:
        c->operand[k] = (uint16_t)(1 + v.index);
        c->stride[k] = strides[1 + v.index];
        break;
    case MYLIB_VALUE_CONSTANT:
        c->operand[k] = (uint16_t)constant_place(e, v.index);
        c->stride[k] = 0;
        break;
    default:
        c->operand[k] = (uint16_t)register_place(e, v.index, holds_one[v.index]);
        c->stride[k] = holds_one[v.index] ? 0 : (int64_t)mylib_type_size((mylib_type)v.type);
    }
}

/* holds_one[r]: register r holds a uniform value at this statement. */
static void prepare_call(const mylib_evaluator *e, mylib_call *c, const mylib_statement *s,
                         const int64_t *strides, uint8_t *holds_one)
{
    int is_last = s->target == MYLIB_TARGET_OUT, is_uniform = !is_last;
    c->opcode = s->opcode;
    c->to = s->type;
    c->from = s->operand[0].type;
    c->function.kernel = NULL;
    if (s->opcode == MYLIB_OPCODE_SELECT)
        c->function.selection = e->cpu->selection((mylib_type)s->type);
    else if (s->opcode != MYLIB_OPCODE_CONVERT)
        c->function.kernel = e->cpu->kernel((mylib_op)s->opcode, (mylib_type)s->type);
    for (int k = 0; k < 3; k++) {
        /* Kernels ignore operands that the operation does not have. */
        prepare_operand(e, c, k, s->operand[k < s->operands ? k : 0], strides, holds_one);
        is_uniform &= c->stride[k] == 0;
    }
    c->is_uniform = (uint8_t)is_uniform;
    if (is_last) {
        c->target = 0;
        c->target_stride = strides[0];
    } else {
        holds_one[s->target] = (uint8_t)is_uniform;
        c->target = (uint16_t)register_place(e, s->target, is_uniform);
        c->target_stride = (int64_t)mylib_type_size((mylib_type)s->result_type);
    }
}

/* How many elements go in a block, and what memory that takes. */
static void choose_block(mylib_evaluator *e)
{
    const mylib_program *p = e->program;
    int64_t size = p->max_register_size, registers = p->registers, widest = size;
    for (int k = 0; k <= p->inputs; k++)
        if (mylib_program_operand_size(p, k) > widest)
            widest = mylib_program_operand_size(p, k);
    e->block = BLOCK_NBYTES / widest;
    if (e->block * registers * size > MYLIB_REGISTERS_NBYTES)
        e->block = MYLIB_REGISTERS_NBYTES / (registers * size);
    e->block = e->block < MIN_BLOCK ? MIN_BLOCK : e->block / 64 * 64;
    e->register_nbytes =
        (e->block * size + MYLIB_LINE_NBYTES - 1) / MYLIB_LINE_NBYTES * MYLIB_LINE_NBYTES +
        GAP_NBYTES;
    size_t nbytes = mylib_registers_nbytes(e);
    size_t room = sizeof((mylib_places *)NULL)->registers;
    if (nbytes > room || e->places > MYLIB_FEW_PLACES)
        e->memory_nbytes = (nbytes + (size_t)e->places * sizeof(char *) + MYLIB_LINE_NBYTES - 1) /
                           MYLIB_LINE_NBYTES * MYLIB_LINE_NBYTES;
}

mylib_status mylib_evaluator_init(mylib_evaluator *e, const mylib_program *p,
                                  const int64_t *strides)
{
    uint8_t few[MYLIB_FEW_PLACES], *holds_one = few;
    e->program = p;
    e->cpu = mylib_cpu();
    e->calls = e->few;
    e->operands = 1 + p->inputs;
    memcpy(e->stride, strides, (size_t)e->operands * sizeof *strides);
    e->places = e->operands + 2 * p->registers + p->constants;
    e->block = INT64_MAX;
    e->register_nbytes = 0;
    e->memory_nbytes = 0;
    if (p->registers > 0)
        choose_block(e);
    if (p->statements > MYLIB_FEW_CALLS || p->registers > MYLIB_FEW_PLACES) {
        size_t nbytes = (size_t)p->statements * sizeof *e->calls;
        e->calls = malloc(nbytes + (size_t)p->registers);
        if (e->calls == NULL)
            return mylib_fail(MYLIB_ERR_NO_MEMORY, "no memory to run a program of %d statements",
                              p->statements);
        holds_one = (uint8_t *)e->calls + nbytes;
    }
    for (int i = 0; i < p->statements; i++)
        prepare_call(e, &e->calls[i], &p->statement[i], strides, holds_one);
    return MYLIB_OK;
}

void mylib_evaluator_free(mylib_evaluator *e)
{
    if (e->calls != e->few)
        free(e->calls);
}

void mylib_places_init(mylib_places *p, const mylib_evaluator *e, char *memory)
{
    const mylib_program *program = e->program;
    char *registers = memory != NULL ? memory : p->registers;
    char *uniforms = registers + program->registers * e->register_nbytes;
    p->place = p->few;
    if (memory != NULL)
        p->place = (char **)(uniforms + (size_t)program->registers * sizeof(t_c128));
    for (int r = 0; r < program->registers; r++) {
        p->place[register_place(e, r, 0)] = registers + r * e->register_nbytes;
        p->place[register_place(e, r, 1)] = uniforms + (size_t)r * sizeof(t_c128);
    }
    for (int i = 0; i < program->constants; i++)
        p->place[constant_place(e, i)] = (char *)program->constant[i].value;
}

/* ---- Running ------------------------------------------------------------------------------- */

/* n elements after the first `done` of the operands; the result goes to `out`. */
static inline void run_call(const mylib_evaluator *e, const mylib_call *c, int64_t n, char *out,
                            char *const *place, int64_t done)
{
    const char *a = place[c->operand[0]] + done * c->stride[0];
    const char *b = place[c->operand[1]] + done * c->stride[1];
    if (c->opcode < MYLIB_OP_COUNT)
        c->function.kernel(n, out, c->target_stride, a, c->stride[0], b, c->stride[1]);
    else if (c->opcode == MYLIB_OPCODE_CONVERT)
        e->cpu->convert((mylib_type)c->to, (mylib_type)c->from, n, out, c->target_stride, a,
                        c->stride[0]);
    else
        c->function.selection(n, out, c->target_stride, a, c->stride[0], b, c->stride[1],
                              place[c->operand[2]] + done * c->stride[2], c->stride[2]);
}

/* All statements but the last, for a block of n elements; returns the last. */
static inline const mylib_call *run_block(const mylib_evaluator *e, int64_t n, char *const *place)
{
    const mylib_call *c = e->calls, *last = c + e->program->statements - 1;
    for (; c < last; c++)
        run_call(e, c, c->is_uniform ? 1 : n, place[c->target], place, 0);
    return c;
}

static inline void move_operands(const mylib_evaluator *e, int64_t n, char **place)
{
    for (int k = 0; k < e->operands; k++)
        place[k] += n * e->stride[k];
}

void mylib_evaluate(const mylib_evaluator *e, int64_t n, char **place)
{
    int64_t done = 0;
    for (; n - done > e->block; done += e->block) {
        run_call(e, run_block(e, e->block, place), e->block, place[0], place, 0);
        move_operands(e, e->block, place);
    }
    run_call(e, run_block(e, n - done, place), n - done, place[0], place, 0);
    if (done > 0)
        move_operands(e, -done, place);
}

void mylib_evaluate_past_cache(const mylib_evaluator *e, int64_t n, char **place)
{
    _Alignas(MYLIB_LINE_NBYTES) char result[BYPASS_NBYTES];
    int64_t size = e->stride[0], most = BYPASS_NBYTES / size, rest = n;
    /* Blocks end where cache lines end, so that each line is stored in one way only. */
    int64_t beyond = (int64_t)((uintptr_t)place[0] % MYLIB_LINE_NBYTES) / size;
    for (int64_t m; rest > 0; rest -= m) {
        m = e->block < rest ? e->block - beyond : rest;
        const mylib_call *last = run_block(e, m, place);
        for (int64_t done = 0, part; done < m; done += part) {
            part = most < m - done ? most - beyond : m - done;
            run_call(e, last, part, result, place, done);
            e->cpu->stream_copy(place[0] + done * size, result, (size_t)(part * size));
            beyond = 0;
        }
        move_operands(e, m, place);
    }
    move_operands(e, -n, place);
}

void mylib_evaluate_alone(const mylib_program *p, int64_t n, char *const *data,
                          const int64_t *strides)
{
    mylib_evaluator e;
    char *place[MYLIB_MAX_OPERANDS + 3]; /* a statement reads three constants at most */
    uint8_t no_registers[1] = {0};
    e.program = p;
    e.cpu = mylib_cpu();
    e.operands = 1 + p->inputs;
    for (int k = 0; k <= p->inputs; k++)
        place[k] = data[k];
    for (int i = 0; i < p->constants; i++)
        place[constant_place(&e, i)] = (char *)p->constant[i].value;
    prepare_call(&e, e.few, p->statement, strides, no_registers);
    run_call(&e, e.few, n, data[0], place, 0);
}
