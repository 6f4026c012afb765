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

/* Converts an element to another type, as the header says of mylib_map_as(). */
void reference_convert(mylib_type to, mylib_type from, const void *value, void *converted);

/* Computes element i of mylib_arange(); start and step have the type, or f32 for f16. */
void reference_range(mylib_type type, const void *start, const void *step, int64_t i, void *value);

/* Tells whether 'got', of the type of the result, is right. */
int reference_accepts(mylib_type result_type, const reference *expected, const void *got);

/* Tells whether all components have the same bits, or are both NaN. */
int same_value(mylib_type type, const void *x, const void *y);

/* Returns the index of the first of n contiguous elements that is another value, or n. */
int64_t first_difference(mylib_type type, int64_t n, const void *x, const void *y);

/* Returns a value and its bits, "-0.5 (0xb800)": one of a few texts per thread. */
const char *describe(mylib_type type, const void *value);

/* Sums in the order that the header gives for mylib_trace(). */
void reference_sum(mylib_type type, int64_t n, const void *terms, int64_t stride, void *sum);

/* Adds that sum to *value, rounded once. */
void reference_fold(mylib_type type, int64_t n, const void *terms, int64_t stride, void *value);

/* Returns the type of a sum of 'type'. */
mylib_type reference_sum_type(mylib_type type);

/* Fills n contiguous elements with special values, random bits, small and ordinary numbers. */
void fill_values(rng *r, mylib_type type, int64_t n, void *values);

/*
 * Fills two operands of n elements like fill_values(), but the quotients of a third of the pairs
 * are whole numbers, or nearly: there an inexact division goes wrong.
 */
void fill_pairs(rng *r, mylib_type type, int64_t n, void *a, void *b);

/* Fills with numbers from 1 to 9, whose results stay ordinary, and with all bits of fractions. */
void fill_ordinary(rng *r, mylib_type type, int64_t n, void *values);

/* Stores a number that 'type' holds; in both parts of complex elements. */
void put_number(mylib_type type, double number, void *value);

#endif /* MYLIB_REFERENCE_H */
