/*
 * functions.cuh - the functions of ops.h as types: function<OP, T>::apply(a, b), of the type
 * function<OP, T>::type.
 */
#ifndef MYLIB_FUNCTIONS_CUH
#define MYLIB_FUNCTIONS_CUH

#include "interpreter.cuh"
#include "../elementary.h"
#include "../plain_functions.h"

namespace
{

template <int OP, typename T> struct function {
    static constexpr bool is_defined = false;
};
#define FUNCTION(op, s, R, value)                                                                  \
    template <> struct function<MYLIB_OP_##op, t_##s> {                                            \
        static constexpr bool is_defined = true;                                                   \
        typedef R type;                                                                            \
        static __device__ __forceinline__ R apply(t_##s a, t_##s b)                                \
        {                                                                                          \
            (void)b;                                                                               \
            return value;                                                                          \
        }                                                                                          \
    };
#define FUNCTION_UNARY(op, s) FUNCTION(op, s, t_##s, op##_##s(a))
#define FUNCTION_BINARY(op, s) FUNCTION(op, s, t_##s, op##_##s(a, b))
#define FUNCTION_UNARY_REAL(op, s) FUNCTION(op, s, real_of<t_##s>::type, op##_##s(a))
#define FUNCTION_TEST(op, s) FUNCTION(op, s, t_bool, {(uint8_t)(op##_##s(a) != 0)})
#define ROW(kind, op, set) MYLIB_SET_##set(FUNCTION_##kind, op)
MYLIB_FUNCTIONS(ROW)
#undef ROW

/* Functions whose code would be long, were it repeated for as many elements as the others'. */
template <int OP>
constexpr bool is_long = OP == MYLIB_OP_arctan2 || OP == MYLIB_OP_power || OP == MYLIB_OP_logaddexp;

} // namespace

#endif /* MYLIB_FUNCTIONS_CUH */
