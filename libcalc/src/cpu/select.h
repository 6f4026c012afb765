/*
 * select.h - out[i] = mask[i] ? a[i] : b[i].
 *
 * The loops move elements by size, whatever their type.
 */
#pragma once

#include "cpu/loops.h"

#define SELECT(s) \
    static ALWAYS_INLINE void select_one_##s(char *out, const char *mask, const char *a, \
                                             const char *b) \
    { \
        t_##s x = load_##s(a), y = load_##s(b); \
        store_##s(out, load_u8(mask) ? x : y); \
    } \
    static void select_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *mask, ptrdiff_t sm, \
                           const char *a, ptrdiff_t sa, const char *b, ptrdiff_t sb) \
    { \
        const ptrdiff_t w = sizeof(t_##s); \
        if (so == w && sm == 1 && sa == w && sb == w) { \
            NO_DEPENDENCE for (ptrdiff_t i = 0; i < n; i++) \
                select_one_##s(out + i * w, mask + i, a + i * w, b + i * w); \
        } else if (so == w && sm == 1 && sa == w && sb == 0) { \
            NO_DEPENDENCE for (ptrdiff_t i = 0; i < n; i++) \
                select_one_##s(out + i * w, mask + i, a + i * w, b); \
        } else if (so == w && sm == 1 && sa == 0 && sb == w) { \
            NO_DEPENDENCE for (ptrdiff_t i = 0; i < n; i++) \
                select_one_##s(out + i * w, mask + i, a, b + i * w); \
        } else { \
            UNROLLED for (ptrdiff_t i = 0; i < n; i++) \
                select_one_##s(out + i * so, mask + i * sm, a + i * sa, b + i * sb); \
        } \
    }
SELECT(u8)
SELECT(u16)
SELECT(u32)
SELECT(u64)

static void select_c128(ptrdiff_t n, char *out, ptrdiff_t so, const char *mask, ptrdiff_t sm,
                        const char *a, ptrdiff_t sa, const char *b, ptrdiff_t sb)
{
    UNROLLED for (ptrdiff_t i = 0; i < n; i++)
        memmove(out + i * so, load_u8(mask + i * sm) ? a + i * sa : b + i * sb, sizeof(t_c128));
}

static mylib_selection *lookup_selection(mylib_type type)
{
    switch (mylib_type_size(type)) {
    case 1:
        return select_u8;
    case 2:
        return select_u16;
    case 4:
        return select_u32;
    case 8:
        return select_u64;
    default:
        return select_c128;
    }
}
