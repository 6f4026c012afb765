/*
 * Every error that the header documents: its status, its own message, and untouched results.  What
 * depends on a GPU is tested as far as possible without one.
 */
#include "reference.h"

#define LENGTH 6
#define POISON 0xa5

static const mylib_device no_such_kind = {99, 0};
static const mylib_device far_gpu = {MYLIB_CUDA, 4711};
static const mylib_device first_gpu = {MYLIB_CUDA, 0};

static double out[LENGTH], a[LENGTH], b[LENGTH];
static int64_t shape_of_6[1] = {6};

static int is_poison(const void *p, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        if (((const unsigned char *)p)[i] != POISON)
            return 0;
    return 1;
}

/* The status, a message of its own that holds 'part', and poisoned results. */
#define EXPECT_WITH(call, status, part) \
    do { \
        char old[TEST_MESSAGE_SIZE]; \
        memset(out, POISON, sizeof out); \
        test_forget_message(old); \
        if (CHECK_STATUS(call, status)) { \
            CHECK(strcmp(old, mylib_last_message()) != 0, "%s left the message of another call", \
                  #call); \
            CHECK(strstr(mylib_last_message(), part) != NULL, "%s: the message lacks \"%s\": %s", \
                  #call, part, mylib_last_message()); \
        } \
        CHECK(is_poison(out, sizeof out), "%s wrote to the result", #call); \
    } while (0)

#define EXPECT(call, status) EXPECT_WITH(call, status, "")

static mylib_array array_of(double *data)
{
    mylib_array array = {data, test_cpu, MYLIB_F64, 1, shape_of_6, NULL};
    return array;
}

/* ---- Names and tables ---- */

static void test_statuses(void)
{
#define CHECK_PINNED(status, value) \
    CHECK((int)(status) == (value) && strcmp(mylib_status_name(status), #status) == 0, \
          "%s is %d and called %s", #status, (int)(status), mylib_status_name(status))
    test_set_case("statuses");
    CHECK_PINNED(MYLIB_OK, 0);
    CHECK_PINNED(MYLIB_ERR_ARGUMENT, 1);
    CHECK_PINNED(MYLIB_ERR_UNSUPPORTED, 2);
    CHECK_PINNED(MYLIB_ERR_NO_MEMORY, 3);
    CHECK_PINNED(MYLIB_ERR_NO_DEVICE, 4);
    CHECK_PINNED(MYLIB_ERR_CUDA, 5);
    CHECK_PINNED(MYLIB_ERR_OVERFLOW, 6);
    CHECK_PINNED(MYLIB_ERR_ZERO_DIVIDE, 7);
    CHECK_PINNED(MYLIB_ERR_DOMAIN, 8);
    CHECK_PINNED(MYLIB_ERR_FORKED, 9);
#undef CHECK_PINNED
    CHECK(mylib_status_name((mylib_status)-1) != NULL, "no name for -1");
    CHECK(mylib_status_name((mylib_status)12345) != NULL, "no name for 12345");

    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", MYLIB_VERSION_MAJOR, MYLIB_VERSION_MINOR,
             MYLIB_VERSION_PATCH);
    CHECK(strcmp(mylib_version(), version) == 0, "the library is %s, the header %s",
          mylib_version(), version);
}

static void test_tables(void)
{
    static const int wrong_types[] = {-1, MYLIB_TYPE_COUNT, 1 << 20, INT32_MIN};
    static const int wrong_ops[] = {-1, MYLIB_OP_COUNT, 1 << 20, INT32_MIN};
    test_set_case("tables");
    for (const test_type *t = test_types; t < test_types + MYLIB_TYPE_COUNT; t++) {
        CHECK((int)t->type == (int)(t - test_types), "%s is not number %d", t->name,
              (int)(t - test_types));
        CHECK(strcmp(mylib_type_name(t->type), t->name) == 0, "%s is called %s", t->name,
              mylib_type_name(t->type));
        CHECK(mylib_type_size(t->type) == (size_t)t->size, "%s has %zu bytes", t->name,
              mylib_type_size(t->type));
    }
    for (const test_op *op = test_ops; op < test_ops + MYLIB_OP_COUNT; op++) {
        CHECK((int)op->op == (int)(op - test_ops), "%s is not number %d", op->name,
              (int)(op - test_ops));
        CHECK(strcmp(mylib_op_name(op->op), op->name) == 0, "%s is called %s", op->name,
              mylib_op_name(op->op));
        CHECK(mylib_op_arity(op->op) == op->arity, "%s has %d inputs", op->name,
              mylib_op_arity(op->op));
    }
    for (int i = 0; i < 4; i++) {
        CHECK(mylib_type_name((mylib_type)wrong_types[i]) == NULL, "type %d has a name",
              wrong_types[i]);
        CHECK(mylib_type_size((mylib_type)wrong_types[i]) == 0, "type %d has a size",
              wrong_types[i]);
        CHECK(mylib_op_name((mylib_op)wrong_ops[i]) == NULL, "operation %d has a name",
              wrong_ops[i]);
        CHECK(mylib_op_arity((mylib_op)wrong_ops[i]) == 0, "operation %d has inputs", wrong_ops[i]);
    }
}

static void test_result_types(void)
{
    mylib_type result;
    for (const test_op *op = test_ops; op < test_ops + MYLIB_OP_COUNT; op++) {
        for (const test_type *t = test_types; t < test_types + MYLIB_TYPE_COUNT; t++) {
            test_set_case("result of %s of %s", op->name, t->name);
            result = (mylib_type)77;
            if (test_defined(op, t->type)) {
                CHECK_OK(mylib_op_result_type(op->op, t->type, &result));
                CHECK(result == test_result_type(op, t->type), "it is %d", (int)result);
                CHECK_OK(mylib_op_result_type(op->op, t->type, NULL));
                continue;
            }
            EXPECT_WITH(mylib_op_result_type(op->op, t->type, &result), MYLIB_ERR_UNSUPPORTED,
                        op->name);
            /* Types for which it is defined are listed. */
            for (const test_type *u = test_types; u < test_types + MYLIB_TYPE_COUNT; u++)
                if (test_defined(op, u->type))
                    CHECK(strstr(mylib_last_message(), u->name) != NULL, "\"%s\" lacks %s",
                          mylib_last_message(), u->name);
            EXPECT(mylib_op_result_type(op->op, t->type, NULL), MYLIB_ERR_UNSUPPORTED);
            CHECK((int)result == 77, "the result was written");
            EXPECT(mylib_map1(op->op, t->type, 1, out, 8, a, 8, b, 8), MYLIB_ERR_UNSUPPORTED);
            mylib_array array = {out, test_cpu, t->type, 0, NULL, NULL};
            mylib_array in[2] = {{a, test_cpu, t->type, 0, NULL, NULL},
                                 {b, test_cpu, t->type, 0, NULL, NULL}};
            EXPECT(mylib_map(op->op, test_cpu, NULL, &array, in), MYLIB_ERR_UNSUPPORTED);
        }
    }
    test_set_case("unknown operations and types");
    result = (mylib_type)77;
    EXPECT(mylib_op_result_type((mylib_op)MYLIB_OP_COUNT, MYLIB_F64, &result), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_op_result_type((mylib_op)-1, MYLIB_F64, &result), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_op_result_type(MYLIB_OP_add, (mylib_type)MYLIB_TYPE_COUNT, &result),
           MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_op_result_type(MYLIB_OP_add, (mylib_type)-1, &result), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_sum_type((mylib_type)MYLIB_TYPE_COUNT, &result), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_sum_type(MYLIB_F64, NULL), MYLIB_ERR_ARGUMENT);
    CHECK((int)result == 77, "the result was written");
}

/* ---- Messages ---- */

static void *see_own_message(void *number)
{
    uint64_t unused;
    (void)number;
    CHECK(mylib_last_message()[0] == '\0', "a new thread starts with a message");
    mylib_fib(94, &unused);
    return NULL;
}

static void test_messages(void)
{
    char mine[1024];
    test_set_case("messages of two threads");
    CHECK_STATUS(mylib_sum_type(MYLIB_F64, NULL), MYLIB_ERR_ARGUMENT);
    snprintf(mine, sizeof mine, "%s", mylib_last_message());
    test_in_threads(1, see_own_message);
    CHECK(strcmp(mine, mylib_last_message()) == 0, "another thread's failure changed the message");
    CHECK_OK(mylib_map1(MYLIB_OP_add, MYLIB_F64, LENGTH, out, 8, a, 8, b, 8));
    CHECK(strcmp(mine, mylib_last_message()) == 0, "a success changed the message");
}

/* ---- map ---- */

static void test_map(void)
{
    mylib_array good = array_of(out), in[2] = {array_of(a), array_of(b)}, bad;
    const mylib_op add = MYLIB_OP_add;
    test_set_case("mylib_map");

    EXPECT(mylib_map(add, test_cpu, NULL, NULL, in), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_map(add, test_cpu, NULL, &good, NULL), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_map((mylib_op)MYLIB_OP_COUNT, test_cpu, NULL, &good, in), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_map((mylib_op)-5, test_cpu, NULL, &good, in), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_map(add, no_such_kind, NULL, &good, in), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_map(add, (mylib_device){MYLIB_CPU, 1}, NULL, &good, in), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_map(add, (mylib_device){MYLIB_CUDA, -1}, NULL, &good, in), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_map(add, far_gpu, NULL, &good, in), MYLIB_ERR_NO_DEVICE);

    /* Each field of out, and of either input. */
    for (int which = 0; which < 3; which++) {
        static int64_t negative[1] = {-1}, huge[3] = {INT64_MAX / 2, 8, 1}, more[65];
        for (int d = 0; d < 65; d++)
            more[d] = 1;
        mylib_array wrong[11], arrays[3] = {good, in[0], in[1]};
        for (int field = 0; field < 11; field++)
            wrong[field] = arrays[which];
        wrong[0].data = NULL;
        wrong[1].shape = NULL;
        wrong[2].shape = negative;
        wrong[3].ndim = -1;
        wrong[4].ndim = MYLIB_MAX_NDIM + 1, wrong[4].shape = more;
        wrong[5].type = (mylib_type)MYLIB_TYPE_COUNT;
        wrong[6].type = (mylib_type)-1;
        wrong[7].type = MYLIB_F32; /* the others are f64 */
        wrong[8].device = no_such_kind;
        wrong[9].device = first_gpu; /* the others are on the CPU */
        wrong[10].ndim = 3, wrong[10].shape = huge;
        for (int field = 0; field < 11; field++) {
            arrays[which] = wrong[field];
            test_set_case("mylib_map, %s, field %d",
                          which == 0   ? "out"
                          : which == 1 ? "in[0]"
                                       : "in[1]",
                          field);
            EXPECT(mylib_map(add, test_cpu, NULL, &arrays[0], &arrays[1]), MYLIB_ERR_ARGUMENT);
        }
    }

    test_set_case("mylib_map, all on a GPU but computed on the CPU");
    bad = good;
    bad.device = in[0].device = in[1].device = first_gpu;
    EXPECT(mylib_map(add, test_cpu, NULL, &bad, in), MYLIB_ERR_ARGUMENT);
    in[0].device = in[1].device = test_cpu;

    test_set_case("mylib_map, powers with the exponent 2, which become squares");
    double two = 2;
    mylib_array base = array_of(a), powers[2] = {base, {&two, test_cpu, MYLIB_F64, 0, NULL, NULL}};
    bad = good;
    bad.type = MYLIB_F32;
    EXPECT_WITH(mylib_map(MYLIB_OP_power, test_cpu, NULL, &bad, powers), MYLIB_ERR_ARGUMENT,
                "power of f64");
    powers[1].device.index = 77;
    EXPECT(mylib_map(MYLIB_OP_power, test_cpu, NULL, &good, powers), MYLIB_ERR_ARGUMENT);
    powers[1].device.index = 0;
    powers[1].data = a;
    a[0] = 2;
    EXPECT_WITH(mylib_map(MYLIB_OP_power, first_gpu, NULL, &base, powers), MYLIB_ERR_ARGUMENT,
                "overlaps");

    test_set_case("mylib_map, the type of the result");
    bad = good;
    bad.type = MYLIB_C128;
    in[0].type = in[1].type = MYLIB_C128;
    bad.ndim = in[0].ndim = 0;
    EXPECT(mylib_map(MYLIB_OP_absolute, test_cpu, NULL, &bad, in), MYLIB_ERR_ARGUMENT);
}

/* mylib_map_as(), mylib_select() and mylib_arange() refuse these, and write nothing. */
static void test_mixed(void)
{
    const mylib_array good = array_of(out), x = array_of(a), y = array_of(b);
    mylib_array in[2] = {x, y}, bad, flags = x, many = good;
    const mylib_type f64 = MYLIB_F64, i32 = MYLIB_I32;
    const mylib_op add = MYLIB_OP_add;
    const int64_t short_shape = LENGTH + 1, square[2] = {1, LENGTH};
    double number = 1;
    flags.type = MYLIB_BOOL;

    test_set_case("mylib_map_as");
    EXPECT(mylib_map_as(add, f64, test_cpu, NULL, NULL, in), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_map_as(add, f64, test_cpu, NULL, &good, NULL), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_map_as((mylib_op)MYLIB_OP_COUNT, f64, test_cpu, NULL, &good, in),
           MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_map_as(add, (mylib_type)MYLIB_TYPE_COUNT, test_cpu, NULL, &good, in),
           MYLIB_ERR_ARGUMENT);
    EXPECT_WITH(mylib_map_as(MYLIB_OP_subtract, MYLIB_BOOL, test_cpu, NULL, &flags, in),
                MYLIB_ERR_UNSUPPORTED, "bool");
    EXPECT(mylib_map_as(MYLIB_OP_sqrt, i32, test_cpu, NULL, &good, in), MYLIB_ERR_UNSUPPORTED);
    EXPECT_WITH(mylib_map_as(add, i32, test_cpu, NULL, &good, in), MYLIB_ERR_ARGUMENT, "i32");
    EXPECT(mylib_map_as(MYLIB_OP_less, f64, test_cpu, NULL, &good, in), MYLIB_ERR_ARGUMENT);
    in[1].type = (mylib_type)-1;
    EXPECT(mylib_map_as(add, f64, test_cpu, NULL, &good, in), MYLIB_ERR_ARGUMENT);
    in[1] = y, in[1].data = NULL;
    EXPECT(mylib_map_as(add, f64, test_cpu, NULL, &good, in), MYLIB_ERR_ARGUMENT);
    in[1] = y, in[1].device = first_gpu;
    EXPECT(mylib_map_as(add, f64, test_cpu, NULL, &good, in), MYLIB_ERR_ARGUMENT);
    in[1] = y;
    EXPECT(mylib_map_as(add, f64, far_gpu, NULL, &good, in), MYLIB_ERR_NO_DEVICE);

    test_set_case("mylib_select");
    EXPECT(mylib_select(test_cpu, NULL, NULL, &flags, &x, &y), MYLIB_ERR_ARGUMENT);
    EXPECT_WITH(mylib_select(test_cpu, NULL, &good, NULL, &x, &y), MYLIB_ERR_ARGUMENT, "condition");
    EXPECT(mylib_select(test_cpu, NULL, &good, &flags, NULL, &y), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_select(test_cpu, NULL, &good, &flags, &x, NULL), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_select(no_such_kind, NULL, &good, &flags, &x, &y), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_select(far_gpu, NULL, &good, &flags, &x, &y), MYLIB_ERR_NO_DEVICE);
    bad = flags, bad.shape = &short_shape;
    EXPECT(mylib_select(test_cpu, NULL, &good, &bad, &x, &y), MYLIB_ERR_ARGUMENT);
    bad = x, bad.device = first_gpu;
    EXPECT(mylib_select(test_cpu, NULL, &good, &flags, &bad, &y), MYLIB_ERR_ARGUMENT);

    test_set_case("mylib_arange");
    EXPECT(mylib_arange(NULL, NULL, &number, &number), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_arange(NULL, &good, NULL, &number), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_arange(NULL, &good, &number, NULL), MYLIB_ERR_ARGUMENT);
    many.ndim = 2, many.shape = square;
    EXPECT(mylib_arange(NULL, &many, &number, &number), MYLIB_ERR_ARGUMENT);
    many.ndim = 0;
    EXPECT(mylib_arange(NULL, &many, &number, &number), MYLIB_ERR_ARGUMENT);
    bad = good, bad.type = MYLIB_BOOL;
    EXPECT_WITH(mylib_arange(NULL, &bad, &number, &number), MYLIB_ERR_UNSUPPORTED, "bool");
    bad = good, bad.device = far_gpu;
    EXPECT(mylib_arange(NULL, &bad, &number, &number), MYLIB_ERR_NO_DEVICE);
}

static void test_shapes(void)
{
    static const struct {
        int out_ndim, in_ndim;
        int64_t out[3], in[3];
    } rows[] = {
        {2, 1, {2, 3}, {4}}, {2, 2, {2, 3}, {3, 2}},    {1, 2, {6}, {1, 6}},
        {0, 1, {0}, {6}},    {3, 2, {1, 2, 3}, {2, 2}}, {1, 1, {1}, {6}},
        {1, 1, {0}, {6}},    {2, 2, {1, 1}, {1, 0}},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        mylib_array array = {out, test_cpu, MYLIB_F64, rows[i].out_ndim, rows[i].out, NULL};
        mylib_array wrong = {a, test_cpu, MYLIB_F64, rows[i].in_ndim, rows[i].in, NULL};
        mylib_array right = {b, test_cpu, MYLIB_F64, 0, NULL, NULL};
        mylib_array in[2][2] = {{wrong, right}, {right, wrong}};
        for (int k = 0; k < 2; k++) {
            test_set_case("shapes that do not broadcast, row %d, in[%d]", (int)i, k);
            EXPECT(mylib_map(MYLIB_OP_add, test_cpu, NULL, &array, in[k]), MYLIB_ERR_ARGUMENT);
            /* Both shapes, written as Python writes them. */
            for (int part = 0; part < 2; part++) {
                int ndim = part == 0 ? rows[i].out_ndim : rows[i].in_ndim;
                const int64_t *shape = part == 0 ? rows[i].out : rows[i].in;
                char text[80] = "(";
                for (int d = 0; d < ndim; d++)
                    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", d ? ", " : "",
                             (int)shape[d]);
                snprintf(text + strlen(text), sizeof text - strlen(text), ndim == 1 ? ",)" : ")");
                CHECK(strstr(mylib_last_message(), text) != NULL, "\"%s\" lacks %s",
                      mylib_last_message(), text);
            }
        }
    }
    /* The longest shapes fit into a message, or are cut. */
    int64_t large[MYLIB_MAX_NDIM], ones[MYLIB_MAX_NDIM];
    for (int d = 0; d < MYLIB_MAX_NDIM; d++)
        large[d] = INT64_MAX, ones[d] = 2;
    large[0] = ones[0] = 0;
    mylib_array array = {out, test_cpu, MYLIB_F64, MYLIB_MAX_NDIM, ones, NULL};
    mylib_array in = {a, test_cpu, MYLIB_F64, MYLIB_MAX_NDIM, large, NULL};
    test_set_case("the longest shapes");
    EXPECT(mylib_map(MYLIB_OP_negative, test_cpu, NULL, &array, &in), MYLIB_ERR_ARGUMENT);
}

static void test_map1(void)
{
    const mylib_op add = MYLIB_OP_add;
    const mylib_type f64 = MYLIB_F64;
    test_set_case("mylib_map1");
    EXPECT(mylib_map1(add, f64, LENGTH, NULL, 8, a, 8, b, 8), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_map1(add, f64, LENGTH, out, 8, NULL, 8, b, 8), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_map1(add, f64, LENGTH, out, 8, a, 8, NULL, 8), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_map1(add, f64, -1, out, 8, a, 8, b, 8), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_map1(add, f64, INT64_MIN, out, 8, a, 8, b, 8), MYLIB_ERR_ARGUMENT);
    EXPECT_WITH(mylib_map1(add, f64, INT64_MAX, out, 0, a, 0, b, 0), MYLIB_ERR_ARGUMENT, "2^52");
    EXPECT(mylib_map1((mylib_op)MYLIB_OP_COUNT, f64, 1, out, 8, a, 8, b, 8), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_map1(add, (mylib_type)MYLIB_TYPE_COUNT, 1, out, 8, a, 8, b, 8),
           MYLIB_ERR_ARGUMENT);
    CHECK_OK(mylib_map1(MYLIB_OP_negative, f64, 1, out, 8, a, 8, NULL, 0));
}

/* Strides that lead beyond all memory are refused; those that no element uses do not matter. */
static void test_wild_strides(void)
{
    static const int64_t wild[] = {INT64_MAX, INT64_MIN, INT64_MAX / 4, INT64_MIN / 4, 1};
    static const char *const part = "beyond the memory";
    const int64_t column[2] = {LENGTH, 1}, shape[2] = {1, LENGTH};
    const mylib_array total = {out, test_cpu, MYLIB_F64, 0, NULL, NULL};
    for (size_t i = 0; i < COUNT_OF(wild); i++) {
        const int64_t strides[2] = {wild[i], 8}, across[2] = {8, wild[i]}, one_column[2] = {1, 1};
        int overlaps = -1;
        mylib_array result = {out, test_cpu, MYLIB_F64, 2, shape, strides};
        mylib_array in[2] = {{a, test_cpu, MYLIB_F64, 2, shape, strides},
                             {b, test_cpu, MYLIB_F64, 2, shape, strides}};
        mylib_array twice = {out, test_cpu, MYLIB_F64, 2, column, across};
        mylib_array single = {a, test_cpu, MYLIB_F64, 1, one_column, &wild[i]};
        test_set_case("the stride %lld", (long long)wild[i]);
        CHECK_OK(mylib_map(MYLIB_OP_add, test_cpu, NULL, &result, in));
        CHECK(out[1] == a[1] + b[1], "%g + %g is not %g", a[1], b[1], out[1]);
        CHECK_OK(mylib_copy_array(NULL, &twice, &single));
        CHECK(out[LENGTH - 1] == a[0], "%g was not copied", a[0]);
        CHECK_OK(mylib_reduce(MYLIB_MAX, MYLIB_F64, test_cpu, NULL, &total, &single));
        CHECK_OK(mylib_dot(MYLIB_F64, test_cpu, NULL, &total, &single, &single));
        CHECK(out[0] == a[0] * a[0], "%g is not the square of %g", out[0], a[0]);
        in[0].shape = one_column;
        CHECK_OK(mylib_trace(test_cpu, NULL, &in[0], out));
        CHECK(out[0] == a[0], "%g is not the trace %g", out[0], a[0]);
        twice.ndim = 1, twice.shape = one_column, twice.strides = &wild[i];
        CHECK_OK(mylib_arange(NULL, &twice, a, b));
        CHECK(out[0] == a[0], "%g is not the start %g", out[0], a[0]);
        CHECK_OK(mylib_map1(MYLIB_OP_negative, MYLIB_F64, 1, out, wild[i], a, wild[i], NULL, 0));
        CHECK_OK(mylib_overlaps_itself(&twice, &overlaps));
        CHECK(overlaps == 0, "one element overlaps itself");
        if (wild[i] == 1)
            continue;
        in[0].shape = in[1].shape = column;
        twice = in[0], twice.data = out;
        EXPECT_WITH(mylib_map(MYLIB_OP_add, test_cpu, NULL, &twice, in), MYLIB_ERR_ARGUMENT, part);
        EXPECT_WITH(mylib_copy_array(NULL, &twice, in), MYLIB_ERR_ARGUMENT, part);
        EXPECT_WITH(mylib_overlaps_itself(&twice, &overlaps), MYLIB_ERR_ARGUMENT, part);
        EXPECT_WITH(mylib_reduce(MYLIB_SUM, MYLIB_F64, test_cpu, NULL, &total, in),
                    MYLIB_ERR_ARGUMENT, part);
        EXPECT_WITH(mylib_trace(test_cpu, NULL, in, out), MYLIB_ERR_ARGUMENT, part);
        EXPECT_WITH(mylib_map1(MYLIB_OP_negative, MYLIB_F64, LENGTH, out, 8, a, wild[i], NULL, 0),
                    MYLIB_ERR_ARGUMENT, part);
    }
}

/* A program without inputs needs no arrays; what is too large is named. */
static void test_program_reduce(void)
{
    const mylib_constant three = {MYLIB_U8, 0, {3}};
    const mylib_step convert = {MYLIB_STEP_CONVERT, MYLIB_F64, {0, 0, 0}};
    const mylib_step add = {MYLIB_OP_add, MYLIB_F64, {0, 1, 0}};
    const int64_t tall[2] = {(int64_t)1 << 31, 1}, wide[2] = {1, (int64_t)1 << 31},
                  none[2] = {0, 0};
    const mylib_array total = {out, test_cpu, MYLIB_F64, 0, NULL, NULL};
    const mylib_array in[2] = {{a, test_cpu, MYLIB_F64, 2, tall, none},
                               {b, test_cpu, MYLIB_F64, 2, wide, none}};
    mylib_program *constant = NULL, *sum = test_program(1, &add);
    test_set_case("mylib_program_reduce");
    CHECK_OK(mylib_program_create(0, NULL, 1, &three, 1, &convert, &constant));
    CHECK_OK(mylib_program_reduce(constant, MYLIB_SUM, MYLIB_F64, test_cpu, NULL, &total, NULL));
    CHECK(out[0] == 3, "the sum of one 3 is %g", out[0]);
    CHECK_OK(mylib_program_run(constant, test_cpu, NULL, &total, NULL));
    EXPECT_WITH(mylib_program_reduce(sum, MYLIB_SUM, MYLIB_F64, test_cpu, NULL, &total, NULL),
                MYLIB_ERR_ARGUMENT, "in is NULL");
    EXPECT_WITH(mylib_program_run(sum, test_cpu, NULL, &total, NULL), MYLIB_ERR_ARGUMENT,
                "in is NULL");
    EXPECT_WITH(mylib_program_reduce(sum, MYLIB_SUM, MYLIB_F64, test_cpu, NULL, &total, in),
                MYLIB_ERR_ARGUMENT, "the inputs broadcast to the shape (2147483648, 2147483648)");
    mylib_program_free(constant);
    mylib_program_free(sum);
}

/* ---- The rest ---- */

static void test_trace(void)
{
    static int64_t square[3] = {2, 2, 1}, negative[2] = {2, -2};
    mylib_array good = {a, test_cpu, MYLIB_F64, 2, square, NULL}, bad = good;
    test_set_case("mylib_trace");
    EXPECT(mylib_trace(test_cpu, NULL, NULL, out), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_trace(test_cpu, NULL, &good, NULL), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_trace(no_such_kind, NULL, &good, out), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_trace(far_gpu, NULL, &good, out), MYLIB_ERR_NO_DEVICE);
    for (int ndim = 0; ndim <= 3; ndim++) {
        bad.ndim = ndim;
        if (ndim != 2)
            EXPECT(mylib_trace(test_cpu, NULL, &bad, out), MYLIB_ERR_ARGUMENT);
    }
    bad = good, bad.shape = negative;
    EXPECT(mylib_trace(test_cpu, NULL, &bad, out), MYLIB_ERR_ARGUMENT);
    bad = good, bad.shape = NULL;
    EXPECT(mylib_trace(test_cpu, NULL, &bad, out), MYLIB_ERR_ARGUMENT);
    bad = good, bad.data = NULL;
    EXPECT(mylib_trace(test_cpu, NULL, &bad, out), MYLIB_ERR_ARGUMENT);
    bad = good, bad.type = (mylib_type)MYLIB_TYPE_COUNT;
    EXPECT(mylib_trace(test_cpu, NULL, &bad, out), MYLIB_ERR_ARGUMENT);
    bad = good, bad.device = first_gpu;
    EXPECT(mylib_trace(test_cpu, NULL, &bad, out), MYLIB_ERR_ARGUMENT);
}

static void test_overlaps_itself(void)
{
    static int64_t square[2] = {2, 2}, empty[2] = {2, 0}, wild[2] = {INT64_MIN, 0};
    mylib_array good = {a, test_cpu, MYLIB_F64, 2, square, NULL}, bad = good;
    int overlaps = 77;
    test_set_case("mylib_overlaps_itself");
    EXPECT(mylib_overlaps_itself(NULL, &overlaps), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_overlaps_itself(&good, NULL), MYLIB_ERR_ARGUMENT);
    bad.device = no_such_kind;
    EXPECT(mylib_overlaps_itself(&bad, &overlaps), MYLIB_ERR_ARGUMENT);
    bad = good, bad.data = NULL;
    EXPECT(mylib_overlaps_itself(&bad, &overlaps), MYLIB_ERR_ARGUMENT);
    CHECK(overlaps == 77, "the result was written");
    bad.shape = empty, bad.strides = wild; /* without elements any strides will do */
    CHECK_OK(mylib_overlaps_itself(&bad, &overlaps));
    CHECK(overlaps == 0, "nothing overlaps itself");
}

static void test_scalars(void)
{
    const mylib_op add = MYLIB_OP_add;
    int64_t i64;
    memset(&i64, POISON, sizeof i64);
    test_set_case("scalars");
    EXPECT(mylib_scalar_i64(add, test_cpu, 1, 2, NULL), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_scalar_f64(add, test_cpu, 1, 2, NULL), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_scalar_c128(add, test_cpu, a, b, NULL), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_scalar_c128(add, test_cpu, NULL, b, out), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_scalar_c128(add, test_cpu, a, NULL, out), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_scalar_i64((mylib_op)MYLIB_OP_COUNT, test_cpu, 1, 2, &i64), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_scalar_f64((mylib_op)MYLIB_OP_COUNT, test_cpu, 1, 2, out), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_scalar_c128((mylib_op)-1, test_cpu, a, b, out), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_scalar_i64(MYLIB_OP_sqrt, test_cpu, 4, 0, &i64), MYLIB_ERR_UNSUPPORTED);
    EXPECT(mylib_scalar_c128(MYLIB_OP_remainder, test_cpu, a, b, out), MYLIB_ERR_UNSUPPORTED);
    EXPECT(mylib_scalar_i64(add, no_such_kind, 1, 2, &i64), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_scalar_f64(add, no_such_kind, 1, 2, out), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_scalar_c128(add, no_such_kind, a, b, out), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_scalar_i64(add, far_gpu, 1, 2, &i64), MYLIB_ERR_NO_DEVICE);
    EXPECT(mylib_scalar_f64(add, far_gpu, 1, 2, out), MYLIB_ERR_NO_DEVICE);
    EXPECT(mylib_scalar_c128(add, far_gpu, a, b, out), MYLIB_ERR_NO_DEVICE);
    /* The CPU computes these, or refuses their arguments. */
    EXPECT(mylib_scalar_i64(MYLIB_OP_power, far_gpu, 1, 2, &i64), MYLIB_ERR_NO_DEVICE);
    EXPECT(mylib_scalar_f64(MYLIB_OP_exp, far_gpu, 1, 2, out), MYLIB_ERR_NO_DEVICE);
    EXPECT(mylib_scalar_f64(MYLIB_OP_divide, far_gpu, 1, 0, out), MYLIB_ERR_NO_DEVICE);
    EXPECT(mylib_scalar_c128(MYLIB_OP_exp, far_gpu, a, b, out), MYLIB_ERR_NO_DEVICE);
    EXPECT(mylib_scalar_i64(MYLIB_OP_left_shift, test_cpu, 1, -1, &i64), MYLIB_ERR_DOMAIN);
    EXPECT(mylib_scalar_i64(MYLIB_OP_power, test_cpu, 1, -1, &i64), MYLIB_ERR_DOMAIN);
    EXPECT(mylib_fib(3, NULL), MYLIB_ERR_ARGUMENT);
    CHECK(is_poison(&i64, sizeof i64), "the integer result was written");
}

static void test_memory(void)
{
    void *ptr = out;
    test_set_case("memory");
    EXPECT(mylib_alloc(test_cpu, 8, NULL, NULL), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_alloc(no_such_kind, 8, NULL, &ptr), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_alloc(far_gpu, 8, NULL, &ptr), MYLIB_ERR_NO_DEVICE);
    /* The message names the size. */
    EXPECT_WITH(mylib_alloc(test_cpu, (size_t)1 << 60, NULL, &ptr), MYLIB_ERR_NO_MEMORY,
                "1152921504606846976");
    EXPECT(mylib_alloc(test_cpu, SIZE_MAX, NULL, &ptr), MYLIB_ERR_NO_MEMORY);
    CHECK(ptr == out, "the pointer was written");
    CHECK_OK(mylib_free(test_cpu, NULL, NULL));
    CHECK_OK(mylib_free_pinned(NULL));
    EXPECT(mylib_free(no_such_kind, NULL, NULL), MYLIB_ERR_ARGUMENT);
    CHECK_OK(mylib_free_cached());

    static const size_t sizes[] = {0, 1, 63, 64, 4097, 1 << 20};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        ptr = NULL;
        CHECK_OK(mylib_alloc(test_cpu, sizes[i], NULL, &ptr));
        CHECK(ptr != NULL && (uintptr_t)ptr % 64 == 0, "%zu bytes at %p", sizes[i], ptr);
        memset(ptr, 1, sizes[i]);
        CHECK_OK(mylib_free(test_cpu, ptr, NULL));
    }

    CHECK_OK(mylib_copy(test_cpu, out, test_cpu, a, sizeof out, NULL));
    CHECK(memcmp(out, a, sizeof out) == 0, "the copy differs");
    CHECK_OK(mylib_copy(test_cpu, NULL, test_cpu, NULL, 0, NULL));
    EXPECT(mylib_copy(test_cpu, NULL, test_cpu, a, 8, NULL), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_copy(test_cpu, out, test_cpu, NULL, 8, NULL), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_copy(test_cpu, out, test_cpu, a, SIZE_MAX, NULL), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_copy(no_such_kind, out, test_cpu, a, 8, NULL), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_copy(test_cpu, out, no_such_kind, a, 8, NULL), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_copy(far_gpu, out, test_cpu, a, 8, NULL), MYLIB_ERR_NO_DEVICE);
    EXPECT(mylib_copy(test_cpu, out, far_gpu, a, 8, NULL), MYLIB_ERR_NO_DEVICE);
    CHECK_OK(mylib_synchronize(test_cpu, NULL));
    EXPECT(mylib_synchronize(no_such_kind, NULL), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_synchronize(far_gpu, NULL), MYLIB_ERR_NO_DEVICE);
    static const mylib_device no_gpus[] = {{MYLIB_CPU, 0}, {MYLIB_CUDA, MYLIB_ALL_GPUS}};
    for (int i = 0; i < 2; i++) {
        EXPECT(mylib_stream_create(no_gpus[i], &ptr), MYLIB_ERR_ARGUMENT);
        EXPECT(mylib_stream_destroy(no_gpus[i], out), MYLIB_ERR_ARGUMENT);
        EXPECT(mylib_stream_wait(no_gpus[i], NULL, first_gpu, NULL), MYLIB_ERR_ARGUMENT);
        EXPECT(mylib_stream_wait(first_gpu, NULL, no_gpus[i], NULL), MYLIB_ERR_ARGUMENT);
    }
    EXPECT(mylib_stream_create(far_gpu, &ptr), MYLIB_ERR_NO_DEVICE);
}

static void test_devices(void)
{
    mylib_device_info info;
    mylib_config config;
    int count = -1;
    test_set_case("devices");
    EXPECT(mylib_cuda_device_count(NULL), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_get_config(NULL), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_get_num_threads(NULL), MYLIB_ERR_ARGUMENT);
    EXPECT(mylib_set_num_threads(-1), MYLIB_ERR_ARGUMENT);
    memset(&info, POISON, sizeof info);
    EXPECT(mylib_cuda_device_info(-1, &info), MYLIB_ERR_NO_DEVICE);
    EXPECT(mylib_cuda_device_info(4711, &info), MYLIB_ERR_NO_DEVICE);
    EXPECT(mylib_cuda_check_device(-1), MYLIB_ERR_NO_DEVICE);
    EXPECT(mylib_cuda_check_device(4711), MYLIB_ERR_NO_DEVICE);
    CHECK(is_poison(&info, sizeof info), "the info was written");

    if (!CHECK_OK(mylib_get_config(&config)))
        return;
    CHECK(strcmp(config.version, mylib_version()) == 0, "version \"%s\"", config.version);
    CHECK(config.compiler != NULL && config.compiler[0] != '\0', "no compiler");
    CHECK(config.cpu_level != NULL && config.cpu_level[0] != '\0', "no cpu_level");
    CHECK(config.cuda_version != NULL && config.cuda_architectures != NULL,
          "CUDA strings are NULL");
    CHECK((config.cuda_version[0] != '\0') == config.has_cuda, "has_cuda %d, cuda_version \"%s\"",
          config.has_cuda, config.cuda_version);
    CHECK(config.threads >= 1, "%d threads", config.threads);

    mylib_status status = mylib_cuda_device_count(&count);
    CHECK(status == MYLIB_OK ? count > 0 : status == MYLIB_ERR_NO_DEVICE && count == 0,
          "%s and %d devices", mylib_status_name(status), count);
    if (status == MYLIB_OK) {
        EXPECT(mylib_cuda_device_info(0, NULL), MYLIB_ERR_ARGUMENT);
        EXPECT(mylib_alloc_pinned(8, NULL), MYLIB_ERR_ARGUMENT);
        CHECK_OK(mylib_cuda_device_info(0, &info));
        CHECK_OK(mylib_cuda_check_device(0));
        CHECK(info.name[0] != '\0' && info.total_nbytes >= info.free_nbytes, "strange info");
        return;
    }

    /* Without a GPU every call that asks for one says why. */
    printf("errors: no GPU: %s\n", mylib_last_message());
    const char *reason = config.has_cuda ? "" : "built without CUDA";
    mylib_array array = array_of(out), in[2] = {array_of(a), array_of(b)};
    void *ptr = out;
    int64_t i64 = -77, square[2] = {2, 3};
    mylib_array matrix = {a, test_cpu, MYLIB_F64, 2, square, NULL};
    EXPECT_WITH(mylib_map(MYLIB_OP_add, first_gpu, NULL, &array, in), MYLIB_ERR_NO_DEVICE, reason);
    EXPECT_WITH(mylib_trace(first_gpu, NULL, &matrix, out), MYLIB_ERR_NO_DEVICE, reason);
    EXPECT_WITH(mylib_scalar_f64(MYLIB_OP_add, first_gpu, 1, 2, out), MYLIB_ERR_NO_DEVICE, reason);
    EXPECT_WITH(mylib_scalar_i64(MYLIB_OP_add, first_gpu, 1, 2, &i64), MYLIB_ERR_NO_DEVICE, reason);
    EXPECT_WITH(mylib_alloc(first_gpu, 8, NULL, &ptr), MYLIB_ERR_NO_DEVICE, reason);
    EXPECT_WITH(mylib_alloc_pinned(8, &ptr), MYLIB_ERR_NO_DEVICE, reason);
    EXPECT_WITH(mylib_synchronize(first_gpu, NULL), MYLIB_ERR_NO_DEVICE, reason);
    EXPECT_WITH(mylib_copy(first_gpu, out, test_cpu, a, 8, NULL), MYLIB_ERR_NO_DEVICE, reason);
    CHECK_OK(mylib_free(first_gpu, NULL, NULL));
    array.device = in[0].device = in[1].device = first_gpu;
    EXPECT_WITH(mylib_map(MYLIB_OP_add, first_gpu, NULL, &array, in), MYLIB_ERR_NO_DEVICE, reason);
    CHECK(ptr == out && i64 == -77, "a result was written");
}

int main(void)
{
    test_begin("errors");
    rng r = rng_make(1);
    fill_ordinary(&r, MYLIB_F64, LENGTH, a);
    fill_ordinary(&r, MYLIB_F64, LENGTH, b);
    test_statuses();
    test_tables();
    test_result_types();
    test_messages();
    test_map();
    test_mixed();
    test_shapes();
    test_map1();
    test_wild_strides();
    test_program_reduce();
    test_trace();
    test_overlaps_itself();
    test_scalars();
    test_memory();
    test_devices();
    return test_end();
}
