/*
 * Failing calls of the CUDA runtime: each call that an entry point makes in turn, once and for
 * ever, for lack of memory, of launch resources, or with the loss of the context.  Whatever fails,
 * the entry point returns an error with a message or the right result, leaves no error set and
 * nothing allocated, and the next call works.  On emulated GPUs, whose runtime is a stand-in that
 * can be made to fail.
 */
#include "cuda_standin/cuda_standin.h"
#include "test.h"

enum { OUT_OF_MEMORY = 2, NO_DEVICE = 100, OUT_OF_RESOURCES = 701, ILLEGAL_ADDRESS = 700 };

#define N 9000
#define NBYTES ((size_t)N * 8)

static const mylib_device gpu = {MYLIB_CUDA, 0}, other = {MYLIB_CUDA, 1};
static const mylib_device all = {MYLIB_CUDA, MYLIB_ALL_GPUS};
static const int64_t one_row[1] = {N}, square[2] = {90, 90}, columns[2] = {90, 100};
static const int64_t across[2] = {8, 720}, repeated[2] = {0, 8};
static const int64_t tall[2] = {N / 5, 5}, one_of_5[2] = {1, 5};

/* Inputs, the same in all places; what calls write to; all of NBYTES. */
static double *host_in, *host_out;
static void *gpu_in, *gpu_out, *other_in, *other_out, *pinned_in, *pinned_out;
static void *stream, *other_stream;
static union {
    int64_t integer;
    double parts[2];
} number; /* a result that is one number */
static mylib_program *sum_of_squares, *long_program;

/* ---- Scenarios ---- */

static mylib_array row_of(void *data, mylib_device device)
{
    return (mylib_array){data, device, MYLIB_F64, 1, one_row, NULL};
}

static mylib_array matrix_of(void *data, mylib_device device, const int64_t *shape,
                             const int64_t *strides)
{
    return (mylib_array){data, device, MYLIB_F64, 2, shape, strides};
}

static mylib_array number_of(mylib_device device, void *data)
{
    return (mylib_array){data, device, MYLIB_F64, 0, NULL, NULL};
}

static mylib_array in_type(mylib_array array, mylib_type type)
{
    array.type = type;
    return array;
}

/* Continues after a failure; returns the first status. */
static mylib_status also(mylib_status first, mylib_status then)
{
    return first != MYLIB_OK ? first : then;
}

/* Holds a resource that could not be freed; it can be freed after the failure. */
static struct pending {
    enum { NOTHING, MEMORY, PINNED, STREAM } kind;
    mylib_device device;
    void *what, *stream;
} pending[4];

static mylib_status give_back(struct pending p)
{
    return p.kind == MEMORY   ? mylib_free(p.device, p.what, p.stream)
           : p.kind == PINNED ? mylib_free_pinned(p.what)
                              : mylib_stream_destroy(p.device, p.what);
}

static mylib_status free_or_keep(struct pending p)
{
    struct pending *room = pending;
    mylib_status st = p.what == NULL ? MYLIB_OK : give_back(p);
    while (st != MYLIB_OK && room->kind != NOTHING)
        room++;
    if (st != MYLIB_OK)
        *room = p;
    return st;
}

static mylib_status alloc_small(void)
{
    void *a = NULL, *b = NULL;
    mylib_status st = mylib_alloc(gpu, 1000, NULL, &a);
    st = also(st, mylib_alloc(gpu, 1000, NULL, &b));
    st = also(st, free_or_keep((struct pending){MEMORY, gpu, a, NULL}));
    return also(st, free_or_keep((struct pending){MEMORY, gpu, b, NULL}));
}

static mylib_status alloc_on_stream(void)
{
    void *a = NULL;
    mylib_status st = mylib_alloc(other, 3 << 20, other_stream, &a);
    return also(st, free_or_keep((struct pending){MEMORY, other, a, other_stream}));
}

static mylib_status alloc_pinned(void)
{
    void *a = NULL;
    mylib_status st = mylib_alloc_pinned(1000, &a);
    return also(st, free_or_keep((struct pending){PINNED, test_cpu, a, NULL}));
}

static mylib_status streams(void)
{
    void *made = NULL;
    mylib_status st = mylib_stream_create(other, &made);
    if (st != MYLIB_OK)
        return st;
    st = mylib_stream_wait(other, made, gpu, stream);
    st = also(st, mylib_stream_wait(gpu, stream, other, made));
    st = also(st, mylib_synchronize(other, made));
    return also(st, free_or_keep((struct pending){STREAM, other, made, NULL}));
}

static mylib_status information(void)
{
    int count;
    mylib_device_info info;
    mylib_memory_info memory;
    mylib_device where;
    mylib_status st = mylib_cuda_device_count(&count);
    st = also(st, mylib_cuda_device_info(1, &info));
    st = also(st, mylib_cuda_memory_info(1, &memory));
    return also(st, mylib_pointer_device((char *)gpu_in + 8, &where));
}

static mylib_status limit(void)
{
    void *a = NULL;
    mylib_status st = mylib_cuda_set_memory_limit(0, 1000);
    if (st == MYLIB_OK)
        st = mylib_alloc(gpu, 2000, NULL, &a) == MYLIB_ERR_NO_MEMORY ? MYLIB_OK : MYLIB_ERR_CUDA;
    return also(st, mylib_cuda_set_memory_limit(0, UINT64_MAX));
}

static mylib_status copy_array(mylib_array dst, mylib_array src, void *on)
{
    return mylib_copy_array(on, &dst, &src);
}

static mylib_status join(void)
{
    static const int64_t parts[2][1] = {{N - 100}, {100}};
    const mylib_array dst = row_of(gpu_out, gpu);
    mylib_array src[2] = {row_of(gpu_in, gpu), row_of(gpu_in, gpu)};
    src[0].shape = parts[0], src[1].shape = parts[1];
    return mylib_copy_arrays(stream, &dst, 0, 2, src);
}

static mylib_status range(mylib_array out)
{
    return mylib_arange(stream, &out, &host_in[1], &host_in[2]);
}

static mylib_status map(mylib_device device, mylib_array out, mylib_array a, mylib_array b,
                        void *on)
{
    const mylib_array in[2] = {a, b};
    return mylib_map(MYLIB_OP_divide, device, on, &out, in);
}

static mylib_status map_as(mylib_array out, mylib_array in)
{
    return mylib_map_as(MYLIB_OP_square, MYLIB_F32, gpu, NULL, &out, &in);
}

static mylib_status choose(mylib_array out, mylib_array in)
{
    return mylib_select(gpu, NULL, &out, &in, &in, &in);
}

static mylib_status map_host_small(void)
{
    static const int64_t few[1] = {100};
    mylib_array out = row_of(host_out, test_cpu), in = row_of(host_in, test_cpu);
    out.shape = in.shape = few;
    return map(gpu, out, in, in, NULL);
}

static mylib_status run(const mylib_program *program, mylib_device device, mylib_array out,
                        mylib_array a, mylib_array b, void *on)
{
    const mylib_array in[2] = {a, b};
    return mylib_program_run(program, device, on, &out, in);
}

static mylib_status reduce(mylib_array out, mylib_array in)
{
    return mylib_reduce(MYLIB_SUM, MYLIB_F64, gpu, NULL, &out, &in);
}

static mylib_status mean(mylib_array out, mylib_array in)
{
    return mylib_reduce(MYLIB_MEAN, MYLIB_F64, gpu, NULL, &out, &in);
}

static mylib_status reduce_program(mylib_array out, mylib_array in)
{
    const mylib_array inputs[2] = {in, in};
    return mylib_program_reduce(sum_of_squares, MYLIB_SUM, MYLIB_F64, gpu, NULL, &out, inputs);
}

static mylib_status dot(mylib_array out, mylib_array in, void *on)
{
    return mylib_dot(MYLIB_F64, gpu, on, &out, &in, &in);
}

static mylib_status trace(mylib_array in, void *on) { return mylib_trace(gpu, on, &in, &number); }

/* Waits for the least exponent. */
static mylib_status power(mylib_array out, mylib_array in)
{
    const mylib_array inputs[2] = {in, in};
    return mylib_map(MYLIB_OP_power, gpu, stream, &out, inputs);
}

/* X(name, call) */
#define SCENARIOS(X) \
    X(alloc_small, alloc_small()) \
    X(alloc_on_stream, alloc_on_stream()) \
    X(alloc_pinned, alloc_pinned()) \
    X(streams, streams()) \
    X(information, information()) \
    X(limit, limit()) \
    X(free_cached, mylib_free_cached()) \
    X(copy_in_small, mylib_copy(gpu, gpu_out, test_cpu, host_in, 100, NULL)) \
    X(copy_out_small, mylib_copy(test_cpu, host_out, gpu, gpu_in, 100, stream)) \
    X(copy_in, mylib_copy(gpu, gpu_out, test_cpu, host_in, NBYTES, stream)) \
    X(copy_out, mylib_copy(test_cpu, host_out, other, other_in, NBYTES, NULL)) \
    X(copy_in_pinned, mylib_copy(gpu, gpu_out, test_cpu, pinned_in, NBYTES, NULL)) \
    X(copy_out_pinned, mylib_copy(test_cpu, pinned_out, gpu, gpu_in, NBYTES, NULL)) \
    X(copy_within, mylib_copy(gpu, gpu_out, gpu, gpu_in, NBYTES, stream)) \
    X(copy_between, mylib_copy(other, other_out, gpu, gpu_in, NBYTES, other_stream)) \
    X(transpose_between, \
      copy_array(in_type(matrix_of(other_out, other, square, across), MYLIB_F32), \
                 matrix_of(gpu_in, gpu, square, across), NULL)) \
    X(transpose_in, copy_array(matrix_of(gpu_out, gpu, square, across), \
                               matrix_of(host_in, test_cpu, square, NULL), stream)) \
    X(convert_out, copy_array(in_type(matrix_of(host_out, test_cpu, square, NULL), MYLIB_I32), \
                              matrix_of(gpu_in, gpu, square, across), stream)) \
    X(repeat_in, copy_array(matrix_of(gpu_out, gpu, columns, NULL), \
                            matrix_of(host_in, test_cpu, columns, repeated), NULL)) \
    X(join, join()) \
    X(fill, copy_array(row_of(gpu_out, gpu), number_of(test_cpu, host_in), NULL)) \
    X(range, range(row_of(gpu_out, gpu))) \
    X(map_rows, map(gpu, row_of(gpu_out, gpu), row_of(gpu_in, gpu), row_of(gpu_in, gpu), NULL)) \
    X(map_turned, \
      map(gpu, matrix_of(gpu_out, gpu, square, NULL), matrix_of(gpu_in, gpu, square, across), \
          matrix_of((double *)gpu_in + 1, gpu, square, NULL), stream)) \
    X(map_number, \
      map(gpu, row_of(gpu_out, gpu), row_of(gpu_in, gpu), number_of(test_cpu, host_in), NULL)) \
    X(map_as, map_as(in_type(row_of(gpu_out, gpu), MYLIB_F32), row_of(gpu_in, gpu))) \
    X(choose, choose(row_of(gpu_out, gpu), row_of(gpu_in, gpu))) \
    X(map_host, map(gpu, row_of(host_out, test_cpu), row_of(host_in, test_cpu), \
                    row_of(host_in, test_cpu), NULL)) \
    X(map_host_small, map_host_small()) \
    X(map_pinned, map(gpu, row_of(pinned_out, test_cpu), row_of(pinned_in, test_cpu), \
                      row_of(host_in, test_cpu), NULL)) \
    X(map_all, map(all, row_of(host_out, test_cpu), row_of(host_in, test_cpu), \
                   row_of(host_in, test_cpu), NULL)) \
    X(run_short, run(sum_of_squares, gpu, row_of(gpu_out, gpu), row_of(gpu_in, gpu), \
                     row_of(gpu_in, gpu), stream)) \
    X(run_turned, \
      run(sum_of_squares, gpu, matrix_of(gpu_out, gpu, square, NULL), \
          matrix_of(gpu_in, gpu, square, across), matrix_of(gpu_in, gpu, square, NULL), NULL)) \
    X(run_long, run(long_program, gpu, row_of(gpu_out, gpu), row_of(gpu_in, gpu), \
                    row_of(gpu_in, gpu), stream)) \
    X(run_host, run(sum_of_squares, gpu, row_of(host_out, test_cpu), row_of(host_in, test_cpu), \
                    row_of(host_in, test_cpu), stream)) \
    X(run_all, run(long_program, all, row_of(pinned_out, test_cpu), row_of(pinned_in, test_cpu), \
                   row_of(pinned_in, test_cpu), NULL)) \
    X(reduce_all, reduce(number_of(gpu, gpu_out), row_of(gpu_in, gpu))) \
    X(reduce_columns, \
      reduce(matrix_of(gpu_out, gpu, one_of_5, NULL), matrix_of(gpu_in, gpu, tall, NULL))) \
    X(mean_all, mean(number_of(gpu, gpu_out), row_of(gpu_in, gpu))) \
    X(mean_host, mean(number_of(test_cpu, host_out), row_of(host_in, test_cpu))) \
    X(reduce_number, reduce(number_of(gpu, gpu_out), number_of(test_cpu, host_in))) \
    X(reduce_host, reduce(number_of(test_cpu, host_out), row_of(host_in, test_cpu))) \
    X(reduce_program_all, reduce_program(number_of(gpu, gpu_out), row_of(gpu_in, gpu))) \
    X(reduce_program_columns, \
      reduce_program(matrix_of(gpu_out, gpu, one_of_5, NULL), matrix_of(gpu_in, gpu, tall, NULL))) \
    X(reduce_program_host, \
      reduce_program(number_of(test_cpu, host_out), row_of(host_in, test_cpu))) \
    X(dot, dot(number_of(gpu, gpu_out), row_of(gpu_in, gpu), stream)) \
    X(dot_host, dot(number_of(test_cpu, host_out), row_of(host_in, test_cpu), NULL)) \
    X(trace, trace(matrix_of(gpu_in, gpu, square, NULL), stream)) \
    X(trace_host, trace(matrix_of(host_in, test_cpu, square, NULL), NULL)) \
    X(power, \
      power(in_type(row_of(gpu_out, gpu), MYLIB_I64), in_type(row_of(gpu_in, gpu), MYLIB_I64))) \
    X(scalar_i64, mylib_scalar_i64(MYLIB_OP_multiply, gpu, 6, 7, &number.integer)) \
    X(scalar_f64, mylib_scalar_f64(MYLIB_OP_divide, other, 1, 3, number.parts)) \
    X(scalar_c128, mylib_scalar_c128(MYLIB_OP_multiply, gpu, host_in, host_in + 2, number.parts))

#define DEFINE_RUN(name, call) \
    static mylib_status run_##name(void) { return call; }
SCENARIOS(DEFINE_RUN)

#define SCENARIO(name, call) {#name, run_##name},
static const struct scenario {
    const char *name;
    mylib_status (*run)(void);
} scenarios[] = {SCENARIOS(SCENARIO)};

/* ---- Checks ---- */

/* All that a scenario can write to. */
typedef struct results {
    unsigned char bytes[4][NBYTES], number[sizeof number];
} results;

static void poison_results(void)
{
    memset(&number, 0xa5, sizeof number);
    memset(host_out, 0xa5, NBYTES);
    memset(pinned_out, 0xa5, NBYTES);
    memset(gpu_out, 0xa5, NBYTES); /* an emulated GPU's memory is the host's */
    memset(other_out, 0xa5, NBYTES);
}

static void fetch_results(results *r)
{
    memcpy(r->bytes[0], host_out, NBYTES);
    memcpy(r->bytes[1], pinned_out, NBYTES);
    memcpy(r->number, &number, sizeof number);
    memcpy(r->bytes[2], gpu_out, NBYTES);
    memcpy(r->bytes[3], other_out, NBYTES);
}

static cuda_standin_counts count_now(void)
{
    cuda_standin_counts counts;
    cuda_standin_count(&counts);
    return counts;
}

static cuda_standin_counts count_after_cleanup(void)
{
    CHECK_OK(mylib_free_cached());
    return count_now();
}

/* Tells whether a call frees something, which stays if it fails in the library's cleanup. */
static int gives_back(const char *call)
{
    return strstr(call, "Free") != NULL || strstr(call, "Destroy") != NULL;
}

static results expected, got;

/* Lets the n-th call fail; returns whether there are that many. */
static int check_failure(const struct scenario *s, int is_cold, long n, int error, int for_ever)
{
    char old[TEST_MESSAGE_SIZE];
    poison_results();
    cuda_standin_counts before = count_after_cleanup();
    if (!is_cold) { /* with all that is kept for speed */
        CHECK_OK(s->run());
        poison_results();
    }
    test_forget_message(old);
    cuda_standin_fail(n, error, for_ever);
    mylib_status st = s->run();
    char message[TEST_MESSAGE_SIZE];
    snprintf(message, sizeof message, "%s", mylib_last_message());
    const char *call = cuda_standin_failed();
    int left = cuda_standin_last_error();
    cuda_standin_fail(0, 0, 0);
    cuda_standin_restart();
    for (struct pending *p = pending; p->kind != NOTHING; p++) {
        CHECK_OK(give_back(*p));
        p->kind = NOTHING;
    }
    if (call == NULL) {
        CHECK(st == MYLIB_OK, "%s without a failure", mylib_status_name(st));
        return 0;
    }
    test_set_case("%s, %s: call %ld, %s, gives error %d%s", s->name, is_cold ? "cold" : "warm", n,
                  call, error, for_ever ? " for ever" : "");
    if (st == MYLIB_OK) {
        fetch_results(&got);
        CHECK(memcmp(&got, &expected, sizeof got) == 0, "success, but the result is wrong");
    } else {
        CHECK(message[0] != '\0' && strcmp(message, old) != 0, "no message");
        CHECK(st == MYLIB_ERR_NO_MEMORY || st == MYLIB_ERR_CUDA || st == MYLIB_ERR_NO_DEVICE,
              "%s: %s", mylib_status_name(st), message);
        CHECK(error != OUT_OF_MEMORY || st == MYLIB_ERR_NO_MEMORY ||
                  strcmp(call, "cudaGetDeviceCount") == 0,
              "%s, not MYLIB_ERR_NO_MEMORY: %s", mylib_status_name(st), message);
    }
    if (error != ILLEGAL_ADDRESS)
        CHECK(left == 0, "the CUDA error %d is left set", left);
    poison_results();
    if (CHECK_OK(s->run())) {
        fetch_results(&got);
        CHECK(memcmp(&got, &expected, sizeof got) == 0, "the next call gives a wrong result");
    }
    cuda_standin_counts after = count_after_cleanup();
    if (!gives_back(call) && !(for_ever || error == ILLEGAL_ADDRESS)) {
        CHECK(after.allocations == before.allocations, "%ld allocations on GPUs became %ld",
              before.allocations, after.allocations);
        CHECK(after.pinned == before.pinned, "%ld pinned allocations became %ld", before.pinned,
              after.pinned);
        CHECK(after.streams == before.streams, "%ld streams became %ld", before.streams,
              after.streams);
        CHECK(after.events == before.events, "%ld events became %ld", before.events, after.events);
        CHECK(after.pools <= test_gpu_count, "there are %ld pools", after.pools);
    }
    return 1;
}

static void check_scenario(const struct scenario *s, int error)
{
    test_set_case("%s, undisturbed", s->name);
    poison_results();
    if (!CHECK_OK(s->run()))
        return;
    fetch_results(&expected);
    for (int way = 0; way < 3; way++) {
        int is_cold = way == 2, for_ever = way == 1;
        if (is_cold && error != OUT_OF_MEMORY)
            continue;
        /* A long program makes the same calls over and over. */
        for (long n = 1; check_failure(s, is_cold, n, error, for_ever); n += 1 + n / 20)
            ;
    }
}

static void *gpu_memory(mylib_device device, const void *from)
{
    void *memory = NULL;
    if (mylib_alloc(device, NBYTES, NULL, &memory) != MYLIB_OK ||
        mylib_copy(device, memory, test_cpu, from, NBYTES, NULL) != MYLIB_OK)
        test_give_up(mylib_last_message());
    return memory;
}

static int count_gpus(void)
{
    int count;
    return mylib_cuda_device_count(&count) != MYLIB_OK;
}

/* A process that found no GPU has not used CUDA: its child may. */
static void test_fork_without_gpu(void)
{
    int count;
    test_set_case("fork() after a call that found no GPU");
    cuda_standin_fail(1, NO_DEVICE, 0);
    CHECK_STATUS(mylib_cuda_device_count(&count), MYLIB_ERR_NO_DEVICE);
    test_in_child(count_gpus);
}

int main(int argc, char **argv)
{
    static const mylib_step squares[] = {{MYLIB_OP_square, MYLIB_F64, {0, 0, 0}},
                                         {MYLIB_OP_square, MYLIB_F64, {1, 0, 0}},
                                         {MYLIB_OP_add, MYLIB_F64, {2, 3, 0}}};
    static const int errors[] = {OUT_OF_MEMORY, OUT_OF_RESOURCES, ILLEGAL_ADDRESS};
    const size_t count = COUNT_OF(scenarios);
    setenv("MYLIB_STREAM_SLOT_KIB", "64", 1); /* several pieces of each array */
    setenv("MYLIB_STREAM_THREADS", "2", 1);
    test_begin_gpu("cuda_faults", argc, argv, test_fork_without_gpu);
    if (test_gpu_count < 2)
        test_give_up("two emulated GPUs are needed");
    host_in = test_malloc(NBYTES);
    host_out = test_malloc(NBYTES);
    for (int i = 0; i < N; i++)
        host_in[i] = 1 + i % 97;
    gpu_in = gpu_memory(gpu, host_in);
    gpu_out = gpu_memory(gpu, host_in);
    other_in = gpu_memory(other, host_in);
    other_out = gpu_memory(other, host_in);
    if (mylib_alloc_pinned(NBYTES, &pinned_in) != MYLIB_OK ||
        mylib_alloc_pinned(NBYTES, &pinned_out) != MYLIB_OK ||
        mylib_stream_create(gpu, &stream) != MYLIB_OK ||
        mylib_stream_create(other, &other_stream) != MYLIB_OK)
        test_give_up(mylib_last_message());
    memcpy(pinned_in, host_in, NBYTES);
    sum_of_squares = test_program(3, squares);
    long_program = test_long_program(100);
    for (size_t i = 0; i < count; i++) /* what is made once exists now */
        CHECK_OK(scenarios[i].run());
    for (size_t e = 0; e < COUNT_OF(errors); e++) {
        /* One worker makes its calls in one order; several must stop each other. */
        setenv("MYLIB_STREAM_THREADS", errors[e] == ILLEGAL_ADDRESS ? "2" : "1", 1);
        for (size_t i = 0; i < count; i++)
            check_scenario(&scenarios[i], errors[e]);
    }
    mylib_program_free(sum_of_squares);
    mylib_program_free(long_program);
    return test_end();
}
