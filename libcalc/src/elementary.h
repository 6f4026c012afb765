/*
 * elementary.h - what the elementary functions mean for one element, once for the CPU and for CUDA:
 * op_s(x) for each function and each of the type suffixes of ops.h.
 *
 * The bits are the same everywhere, because every step is integer arithmetic on bits or an
 * operation that IEEE 754 defines: sum, difference, product, quotient, square root and fused
 * multiply-add, in a fixed order.  Only quotients that are rounded to f16 or f32 differ on a GPU,
 * in a bit that does not change the rounded result.  f16 and f32 are correctly rounded; the error
 * of f64 is bounded beside each function.
 *
 * A function with hard arguments, which need a loop or a branch, defines three functions:
 * op_easy_s(x) is vector code and returns some value for any x, op_is_hard_s(x) returns 0 or 1, and
 * op_hard_s(x) computes the hard ones.  MYLIB_HARD and MYLIB_HARD_BINARY list them, as X(op, s).
 *
 * A function of f32 with a quick way defines another, which returns a t_quick: the value of
 * op_f32(x), or a mark that it is unknown.  A function of f64 whose special arguments take many
 * steps defines op_ordinary_f64(x), which leaves them out.
 *
 * A function long enough for two loops defines op_first_s(x) and op_second_s(x, y, first), which
 * returns op_s(x, y) unless op_is_rare_s(x, y, first) is 1.  All three are vector code.
 *
 * scripts/fits/NAME.py computes the constants of NAME.h and the errors of its fits; quick.py also
 * those of quick_f64.h.
 */
#pragma once

#include "elementary/complex.h"
#include "elementary/complex_power.h"
#include "elementary/exponential.h"
#include "elementary/hyperbolic.h"
#include "elementary/hypot.h"
#include "elementary/inverse.h"
#include "elementary/logaddexp.h"
#include "elementary/logarithm.h"
#include "elementary/numbers.h"
#include "elementary/power.h"
#include "elementary/quick.h"
#include "elementary/quick_f64.h"
#include "elementary/special.h"
#include "elementary/trigonometric.h"

/* clang-format off */
#define MYLIB_HARD(X) \
    X(sin, f32) X(sin, f64) \
    X(cos, f32) X(cos, f64) \
    X(tan, f64)
/* Hard on the CPU only: a GPU has a quick way. */
#define MYLIB_HARD_ON_CPU(X) \
    X(tan, f32)
/* Functions of two arguments. */
#define MYLIB_HARD_BINARY(X) \
    X(arctan2, f64)
#define MYLIB_HARD_BINARY_ON_CPU(X) \
    X(logaddexp, f32) X(logaddexp, f64) \
    X(arctan2, f32)
/* f32, on the CPU: op_quick_f32(x) computes in pairs of f32. */
#define MYLIB_QUICK(X) \
    X(log) X(log1p) X(tanh) X(arctan) X(cbrt)
/* The same in f64, which pays with AVX-512: X(op, quick function, loop for any elements). */
#define MYLIB_QUICK_IN_F64(X) \
    X(tan, tan_quick_f64, tan_hard_loop_f32)
#define MYLIB_QUICK_BINARY(X) \
    X(logaddexp, logaddexp_quick_f32, logaddexp_hard_loop_f32) \
    X(arctan2, arctan2_quick_f64, arctan2_hard_loop_f32) \
    X(power, power_quick_f64, power_steps_f32)
/* f64, on the CPU: op_ordinary_f64(x). */
#define MYLIB_ORDINARY(X) \
    X(exp) X(exp2) X(log) X(log2) X(log10) X(log1p)
/* f64, on a GPU: of one argument, and of two. */
#define MYLIB_ORDINARY_ON_GPU(X) \
    X(log1p) X(arcsinh) X(arccosh) X(arctanh)
#define MYLIB_ORDINARY_BINARY_ON_GPU(X) \
    X(logaddexp)
/* f32, on a GPU: X(op, quick function); most compute in f64. */
#define MYLIB_QUICK_ON_GPU(X) \
    X(log, log_quick_f64) X(log1p, log1p_quick_f64) X(cbrt, cbrt_quick_f32) \
    X(erf, erf_quick_f64) X(arcsin, arcsin_quick_f64) X(arccos, arccos_quick_f64) \
    X(tan, tan_quick_f64) X(tanh, tanh_quick_f64) X(arctan, arctan_quick_f64) \
    X(exp2, exp2_quick_f64) X(log2, log2_quick_f64) X(log10, log10_quick_f64) \
    X(sinh, sinh_quick_f64) X(cosh, cosh_quick_f64) \
    X(arcsinh, arcsinh_quick_f64) X(arccosh, arccosh_quick_f64) X(arctanh, arctanh_quick_f64)
#define MYLIB_QUICK_BINARY_ON_GPU(X) \
    X(logaddexp, logaddexp_quick_f64) X(arctan2, arctan2_quick_f64) X(power, power_quick_f64)
/* c64: op_quick_c64(z). */
#define MYLIB_QUICK_COMPLEX(X) \
    X(exp) X(sin) X(cos) X(tan) X(sinh) X(cosh) X(tanh) X(log) X(log2) X(log10)
/* Those that share a kernel of a GPU, with power. */
#define MYLIB_QUICK_COMPLEX_TOGETHER(X) \
    X(expm1) X(log1p) X(arcsin) X(arccos) X(arctan) X(arcsinh) X(arccosh) X(arctanh)
#define MYLIB_IN_TWO_STEPS(X) \
    X(power, f64)
#define MYLIB_IN_TWO_STEPS_ON_CPU(X) \
    X(power, f32)
/* clang-format on */
