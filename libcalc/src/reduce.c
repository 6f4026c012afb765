/*
 * reduce.c - sums whose order is fixed by their length (see mylib_trace() in mylib.h).
 */
#include <string.h>

#include "internal.h"

/* The f16 that a sum in f32 rounds to; other sums have the type of their result. */
static void store_sum(mylib_type type, void *dst, const void *sum)
{
    mylib_type sum_type;
    if (type == MYLIB_F16) {
        float x;
        memcpy(&x, sum, sizeof x);
        t_f16 h = mylib_cpu()->f16_from_f32(x);
        memcpy(dst, &h, sizeof h);
    } else {
        mylib_sum_type(type, &sum_type);
        memcpy(dst, sum, mylib_type_size(sum_type));
    }
}

/* The type that carries a sum: f32 for f16, else that of its result. */
static mylib_type carrier(mylib_type type)
{
    mylib_type sum_type = type;
    mylib_sum_type(type, &sum_type);
    return type == MYLIB_F16 ? MYLIB_F32 : sum_type;
}

size_t mylib_sum_nbytes(mylib_type type) { return mylib_type_size(carrier(type)); }

void mylib_cpu_add_sums(mylib_type type, void *a, const void *b)
{
    mylib_type t = carrier(type);
    int64_t size = (int64_t)mylib_type_size(t);
    mylib_cpu()->kernel(MYLIB_OP_add, t)(1, a, size, a, size, b, size);
}

void mylib_cpu_sum(mylib_type type, int64_t n, const char *a, int64_t a_stride, void *sum)
{
    /*
     * level[k] is the sum of 2^k consecutive blocks, or absent.  Merging as a binary counter
     * carries gives the same tree as pairing all blocks level by level, and keeps one partial sum
     * per level.
     */
    t_c128 level[64], carry;
    uint64_t blocks = 0;
    mylib_block_sum *block_sum = mylib_cpu()->block_sum(type);

    if (n == 0) {
        memset(sum, 0, mylib_sum_nbytes(type));
        return;
    }
    for (int64_t i = 0; i < n; i += MYLIB_SUM_BLOCK, blocks++) {
        int k = 0;
        block_sum(n - i < MYLIB_SUM_BLOCK ? n - i : MYLIB_SUM_BLOCK, (char *)&carry,
                  a + i * a_stride, a_stride);
        for (; blocks >> k & 1; k++) {
            mylib_cpu_add_sums(type, &level[k], &carry);
            carry = level[k];
        }
        level[k] = carry;
    }
    int k = 0;
    while (!(blocks >> k & 1))
        k++;
    carry = level[k];
    for (k++; blocks >> k; k++) {
        if (blocks >> k & 1) {
            mylib_cpu_add_sums(type, &level[k], &carry);
            carry = level[k];
        }
    }
    memcpy(sum, &carry, mylib_sum_nbytes(type));
}

void mylib_cpu_fold_sum(mylib_type type, void *dst, const void *sum)
{
    int64_t size = (int64_t)mylib_type_size(type);
    if (type == MYLIB_F16) {
        /* In f32, and rounded once. */
        float x, term;
        t_c128 total;
        memcpy(&term, sum, sizeof term);
        mylib_cpu()->block_sum(MYLIB_F16)(1, (char *)&total, dst, 0);
        memcpy(&x, &total, sizeof x);
        x += term;
        store_sum(type, dst, &x);
    } else {
        /* An integer's sum is wider: its low bytes are the wrapped sum. */
        const char *low = sum;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        low += (int64_t)mylib_sum_nbytes(type) - size;
#endif
        mylib_cpu()->kernel(MYLIB_OP_add, type)(1, dst, size, dst, size, low, size);
    }
}

mylib_status mylib_trace(mylib_device device, void *stream, const mylib_array *matrix,
                         void *sum_ret)
{
    char text[MYLIB_SHAPE_TEXT], a[MYLIB_DEVICE_TEXT], b[MYLIB_DEVICE_TEXT];
    t_c128 sum;
    mylib_status st;

    MYLIB_TRY(mylib_check_array("matrix", matrix));
    MYLIB_TRY(mylib_check_device(device));
    if (sum_ret == NULL)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "sum_ret is NULL");
    if (matrix->ndim != 2)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "matrix has shape %s: the trace needs two dimensions",
                          mylib_shape_text(text, matrix->ndim, matrix->shape));
    if (matrix->device.kind == MYLIB_CUDA &&
        (device.kind != MYLIB_CUDA || device.index != matrix->device.index))
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "matrix is on %s and cannot be computed with on %s: copy it first",
                          mylib_device_text(a, matrix->device), mylib_device_text(b, device));

    int64_t rows = matrix->shape[0], columns = matrix->shape[1],
            n = rows < columns ? rows : columns;
    int64_t size = (int64_t)mylib_type_size(matrix->type), stride = size * (columns + 1);
    if (matrix->strides != NULL)
        stride = matrix->strides[0] + matrix->strides[1];
    if (device.kind == MYLIB_CPU)
        mylib_cpu_sum(matrix->type, n, matrix->data, stride, &sum);
    else
        MYLIB_TRY(mylib_cuda_sum(device.index, stream, matrix->type, n, matrix->data, stride,
                                 matrix->device.kind == MYLIB_CPU, &sum));
    store_sum(matrix->type, sum_ret, &sum);
    st = MYLIB_OK;
out:
    return st;
}
