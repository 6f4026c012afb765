/*
 * Host arrays on all GPUs at once (MYLIB_ALL_GPUS): the bits and the flags of the CPU, for pageable
 * and pinned memory in several layouts; the error of each GPU, after which nothing is left in
 * flight and the next call works; and a refusal where one GPU is meant.  With one GPU too.
 *
 *     test_gpu_all [--quick]    --quick: less often, for compute-sanitizer
 *
 * Exit status 77, "skipped", without a GPU; with MYLIB_REQUIRE_GPU=1 that is a failure.
 */
#include "test.h"

#include <fenv.h>

static const mylib_device all = {MYLIB_CUDA, MYLIB_ALL_GPUS};

/* Three arrays of so many bytes are computed by all GPUs, real ones and emulated ones. */
static int64_t rows, columns;
#define COUNT (rows * columns)

static double *a, *b, *right, *got;

static mylib_array array_of(double *data, int ndim, const int64_t *shape, const int64_t *strides)
{
    return (mylib_array){data, test_cpu, MYLIB_F64, ndim, shape, strides};
}

/* Computes with the CPU and with all GPUs, and compares all bytes, also beside the elements. */
static void compare(const char *what, const mylib_program *program, mylib_array out, mylib_array x,
                    mylib_array y)
{
    const mylib_array in[2] = {x, y};
    char *first = out.data;
    test_set_case("%s, %s", what, program == NULL ? "divide" : "a program");
    for (int k = 0; k < 2; k++) {
        memset(k ? got : right, 0xa5, (size_t)COUNT * sizeof *got);
        out.data = k ? (char *)got + (first - (char *)right) : first;
        if (program != NULL)
            CHECK_OK(mylib_program_run(program, k ? all : test_cpu, NULL, &out, in));
        else
            CHECK_OK(mylib_map(MYLIB_OP_divide, k ? all : test_cpu, NULL, &out, in));
    }
    CHECK(memcmp(got, right, (size_t)COUNT * sizeof *got) == 0, "the results differ");
}

static void test_layouts(const mylib_program *program)
{
    const int64_t row[1] = {COUNT}, half[1] = {COUNT / 2}, matrix[2] = {rows, columns};
    const int64_t turned[2] = {8, 8 * rows}, back[1] = {-8}, second[1] = {16}, none[1] = {0};
    const mylib_array out = array_of(right, 1, row, NULL), x = array_of(a, 1, row, NULL);
    const mylib_array y = array_of(b, 1, row, NULL);
    compare("rows", program, out, x, y);
    compare("backwards", program, array_of(right + COUNT - 1, 1, row, back), x, y);
    compare("every second", program, array_of(right, 1, half, second), array_of(a, 1, half, second),
            array_of(b, 1, half, NULL));
    compare("turned", program, array_of(right, 2, matrix, NULL), array_of(a, 2, matrix, turned),
            array_of(b, 2, matrix, NULL));
    compare("a number", program, out, x, array_of(b, 1, row, none));
    compare("a row", program, array_of(right, 2, matrix, NULL), array_of(a, 2, matrix, NULL),
            array_of(b, 1, &columns, NULL));
}

static void test_flags(void)
{
    const mylib_array out = array_of(got, 1, (int64_t[]){COUNT}, NULL);
    const mylib_array in[2] = {array_of(a, 1, out.shape, NULL), array_of(b, 1, out.shape, NULL)};
    for (int k = 0; k < 3; k++) {
        const int64_t at = k == 2 ? COUNT / 2 : k * (COUNT - 1);
        const double kept = b[at];
        test_set_case("a division by zero at %lld", (long long)at);
        feclearexcept(FE_ALL_EXCEPT);
        CHECK_OK(mylib_map(MYLIB_OP_divide, all, NULL, &out, in));
        CHECK(!fetestexcept(FE_DIVBYZERO), "a flag without a reason");
        b[at] = 0;
        CHECK_OK(mylib_map(MYLIB_OP_divide, all, NULL, &out, in));
        CHECK(fetestexcept(FE_DIVBYZERO), "no flag");
        b[at] = kept;
    }
}

/* Each GPU in turn has no memory for the values between the steps of a long program. */
static void test_errors(const mylib_program *program)
{
    const mylib_array out = array_of(got, 1, (int64_t[]){COUNT}, NULL);
    const mylib_array in[2] = {array_of(a, 1, out.shape, NULL), array_of(b, 1, out.shape, NULL)};
    for (int gpu = 0; gpu < test_gpu_count; gpu++) {
        char name[32];
        mylib_memory_info before, after;
        mylib_status st = MYLIB_OK;
        test_set_case("no memory on cuda:%d", gpu);
        snprintf(name, sizeof name, " on cuda:%d:", gpu);
        CHECK_OK(mylib_free_cached());
        CHECK_OK(mylib_cuda_memory_info(gpu, &before));
        CHECK_OK(mylib_cuda_set_memory_limit(gpu, before.used_nbytes));
        /* The GPU's thread may come when the others have done everything. */
        for (int k = 0; k < 50 && st == MYLIB_OK; k++)
            st = mylib_program_run(program, all, NULL, &out, in);
        CHECK(st == MYLIB_ERR_NO_MEMORY && strstr(mylib_last_message(), name) != NULL, "%s: %s",
              mylib_status_name(st), mylib_last_message());
        CHECK_OK(mylib_cuda_set_memory_limit(gpu, UINT64_MAX));
        CHECK_OK(mylib_cuda_memory_info(gpu, &after));
        CHECK(after.used_nbytes == before.used_nbytes, "memory was left behind");
        compare("after an error", program, array_of(right, 1, out.shape, NULL), in[0], in[1]);
    }
}

/* Calls that go through one GPU. */
static void test_small(void)
{
    double results[2][4], complex[2][2];
    int64_t integers[2];
    const int64_t few[1] = {3}, square[2] = {3, 3}, nothing[1] = {0};
    test_set_case("little and nothing");
    for (int k = 0; k < 2; k++) {
        const mylib_device device = k ? all : test_cpu;
        const mylib_array in[2] = {array_of(a, 1, few, NULL), array_of(b, 1, few, NULL)};
        const mylib_array whole = array_of(a, 2, square, NULL);
        mylib_array out = array_of(results[k], 1, few, NULL);
        CHECK_OK(mylib_map(MYLIB_OP_add, device, NULL, &out, in));
        out.ndim = 0, out.data = &results[k][3];
        CHECK_OK(mylib_reduce(MYLIB_SUM, MYLIB_F64, device, NULL, &out, in));
        CHECK_OK(mylib_dot(MYLIB_F64, device, NULL, &out, &in[0], &in[1]));
        CHECK_OK(mylib_trace(device, NULL, &whole, &results[k][2]));
        CHECK_OK(mylib_scalar_i64(MYLIB_OP_multiply, device, 6, 7, &integers[k]));
        CHECK_OK(mylib_scalar_f64(MYLIB_OP_divide, device, 1, 3, &results[k][1]));
        CHECK_OK(mylib_scalar_c128(MYLIB_OP_square, device, a, b, complex[k]));
        const mylib_array empty = array_of(NULL, 1, nothing, NULL), no_inputs[2] = {empty, empty};
        CHECK_OK(mylib_map(MYLIB_OP_add, device, NULL, &empty, no_inputs));
    }
    CHECK(memcmp(results[0], results[1], sizeof *results) == 0 && integers[0] == integers[1] &&
              memcmp(complex[0], complex[1], sizeof *complex) == 0,
          "the results differ");
}

#define REFUSED(call) \
    do { \
        CHECK_STATUS(call, MYLIB_ERR_ARGUMENT); \
        CHECK(strstr(mylib_last_message(), "all GPUs") != NULL, "%s", mylib_last_message()); \
    } while (0)

static void test_refusals(void)
{
    double one[3] = {1, 2, 3}, two[3] = {0};
    void *p = NULL;
    mylib_device_info info;
    mylib_memory_info memory;
    const mylib_device gpu = {MYLIB_CUDA, 0};
    const int64_t few[1] = {3};
    const mylib_array host = array_of(one, 1, few, NULL);
    const mylib_array there = {two, all, MYLIB_F64, 1, few, NULL};
    test_set_case("one GPU is meant");
    REFUSED(mylib_cuda_check_device(MYLIB_ALL_GPUS));
    REFUSED(mylib_alloc(all, 8, NULL, &p));
    REFUSED(mylib_alloc(all, 0, NULL, &p));
    REFUSED(mylib_free(all, NULL, NULL));
    REFUSED(mylib_copy(all, one, test_cpu, two, 8, NULL));
    REFUSED(mylib_copy(test_cpu, one, all, two, 8, NULL));
    REFUSED(mylib_copy_array(NULL, &there, &host));
    REFUSED(mylib_arange(NULL, &there, one, two));
    REFUSED(mylib_synchronize(all, NULL));
    REFUSED(mylib_stream_create(all, &p));
    REFUSED(mylib_stream_destroy(all, one));
    REFUSED(mylib_stream_wait(gpu, NULL, all, NULL));
    REFUSED(mylib_cuda_device_info(MYLIB_ALL_GPUS, &info));
    REFUSED(mylib_cuda_memory_info(MYLIB_ALL_GPUS, &memory));
    REFUSED(mylib_cuda_set_memory_limit(MYLIB_ALL_GPUS, 0));
    REFUSED(mylib_map(MYLIB_OP_negative, all, NULL, &there, &there));
    if (CHECK_OK(mylib_alloc(gpu, 24, NULL, &p))) {
        const mylib_array on_gpu = {p, gpu, MYLIB_F64, 1, few, NULL};
        REFUSED(mylib_map(MYLIB_OP_negative, all, NULL, &on_gpu, &on_gpu));
        CHECK_OK(mylib_free(gpu, p, NULL));
    }
    CHECK_STATUS(mylib_alloc((mylib_device){MYLIB_CPU, MYLIB_ALL_GPUS}, 8, NULL, &p),
                 MYLIB_ERR_ARGUMENT);
}

int main(int argc, char **argv)
{
    test_begin_gpu("gpu_all", argc, argv, NULL);
    rng r = rng_make(1);
    rows = test_is_emulated() ? 300 : 1600, columns = 1000;
    CHECK_OK(mylib_set_num_threads(2 * test_gpu_count));
    mylib_program *program = test_long_program(200);
    for (int pinned = 0; pinned < 2; pinned++) {
        const size_t nbytes = (size_t)COUNT * sizeof *a;
        double **const arrays[] = {&a, &b, &right, &got};
        for (int k = 0; k < 4; k++) {
            if (!pinned)
                *arrays[k] = test_malloc(nbytes);
            else if (!CHECK_OK(mylib_alloc_pinned(nbytes, (void **)arrays[k])))
                test_give_up("no pinned memory");
        }
        for (int64_t i = 0; i < COUNT; i++) {
            a[i] = (double)(1 + rng_below(&r, 1000)) / 1024;
            b[i] = (double)(1 + rng_below(&r, 1000)) / 1024;
        }
        /* Small slots make many pieces. */
        setenv("MYLIB_STREAM_SLOT_KIB", pinned ? "6144" : "512", 1);
        CHECK_OK(mylib_free_cached());
        for (int k = 0; k < (test_quick ? 1 : test_rounds(5)); k++)
            test_layouts(NULL);
        test_layouts(program);
        test_flags();
        test_errors(program);
        test_small();
        for (int k = 0; k < 4; k++) {
            if (pinned)
                CHECK_OK(mylib_free_pinned(*arrays[k]));
            else
                free(*arrays[k]);
        }
    }
    test_refusals();
    mylib_program_free(program);
    test_gpu_works();
    return test_end();
}
