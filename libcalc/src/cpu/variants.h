/*
 * variants.h - better forms of some rows, on any processor: signs of f16, complex numbers as pairs,
 * quiet minima and maxima, and costly operations that pack strided operands in blocks.
 */
#pragma once

#include "cpu/avx512.h"
#include "cpu/elementwise.h"

/* ---- Signs of f16 ---- */

/* The sign of an f16 is one of its bits. */
static ALWAYS_INLINE void sign_loops(uint16_t keep, uint16_t flip, ptrdiff_t n, char *out,
                                     ptrdiff_t so, const char *a, ptrdiff_t sa)
{
    const ptrdiff_t w = sizeof(t_u16);
    if (so == w && sa == w) {
        NO_DEPENDENCE for (ptrdiff_t i = 0; i < n; i++)
            store_u16(out + i * w, (t_u16)((load_u16(a + i * w) & keep) ^ flip));
    } else {
        IN_PAIRS(n, store_u16(out + i * so, (t_u16)((load_u16(a + i * sa) & keep) ^ flip)),
                 (out += 2 * so, a += 2 * sa));
    }
}
KERNEL(absolute_sign_f16) { sign_loops(0x7fff, 0, n, out, so, a, sa); }
KERNEL(negative_sign_f16) { sign_loops(0xffff, 0x8000, n, out, so, a, sa); }

/* ---- Complex numbers as pairs ---- */

/*
 * Computes n contiguous complex numbers as 2n real ones, in full vectors; the parts do not mix.  A
 * single number may overlap its operands in one part (cpu/run.c): both are computed first.
 */
#define PAIRS(op, s, r) \
    KERNEL(op##_pairs_##s) \
    { \
        const ptrdiff_t w = sizeof(t_##s); \
        if (n > 1 && so == w && sa == w && sb == w) \
            op##_kernel_##r(2 * n, out, w / 2, a, w / 2, b, w / 2); \
        else \
            op##_kernel_##s(n, out, so, a, sa, b, sb); \
    }
PAIRS(add, c64, f32)
PAIRS(add, c128, f64)
PAIRS(subtract, c64, f32)
PAIRS(subtract, c128, f64)

/* ---- Quiet minima and maxima ---- */

#define QUIET(op, s, kernel) \
    KERNEL(op##_quiet_##s) { QUIETLY(s, kernel(n, out, so, a, sa, b, sb)) }
#define QUIETS(op) \
    QUIET(op, f16, IN_VECTORS(op, f16)) \
    QUIET(op, f32, IN_VECTORS(op, f32)) \
    QUIET(op, f64, IN_VECTORS(op, f64)) \
    QUIET(op, c64, op##_kernel_c64) \
    QUIET(op, c128, op##_kernel_c128)
QUIETS(minimum)
QUIETS(maximum)
#undef QUIET

/* ---- Remainders of f32 ---- */

#if defined(HAS_V3) && !defined(HAS_V4)
#define REMAINDER_BLOCK 256

/*
 * Computes remainders in f64, without fmod(): with a quotient below 2^26, a / b rounds to no other
 * integer part, and a - q * b is exact.  Then it is moved to the sign of b (scalar_ops.h).  Returns
 * 0 if there is a larger quotient, an infinity, a NaN, or a zero or subnormal b.
 */
NOINLINE static int remainders_f32(ptrdiff_t n, char *out, const char *a, const char *b)
{
    const ptrdiff_t w = sizeof(t_f32);
    const int32_t infinity = 0x7f800000, size = INT32_MAX;
    int32_t is_rare = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const int32_t x = load_i32(a + i * w) & infinity, y = load_i32(b + i * w) & infinity;
        is_rare |= (x == infinity) | (y == infinity) | (y == 0) | (x - y > 25 << 23);
    }
    if (is_rare)
        return 0;
    NO_DEPENDENCE for (ptrdiff_t i = 0; i < n; i++)
    {
        const double x = load_f32(a + i * w), y = load_f32(b + i * w);
        const t_f32 mod = (t_f32)(x - (double)(int32_t)(x / y) * y);
        const int32_t bits = (int32_t)bits_of_f32(mod), bits_of_b = load_i32(b + i * w);
        const int32_t moves = (bits & size) != 0 ? (bits ^ bits_of_b) >> 31 : 0;
        const t_f32 moved = mod + f32_of_bits((uint32_t)(bits_of_b & moves));
        store_i32(out + i * w, ((int32_t)bits_of_f32(moved) & size) | (bits_of_b & ~size));
    }
    return 1;
}

KERNEL(remainder_blocks_f32)
{
    const ptrdiff_t w = sizeof(t_f32);
    t_f32 one[REMAINDER_BLOCK];
    for (ptrdiff_t i = 0; i < REMAINDER_BLOCK && i < n && sb == 0; i++)
        one[i] = load_f32(b);
    for (ptrdiff_t m; n > 0; n -= m, out += m * so, a += m * sa, b += m * sb) {
        const char *y = sb == 0 ? (const char *)one : b;
        m = n < REMAINDER_BLOCK ? n : REMAINDER_BLOCK;
        if (so != w || sa != w || (sb != w && sb != 0) || !remainders_f32(m, out, a, y))
            remainder_kernel_f32(m, out, so, a, sa, b, sb);
    }
}
KERNEL(remainder_blocks_f16) { half_kernel(remainder_blocks_f32, 1, 0, n, out, so, a, sa, b, sb); }
#define REMAINDER_OF(s) remainder_blocks_##s
#else
#define REMAINDER_OF(s) IN_VECTORS(remainder, s)
#endif

/* ---- Strided operands ---- */

#define PACK_BLOCK 256
#define PACK_NBYTES (PACK_BLOCK * 16)

/*
 * Runs a kernel over contiguous copies of strided operands, block by block.  Operands that are
 * contiguous or a single number are used in place.  Elements of the inputs have w bytes, those of
 * the output wo.  Rows of fewer than `least` elements are not worth it.
 */
static void packed_kernel(mylib_kernel *kernel, ptrdiff_t least, int binary, ptrdiff_t wo,
                          ptrdiff_t w, ptrdiff_t n, char *out, ptrdiff_t so, const char *a,
                          ptrdiff_t sa, const char *b, ptrdiff_t sb)
{
    char pa[PACK_NBYTES], pb[PACK_NBYTES], po[PACK_NBYTES];
    int packs_a = sa != w && (sa != 0 || !binary), packs_b = binary && sb != w && sb != 0;
    if (n < least || so == 0 || (so == wo && !packs_a && !packs_b)) {
        kernel(n, out, so, a, sa, b, sb);
        return;
    }
    while (n > 0) {
        ptrdiff_t m = n < PACK_BLOCK ? n : PACK_BLOCK;
        if (packs_a)
            pack_strided(w, m, pa, a, sa);
        if (packs_b)
            pack_strided(w, m, pb, b, sb);
        kernel(m, so == wo ? out : po, wo, packs_a ? pa : a, packs_a ? w : sa, packs_b ? pb : b,
               packs_b ? w : sb);
        if (so != wo)
            mylib_copy_strided((size_t)wo, m, out, so, po, wo);
        n -= m;
        out += m * so;
        a += m * sa;
        b += m * sb;
    }
}
#undef PACK_NBYTES
