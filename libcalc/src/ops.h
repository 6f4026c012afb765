/*
 * ops.h - THE table: every element type, and every operation with the types it is defined for.
 *
 * Kernels of every CPU level, CUDA kernels, program opcodes, names and lookups expand it.
 * CONTRIBUTING.md says how to add an operation.
 *
 * A consumer passes a macro ROW(kind, op, set) to MYLIB_OPS and may expand MYLIB_SET_##set(X, op),
 * which calls X(op, s) for each type suffix s.
 */
#pragma once

/* DT(suffix, enumerator): the suffix is also the name. */
#define MYLIB_TYPES(DT) \
    DT(i8, I8) \
    DT(i16, I16) \
    DT(i32, I32) \
    DT(i64, I64) \
    DT(u8, U8) \
    DT(u16, U16) \
    DT(u32, U32) \
    DT(u64, U64) \
    DT(f16, F16) \
    DT(f32, F32) \
    DT(f64, F64) \
    DT(c64, C64) \
    DT(c128, C128)

/* All element types of arrays: those above, and those that no operation computes in. */
#define MYLIB_STORED_TYPES(DT) \
    MYLIB_TYPES(DT) \
    DT(bool, BOOL)

/* The class of a type: selects its family in scalar_ops.h and its kind of kernel. */
#define MYLIB_CLASS_i8 SIGNED
#define MYLIB_CLASS_i16 SIGNED
#define MYLIB_CLASS_i32 SIGNED
#define MYLIB_CLASS_i64 SIGNED
#define MYLIB_CLASS_u8 UNSIGNED
#define MYLIB_CLASS_u16 UNSIGNED
#define MYLIB_CLASS_u32 UNSIGNED
#define MYLIB_CLASS_u64 UNSIGNED
#define MYLIB_CLASS_f16 HALF
#define MYLIB_CLASS_f32 FLOAT
#define MYLIB_CLASS_f64 FLOAT
#define MYLIB_CLASS_c64 COMPLEX
#define MYLIB_CLASS_c128 COMPLEX
#define MYLIB_CLASS_bool BOOL

#define MYLIB_SET_INT(X, op) \
    X(op, i8) X(op, i16) X(op, i32) X(op, i64) X(op, u8) X(op, u16) X(op, u32) X(op, u64)
#define MYLIB_SET_FLOAT(X, op) X(op, f16) X(op, f32) X(op, f64)
#define MYLIB_SET_COMPLEX(X, op) X(op, c64) X(op, c128)

#define MYLIB_SET_REAL(X, op) MYLIB_SET_INT(X, op) MYLIB_SET_FLOAT(X, op)
#define MYLIB_SET_INEXACT(X, op) MYLIB_SET_FLOAT(X, op) MYLIB_SET_COMPLEX(X, op)
#define MYLIB_SET_ALL(X, op) MYLIB_SET_REAL(X, op) MYLIB_SET_COMPLEX(X, op)

/*
 * AS(op, logical): the operations of bool, each with the operation whose kernels compute it.
 * absolute has no kernel: it is a conversion to bool, and so are the operations listed with it.
 */
#define MYLIB_BOOL_OPS(AS) \
    AS(absolute, absolute) \
    AS(add, logical_or) \
    AS(multiply, logical_and) \
    AS(minimum, logical_and) \
    AS(maximum, logical_or) \
    AS(fmin, logical_and) \
    AS(fmax, logical_or) \
    AS(floor, absolute) \
    AS(ceil, absolute) \
    AS(trunc, absolute) \
    AS(real, absolute) \
    AS(logical_and, logical_and) \
    AS(logical_or, logical_or) \
    AS(logical_xor, logical_xor) \
    AS(logical_not, logical_not) \
    AS(bitwise_and, logical_and) \
    AS(bitwise_or, logical_or) \
    AS(bitwise_xor, logical_xor) \
    AS(invert, logical_not)

/*
 * ROW(kind, op, set).  UNARY_REAL is UNARY with a result of the real type, which differs for
 * complex inputs only.  COMPARE and LOGIC are BINARY with a result of type bool, TEST is UNARY with
 * one; REVERSED is COMPARE by the operation two rows before, with the inputs exchanged: it has no
 * kernels of its own.  The rows are in the order of the enumerators.
 *
 * Arithmetic and functions have separate kernels (on the CPU in cpu/kernels.c and
 * cpu/elementary.c), so that a new function does not change the machine code of arithmetic.
 */
#define MYLIB_ARITHMETIC(ROW) \
    ROW(BINARY, add, ALL) \
    ROW(BINARY, subtract, ALL) \
    ROW(BINARY, multiply, ALL) \
    ROW(BINARY, divide, ALL) \
    ROW(BINARY, floor_divide, REAL) \
    ROW(BINARY, remainder, REAL) \
    ROW(BINARY, minimum, ALL) \
    ROW(BINARY, maximum, ALL) \
    ROW(UNARY, negative, ALL) \
    ROW(UNARY_REAL, absolute, ALL) \
    ROW(UNARY, square, ALL) \
    ROW(UNARY, sqrt, INEXACT) \
    ROW(COMPARE, equal, ALL) \
    ROW(COMPARE, not_equal, ALL) \
    ROW(COMPARE, less, ALL) \
    ROW(COMPARE, less_equal, ALL) \
    ROW(REVERSED, greater, ALL) \
    ROW(REVERSED, greater_equal, ALL) \
    ROW(LOGIC, logical_and, ALL) \
    ROW(LOGIC, logical_or, ALL) \
    ROW(LOGIC, logical_xor, ALL) \
    ROW(TEST, logical_not, ALL) \
    ROW(BINARY, bitwise_and, INT) \
    ROW(BINARY, bitwise_or, INT) \
    ROW(BINARY, bitwise_xor, INT) \
    ROW(UNARY, invert, INT) \
    ROW(BINARY, left_shift, INT) \
    ROW(BINARY, right_shift, INT)

#define MYLIB_PLAIN_FUNCTIONS(ROW) \
    ROW(UNARY, rint, INEXACT) \
    ROW(UNARY, floor, REAL) \
    ROW(UNARY, ceil, REAL) \
    ROW(UNARY, trunc, REAL) \
    ROW(UNARY, sign, ALL) \
    ROW(TEST, signbit, FLOAT) \
    ROW(BINARY, copysign, FLOAT) \
    ROW(BINARY, nextafter, FLOAT) \
    ROW(UNARY, reciprocal, ALL) \
    ROW(UNARY, positive, ALL) \
    ROW(BINARY, fmod, REAL) \
    ROW(BINARY, fmin, ALL) \
    ROW(BINARY, fmax, ALL) \
    ROW(TEST, isnan, ALL) \
    ROW(TEST, isinf, ALL) \
    ROW(TEST, isfinite, ALL) \
    ROW(UNARY, conjugate, ALL) \
    ROW(UNARY_REAL, real, ALL) \
    ROW(UNARY_REAL, imag, ALL)

#define MYLIB_ELEMENTARY_FUNCTIONS(ROW) \
    ROW(UNARY, sin, INEXACT) \
    ROW(UNARY, cos, INEXACT) \
    ROW(UNARY, tan, INEXACT) \
    ROW(UNARY, deg2rad, FLOAT) \
    ROW(UNARY, rad2deg, FLOAT) \
    ROW(UNARY, exp, INEXACT) \
    ROW(UNARY, exp2, FLOAT) \
    ROW(UNARY, expm1, INEXACT) \
    ROW(UNARY, arcsin, INEXACT) \
    ROW(UNARY, arccos, INEXACT) \
    ROW(UNARY, arctan, INEXACT) \
    ROW(BINARY, arctan2, FLOAT) \
    ROW(UNARY, log, INEXACT) \
    ROW(UNARY, log2, INEXACT) \
    ROW(UNARY, log10, INEXACT) \
    ROW(UNARY, log1p, INEXACT) \
    ROW(UNARY, cbrt, FLOAT) \
    ROW(BINARY, hypot, FLOAT) \
    ROW(UNARY, sinh, INEXACT) \
    ROW(UNARY, cosh, INEXACT) \
    ROW(UNARY, tanh, INEXACT) \
    ROW(UNARY, arcsinh, INEXACT) \
    ROW(UNARY, arccosh, INEXACT) \
    ROW(UNARY, arctanh, INEXACT) \
    ROW(BINARY, power, ALL) \
    ROW(BINARY, logaddexp, FLOAT) \
    ROW(UNARY, erf, FLOAT)

#define MYLIB_FUNCTIONS(ROW) MYLIB_PLAIN_FUNCTIONS(ROW) MYLIB_ELEMENTARY_FUNCTIONS(ROW)

#define MYLIB_OPS(ROW) MYLIB_ARITHMETIC(ROW) MYLIB_FUNCTIONS(ROW)
