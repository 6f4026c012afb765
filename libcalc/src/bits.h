/*
 * bits.h - how to declare a function of one element for CPU and CUDA; conversions between floats
 * and their bits.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#include "types.h"

#ifdef __CUDACC__
#define MYLIB_FN static __device__ __forceinline__
#define MYLIB_FN_IN_LINE MYLIB_FN
#define MYLIB_FN_APART __attribute__((unused)) static __device__ __noinline__
#else
#define MYLIB_FN static inline
/* For long functions called from loops, which vectorize only if the call is inlined. */
#define MYLIB_FN_IN_LINE static inline __attribute__((always_inline))
/* For long functions with several callers. */
#define MYLIB_FN_APART static __attribute__((noinline, unused))
#endif

#define DEFINE_BITS(s, T, U) \
    MYLIB_FN U bits_of_##s(T x) \
    { \
        U bits; \
        memcpy(&bits, &x, sizeof bits); \
        return bits; \
    } \
    MYLIB_FN T s##_of_bits(U bits) \
    { \
        T x; \
        memcpy(&x, &bits, sizeof x); \
        return x; \
    }
DEFINE_BITS(f32, t_f32, uint32_t)
DEFINE_BITS(f64, t_f64, uint64_t)
