/*
 * fused.c - turns a program and a layout into the arguments of one launch.  Plain C: runs without a
 * GPU.
 */
#include <stdlib.h>
#include <string.h>

#include "fused.h"

_Static_assert(sizeof(mylib_fused_args) <= 4096, "what every GPU takes as arguments of a launch");

#define MAX_STATEMENTS (2 * MYLIB_FUSED_MAX_STATEMENTS)
#define MAX_REGISTERS 256
#define NONE (-1)

typedef struct result {
    int16_t source[3]; /* the statement that computed the operand, if a register; else NONE */
    int16_t user;      /* the last statement that uses the result, as operand user_operand */
    uint8_t user_operand;
    uint8_t is_used, is_dropped; /* dropped: a conversion done by its user */
    uint8_t feeds_conversion;
    uint8_t place; /* its register */
    int16_t uses;
} result;

typedef struct fusion {
    const mylib_program *program;
    const mylib_layout *layout;
    mylib_fused_args *args;
    int constants, next; /* of the launch: constants, and the next statement */
    int forwarded;       /* the statement whose result is in hardware registers, or NONE */
    uint32_t free_registers;
    result results[MAX_STATEMENTS];
} fusion;

static int has_kernel(mylib_type type)
{
    switch (type) {
#define DT(s, S) case MYLIB_##S:
        MYLIB_FUSED_TYPES(DT)
#undef DT
        return 1;
    default:
        return 0;
    }
}

/* ---- Which results are used, and where ---- */

static void find_uses(fusion *f)
{
    const mylib_program *p = f->program;
    int16_t writer[MAX_REGISTERS];
    for (int i = 0; i < p->statements; i++) {
        const mylib_statement *s = &p->statement[i];
        result *r = &f->results[i];
        memset(r, 0, sizeof *r);
        for (int o = 0; o < s->operands; o++)
            r->source[o] =
                s->operand[o].kind == MYLIB_VALUE_REGISTER ? writer[s->operand[o].index] : NONE;
        if (s->target != MYLIB_TARGET_OUT)
            writer[s->target] = (int16_t)i;
    }
    f->results[p->statements - 1].is_used = 1;
    for (int i = p->statements - 1; i >= 0; i--) {
        const mylib_statement *s = &p->statement[i];
        for (int o = 0; o < s->operands && f->results[i].is_used; o++) {
            if (f->results[i].source[o] == NONE)
                continue;
            result *r = &f->results[f->results[i].source[o]];
            if (!r->is_used) { /* the loop runs backwards: this is the last use */
                r->is_used = 1;
                r->user = (int16_t)i;
                r->user_operand = (uint8_t)o;
            }
            r->uses++;
            r->feeds_conversion |= s->opcode == MYLIB_OPCODE_CONVERT;
        }
    }
}

/* ---- In one type ---- */

static int is_bool_or(uint8_t given, mylib_type type)
{
    return given == MYLIB_BOOL || given == type;
}

static int is_of_type(const mylib_statement *s, mylib_type type)
{
    mylib_value from = s->operand[0];
    if (s->opcode == MYLIB_OPCODE_SELECT)
        return is_bool_or(s->type, type);
    /* Only the program's result may have another type: a modulus is written in its real type. */
    if (s->opcode != MYLIB_OPCODE_CONVERT)
        return is_bool_or(s->type, type) && /* logic of bools works on 0 and 1 of any type */
               (is_bool_or(s->result_type, type) || s->target == MYLIB_TARGET_OUT);
    if (from.kind == MYLIB_VALUE_CONSTANT || is_bool_or(from.type, type))
        return is_bool_or(s->type, type);
    return s->type == type && from.kind == MYLIB_VALUE_INPUT;
}

/* Returns the one type in which the program computes, if it has a kernel; else NONE. */
static int computed_type(const fusion *f)
{
    const mylib_program *p = f->program;
    int type = NONE;
    for (int i = 0; i < p->statements && type == NONE; i++)
        if (f->results[i].is_used && p->statement[i].type != MYLIB_BOOL)
            type = p->statement[i].type;
    if (type == NONE || !has_kernel((mylib_type)type))
        return NONE;
    for (int i = 0; i < p->statements; i++)
        if (f->results[i].is_used && !is_of_type(&p->statement[i], (mylib_type)type))
            return NONE;
    return type;
}

static int has_functions(const fusion *f)
{
    int found = 0;
    for (int i = 0; i < f->program->statements; i++)
        found |= f->results[i].is_used && mylib_is_function(f->program->statement[i].opcode);
    return found;
}

static int is_host_scalar(const fusion *f, mylib_value v)
{
    return v.kind == MYLIB_VALUE_INPUT && f->layout->is_host_scalar[1 + v.index];
}

/*
 * Tells whether the statement that reads a conversion's result can convert instead: the operand is
 * a constant, or an input that is then not read twice, and the reader computes in the target type.
 */
static int is_droppable(const fusion *f, int i)
{
    const mylib_statement *s = &f->program->statement[i];
    const result *r = &f->results[i];
    if (s->opcode != MYLIB_OPCODE_CONVERT || r->uses == 0 || r->feeds_conversion)
        return 0;
    if (s->operand[0].kind == MYLIB_VALUE_CONSTANT || is_host_scalar(f, s->operand[0]))
        return 1;
    if (s->operand[0].kind != MYLIB_VALUE_INPUT || r->uses != 1)
        return 0;
    if (s->type == f->args->computed_type)
        return 1;
    /* Masks are tested in the computed type anyway. */
    return f->program->statement[r->user].opcode == MYLIB_OPCODE_SELECT && r->user_operand == 0;
}

/* ---- Operands ---- */

static int add_constant(fusion *f, const void *value, mylib_type from, mylib_type to)
{
    unsigned char bytes[16], converted[16];
    const mylib_type last = (mylib_type)f->args->computed_type;
    size_t size = mylib_type_size(last);
    memcpy(bytes, value, mylib_type_size(from));
    if (to != from) {
        mylib_cpu()->convert(to, from, 1, (char *)converted, 0, (const char *)bytes, 0);
        memcpy(bytes, converted, mylib_type_size(to));
    }
    if (last != to) {
        mylib_cpu()->convert(last, to, 1, (char *)converted, 0, (const char *)bytes, 0);
        memcpy(bytes, converted, size);
    }
    for (size_t at = size; at < 16; at += size)
        memcpy(bytes + at, bytes, size);
    int c = 0;
    while (c < f->constants && memcmp(f->args->constant[c], bytes, 16) != 0)
        c++;
    if (c == MYLIB_FUSED_MAX_CONSTANTS)
        return NONE;
    memcpy(f->args->constant[c], bytes, 16);
    f->constants = c == f->constants ? c + 1 : f->constants;
    return MYLIB_FUSED_CONSTANT + c;
}

static int set_operand(fusion *f, mylib_fused_statement *t, int k, int i, int o)
{
    const mylib_program *p = f->program;
    mylib_value v = p->statement[i].operand[o];
    int source = f->results[i].source[o], place;
    mylib_type to = (mylib_type)v.type;
    if (source != NONE && !f->results[source].is_dropped) {
        t->operand[k] = source == f->forwarded ? MYLIB_FUSED_FORWARDED : f->results[source].place;
        return 1;
    }
    if (source != NONE) {
        to = (mylib_type)p->statement[source].type;
        v = p->statement[source].operand[0];
    }
    if (v.kind == MYLIB_VALUE_INPUT && !is_host_scalar(f, v)) {
        const int is_direct = f->args->computed_type == v.type;
        t->operand[k] =
            (uint8_t)((is_direct ? MYLIB_FUSED_DIRECT : MYLIB_FUSED_CONVERTED) + v.index);
        return 1;
    }
    if (p->statement[i].opcode == MYLIB_OPCODE_CONVERT)
        to = (mylib_type)p->statement[i].type;
    place = add_constant(f,
                         v.kind == MYLIB_VALUE_INPUT ? (const void *)f->layout->data[1 + v.index]
                                                     : p->constant[v.index].value,
                         (mylib_type)v.type, to);
    t->operand[k] = (uint8_t)place;
    return place != NONE;
}

/* ---- Statements ---- */

static mylib_fused_statement *new_statement(fusion *f, int opcode)
{
    if (f->next == MYLIB_FUSED_MAX_STATEMENTS)
        return NULL;
    mylib_fused_statement *t = &f->args->statement[f->next++];
    t->opcode = (uint8_t)opcode;
    t->target = MYLIB_FUSED_ABSENT;
    t->operand[0] = MYLIB_FUSED_FORWARDED;
    t->operand[1] = MYLIB_FUSED_ABSENT;
    return t;
}

static void free_operands(fusion *f, int i)
{
    for (int o = 0; o < f->program->statement[i].operands; o++) {
        int source = f->results[i].source[o];
        if (source == NONE || f->results[source].user != i)
            continue;
        int place = f->results[source].place;
        if (place != MYLIB_FUSED_ABSENT && !f->results[source].is_dropped)
            f->free_registers |= 1u << (place - MYLIB_FUSED_REGISTER);
    }
}

static int add_statement(fusion *f, int i)
{
    const mylib_program *p = f->program;
    const mylib_statement *s = &p->statement[i];
    mylib_fused_statement *t;
    int first = 0, opcode = s->opcode;
    if (opcode == MYLIB_OPCODE_SELECT) {
        if ((t = new_statement(f, MYLIB_OPCODE_SET_MASK)) == NULL || !set_operand(f, t, 1, i, 0))
            return 0;
        first = 1;
    } else if (opcode == MYLIB_OPCODE_CONVERT) {
        opcode = s->type == MYLIB_BOOL ? MYLIB_OPCODE_TEST : MYLIB_OPCODE_LOAD;
    }
    if ((t = new_statement(f, opcode)) == NULL)
        return 0;
    for (int o = first; o < s->operands; o++)
        if (!set_operand(f, t, o - first, i, o))
            return 0;
    if (opcode == MYLIB_OP_multiply && t->operand[0] == t->operand[1]) { /* read it once */
        t->opcode = MYLIB_OP_square;
        t->operand[1] = MYLIB_FUSED_ABSENT;
    }
    free_operands(f, i);

    int follower = i + 1;
    while (follower < p->statements &&
           (!f->results[follower].is_used || f->results[follower].is_dropped))
        follower++;
    f->forwarded = i;
    f->results[i].place = MYLIB_FUSED_ABSENT;
    if (f->results[i].uses > 0 && f->results[i].user > follower) {
        if (f->free_registers == 0)
            return 0;
        int place = __builtin_ctz(f->free_registers);
        f->free_registers &= ~(1u << place);
        f->results[i].place = t->target = (uint8_t)(MYLIB_FUSED_REGISTER + place);
        if (place >= f->args->registers)
            f->args->registers = place + 1;
    }
    return 1;
}

/* ---- Layouts ---- */

/* Tells whether groups of operand k are contiguous, and aligned as a whole. */
static int is_vector(const mylib_fused_args *args, const mylib_layout *l, int k, int64_t size)
{
    const int inner = l->ndim - 1;
    return l->strides[k][inner] == size &&
           mylib_is_aligned_to(size * mylib_fused_group(args), l->data[k], inner, l->strides[k]);
}

static void begin_walk(mylib_fused_args *args, const mylib_layout *l)
{
    mylib_walk_begin(&args->walk, l);
    args->columns = l->shape[l->ndim - 1];
    for (int k = 0; k < l->operands; k++) {
        mylib_walk_take_strides(&args->walk, l, k, &args->row_stride[0][k], MYLIB_MAX_OPERANDS);
        args->column_stride[k] = l->strides[k][l->ndim - 1];
    }
}

/* Spaces a thread's elements; if they go down the rows, moves the longest dimension innermost. */
static void set_spaced(mylib_fused_args *args, const mylib_layout *l)
{
    mylib_walk *w = &args->walk;
    const int inner = w->row_ndim - 1;
    const int goes_down =
        mylib_walk_space(w, args->columns, mylib_fused_elements(args), args->threads);
    if (goes_down)
        mylib_walk_move_inward(w, mylib_walk_longest(w), args->row_stride[0], MYLIB_MAX_OPERANDS);
    mylib_walk_cut(w, args->columns, goes_down ? w->row_shape[inner] : w->rows, 1);
    for (int k = 0; k < l->operands; k++)
        args->step[k] = mylib_walk_step(w, 0, args->column_stride[k], args->row_stride[inner][k]);
}

/* ---- Long programs ---- */

/* Finds the inputs that are read most often, and more than once; returns how many there are. */
static int find_kept(mylib_fused_args *args)
{
    int reads[MYLIB_PROGRAM_MAX_INPUTS] = {0}, kept = 0;
    for (int i = 0; i < args->statements; i++)
        for (int o = 0; o < 2; o++)
            if (args->statement[i].operand[o] < MYLIB_FUSED_REGISTER)
                reads[args->statement[i].operand[o] - MYLIB_FUSED_DIRECT]++;
    memset(args->kept, MYLIB_FUSED_ABSENT, sizeof args->kept);
    for (; kept < MYLIB_FUSED_MAX_KEPT; kept++) {
        int most = 0;
        for (int input = 1; input < args->inputs; input++)
            most = reads[input] > reads[most] ? input : most;
        if (reads[most] < 2)
            break;
        args->kept[kept] = (uint8_t)most;
        reads[most] = 0;
    }
    return kept;
}

/* Tells whether a statement is quick if its second operand is. */
static int may_be_quick(const mylib_fused_statement *s)
{
    return (s->opcode == MYLIB_OP_add || s->opcode == MYLIB_OP_subtract ||
            s->opcode == MYLIB_OP_multiply) &&
           s->operand[0] == MYLIB_FUSED_FORWARDED && s->target == MYLIB_FUSED_ABSENT;
}

/* Rewrites the statements of a long program: those that read kept inputs, and quick ones. */
static void set_long(mylib_fused_args *args)
{
    mylib_fused_statement *s = args->statement, *next = s; /* the next one to write */
    args->begun = MYLIB_FUSED_ABSENT;
    if (s->operand[0] < MYLIB_FUSED_REGISTER) {
        args->begun = (uint8_t)(s->operand[0] - MYLIB_FUSED_DIRECT);
        s->operand[0] = MYLIB_FUSED_FORWARDED;
    }
    for (; s < args->statement + args->statements; s++) {
        for (int o = 0; o < 2; o++)
            for (int k = 0; k < MYLIB_FUSED_MAX_KEPT; k++)
                if (s->operand[o] < MYLIB_FUSED_REGISTER &&
                    s->operand[o] == MYLIB_FUSED_DIRECT + args->kept[k])
                    s->operand[o] = (uint8_t)(MYLIB_FUSED_KEPT + k);
        const int second = s->operand[1], kept = second - MYLIB_FUSED_KEPT;
        const int is_constant = second >= MYLIB_FUSED_CONSTANT && second < MYLIB_FUSED_CONVERTED;
        if (may_be_quick(s) && (is_constant || (kept >= 0 && kept < MYLIB_FUSED_MAX_KEPT))) {
            s->opcode = (uint8_t)MYLIB_FUSED_QUICK(s->opcode,
                                                   is_constant ? MYLIB_FUSED_QUICK_CONSTANT : kept);
            s->target = MYLIB_FUSED_IS_QUICK;
            if (next > args->statement && next[-1].target == MYLIB_FUSED_IS_QUICK &&
                next[-1].opcode / 4 == MYLIB_OP_multiply && s->opcode / 4 == MYLIB_OP_add) {
                next[-1].opcode |=
                    (uint8_t)(MYLIB_FUSED_QUICK_PAIR | s->opcode << MYLIB_FUSED_QUICK_SECOND);
                next[-1].operand[0] = s->operand[1];
                continue;
            }
        }
        *next++ = *s;
    }
    args->statements = (int32_t)(next - args->statement);
    args->is_chain = args->computed_type != MYLIB_C64 && args->computed_type != MYLIB_C128;
    for (s = args->statement; s < next; s++)
        args->is_chain = args->is_chain && s->target == MYLIB_FUSED_IS_QUICK;
    memset(next, 0xfe, sizeof *next); /* MYLIB_FUSED_END */
}

static int is_chain(const mylib_fused_args *args)
{
    int found = 1;
    for (int i = 0; i < args->statements; i++) {
        mylib_fused_statement s = args->statement[i];
        if (i == 0 && s.operand[0] < MYLIB_FUSED_REGISTER)
            s.operand[0] = MYLIB_FUSED_FORWARDED;
        found = found && may_be_quick(&s);
    }
    return found;
}

/* Tells whether keeping inputs pays: in long programs, and in chains that read one again. */
static int is_long(mylib_fused_args *args)
{
    const int kept = find_kept(args);
    /* A thread of a long program has 48 elements of f16: more than a mask has bits. */
    for (int i = 0; MYLIB_FUSED_LONG_GROUPS * mylib_fused_group(args) > 32 && i < args->statements;
         i++)
        if (args->statement[i].opcode == MYLIB_OPCODE_SET_MASK)
            return 0;
    return args->statements >= MYLIB_FUSED_LONG_STATEMENTS ||
           (args->statements >= MYLIB_FUSED_CHAIN_STATEMENTS && kept > 0 && is_chain(args));
}

static void set_threads(mylib_fused_args *args)
{
    args->threads = args->streamed ? MYLIB_FUSED_STREAMED_THREADS : MYLIB_FUSED_MOST_THREADS;
    while (mylib_fused_shared(args) > MYLIB_FUSED_SHARED_NBYTES && args->threads > MYLIB_CUDA_WARP)
        args->threads /= 2;
}

static mylib_fused_fit set_layout(mylib_fused_args *args, const mylib_program *p,
                                  const mylib_layout *l)
{
    if (l->ndim > MYLIB_FUSED_MAX_NDIM)
        return MYLIB_FUSED_TOO_MANY_DIMENSIONS;
    if (l->count / l->shape[l->ndim - 1] > MYLIB_FUSED_MAX_ROWS)
        return MYLIB_FUSED_TOO_MANY_ELEMENTS;
    begin_walk(args, l);
    args->is_flat = l->ndim == 1 && args->spare == 0 && !args->is_narrow;
    for (int k = 0; k < l->operands; k++) {
        if (l->is_host_scalar[k])
            continue;
        const mylib_type type = (mylib_type)(k == 0 ? p->result_type : p->input_type[k - 1]);
        args->data[k] = l->data[k];
        args->is_flat = args->is_flat && is_vector(args, l, k, (int64_t)mylib_type_size(type));
    }
    args->is_long = args->is_flat && !args->has_functions && is_long(args);
    args->is_chain = 0;
    if (args->is_long)
        set_long(args);
    set_threads(args);
    if (!args->is_flat)
        set_spaced(args, l);
    return mylib_fused_blocks(args) <= INT32_MAX ? MYLIB_FUSED_FITS : MYLIB_FUSED_TOO_MANY_ELEMENTS;
}

/* Tells whether the kernel without calls can read an input of another type. */
static int is_inline(const mylib_fused_args *args, mylib_type from)
{
    return args->computed_type == MYLIB_F64
               ? from == MYLIB_I32 || from == MYLIB_F32
               : args->computed_type == MYLIB_F32 && !args->has_functions && !args->is_reduced &&
                     mylib_narrow_size(from) > 0;
}

/* Chooses the kernel: with calls, for costly operations and most conversions, or without. */
static void set_calls(mylib_fused_args *args, int converts)
{
    int has_calls = 0;
    for (int i = 0; i < args->statements; i++) {
        const mylib_fused_statement *s = &args->statement[i];
        has_calls |= mylib_is_by_call(s->opcode, (mylib_type)args->computed_type);
        for (int o = 0; o < 2; o++) {
            const int input = s->operand[o] - MYLIB_FUSED_CONVERTED;
            if (input >= 0 && s->operand[o] < MYLIB_FUSED_ABSENT) {
                has_calls |= !is_inline(args, (mylib_type)args->input_type[input]);
                converts = 1;
            }
        }
    }
    args->spare = has_calls ? MYLIB_FUSED_SPARE_REGISTERS : 0;
    args->is_narrow = !has_calls && converts && args->computed_type == MYLIB_F32;
}

/* Tells whether the last statement narrows a result of f32, as the kernel of small types does. */
static int ends_narrow(const mylib_program *p)
{
    const mylib_statement *last = &p->statement[p->statements - 1];
    return last->opcode == MYLIB_OPCODE_CONVERT && last->type != MYLIB_BOOL &&
           mylib_narrow_size(last->type) > 0 && last->operand[0].type == MYLIB_F32 &&
           last->operand[0].kind == MYLIB_VALUE_REGISTER;
}

/* Sets what does not depend on the layout; returns false if the program does not fit. */
static int set_program(mylib_fused_args *args, const mylib_program *program,
                       const mylib_layout *layout)
{
    fusion f;
    if (program->statements > MAX_STATEMENTS || program->registers > MAX_REGISTERS)
        return 0;
    const int is_narrowed = ends_narrow(program);
    mylib_program wide = *program;
    wide.statements -= is_narrowed;
    f.program = &wide;
    f.layout = layout;
    f.args = args;
    f.constants = f.next = 0;
    f.forwarded = NONE;
    f.free_registers = ((uint32_t)1 << MYLIB_FUSED_MAX_REGISTERS) - 1;
    find_uses(&f);
    args->registers = 0;
    args->inputs = program->inputs;
    args->result_type = program->result_type;
    memcpy(args->input_type, program->input_type, sizeof args->input_type);
    const int type = computed_type(&f);
    if (type == NONE)
        return 0;
    args->computed_type = (uint8_t)type;
    args->has_functions = has_functions(&f);
    if (args->has_functions &&
        (args->is_reduced || is_narrowed || (type != MYLIB_F32 && type != MYLIB_F64)))
        return 0;
    for (int i = 0; i < wide.statements; i++)
        f.results[i].is_dropped = (uint8_t)is_droppable(&f, i);
    for (int i = 0; i < wide.statements; i++)
        if (f.results[i].is_used && !f.results[i].is_dropped && !add_statement(&f, i))
            return 0;
    args->statements = f.next;
    set_calls(args, is_narrowed);
    return !is_narrowed || args->is_narrow;
}

mylib_fused_fit mylib_fused_init(mylib_fused_args *args, const mylib_program *program,
                                 const mylib_layout *layout)
{
    args->is_reduced = args->streamed = 0;
    if (!set_program(args, program, layout))
        return MYLIB_FUSED_NOT_THE_PROGRAM;
    return set_layout(args, program, layout);
}

/* ---- Reductions ---- */

#define ENOUGH_BLOCKS 2048
#define MOST_PARTS 65535 /* the limit of a grid's second dimension */

static void set_along(mylib_fused_args *args)
{
    set_threads(args);
    args->rounds = args->walk.tile_rows = 1;
    while (mylib_fused_parts(args) > 1 &&
           args->walk.rows * mylib_fused_parts(args) > ENOUGH_BLOCKS &&
           2 * args->sets * mylib_fused_set(args) <= MYLIB_FUSED_MAX_BLOCKS)
        args->sets *= 2;
}

static void set_across(mylib_fused_args *args)
{
    args->lane_bits = mylib_log2_of(mylib_lesser(args->columns, MYLIB_BLOCK_LANES));
    args->threads = MYLIB_FUSED_MOST_THREADS;
    for (;; args->threads /= 2) {
        args->warp_bits = args->lane_bits < 5 ? 0 : mylib_log2_of(args->threads / MYLIB_CUDA_WARP);
        if (mylib_fused_shared(args) <= MYLIB_FUSED_SHARED_NBYTES ||
            args->threads == MYLIB_CUDA_WARP)
            break;
    }
    args->rounds = 1 << (args->lane_bits - args->warp_bits);
}

/* Sets a reduction of short rows: a thread block computes a whole tile. */
static int set_short(mylib_fused_args *args)
{
    const int nbytes = (int)args->columns * mylib_fused_size(args);
    const int unit = args->streamed ? mylib_fused_group(args) : 1; /* terms that are read at once */
    int32_t together = 1; /* rows: each tile begins with a unit */
    while (args->columns * together % unit != 0)
        together *= 2;
    set_threads(args);
    args->lane_bits = mylib_short_lane_bits(args->columns, MYLIB_SHORT_TERMS);
    args->gap = args->lane_bits < 5 ? mylib_short_gap(nbytes) : 0;
    args->row_factor = mylib_short_row_factor(args->gap, args->columns / unit);
    const int32_t rows =
        (int32_t)mylib_lesser(args->threads * MYLIB_FUSED_TILE / (nbytes + args->gap),
                              args->threads * mylib_fused_elements(args) / args->columns);
    args->walk.tile_rows = rows / together * together;
    args->rounds = 1;
    return args->walk.tile_rows > 0;
}

/*
 * Sets a reduction whose only input, operand k, is copied ahead; returns false if the layout does
 * not allow it, or if loads are as fast: those of longer rows, and of several inputs.
 */
static int set_streamed(mylib_fused_args *args, const mylib_layout *l, int k, int is_short)
{
    const int terms = l->ndim - 1, group = mylib_fused_group(args);
    const int64_t *strides = l->strides[k], round = MYLIB_CUDA_WARP * mylib_fused_elements(args);
    const int64_t rounds = mylib_divide_up(args->columns, round); /* of a warp for each output */
    if (terms == 0 || args->columns > MYLIB_BLOCK_TERMS || args->spare > 0 ||
        args->input_type[k - 1] != args->computed_type || strides[terms] * group != 16 ||
        !mylib_is_aligned_to(16, l->data[k], 0, strides))
        return 0;
    args->streamed = k;
    args->spare = 1;
    args->reduced_way = MYLIB_FUSED_SHORT;
    if (!is_short || 8 * args->columns >= 7 * rounds * round || !set_short(args)) {
        args->spare = 2; /* also the lanes */
        args->reduced_way = MYLIB_FUSED_ALONG;
        set_threads(args);
        args->walk.tile_rows = args->threads / MYLIB_CUDA_WARP;
        if (3 * args->columns < round || !mylib_is_aligned_to(16, l->data[k], terms, strides))
            args->streamed = args->spare = 0;
    }
    args->walk.tiles = mylib_divide_up(args->walk.rows, args->walk.tile_rows);
    args->rounds = (int32_t)mylib_lesser(MYLIB_FUSED_STREAMED_TILES,
                                         mylib_divide_up(args->walk.tiles, ENOUGH_BLOCKS));
    return args->streamed;
}

/*
 * Chooses how to reduce; returns false if the layout of the inputs does not allow it, or if writing
 * the values to memory is faster.  With few terms most of a thread's elements would be unused.
 */
static int set_way(mylib_fused_args *args, const mylib_program *program, const mylib_layout *l)
{
    const int terms = l->ndim - 1, outputs = l->ndim - 2;
    int inputs = 0, last = 0; /* the last input */
    int is_along = 1, is_across = outputs >= 0;
    int is_short = outputs == 0 && args->columns <= MYLIB_BLOCK_TERMS;
    for (int k = 1; k < l->operands; k++) {
        const int64_t size = (int64_t)mylib_type_size((mylib_type)program->input_type[k - 1]);
        const int64_t *strides = l->strides[k];
        if (l->is_host_scalar[k])
            continue;
        inputs++;
        last = k;
        is_along = is_along && llabs(strides[terms]) <= 2 * size;
        is_across = is_across && llabs(strides[outputs]) <= 2 * size;
        is_short = is_short && strides[terms] == size && strides[outputs] == args->columns * size;
    }
    args->sets = 1;
    if (inputs == 1 && set_streamed(args, l, last, is_short))
        return 1;
    args->reduced_way = MYLIB_FUSED_SHORT;
    if (is_short && set_short(args))
        return 1;
    if (outputs >= 0 && 3 * args->columns < mylib_fused_set(args) * MYLIB_BLOCK_TERMS)
        return 0;
    args->reduced_way = is_along ? MYLIB_FUSED_ALONG : MYLIB_FUSED_ACROSS;
    if (is_along)
        set_along(args);
    else if (is_across)
        set_across(args);
    return is_along || is_across;
}

int64_t mylib_fused_init_reduction(mylib_fused_args *args, const mylib_program *program,
                                   const mylib_layout *l, int kept_ndim, mylib_reduction reduction)
{
    int64_t rows = 1;
    for (int d = 0; d < kept_ndim; d++)
        rows *= l->shape[d];
    args->is_reduced = 1;
    args->streamed = 0;
    args->is_flat = args->is_long = args->is_chain = 0;
    args->reduction = (int32_t)reduction;
    if (l->ndim != kept_ndim + 1 || l->ndim > MYLIB_FUSED_MAX_NDIM || rows > INT32_MAX ||
        !set_program(args, program, l))
        return 0;
    if ((args->computed_type != MYLIB_F32 && args->computed_type != MYLIB_F64) ||
        args->result_type != args->computed_type)
        return 0;
    begin_walk(args, l);
    args->part_stride = 0;
    if (!set_way(args, program, l) || mylib_fused_shared(args) > MYLIB_FUSED_SHARED_NBYTES ||
        mylib_fused_parts(args) > MOST_PARTS)
        return 0;
    for (int k = 0; k < l->operands; k++) {
        args->data[k] = l->data[k];
        args->step[k] =
            args->column_stride[k] *
            (args->reduced_way == MYLIB_FUSED_SHORT ? args->threads : MYLIB_BLOCK_LANES);
    }
    return mylib_fused_parts(args);
}

void mylib_fused_set_partial(mylib_fused_args *args, void *partial)
{
    args->part_stride = mylib_fused_size(args);
    args->data[0] = partial;
    for (int d = args->walk.row_ndim - 1; d >= 0; d--) {
        args->row_stride[d][0] = args->part_stride;
        args->part_stride *= args->walk.row_shape[d];
    }
}
