/*
 * stream.h - stores past the cache, which save reading each line before it is overwritten.
 *
 * Memory-bound operations have loops that store from registers; run_row.c computes the others into
 * a block and copies it.  Other threads may read the stored data only after stream_fence().
 */
#pragma once

#include "counting.h"
#include "cpu/avx512.h"

/* STREAM_VECTOR stores to an aligned address. */
#if defined(__AVX512F__)
typedef __m512i stream_vector;
#define LOAD_VECTOR(p) _mm512_loadu_si512(p)
#define STREAM_VECTOR(p, v) _mm512_stream_si512((stream_vector *)(p), v)
#elif defined(__AVX__)
typedef __m256i stream_vector;
#define LOAD_VECTOR(p) _mm256_loadu_si256((const stream_vector *)(p))
#define STREAM_VECTOR(p, v) _mm256_stream_si256((stream_vector *)(p), v)
#elif defined(__SSE2__)
typedef __m128i stream_vector;
#define LOAD_VECTOR(p) _mm_loadu_si128((const stream_vector *)(p))
#define STREAM_VECTOR(p, v) _mm_stream_si128((stream_vector *)(p), v)
#endif

static void stream_copy(char *dst, const char *src, size_t nbytes)
{
#if defined(STREAM_VECTOR)
    size_t head = (size_t)(-(uintptr_t)dst % sizeof(stream_vector));
    if (head > nbytes)
        head = nbytes;
    memcpy(dst, src, head);
    size_t i = head;
    for (; i + sizeof(stream_vector) <= nbytes; i += sizeof(stream_vector))
        STREAM_VECTOR(dst + i, LOAD_VECTOR(src + i));
    memcpy(dst + i, src + i, nbytes - i);
#else
    memcpy(dst, src, nbytes);
#endif
}

static void stream_fence(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

/* ---- From registers ---- */

#if defined(HAS_V3)
BEGIN_EXPANDED
#define LINE MYLIB_LINE_NBYTES

static inline void stream_line(char *dst, const char *src)
{
    for (size_t i = 0; i < LINE; i += sizeof(stream_vector))
        STREAM_VECTOR(dst + i, LOAD_VECTOR(src + i));
}

#define LINES(op, s, store_line) \
    static void op##_lines_##s(ptrdiff_t n, char *out, const char *a, ptrdiff_t sa, const char *b, \
                               ptrdiff_t sb) \
    { \
        const ptrdiff_t w = sizeof(t_##s), m = LINE / w; \
        for (; n > 0; n--, out += LINE, a += sa, b += sb) { \
            store_line; \
        } \
    }

/* The compiler keeps `line` in registers: the loop that computes it is expanded for its length. */
#define LOOP(op, s, loop) LINES(op, s, _Alignas(LINE) char line[LINE]; loop; stream_line(out, line))
#define BINARY(op, s) LOOP(op, s, binary_loops_##s(op##_##s, 0, m, line, w, a, w, b, w))
#define UNARY(op, s) LOOP(op, s, unary_loops_##s(op##_##s, 0, m, line, w, a, w))

#if defined(HAS_V4)
#define WIDEN(dst, src) _mm512_store_ps(dst, _mm512_cvtph_ps(_mm256_loadu_si256(src)))
#define NARROW(src) _mm512_cvtps_ph(_mm512_load_ps(src), _MM_FROUND_TO_NEAREST_INT)
#define STREAM_HALVES(dst, v) _mm256_stream_si256(dst, v)
typedef __m256i vector_of_halves;
#else
#define WIDEN(dst, src) _mm256_store_ps(dst, _mm256_cvtph_ps(_mm_loadu_si128(src)))
#define NARROW(src) _mm256_cvtps_ph(_mm256_load_ps(src), _MM_FROUND_TO_NEAREST_INT)
#define STREAM_HALVES(dst, v) _mm_stream_si128(dst, v)
typedef __m128i vector_of_halves;
#endif
#define HALVES (sizeof(vector_of_halves) / sizeof(t_f16))
static ALWAYS_INLINE void widen_line(float *dst, const char *src)
{
    for (size_t i = 0; i < LINE / sizeof(t_f16); i += HALVES)
        WIDEN(dst + i, (const vector_of_halves *)src + i / HALVES);
}
static ALWAYS_INLINE void stream_narrow_line(char *dst, const float *src)
{
    for (size_t i = 0; i < LINE / sizeof(t_f16); i += HALVES)
        STREAM_HALVES((vector_of_halves *)dst + i / HALVES, NARROW(src + i));
}
#define IN_FLOATS(op, s) \
    LINES(op, s, _Alignas(LINE) float x[LINE / sizeof(t_f16)]; \
          _Alignas(LINE) float y[LINE / sizeof(t_f16)]; const ptrdiff_t size = sizeof(float); \
          (void)w; widen_line(x, a); widen_line(y, b); \
          binary_loops_f32(op##_f32, 0, m, (char *)x, size, (char *)x, size, (char *)y, size); \
          stream_narrow_line(out, x))

#if defined(HAS_V4)
static inline void stream_lanes_f32(char *p, __m512 x) { _mm512_stream_ps((float *)p, x); }
static inline void stream_lanes_f64(char *p, __m512d x) { _mm512_stream_pd((double *)p, x); }
#endif

#define LANES(op, s) \
    LINES(op##_any, s, \
          for (ptrdiff_t i = 0; i < m; i += LANES_##s) \
              stream_lanes_##s(out + i * w, op##_lanes_##s(load_lanes_##s(0xffff, a + i * w), \
                                                           load_lanes_##s(0xffff, b + i * w)))) \
    static void op##_lines_##s(ptrdiff_t n, char *out, const char *a, ptrdiff_t sa, const char *b, \
                               ptrdiff_t sb) \
    { \
        QUIETLY(s, op##_any_lines_##s(n, out, a, sa, b, sb)) \
    }

#define FLOATS(X, op) X(op, f32) X(op, f64)
#define NUMBERS(X, op) X(op, u8) X(op, u16) X(op, u32) X(op, u64) FLOATS(X, op)
#if defined(HAS_V4)
#define LANE_OPS(LANES) FLOATS(LANES, minimum) FLOATS(LANES, maximum)
#else
#define LANE_OPS(LANES)
#endif
/* The loops, by their forms.  lookup_lines() maps other types to these. */
#define LINE_OPS(BINARY, UNARY, IN_FLOATS, LANES) \
    NUMBERS(BINARY, add) \
    NUMBERS(BINARY, subtract) \
    NUMBERS(BINARY, multiply) \
    NUMBERS(UNARY, negative) \
    NUMBERS(UNARY, square) \
    FLOATS(BINARY, divide) \
    FLOATS(UNARY, absolute) \
    FLOATS(UNARY, sqrt) \
    MYLIB_SET_INT(BINARY, minimum) \
    MYLIB_SET_INT(BINARY, maximum) \
    BINARY(bitwise_and, u64) \
    BINARY(bitwise_or, u64) \
    BINARY(bitwise_xor, u64) \
    UNARY(invert, u64) \
    IN_FLOATS(add, f16) \
    IN_FLOATS(subtract, f16) \
    IN_FLOATS(multiply, f16) \
    IN_FLOATS(divide, f16) \
    LANE_OPS(LANES)
LINE_OPS(BINARY, UNARY, IN_FLOATS, LANES)
#undef LANES
#undef UNARY
#undef BINARY
END_EXPANDED
#endif

static mylib_line_loop *lookup_lines(mylib_op op, mylib_type type)
{
#if defined(HAS_V3)
    if (op == MYLIB_OP_add || op == MYLIB_OP_subtract || op == MYLIB_OP_negative)
        type = mylib_part_type(type);
    if (op >= MYLIB_OP_bitwise_and && op <= MYLIB_OP_invert && type <= MYLIB_U64)
        type = MYLIB_U64; /* of any size, and any sign */
    else if (op != MYLIB_OP_minimum && op != MYLIB_OP_maximum && type <= MYLIB_I64)
        type = (mylib_type)(type + (MYLIB_U8 - MYLIB_I8)); /* the same bits modulo 2^N */
    switch ((int)op * MYLIB_TYPE_COUNT + (int)type) {
#define CASE(op, s) \
    case MYLIB_OP_##op *MYLIB_TYPE_COUNT + type_##s: \
        return op##_lines_##s;
        LINE_OPS(CASE, CASE, CASE, CASE)
#undef CASE
    }
#endif
    (void)op, (void)type;
    return NULL;
}
