/*
 * shared.h - constants and arithmetic that host and device share.  Compiles as C and as CUDA C++;
 * needs no CUDA.
 */
#pragma once

#include "../internal.h"

#ifdef __CUDACC__
#define MYLIB_DEVICE_FN static __device__ __forceinline__
/* For loops that rarely have more than one iteration: unrolling would only take registers. */
#define MYLIB_ROLLED _Pragma("unroll 1")
#define MYLIB_CONSTANT_FN static __host__ __device__ constexpr
#else
#define MYLIB_DEVICE_FN static inline
#define MYLIB_ROLLED
#define MYLIB_CONSTANT_FN static inline
#endif

#ifdef __cplusplus
extern "C" {
#define MYLIB_ASSERT(condition, message) static_assert(condition, message)
#else
#define MYLIB_ASSERT(condition, message) _Static_assert(condition, message)
#endif

/* Threads of a thread block, and its warps. */
#define MYLIB_CUDA_THREADS 256
#define MYLIB_CUDA_WARP 32
#define MYLIB_CUDA_WARPS (MYLIB_CUDA_THREADS / MYLIB_CUDA_WARP)
MYLIB_ASSERT(MYLIB_CUDA_THREADS == MYLIB_BLOCK_LANES, "a thread of a reduction has a lane");
MYLIB_ASSERT(MYLIB_BLOCK_TERMS % MYLIB_BLOCK_LANES == 0, "each lane of a block has as many terms");

/* Terms of a thread that reduces a short row, or of each row of lanes. */
#define MYLIB_SHORT_TERMS 8

/* Returns the least k for which 2^k is at least n. */
static inline int mylib_log2_of(int64_t n)
{
    int bits = 0;
    while (((int64_t)1 << bits) < n)
        bits++;
    return bits;
}

/*
 * Returns k for the short rows of a reduction, which lie in shared memory: 2^k threads, at most a
 * warp, share the loads of a row, each at most `most` if a warp suffices.
 */
static inline int32_t mylib_short_lane_bits(int64_t loads, int64_t most)
{
    const int32_t bits = mylib_log2_of((loads + most - 1) / most);
    return bits < 5 ? bits : 5;
}
/* Returns the gap in bytes after each row in shared memory that avoids bank conflicts. */
static inline int32_t mylib_short_gap(int64_t pitch) { return pitch % 32 == 0 ? 16 : 0; }
/* Returns a factor: with gaps, unit i is in row i * factor >> 20; a row has `units` units. */
static inline uint32_t mylib_short_row_factor(int32_t gap, int64_t units)
{
    return gap == 0 ? 0 : (uint32_t)(((1 << 20) - 1) / units + 1);
}

/* Tells whether an address is a multiple of `nbytes`, 2^k, and all these strides are, too. */
static inline int mylib_is_aligned_to(int64_t nbytes, const void *data, int ndim,
                                      const int64_t *strides)
{
    uintptr_t bits = (uintptr_t)data;
    for (int d = 0; d < ndim; d++)
        bits |= (uintptr_t)strides[d];
    return (bits & (uintptr_t)(nbytes - 1)) == 0;
}

/* Tells which operations take so long that a call costs little; inlined they cost registers. */
MYLIB_CONSTANT_FN int mylib_is_costly(int op, int type)
{
    return type == MYLIB_C64 || type == MYLIB_C128
               ? op == MYLIB_OP_divide || op == MYLIB_OP_sqrt || op == MYLIB_OP_absolute
               : type >= MYLIB_F16 && type <= MYLIB_F64 &&
                     (op == MYLIB_OP_floor_divide || op == MYLIB_OP_remainder);
}

/* The same in kernels that keep many values in registers: also divisions and shifts of integers. */
MYLIB_CONSTANT_FN int mylib_is_by_call(int op, int type)
{
    return mylib_is_costly(op, type) ||
           (type <= MYLIB_U64 &&
            (op == MYLIB_OP_divide || op == MYLIB_OP_floor_divide || op == MYLIB_OP_remainder ||
             op == MYLIB_OP_left_shift || op == MYLIB_OP_right_shift));
}

#ifdef __cplusplus
}
#endif
