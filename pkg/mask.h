/*
 * mask.h - computes only the elements that a mask selects, if that is faster.
 */
#pragma once

#include "common.h"

#define MASK_INPUTS 2 /* the most inputs of a masked call */

/* Computes arrays of one dimension; `in` has the inputs. */
typedef mylib_status map_task(void *context, const mylib_array *out, const mylib_array *in);

/* A call with a mask, whose arrays are rows. */
typedef struct masked {
    const unsigned char *mask;
    int inputs;
    int64_t capacity; /* gather this many elements at a time; 0: compute runs where they are */
    const mylib_array *arrays;       /* of the call: the output, the inputs */
    int64_t stride[1 + MASK_INPUTS]; /* of each in bytes; 0: a single element */
    map_task *task;
    void *context;
} masked;

/*
 * Plans a call over `count` elements.  Returns false if the arrays are not rows of the mask's
 * length, or if the mask selects so many elements, in short runs, that computing all is faster.
 * Sets everything but the task.
 */
int plan_masked(masked *m, const mylib_array *arrays, int inputs, const mylib_array *mask,
                int64_t count);

/* Computes the selected ones of the elements [begin, end). */
mylib_status map_masked(const masked *m, int64_t begin, int64_t end);
