/*
 * flags.h - this thread's floating-point flags (FE_INVALID and so on), cheaply.
 *
 * On x86-64 all arithmetic is SSE's, whose flags are bits of one register with the values of FE_*.
 * The functions of <fenv.h> also save and restore the x87 unit, which takes longer than adding
 * small arrays.
 */
#ifndef MYLIB_FLAGS_H
#define MYLIB_FLAGS_H

#include <fenv.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
/* Compilers do not know that arithmetic raises flags: what is stored or loaded must not pass. */
#define MYLIB_FLAGS_BARRIER() __asm__ volatile("" ::: "memory")
static inline int mylib_test_flags(void)
{
    MYLIB_FLAGS_BARRIER();
    return (int)_mm_getcsr() & FE_ALL_EXCEPT;
}
static inline void mylib_clear_flags(void)
{
    MYLIB_FLAGS_BARRIER();
    _mm_setcsr(_mm_getcsr() & ~(unsigned)FE_ALL_EXCEPT);
    MYLIB_FLAGS_BARRIER();
}
static inline void mylib_raise_flags(int flags)
{
    MYLIB_FLAGS_BARRIER();
    _mm_setcsr(_mm_getcsr() | (unsigned)flags);
    MYLIB_FLAGS_BARRIER();
}
#else
static inline int mylib_test_flags(void) { return fetestexcept(FE_ALL_EXCEPT); }
static inline void mylib_clear_flags(void) { feclearexcept(FE_ALL_EXCEPT); }
static inline void mylib_raise_flags(int flags) { feraiseexcept(flags); }
#endif

#endif /* MYLIB_FLAGS_H */
