/*
 * warnings.h - finds the floating-point exceptions of functions (ops.h) from operands and results,
 * so that they are the same everywhere.
 */
#pragma once

#include "scalar_ops.h"

enum {
    MYLIB_WARNS_NOTHING,
    MYLIB_WARNS_INVALID,   /* NaN without a NaN operand */
    MYLIB_WARNS_DIVBYZERO, /* infinite, at a pole */
    MYLIB_WARNS_OVERFLOW,  /* infinite elsewhere, from finite operands */
};

/* Tells whether a function's result can be infinite or NaN though its operands are finite. */
MYLIB_FN int can_warn(mylib_op op)
{
    return op >= MYLIB_OP_sin || op == MYLIB_OP_nextafter || op == MYLIB_OP_reciprocal ||
           op == MYLIB_OP_fmod;
}

MYLIB_FN int is_pole(mylib_op op, double a)
{
    switch ((int)op) {
    case MYLIB_OP_reciprocal:
    case MYLIB_OP_log:
    case MYLIB_OP_log2:
    case MYLIB_OP_log10:
    case MYLIB_OP_power: /* pole for negative exponents only; other powers of 0 are finite */
        return a == 0;
    case MYLIB_OP_log1p:
        return a == -1;
    case MYLIB_OP_arctanh:
        return fabs(a) == 1;
    default:
        return 0;
    }
}

/* For a result, or a part of a complex one. */
MYLIB_FN int warning_of(int has_nan, int is_finite, int is_pole, double result)
{
    if (result != result)
        return has_nan ? MYLIB_WARNS_NOTHING : MYLIB_WARNS_INVALID;
    if (fabs(result) != INFINITY || !is_finite)
        return MYLIB_WARNS_NOTHING;
    return is_pole ? MYLIB_WARNS_DIVBYZERO : MYLIB_WARNS_OVERFLOW;
}

/* For op(a, b) == result; b is a for unary functions, and may be infinite for nextafter. */
MYLIB_FN int warning_of_real(mylib_op op, double a, double b, double result)
{
    const int is_finite = fabs(a) < INFINITY && (op == MYLIB_OP_nextafter || fabs(b) < INFINITY);
    return warning_of(a != a || b != b, is_finite, is_pole(op, a), result);
}
MYLIB_FN int warning_of_complex(mylib_op op, t_c128 a, t_c128 b, double result)
{
    const double p = a.re * 0 + a.im * 0, q = b.re * 0 + b.im * 0; /* NaN unless finite */
    const int has_nan = a.re != a.re || a.im != a.im || b.re != b.re || b.im != b.im;
    const int is_at_pole =
        op == MYLIB_OP_arctan ? a.re == 0 && fabs(a.im) == 1 : a.im == 0 && is_pole(op, a.re);
    return warning_of(has_nan, p == 0 && q == 0, is_at_pole, result);
}
