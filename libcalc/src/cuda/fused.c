/*
 * fused.c - turns a program and a layout into the arguments of one launch.  Plain C: runs without a
 * GPU.
 */
#include <string.h>

#include "fused.h"

_Static_assert(sizeof(mylib_fused_args) <= 4096, "what every GPU takes as arguments of a launch");

/* Programs of more statements or registers are refused at once: they would not fit. */
#define MAX_STATEMENTS (2 * MYLIB_FUSED_MAX_STATEMENTS)
#define MAX_REGISTERS 256
#define NONE (-1)

/* The result of a statement, and who uses it. */
typedef struct result {
    int16_t source[3]; /* the statement that made the operand, a register's; or NONE */
    int16_t user;      /* the last statement that uses it, and which of its operands it is */
    uint8_t user_operand;
    uint8_t is_used, is_dropped; /* dropped: a conversion that is left to its user */
    uint8_t feeds_conversion;
    uint8_t place; /* the register that has it */
    int16_t uses;
} result;

typedef struct fusion {
    const mylib_program *program;
    const mylib_layout *layout;
    mylib_fused_args *args;
    int constants, next; /* of the launch: constants, and the next statement */
    int forwarded;       /* the statement whose result is in the hardware registers, or NONE */
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

/* ---- Which results are used, and where ----------------------------------------------------- */

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
            if (!r->is_used) { /* from the end: this is the last use */
                r->is_used = 1;
                r->user = (int16_t)i;
                r->user_operand = (uint8_t)o;
            }
            r->uses++;
            r->feeds_conversion |= s->opcode == MYLIB_OPCODE_CONVERT;
        }
    }
}

/* ---- In one type, or mixed ----------------------------------------------------------------- */

static int is_bool_or(uint8_t given, mylib_type type)
{
    return given == MYLIB_BOOL || given == type;
}

/* Tells whether a kernel that computes in `type` alone can do a statement. */
static int is_of_type(const mylib_statement *s, mylib_type type)
{
    mylib_value from = s->operand[0];
    if (s->opcode == MYLIB_OPCODE_SELECT)
        return is_bool_or(s->type, type);
    /* A modulus is the real part of a complex number; as a result of the whole it is written so. */
    if (s->opcode != MYLIB_OPCODE_CONVERT)
        return is_bool_or(s->type, type) && /* logic of bools is that of 0 and 1 of any type */
               (is_bool_or(s->result_type, type) || s->target == MYLIB_TARGET_OUT);
    if (from.kind == MYLIB_VALUE_CONSTANT || is_bool_or(from.type, type))
        return is_bool_or(s->type, type);
    return s->type == type && from.kind == MYLIB_VALUE_INPUT;
}

/* Returns the one type in which the program computes, if that has a kernel, or MIXED. */
static uint8_t computed_type(const fusion *f)
{
    const mylib_program *p = f->program;
    int type = MYLIB_FUSED_MIXED;
    for (int i = 0; i < p->statements && type == MYLIB_FUSED_MIXED; i++)
        if (f->results[i].is_used && p->statement[i].type != MYLIB_BOOL)
            type = p->statement[i].type;
    if (type == MYLIB_FUSED_MIXED || !has_kernel((mylib_type)type))
        return MYLIB_FUSED_MIXED;
    for (int i = 0; i < p->statements; i++)
        if (f->results[i].is_used && !is_of_type(&p->statement[i], (mylib_type)type))
            return MYLIB_FUSED_MIXED;
    return (uint8_t)type;
}

/* Tells whether the mixed kernel has the types of all used statements. */
static int is_narrow(const fusion *f)
{
    const mylib_program *p = f->program;
    for (int i = 0; i < p->statements; i++) {
        const mylib_statement *s = &p->statement[i];
        int is_wide = mylib_type_size((mylib_type)s->type) > 8;
        for (int o = 0; o < s->operands; o++)
            is_wide |= mylib_type_size((mylib_type)s->operand[o].type) > 8;
        if (f->results[i].is_used && is_wide)
            return 0;
    }
    return 1;
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
 * Tells whether a conversion is left to the statement that reads its result: it converts a
 * constant, or an input that is not read a second time for that, and the reader reads in its type.
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
    if (f->args->computed_type == MYLIB_FUSED_MIXED || s->type == f->args->computed_type)
        return 1;
    /* A bool of an input that is read in the computed type: a mask is tested anyway. */
    return f->program->statement[r->user].opcode == MYLIB_OPCODE_SELECT && r->user_operand == 0;
}

/* ---- Operands ------------------------------------------------------------------------------ */

/* Adds a constant to the launch: an element of type `from`, converted to `to`. */
static int add_constant(fusion *f, const void *value, mylib_type from, mylib_type to)
{
    unsigned char bytes[16], converted[16];
    mylib_type last =
        f->args->computed_type == MYLIB_FUSED_MIXED ? to : (mylib_type)f->args->computed_type;
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

/*
 * Sets operand k of the launch's statement t to operand o of statement i; false if it does not fit.
 */
static int set_operand(fusion *f, mylib_fused_statement *t, int k, int i, int o)
{
    const mylib_program *p = f->program;
    mylib_value v = p->statement[i].operand[o];
    int source = f->results[i].source[o], place;
    mylib_type to = (mylib_type)v.type;
    if (source != NONE && !f->results[source].is_dropped) {
        t->operand[k] = source == f->forwarded ? MYLIB_FUSED_FORWARDED : f->results[source].place;
        t->operand_type[k] = v.type;
        return 1;
    }
    if (source != NONE) {
        to = (mylib_type)p->statement[source].type;
        v = p->statement[source].operand[0];
    }
    if (v.kind == MYLIB_VALUE_INPUT && !is_host_scalar(f, v)) {
        const int is_direct =
            f->args->computed_type == MYLIB_FUSED_MIXED || f->args->computed_type == v.type;
        t->operand[k] =
            (uint8_t)((is_direct ? MYLIB_FUSED_DIRECT : MYLIB_FUSED_CONVERTED) + v.index);
        t->operand_type[k] = v.type;
        return 1;
    }
    /* A conversion of it is done here. */
    if (p->statement[i].opcode == MYLIB_OPCODE_CONVERT)
        to = (mylib_type)p->statement[i].type;
    place = add_constant(f,
                         v.kind == MYLIB_VALUE_INPUT ? (const void *)f->layout->data[1 + v.index]
                                                     : p->constant[v.index].value,
                         (mylib_type)v.type, to);
    t->operand[k] = (uint8_t)place;
    t->operand_type[k] = (uint8_t)to;
    return place != NONE;
}

/* ---- Statements ---------------------------------------------------------------------------- */

static mylib_fused_statement *new_statement(fusion *f, int opcode, const mylib_statement *s)
{
    if (f->next == MYLIB_FUSED_MAX_STATEMENTS)
        return NULL;
    mylib_fused_statement *t = &f->args->statement[f->next++];
    t->opcode = (uint8_t)opcode;
    t->type = s->type;
    t->result_type = s->result_type;
    t->target = MYLIB_FUSED_ABSENT;
    t->operand[0] = MYLIB_FUSED_FORWARDED;
    t->operand[1] = MYLIB_FUSED_ABSENT;
    t->operand_type[0] = t->operand_type[1] = s->type;
    return t;
}

/* Frees the registers whose last use is statement i. */
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

/* Adds statement i; returns false if it does not fit. */
static int add_statement(fusion *f, int i)
{
    const mylib_program *p = f->program;
    const mylib_statement *s = &p->statement[i];
    mylib_fused_statement *t;
    int first = 0, opcode = s->opcode;
    if (opcode == MYLIB_OPCODE_SELECT) {
        if ((t = new_statement(f, MYLIB_OPCODE_SET_MASK, s)) == NULL || !set_operand(f, t, 1, i, 0))
            return 0;
        first = 1;
    } else if (opcode == MYLIB_OPCODE_CONVERT) {
        int tests = f->args->computed_type != MYLIB_FUSED_MIXED && s->type == MYLIB_BOOL;
        opcode = tests ? MYLIB_OPCODE_TEST : MYLIB_OPCODE_LOAD;
    }
    if ((t = new_statement(f, opcode, s)) == NULL)
        return 0;
    for (int o = first; o < s->operands; o++)
        if (!set_operand(f, t, o - first, i, o))
            return 0;
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

/* ---- Layouts ------------------------------------------------------------------------------- */

/* Tells whether groups of operand k are contiguous, and aligned as a whole. */
static int is_vector(const mylib_fused_args *args, const mylib_layout *l, int k, size_t size)
{
    const size_t group_nbytes = size * (size_t)mylib_fused_group(args);
    const int inner = l->ndim - 1;
    uintptr_t bits = (uintptr_t)l->data[k];
    for (int d = 0; d < inner; d++)
        bits |= (uintptr_t)l->strides[k][d];
    return l->strides[k][inner] == (int64_t)size && bits % group_nbytes == 0;
}

/*
 * Lays a thread's elements at equal distances: along a row, or where rows are short, one below the
 * other in the longest dimension of the rows.
 */
static void set_spaced(mylib_fused_args *args, const mylib_layout *l, int elements)
{
    const int last = l->ndim - 2; /* of the rows */
    const int goes_down = last >= 0 && args->columns < (int64_t)MYLIB_CUDA_WARP * elements;
    int first = last; /* the innermost of them in the launch */
    for (int d = 0; d < last && goes_down; d++)
        first = l->shape[d] > l->shape[first] ? d : first;
    for (int i = 0; i <= last; i++) { /* the others keep their order */
        const int other = last + 1 - i, d = i == 0 ? first : other <= first ? other - 1 : other;
        args->row_shape[i] = (int32_t)l->shape[d];
        args->row_divider[i] = mylib_divider_of(args->row_shape[i]);
        for (int k = 0; k < l->operands; k++)
            args->row_stride[i][k] = l->strides[k][d];
    }

    const int64_t units = goes_down ? args->columns : mylib_divide_up(args->columns, elements);
    int32_t across = args->threads;
    if (last >= 0)
        across = mylib_threads_across((int32_t)mylib_lesser(units, INT32_MAX), args->rows,
                                      args->threads);
    const int32_t down = args->threads / across;
    args->across = across;
    args->column_step = goes_down ? 0 : across;
    args->row_step = goes_down ? down : 0;
    for (int k = 0; k < l->operands; k++)
        args->step[k] = goes_down ? down * args->row_stride[0][k] : across * args->column_stride[k];
    args->tile_columns = goes_down ? across : across * elements;
    args->tile_rows = goes_down ? down * elements : down;
    args->slice_rows = goes_down ? args->row_shape[0] : args->rows;
    args->slice_tiles = (int32_t)mylib_divide_up(args->slice_rows, args->tile_rows);
    const int64_t tiles_across = mylib_divide_up(args->columns, args->tile_columns);
    args->tiles = args->rows / args->slice_rows * args->slice_tiles * tiles_across;
    args->tiles_across = (int32_t)tiles_across;
    args->across_divider = mylib_divider_of(across);
    args->tiles_across_divider = mylib_divider_of(args->tiles_across);
    args->slice_tiles_divider = mylib_divider_of(args->slice_tiles);
}

/* Sets the threads of a thread block: as many as there is shared memory for. */
static void set_threads(mylib_fused_args *args)
{
    args->threads = MYLIB_FUSED_MOST_THREADS;
    while (mylib_fused_shared(args) > MYLIB_FUSED_SHARED_NBYTES)
        args->threads /= 2;
}

static mylib_fused_fit set_layout(mylib_fused_args *args, const mylib_program *p,
                                  const mylib_layout *l)
{
    if (l->ndim > MYLIB_FUSED_MAX_NDIM)
        return MYLIB_FUSED_TOO_MANY_DIMENSIONS;
    args->ndim = l->ndim;
    args->columns = l->shape[l->ndim - 1];
    if (l->count / args->columns > MYLIB_FUSED_MAX_ROWS)
        return MYLIB_FUSED_TOO_MANY_ELEMENTS;
    args->rows = (int32_t)(l->count / args->columns);
    args->is_flat = l->ndim == 1 && args->spare == 0; /* the mixed kernel has spare registers */
    for (int k = 0; k < l->operands; k++) {
        args->column_stride[k] = l->strides[k][l->ndim - 1];
        if (l->is_host_scalar[k])
            continue;
        size_t size = mylib_type_size((mylib_type)(k == 0 ? p->result_type : p->input_type[k - 1]));
        args->data[k] = l->data[k];
        args->is_flat = args->is_flat && is_vector(args, l, k, size);
    }
    set_threads(args);
    if (!args->is_flat)
        set_spaced(args, l, mylib_fused_elements(args));
    return mylib_fused_blocks(args) <= INT32_MAX ? MYLIB_FUSED_FITS : MYLIB_FUSED_TOO_MANY_ELEMENTS;
}

/* Tells whether the kernel without calls can read an input of another type. */
static int is_inline(mylib_type computed, mylib_type from)
{
    return computed == MYLIB_F64 && (from == MYLIB_I32 || from == MYLIB_F32);
}

/* Tells whether a launch has calls: functions, what takes as long, and most conversions. */
static int has_calls(const mylib_fused_args *args)
{
    const mylib_type computed = (mylib_type)args->computed_type;
    int found = args->computed_type == MYLIB_FUSED_MIXED;
    for (int i = 0; i < args->statements; i++) {
        const mylib_fused_statement *s = &args->statement[i];
        found |= mylib_is_function(s->opcode) || mylib_is_by_call(s->opcode, computed);
        for (int o = 0; o < 2; o++) {
            const int input = s->operand[o] - MYLIB_FUSED_CONVERTED;
            if (input >= 0 && s->operand[o] < MYLIB_FUSED_ABSENT)
                found |=
                    args->is_reduced || !is_inline(computed, (mylib_type)args->input_type[input]);
        }
    }
    return found;
}

/* Sets everything that does not depend on the layout; returns false if the program does not fit. */
static int set_program(mylib_fused_args *args, const mylib_program *program,
                       const mylib_layout *layout)
{
    fusion f;
    if (program->statements > MAX_STATEMENTS || program->registers > MAX_REGISTERS)
        return 0;
    f.program = program;
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
    args->computed_type = computed_type(&f);
    if (args->computed_type == MYLIB_FUSED_MIXED && !is_narrow(&f))
        return 0;
    if (has_functions(&f) && (args->is_reduced || (args->computed_type != MYLIB_F32 &&
                                                   args->computed_type != MYLIB_F64)))
        return 0;
    for (int i = 0; i < program->statements; i++)
        f.results[i].is_dropped = (uint8_t)is_droppable(&f, i);
    for (int i = 0; i < program->statements; i++)
        if (f.results[i].is_used && !f.results[i].is_dropped && !add_statement(&f, i))
            return 0;
    args->statements = f.next;
    args->spare = has_calls(args) ? MYLIB_FUSED_SPARE_REGISTERS : 0;
    return 1;
}

mylib_fused_fit mylib_fused_init(mylib_fused_args *args, const mylib_program *program,
                                 const mylib_layout *layout)
{
    args->is_reduced = 0;
    if (!set_program(args, program, layout))
        return MYLIB_FUSED_TOO_LONG;
    return set_layout(args, program, layout);
}

/* ---- Reductions ---------------------------------------------------------------------------- */

/* Enough thread blocks to fill the largest GPU. */
#define ENOUGH_BLOCKS 8192
#define MOST_PARTS 65535 /* the second dimension of a grid */

int64_t mylib_fused_init_reduction(mylib_fused_args *args, const mylib_program *program,
                                   const mylib_layout *l, int kept_ndim, mylib_reduction reduction)
{
    const int inner = l->ndim - 1;
    args->is_reduced = 1;
    args->is_flat = 0;
    args->reduction = (int32_t)reduction;
    if (inner != kept_ndim || kept_ndim > 1 || !set_program(args, program, l))
        return 0;
    set_threads(args);
    if ((args->computed_type != MYLIB_F32 && args->computed_type != MYLIB_F64) ||
        args->result_type != args->computed_type || mylib_fused_set(args) == 0)
        return 0;
    int64_t rows = kept_ndim == 1 ? l->shape[0] : 1;
    args->ndim = l->ndim;
    args->columns = l->shape[inner];
    /* In shorter rows some threads would have no lanes. */
    if (rows > 1 && args->columns < mylib_fused_set(args) * MYLIB_BLOCK_TERMS)
        return 0;
    for (int k = 1; k < l->operands; k++) {
        size_t size = mylib_type_size((mylib_type)program->input_type[k - 1]);
        if (l->is_host_scalar[k])
            continue;
        if (!is_vector(args, l, k, size))
            return 0;
        args->data[k] = l->data[k];
        args->column_stride[k] = l->strides[k][inner];
        args->row_stride[0][k] = kept_ndim == 1 ? l->strides[k][0] : 0;
    }

    args->sets = 1;
    while (mylib_fused_parts(args) > 1 && rows * mylib_fused_parts(args) > ENOUGH_BLOCKS &&
           2 * args->sets * mylib_fused_set(args) <= MYLIB_FUSED_MAX_BLOCKS)
        args->sets *= 2;
    if (rows > INT32_MAX || mylib_fused_parts(args) > MOST_PARTS)
        return 0;
    args->rows = (int32_t)rows;
    return mylib_fused_parts(args);
}
