/*
 * arange.c - fills memory with evenly spaced numbers.
 *
 * Element i is range_s(start, step, i) of scalar_ops.h, on the CPU and on GPUs.
 */
#include <string.h>

#include "internal.h"
#include "scalar_ops.h"

#define BLOCK 512

/* Computes f16 in f32, and rounds block by block. */
static void arange_f16(int64_t n, char *out, int64_t stride, const void *start, const void *step)
{
    float first, distance, block[BLOCK];
    memcpy(&first, start, sizeof first);
    memcpy(&distance, step, sizeof distance);
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = n - i < BLOCK ? n - i : BLOCK;
        for (int64_t k = 0; k < m; k++)
            block[k] = range_f32(first, distance, i + k);
        mylib_cpu()->convert(MYLIB_F16, MYLIB_F32, m, out + i * stride, stride, (char *)block,
                             sizeof *block);
    }
}

#define ARANGE(op, s) \
    static void arange_##s(int64_t n, char *out, int64_t stride, const void *start, \
                           const void *step) \
    { \
        t_##s first, distance; \
        memcpy(&first, start, sizeof first); \
        memcpy(&distance, step, sizeof distance); \
        UNROLLED for (int64_t i = 0; i < n; i++) \
        { \
            t_##s value = range_##s(first, distance, i); \
            memcpy(out + i * stride, &value, sizeof value); \
        } \
    }
MYLIB_SET_INT(ARANGE, )
ARANGE(, f32)
ARANGE(, f64)
MYLIB_SET_COMPLEX(ARANGE, )

void mylib_cpu_arange(mylib_type type, int64_t n, char *out, int64_t stride, const void *start,
                      const void *step)
{
    switch ((int)type) {
#define DT(s, S) \
    case MYLIB_##S: \
        arange_##s(n, out, stride, start, step); \
        break;
        MYLIB_TYPES(DT)
#undef DT
    }
}
