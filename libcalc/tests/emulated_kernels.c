/*
 * emulated_kernels.c - computes on the CPU what the GPU's kernels compute: the entry points of the
 * .cu files, over the host memory that the stand-in for the CUDA runtime allocates.  Everything
 * else in src/cuda runs as with a GPU.  Launches follow their arguments, so these are tested too.
 *
 * With MYLIB_EMULATED_KERNELS the kernels of fused programs, reductions, functions and strided
 * operations themselves are compiled for the CPU (on_cpu.h).
 */
#include <stdlib.h>
#include <string.h>

#include "../src/cuda/cuda_internal.h"
#include "../src/flags.h"
#include "cuda_standin/cuda_standin.h"
#ifdef MYLIB_CUDA_FUSED
#include "../src/cuda/fused.h"
#endif

/* Begins a launch: returns its failure, and notes the flags. */
#define BEGIN_LAUNCH(flags) \
    const cudaError_t error = (cudaError_t)cuda_standin_launch(); \
    const int flags = mylib_test_flags(); \
    (void)stream; \
    if (error != cudaSuccess) \
    return error

/* A GPU raises no floating-point flags: restores them after a launch. */
static cudaError_t end_launch(int flags, mylib_status st)
{
    mylib_clear_flags();
    mylib_raise_flags(flags);
    return st == MYLIB_OK ? cudaSuccess : cudaErrorMemoryAllocation;
}

/* ---- Operations ---- */

/* Runs a statement whose operand k is operand 1 + k of the layout. */
static mylib_status execute(const mylib_statement *s, mylib_layout *layout)
{
    mylib_operation operation;
    mylib_type types[MYLIB_MOST_OPERANDS];
    mylib_status st = MYLIB_OK;
    for (int k = 0; k < s->operands; k++)
        types[k] = (mylib_type)s->operand[k].type;
    if (s->opcode == MYLIB_OPCODE_CONVERT)
        mylib_operation_of_conversion(&operation, (mylib_type)s->type, types[0]);
    else if (s->opcode == MYLIB_OPCODE_SELECT)
        mylib_operation_of_select(&operation, (mylib_type)s->type, types);
    else
        st = mylib_operation_of_op(&operation, (mylib_op)s->opcode, (mylib_type)s->type, types);
    if (st != MYLIB_OK)
        return st;
    mylib_layout_simplify(layout);
    return mylib_cpu_run(&operation.program, layout);
}

int mylib_contiguous_reads(mylib_type type, mylib_type input_type)
{
    return input_type == type || mylib_type_size(input_type) <= mylib_type_size(type);
}

/* Adds an operand of the statement and the layout; `row` and `column` are its strides. */
static void add_operand(mylib_statement *s, mylib_layout *l, int type, const void *data,
                        int64_t row, int64_t column)
{
    s->operand[s->operands++].type = (uint8_t)type;
    l->data[l->operands] = (char *)(uintptr_t)data;
    l->strides[l->operands][0] = row;
    l->strides[l->operands][1] = column;
    l->operands++;
}

cudaError_t mylib_launch_contiguous(mylib_contiguous_args *args, cudaStream_t stream)
{
    BEGIN_LAUNCH(flags);
    const int64_t vector = 16 / (int64_t)mylib_type_size((mylib_type)args->computed_type);
    const int64_t columns = args->row_vectors != 0 ? args->row_vectors * vector : args->n;
    const int is_copy = args->opcode == MYLIB_OPCODE_NONE, is_select = args->condition != NULL;
    mylib_statement s = {.opcode = is_copy ? MYLIB_OPCODE_CONVERT : args->opcode,
                         .type = args->computed_type,
                         .result_type = args->result_type};
    mylib_strides strides[1 + MYLIB_MOST_OPERANDS];
    mylib_layout l = {
        .ndim = 2, .operands = 1, .count = args->n, .data = {args->out}, .strides = strides};
    l.shape[0] = args->n / columns;
    l.shape[1] = columns;
    l.strides[0][0] = args->out_stride;
    l.strides[0][1] = (int64_t)mylib_type_size((mylib_type)args->result_type);
    if (is_select)
        add_operand(&s, &l, MYLIB_BOOL, args->condition, args->condition_stride, 1);
    int arity = is_copy ? 1 : is_select ? 2 : mylib_op_arity((mylib_op)args->opcode);
    for (int k = 0; k < arity; k++) {
        int is_vector = args->kind[k] == MYLIB_CONTIGUOUS_VECTOR ||
                        args->kind[k] == MYLIB_CONTIGUOUS_CONVERTED_VECTOR;
        if (args->kind[k] == MYLIB_CONTIGUOUS_CONSTANT)
            add_operand(&s, &l, args->computed_type, args->constant[k], 0, 0);
        else
            add_operand(&s, &l, args->type[k], args->in[k], args->stride[k],
                        is_vector ? (int64_t)1 << args->shift[k] : 0);
    }
    return end_launch(flags, execute(&s, &l));
}

#if !defined(MYLIB_EMULATED_KERNELS)
cudaError_t mylib_launch_function(const mylib_function_args *args, cudaStream_t stream)
{
    BEGIN_LAUNCH(flags);
    const ptrdiff_t size = (ptrdiff_t)mylib_type_size((mylib_type)args->type);
    const char *in[2] = {NULL, NULL};
    ptrdiff_t stride[2] = {0, 0};
    mylib_type result_type;
    mylib_status st =
        mylib_op_result_type((mylib_op)args->opcode, (mylib_type)args->type, &result_type);
    if (st != MYLIB_OK)
        return cudaErrorInvalidValue;
    for (int k = 0; k < args->inputs; k++) {
        in[k] = args->in[k] != NULL ? args->in[k] : (const char *)args->constant[k];
        stride[k] = args->in[k] != NULL && !args->is_single[k] ? size : 0;
    }
    mylib_cpu()->kernel((mylib_op)args->opcode, (mylib_type)args->type)(
        args->n, args->out, (ptrdiff_t)mylib_type_size(result_type), in[0], stride[0], in[1],
        stride[1]);
    return end_launch(flags, MYLIB_OK);
}

int mylib_tabled_blocks(void) { return 1; }

cudaError_t mylib_launch_tabled(const mylib_function_args *args, int blocks, cudaStream_t stream)
{
    BEGIN_LAUNCH(flags);
    (void)blocks;
    for (int64_t i = 0; i < args->n; i++)
        ((uint16_t *)args->out)[i] =
            ((const uint16_t *)args->in[1])[((const uint16_t *)args->in[0])[i]];
    return end_launch(flags, MYLIB_OK);
}

cudaError_t mylib_launch_strided(const mylib_strided_args *args, cudaStream_t stream)
{
    BEGIN_LAUNCH(flags);
    mylib_statement s = args->statement;
    const int64_t size = (int64_t)mylib_type_size((mylib_type)s.type);
    mylib_strides strides[MYLIB_STRIDED_OPERANDS];
    const int rows = args->walk.row_ndim; /* the columns follow */
    mylib_layout l = {.ndim = rows + 1,
                      .operands = args->operands,
                      .count =
                          args->is_flat ? args->columns : (int64_t)args->walk.rows * args->columns,
                      .strides = strides};
    for (int d = 0; d < rows; d++)
        l.shape[d] = args->walk.row_shape[d];
    l.shape[rows] = args->is_flat ? args->flat_columns : args->columns;
    for (int k = 0; k < args->operands; k++) {
        int is_constant = k > 0 && args->access[k - 1] == MYLIB_ACCESS_CONSTANT;
        l.data[k] = is_constant ? (char *)(uintptr_t)args->constant[k - 1] : args->data[k];
        if (k > 0 && args->is_reversed[k - 1])
            l.data[k] += (MYLIB_STRIDED_VECTOR(size) - 1) * llabs(args->column_stride[k]);
        if (is_constant)
            s.operand[k - 1].type = (uint8_t)mylib_read_type(&s, k - 1);
        for (int d = 0; d < rows; d++)
            l.strides[k][d] = is_constant ? 0 : args->row_stride[d][k];
        l.strides[k][rows] = is_constant ? 0 : args->column_stride[k];
    }
    return end_launch(flags, execute(&s, &l));
}
#endif

/* Computes again, and checks which flags the CPU raises. */
cudaError_t mylib_launch_flags(const mylib_flags_args *args, unsigned *flags, cudaStream_t stream)
{
    BEGIN_LAUNCH(before);
    mylib_statement s = {
        .opcode = args->opcode, .type = args->type, .result_type = args->result_type};
    mylib_strides strides[3];
    mylib_layout l = {
        .ndim = 1, .operands = 1, .count = args->n, .shape = {args->n}, .strides = strides};
    const int64_t size = (int64_t)mylib_type_size((mylib_type)s.result_type);
    char *again = malloc((size_t)(args->n * size));
    if (again == NULL)
        return cudaErrorMemoryAllocation;
    l.data[0] = again;
    l.strides[0][0] = size;
    for (int k = 0; k < args->operands; k++) {
        mylib_type type = (mylib_type)args->input_type[k];
        if (args->in[k] == NULL)
            add_operand(&s, &l, s.type, args->constant[k], 0, 0);
        else
            add_operand(&s, &l, type, args->in[k], (int64_t)mylib_type_size(type), 0);
    }
    mylib_clear_flags();
    mylib_status st = execute(&s, &l);
    int raised = mylib_test_flags();
    *flags |= (raised & FE_INVALID ? MYLIB_FLAG_INVALID : 0u) |
              (raised & FE_DIVBYZERO ? MYLIB_FLAG_DIVBYZERO : 0u) |
              (raised & FE_OVERFLOW ? MYLIB_FLAG_OVERFLOW : 0u);
    free(again);
    return end_launch(before, st);
}

cudaError_t mylib_launch_copies(const mylib_copies *copies, cudaStream_t stream)
{
    BEGIN_LAUNCH(flags);
    for (const mylib_copy_piece *p = copies->piece; p < copies->piece + copies->pieces; p++)
        for (int i = 0; i < p->count; i++) {
            const int row = i / p->columns, column = i % p->columns;
            memcpy(p->to + row * p->to_stride[0] + column * p->to_stride[1],
                   p->from + row * p->from_stride[0] + column * p->from_stride[1], (size_t)p->size);
        }
    return end_launch(flags, MYLIB_OK);
}

cudaError_t mylib_launch_arange(mylib_type type, int64_t n, char *out, int64_t stride,
                                const void *start, const void *step, cudaStream_t stream)
{
    BEGIN_LAUNCH(flags);
    mylib_cpu_arange(type, n, out, stride, start, step);
    return end_launch(flags, MYLIB_OK);
}

/* Writes words for the host. */
static void send(uint64_t *to, const void *from, size_t nbytes)
{
    for (size_t i = 0; 4 * i < nbytes; i++) {
        const size_t left = nbytes - 4 * i;
        uint32_t value = 0;
        memcpy(&value, (const char *)from + 4 * i, left < 4 ? left : 4);
        to[i] = MYLIB_MARK | value;
    }
}

/* An address that a kernel may not access is an error of the wait, not of the launch. */
cudaError_t mylib_launch_fetch(const mylib_fetch_args *args, cudaStream_t stream)
{
    cudaError_t error = (cudaError_t)cuda_standin_launch();
    (void)stream;
    if (error == cudaSuccess)
        send(args->to, args->from, (size_t)args->nbytes);
    return error == cudaErrorIllegalAddress ? cudaSuccess : error;
}

cudaError_t mylib_launch_scalar(const mylib_scalar_args *args, cudaStream_t stream)
{
    BEGIN_LAUNCH(flags);
    const mylib_device cpu = {MYLIB_CPU, 0};
    const mylib_op op = (mylib_op)args->op;
    mylib_scalar_result result = {.status = MYLIB_OK};
    union {
        int64_t i64;
        double f64[2];
    } a, b, value;
    memcpy(&a, args->a, sizeof a);
    memcpy(&b, args->b, sizeof b);
    mylib_begin_cleanup(); /* here a failure is the result, without a message */
    if (args->type == MYLIB_I64)
        result.status = (int32_t)mylib_scalar_i64(op, cpu, a.i64, b.i64, &value.i64);
    else if (args->type == MYLIB_F64)
        result.status = (int32_t)mylib_scalar_f64(op, cpu, a.f64[0], b.f64[0], value.f64);
    else
        result.status = (int32_t)mylib_scalar_c128(op, cpu, a.f64, b.f64, value.f64);
    mylib_end_cleanup();
    if (result.status == MYLIB_OK)
        memcpy(result.value, &value, mylib_type_size((mylib_type)args->type));
    send(args->result, &result, sizeof(uint32_t) * MYLIB_SCALAR_WORDS);
    return end_launch(flags, MYLIB_OK);
}

/* ---- Reductions ---- */

#ifndef MYLIB_EMULATED_KERNELS

cudaError_t mylib_reduce_max_cluster(int *blocks_ret)
{
    *blocks_ret = MYLIB_MAX_CLUSTER;
    return cudaSuccess;
}

/* Returns the first term of part p. */
static int64_t first_of_part(const mylib_reduce_args *args, int64_t p)
{
    int64_t most = args->group * MYLIB_BLOCK_TERMS;
    if (p == args->parts)
        return args->terms;
    if (args->way == MYLIB_REDUCE_INTEGERS && args->is_across)
        return p * args->group;
    if (args->way == MYLIB_REDUCE_INTEGERS) /* parts of runs */
        return p / args->parts_of_run * args->columns + p % args->parts_of_run * args->group;
    if (args->way == MYLIB_REDUCE_COLUMNS || args->way == MYLIB_REDUCE_TRANSPOSED)
        most = MYLIB_BLOCK_TERMS;
    else if (args->is_by_warp)
        most *= MYLIB_CUDA_WARPS;
    return p * most;
}

/* The terms: input 0, op of it, or the product of both, cut, widened, compared as is said. */
static mylib_status terms_of(const mylib_reduce_args *args, mylib_program **program_ret)
{
    mylib_constant mask = {.type = MYLIB_U64};
    mylib_type types[2];
    mylib_step step[8];
    const int inputs = args->inputs + args->is_truth; /* and the mask */
    memcpy(mask.value, &args->mask, sizeof args->mask);
    int steps = 0, value[2] = {0, 0};
    for (int k = 0; k < args->inputs; k++) {
        types[k] = (mylib_type)args->input_type[k];
        value[k] = k;
        if (args->narrow[k] != MYLIB_NOT_NARROWED) {
            step[steps] = (mylib_step){MYLIB_STEP_CONVERT, args->narrow[k], {value[k], 0, 0}};
            value[k] = inputs + steps++;
        }
    }
    for (int k = 0; k < args->inputs; k++) {
        step[steps] = (mylib_step){MYLIB_STEP_CONVERT, args->carrier, {value[k], 0, 0}};
        value[k] = inputs + steps++;
    }
    if (args->is_truth) {
        step[steps++] = (mylib_step){MYLIB_OP_bitwise_and, MYLIB_U64, {value[0], 1, 0}};
        step[steps] = (mylib_step){MYLIB_STEP_CONVERT, MYLIB_BOOL, {inputs + steps - 1, 0, 0}};
        steps++;
        step[steps] = (mylib_step){MYLIB_STEP_CONVERT, MYLIB_U64, {inputs + steps - 1, 0, 0}};
        steps++;
    }
    if (args->inputs == 2)
        step[steps++] = (mylib_step){MYLIB_OP_multiply, args->carrier, {value[0], value[1], 0}};
    if (args->op != 0)
        step[steps++] = (mylib_step){args->op, args->carrier, {value[0], 0, 0}};
    return mylib_program_create(args->inputs, types, args->is_truth, &mask, steps, step,
                                program_ret);
}

/* Copies the inputs so that all terms of an output are one dimension; the copies, to be freed. */
static mylib_status line_up(const mylib_reduce_args *args, mylib_layout *l, char *copies[2])
{
    mylib_status st = MYLIB_OK;
    for (int k = 0; k < args->inputs && st == MYLIB_OK; k++) {
        DECLARE_LAYOUT(copy, 2);
        mylib_operation as_is;
        mylib_type type = (mylib_type)args->input_type[k];
        if ((copies[k] = malloc((size_t)(l->count * args->input_size[k]))) == NULL)
            return MYLIB_ERR_NO_MEMORY;
        mylib_layout_begin(&copy, l, 2);
        mylib_layout_set_operand(&copy, 1, l, 1 + k);
        mylib_layout_set_contiguous(&copy, 0, copies[k], (size_t)args->input_size[k]);
        mylib_layout_set_operand(l, 1 + k, &copy, 0);
        l->strides[1 + k][args->kept_ndim] = args->input_size[k];
        mylib_layout_simplify(&copy);
        mylib_operation_of_conversion(&as_is, type, type);
        st = mylib_cpu_run(&as_is.program, &copy);
    }
    l->ndim = args->kept_ndim + 1;
    l->shape[args->kept_ndim] = args->terms;
    return st;
}

/* Combines pairwise, part 2k with part 2k + 1; keeps an odd last one. */
static mylib_status combine_parts(const mylib_reduce_args *args)
{
    static const mylib_op ops[] = {MYLIB_OP_add, MYLIB_OP_multiply, MYLIB_OP_minimum,
                                   MYLIB_OP_maximum};
    const mylib_type carrier = (mylib_type)args->carrier;
    const ptrdiff_t size = (ptrdiff_t)mylib_type_size(carrier), row = args->outputs * size;
    const int64_t group = args->group * (MYLIB_CUDA_THREADS >> args->width_bits);
    for (int64_t first = 0, g = 0; first < args->parts; first += group, g++) {
        char *part = args->partial + first * row;
        int64_t parts = args->parts - first < group ? args->parts - first : group;
        for (; parts > 1; parts = (parts + 1) / 2) {
            for (int64_t k = 0; k < parts / 2; k++)
                mylib_cpu()->kernel(ops[args->reduction], carrier)(args->outputs, part + k * row,
                                                                   size, part + 2 * k * row, size,
                                                                   part + (2 * k + 1) * row, size);
            if (parts % 2 == 1)
                memmove(part + parts / 2 * row, part + (parts - 1) * row, (size_t)row);
        }
        if (args->grid_rows > 1)
            memcpy(args->out + g * row, part, (size_t)row);
    }
    for (int64_t i = 0; i < args->outputs && args->grid_rows == 1; i++) {
        char *p = args->out;
        int64_t rest = i;
        for (int d = args->kept_ndim - 1; d >= 0; d--) {
            p += rest % args->shape[d] * args->out_strides[d];
            rest /= args->shape[d];
        }
        mylib_cpu()->convert((mylib_type)args->out_type, carrier, 1, p, 0, args->partial + i * size,
                             0);
    }
    return MYLIB_OK;
}

/* Reduces all terms, or each part to where the combining launch expects it. */
static mylib_status reduce_terms(const mylib_reduce_args *args, const mylib_program *terms)
{
    const mylib_type carrier = (mylib_type)args->carrier;
    const mylib_reduction reduction = (mylib_reduction)args->reduction;
    const int kept = args->kept_ndim;
    char *copies[2] = {NULL, NULL};
    mylib_strides strides[3] = {{0}};
    mylib_layout l = {.ndim = args->ndim, .operands = 1 + args->inputs, .strides = strides};
    mylib_status st = MYLIB_OK;
    l.count = args->outputs * args->terms;
    l.data[0] = args->out;
    memcpy(l.shape, args->shape, sizeof *l.shape * (size_t)args->ndim);
    memcpy(l.strides[0], args->out_strides, sizeof *l.shape * (size_t)kept);
    for (int k = 0; k < args->inputs; k++) {
        l.data[1 + k] = (char *)(uintptr_t)args->in[k];
        memcpy(l.strides[1 + k], args->in_strides[k], sizeof *l.shape * (size_t)args->ndim);
    }
    if (args->parts == 1 || args->cluster_bits != 0)
        return mylib_cpu_reduce(reduction, terms, carrier, &l, kept, (mylib_type)args->out_type);
    if (args->ndim > kept + 1)
        st = line_up(args, &l, copies);
    const int64_t size = (int64_t)mylib_type_size(carrier);
    for (int64_t p = 0; p < args->parts && st == MYLIB_OK; p++) {
        const int64_t n = first_of_part(args, p + 1) - first_of_part(args, p);
        l.shape[kept] = n;
        l.count = args->outputs * l.shape[kept];
        l.ndim = kept; /* outputs side by side, in C order */
        mylib_layout_set_contiguous(&l, 0, args->partial + p * args->outputs * size, (size_t)size);
        l.ndim = kept + 1;
        st = mylib_cpu_reduce(reduction, terms, carrier, &l, kept, carrier);
        for (int k = 1; k <= args->inputs; k++)
            l.data[k] += n * l.strides[k][kept];
    }
    free(copies[0]);
    free(copies[1]);
    return st;
}

/* Makes the pieces of memory, and the outputs of each, kept dimensions again. */
static void add_pieces(mylib_reduce_args *args)
{
    const mylib_reduce_tile *tile = &args->tile;
    const int kept = args->kept_ndim;
    const size_t moved = sizeof *args->shape * (size_t)(args->ndim - kept);
    memmove(&args->shape[kept + 2], &args->shape[kept], moved);
    memmove(&args->in_strides[0][kept + 2], &args->in_strides[0][kept], moved);
    args->shape[kept] = tile->pieces;
    args->shape[kept + 1] = tile->outputs;
    args->in_strides[0][kept] = tile->apart;
    args->in_strides[0][kept + 1] = tile->output_stride;
    args->out_strides[kept] = tile->out_apart;
    args->out_strides[kept + 1] = tile->out_stride;
    args->kept_ndim += 2;
    args->ndim += 2;
}

cudaError_t mylib_launch_reduce(const mylib_reduce_args *given, cudaStream_t stream)
{
    BEGIN_LAUNCH(flags);
    mylib_program *terms = NULL;
    mylib_reduce_args whole = *given, *args = &whole;
    if (args->way == MYLIB_REDUCE_SHORT || args->way == MYLIB_REDUCE_TILES)
        add_pieces(args);
    if (args->way == MYLIB_REDUCE_PARTS)
        return end_launch(flags, combine_parts(args));
    mylib_status st = terms_of(args, &terms);
    if (st == MYLIB_OK)
        st = reduce_terms(args, terms);
    mylib_program_free(terms);
    return end_launch(flags, st);
}

#endif

/* ---- Fused launches ---- */

/* Without the kernels: computes what their arguments say with the CPU's own kernels. */
#if defined(MYLIB_CUDA_FUSED) && !defined(MYLIB_EMULATED_KERNELS)

#define MOST_NBYTES 192 /* twice the bytes of a thread's elements, of 16 bytes at most */

/* A thread: its values, as elements without gaps, one after the other. */
typedef struct thread {
    const mylib_fused_args *args;
    int32_t block, number;
    _Alignas(16) char value[MYLIB_FUSED_MAX_REGISTERS][MOST_NBYTES];
} thread;

/* The address of element i of operand k, or NULL beyond the end. */
static char *element_of(const thread *t, int k, int i)
{
    const mylib_fused_args *args = t->args;
    const int most = mylib_fused_elements(args), group = mylib_fused_group(args);
    int32_t row;
    int64_t column;
    if (args->is_flat) {
        column = ((int64_t)t->block * args->threads * mylib_fused_groups(args) + t->number +
                  i / group * args->threads) *
                     group +
                 i % group;
        return column < args->columns ? args->data[k] + column * args->column_stride[k] : NULL;
    }
    const int count = mylib_fused_spaced(args, t->block, t->number, most, &row, &column);
    return i < count ? args->data[k] + mylib_fused_row(args, k, row) +
                           column * args->column_stride[k] + i * args->step[k]
                     : NULL;
}

/* The number of the input that an operand is, or -1. */
static int input_of(const mylib_fused_args *args, int operand)
{
    return operand < MYLIB_FUSED_REGISTER ? operand - MYLIB_FUSED_DIRECT
           : operand >= MYLIB_FUSED_KEPT && operand < MYLIB_FUSED_KEPT + MYLIB_FUSED_MAX_KEPT
               ? args->kept[operand - MYLIB_FUSED_KEPT]
           : operand >= MYLIB_FUSED_CONVERTED && operand < MYLIB_FUSED_ABSENT
               ? operand - MYLIB_FUSED_CONVERTED
               : -1;
}

/* All elements of an operand, as type `to`. */
static void read_fused(const thread *t, int operand, mylib_type to, const char *forwarded,
                       char *values)
{
    const mylib_fused_args *args = t->args;
    int n = mylib_fused_elements(args);
    int input = input_of(args, operand);
    const mylib_type from =
        (mylib_type)(input >= 0 ? args->input_type[input] : args->computed_type);
    ptrdiff_t size = (ptrdiff_t)mylib_type_size(to), from_size = (ptrdiff_t)mylib_type_size(from);
    for (int i = 0; i < n; i++) {
        const char *p;
        if (input >= 0)
            p = element_of(t, 1 + input, i);
        else if (operand == MYLIB_FUSED_FORWARDED)
            p = forwarded + i * from_size;
        else if (operand >= MYLIB_FUSED_CONSTANT)
            p = (const char *)args->constant[operand - MYLIB_FUSED_CONSTANT];
        else
            p = t->value[operand - MYLIB_FUSED_REGISTER] + i * from_size;
        if (p != NULL)
            mylib_cpu()->convert(to, from, 1, values + i * size, 0, p, 0);
    }
}

static void run_fused_thread(thread *t)
{
    const mylib_fused_args *args = t->args;
    int n = mylib_fused_elements(args);
    _Alignas(16) char x[MOST_NBYTES] = {0}, y[sizeof x] = {0};
    _Alignas(16) char result[sizeof x], mask[sizeof x] = {0};
    const mylib_type type = (mylib_type)args->computed_type;
    const ptrdiff_t size = (ptrdiff_t)mylib_type_size(type);
    memset(t->value, 0, sizeof t->value);
    if (args->is_long && args->begun != MYLIB_FUSED_ABSENT)
        read_fused(t, MYLIB_FUSED_DIRECT + args->begun, type, NULL, x);
    for (int i = 0; i < args->statements; i++) {
        const mylib_fused_statement *s = &args->statement[i];
        const int opcode = s->opcode;
        if (opcode == MYLIB_OPCODE_SET_MASK) {
            read_fused(t, s->operand[1], MYLIB_BOOL, x, mask);
            continue;
        }
        memset(y, 0, sizeof y);
        if (s->operand[1] != MYLIB_FUSED_ABSENT)
            read_fused(t, s->operand[1], type, x, y);
        memset(result, 0, sizeof result);
        read_fused(t, s->operand[0], type, x, result);
        memcpy(x, result, sizeof x);
        if (opcode == MYLIB_OPCODE_TEST) {
            mylib_cpu()->convert(MYLIB_BOOL, type, n, y, 1, x, size);
            mylib_cpu()->convert(type, MYLIB_BOOL, n, x, size, y, 1);
        } else if (opcode == MYLIB_OPCODE_SELECT) {
            mylib_cpu()->selection(type)(n, x, size, mask, 1, x, size, y, size);
        } else if (opcode != MYLIB_OPCODE_LOAD) {
            mylib_type own;
            (void)mylib_op_result_type((mylib_op)opcode, type, &own);
            mylib_cpu()->kernel((mylib_op)opcode, type)(n, result, (ptrdiff_t)mylib_type_size(own),
                                                        x, size, y, size);
            mylib_cpu()->convert(type, own, n, x, size, result, (ptrdiff_t)mylib_type_size(own));
        }
        if (s->target != MYLIB_FUSED_ABSENT)
            memcpy(t->value[s->target - MYLIB_FUSED_REGISTER], x, sizeof x);
    }
    for (int i = 0; i < n; i++) {
        char *p = element_of(t, 0, i);
        if (p != NULL)
            mylib_cpu()->convert((mylib_type)args->result_type, type, 1, p, 0, x + i * size, 0);
    }
}

/* Sets the statements of a launch to those of another one, as if none were quick. */
static void copy_statements(mylib_fused_args *args, const mylib_fused_args *from)
{
    const uint8_t forwarded = MYLIB_FUSED_FORWARDED, absent = MYLIB_FUSED_ABSENT;
    mylib_fused_statement *to = args->statement;
    for (int i = 0; i < from->statements; i++) {
        const mylib_fused_statement s = from->statement[i];
        const int second = s.opcode >> MYLIB_FUSED_QUICK_SECOND;
        *to++ = s;
        if (!from->is_long || s.target != MYLIB_FUSED_IS_QUICK)
            continue;
        to[-1] = (mylib_fused_statement){
            s.opcode % MYLIB_FUSED_QUICK_PAIR / 4, {forwarded, s.operand[1]}, absent};
        if (s.opcode & MYLIB_FUSED_QUICK_PAIR)
            *to++ = (mylib_fused_statement){MYLIB_OP_add,
                                            {forwarded, second == MYLIB_FUSED_QUICK_CONSTANT
                                                            ? s.operand[0]
                                                            : (uint8_t)(MYLIB_FUSED_KEPT + second)},
                                            absent};
    }
    args->statements = (int32_t)(to - args->statement);
}

static void run_fused(const mylib_fused_args *given)
{
    mylib_fused_args plain = *given, *args = &plain;
    thread t = {.args = args};
    copy_statements(args, given);
    for (int64_t b = 0; b < mylib_fused_blocks(args); b++) {
        for (int i = 0; i < args->threads; i++) {
            t.block = (int32_t)b;
            t.number = i;
            if (element_of(&t, 0, 0) != NULL)
                run_fused_thread(&t);
        }
    }
}

/* The terms of one output, to 'values'. */
static void run_terms(const mylib_fused_args *args, int64_t output, char *values)
{
    mylib_fused_args map = *args;
    const int size = (int)mylib_type_size((mylib_type)args->computed_type);
    map.is_reduced = 0;
    map.is_flat = 1;
    for (int k = 1; k <= args->inputs; k++)
        map.data[k] += mylib_fused_row(args, k, (int32_t)output);
    map.data[0] = values;
    map.column_stride[0] = size;
    run_fused(&map);
}

/* Each part of each output. */
static mylib_status reduce_fused(const mylib_fused_args *args)
{
    const mylib_type type = (mylib_type)args->computed_type;
    const int64_t size = (int64_t)mylib_type_size(type);
    const int64_t most = mylib_fused_part(args);
    mylib_strides strides[2] = {{0}, {size}};
    mylib_layout l = {.ndim = 1, .operands = 2, .strides = strides};
    mylib_operation copy;
    mylib_status st = MYLIB_OK;
    mylib_operation_of_conversion(&copy, type, type);
    char *values = malloc((size_t)(args->columns * size));
    if (values == NULL)
        st = mylib_fail(MYLIB_ERR_NO_MEMORY, "no memory for the terms of an output");
    for (int64_t output = 0; output < args->walk.rows && st == MYLIB_OK; output++) {
        run_terms(args, output, values);
        for (int64_t p = 0; p < mylib_fused_parts(args) && st == MYLIB_OK; p++) {
            l.count = l.shape[0] =
                args->columns - p * most < most ? args->columns - p * most : most;
            l.data[0] =
                args->data[0] + p * args->part_stride + mylib_fused_row(args, 0, (int32_t)output);
            l.data[1] = values + p * most * size;
            st = mylib_cpu_reduce((mylib_reduction)args->reduction, &copy.program, type, &l, 0,
                                  type);
        }
    }
    free(values);
    return st;
}

mylib_status mylib_cuda_launch_fused(const mylib_fused_args *args, void *stream)
{
    int flags = mylib_test_flags();
    mylib_status st = MYLIB_OK;
    (void)stream;
    CUDA_TRY((cudaError_t)cuda_standin_launch());
    if (args->is_reduced)
        st = reduce_fused(args);
    else
        run_fused(args);
    CUDA_TRY(end_launch(flags, st));
out:
    return st;
}

void mylib_cuda_load_fused(void) {}

#endif
