/*
 * elementary.c - the CPU kernels of the functions of ops.h, compiled once for each level.
 *
 * A unit of its own, because its compiler flags differ from those of kernels.c.  It uses fused
 * multiply-adds if the processor has them: the functions call fma by name.  And it ignores
 * floating-point exceptions, which the functions raise at random: those to report are found from
 * operands and results (warnings.h).
 *
 * A function is a loop over whole groups of contiguous elements; all else is packed in blocks.
 *
 * With -DMYLIB_ELEMENTARY_OF=LEVEL it compiles only the plain functions, and uses that level's
 * elementary ones.
 */
#include <stdatomic.h>

#include "cpu/half.h"
#include "cpu/lanes.h"
#include "cpu/loops.h"
#include "elementary.h"
#include "plain_functions.h"
#include "warnings.h"

/* ---- Blocks ---- */

/* Bytes of one operand that are computed at once, then checked for warnings while in cache. */
#define BLOCK_NBYTES 4096
#define PACKED_NBYTES 2048 /* if operands are packed, on the stack */

/* out[i] = op(a[i], b[i]) for whole groups; returns 0 if none raises a flag; `out` is no input.  A
   unary function gets the `b` of run_function(). */
typedef int function_loop(ptrdiff_t groups, char *out, const char *a, const char *b);

/* Returns the flags of n contiguous elements; `b` is `a` for unary functions. */
typedef int function_flags(mylib_op op, ptrdiff_t n, const char *out, const char *a, const char *b);

typedef struct function {
    mylib_op op;
    function_loop *loop;
    function_flags *flags; /* NULL if it raises none */
    int is_binary;
    ptrdiff_t size, out_size, group; /* bytes of an element, and elements of a group */
} function;

/* Pads the group by repeating the last element. */
static void pack(const function *f, ptrdiff_t m, ptrdiff_t padded, char *to, const char *from,
                 ptrdiff_t stride)
{
    mylib_copy_strided((size_t)f->size, m, to, f->size, from, stride);
    mylib_copy_strided((size_t)f->size, padded - m, to + m * f->size, f->size,
                       to + (m - 1) * f->size, 0);
}

static void run_function(const function *f, ptrdiff_t n, char *out, ptrdiff_t so, const char *a,
                         ptrdiff_t sa, const char *b, ptrdiff_t sb)
{
    _Alignas(64) char pa[PACKED_NBYTES], pb[PACKED_NBYTES], po[PACKED_NBYTES];
    const ptrdiff_t w = f->size > f->out_size ? f->size : f->out_size;
    const int before = mylib_test_flags();
    /* Loops may read inputs again after they wrote results.  Operands that overlap, but are not the
       same, come one element at a time. */
    const int packs_out = so != f->out_size || n == 1 || out == a || out == b;
    int flags = 0;
    const int packs_any = packs_out || sa != f->size || (f->is_binary && sb != f->size);
    const ptrdiff_t most = (packs_any ? PACKED_NBYTES : BLOCK_NBYTES) / w / f->group * f->group;
    while (n > 0) {
        ptrdiff_t m = n < most ? n : most;
        const int is_whole = m % f->group == 0;
        if (!is_whole && m > f->group)
            m -= m % f->group;
        const ptrdiff_t padded = (m + f->group - 1) / f->group * f->group;
        const int packs = padded != m;
        const char *x = a, *y = b;
        char *result = packs || packs_out ? po : out;
        if (packs || sa != f->size) {
            pack(f, m, padded, pa, a, sa);
            x = pa;
        }
        if (!f->is_binary) {
            y = x;
        } else if (packs || sb != f->size) {
            pack(f, m, padded, pb, b, sb);
            y = pb;
        }
        const int may_warn = f->loop(padded / f->group, result, x, f->is_binary ? y : b);
        if (may_warn && f->flags != NULL)
            flags |= f->flags(f->op, m, result, x, y);
        if (result == po)
            mylib_copy_strided((size_t)f->out_size, m, out, so, po, f->out_size);
        n -= m;
        out += m * so;
        a += m * sa;
        b += m * sb;
    }
    mylib_restore_flags(before | flags);
}

/* ---- Flags ---- */

static const int flag_of_warning[] = {0, FE_INVALID, FE_DIVBYZERO, FE_OVERFLOW};

/*
 * Does for n elements what warning_of_real() does for one, without branches and comparisons: the
 * highest bit of each word tells whether something holds.  Bits without the sign compare as sizes
 * do.  A pole is at 0, at -1, or at 1 and -1.
 */
#define DEFINE_FLAGS(s, U, INFINITE, ONE) \
    NOINLINE static int is_any_special_##s(ptrdiff_t n, const char *out) \
    { \
        U found = 0; \
        for (ptrdiff_t i = 0; i < n; i++) { \
            U z; \
            memcpy(&z, out + i * (ptrdiff_t)sizeof z, sizeof z); \
            found |= (U)((z & (INFINITE)) == (INFINITE)); \
        } \
        return found != 0; \
    } \
    NOINLINE static int flags_##s(mylib_op op, ptrdiff_t n, const char *out, const char *a, \
                                  const char *b) \
    { \
        const ptrdiff_t w = sizeof(U); \
        const U size = (U)-1 >> 1, infinite = INFINITE, nan = (INFINITE) + 1; \
        const int is_odd = is_pole(op, -1) && !is_pole(op, 1); \
        const U mask = is_odd ? (U)-1 : size; \
        const U pole = is_odd ? (U)(~size | (ONE)) : is_pole(op, 1) ? (ONE) : 0; \
        const U has_no_pole = is_pole(op, -1) || is_pole(op, 0) ? 0 : (U)-1; \
        const U limit = op == MYLIB_OP_nextafter ? nan : infinite; \
        U invalid = 0, overflow = 0, divided = 0; \
        n = is_any_special_##s(n, out) ? n : 0; \
        for (ptrdiff_t i = 0; i < n; i++) { \
            U x, y, z; \
            memcpy(&x, a + i * w, sizeof x); \
            memcpy(&y, b + i * w, sizeof y); \
            memcpy(&z, out + i * w, sizeof z); \
            const U away = (U)((x & mask) ^ pole); \
            const U is_away = (U)(away | (U)(0 - away) | has_no_pole); \
            x &= size, y &= size, z &= size; \
            const U is_infinite = \
                (U)((U)(z - nan) & ~(U)(z - infinite) & (U)(x - infinite) & (U)(y - limit)); \
            invalid |= (U)((U)(infinite - z) & (U)(x - nan) & (U)(y - nan)); \
            overflow |= (U)(is_infinite & is_away); \
            divided |= (U)(is_infinite & ~is_away); \
        } \
        return (invalid > size ? FE_INVALID : 0) | (divided > size ? FE_DIVBYZERO : 0) | \
               (overflow > size ? FE_OVERFLOW : 0); \
    }
DEFINE_FLAGS(f16, uint16_t, 0x7c00, 0x3c00)
DEFINE_FLAGS(f32, uint32_t, 0x7f800000, 0x3f800000)
DEFINE_FLAGS(f64, uint64_t, 0x7ff0000000000000, 0x3ff0000000000000)

NOINLINE static int flag_of_complex(mylib_op op, t_c128 x, t_c128 y, double part)
{
    return flag_of_warning[warning_of_complex(op, x, y, part)];
}
#define DEFINE_COMPLEX_FLAGS(s, r) \
    NOINLINE static int flags_##s(mylib_op op, ptrdiff_t n, const char *out, const char *a, \
                                  const char *b) \
    { \
        const ptrdiff_t w = sizeof(t_##s); \
        int flags = 0; \
        n = is_any_special_##r(2 * n, out) ? n : 0; \
        for (ptrdiff_t i = 0; i < n; i++) { \
            const t_##s x = load_##s(a + i * w), y = load_##s(b + i * w); \
            const t_##s z = load_##s(out + i * w); \
            const t_c128 p = make_c128(x.re, x.im), q = make_c128(y.re, y.im); \
            flags |= flag_of_complex(op, p, q, z.re) | flag_of_complex(op, p, q, z.im); \
        } \
        return flags; \
    }
DEFINE_COMPLEX_FLAGS(c64, f32)
DEFINE_COMPLEX_FLAGS(c128, f64)

/* ---- Functions of floats and of complex numbers ---- */

#if defined(__AVX512BW__)
#define VECTOR_NBYTES 64
#elif defined(__AVX2__)
#define VECTOR_NBYTES 32
#else
#define VECTOR_NBYTES 16
#endif

/* The elements of a group fill a vector of the smaller type. */
#define GROUP(s, r) \
    (VECTOR_NBYTES / (sizeof(t_##s) < sizeof(t_##r) ? sizeof(t_##s) : sizeof(t_##r)))

#define ELEMENT(s, p) load_##s((p) + i * (ptrdiff_t)sizeof(t_##s))
#define STORE(s, value) store_##s(out + i * (ptrdiff_t)sizeof(t_##s), value)

/*
 * gcc does not inline a long function with several callers, which leaves the loop scalar.  Without
 * hardware fused multiply-adds loops are scalar anyway: the emulation branches.
 */
#if defined(__FMA__) || defined(__aarch64__)
#define FLATTENED __attribute__((flatten))
#else
#define FLATTENED
#endif

#define FUNCTION_LOOP(op, s, r, value) \
    NOINLINE FLATTENED static int op##_loop_##s(ptrdiff_t groups, char *out, const char *a, \
                                                const char *b) \
    { \
        const ptrdiff_t n = groups * (ptrdiff_t)GROUP(s, r); \
        (void)b; \
        NO_DEPENDENCE for (ptrdiff_t i = 0; i < n; i++) STORE(r, value); \
        return 1; \
    }
#define FUNCTION_KERNEL(op, s, r, is_binary, group, loop) \
    KERNEL(op##_kernel_##s) \
    { \
        const function f = { \
            MYLIB_OP_##op, loop,          can_warn(MYLIB_OP_##op) ? flags_##s : NULL, \
            is_binary,     sizeof(t_##s), sizeof(t_##r), \
            group}; \
        run_function(&f, n, out, so, a, sa, b, sb); \
    }
#define FUNCTION(op, s, r, is_binary, value) \
    FUNCTION_LOOP(op, s, r, value) \
    FUNCTION_KERNEL(op, s, r, is_binary, GROUP(s, r), op##_loop_##s)
#define UNARY(op, s) FUNCTION(op, s, s, 0, op##_##s(ELEMENT(s, a)))
#define PART_c64(op, s) FUNCTION(op, s, f32, 0, op##_##s(ELEMENT(s, a)))
#define PART_c128(op, s) FUNCTION(op, s, f64, 0, op##_##s(ELEMENT(s, a)))
#define PART(op, s) PART_##s(op, s)
#define BINARY(op, s) FUNCTION(op, s, s, 1, op##_##s(ELEMENT(s, a), ELEMENT(s, b)))
#define TEST(op, s) FUNCTION(op, s, u8, 0, (uint8_t)op##_##s(ELEMENT(s, a)))

/* ---- Functions of integers ---- */

/* power and reciprocal of integers take no less time in vectors. */
#define GAINS_BY_VECTORS(op) \
    (MYLIB_OP_##op != MYLIB_OP_power && MYLIB_OP_##op != MYLIB_OP_reciprocal)

/* These raise their own flags.  Compilers take the strides of the first loop for constants. */
#define INTEGER(op, s, r, arity, value) \
    KERNEL(op##_kernel_##s) \
    { \
        const ptrdiff_t w = sizeof(t_##s); \
        if (GAINS_BY_VECTORS(op) && so == (ptrdiff_t)sizeof(t_##r) && sa == w && \
            ((arity) == 1 || sb == w)) { \
            NO_DEPENDENCE for (ptrdiff_t i = 0; i < n; i++) \
                store_##r(out + i * so, (t_##r)(value)); \
        } else { \
            for (ptrdiff_t i = 0; i < n; i++) \
                store_##r(out + i * so, (t_##r)(value)); \
        } \
    }
#define INTEGER_UNARY(op, s) INTEGER(op, s, s, 1, op##_##s(load_##s(a + i * sa)))
#define INTEGER_BINARY(op, s) \
    INTEGER(op, s, s, 2, op##_##s(load_##s(a + i * sa), load_##s(b + i * sb)))
#define INTEGER_TEST(op, s) INTEGER(op, s, u8, 1, op##_##s(load_##s(a + i * sa)))

/* Many functions of integers, and some of floats, return the operand or one constant. */
#define MOVES(size) \
    KERNEL(copy_##size) { mylib_copy_strided(size, n, out, so, a, sa); } \
    KERNEL(zeros_##size) \
    { \
        static const char zero[size]; \
        (void)a, (void)sa; \
        mylib_copy_strided(size, n, out, so, zero, 0); \
    }
MOVES(1)
MOVES(2)
MOVES(4)
MOVES(8)
MOVES(16)
KERNEL(ones_1)
{
    static const char one[1] = {1};
    (void)a, (void)sa;
    mylib_copy_strided(1, n, out, so, one, 0);
}

static ALWAYS_INLINE mylib_kernel *move_or(mylib_op op, int type_class, size_t size,
                                           mylib_kernel *otherwise)
{
#define OF_SIZE(name) \
    (size == 1   ? name##_1 \
     : size == 2 ? name##_2 \
     : size == 4 ? name##_4 \
     : size == 8 ? name##_8 \
                 : name##_16)
    const int is_integer = type_class <= UNSIGNED, is_real = type_class != COMPLEX;
    switch ((int)op) {
    case MYLIB_OP_positive:
        return OF_SIZE(copy);
    case MYLIB_OP_floor:
    case MYLIB_OP_ceil:
    case MYLIB_OP_trunc:
        return is_integer ? OF_SIZE(copy) : otherwise;
    case MYLIB_OP_conjugate:
    case MYLIB_OP_real:
        return is_real ? OF_SIZE(copy) : otherwise;
    case MYLIB_OP_imag:
        return is_real ? OF_SIZE(zeros) : otherwise;
    case MYLIB_OP_fmin: /* mylib_op_base() */
    case MYLIB_OP_fmax:
        return is_integer ? NULL : otherwise;
    case MYLIB_OP_isnan:
    case MYLIB_OP_isinf:
        return is_integer ? zeros_1 : otherwise;
    case MYLIB_OP_isfinite:
        return is_integer ? ones_1 : otherwise;
    default:
        return otherwise;
    }
}

/* ---- The table ---- */

#define DEFINE_UNARY(op, s) BY_CLASS(s, INTEGER_UNARY, HALF_UNARY, UNARY, UNARY)(op, s)
#define DEFINE_UNARY_REAL(op, s) BY_CLASS(s, INTEGER_UNARY, HALF_UNARY, UNARY, PART)(op, s)
#define DEFINE_BINARY(op, s) BY_CLASS(s, INTEGER_BINARY, HALF_BINARY, BINARY, BINARY)(op, s)
#define DEFINE_TEST(op, s) BY_CLASS(s, INTEGER_TEST, HALF_TEST, TEST, TEST)(op, s)
#define ROW(kind, op, set) MYLIB_SET_##set(DEFINE_##kind, op)
MYLIB_PLAIN_FUNCTIONS(ROW)
#undef ROW

/* A function of f16 that is not computed in f32. */
#define MYLIB_OP_nextafter_own MYLIB_OP_nextafter
FUNCTION(nextafter_own, f16, f16, 1, nextafter_f16(ELEMENT(f16, a), ELEMENT(f16, b)))

/* ---- Elementary functions ---- */

#if !defined(MYLIB_ELEMENTARY_OF)

/*
 * Elements that are computed at once: four vectors of f64, in which most functions of all types are
 * computed.  The compiler interleaves their dependency chains: `restrict` allows it, and
 * CMakeLists.txt sets its flags.
 */
#if defined(__FMA__) || defined(__aarch64__)
#define AT_ONCE (4 * VECTOR_NBYTES / (ptrdiff_t)sizeof(double))
#define MIXED VECTORS_MIXED
#else
#define AT_ONCE 1
#define MIXED
#endif
/* Functions of two f64 are so long that AVX2 has too few registers for four vectors of them. */
#if defined(__AVX2__) && !defined(__AVX512BW__)
#define LONG_AT_ONCE_f64 (AT_ONCE > 1 ? AT_ONCE / 2 : 1)
#else
#define LONG_AT_ONCE_f64 AT_ONCE
#endif
#define LONG_AT_ONCE_f32 AT_ONCE
#define FOR_GROUPS_OF(group, i, n) \
    for (ptrdiff_t first = 0; first < (n); first += (group)) \
    NO_DEPENDENCE MIXED for (ptrdiff_t i = first; i < first + (group); i++)
#define FOR_GROUPS(i, n) FOR_GROUPS_OF(AT_ONCE, i, n)

#define ELEMENTARY_LOOP(op, s, value) \
    NOINLINE FLATTENED static int op##_loop_##s(ptrdiff_t groups, char *restrict out, \
                                                const char *restrict a, const char *restrict b) \
    { \
        (void)b; \
        FOR_GROUPS(i, groups *AT_ONCE) STORE(s, value); \
        return 1; \
    }

#define WORD_f32 uint32_t
#define WORD_f64 uint64_t

/* Lists the functions that may overflow, and so raise flags, without a hard or rare argument. */
#define RAISES_MORE(op) (MYLIB_OP_##op == MYLIB_OP_power || MYLIB_OP_##op == MYLIB_OP_logaddexp)

/*
 * Hard arguments are computed one by one after the rest, which is vector code.  One loop computes
 * the easy values and detects hard arguments, since the two may share their first steps.
 */
#define HARD_LOOP(op, s, group, arguments) \
    NOINLINE FLATTENED static int op##_easy_loop_##s( \
        ptrdiff_t n, char *restrict out, const char *restrict a, const char *restrict b) \
    { \
        WORD_##s is_any_hard = 0; \
        (void)b; \
        FOR_GROUPS_OF(group, i, n) \
        { \
            is_any_hard |= (WORD_##s)op##_is_hard_##s arguments; \
            STORE(s, op##_easy_##s arguments); \
        } \
        return is_any_hard != 0; \
    } \
    NOINLINE static int op##_hard_loop_##s(ptrdiff_t groups, char *out, const char *a, \
                                           const char *b) \
    { \
        const ptrdiff_t n = groups * AT_ONCE; \
        if (!op##_easy_loop_##s(n, out, a, b)) \
            return RAISES_MORE(op); \
        for (ptrdiff_t i = 0; i < n; i++) { \
            STAYS_SCALAR; \
            if (op##_is_hard_##s arguments) \
                STORE(s, op##_hard_##s arguments); \
        } \
        return 1; \
    }
#define HARD(op, s) HARD_LOOP(op, s, AT_ONCE, (ELEMENT(s, a)))
#define HARD_BINARY(op, s) HARD_LOOP(op, s, LONG_AT_ONCE_##s, (ELEMENT(s, a), ELEMENT(s, b)))
MYLIB_HARD(HARD)
MYLIB_HARD_ON_CPU(HARD)
MYLIB_HARD_BINARY(HARD_BINARY)
MYLIB_HARD_BINARY_ON_CPU(HARD_BINARY)
#undef HARD

#define CHUNK 256

/* A processor keeps more elements of a short loop in flight; rare arguments repeat a chunk. */
#define TWO_STEPS(op, s) \
    NOINLINE FLATTENED static void op##_rare_loop_##s(ptrdiff_t n, char *out, const char *a, \
                                                      const char *b) \
    { \
        NO_DEPENDENCE for (ptrdiff_t i = 0; i < n; i++) \
            STORE(s, op##_##s(ELEMENT(s, a), ELEMENT(s, b))); \
    } \
    NOINLINE FLATTENED static void op##_first_loop_##s( \
        ptrdiff_t n, double *restrict hi, double *restrict lo, const char *restrict a) \
    { \
        FOR_GROUPS_OF(LONG_AT_ONCE_##s, i, n) \
        { \
            const t_dd value = op##_first_##s(ELEMENT(s, a)); \
            hi[i] = value.hi; \
            lo[i] = value.lo; \
        } \
    } \
    NOINLINE FLATTENED static int op##_second_loop_##s( \
        ptrdiff_t n, char *restrict out, const char *restrict a, const char *restrict b, \
        const double *restrict hi, const double *restrict lo) \
    { \
        WORD_##s is_any_rare = 0; \
        FOR_GROUPS_OF(LONG_AT_ONCE_##s, i, n) \
        { \
            const t_##s x = ELEMENT(s, a), y = ELEMENT(s, b); \
            const t_dd value = make_dd(hi[i], lo[i]); \
            is_any_rare |= op##_is_rare_##s(x, y, value); \
            STORE(s, op##_second_##s(x, y, value)); \
        } \
        return is_any_rare != 0; \
    } \
    NOINLINE static int op##_steps_##s(ptrdiff_t groups, char *out, const char *a, const char *b) \
    { \
        double hi[CHUNK], lo[CHUNK]; \
        ptrdiff_t n = groups * AT_ONCE, size = sizeof(t_##s); \
        int may_warn = type_##s == type_f32; /* infinite results of f64 are rare */ \
        for (ptrdiff_t m; n > 0; n -= m, out += m * size, a += m * size, b += m * size) { \
            m = n < CHUNK ? n : CHUNK; \
            op##_first_loop_##s(m, hi, lo, a); \
            if (!op##_second_loop_##s(m, out, a, b, hi, lo)) \
                continue; \
            op##_rare_loop_##s(m, out, a, b); \
            may_warn = 1; \
        } \
        return may_warn; \
    }
MYLIB_IN_TWO_STEPS(TWO_STEPS)
MYLIB_IN_TWO_STEPS_ON_CPU(TWO_STEPS)
#undef TWO_STEPS

/*
 * A function with a quick way.  The loop for any elements computes groups with a rare element
 * again.  A group in pairs of f32 is four vectors of f32.
 */
#if defined(MYLIB_HAS_QUICK)
#define AT_ONCE_F32 (4 * VECTOR_NBYTES / (ptrdiff_t)sizeof(float))
#define IS_RARE_f32(word) (word)
#define IS_RARE_f64(word) ((word) >> 63)
#define QUICK_LOOP(op, s, type, group, any_loop, call) \
    NOINLINE FLATTENED static uint32_t op##_quick_loop_##s( \
        ptrdiff_t groups, uint32_t *restrict is_rare, char *restrict out, const char *restrict a, \
        const char *restrict b) \
    { \
        (void)b; \
        const ptrdiff_t n = groups * (group); \
        uint32_t is_any_group = 0; \
        for (ptrdiff_t first = 0; first < n; first += (group)) { \
            WORD_##s is_any_rare = 0; \
            NO_DEPENDENCE MIXED for (ptrdiff_t i = first; i < first + (group); i++) \
            { \
                const type quick = call; \
                is_any_rare |= quick.is_rare; \
                STORE(s, quick.value); \
            } \
            *is_rare = (uint32_t)IS_RARE_##s(is_any_rare); \
            is_any_group |= *is_rare++; \
        } \
        return is_any_group; \
    } \
    OR_ANY_LOOP(op, s, quick, group, any_loop)
/* The loop of that `way`; any_loop computes groups with rare elements. */
#define OR_ANY_LOOP(op, s, way, group, any_loop) \
    static function_loop any_loop; \
    NOINLINE static int op##_##way##_or_any_##s(ptrdiff_t groups, char *out, const char *a, \
                                                const char *b) \
    { \
        uint32_t is_rare[BLOCK_NBYTES / sizeof(t_##s) / (group)]; \
        const ptrdiff_t size = (group) * (ptrdiff_t)sizeof(t_##s); \
        if (!op##_##way##_loop_##s(groups, is_rare, out, a, b)) \
            return RAISES_MORE(op); \
        for (ptrdiff_t k = 0, end; k < groups; k = end) { \
            end = k + 1; \
            if (!is_rare[k]) \
                continue; \
            while (end < groups && is_rare[end]) \
                end++; \
            any_loop((end - k) * ((group) / AT_ONCE), out + k * size, a + k * size, b + k * size); \
        } \
        return 1; \
    }
#define QUICK(op) \
    QUICK_LOOP(op, f32, t_quick, AT_ONCE_F32, op##_loop_f32, op##_quick_f32(ELEMENT(f32, a)))
#define ORDINARY(op) \
    QUICK_LOOP(op, f64, t_quick_f64, AT_ONCE, op##_loop_f64, op##_ordinary_f64(ELEMENT(f64, a)))
#define QUICK_WIDE(op, way, any_loop) \
    QUICK_LOOP(op, f32, t_quick, AT_ONCE, any_loop, way(ELEMENT(f32, a)))
#define QUICK_BINARY(op, way, any_loop) \
    QUICK_LOOP(op, f32, t_quick, AT_ONCE, any_loop, way(ELEMENT(f32, a), ELEMENT(f32, b)))
MYLIB_QUICK(QUICK)
MYLIB_ORDINARY(ORDINARY)
#if VECTOR_NBYTES == 64
MYLIB_QUICK_IN_F64(QUICK_WIDE)
#endif
MYLIB_QUICK_BINARY(QUICK_BINARY)
#if VECTOR_NBYTES == 64
#define LANES(op) LANES_LOOP(op, LANES_OF_ONE) OR_ANY_LOOP(op, f32, lanes, AT_ONCE, op##_loop_f32)
#define LANES_BINARY(op, any_loop) \
    LANES_LOOP(op, LANES_OF_TWO) OR_ANY_LOOP(op, f32, lanes, AT_ONCE, any_loop)
MYLIB_LANES(LANES)
MYLIB_LANES_BINARY(LANES_BINARY)
#undef LANES_BINARY
#undef LANES
#endif
#undef ORDINARY
#undef QUICK
#endif

typedef struct half_table {
    _Atomic(int64_t) seen; /* elements; negative when filled */
    uint16_t result[65536];
} half_table;

static int look_up(ptrdiff_t groups, char *out, const char *a, const char *table)
{
    typedef uint16_t eight __attribute__((vector_size(16)));
    for (; groups > 0; groups--, out += sizeof(eight), a += sizeof(eight)) {
        eight z;
        for (ptrdiff_t k = 0; k < 8; k++)
            z[k] = load_u16(table + 2 * (ptrdiff_t)load_u16(a + 2 * k));
        memcpy(out, &z, sizeof z);
    }
    return 1;
}

typedef struct own_loop {
    function_loop *loop;
    ptrdiff_t group;
} own_loop;

/* Computes in f64, whose error decides no f16: all arguments were tried.  `f64` is an own_loop. */
static int compute_in_f64(ptrdiff_t groups, char *out, const char *a, const char *f64)
{
    const own_loop *own = (const void *)f64;
    enum { MOST = 128 }; /* for little stack */
    _Alignas(64) float z[MOST];
    _Alignas(64) char x[MOST * sizeof(double)], y[MOST * sizeof(double)];
    for (ptrdiff_t m, n = groups * AT_ONCE; n > 0; n -= m, out += 2 * m, a += 2 * m) {
        m = n < MOST ? n : MOST;
        widen(m, z, a);
        NO_DEPENDENCE for (ptrdiff_t i = 0; i < m; i++)
            store_f64(x + i * (ptrdiff_t)sizeof(double), z[i]);
        own->loop(m / own->group, y, x, x);
        narrow_to_odd(m, z, y);
        narrow(m, out, z);
        NO_DEPENDENCE for (ptrdiff_t i = 0; i < m; i++) /* a NaN's sign depends on its neighbours */
        {
            const uint16_t u = load_u16(out + 2 * i);
            store_u16(out + 2 * i, (u & 0x7fff) > 0x7c00 ? 0x7e00 : u);
        }
    }
    return 1;
}

/*
 * Looks up long rows, once they had four times the elements of the table.  While a thread fills it,
 * others compute, as a child of fork() does for good.
 */
static void run_half_function(mylib_op op, own_loop f64, half_table *t, ptrdiff_t n, char *out,
                              ptrdiff_t so, const char *a, ptrdiff_t sa)
{
    function f = {op, compute_in_f64, flags_f16, 0, 2, 2, AT_ONCE};
    const char *context = (const char *)&f64;
    char *results = (char *)t->result;
    if (n >= 512 && atomic_load(&t->seen) >= 0) {
        const int64_t before = atomic_fetch_add(&t->seen, n), enough = 4 * 65536;
        if (before < enough && before + n >= enough) {
            for (int i = 0; i < 65536; i++)
                t->result[i] = (uint16_t)i;
            f.flags = NULL;
            run_function(&f, 65536, results, 2, results, 2, context, 0);
            f.flags = flags_f16;
            atomic_store(&t->seen, INT64_MIN);
        }
    }
    if (n >= 512 && atomic_load(&t->seen) < 0) {
        f.loop = look_up;
        f.group = 8;
        context = results;
    }
    run_function(&f, n, out, so, a, sa, context, 0);
}

static ALWAYS_INLINE own_loop own_loop_or(mylib_op op, int type, function_loop *otherwise)
{
#if defined(MYLIB_HAS_QUICK)
#define QUICK(op_, way, any_loop) \
    if (op == MYLIB_OP_##op_ && type == type_f32) \
        return (own_loop){op_##_quick_or_any_f32, AT_ONCE};
#if VECTOR_NBYTES == 64
#define LANES(op_) \
    if (op == MYLIB_OP_##op_ && type == type_f32) \
        return (own_loop){op_##_lanes_or_any_f32, AT_ONCE};
#define LANES_BINARY(op_, any_loop) LANES(op_)
    MYLIB_LANES(LANES)
    MYLIB_LANES_BINARY(LANES_BINARY)
#undef LANES_BINARY
#undef LANES
    MYLIB_QUICK_IN_F64(QUICK)
#endif
    MYLIB_QUICK_BINARY(QUICK)
#undef QUICK
#endif
    switch ((int)op * MYLIB_TYPE_COUNT + type) {
#define CASE(op, s, loop, group) \
    case MYLIB_OP_##op *MYLIB_TYPE_COUNT + type_##s: \
        return (own_loop){loop, group};
#define HARD(op, s) CASE(op, s, op##_hard_loop_##s, AT_ONCE)
#define TWO_STEPS(op, s) CASE(op, s, op##_steps_##s, AT_ONCE)
        MYLIB_HARD(HARD)
        MYLIB_HARD_ON_CPU(HARD)
        MYLIB_HARD_BINARY(HARD)
        MYLIB_HARD_BINARY_ON_CPU(HARD)
        MYLIB_IN_TWO_STEPS(TWO_STEPS)
        MYLIB_IN_TWO_STEPS_ON_CPU(TWO_STEPS)
#if defined(MYLIB_HAS_QUICK)
#define QUICK(op) CASE(op, f32, op##_quick_or_any_f32, AT_ONCE_F32)
#define ORDINARY(op) CASE(op, f64, op##_quick_or_any_f64, AT_ONCE)
        MYLIB_QUICK(QUICK)
        MYLIB_ORDINARY(ORDINARY)
#undef ORDINARY
#undef QUICK
#endif
#undef TWO_STEPS
#undef HARD
#undef CASE
    default:
        return (own_loop){otherwise, AT_ONCE};
    }
}

#define OWN_LOOP(op, s) own_loop_or(MYLIB_OP_##op, type_##s, op##_loop_##s)
#define ELEMENTARY_KERNEL(op, s, is_binary) \
    FUNCTION_KERNEL(op, s, s, is_binary, OWN_LOOP(op, s).group, OWN_LOOP(op, s).loop)
#define HALF_OF_ONE(op, s) \
    static function_loop op##_loop_f64; \
    KERNEL(op##_kernel_##s) \
    { \
        static half_table table; \
        run_half_function(MYLIB_OP_##op, OWN_LOOP(op, f64), &table, n, out, so, a, sa); \
    }
#define FLOAT_UNARY(op, s) \
    ELEMENTARY_LOOP(op, s, op##_##s(ELEMENT(s, a))) \
    ELEMENTARY_KERNEL(op, s, 0)
#define FLOAT_BINARY(op, s) \
    ELEMENTARY_LOOP(op, s, op##_##s(ELEMENT(s, a), ELEMENT(s, b))) \
    ELEMENTARY_KERNEL(op, s, 1)
#define COMPLEX(op, s, is_binary, value) \
    NOINLINE static int op##_loop_##s(ptrdiff_t n, char *out, const char *a, const char *b) \
    { \
        (void)b; \
        for (ptrdiff_t i = 0; i < n; i++) \
            STORE(s, value); \
        return 1; \
    } \
    FUNCTION_KERNEL(op, s, s, is_binary, 1, op##_loop_##s)
#define COMPLEX_UNARY(op, s) COMPLEX(op, s, 0, op##_##s(ELEMENT(s, a)))
#define COMPLEX_BINARY(op, s) COMPLEX(op, s, 1, op##_##s(ELEMENT(s, a), ELEMENT(s, b)))
#define ELEMENTARY_UNARY(op, s) BY_CLASS(s, , HALF_OF_ONE, FLOAT_UNARY, COMPLEX_UNARY)(op, s)
#define ELEMENTARY_BINARY(op, s) \
    BY_CLASS(s, INTEGER_BINARY, FLOAT_BINARY, FLOAT_BINARY, COMPLEX_BINARY)(op, s)
#define ROW(kind, op, set) MYLIB_SET_##set(ELEMENTARY_##kind, op)
MYLIB_ELEMENTARY_FUNCTIONS(ROW)
#undef ROW

#define MYLIB_OWN_FUNCTIONS(ROW) MYLIB_FUNCTIONS(ROW)
#define OTHER_KERNEL(op, type) NULL
#else
mylib_kernel *PASTE(mylib_function_kernel_, MYLIB_ELEMENTARY_OF)(mylib_op op, mylib_type type);

#define MYLIB_OWN_FUNCTIONS(ROW) MYLIB_PLAIN_FUNCTIONS(ROW)
#define OTHER_KERNEL(op, type) PASTE(mylib_function_kernel_, MYLIB_ELEMENTARY_OF)(op, type)
#endif

/* ---- Lookup ---- */

mylib_kernel *PASTE(mylib_function_kernel_, MYLIB_LEVEL)(mylib_op op, mylib_type type);
mylib_kernel *PASTE(mylib_function_kernel_, MYLIB_LEVEL)(mylib_op op, mylib_type type)
{
    if (op == MYLIB_OP_nextafter && type == MYLIB_F16)
        return nextafter_own_kernel_f16;
    switch ((int)op * MYLIB_TYPE_COUNT + (int)type) {
#define CASE(op, s) \
    case MYLIB_OP_##op *MYLIB_TYPE_COUNT + type_##s: \
        return move_or(MYLIB_OP_##op, MYLIB_CLASS_##s, sizeof(t_##s), op##_kernel_##s);
#define ROW(kind, op, set) MYLIB_SET_##set(CASE, op)
        MYLIB_OWN_FUNCTIONS(ROW)
#undef ROW
#undef CASE
    default:
        return OTHER_KERNEL(op, type);
    }
}
