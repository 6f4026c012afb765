/*
 * reduction_case.h - random reductions: types, shapes, layouts and dimensions, for the CPU's test
 * and the GPU's.
 */
#ifndef MYLIB_REDUCTION_CASE_H
#define MYLIB_REDUCTION_CASE_H

#include <math.h>

#include "layout.h"
#include "reference.h"

static const char *const reduction_names[] = {"sum", "prod", "min", "max"};

typedef struct reduction_case {
    mylib_reduction reduction;
    mylib_type stored, type, out_type;
    layout in, out;
} reduction_case;

/* Returns the type that 'out' may have besides 'type'. */
static inline mylib_type reduction_type(mylib_reduction reduction, mylib_type type)
{
    if (reduction == MYLIB_MIN || reduction == MYLIB_MAX)
        return type;
    return type == MYLIB_F16 ? MYLIB_F32 : reference_sum_type(type);
}

/* Begins a reduction into the widest type; the caller adds shapes and strides. */
static inline reduction_case reduction_of(mylib_reduction reduction, mylib_type stored,
                                          mylib_type type, int ndim)
{
    return (reduction_case){reduction,      stored,        type, reduction_type(reduction, type),
                            {.ndim = ndim}, {.ndim = ndim}};
}

/* Lays the results in C order without gaps, and measures the input. */
static inline void place_results(reduction_case *c)
{
    layout_measure(&c->in, test_size(c->stored));
    layout_pack(&c->out, test_size(c->out_type));
}

/* Makes the program (x + x) * x, which needs temporary values. */
static inline mylib_program *program_of(mylib_type stored, mylib_type type)
{
    const mylib_step steps[] = {{MYLIB_OP_add, (int32_t)type, {0, 0, 0}},
                                {MYLIB_OP_multiply, (int32_t)type, {1, 0, 0}}};
    mylib_program *program = NULL;
    if (!CHECK_OK(mylib_program_create(1, &stored, 0, NULL, 2, steps, &program)))
        test_give_up("no program");
    return program;
}

/* Chooses sizes where lanes, blocks and vectors begin or end, about 'limit' elements in all. */
static inline void random_sizes(rng *r, layout *l, int64_t limit)
{
    static const int64_t sizes[] = {1,    2,    3,    4,    5,    7,    8,    16,   17,
                                    31,   33,   64,   255,  256,  257,  300,  1000, 2047,
                                    2048, 2049, 4095, 4096, 4097, 6145, 10241};
    int64_t count = 1;
    l->ndim = (int)rng_below(r, 5);
    for (int d = 0; d < l->ndim; d++) {
        int64_t size = PICK(r, sizes);
        if (rng_once_in(r, 60))
            size = 0;
        if (count * size > limit)
            size = 1 + rng_below(r, limit / count < 9 ? limit / count : 9);
        l->shape[d] = size;
        count *= size > 0 ? size : 1;
    }
}

/* Returns false if the reduction has no value, as a minimum of nothing; GPUs need 'aligned'. */
static inline int random_reduction(rng *r, reduction_case *c, int64_t limit, int aligned)
{
    int is_empty = 0, has_outputs = 1;
    c->reduction = (mylib_reduction)rng_below(r, 4);
    c->stored = c->type = (mylib_type)rng_below(r, TEST_COMPUTED_COUNT);
    if (rng_once_in(r, 3)) {
        /* Not from floats to integers, which may not hold them. */
        c->stored = (mylib_type)rng_below(r, MYLIB_TYPE_COUNT);
        if (test_is_integer(c->type) && !test_is_integer(c->stored))
            c->stored = MYLIB_BOOL;
    }
    c->out_type = rng_once_in(r, 3) ? c->type : reduction_type(c->reduction, c->type);

    random_sizes(r, &c->in, limit);
    random_strides(r, &c->in, test_size(c->stored), aligned);
    c->out.ndim = c->in.ndim;
    for (int d = 0; d < c->in.ndim; d++) {
        int reduces = rng_once_in(r, 2);
        c->out.shape[d] = reduces ? 1 : c->in.shape[d];
        is_empty |= reduces && c->in.shape[d] == 0;
        has_outputs &= c->out.shape[d] != 0;
        if (rng_once_in(r, 12))
            c->in.strides[d] = 0;
    }
    layout_measure(&c->in, test_size(c->stored));
    random_strides(r, &c->out, test_size(c->out_type), aligned);
    return !is_empty || !has_outputs || c->reduction < MYLIB_MIN;
}

/*
 * Numbers whose order decides which of them is found: zeros of all signs, among smaller or larger
 * numbers in many cases; and in some, one NaN or many, each with a number that tells it apart.
 */
static inline void fill_equal(rng *r, mylib_type type, int64_t n, unsigned char *values)
{
    static const double zeros[] = {0.0, -0.0};
    const int64_t size = test_size(type), nans = 1 + rng_below(r, 4) * rng_below(r, 1000);
    const double other = rng_once_in(r, 2) ? 1 : -1;
    const int64_t others = 1 + rng_below(r, 8), has_nans = rng_once_in(r, 2);
    for (int64_t i = 0; i < n; i++) {
        double x[2] = {PICK(r, zeros), PICK(r, zeros)};
        if (!rng_once_in(r, others))
            x[rng_below(r, 2)] = other;
        if (has_nans && rng_once_in(r, nans)) {
            int part = (int)rng_below(r, 3);
            x[0] = part == 1 ? (double)i : NAN;
            x[1] = part == 0 ? (double)i : NAN;
        }
        float single[2] = {(float)x[0], (float)x[1]};
        memcpy(values + i * size,
               type == MYLIB_C64 || type == MYLIB_F32 ? (void *)single : (void *)x, (size_t)size);
    }
}

/* Fills all of an input's memory. */
static inline void fill_reduction(rng *r, const reduction_case *c, unsigned char *in)
{
    int64_t n = c->in.span / test_size(c->stored) + 1;
    const int is_complex = c->stored == MYLIB_C64 || c->stored == MYLIB_C128;
    const int is_real = c->stored == MYLIB_F32 || c->stored == MYLIB_F64;
    if ((is_complex && !rng_once_in(r, 4)) || (is_real && rng_once_in(r, 3)))
        fill_equal(r, c->stored, n, in);
    else if (rng_once_in(r, 2))
        fill_values(r, c->stored, n, in);
    else
        fill_ordinary(r, c->stored, n, in);
    for (int64_t i = 0; i < n && c->stored == MYLIB_BOOL; i++)
        in[i] &= 1;
}

/* Compares two results with the layout of 'out', the second one to the last byte of its memory. */
static inline void compare_reductions(const reduction_case *c, const unsigned char *wanted,
                                      unsigned char *got)
{
    int64_t index[MYLIB_MAX_NDIM] = {0}, size = test_size(c->out_type);
    if (layout_count(&c->out) != 0) {
        do {
            int64_t at = c->out.offset + layout_at(&c->out, &c->out, index);
            int same = same_value(c->out_type, wanted + at, got + at);
            CHECK(same, "%s, not %s", describe(c->out_type, got + at),
                  describe(c->out_type, wanted + at));
            if (!same)
                return;
            memcpy(got + at, wanted + at, (size_t)size);
        } while (layout_next(&c->out, index));
    }
    CHECK(memcmp(wanted, got, (size_t)(c->out.span + size)) == 0,
          "something beside the results was written");
}

static inline void set_reduction_case(const reduction_case *c, const char *where)
{
    test_set_case("%s of %s as %s into %s, %s, in %s, out %s", reduction_names[c->reduction],
                  test_types[c->stored].name, test_types[c->type].name,
                  test_types[c->out_type].name, where, layout_text(&c->in), layout_text(&c->out));
}

#endif /* MYLIB_REDUCTION_CASE_H */
