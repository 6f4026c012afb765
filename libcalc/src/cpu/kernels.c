/*
 * kernels.c - the CPU kernels, expanded from the table (ops.h): one translation unit with the
 * headers below.
 *
 * Compiled once per level with -DMYLIB_LEVEL=generic|v2|v3|v4, its name for users, and the
 * matching -march; its only global symbol is mylib_cpu_level_<LEVEL>.  cpu/dispatch.c chooses one
 * at run time.  With -DMYLIB_COMPLEX_OF=LEVEL complex quotients and reductions are that level's.
 */
#include "cpu/avx512.h"
#include "cpu/block_reduce.h"
#include "cpu/convert.h"
#include "cpu/division.h"
#include "cpu/elementwise.h"
#include "cpu/select.h"
#include "cpu/stream.h"
#include "cpu/truths.h"
#include "cpu/variants.h"

/* ---- Costly operations on strided operands ---- */

#define PACKED_KERNELS(PACKED) \
    PACKED(sqrt, f32, 8, 0, sizeof(t_f32), sqrt_kernel_f32) \
    PACKED(sqrt, f64, 8, 0, sizeof(t_f64), sqrt_kernel_f64) \
    PACKED(minimum, f32, 8, 1, sizeof(t_f32), minimum_quiet_f32) \
    PACKED(minimum, f64, 8, 1, sizeof(t_f64), minimum_quiet_f64) \
    PACKED(maximum, f32, 8, 1, sizeof(t_f32), maximum_quiet_f32) \
    PACKED(maximum, f64, 8, 1, sizeof(t_f64), maximum_quiet_f64) \
    PACKED(remainder, f32, 8, 1, sizeof(t_f32), REMAINDER_OF(f32)) \
    PACKED(remainder, f64, 8, 1, sizeof(t_f64), IN_VECTORS(remainder, f64)) \
    PACKED(absolute, c64, 64, 0, sizeof(t_f32), absolute_kernel_c64) \
    PACKED(absolute, c128, 64, 0, sizeof(t_f64), absolute_kernel_c128)
#define PACKED(op, s, least, binary, wo, kernel) \
    KERNEL(op##_packed_##s) \
    { \
        packed_kernel(kernel, least, binary, wo, sizeof(t_##s), n, out, so, a, sa, b, sb); \
    }
PACKED_KERNELS(PACKED)
#undef PACKED

/* ---- Lookup ---- */

static ALWAYS_INLINE mylib_kernel *lookup_special(mylib_op op, mylib_type type)
{
    switch ((int)op * MYLIB_TYPE_COUNT + (int)type) {
#define CASE(op, s, kernel) \
    case MYLIB_OP_##op *MYLIB_TYPE_COUNT + type_##s: \
        return kernel;
#define DIVISION(op, s) CASE(op, s, op##_division_##s)
        MYLIB_SET_INT(DIVISION, divide)
        MYLIB_SET_INT(DIVISION, floor_divide)
        MYLIB_SET_INT(DIVISION, remainder)
#undef DIVISION
#define QUIET(op, s) CASE(op, s, op##_quiet_##s)
        QUIET(minimum, f16)
        QUIET(maximum, f16)
        MYLIB_SET_COMPLEX(QUIET, minimum)
        MYLIB_SET_COMPLEX(QUIET, maximum)
#undef QUIET
#define VECTORS(op) CASE(op, f16, IN_VECTORS(op, f16))
        VECTORS(add)
        VECTORS(subtract)
        VECTORS(multiply)
        VECTORS(divide)
        CASE(remainder, f16, REMAINDER_OF(f16))
        VECTORS(square)
        VECTORS(sqrt)
        CASE(negative, f16, negative_sign_f16)
        CASE(absolute, f16, absolute_sign_f16)
#define PACKED(op, s, least, binary, wo, kernel) CASE(op, s, op##_packed_##s)
        PACKED_KERNELS(PACKED)
#undef PACKED
        CASE(add, c64, add_pairs_c64)
        CASE(add, c128, add_pairs_c128)
        CASE(subtract, c64, subtract_pairs_c64)
        CASE(subtract, c128, subtract_pairs_c128)
#if defined(HAS_V4)
        CASE(multiply, c64, multiply_product_c64)
        CASE(multiply, c128, multiply_product_c128)
        CASE(square, c64, square_product_c64)
        CASE(square, c128, square_product_c128)
#endif
#undef CASE
    default:
        return NULL;
    }
}

/* In cpu/elementary.c. */
mylib_kernel *PASTE(mylib_function_kernel_, MYLIB_LEVEL)(mylib_op op, mylib_type type);

/* Tells whether an operation is the same for signed and unsigned numbers, modulo 2^N. */
static ALWAYS_INLINE int is_modular(mylib_op op)
{
    return op == MYLIB_OP_add || op == MYLIB_OP_subtract || op == MYLIB_OP_multiply ||
           op == MYLIB_OP_negative || op == MYLIB_OP_square || op == MYLIB_OP_equal ||
           op == MYLIB_OP_not_equal || (op >= MYLIB_OP_logical_and && op <= MYLIB_OP_left_shift);
}

/* Tells whether another kernel is used, so that the one of the table need not be compiled. */
static ALWAYS_INLINE int is_replaced(mylib_op op, mylib_type type)
{
    return lookup_special(op, type) != NULL || (is_modular(op) && type <= MYLIB_I64) ||
           (op == MYLIB_OP_divide && is_of_other_level(type));
}

static mylib_kernel *lookup_kernel(mylib_op op, mylib_type type)
{
    if (type == MYLIB_BOOL) /* its bytes are true if they differ from 0, like a u8 */
        type = MYLIB_U8;
    mylib_kernel *special = lookup_special(op, type);
    if (special != NULL)
        return special;
    if (is_modular(op) && type <= MYLIB_I64)
        type = (mylib_type)(type + (MYLIB_U8 - MYLIB_I8));
    if (op == MYLIB_OP_divide && is_of_other_level(type))
        return COMPLEX_LEVEL.kernel(op, type);
    switch ((int)op * MYLIB_TYPE_COUNT + (int)type) {
#define CASE(op, s) \
    case MYLIB_OP_##op *MYLIB_TYPE_COUNT + type_##s: \
        return is_replaced(MYLIB_OP_##op, (mylib_type)type_##s) ? NULL : op##_kernel_##s;
#define ROW(kind, op, set) MYLIB_SET_##set(CASE, op)
        MYLIB_ARITHMETIC(ROW)
#undef ROW
#undef CASE
    default:
        return PASTE(mylib_function_kernel_, MYLIB_LEVEL)(op, type);
    }
}

/* ---- The level ---- */

const mylib_cpu_level PASTE(mylib_cpu_level_, MYLIB_LEVEL) = {
    .name = MYLIB_LEVEL_NAME,
    .kernel = lookup_kernel,
    .convert = convert,
    .selection = lookup_selection,
    .block_reduce = lookup_block_reduce,
    .block_dot = lookup_block_dot,
    .column_sums = column_sums,
    .truths = truths,
    .truths_of_columns = truths_of_columns,
    .lines = lookup_lines,
    .stream_copy = stream_copy,
    .stream_fence = stream_fence,
};
