/*
 * reference.h - what one element of a result should be, worked out without the library: integers in
 * 128 bits, floating-point in binary128 and rounded once, floor_divide and remainder by the steps
 * of Python's divmod.
 */
#ifndef MYLIB_REFERENCE_H
#define MYLIB_REFERENCE_H

#include "test.h"

/*
 * Complex multiply, divide, square, absolute and sqrt are promised to a bound; all else is promised
 * to the bit, where any NaN stands for every NaN.
 */
typedef struct reference {
    unsigned char bits[TEST_MAX_SIZE]; /* the result */
    unsigned char
        other[TEST_MAX_SIZE]; /* as right as 'bits': minimum and maximum of equal values */
    double slack[2];          /* how far each component may be from 'bits' */
} reference;

void reference_compute(mylib_op op, mylib_type type, const void *a, const void *b,
                       reference *expected);

/* An element of one type as another, as the header says of mylib_map_as(). */
void reference_convert(mylib_type to, mylib_type from, const void *value, void *converted);

/* Element i of mylib_arange(); start and step are of the type, for f16 of f32. */
void reference_range(mylib_type type, const void *start, const void *step, int64_t i, void *value);

/* True when 'got', of the type of the result, is right. */
int reference_accepts(mylib_type result_type, const reference *expected, const void *got);

/* The same bits, or NaN both, in every component. */
int same_value(mylib_type type, const void *x, const void *y);

/* The index of the first of n elements without gaps that is not the same value; n when all are. */
int64_t first_difference(mylib_type type, int64_t n, const void *x, const void *y);

/* The value and its bits, "-0.5 (0xb800)"; for messages. The text is one of a few per thread. */
const char *describe(mylib_type type, const void *value);

/* The sum in the order that the header gives for mylib_trace(). */
void reference_sum(mylib_type type, int64_t n, const void *terms, int64_t stride, void *sum);

/* *value = *value + that sum, rounded once. */
void reference_fold(mylib_type type, int64_t n, const void *terms, int64_t stride, void *value);

/* The type that the sum of 'type' has. */
mylib_type reference_sum_type(mylib_type type);

/* n elements without gaps: special values, random bits, small numbers and ordinary ones. */
void fill_values(rng *r, mylib_type type, int64_t n, void *values);

/*
 * Two operands, n each: like fill_values(), but a third of the pairs have a quotient that is a
 * whole number, or just not one, where a division that is not exact goes wrong.
 */
void fill_pairs(rng *r, mylib_type type, int64_t n, void *a, void *b);

/* Numbers from 1 to 9, so that every result stays ordinary; all bits of a fraction are in use. */
void fill_ordinary(rng *r, mylib_type type, int64_t n, void *values);

/* 'number' as an element of 'type', which must be able to hold it; twice in complex ones. */
void put_number(mylib_type type, double number, void *value);

#endif /* MYLIB_REFERENCE_H */
