/*
 * contiguous.c - makes the arguments of contiguous.cu, for single operations whose operands are
 * contiguous along rows.  Plain C.
 */
#include <string.h>

#include "cuda_internal.h"

static int is_contiguous(const mylib_layout *layout, int k, size_t size)
{
    return layout->count == 1 || layout->strides[k][layout->ndim - 1] == (int64_t)size;
}

static int is_aligned(const mylib_layout *layout, int k, size_t nbytes)
{
    return mylib_is_aligned_to(nbytes < 16 ? (int64_t)nbytes : 16, layout->data[k],
                               layout->ndim - 1, layout->strides[k]);
}

/* Returns false if the kernel cannot read the operand. */
static int set_operand(const mylib_statement *s, const mylib_layout *layout, int64_t vector,
                       int slot, int operand, mylib_contiguous_args *args)
{
    const mylib_type type = (mylib_type)s->operand[operand].type;
    const int k = 1 + s->operand[operand].index;
    size_t size = mylib_type_size((mylib_type)s->type), input_size = mylib_type_size(type);
    int is_converted = type != (mylib_type)s->type;
    if (layout->is_host_scalar[k]) {
        mylib_read_constant(s, operand, layout->data[k], args->constant[slot]);
        for (size_t at = size; at < 16; at += size)
            memcpy(args->constant[slot] + at, args->constant[slot], size);
        return 1;
    }
    if (layout->count == 1 || layout->strides[k][layout->ndim - 1] == 0) {
        args->kind[slot] =
            is_converted ? MYLIB_CONTIGUOUS_CONVERTED_SINGLE : MYLIB_CONTIGUOUS_SINGLE;
    } else {
        if (!mylib_contiguous_reads((mylib_type)s->type, type) ||
            !is_contiguous(layout, k, input_size))
            return 0;
        args->kind[slot] =
            is_converted ? MYLIB_CONTIGUOUS_CONVERTED_VECTOR : MYLIB_CONTIGUOUS_VECTOR;
        args->is_by_elements |= !is_aligned(layout, k, (size_t)vector * input_size);
    }
    args->in[slot] = layout->data[k];
    args->type[slot] = (uint8_t)type;
    args->has_conversions |= is_converted;
    args->shift[slot] = (uint8_t)__builtin_ctz((unsigned)input_size);
    args->stride[slot] = layout->ndim == 2 ? layout->strides[k][0] : 0;
    return 1;
}

int mylib_contiguous_init(mylib_contiguous_args *args, const mylib_statement *s,
                          const mylib_layout *layout)
{
    size_t size = mylib_type_size((mylib_type)s->type);
    size_t out_size = mylib_type_size((mylib_type)s->result_type);
    int64_t vector = 16 / (int64_t)size;
    const int is_choice = s->opcode == MYLIB_OPCODE_SELECT;
    if (layout->ndim > 2 || !is_contiguous(layout, 0, out_size))
        return 0;
    memset(args, 0, sizeof *args);
    args->n = layout->count;
    args->out = layout->data[0];
    args->computed_type = s->type;
    args->result_type = s->result_type;
    args->opcode = s->opcode == MYLIB_OPCODE_CONVERT ? MYLIB_OPCODE_NONE : s->opcode;
    args->kind[0] = args->kind[1] = MYLIB_CONTIGUOUS_CONSTANT;
    args->is_by_elements = !is_aligned(layout, 0, (size_t)vector * out_size);
    if (layout->ndim == 2) {
        int64_t row_vectors = layout->shape[1] / vector;
        if (layout->shape[1] % vector != 0 || layout->shape[0] * row_vectors > INT32_MAX)
            return 0;
        args->row_vectors = (int32_t)row_vectors;
        args->row_divider = mylib_divider_of((int32_t)row_vectors);
        args->out_stride = layout->strides[0][0];
    }
    if (is_choice) {
        int k = 1 + s->operand[0].index;
        if (s->operand[0].type != MYLIB_BOOL || layout->is_host_scalar[k] ||
            !is_contiguous(layout, k, 1))
            return 0;
        args->is_by_elements |= !is_aligned(layout, k, (size_t)vector);
        args->condition = layout->data[k];
        args->condition_stride = layout->ndim == 2 ? layout->strides[k][0] : 0;
    }
    for (int i = is_choice; i < s->operands; i++)
        if (!set_operand(s, layout, vector, i - is_choice, i, args))
            return 0;
    return !args->is_by_elements || (layout->ndim == 1 && size >= MYLIB_CONTIGUOUS_ELEMENT_MIN &&
                                     args->kind[0] != MYLIB_CONTIGUOUS_CONVERTED_VECTOR &&
                                     args->kind[1] != MYLIB_CONTIGUOUS_CONVERTED_VECTOR);
}
