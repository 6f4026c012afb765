/*
 * Reductions of nothing: a sum over an empty axis is 0 and a product 1, a minimum is refused; for
 * every type, however `in` (which has no elements) and `out` lie in memory, on the CPU, in GPU
 * memory and through a GPU.  Nothing beside the results is written.
 *
 *     test_gpu_empty [--quick]    --quick: few types, for compute-sanitizer
 *
 * Exit status 77, "skipped", without a GPU (the CPU is tested all the same); with
 * MYLIB_REQUIRE_GPU=1 that is a failure.
 */
#include "reduction_case.h"

#define POISON 0xa5

static const mylib_device gpu = {MYLIB_CUDA, 0};
static const int64_t wild = (int64_t)1 << 40;

/* ---- Layouts ---- */

/* Shapes of out; axes marked with -1 are reduced, and empty or, some of them, of size 1. */
static const struct {
    int ndim;
    int64_t shape[5];
} shapes[] = {
    {1, {-1}},          {2, {-1, 1}},       {2, {-1, 2}},
    {2, {3, -1}},       {2, {-1, 4}},       {2, {-1, 7}},
    {2, {8, -1}},       {2, {-1, 32}},      {2, {33, -1}},
    {2, {-1, 1000}},    {2, {4096, -1}},    {2, {-1, 4097}},
    {2, {-1, -1}},      {3, {-1, 2, 4}},    {3, {5, -1, 4}},
    {3, {2, 6, -1}},    {3, {-1, 1, 8}},    {3, {4096, -1, 2}},
    {3, {-1, 3, -1}},   {3, {-1, -1, 16}},  {4, {-1, 4097, 1, 4}},
    {4, {2, -1, 3, 4}}, {4, {1, -1, 1, 1}}, {5, {2, 3, -1, 2, 4}},
};
enum { SHAPES = COUNT_OF(shapes) };

/* Layouts of an array. */
enum {
    C_ORDER,
    REVERSED, /* the first dimension is the innermost */
    GAPS,
    NEGATIVE,
    SPACED_FOR_VECTORS, /* rows begin at multiples of 16 bytes, in another order */
    NO_STRIDES,         /* not given */
    WAYS
};

/* Strides of an array without overlap; `size` of an element. */
static void lay_out(layout *l, int way, int64_t size, int is_wild)
{
    int64_t next = size;
    for (int i = 0; i < l->ndim; i++) {
        const int d = way == REVERSED             ? i
                      : way == SPACED_FOR_VECTORS ? (l->ndim - 1 - i + l->ndim / 2) % l->ndim
                                                  : l->ndim - 1 - i;
        const int64_t n = l->shape[d] > 0 ? l->shape[d] : 3;
        if (way == GAPS)
            next += size;
        if (way == SPACED_FOR_VECTORS && d != l->ndim - 1)
            next = (next + 15) / 16 * 16;
        l->strides[d] = way == SPACED_FOR_VECTORS && d == l->ndim - 1 ? size : next;
        if (way == SPACED_FOR_VECTORS && d == l->ndim - 1 && i > 0)
            l->strides[d] = next; /* something is inside already */
        next = l->strides[d] * n;
        if (way == NEGATIVE)
            l->strides[d] = -l->strides[d];
        /* Of an axis of one element, or of none, the stride is never used: it may be anything. */
        if (is_wild && l->shape[d] <= 1)
            l->strides[d] = d % 2 == 0 ? -wild : wild + size;
    }
    layout_measure(l, size);
}

/* ---- One case ---- */

typedef struct memory {
    mylib_device device;
    void *data;           /* of the device, for out and, somewhere in it, in */
    unsigned char *right; /* what it is to hold */
    unsigned char *got;
    size_t nbytes;
} memory;

/* 0 or 1 as an element; complex numbers have no imaginary part then. */
static void put_identity(mylib_type type, int value, unsigned char *at)
{
    memset(at, 0, (size_t)test_size(type));
    put_number(test_real_type(type), value, at);
}

static void check_case(const reduction_case *c, const memory *m, mylib_device device, int way,
                       const mylib_program *program, const char *what)
{
    const int64_t size = test_size(c->out_type);
    const size_t nbytes = (size_t)(c->out.span + 2 * size);
    int64_t index[MYLIB_MAX_NDIM] = {0};
    mylib_array in = layout_array(&c->in, c->stored, m->device, (char *)m->data + size);
    mylib_array out = layout_array(&c->out, c->out_type, m->device, (char *)m->data + size);
    set_reduction_case(c, what);
    if (nbytes > m->nbytes)
        test_give_up("the case is too large");
    /* Memory with no elements may be anywhere, or nowhere. */
    if (way % 2 == 0)
        in.data = NULL;
    if (way == NO_STRIDES)
        in.strides = NULL;
    memset(m->right, POISON, nbytes);
    CHECK_OK(mylib_copy(m->device, m->data, test_cpu, m->right, nbytes, NULL));
    const mylib_status st =
        program == NULL
            ? mylib_reduce(c->reduction, c->type, device, NULL, &out, &in)
            : mylib_program_reduce(program, c->reduction, c->type, device, NULL, &out, &in);
    if (c->reduction >= MYLIB_MIN) {
        CHECK_STATUS(st, MYLIB_ERR_ARGUMENT);
    } else if (CHECK_OK(st)) {
        do
            put_identity(c->out_type, c->reduction == MYLIB_PROD,
                         m->right + size + c->out.offset + layout_at(&c->out, &c->out, index));
        while (layout_next(&c->out, index));
    }
    CHECK_OK(mylib_copy(test_cpu, m->got, m->device, m->data, nbytes, NULL));
    for (size_t i = 0; i < nbytes; i++) {
        if (m->got[i] != m->right[i]) {
            CHECK(0, "byte %lld of the output's memory is %#x, not %#x",
                  (long long)i - (long long)size, m->got[i], m->right[i]);
            return;
        }
    }
    CHECK(1, "equal");
}

/* Every way of in and out for one reduction and shape. */
static void check_ways(reduction_case *c, const memory *m, mylib_device device, int64_t shape,
                       const mylib_program *program, const char *what)
{
    c->in.ndim = c->out.ndim = shapes[shape].ndim;
    for (int d = 0; d < c->in.ndim; d++) {
        const int64_t n = shapes[shape].shape[d];
        c->in.shape[d] = n < 0 ? 0 : n;
        c->out.shape[d] = n < 0 ? 1 : n;
    }
    for (int in_way = 0; in_way < WAYS; in_way++) {
        for (int out_way = 0; out_way < WAYS - 1; out_way++) {
            const int is_wild = (in_way + out_way) % 2;
            /* A third of all pairs for each shape; and long outputs take time. */
            if ((in_way + out_way + shape) % 3 != 0 ||
                (layout_count(&c->out) > 100 && in_way != SPACED_FOR_VECTORS && in_way != out_way))
                continue;
            lay_out(&c->in, in_way, test_size(c->stored), is_wild);
            lay_out(&c->out, out_way, test_size(c->out_type), is_wild);
            check_case(c, m, device, in_way, program, what);
        }
    }
}

/* All that is computed on `device` of arrays in m->device. */
static void check_all(const memory *m, mylib_device device, const char *what)
{
    for (int t = 0; t < TEST_COMPUTED_COUNT; t++) {
        const mylib_type type = (mylib_type)t;
        if (test_quick && t != MYLIB_F16 && t != MYLIB_F64 && t != MYLIB_U8)
            continue;
        mylib_program *program = program_of(type, type);
        for (int r = 0; r < 4; r++) {
            const mylib_reduction reduction = (mylib_reduction)r;
            const mylib_type wide = reduction_type(reduction, type);
            for (int64_t s = 0; s < SHAPES; s++) {
                reduction_case c = {reduction, type, type, wide, {.ndim = 0}, {.ndim = 0}};
                /* MYLIB_TEST_SHORT=2: a third of the shapes, others for the next type. */
                if ((r >= MYLIB_MIN && s > 3) || !test_takes_case((size_t)(s + t + r), 3))
                    continue;
                check_ways(&c, m, device, s, NULL, what);
                if (wide != type) {
                    c.out_type = type;
                    check_ways(&c, m, device, s, NULL, what);
                    /* Stored as what carries: vectors could be read. */
                    c.stored = c.type = wide;
                    c.out_type = wide;
                    check_ways(&c, m, device, s, NULL, what);
                    c.type = type;
                }
                c.stored = MYLIB_BOOL;
                check_ways(&c, m, device, s, NULL, what);
                c.stored = type;
                c.type = type;
                check_ways(&c, m, device, s, program, what);
            }
        }
        mylib_program_free(program);
    }
}

/* Products in memory that once gave 0. */
static void check_known(const memory *m, mylib_device device, const char *what)
{
    const reduction_case known[] = {
        {MYLIB_PROD,
         MYLIB_F64,
         MYLIB_F64,
         MYLIB_F64,
         {.ndim = 3, .shape = {4096, 0, 2}, .strides = {32, 131072, 8}},
         {.ndim = 3, .shape = {4096, 1, 2}, .strides = {24, -wild, 98304}}},
        {MYLIB_PROD,
         MYLIB_I64,
         MYLIB_I64,
         MYLIB_I64,
         {.ndim = 4, .shape = {0, 4097, 1, 4}, .strides = {-196656, 48, 32, 8}},
         {.ndim = 4, .shape = {1, 4097, 1, 4}, .strides = {32792, -8, 32776, -32784}}},
    };
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        reduction_case c = known[i];
        layout_measure(&c.in, test_size(c.stored));
        layout_measure(&c.out, test_size(c.out_type));
        check_case(&c, m, device, 0, NULL, what);
        check_case(&c, m, device, 1, NULL, what);
    }
}

/* Dot products and traces of nothing. */
static void check_others(const memory *m, mylib_device device, const char *what)
{
    static const int64_t none[2] = {0, 5}, huge[2] = {1 << 20, -16};
    for (int t = 0; t < TEST_COMPUTED_COUNT; t++) {
        const mylib_type type = (mylib_type)t, carrier = reduction_type(MYLIB_SUM, type);
        unsigned char right[TEST_MAX_SIZE] = {0}, got[TEST_MAX_SIZE], sum[TEST_MAX_SIZE];
        mylib_type sum_type;
        test_set_case("%s: dot and trace of no %s", what, test_types[t].name);
        memset(got, POISON, sizeof got);
        memset(sum, POISON, sizeof sum);
        CHECK_OK(mylib_copy(m->device, m->data, test_cpu, got, sizeof got, NULL));
        mylib_array in = {NULL, m->device, type, 1, none, NULL};
        mylib_array out = {m->data, m->device, carrier, 0, NULL, NULL};
        CHECK_OK(mylib_dot(type, device, NULL, &out, &in, &in));
        CHECK_OK(mylib_copy(test_cpu, got, m->device, m->data, sizeof got, NULL));
        CHECK(memcmp(right, got, (size_t)test_size(carrier)) == 0, "dot: %s",
              describe(carrier, got));
        in = (mylib_array){NULL, m->device, type, 2, none, huge};
        CHECK_OK(mylib_sum_type(type, &sum_type));
        CHECK_OK(mylib_trace(device, NULL, &in, sum));
        CHECK(memcmp(right, sum, (size_t)test_size(sum_type)) == 0, "trace: %s",
              describe(sum_type, sum));
    }
}

static void check_place(mylib_device place, mylib_device device, const char *what)
{
    memory m = {.device = place, .nbytes = 1 << 20};
    m.right = test_malloc(m.nbytes);
    m.got = test_malloc(m.nbytes);
    if (!CHECK_OK(mylib_alloc(place, m.nbytes, NULL, &m.data)))
        test_give_up("no memory");
    check_known(&m, device, what);
    check_others(&m, device, what);
    check_all(&m, device, what);
    CHECK_OK(mylib_free(place, m.data, NULL));
    free(m.right);
    free(m.got);
}

static void check_cpu(void) { check_place(test_cpu, test_cpu, "on the CPU"); }

int main(int argc, char **argv)
{
    test_begin_gpu("gpu_empty", argc, argv, check_cpu);
    check_place(gpu, gpu, "in GPU memory");
    check_place(test_cpu, gpu, "of host arrays on a GPU");
    return test_end();
}
