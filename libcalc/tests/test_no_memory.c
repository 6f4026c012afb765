/*
 * Allocations of the C library that fail: each call of malloc() and its sisters that an entry point
 * makes fails in turn, once and for ever.  The entry point then returns MYLIB_ERR_NO_MEMORY with a
 * message, or the right result; it leaks nothing, and the next call is right.
 *
 * The functions of this program replace the C library's, for libmylib.so too.
 */
#include "test.h"

#include <errno.h>
#include <limits.h>

/* glibc's functions have second names; the sanitizers have a malloc() of their own. */
#if TEST_IS_SANITIZED || !defined(__GLIBC__)
#define CAN_REPLACE_MALLOC 0
#else
#define CAN_REPLACE_MALLOC 1
#endif

enum { THREADS = 4 };

/* ---- Memory that fails ---- */

static atomic_int is_counting; /* allocations fail, and are counted */
static atomic_long made, failed, living;
static long fail_from, fail_to; /* of the numbers that `made` counts, from 1 */

#if CAN_REPLACE_MALLOC
extern void *__libc_malloc(size_t nbytes);
extern void *__libc_calloc(size_t count, size_t nbytes);
extern void *__libc_realloc(void *ptr, size_t nbytes);
extern void *__libc_memalign(size_t alignment, size_t nbytes);
extern void __libc_free(void *ptr);

/* Tells whether this allocation is one that fails. */
static int fails(void)
{
    if (!atomic_load(&is_counting))
        return 0;
    long n = atomic_fetch_add(&made, 1) + 1;
    if (n < fail_from || n >= fail_to)
        return 0;
    atomic_fetch_add(&failed, 1);
    return 1;
}

static void *counted(void *ptr)
{
    if (ptr != NULL)
        atomic_fetch_add(&living, 1);
    else
        errno = ENOMEM;
    return ptr;
}

void *malloc(size_t nbytes) { return counted(fails() ? NULL : __libc_malloc(nbytes)); }

void *calloc(size_t count, size_t nbytes)
{
    return counted(fails() ? NULL : __libc_calloc(count, nbytes));
}

void *realloc(void *ptr, size_t nbytes)
{
    if (fails()) {
        errno = ENOMEM;
        return NULL;
    }
    return ptr == NULL ? counted(__libc_realloc(ptr, nbytes)) : __libc_realloc(ptr, nbytes);
}

void *aligned_alloc(size_t alignment, size_t nbytes)
{
    return counted(fails() ? NULL : __libc_memalign(alignment, nbytes));
}

void *memalign(size_t alignment, size_t nbytes);
void *memalign(size_t alignment, size_t nbytes) { return aligned_alloc(alignment, nbytes); }

int posix_memalign(void **ptr, size_t alignment, size_t nbytes)
{
    void *memory = aligned_alloc(alignment, nbytes);
    if (memory == NULL)
        return ENOMEM;
    *ptr = memory;
    return 0;
}

void free(void *ptr)
{
    if (ptr != NULL)
        atomic_fetch_sub(&living, 1);
    __libc_free(ptr);
}
#endif

/* ---- Scenarios ---- */

#define ROWS 512
#define COLUMNS 384
#define N (ROWS * COLUMNS) /* enough for several threads */
#define NBYTES ((size_t)N * 8)

static const mylib_device gpu = {MYLIB_CUDA, 0};
static const int64_t row[1] = {N}, few[1] = {100};
static const int64_t matrix[2] = {ROWS, COLUMNS}, turned[2] = {8, ROWS * 8};
static const int64_t one_row[2] = {1, COLUMNS}, one_column[2] = {ROWS, 1};

static double *in, *out, *initial_out;
static mylib_program *wide_program, *long_program; /* of many registers, of many steps */
static mylib_program *short_program;

static mylib_array array(void *data, mylib_type type, int ndim, const int64_t *shape,
                         const int64_t *strides)
{
    return (mylib_array){data, test_cpu, type, ndim, shape, strides};
}

/* Step k adds input 0 to an earlier value; then all of them are added up. */
static mylib_status make_wide(mylib_program **program)
{
    enum { VALUES = 90 };
    static const mylib_type types[2] = {MYLIB_F64, MYLIB_F64};
    const mylib_constant two = {MYLIB_I32, 0, {2}};
    mylib_step step[2 * VALUES];
    for (int k = 0; k < VALUES; k++)
        step[k] = (mylib_step){MYLIB_OP_multiply, MYLIB_F64, {k < 3 ? k : k - 1 + 2, k % 2, 0}};
    for (int k = 0; k < VALUES; k++)
        step[VALUES + k] = (mylib_step){
            MYLIB_OP_add, MYLIB_F64, {k == 0 ? 2 : 2 + VALUES + k, 3 + VALUES - 1 - k, 0}};
    return mylib_program_create(2, types, 1, &two, 2 * VALUES, step, program);
}

static mylib_status create(void)
{
    mylib_program *program = NULL;
    mylib_status st = make_wide(&program);
    mylib_program_free(program);
    return st;
}

static mylib_status alloc(void)
{
    void *memory = NULL;
    mylib_status st = mylib_alloc(test_cpu, 1000, NULL, &memory);
    return st != MYLIB_OK ? st : mylib_free(test_cpu, memory, NULL);
}

static mylib_status config(void)
{
    mylib_config c;
    mylib_status st = mylib_get_config(&c);
    st = st != MYLIB_OK ? st : mylib_set_cpu_level("generic");
    st = st != MYLIB_OK ? st : mylib_set_cpu_level(NULL);
    return st != MYLIB_OK ? st : mylib_set_num_threads(THREADS);
}

static mylib_status scalars(void)
{
    const double a[2] = {1, 2};
    double c[2];
    int64_t i;
    uint64_t u;
    mylib_status st = mylib_scalar_i64(MYLIB_OP_multiply, test_cpu, 6, 7, &i);
    st = st != MYLIB_OK ? st : mylib_scalar_f64(MYLIB_OP_divide, test_cpu, 1, 3, &out[0]);
    st = st != MYLIB_OK ? st : mylib_scalar_c128(MYLIB_OP_multiply, test_cpu, a, a, c);
    return st != MYLIB_OK ? st : mylib_fib(90, &u);
}

static mylib_status map_in(mylib_device device, const int64_t *shape)
{
    const mylib_array a = array(in, MYLIB_F64, 1, shape, NULL), inputs[2] = {a, a};
    const mylib_array to = array(out, MYLIB_F64, 1, shape, NULL);
    return mylib_map(MYLIB_OP_divide, device, NULL, &to, inputs);
}
static mylib_status map_turned(void)
{
    const mylib_array to = array(out, MYLIB_F64, 2, matrix, NULL);
    const mylib_array inputs[2] = {array(in, MYLIB_F64, 2, matrix, turned),
                                   array(in, MYLIB_F64, 2, one_row, NULL)};
    return mylib_map(MYLIB_OP_subtract, test_cpu, NULL, &to, inputs);
}
static mylib_status map_as(void)
{
    const mylib_array to = array(out, MYLIB_F32, 2, matrix, NULL);
    const mylib_array inputs[2] = {array(in, MYLIB_F64, 2, matrix, turned),
                                   array(in, MYLIB_I32, 2, matrix, NULL)};
    return mylib_map_as(MYLIB_OP_multiply, MYLIB_F32, test_cpu, NULL, &to, inputs);
}
static mylib_status map_in_order(void)
{
    const int64_t shorter[1] = {5000};
    const mylib_array to = array(out + 1, MYLIB_F64, 1, shorter, NULL);
    const mylib_array inputs[2] = {array(out, MYLIB_F64, 1, shorter, NULL),
                                   array(in, MYLIB_I32, 1, shorter, NULL)};
    return mylib_map_as(MYLIB_OP_add, MYLIB_F64, test_cpu, NULL, &to, inputs);
}
static mylib_status choose(void)
{
    const mylib_array to = array(out, MYLIB_F64, 1, row, NULL);
    const mylib_array a = array(in, MYLIB_F64, 1, row, NULL), b = array(in, MYLIB_I8, 1, row, NULL);
    return mylib_select(test_cpu, NULL, &to, &b, &a, &b);
}
static mylib_status copy(void)
{
    const mylib_array to = array(out, MYLIB_I16, 2, matrix, NULL);
    const mylib_array from = array(in, MYLIB_F64, 2, matrix, turned);
    return mylib_copy_array(NULL, &to, &from);
}
static mylib_status range(void)
{
    const mylib_array to = array(out, MYLIB_F64, 1, row, NULL);
    return mylib_arange(NULL, &to, &in[1], &in[2]);
}

static mylib_status run(const mylib_program *program, mylib_device device, const int64_t *strides)
{
    const mylib_array to = array(out, MYLIB_F64, 2, matrix, NULL);
    const mylib_array inputs[2] = {array(in, MYLIB_F64, 2, matrix, strides),
                                   array(in, MYLIB_F64, 2, one_row, NULL)};
    return mylib_program_run(program, device, NULL, &to, inputs);
}
static mylib_status in_order(void)
{
    const int64_t shorter[1] = {2000};
    const mylib_array to = array(out + 1, MYLIB_F64, 1, shorter, NULL);
    const mylib_array inputs[2] = {array(out, MYLIB_F64, 1, shorter, NULL),
                                   array(in, MYLIB_F64, 1, shorter, NULL)};
    return mylib_program_run(wide_program, test_cpu, NULL, &to, inputs);
}

static mylib_status reduce_program(const mylib_program *program, mylib_device device, int ndim,
                                   const int64_t *kept, const int64_t *strides)
{
    const mylib_array to = array(out, MYLIB_F64, ndim, kept, NULL);
    const mylib_array inputs[2] = {array(in, MYLIB_F64, 2, matrix, strides),
                                   array(in, MYLIB_F64, 2, one_row, NULL)};
    return mylib_program_reduce(program, MYLIB_SUM, MYLIB_F64, device, NULL, &to, inputs);
}
static mylib_status reduce(mylib_device device, mylib_type type, int ndim, const int64_t *kept,
                           const int64_t *strides)
{
    const mylib_array to = array(out, MYLIB_F64, ndim, kept, NULL);
    const mylib_array from = array(in, type, 2, matrix, strides);
    return mylib_reduce(MYLIB_SUM, MYLIB_F64, device, NULL, &to, &from);
}
static mylib_status dot(void)
{
    const mylib_array to = array(out, MYLIB_F64, 0, NULL, NULL);
    const mylib_array a = array(in, MYLIB_F64, 1, row, NULL),
                      b = array(in, MYLIB_I32, 1, row, NULL);
    return mylib_dot(MYLIB_F64, test_cpu, NULL, &to, &a, &b);
}
static mylib_status trace(void)
{
    const mylib_array from = array(in, MYLIB_F64, 2, matrix, turned);
    return mylib_trace(test_cpu, NULL, &from, out);
}

/* Allocates so often that the library's list of allocations grows. */
static mylib_status alloc_on_gpu(void)
{
    enum { COUNT = 600 };
    void *memory[COUNT];
    mylib_status st = MYLIB_OK;
    int count = 0;
    while (count < COUNT && (st = mylib_alloc(gpu, 16, NULL, &memory[count])) == MYLIB_OK)
        count++;
    while (count > 0)
        CHECK_OK(mylib_free(gpu, memory[--count], NULL));
    return st;
}

static mylib_status stream_of_gpu(void)
{
    void *made_stream = NULL;
    mylib_status st = mylib_stream_create(gpu, &made_stream);
    return st != MYLIB_OK ? st : mylib_stream_destroy(gpu, made_stream);
}

static mylib_status pinned(void)
{
    void *memory = NULL;
    mylib_status st = mylib_alloc_pinned(1000, &memory);
    return st != MYLIB_OK ? st : mylib_free_pinned(memory);
}

/* X(name, call) */
#define SCENARIOS_ON_CPU(X) \
    X(alloc, alloc()) \
    X(config, config()) \
    X(scalars, scalars()) \
    X(create, create()) \
    X(map_large, map_in(test_cpu, row)) \
    X(map_small, map_in(test_cpu, few)) \
    X(map1, mylib_map1(MYLIB_OP_add, MYLIB_F64, N, out, 8, in, 8, in, 8)) \
    X(fold, mylib_map1(MYLIB_OP_add, MYLIB_F64, N, out, 0, out, 0, in, 8)) \
    X(map_turned, map_turned()) \
    X(map_as, map_as()) \
    X(map_in_order, map_in_order()) \
    X(choose, choose()) \
    X(copy, copy()) \
    X(copy_bytes, mylib_copy(test_cpu, out, test_cpu, in, NBYTES, NULL)) \
    X(range, range()) \
    X(run_wide, run(wide_program, test_cpu, NULL)) \
    X(run_wide_turned, run(wide_program, test_cpu, turned)) \
    X(run_long, run(long_program, test_cpu, NULL)) \
    X(run_in_order, in_order()) \
    X(reduce_wide, reduce_program(wide_program, test_cpu, 0, NULL, NULL)) \
    X(reduce_wide_turned, reduce_program(wide_program, test_cpu, 2, one_column, turned)) \
    X(reduce_long, reduce_program(long_program, test_cpu, 2, one_column, NULL)) \
    X(reduce_long_columns, reduce_program(long_program, test_cpu, 2, one_row, NULL)) \
    X(reduce_all, reduce(test_cpu, MYLIB_F64, 0, NULL, NULL)) \
    X(reduce_turned, reduce(test_cpu, MYLIB_F64, 0, NULL, turned)) \
    X(reduce_rows, reduce(test_cpu, MYLIB_I32, 2, one_column, NULL)) \
    X(reduce_columns, reduce(test_cpu, MYLIB_F64, 2, one_row, NULL)) \
    X(reduce_converted, reduce(test_cpu, MYLIB_I16, 2, one_row, turned)) \
    X(dot, dot()) \
    X(trace, trace())
#define SCENARIOS_ON_GPU(X) \
    X(alloc_on_gpu, alloc_on_gpu()) \
    X(stream_of_gpu, stream_of_gpu()) \
    X(pinned, pinned()) \
    X(map_on_gpu, map_in(gpu, row)) \
    X(map_small_on_gpu, map_in(gpu, few)) \
    X(run_on_gpu, run(short_program, gpu, turned)) \
    X(reduce_program_on_gpu, reduce_program(short_program, gpu, 2, one_row, turned)) \
    X(reduce_on_gpu, reduce(gpu, MYLIB_F64, 2, one_row, NULL))

#define DEFINE_RUN(name, call) \
    static mylib_status run_##name(void) { return call; }
SCENARIOS_ON_CPU(DEFINE_RUN)
SCENARIOS_ON_GPU(DEFINE_RUN)

#define ON_CPU(name, call) {#name, run_##name, 0},
#define ON_GPU(name, call) {#name, run_##name, 1},
static const struct scenario {
    const char *name;
    mylib_status (*run)(void);
    int needs_gpu;
} scenarios[] = {SCENARIOS_ON_CPU(ON_CPU) SCENARIOS_ON_GPU(ON_GPU)};

/* ---- Checks ---- */

static double *expected;
static long failures_seen;

static void poison(void) { memcpy(out, initial_out, NBYTES); }

/* Runs while the n-th allocation, or all from it on, fail; returns whether any has failed. */
static int check_failure(const struct scenario *s, long n, int for_ever)
{
    char old[TEST_MESSAGE_SIZE];
    test_set_case("%s, allocation %ld fails%s", s->name, n, for_ever ? " for ever" : "");
    test_forget_message(old);
    poison();
    CHECK(!s->needs_gpu || mylib_free_cached() == MYLIB_OK, "%s", mylib_last_message());
    fail_from = n;
    fail_to = for_ever ? LONG_MAX : n + 1;
    atomic_store(&made, 0);
    atomic_store(&failed, 0);
    atomic_store(&is_counting, 1);
    mylib_status st = s->run();
    atomic_store(&is_counting, 0);
    long count = atomic_load(&failed);
    if (st == MYLIB_OK) {
        CHECK(memcmp(out, expected, NBYTES) == 0, "success, but the result is wrong");
    } else {
        const char *message = mylib_last_message();
        CHECK(st == MYLIB_ERR_NO_MEMORY, "%s: %s", mylib_status_name(st), message);
        CHECK(count > 0, "failed without a reason: %s", message);
        CHECK(message[0] != '\0' && strcmp(message, old) != 0, "no message");
        failures_seen++;
    }
    poison();
    if (CHECK_OK(s->run()))
        CHECK(memcmp(out, expected, NBYTES) == 0, "the next call gives a wrong result");
    return count > 0;
}

static long living_after(const struct scenario *s)
{
    CHECK(!s->needs_gpu || mylib_free_cached() == MYLIB_OK, "%s", mylib_last_message());
    return atomic_load(&living);
}

static long messages_to_come = THREADS - 1; /* of workers, which keep them */

static void check_scenario(const struct scenario *s)
{
    test_set_case("%s, undisturbed", s->name);
    for (int k = 0; k < 2; k++) {
        poison();
        if (!CHECK_OK(s->run()))
            return;
    }
    memcpy(expected, out, NBYTES);
    long before = living_after(s);
    for (int for_ever = 0; for_ever < 2; for_ever++)
        for (long n = 1; check_failure(s, n, for_ever); n += 1 + n / (test_is_shortest() ? 3 : 20))
            ;
    test_set_case("%s", s->name);
    long after = living_after(s);
    messages_to_come -= after - before;
    CHECK(after >= before && messages_to_come >= 0, "%ld allocations became %ld", before, after);
}

int main(void)
{
    static const mylib_step squares[] = {{MYLIB_OP_square, MYLIB_F64, {0, 0, 0}},
                                         {MYLIB_OP_square, MYLIB_F64, {1, 0, 0}},
                                         {MYLIB_OP_add, MYLIB_F64, {2, 3, 0}}};
    int gpus = 0;
    setenv("MYLIB_STREAM_SLOT_KIB", "64", 1); /* several pieces of each array */
    setenv("MYLIB_STREAM_THREADS", "2", 1);
    test_begin("no_memory");
    if (!CAN_REPLACE_MALLOC) {
        printf("no_memory: skipped: malloc() is not glibc's, or a sanitizer's\n");
        return 77;
    }
    in = test_malloc(NBYTES);
    out = test_malloc(NBYTES);
    expected = test_malloc(NBYTES);
    initial_out = test_malloc(NBYTES);
    for (int i = 0; i < N; i++) {
        in[i] = 1 + i % 97;
        initial_out[i] = i % 13;
    }
    if (test_is_emulated()) /* a real GPU's driver has allocations of its own */
        CHECK_OK(mylib_cuda_device_count(&gpus));
    CHECK_OK(mylib_set_num_threads(THREADS));
    CHECK_STATUS(mylib_set_num_threads(-1), MYLIB_ERR_ARGUMENT); /* the message stays allocated */
    CHECK_OK(make_wide(&wide_program));
    long_program = test_long_program(200);
    short_program = test_program(3, squares);
    for (size_t i = 0; i < COUNT_OF(scenarios); i++)
        if ((gpus > 0 || !scenarios[i].needs_gpu) && test_takes_case(i, 2))
            check_scenario(&scenarios[i]);
    mylib_program_free(wide_program);
    mylib_program_free(long_program);
    mylib_program_free(short_program);
    test_set_case("all");
    CHECK(failures_seen > 20, "only %ld calls met a failure", failures_seen);
    return test_end();
}
