/*
 * contiguous.c - the arguments of contiguous.cu: single operations whose operands are contiguous
 * along rows.  Plain C.
 */
#include <string.h>

#include "cuda_internal.h"

/* Tells whether operand k is contiguous along the columns; a single element is. */
static int is_contiguous(const mylib_layout *layout, int k, size_t size)
{
    return layout->count == 1 || layout->strides[k][layout->ndim - 1] == (int64_t)size;
}

/* Tells whether its vectors, of `nbytes` each, are aligned. */
static int is_aligned(const mylib_layout *layout, int k, size_t nbytes)
{
    uintptr_t bits = (uintptr_t)layout->data[k];
    if (layout->ndim == 2)
        bits |= (uintptr_t)layout->strides[k][0];
    return bits % (nbytes < 16 ? nbytes : 16) == 0;
}

/* Makes input `k` operand `slot` of the operation; returns false if the kernel cannot read it. */
static int set_input(const mylib_code *p, const mylib_layout *layout, int64_t vector, int slot,
                     int k, mylib_contiguous_args *args)
{
    size_t size = mylib_type_size((mylib_type)p->type), input_size = mylib_operand_size(p, 1 + k);
    int is_converted = p->input_type[k] != p->type;
    if (layout->is_host_scalar[1 + k]) {
        mylib_read_constant(p, k, layout->data[1 + k], args->constant[slot]);
        for (size_t at = size; at < 16; at += size)
            memcpy(args->constant[slot] + at, args->constant[slot], size);
        return 1;
    }
    if (layout->count == 1 || layout->strides[1 + k][layout->ndim - 1] == 0)
        args->kind[slot] =
            is_converted ? MYLIB_CONTIGUOUS_CONVERTED_SINGLE : MYLIB_CONTIGUOUS_SINGLE;
    else if (!mylib_contiguous_reads((mylib_type)p->type, (mylib_type)p->input_type[k]) ||
             !is_contiguous(layout, 1 + k, input_size))
        return 0;
    else
        args->kind[slot] =
            is_converted ? MYLIB_CONTIGUOUS_CONVERTED_VECTOR : MYLIB_CONTIGUOUS_VECTOR;
    if (args->kind[slot] == MYLIB_CONTIGUOUS_VECTOR ||
        args->kind[slot] == MYLIB_CONTIGUOUS_CONVERTED_VECTOR)
        args->is_by_elements |= !is_aligned(layout, 1 + k, (size_t)vector * input_size);
    args->in[slot] = layout->data[1 + k];
    args->type[slot] = p->input_type[k];
    args->has_conversions |= is_converted;
    args->shift[slot] = (uint8_t)__builtin_ctz((unsigned)input_size);
    args->stride[slot] = layout->ndim == 2 ? layout->strides[1 + k][0] : 0;
    return 1;
}

int mylib_contiguous_init(mylib_contiguous_args *args, const mylib_code *p,
                          const mylib_layout *layout)
{
    size_t size = mylib_type_size((mylib_type)p->type), out_size = mylib_operand_size(p, 0);
    int64_t vector = 16 / (int64_t)size;
    int first = p->code[0].opcode == MYLIB_OPCODE_MASK; /* the load */
    if (layout->ndim > 2 || p->instructions > first + 2 ||
        p->code[first].opcode != MYLIB_OPCODE_LOAD || !is_contiguous(layout, 0, out_size))
        return 0;
    memset(args, 0, sizeof *args);
    args->n = layout->count;
    args->out = layout->data[0];
    args->computed_type = p->type;
    args->result_type = p->result_type;
    args->opcode = MYLIB_OPCODE_NONE;
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
    if (first != 0) {
        int k = 1 + p->code[0].operand;
        if (p->input_type[k - 1] != MYLIB_BOOL || layout->is_host_scalar[k] ||
            !is_contiguous(layout, k, 1))
            return 0;
        args->is_by_elements |= !is_aligned(layout, k, (size_t)vector);
        args->condition = layout->data[k];
        args->condition_stride = layout->ndim == 2 ? layout->strides[k][0] : 0;
    }
    for (int i = first; i < p->instructions; i++) {
        int k = p->code[i].operand;
        if (i > first)
            args->opcode = p->code[i].opcode;
        if (k != MYLIB_NO_OPERAND && !set_input(p, layout, vector, i - first, k, args))
            return 0;
    }
    return !args->is_by_elements || (layout->ndim == 1 && size >= MYLIB_CONTIGUOUS_ELEMENT_MIN &&
                                     args->kind[0] != MYLIB_CONTIGUOUS_CONVERTED_VECTOR &&
                                     args->kind[1] != MYLIB_CONTIGUOUS_CONVERTED_VECTOR);
}
