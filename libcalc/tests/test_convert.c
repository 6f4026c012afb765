/*
 * Conversions between all pairs of types, alone and on the way into operations and selections, at
 * every CPU level; and ranges.  Operands end at guard pages, lie in any strides, and may be the
 * output.
 */
#include "guard.h"
#include "layout.h"
#include "reference.h"

#define MAX_LENGTH 3000
#define POISON 0xa5

typedef struct operand {
    const test_type *t;
    unsigned char values[MAX_LENGTH * TEST_MAX_SIZE]; /* without gaps */
    guard g;
    int64_t stride;
    unsigned char *place;
} operand;

static operand out, in[3];

static const test_type *any_type(rng *r) { return &test_types[rng_below(r, MYLIB_TYPE_COUNT)]; }

static int64_t any_stride(rng *r, int64_t size)
{
    const int64_t strides[] = {size, size, size, size, 2 * size, -size, size + 1, -3 * size};
    return PICK(r, strides);
}

/* Lays n elements against a guard page; a 'stride' of 0 means one element for all. */
static void lay(operand *o, int64_t n, int64_t stride, int back)
{
    int64_t count = stride == 0 ? 1 : n;
    o->stride = stride;
    o->place = guard_place(&o->g, back, count, stride, o->t->size);
    for (int64_t i = 0; i < count; i++)
        memcpy(o->place + i * stride, o->values + i * o->t->size, (size_t)o->t->size);
}

static const unsigned char *value_of(const operand *o, int64_t i)
{
    return o->values + (o->stride == 0 ? 0 : i) * o->t->size;
}

/* One dimension; a shape of 1 for an operand that is repeated. */
static const int64_t one = 1;
static mylib_array array_of(const operand *o, const int64_t *n)
{
    mylib_array a = {o->place, test_cpu, o->t->type, 1, o->stride == 0 ? &one : n, &o->stride};
    return a;
}

/* ---- Selections: every pair of types ---- */

static void run_select(int64_t n, const char *level)
{
    mylib_array o = array_of(&out, &n);
    const mylib_array c = array_of(&in[0], &n), a = array_of(&in[1], &n), b = array_of(&in[2], &n);
    test_set_case("%s, %s = %s ? %s : %s, n = %lld, strides %d = %d ? %d : %d", level, out.t->name,
                  in[0].t->name, in[1].t->name, in[2].t->name, (long long)n, (int)out.stride,
                  (int)in[0].stride, (int)in[1].stride, (int)in[2].stride);
    for (int64_t i = 0; i < n; i++)
        memset(out.place + i * out.stride, POISON, (size_t)out.t->size);
    if (!CHECK_OK(mylib_select(test_cpu, NULL, &o, &c, &a, &b)))
        return;
    for (int64_t i = 0; i < n; i++) {
        unsigned char is_true, right[TEST_MAX_SIZE];
        const unsigned char *got = out.place + i * out.stride;
        reference_convert(MYLIB_BOOL, in[0].t->type, value_of(&in[0], i), &is_true);
        const operand *chosen = is_true ? &in[1] : &in[2];
        reference_convert(out.t->type, chosen->t->type, value_of(chosen, i), right);
        if (!same_value(out.t->type, got, right)) {
            CHECK(0, "element %lld is %s, not %s, of %s", (long long)i, describe(out.t->type, got),
                  describe(out.t->type, right), describe(chosen->t->type, value_of(chosen, i)));
            return;
        }
    }
    CHECK(1, " ");
}

static void test_select(const char *level, rng *r)
{
    static const int64_t lengths[] = {0, 1, 2, 3, 17, 63, 64, 65, 300, 511, 512, 513, 1025, 2999};
    for (const test_type *to = test_types; to < test_types + MYLIB_TYPE_COUNT; to++) {
        for (const test_type *from = test_types; from < test_types + MYLIB_TYPE_COUNT; from++) {
            for (int k = 0; k < test_rounds(12); k++) {
                int64_t n = lengths[k < 8 ? rng_below(r, 7) : rng_below(r, 14)];
                out.t = to;
                in[0].t = rng_once_in(r, 2) ? &test_types[MYLIB_BOOL] : any_type(r);
                in[1].t = from;
                in[2].t = rng_once_in(r, 2) ? to : any_type(r);
                for (int i = 0; i < 3; i++) {
                    fill_values(r, in[i].t->type, n > 0 ? n : 1, in[i].values);
                    lay(&in[i], n, rng_once_in(r, 5) ? 0 : any_stride(r, in[i].t->size),
                        (int)rng_below(r, 2));
                }
                lay(&out, n, any_stride(r, to->size), (int)rng_below(r, 2));
                run_select(n, level);
            }
        }
    }
}

/* ---- Operations on converted inputs ---- */

static void run_map_as(const test_op *op, const test_type *t, int64_t n, const char *level)
{
    mylib_array o = array_of(&out, &n);
    const mylib_array inputs[2] = {array_of(&in[0], &n), array_of(&in[1], &n)};
    test_set_case("%s, %s in %s of %s and %s, n = %lld, strides %d %d %d", level, op->name, t->name,
                  in[0].t->name, in[1].t->name, (long long)n, (int)out.stride, (int)in[0].stride,
                  (int)in[1].stride);
    for (int64_t i = 0; i < n; i++)
        memset(out.place + i * out.stride, POISON, (size_t)out.t->size);
    if (!CHECK_OK(mylib_map_as(op->op, t->type, test_cpu, NULL, &o, inputs)))
        return;
    for (int64_t i = 0; i < n; i++) {
        unsigned char a[TEST_MAX_SIZE], b[TEST_MAX_SIZE];
        const unsigned char *got = out.place + i * out.stride;
        reference right;
        reference_convert(t->type, in[0].t->type, value_of(&in[0], i), a);
        reference_convert(t->type, in[1].t->type, value_of(&in[1], i), b);
        reference_compute(op->op, t->type, a, b, &right);
        if (!reference_accepts(out.t->type, &right, got)) {
            CHECK(0, "element %lld is %s, not %s, of %s and %s", (long long)i,
                  describe(out.t->type, got), describe(out.t->type, right.bits),
                  describe(in[0].t->type, value_of(&in[0], i)),
                  describe(in[1].t->type, value_of(&in[1], i)));
            return;
        }
    }
    CHECK(1, " ");
}

static void test_map_as(const char *level, rng *r)
{
    static const int64_t lengths[] = {1, 3, 40, 130, 600, 1100, 2200};
    FOR_EACH_PAIR(op, t)
    {
        for (int k = 0; k < test_rounds(8); k++) {
            int64_t n = lengths[rng_below(r, k == 0 ? 7 : 4)];
            out.t = &test_types[test_result_type(op, t->type)];
            for (int i = 0; i < 2; i++) {
                in[i].t = rng_once_in(r, 3) ? t : any_type(r);
                fill_values(r, in[i].t->type, n, in[i].values);
                lay(&in[i], n, rng_once_in(r, 5) ? 0 : any_stride(r, in[i].t->size),
                    (int)rng_below(r, 2));
            }
            lay(&out, n, any_stride(r, out.t->size), (int)rng_below(r, 2));
            run_map_as(op, t, n, level);
        }
    }
}

/* Several dimensions, broadcast: the result of one call over the other's converted inputs. */
static void test_layouts(rng *r)
{
    for (int k = 0; k < test_rounds(400); k++) {
        layout shapes[3];
        const test_type *t[3] = {&test_types[rng_below(r, TEST_COMPUTED_COUNT)], any_type(r),
                                 any_type(r)};
        unsigned char *data[3];
        int64_t index[MYLIB_MAX_NDIM] = {0};
        random_shape(r, &shapes[0], 700);
        random_strides(r, &shapes[0], t[0]->size, 0);
        for (int i = 1; i < 3; i++)
            random_input(r, &shapes[0], &shapes[i], t[i]->size, 0);
        for (int i = 0; i < 3; i++) {
            data[i] = test_malloc((size_t)shapes[i].span + TEST_MAX_SIZE);
            fill_values(r, t[i]->type, shapes[i].span / t[i]->size, data[i]);
            /* Bytes between elements may become elements: bools are 0 or 1, numbers any byte. */
            for (int64_t b = 0; b < shapes[i].span && t[i]->type == MYLIB_BOOL; b++)
                data[i][b] &= 1;
        }
        test_set_case("add in %s of %s and %s: %s = %s + %s", t[0]->name, t[1]->name, t[2]->name,
                      layout_text(&shapes[0]), layout_text(&shapes[1]), layout_text(&shapes[2]));
        mylib_array o = layout_array(&shapes[0], t[0]->type, test_cpu, data[0]);
        mylib_array inputs[2] = {layout_array(&shapes[1], t[1]->type, test_cpu, data[1]),
                                 layout_array(&shapes[2], t[2]->type, test_cpu, data[2])};
        CHECK_OK(mylib_map_as(MYLIB_OP_add, t[0]->type, test_cpu, NULL, &o, inputs));
        for (int64_t i = 0; i < layout_count(&shapes[0]); i++) {
            unsigned char converted[2][TEST_MAX_SIZE];
            reference right;
            for (int j = 1; j < 3; j++)
                reference_convert(t[0]->type, t[j]->type,
                                  (char *)inputs[j - 1].data +
                                      layout_at(&shapes[j], &shapes[0], index),
                                  converted[j - 1]);
            reference_compute(MYLIB_OP_add, t[0]->type, converted[0], converted[1], &right);
            const char *got = (char *)o.data + layout_at(&shapes[0], &shapes[0], index);
            CHECK(reference_accepts(t[0]->type, &right, got), "an element is %s, not %s",
                  describe(t[0]->type, got), describe(t[0]->type, right.bits));
            layout_next(&shapes[0], index);
        }
        for (int i = 0; i < 3; i++)
            free(data[i]);
    }
}

/* ---- Large arrays ---- */

/* Enough for threads and for stores past the cache; the elements repeat. */
static void test_large(rng *r)
{
    const int64_t n = 5000011, period = 1009;
    static const mylib_type types[][2] = {{MYLIB_F64, MYLIB_I32},  {MYLIB_F32, MYLIB_F16},
                                          {MYLIB_I64, MYLIB_BOOL}, {MYLIB_C128, MYLIB_F32},
                                          {MYLIB_F16, MYLIB_F64},  {MYLIB_U8, MYLIB_F64}};
    unsigned char *a = test_malloc((size_t)n * 16), *b = test_malloc((size_t)n * 16);
    unsigned char *c = test_malloc((size_t)n * 16);
    for (size_t k = 0; k < COUNT_OF(types); k++) {
        if (!test_takes_case(k, 3))
            continue;
        mylib_type type = types[k][0], from = types[k][1];
        int64_t size = test_size(type), from_size = test_size(from);
        fill_values(r, type, period, a);
        fill_values(r, from, period, b);
        for (int64_t i = period; i < n; i++) {
            memcpy(a + i * size, a + i % period * size, (size_t)size);
            memcpy(b + i * from_size, b + i % period * from_size, (size_t)from_size);
        }
        mylib_array inputs[2] = {test_row(a, type, &n), test_row(b, from, &n)};
        for (int compares = 0; compares < 2; compares++) {
            mylib_op op = compares ? MYLIB_OP_less : MYLIB_OP_add;
            mylib_array o = {c, test_cpu, compares ? MYLIB_BOOL : type, 1, &n, NULL};
            int64_t out_size = test_size(o.type), wrong = 0;
            test_set_case("%s in %s of %lld %s", test_ops[op].name, test_types[type].name,
                          (long long)n, test_types[from].name);
            CHECK_OK(mylib_map_as(op, type, test_cpu, NULL, &o, inputs));
            for (int64_t i = 0; i < period; i++) {
                unsigned char converted[TEST_MAX_SIZE];
                reference right;
                reference_convert(type, from, b + i * from_size, converted);
                reference_compute(op, type, a + i * size, converted, &right);
                wrong += !reference_accepts(o.type, &right, c + i * out_size);
            }
            CHECK(wrong == 0, "%lld elements are wrong", (long long)wrong);
            for (int64_t i = period; i < n; i++)
                wrong += !same_value(o.type, c + i * out_size, c + i % period * out_size);
            CHECK(wrong == 0, "%lld elements are not those of the first period", (long long)wrong);
        }
    }
    free(a);
    free(b);
    free(c);
}

/* ---- Overlap ---- */

static int is_nan(mylib_type type, const void *value)
{
    reference equal;
    reference_compute(MYLIB_OP_equal, type, value, value, &equal);
    return !equal.bits[0];
}

/* An output in an input's memory: the result of computing one element after the other. */
static void test_overlap(rng *r)
{
    static unsigned char memory[4 * MAX_LENGTH], expected[4 * MAX_LENGTH];
    for (int k = 0; k < test_rounds(3000); k++) {
        const test_type *t = &test_types[rng_below(r, TEST_COMPUTED_COUNT)], *from = any_type(r);
        int64_t n = rng_below(r, 60);
        int64_t strides[2] = {any_stride(r, t->size), any_stride(r, from->size)};
        int64_t at[2] = {5000, 5000 + (rng_once_in(r, 2) ? 0 : rng_below(r, 40) - 20)};
        int in_place = rng_once_in(r, 3) && t->size == from->size;
        if (rng_once_in(r, 8))
            strides[0] = 0;
        if (in_place) {
            strides[1] = strides[0];
            at[1] = at[0];
        }
        for (int64_t i = 0; i < (int64_t)sizeof memory; i++)
            memory[i] = from->type == MYLIB_BOOL ? (unsigned char)rng_below(r, 2)
                                                 : (unsigned char)rng_next(r);
        memcpy(expected, memory, sizeof memory);
        for (int64_t i = 0; i < n; i++) {
            unsigned char x[TEST_MAX_SIZE];
            reference_convert(t->type, from->type, expected + at[1] + i * strides[1], x);
            if (!in_place && is_nan(t->type, x)) {
                n = i; /* its bits are open, and would be read as another number */
                break;
            }
            memcpy(expected + at[0] + i * strides[0], x, (size_t)t->size);
        }
        test_set_case("%s in the memory of %s, n = %lld, at %d and %d, strides %d and %d", t->name,
                      from->name, (long long)n, (int)at[0], (int)at[1], (int)strides[0],
                      (int)strides[1]);
        mylib_array o = {memory + at[0], test_cpu, t->type, 1, &n, &strides[0]};
        mylib_array a = {memory + at[1], test_cpu, from->type, 1, &n, &strides[1]};
        const unsigned char is_true = 1;
        mylib_array c = {(void *)&is_true, test_cpu, MYLIB_BOOL, 0, NULL, NULL};
        CHECK_OK(mylib_select(test_cpu, NULL, &o, &c, &a, &a));
        for (int64_t i = 0; i < n && in_place; i++) {
            const unsigned char *right = expected + at[0] + i * strides[0];
            if (same_value(t->type, memory + at[0] + i * strides[0], right))
                memcpy(memory + at[0] + i * strides[0], right, (size_t)t->size);
        }
        CHECK(memcmp(memory, expected, sizeof memory) == 0, "the memory is not as expected");
    }
}

/* ---- Ranges ---- */

static void test_ranges(rng *r)
{
    static const int64_t lengths[] = {0, 1, 2, 7, 100, 511, 513, 2999};
    for (const test_type *t = test_types; t < test_types + TEST_COMPUTED_COUNT; t++) {
        for (int k = 0; k < test_rounds(80); k++) {
            mylib_type given = t->type == MYLIB_F16 ? MYLIB_F32 : t->type;
            int64_t n = PICK(r, lengths);
            unsigned char start[TEST_MAX_SIZE], step[TEST_MAX_SIZE], right[TEST_MAX_SIZE];
            fill_values(r, given, 1, start);
            fill_values(r, given, 1, step);
            out.t = t;
            lay(&out, n, any_stride(r, t->size), k & 1);
            mylib_array o = array_of(&out, &n);
            test_set_case("%lld %s from %s by %s, stride %d", (long long)n, t->name,
                          describe(given, start), describe(given, step), (int)out.stride);
            CHECK_OK(mylib_arange(NULL, &o, start, step));
            for (int64_t i = 0; i < n; i++) {
                const unsigned char *got = out.place + i * out.stride;
                reference_range(t->type, start, step, i, right);
                if (!same_value(t->type, got, right)) {
                    CHECK(0, "element %lld is %s, not %s", (long long)i, describe(t->type, got),
                          describe(t->type, right));
                    break;
                }
            }
        }
    }
}

int main(void)
{
    test_begin("convert");
    guard_open(&out.g, MAX_LENGTH * TEST_MAX_SIZE * 3);
    for (int i = 0; i < 3; i++)
        guard_open(&in[i].g, MAX_LENGTH * TEST_MAX_SIZE * 3);
    FOR_EACH_LEVEL(level)
    {
        rng r = rng_make((uint64_t)level);
        test_select(test_levels[level], &r);
        test_map_as(test_levels[level], &r);
    }
    mylib_set_cpu_level(NULL);
    rng r = rng_make(100);
    test_layouts(&r);
    test_large(&r);
    test_overlap(&r);
    test_ranges(&r);
    guard_close(&out.g);
    for (int i = 0; i < 3; i++)
        guard_close(&in[i].g);
    return test_end();
}
