/*
 * types.h - the C type of each element type: t_i8 ... t_c128, t_bool.
 */
#pragma once

#include <stdint.h>

typedef int8_t t_i8;
typedef int16_t t_i16;
typedef int32_t t_i32;
typedef int64_t t_i64;
typedef uint8_t t_u8;
typedef uint16_t t_u16;
typedef uint32_t t_u32;
typedef uint64_t t_u64;
/* Structures, so that arithmetic on them does not compile. */
typedef struct t_f16 {
    uint16_t bits;
} t_f16;
typedef struct t_bool {
    uint8_t value; /* 0 or 1 */
} t_bool;
typedef float t_f32;
typedef double t_f64;
typedef struct t_c64 {
    float re, im;
} t_c64;
typedef struct t_c128 {
    double re, im;
} t_c128;
