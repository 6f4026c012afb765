/*
 * convert.h - conversions between any two types and any strides: convert().
 */
#pragma once

#include "cpu/half.h"
#include "cpu/loops.h"

/*
 * to_of_from(n, out, a) converts contiguous elements between any two real types except f16, which
 * convert() takes through f32.  Complex numbers go part by part.
 */
#define load_bool(p) (load_u8(p) != 0)
#define TO_INTEGER(t, out, x) \
    store_##t(out, _Generic((x), t_f32 \
                            : t##_from_f32(x), t_f64 \
                            : t##_from_f64(x), default \
                            : (t_##t)(x)))
#define TO_SIGNED(t, out, x) TO_INTEGER(t, out, x)
#define TO_UNSIGNED(t, out, x) TO_INTEGER(t, out, x)
#define TO_FLOAT(t, out, x) store_##t(out, (t_##t)(x))
#define TO_BOOL(t, out, x) store_u8(out, (x) != 0)
#define CONVERSION(t, s) \
    static void t##_of_##s(ptrdiff_t n, char *out, const char *a) \
    { \
        const ptrdiff_t w = sizeof(t_##s), wo = sizeof(t_##t); \
        NO_DEPENDENCE for (ptrdiff_t i = 0; i < n; i++) \
            PASTE(TO_, MYLIB_CLASS_##t)(t, out + i * wo, load_##s(a + i * w)); \
    }

#define CONVERTED_TO(X, t) MYLIB_SET_INT(X, t) X(t, f32) X(t, f64) X(t, bool)
#define NOT_CONVERTED_TO(X, t)
#define CONVERSIONS(X, t) \
    BY_CLASS(t, CONVERTED_TO, NOT_CONVERTED_TO, CONVERTED_TO, NOT_CONVERTED_TO)(X, t)
#define DT(t, T) CONVERSIONS(CONVERSION, t)
MYLIB_STORED_TYPES(DT)
#undef DT

#define COMPLEX_TO_BOOL(s) \
    static void bool_of_##s(ptrdiff_t n, char *out, const char *a) \
    { \
        for (ptrdiff_t i = 0; i < n; i++) { \
            const t_##s x = load_##s(a + i * (ptrdiff_t)sizeof x); \
            STAYS_SCALAR; \
            store_u8(out + i, (x.re != 0) | (x.im != 0)); \
        } \
    }
COMPLEX_TO_BOOL(c64)
COMPLEX_TO_BOOL(c128)

typedef void contiguous_conversion(ptrdiff_t n, char *out, const char *a);

static contiguous_conversion *lookup_conversion(mylib_type to, mylib_type from)
{
    switch ((int)to * MYLIB_TYPE_COUNT + (int)from) {
#define CASE(t, s) \
    case type_##t *MYLIB_TYPE_COUNT + type_##s: \
        return t##_of_##s;
#define DT(t, T) CONVERSIONS(CASE, t)
        MYLIB_STORED_TYPES(DT)
#undef DT
        CASE(bool, c64)
        CASE(bool, c128)
#undef CASE
    default:
        return NULL;
    }
}

/* Converts truths to f32 or f64; the rest after whole vectors without branches. */
static void floats_of_bool(mylib_type to, ptrdiff_t n, char *out, const char *a)
{
    ptrdiff_t i = n - n % 64;
    lookup_conversion(to, MYLIB_BOOL)(i, out, a);
    for (; i < n; i++)
        if (to == MYLIB_F32)
            store_u32(out + i * 4, 0x3f800000 * (uint32_t)(load_u8(a + i) != 0));
        else
            store_u64(out + i * 8, 0x3ff0000000000000 * (uint64_t)(load_u8(a + i) != 0));
}

/* Converts n contiguous elements: both complex, both real, or to bool; with f16 a HALF_BLOCK. */
static void convert_block(mylib_type to, mylib_type from, ptrdiff_t n, char *out, const char *a)
{
    _Alignas(64) float x[HALF_BLOCK];
    if (mylib_part_type(to) != to) {
        lookup_conversion(mylib_part_type(to), mylib_part_type(from))(2 * n, out, a);
        return;
    }
    if (to != MYLIB_F16 && from != MYLIB_F16) {
        if (from == MYLIB_BOOL && (to == MYLIB_F32 || to == MYLIB_F64))
            floats_of_bool(to, n, out, a);
        else
            lookup_conversion(to, from)(n, out, a);
        return;
    }
    if (from == MYLIB_F16)
        widen(n, x, a);
    else if (from == MYLIB_F64)
        narrow_to_odd(n, x, a);
    else
        lookup_conversion(MYLIB_F32, from)(n, (char *)x, a);
    if (to == MYLIB_F16)
        narrow(n, out, x);
    else
        lookup_conversion(to, MYLIB_F32)(n, out, (const char *)x);
}

#define CONVERTED_NBYTES (HALF_BLOCK * (int)sizeof(double))

static void convert_blocks(mylib_type to, mylib_type from, ptrdiff_t n, char *out, ptrdiff_t so,
                           const char *a, ptrdiff_t sa)
{
    _Alignas(64) char packed[CONVERTED_NBYTES], result[CONVERTED_NBYTES];
    const ptrdiff_t w = (ptrdiff_t)mylib_type_size(from), wo = (ptrdiff_t)mylib_type_size(to);
    const ptrdiff_t widest = w > wo ? w : wo;
    ptrdiff_t most =
        widest * HALF_BLOCK > CONVERTED_NBYTES ? CONVERTED_NBYTES / widest : HALF_BLOCK;
    if (n == 1)
        so = wo, sa = w;
    if (so == wo && sa == w && to != MYLIB_F16 && from != MYLIB_F16)
        most = n;
    for (ptrdiff_t i = 0; i < n; i += most) {
        ptrdiff_t m = n - i < most ? n - i : most;
        const char *src = a + i * sa;
        char *dst = so == wo ? out + i * so : result;
        if (sa != w) {
            pack_strided(w, m, packed, src, sa);
            src = packed;
        }
        convert_block(to, from, m, dst, src);
        if (so != wo)
            mylib_copy_strided((size_t)wo, m, out + i * so, so, result, wo);
    }
}

static void convert(mylib_type to, mylib_type from, ptrdiff_t n, char *out, ptrdiff_t so,
                    const char *a, ptrdiff_t sa)
{
    int to_complex = mylib_part_type(to) != to, from_complex = mylib_part_type(from) != from;
    if (from_complex && !to_complex && to != MYLIB_BOOL)
        from = mylib_part_type(from); /* the real part is the first */
    if (to == from) {
        const ptrdiff_t w = (ptrdiff_t)mylib_type_size(to);
        if (so == w)
            pack_strided(w, n, out, a, sa);
        else
            mylib_copy_strided((size_t)w, n, out, so, a, sa);
        return;
    }
    if (to_complex && !from_complex) {
        const ptrdiff_t half = (ptrdiff_t)mylib_type_size(to) / 2;
        const double zero = 0;
        convert(mylib_part_type(to), from, n, out, so, a, sa);
        mylib_copy_strided((size_t)half, n, out + half, so, (const char *)&zero, 0);
        return;
    }
    int flags = mylib_test_flags();
    convert_blocks(to, from, n, out, so, a, sa);
    /*
     * Conversions raise no flags, but this code does: it also converts numbers out of range, which
     * are replaced afterwards, and a signaling NaN is true.
     */
    if (from >= MYLIB_F16 && (to <= MYLIB_U64 || to == MYLIB_BOOL))
        mylib_restore_flags(flags);
}
