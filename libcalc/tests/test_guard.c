/*
 * Operations of every type, at every CPU level, against guard pages on both sides: all lengths up
 * to some vectors, dense, broadcast, strided, reversed and unaligned, through mylib_map1() and
 * mylib_map().  Results must be those of the reference, and not one byte beside them may change.
 */
#include "guard.h"
#include "reference.h"

#define MAX_LENGTH 4099
#define POISON 0xa5
#define MARGIN 64

typedef enum layout { DENSE, SCALAR, SPREAD, REVERSED, UNALIGNED, BACKWARD } layout;

static const char *const layout_names[] = {"dense",    "scalar",    "spread",
                                           "reversed", "unaligned", "backward"};

static int64_t stride_of(layout l, int64_t size)
{
    switch (l) {
    case DENSE:
        return size;
    case SCALAR:
        return 0;
    case SPREAD:
        return 2 * size;
    case REVERSED:
        return -size;
    case UNALIGNED:
        return size + 1;
    default:
        return -3 * size;
    }
}

/* Layouts of out, a and b; the inputs of an operation with one input are the first rows' a. */
static const struct pattern {
    layout out, a, b;
} patterns[] = {
    {DENSE, DENSE, DENSE},        {DENSE, SCALAR, DENSE},         {DENSE, DENSE, SCALAR},
    {DENSE, SCALAR, SCALAR},      {DENSE, SPREAD, DENSE},         {DENSE, DENSE, SPREAD},
    {SPREAD, DENSE, DENSE},       {SPREAD, SPREAD, SPREAD},       {DENSE, REVERSED, DENSE},
    {REVERSED, DENSE, DENSE},     {REVERSED, REVERSED, REVERSED}, {UNALIGNED, UNALIGNED, UNALIGNED},
    {DENSE, UNALIGNED, DENSE},    {SPREAD, SCALAR, BACKWARD},     {BACKWARD, SPREAD, SCALAR},
    {UNALIGNED, DENSE, REVERSED},
};

static guard out_guard, a_guard, b_guard;
static unsigned char a_values[MAX_LENGTH * TEST_MAX_SIZE], b_values[MAX_LENGTH * TEST_MAX_SIZE];

/* expected[k]: bit 1 of k when a is repeated, bit 0 when b is. */
static reference expected[4][MAX_LENGTH];

static void expect(const test_op *op, const test_type *t, int64_t n)
{
    for (int k = 0; k < 4; k++)
        for (int64_t i = 0; i < n; i++)
            reference_compute(op->op, t->type, a_values + (k & 2 ? 0 : i) * t->size,
                              b_values + (k & 1 ? 0 : i) * t->size, &expected[k][i]);
}

/* The first element at 'place', the others a stride further; 'count' is 1 for a repeated one. */
static void lay(unsigned char *place, int64_t stride, int64_t count, int64_t size,
                const unsigned char *values)
{
    for (int64_t i = 0; i < count; i++)
        memcpy(place + i * stride, values + i * size, (size_t)size);
}

static int is_poison(const unsigned char *begin, const unsigned char *end)
{
    return begin == end ||
           (*begin == POISON && memcmp(begin, begin + 1, (size_t)(end - begin - 1)) == 0);
}

/* memcmp() for an element: a call of it would take most of the test's time. */
static int is_same(const void *a, const void *b, size_t size)
{
    switch (size) {
    case 1:
        return memcmp(a, b, 1) == 0;
    case 2:
        return memcmp(a, b, 2) == 0;
    case 4:
        return memcmp(a, b, 4) == 0;
    case 8:
        return memcmp(a, b, 8) == 0;
    default:
        return memcmp(a, b, size) == 0;
    }
}

/* Elements are poisoned once they are checked; then nothing but poison may be left. */
static void check(mylib_type type, int64_t n, unsigned char *out, int64_t stride,
                  const reference *right, const unsigned char *low, const unsigned char *high)
{
    size_t size = (size_t)test_size(type);
    int64_t wrong = -1;
    for (int64_t i = 0; i < n; i++) {
        unsigned char *element = out + i * stride;
        if (!is_same(element, right[i].bits, size) && wrong < 0 &&
            !reference_accepts(type, &right[i], element))
            wrong = i;
    }
    CHECK(wrong < 0, "element %lld is %s, not %s", (long long)wrong,
          describe(type, out + wrong * stride), describe(type, right[wrong].bits));
    for (int64_t i = 0; i < n; i++)
        memset(out + i * stride, POISON, size);
    CHECK(is_poison(low, high), "bytes beside the elements of out were written");
}

static void run(const test_op *op, const test_type *t, int64_t n, const struct pattern *p, int back,
                int through_map)
{
    mylib_type type = test_result_type(op, t->type);
    int64_t size = test_size(type), so = stride_of(p->out, size);
    int64_t sa = stride_of(p->a, t->size), sb = stride_of(p->b, t->size);
    int64_t na = p->a == SCALAR && n > 0 ? 1 : n, nb = p->b == SCALAR && n > 0 ? 1 : n;
    unsigned char *out = guard_place(&out_guard, back, n, so, size);
    unsigned char *a = guard_place(&a_guard, back, na, sa, t->size);
    unsigned char *b = guard_place(&b_guard, back, nb, sb, t->size);
    int64_t span = guard_span(n, so, size) + MARGIN, room = out_guard.end - out_guard.begin;
    unsigned char *low, *high;
    mylib_status status;

    span = span < room ? span : room;
    low = back ? out_guard.end - span : out_guard.begin;
    high = low + span;
    memset(low, POISON, (size_t)span);
    lay(a, sa, na, t->size, a_values);
    lay(b, sb, nb, t->size, b_values);
    if (through_map) {
        int64_t shape_a = p->a == SCALAR ? 1 : n, shape_b = p->b == SCALAR ? 1 : n;
        mylib_array array = {out, test_cpu, type, 1, &n, &so};
        mylib_array in[2] = {{a, test_cpu, t->type, 1, &shape_a, &sa},
                             {b, test_cpu, t->type, 1, &shape_b, &sb}};
        status = mylib_map(op->op, test_cpu, NULL, &array, in);
    } else {
        status = mylib_map1(op->op, t->type, n, out, so, a, sa, op->arity == 2 ? b : NULL, sb);
    }
    if (CHECK_OK(status))
        check(type, n, out, so, expected[(p->a == SCALAR) * 2 + (p->b == SCALAR)], low, high);
}

static void run_length(const test_op *op, const test_type *t, int64_t n, int level, rng *r)
{
    fill_pairs(r, t->type, n > 0 ? n : 1, a_values, b_values);
    expect(op, t, n);
    for (size_t i = 0; i < COUNT_OF(patterns); i++) {
        const struct pattern *p = &patterns[i];
        /* With one input, only what differs in out and a. */
        if (op->arity == 1 && (p->b == SCALAR) != (p->a == SCALAR))
            continue;
        for (int k = 0; k < 4; k++) {
            /* MYLIB_TEST_SHORT: one of the four, another one for the next length. */
            if (test_rounds(5) == 1 && k != ((n + (int64_t)i) & 3))
                continue;
            test_set_case("%s, %s of %s, n = %lld, out %s, a %s, b %s, %s guard, %s",
                          test_levels[level], op->name, t->name, (long long)n, layout_names[p->out],
                          layout_names[p->a], layout_names[p->b], k & 1 ? "back" : "front",
                          k & 2 ? "mylib_map" : "mylib_map1");
            run(op, t, n, p, k & 1, k & 2);
        }
    }
}

int main(void)
{
    static const int64_t long_lengths[] = {257, 511, 512, 513, 1023, 1025, 2049, MAX_LENGTH};
    test_begin("guard");
    guard_open(&out_guard, MAX_LENGTH * TEST_MAX_SIZE * 3);
    guard_open(&a_guard, MAX_LENGTH * TEST_MAX_SIZE * 3);
    guard_open(&b_guard, MAX_LENGTH * TEST_MAX_SIZE * 3);

    for (int level = 0; level < TEST_LEVEL_COUNT; level++) {
        if (!test_use_level(level)) {
            printf("guard: %s is not here\n", test_levels[level]);
            continue;
        }
        rng r = rng_make((uint64_t)level);
        FOR_EVERY_PAIR(op, t)
        {
            if (!test_takes(op, t, 3)) /* functions share one loop */
                continue;
            /* Four of the widest vectors, and what is left over. */
            for (int64_t n = 0; n <= 4 * TEST_VECTOR_NBYTES / t->size + 3; n++)
                run_length(op, t, n, level, &r);
            int64_t n = PICK(&r, long_lengths);
            run_length(op, t, n, level, &r);
        }
    }
    guard_close(&out_guard);
    guard_close(&a_guard);
    guard_close(&b_guard);
    return test_end();
}
