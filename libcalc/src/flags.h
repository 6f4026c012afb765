/*
 * flags.h - this thread's floating-point flags (FE_INVALID and so on) and its mode, cheaply.
 *
 * The mode is how results are rounded, whether denormal numbers count as zeros, and which
 * exceptions trap.  Callers may have changed it (a library built with -ffast-math does), so every
 * entry point that computes enters the default mode.  At its end the caller's mode is back, and all
 * flags, old and new, are kept.
 *
 * On x86-64 all arithmetic is SSE's, whose flags are bits of one register with the values of FE_*.
 * The functions of <fenv.h> also save and restore the x87 unit, which is slow, and leave out the
 * mode for denormal numbers.
 */
#pragma once

#include <fenv.h>

/* Compilers do not know that arithmetic raises flags: this stops loads and stores from moving. */
#define MYLIB_FLAGS_BARRIER() __asm__ volatile("" ::: "memory")

#if defined(__x86_64__)

#include <xmmintrin.h>
#define MYLIB_ALL_FLAGS 0x3fu      /* with the flag of denormal operands, which has no FE_* */
#define MYLIB_DEFAULT_MODE 0x1f80u /* to nearest, denormal numbers are kept, nothing traps */
typedef unsigned mylib_mode;
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
static inline mylib_mode mylib_enter_mode(void)
{
    unsigned csr = _mm_getcsr(), flags = csr & MYLIB_ALL_FLAGS;
    if (csr != (MYLIB_DEFAULT_MODE | flags))
        _mm_setcsr(MYLIB_DEFAULT_MODE | flags);
    MYLIB_FLAGS_BARRIER();
    return csr - flags;
}
static inline void mylib_leave_mode(mylib_mode mode)
{
    MYLIB_FLAGS_BARRIER();
    if (mode != MYLIB_DEFAULT_MODE)
        _mm_setcsr(mode | (_mm_getcsr() & MYLIB_ALL_FLAGS));
}

#elif defined(__aarch64__) && defined(__GNUC__)

/* The flags have a register of their own; the default mode is 0. */
typedef unsigned long mylib_mode;
static inline unsigned long mylib_get_fpsr(void)
{
    unsigned long fpsr;
    __asm__ volatile("mrs %0, fpsr" : "=r"(fpsr)::"memory");
    return fpsr;
}
static inline void mylib_set_fpsr(unsigned long fpsr)
{
    __asm__ volatile("msr fpsr, %0" ::"r"(fpsr) : "memory");
}
static inline int mylib_test_flags(void) { return (int)mylib_get_fpsr() & FE_ALL_EXCEPT; }
static inline void mylib_clear_flags(void)
{
    mylib_set_fpsr(mylib_get_fpsr() & ~(unsigned long)FE_ALL_EXCEPT);
}
static inline void mylib_raise_flags(int flags)
{
    mylib_set_fpsr(mylib_get_fpsr() | (unsigned long)flags);
}
static inline mylib_mode mylib_enter_mode(void)
{
    mylib_mode mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode)::"memory");
    if (mode != 0)
        __asm__ volatile("msr fpcr, xzr" ::: "memory");
    return mode;
}
static inline void mylib_leave_mode(mylib_mode mode)
{
    MYLIB_FLAGS_BARRIER();
    if (mode != 0)
        __asm__ volatile("msr fpcr, %0" ::"r"(mode) : "memory");
}

#else

typedef fenv_t mylib_mode;
static inline int mylib_test_flags(void) { return fetestexcept(FE_ALL_EXCEPT); }
static inline void mylib_clear_flags(void) { feclearexcept(FE_ALL_EXCEPT); }
static inline void mylib_raise_flags(int flags) { feraiseexcept(flags); }
static inline mylib_mode mylib_enter_mode(void)
{
    fenv_t mode;
    fegetenv(&mode);
    fesetenv(FE_DFL_ENV);
    MYLIB_FLAGS_BARRIER();
    return mode;
}
static inline void mylib_leave_mode(mylib_mode mode)
{
    fexcept_t raised;
    MYLIB_FLAGS_BARRIER();
    int flags = fetestexcept(FE_ALL_EXCEPT);
    fegetexceptflag(&raised, flags);
    fesetenv(&mode);
    fesetexceptflag(&raised, flags); /* feraiseexcept() would trap if the caller's mode traps */
}

#endif

/* Enters the default mode until the end of the block. */
static inline void mylib_leave_entered(const mylib_mode *mode) { mylib_leave_mode(*mode); }
#define ENTER_DEFAULT_MODE() \
    __attribute__((cleanup(mylib_leave_entered), unused)) const mylib_mode mode = mylib_enter_mode()

/* Sets this thread's flags back to what mylib_test_flags() returned. */
static inline void mylib_restore_flags(int flags)
{
    if (mylib_test_flags() != flags) {
        mylib_clear_flags();
        mylib_raise_flags(flags);
    }
}
