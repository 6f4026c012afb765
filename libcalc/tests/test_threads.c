/*
 * Calls from many threads at once, large arrays that the library itself shares among threads, their
 * floating-point flags, and children made by fork().
 */
#include "reference.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 8

/* ---- Large arrays ---- */

typedef struct triple {
    unsigned char *out, *a, *b;
} triple;

static triple make_triple(int64_t n, int64_t size)
{
    triple t = {test_malloc((size_t)(n * size)), test_malloc((size_t)(n * size)),
                test_malloc((size_t)(n * size))};
    return t;
}

static void free_triple(triple *t)
{
    free(t->out);
    free(t->a);
    free(t->b);
}

/*
 * Every element of a long array is computed, wherever the shares of the threads end.  The lengths
 * stand around multiples of what a thread's share may be rounded to.
 */
static void test_every_element(mylib_type type, int threads, rng *r)
{
    const int64_t size = test_size(type), unit = 4096;
    int64_t most = (3 << 20) / size + 64 * unit, room = most + 2 * unit;
    triple t = make_triple(room, size);
    unsigned char *piecewise = test_malloc((size_t)(room * size));
    fill_ordinary(r, type, room, t.a);
    fill_ordinary(r, type, room, t.b);
    /* Short calls are not shared, and other tests hold them against the reference. */
    for (int64_t i = 0; i < room; i += 1000) {
        int64_t m = room - i < 1000 ? room - i : 1000;
        CHECK_OK(mylib_map1(MYLIB_OP_subtract, type, m, piecewise + i * size, size, t.a + i * size,
                            size, t.b + i * size, size));
    }
    for (int k = 0; k < test_rounds(24); k++) {
        int64_t n = (most - rng_below(r, 40) * unit) / (threads * unit) * (threads * unit);
        n += k < threads + 2 ? k : rng_below(r, 3 * unit) - 2 * unit;
        test_set_case("subtract of %s, n = %lld, %d threads", test_types[type].name, (long long)n,
                      threads);
        memset(t.out, 0xa5, (size_t)(n * size));
        CHECK_OK(mylib_map1(MYLIB_OP_subtract, type, n, t.out, size, t.a, size, t.b, size));
        int64_t i = first_difference(type, n, t.out, piecewise);
        CHECK(i == n, "element %lld is %s, not %s", (long long)i, describe(type, t.out + i * size),
              describe(type, piecewise + i * size));
        /* In place nothing bypasses the cache. */
        memcpy(t.out, t.a, (size_t)(n * size));
        CHECK_OK(mylib_map1(MYLIB_OP_subtract, type, n, t.out, size, t.out, size, t.b, size));
        i = first_difference(type, n, t.out, piecewise);
        CHECK(i == n, "in place, element %lld is %s, not %s", (long long)i,
              describe(type, t.out + i * size), describe(type, piecewise + i * size));
    }
    free(piecewise);
    free_triple(&t);
}

/*
 * Arrays too large for the cache, whose stores may go past it, in memory that is not aligned to
 * anything; no byte beside the result changes.
 */
static void test_large_unaligned(rng *r)
{
    int64_t n = 2000003;
#ifdef _SC_LEVEL3_CACHE_SIZE
    int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (cache > 24 * n && cache <= 512 << 20)
        n = cache / 24 + 1003;
#endif
    triple t = make_triple(n + 16, 8);
    double x, y, z;
    fill_ordinary(r, MYLIB_F64, n + 1, t.a);
    fill_ordinary(r, MYLIB_F64, n, t.b);
    FOR_EACH_LEVEL(level)
    {
        for (int shift = 1; shift < 128; shift += 40 + (int)rng_below(r, 80)) {
            int64_t end = shift + n * 8, all = (n + 16) * 8, wrong = 0;
            test_set_case("add of f64, n = %lld, out moved by %d bytes, %s", (long long)n, shift,
                          test_levels[level]);
            memset(t.out, 0xa5, (size_t)all);
            CHECK_OK(mylib_map1(MYLIB_OP_add, MYLIB_F64, n, t.out + shift, 8, t.a + 5, 8, t.b, 8));
            for (int64_t i = 0; i < n; i++) {
                memcpy(&x, t.a + 5 + i * 8, 8);
                memcpy(&y, t.b + i * 8, 8);
                memcpy(&z, t.out + shift + i * 8, 8);
                x += y;
                wrong += !same_value(MYLIB_F64, &z, &x);
            }
            CHECK(wrong == 0, "%lld elements are wrong", (long long)wrong);
            for (int64_t i = 0; i < all; i = i + 1 == shift ? end : i + 1)
                CHECK(t.out[i] == 0xa5, "byte %lld was written", (long long)i);
        }
    }
    CHECK_OK(mylib_set_cpu_level(NULL));
    free_triple(&t);
}

/* ---- Flags ---- */

/* The flags of all threads arrive at the caller, and only those. */
static void test_flags(rng *r)
{
    const int64_t n = 1 << 20;
    const int flags = FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW;
    triple t = make_triple(n, 8);
    double *a = (double *)t.a, *b = (double *)t.b;
    fill_ordinary(r, MYLIB_F64, n, a);
    fill_ordinary(r, MYLIB_F64, n, b);
    for (int k = 0; k < test_rounds(60); k++) {
        int64_t at = k == 0 ? 0 : k == 1 ? n - 1 : rng_below(r, n), other = rng_below(r, n);
        double x = a[at], y = b[at];
        int kept, expected;
        test_set_case("flags of a large array, element %lld", (long long)at);
        feclearexcept(FE_ALL_EXCEPT);
        CHECK_OK(mylib_map1(MYLIB_OP_divide, MYLIB_F64, n, t.out, 8, a, 8, b, 8));
        CHECK(fetestexcept(flags) == 0, "ordinary numbers raised %#x", fetestexcept(flags));

        a[at] = k % 3 == 2 ? 0 : k % 3 == 1 ? 1e300 : 1;
        b[at] = k % 3 == 1 ? 1e-300 : 0;
        expected = k % 3 == 2 ? FE_INVALID : k % 3 == 1 ? FE_OVERFLOW : FE_DIVBYZERO;
        CHECK_OK(mylib_map1(MYLIB_OP_divide, MYLIB_F64, n, t.out, 8, a, 8, b, 8));
        CHECK(fetestexcept(flags) == expected, "raised %#x, not %#x", fetestexcept(flags),
              expected);
        a[at] = x;
        b[at] = y;

        /* Those that were up stay up, and none of them comes back from a worker. */
        kept = k % 2 ? FE_INVALID : FE_OVERFLOW;
        feclearexcept(FE_ALL_EXCEPT);
        feraiseexcept(kept);
        CHECK_OK(mylib_map1(MYLIB_OP_add, MYLIB_F64, n, t.out, 8, a, 8, b, 8));
        CHECK((fetestexcept(flags) & kept) != 0, "a flag was taken away");
        feclearexcept(FE_ALL_EXCEPT);
        CHECK_OK(mylib_map1(MYLIB_OP_add, MYLIB_F64, n, t.out, 8, a, 8, b, 8));
        CHECK(fetestexcept(flags) == 0, "%#x came from nowhere", fetestexcept(flags));

        /* Integers raise theirs too. */
        int64_t *i64 = (int64_t *)t.out;
        for (int64_t i = 0; k < 3 && i < n; i++)
            i64[i] = i + 1;
        if (k < 3) {
            i64[other] = 0;
            CHECK_OK(mylib_map1(MYLIB_OP_divide, MYLIB_I64, n, i64, 8, i64, 8, i64, 8));
            CHECK(fetestexcept(flags) == FE_DIVBYZERO, "0 / 0 in i64 raised %#x",
                  fetestexcept(flags));
        }
    }
    feclearexcept(FE_ALL_EXCEPT);
    free_triple(&t);
}

/* ---- Many callers ---- */

static unsigned char shared_a[4000 * TEST_MAX_SIZE], shared_b[4000 * TEST_MAX_SIZE];
static double *large_a, *large_b, *large_sum;
#define LARGE 300000

/* Each thread has its own operation, results, errors and flags; the inputs are everyone's. */
static void *call_many(void *argument)
{
    const int number = (int)(intptr_t)argument;
    rng r = rng_make(1000 + (uint64_t)number);
    unsigned char *out = test_malloc(4000 * TEST_MAX_SIZE);
    double *large_out = test_malloc(LARGE * sizeof *large_out);
    char message[256];
    reference right;
    for (int round = 0; round < test_rounds(400); round++) {
        const test_op *op = &test_ops[rng_below(&r, MYLIB_OP_COUNT)];
        const test_type *t = &test_types[rng_below(&r, TEST_COMPUTED_COUNT)];
        mylib_type type = test_result_type(op, t->type);
        int64_t n = rng_below(&r, 4000), size = test_size(type);
        int flag = number % 2 ? FE_DIVBYZERO : FE_OVERFLOW;
        test_set_case("thread %d, %s of %s, n = %lld", number, op->name, t->name, (long long)n);
        if (!test_defined(op, t->type)) {
            CHECK_STATUS(mylib_op_result_type(op->op, t->type, NULL), MYLIB_ERR_UNSUPPORTED);
            CHECK(strstr(mylib_last_message(), t->name) != NULL, "another's message: %s",
                  mylib_last_message());
            continue;
        }
        if (!test_is_total(op, t->type))
            continue;
        CHECK_OK(mylib_map1(op->op, t->type, n, out, size, shared_a, t->size, shared_b, t->size));
        for (int i = 0; i < 20 && n > 0; i++) {
            int64_t k = rng_below(&r, n);
            reference_compute(op->op, t->type, shared_a + k * t->size, shared_b + k * t->size,
                              &right);
            CHECK(reference_accepts(type, &right, out + k * size), "element %lld is %s, not %s",
                  (long long)k, describe(type, out + k * size), describe(type, right.bits));
        }

        /* A status and a message of its own. */
        uint64_t fib = 94 + (uint64_t)number * 1000 + (uint64_t)round, unused;
        CHECK_STATUS(mylib_fib(fib, &unused), MYLIB_ERR_OVERFLOW);
        snprintf(message, sizeof message, "%llu", (unsigned long long)fib);
        CHECK(strstr(mylib_last_message(), message) != NULL, "another's message: %s",
              mylib_last_message());

        if (round % 20 == 0) {
            feclearexcept(FE_ALL_EXCEPT);
            feraiseexcept(flag);
            CHECK_OK(
                mylib_map1(MYLIB_OP_add, MYLIB_F64, LARGE, large_out, 8, large_a, 8, large_b, 8));
            CHECK(memcmp(large_out, large_sum, LARGE * sizeof *large_out) == 0,
                  "a large sum is wrong");
            CHECK(fetestexcept(FE_DIVBYZERO | FE_OVERFLOW) == flag, "another's flags: %#x",
                  fetestexcept(FE_ALL_EXCEPT));
        }
        /* Results do not depend on the level, so anyone may change it at any time. */
        if (round % 10 == 0 && mylib_set_cpu_level(PICK(&r, test_levels)) != MYLIB_OK)
            CHECK_OK(mylib_set_cpu_level(NULL));
    }
    free(out);
    free(large_out);
    return NULL;
}

static void test_callers(void)
{
    rng r = rng_make(7);
    large_a = test_malloc(LARGE * sizeof *large_a);
    large_b = test_malloc(LARGE * sizeof *large_b);
    large_sum = test_malloc(LARGE * sizeof *large_sum);
    fill_ordinary(&r, MYLIB_F64, LARGE, large_a);
    fill_ordinary(&r, MYLIB_F64, LARGE, large_b);
    for (int i = 0; i < LARGE; i++)
        large_sum[i] = large_a[i] + large_b[i];
    fill_ordinary(&r, MYLIB_U8, sizeof shared_a, shared_a);
    fill_ordinary(&r, MYLIB_U8, sizeof shared_b, shared_b);
    test_in_threads(THREADS, call_many);
    CHECK_OK(mylib_set_cpu_level(NULL));
    free(large_a);
    free(large_b);
    free(large_sum);
}

/* ---- Tables of f16 ---- */

#define HALVES 65536
#define SHORT_ROW 128 /* without a table */
static const test_op *half_op;
static uint16_t halves[HALVES], half_results[HALVES];
static int half_flags;

/* The flags of a call with every stride-th of these numbers. */
static int compute_halves(int64_t n, uint16_t *out, const uint16_t *a, int64_t stride)
{
    feclearexcept(FE_ALL_EXCEPT);
    CHECK_OK(mylib_map1(half_op->op, MYLIB_F16, n, out, 2 * stride, a, 2 * stride, a, 2 * stride));
    return fetestexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
}

static void *compute_all_halves(void *number)
{
    uint16_t *out = test_malloc(sizeof halves);
    test_set_case("%s of all f16, thread %d", half_op->name, (int)(intptr_t)number);
    for (int round = 0; round < 3; round++) {
        memset(out, 0xa5, sizeof halves);
        int flags = compute_halves(HALVES / 2, out, halves, 2);
        flags |= compute_halves(HALVES / 2, out + 1, halves + 1, 2);
        CHECK(memcmp(out, half_results, sizeof halves) == 0, "other bits than in short rows");
        CHECK(flags == half_flags, "raised %#x, but %#x in short rows", flags, half_flags);
    }
    free(out);
    return NULL;
}

/*
 * A table gives the bits and the flags of the loop that it spares, also to threads that meet while
 * one of them fills it.
 */
static void test_halves(const test_op *op)
{
    uint16_t out[4 * SHORT_ROW];
    int flags[HALVES / SHORT_ROW];
    test_set_case("%s of f16 in short rows", op->name);
    half_op = op;
    half_flags = 0;
    for (int i = 0; i < HALVES; i++)
        halves[i] = (uint16_t)i;
    for (int i = 0; i < HALVES; i += SHORT_ROW)
        half_flags |= flags[i / SHORT_ROW] =
            compute_halves(SHORT_ROW, half_results + i, halves + i, 1);
    test_in_threads(THREADS, compute_all_halves);
    for (int i = 0; i < HALVES; i += 4 * SHORT_ROW) {
        const int *right = flags + i / SHORT_ROW,
                  raised = compute_halves(COUNT_OF(out), out, halves + i, 1);
        CHECK(memcmp(out, half_results + i, sizeof out) == 0 &&
                  raised == (right[0] | right[1] | right[2] | right[3]),
              "%s of f16 from %#x on: other bits or flags (%#x) than in short rows", op->name, i,
              raised);
    }
}

/* ---- fork ---- */

/* Computes in a child with arrays as large as the parent's; returns 0 if all is right. */
static int compute_in_child(int64_t n, const double *a, const double *b)
{
    double *out = malloc((size_t)n * sizeof *out);
    if (out == NULL || mylib_map1(MYLIB_OP_add, MYLIB_F64, n, out, 8, a, 8, b, 8) != MYLIB_OK)
        return 1;
    for (int64_t i = 0; i < n; i++)
        if (out[i] != a[i] + b[i])
            return 2;
    feclearexcept(FE_ALL_EXCEPT);
    memset(out, 0, (size_t)n * sizeof *out);
    if (mylib_map1(MYLIB_OP_divide, MYLIB_F64, n, out, 8, a, 8, out, 8) != MYLIB_OK ||
        !fetestexcept(FE_DIVBYZERO))
        return 3;
    return 0;
}

static void *fork_from(void *argument)
{
    const triple *t = argument;
    const int64_t n = 1 << 20;
    double *a = (double *)t->a, *b = (double *)t->b;
    for (int round = 0; round < 3; round++) {
        /* Now the library's threads exist here, and will not in the child. */
        CHECK_OK(mylib_map1(MYLIB_OP_add, MYLIB_F64, n, t->out, 8, a, 8, b, 8));
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            int result = compute_in_child(n, a, b);
            /* And a child of the child. */
            pid_t grandchild = result == 0 ? fork() : -1;
            if (grandchild == 0)
                _exit(compute_in_child(n, a, b));
            if (grandchild > 0) {
                int status = 1;
                waitpid(grandchild, &status, 0);
                result = status == 0 ? 0 : 4;
            }
            _exit(result);
        }
        CHECK(child > 0, "fork failed");
        if (!test_wait_for(child))
            break;
        CHECK_OK(mylib_map1(MYLIB_OP_add, MYLIB_F64, n, t->out, 8, a, 8, b, 8));
    }
    return NULL;
}

/*
 * A child of a process with threads makes threads of its own, which ThreadSanitizer refuses and
 * qemu's emulation of user programs does not survive.
 */
static int can_children_have_threads(void)
{
#if defined(__SANITIZE_THREAD__)
    return 0;
#else
    return getenv("MYLIB_TEST_EMULATED_CPU") == NULL;
#endif
}

static void test_fork(rng *r)
{
    if (!can_children_have_threads())
        return;
    triple t = make_triple(1 << 20, 8);
    pthread_t thread;
    fill_ordinary(r, MYLIB_F64, 1 << 20, t.a);
    fill_ordinary(r, MYLIB_F64, 1 << 20, t.b);
    test_set_case("fork");
    fork_from(&t);
    test_set_case("fork from another thread");
    if (pthread_create(&thread, NULL, fork_from, &t) != 0)
        test_give_up("pthread_create failed");
    pthread_join(thread, NULL);
    free_triple(&t);
}

/* ---- pthread_cancel() ---- */

static atomic_int is_computing;

static void *compute_for_ever(void *context)
{
    const triple *t = context;
    for (;;) {
        atomic_store(&is_computing, 1);
        CHECK_OK(mylib_map1(MYLIB_OP_power, MYLIB_F64, 1 << 20, t->out, 8, t->a, 8, t->b, 8));
        pthread_testcancel();
    }
    return NULL;
}

/* A thread that is cancelled in a call leaves no job and no lock behind: others go on. */
static void test_cancel(rng *r)
{
    triple t = make_triple(1 << 20, 8);
    fill_ordinary(r, MYLIB_F64, 1 << 20, t.a);
    fill_ordinary(r, MYLIB_F64, 1 << 20, t.b);
    test_set_case("a thread that is cancelled");
    for (int i = 0; i < test_rounds(20); i++) {
        pthread_t thread;
        atomic_store(&is_computing, 0);
        if (pthread_create(&thread, NULL, compute_for_ever, &t) != 0)
            test_give_up("pthread_create failed");
        while (!atomic_load(&is_computing))
            sched_yield();
        pthread_cancel(thread);
        pthread_join(thread, NULL);
        CHECK_OK(mylib_map1(MYLIB_OP_add, MYLIB_F64, 1 << 20, t.out, 8, t.a, 8, t.b, 8));
    }
    free_triple(&t);
}

/* Cancelled before the process's first question for the processors, which reads files. */
static void *count_cancelled(void *reached)
{
    int threads;
    pthread_cancel(pthread_self());
    if (mylib_get_num_threads(&threads) == MYLIB_OK)
        *(int *)reached = threads;
    pthread_testcancel();
    return NULL;
}

static void test_first_count(void)
{
    pthread_t thread;
    int reached = 0;
    test_set_case("a thread that is cancelled in mylib_get_num_threads()");
    if (pthread_create(&thread, NULL, count_cancelled, &reached) != 0)
        test_give_up("pthread_create failed");
    pthread_join(thread, NULL);
    CHECK(reached > 0, "it ended within the call");
}

/* ---- Other programs' settings ---- */

static double early_sum;

/* With the static library, before its own constructors if these had no priority. */
__attribute__((constructor)) static void compute_early(void)
{
    const double one = 1, two = 2;
    (void)mylib_map1(MYLIB_OP_add, MYLIB_F64, 1, &early_sum, 8, &one, 8, &two, 8);
}

#if defined(__GLIBC__)
/* Threads start with little stack by default; workers do not. */
static int compute_with_small_stacks(void)
{
    rng r = rng_make(1);
    triple t = make_triple(1 << 20, 2);
    pthread_attr_t attributes;
    fill_ordinary(&r, MYLIB_F16, 1 << 20, t.a);
    fill_ordinary(&r, MYLIB_F16, 1 << 20, t.b);
    if (pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setstacksize(&attributes, 32 << 10) != 0 ||
        pthread_setattr_default_np(&attributes) != 0)
        return 2;
    return mylib_map1(MYLIB_OP_fmod, MYLIB_F16, 1 << 20, t.out, 2, t.a, 2, t.b, 2) != MYLIB_OK;
}
#endif

/* ---- main ---- */

static void test_thread_count(int threads)
{
    mylib_config config;
    int count = 0;
    test_set_case("the number of threads");
    CHECK_OK(mylib_get_config(&config));
    CHECK(config.threads == threads, "%d threads, not %d", config.threads, threads);
    CHECK_OK(mylib_get_num_threads(&count));
    CHECK(count == threads, "%d threads, not %d", count, threads);
}

int main(void)
{
    static const int counts[] = {2, 3, 1, 4};
    static const mylib_type types[5] = {MYLIB_I8, MYLIB_F16, MYLIB_F32, MYLIB_I64, MYLIB_C128};
    mylib_config config;
    test_begin("threads");
    test_first_count();
    CHECK(early_sum == 3, "a constructor gave %g", early_sum);
    CHECK_OK(mylib_get_config(&config));
    printf("threads: %d by the library's own choice\n", config.threads);
    CHECK_STATUS(mylib_set_num_threads(-1), MYLIB_ERR_ARGUMENT);
    test_thread_count(config.threads);

    rng r = rng_make(1);
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        int threads = counts[i];
        CHECK_OK(mylib_set_num_threads(threads));
        test_thread_count(threads);
        for (int k = 0; k < test_rounds(5); k++)
            test_every_element(types[(i + (size_t)k) % 5], threads, &r);
    }
    CHECK_OK(mylib_set_num_threads(100000));
    test_thread_count(256);
    CHECK_OK(mylib_set_num_threads(4));
    test_large_unaligned(&r);
    test_flags(&r);
    FOR_EACH_LEVEL(level)
    {
        FOR_EACH_PAIR(op, t)
        {
            if (t->type == MYLIB_F16 && op->arity == 1 && op->op >= MYLIB_OP_sin)
                test_halves(op);
        }
    }
    CHECK_OK(mylib_set_cpu_level(NULL));
    test_callers();
    test_cancel(&r);
    test_fork(&r);
#if defined(__GLIBC__)
    test_set_case("a default stack of 32 KB");
    if (can_children_have_threads())
        test_in_child(compute_with_small_stacks);
#endif
    CHECK_OK(mylib_set_num_threads(0));
    test_thread_count(config.threads);
    return test_end();
}
