/*
 * test.h - what the tests of libmylib share: checks that name their case, a seeded generator of
 * numbers, and the tables of element types and operations.
 *
 * The tables are expansions of ops.h, so that a new row meets every test, and does not compile
 * before the tests know its reference.
 */
#ifndef MYLIB_TEST_H
#define MYLIB_TEST_H

#include "mylib.h"
#include "ops.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* ---- Checks ---- */

typedef struct test_state {
    const char *name;
    uint64_t seed;
    atomic_long checks;
    atomic_int failures;
} test_state;

extern test_state test_global;

/* Begins main(): takes the seed from MYLIB_TEST_SEED, or makes a new one, and prints it. */
void test_begin(const char *name);

/*
 * Begins main() of a test that needs a GPU: takes the arguments ([--quick]), and calls `first`, if
 * not NULL, before the library uses CUDA.  Without a GPU it ends the process: as skipped, or as
 * failed if MYLIB_REQUIRE_GPU=1.
 */
void test_begin_gpu(const char *name, int argc, char **argv, void (*first)(void));
/* Checks that the first GPU still computes after an error. */
void test_gpu_works(void);
extern int test_quick, test_gpu_count;
/* MYLIB_TEST_LONG=1 runs all cases, for minutes; otherwise the seed chooses some of them. */
extern int test_is_long;

/*
 * Returns n, or with MYLIB_TEST_SHORT=1 a fifth of it, for builds with sanitizers; with
 * MYLIB_TEST_SHORT=2 a fifteenth: an emulated processor is slow.
 */
int test_rounds(int n);
/* Tells about MYLIB_TEST_SHORT=2. */
int test_is_shortest(void);
/* Tells whether to test case k: MYLIB_TEST_SHORT=2 takes one in `of`; the seed chooses. */
int test_takes_case(size_t k, size_t of);

/* Tells whether the GPUs are emulated. */
int test_is_emulated(void);

/* Returns the CUDA driver, or what stands in for it, as a handle for dlsym(); or NULL. */
void *test_driver(void);

/* Ends main(): returns the exit status. */
int test_end(void);

/* Names the case that this thread tests now; failures and crashes print it. */
__attribute__((format(printf, 1, 2))) void test_set_case(const char *format, ...);

/* CHECK(condition, format, ...): fails with a message that says what was expected and found. */
#define CHECK(condition, ...) \
    do { \
        atomic_fetch_add_explicit(&test_global.checks, 1, memory_order_relaxed); \
        if (!(condition)) \
            test_fail(__FILE__, __LINE__, __VA_ARGS__); \
    } while (0)

__attribute__((format(printf, 3, 4))) void test_fail(const char *file, int line, const char *format,
                                                     ...);

/* CHECK_STATUS(call, status): true if the call returned it, and set a message for an error. */
#define CHECK_STATUS(call, expected) \
    test_check_status((call), (expected), #call, __FILE__, __LINE__)
#define CHECK_OK(call) CHECK_STATUS(call, MYLIB_OK)
/* CHECK_STATUS(), and that the GPU works after it. */
#define CHECK_GPU(call, expected) ((void)CHECK_STATUS(call, expected), test_gpu_works())

int test_check_status(mylib_status got, mylib_status expected, const char *call, const char *file,
                      int line);

/* Replaces this thread's message, and copies it: a call that fails must set another one. */
enum { TEST_MESSAGE_SIZE = 1024 };
void test_forget_message(char old[TEST_MESSAGE_SIZE]);

/* Ends the process after a failure of the test itself, not of the library. */
__attribute__((noreturn)) void test_give_up(const char *what);

void *test_malloc(size_t nbytes);

/* Makes a program of two inputs of f64; and one of so many steps, of two operations by turns. */
mylib_program *test_program(int steps, const mylib_step *step);
mylib_program *test_long_program(int steps);

/* Runs run((void *)0) to run((void *)(count - 1)), each in a thread, and waits for them. */
void test_in_threads(int count, void *(*run)(void *number));

/* Runs a function in a child, which must return 0 within a minute. */
void test_in_child(int (*run)(void));

/* Fails and returns false unless a child ends with exit status 0 within a minute. */
int test_wait_for(pid_t child);

/* Sanitizers have a malloc() of their own, keep what was freed, and take stack. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEST_IS_SANITIZED 1
#endif
#endif
#ifndef TEST_IS_SANITIZED
#define TEST_IS_SANITIZED 0
#endif

/* ---- Random numbers ---- */

typedef struct rng {
    uint64_t state;
} rng;

/* Makes one generator for each use, so that parts of a test do not change each other's numbers. */
rng rng_make(uint64_t stream);

static inline uint64_t rng_next(rng *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Returns 0 to n - 1. */
static inline int64_t rng_below(rng *r, int64_t n) { return (int64_t)(rng_next(r) % (uint64_t)n); }

/* Counts the elements of an array, and picks one of them at random. */
#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))
#define PICK(r, array) ((array)[rng_below(r, COUNT_OF(array))])

/* Returns true once in n times. */
static inline int rng_once_in(rng *r, int64_t n) { return rng_below(r, n) == 0; }

/* ---- Tables ---- */

#define TEST_SIZE_i8 1
#define TEST_SIZE_i16 2
#define TEST_SIZE_i32 4
#define TEST_SIZE_i64 8
#define TEST_SIZE_u8 1
#define TEST_SIZE_u16 2
#define TEST_SIZE_u32 4
#define TEST_SIZE_u64 8
#define TEST_SIZE_f16 2
#define TEST_SIZE_f32 4
#define TEST_SIZE_f64 8
#define TEST_SIZE_c64 8
#define TEST_SIZE_c128 16
#define TEST_SIZE_bool 1

#define TEST_MAX_SIZE 16

/* TEST_i8 and so on: the enumerator that belongs to a suffix of the table. */
#define TEST_ENUMERATOR(s, E) TEST_##s = MYLIB_##E,
enum { MYLIB_STORED_TYPES(TEST_ENUMERATOR) };
#undef TEST_ENUMERATOR

typedef struct test_type {
    mylib_type type;
    const char *name;
    int64_t size;
} test_type;

#define TEST_TYPE(s, E) {MYLIB_##E, #s, TEST_SIZE_##s},
static const test_type test_types[] = {MYLIB_STORED_TYPES(TEST_TYPE)};
#undef TEST_TYPE

_Static_assert(sizeof test_types / sizeof *test_types == MYLIB_TYPE_COUNT,
               "MYLIB_TYPE_COUNT counts the rows of the table");

/* The first of test_types[] are numbers; the rest is bool. */
#define TEST_COMPUTED_COUNT MYLIB_BOOL

typedef struct test_op {
    mylib_op op;
    const char *name;
    int arity;
    int real_result; /* complex inputs give the real type */
    int compares;    /* the result is bool */
    uint32_t types;  /* bit t: defined for type t; see test_defined() for bool */
} test_op;

/* The arity, real_result and compares of each kind of row. */
#define TEST_KIND_BINARY 2, 0, 0
#define TEST_KIND_UNARY 1, 0, 0
#define TEST_KIND_UNARY_REAL 1, 1, 0
#define TEST_KIND_COMPARE 2, 0, 1
#define TEST_KIND_REVERSED 2, 0, 1
#define TEST_KIND_LOGIC 2, 0, 1
#define TEST_KIND_TEST 1, 0, 1
#define TEST_BIT(op, s) | (1u << TEST_##s)
#define TEST_OF_BOOL(op, logical) | 1ull << MYLIB_OP_##op
static const uint64_t test_ops_of_bool = 0 MYLIB_BOOL_OPS(TEST_OF_BOOL);
#undef TEST_OF_BOOL
#define TEST_OP(kind, op, set) \
    {MYLIB_OP_##op, #op, TEST_KIND_##kind, 0u MYLIB_SET_##set(TEST_BIT, op)},
static const test_op test_ops[] = {MYLIB_OPS(TEST_OP)};
#undef TEST_OP
#undef TEST_BIT

_Static_assert(sizeof test_ops / sizeof *test_ops == MYLIB_OP_COUNT,
               "MYLIB_OP_COUNT counts the rows of the table");

static inline int test_defined(const test_op *op, mylib_type type)
{
    if (type == MYLIB_BOOL)
        return op->op < 64 && (test_ops_of_bool >> op->op & 1) != 0;
    return (op->types >> type) & 1;
}

/* Tells whether op is defined for all numbers of a type: integers have no negative powers. */
static inline int test_is_total(const test_op *op, mylib_type type)
{
    return test_defined(op, type) && (op->op != MYLIB_OP_power || type > MYLIB_I64);
}

static inline mylib_type test_real_type(mylib_type type)
{
    return type == MYLIB_C64 ? MYLIB_F32 : type == MYLIB_C128 ? MYLIB_F64 : type;
}

static inline mylib_type test_result_type(const test_op *op, mylib_type type)
{
    return op->compares ? MYLIB_BOOL : op->real_result ? test_real_type(type) : type;
}

/* Tells whether a type is an integer; bool, with the values 0 and 1, counts as one. */
static inline int test_is_integer(mylib_type type)
{
    return type <= MYLIB_U64 || type == MYLIB_BOOL;
}

/* Tells whether a result may show the sign of a NaN: that of a computed NaN is unspecified. */
static inline int test_reads_nan_sign(const test_op *op)
{
    return op->op == MYLIB_OP_signbit || op->op == MYLIB_OP_copysign;
}

static inline int64_t test_size(mylib_type type) { return test_types[type].size; }

/*
 * Tells whether to test an operation and type: one in `share` of the functions, and of these a
 * quarter with MYLIB_TEST_SHORT=1, a twelfth with MYLIB_TEST_SHORT=2, which takes a third of the
 * others.  The type and the seed choose.  MYLIB_TEST_LONG=1 takes all.
 */
static inline int test_takes(const test_op *op, const test_type *t, int share)
{
    const uint64_t of_others = test_is_shortest() ? 3 : 1;
    const uint64_t of_functions = (uint64_t)share * (test_rounds(5) > 1 ? 1 : 4) * of_others;
    const uint64_t at = (uint64_t)op->op + 3 * (uint64_t)t->type + test_global.seed;
    return test_is_long || at % (op->op < MYLIB_OP_rint ? of_others : of_functions) == 0;
}

/* Visits every total pair: FOR_EVERY_PAIR(op, t) { ... op->name, t->name ... } */
#define FOR_EVERY_PAIR(op, t) \
    for (const test_op *op = test_ops; op < test_ops + MYLIB_OP_COUNT; op++) \
        for (const test_type *t = test_types; t < test_types + MYLIB_TYPE_COUNT; t++) \
            if (test_is_total(op, t->type))

/* Visits the pairs that are to be tested. */
#define FOR_EACH_PAIR(op, t) \
    FOR_EVERY_PAIR(op, t) \
    if (test_takes(op, t, 1))

/* Bytes of the widest vectors that kernels are compiled for: AVX-512's, or NEON's. */
#if defined(__x86_64__)
#define TEST_VECTOR_NBYTES 64
#else
#define TEST_VECTOR_NBYTES 16
#endif

/* ---- CPU levels ---- */

static const char *const test_levels[] = {"generic", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
#define TEST_LEVEL_COUNT 4

/* Restricts the kernels to a level; returns false if this machine or build lacks it. */
static inline int test_use_level(int level)
{
    return mylib_set_cpu_level(test_levels[level]) == MYLIB_OK;
}

/* Visits the levels that there are: FOR_EACH_LEVEL(level) { ... test_levels[level] ... } */
#define FOR_EACH_LEVEL(level) \
    for (int level = 0; level < TEST_LEVEL_COUNT; level++) \
        if (test_use_level(level))

static const mylib_device test_cpu = {MYLIB_CPU, 0};

/* Makes an array of one dimension in host memory. */
static inline mylib_array test_row(const void *data, mylib_type type, const int64_t *n)
{
    return (mylib_array){(void *)(uintptr_t)data, test_cpu, type, 1, n, NULL};
}

#endif /* MYLIB_TEST_H */
