/*
 * mask.c - see mask.h.
 *
 * Long runs of selected elements are computed where they are.  Scattered elements are gathered into
 * contiguous memory, computed there, and scattered over the output.
 */
#include "mask.h"

#include <stdlib.h>
#include <string.h>

#define LONG_RUN 32 /* elements: a call for each such run takes less than gathering it */
#define SPARSE 16   /* gather if at most one of this many elements is selected */
#define MOST_GATHERED 65536
#define NO_ROW INT64_MIN
#define STEP 16   /* elements of a mask that are read at once */
#define WIDEST 16 /* bytes of an element */

/* ---- Masks ---- */

static inline uint64_t load_word(const unsigned char *mask)
{
    uint64_t word;
    memcpy(&word, mask, sizeof word);
    return word;
}

static inline uint64_t sum_of_bytes(uint64_t word)
{
    const uint64_t pairs = (word & 0x00ff00ff00ff00ff) + (word >> 8 & 0x00ff00ff00ff00ff);
    return pairs * 0x0001000100010001 >> 48;
}

/*
 * Counts selected elements, and places where the mask changes, approximately: bytes other than 0
 * and 1, which few masks have, count wrongly.  That affects only the time.
 */
static void count_selected(const unsigned char *mask, int64_t n, int64_t *count_ret,
                           int64_t *changes_ret)
{
    int64_t i = 0;
    *count_ret = n > 0 && mask[0] != 0;
    *changes_ret = 0;
    if (n > 0)
        i = 1;
    while (i < n) {
        uint64_t count = 0, changes = 0;
        const int64_t words = (n - i) / 8 < 255 ? (n - i) / 8 : 255; /* no byte overflows */
        for (int64_t end = i + 8 * words; i < end; i += 8) {
            count += load_word(mask + i);
            changes += load_word(mask + i) ^ load_word(mask + i - 1);
        }
        *count_ret += (int64_t)sum_of_bytes(count);
        *changes_ret += (int64_t)sum_of_bytes(changes);
        for (; words == 0 && i < n; i++) {
            *count_ret += mask[i] != 0;
            *changes_ret += (mask[i] != 0) != (mask[i - 1] != 0);
        }
    }
}

/* Returns the first of the elements [i, end) that is selected, or not; `end` if there is none. */
static int64_t find_next(const unsigned char *mask, int64_t i, int64_t end, int is_selected)
{
    const uint64_t others = is_selected ? 0 : 0x0101010101010101;
    for (; i < end; i++) {
        while (i + 32 <= end &&
               ((load_word(mask + i) ^ others) | (load_word(mask + i + 8) ^ others) |
                (load_word(mask + i + 16) ^ others) | (load_word(mask + i + 24) ^ others)) == 0)
            i += 32;
        while (i + 8 <= end && load_word(mask + i) == others)
            i += 8;
        if (i < end && (mask[i] != 0) == is_selected)
            return i;
    }
    return end;
}

/* ---- Planning ---- */

/* The stride of an array that is one row (0: one element), in C or Fortran order, else NO_ROW. */
static int64_t row_stride(const mylib_array *a, int ndim, const int64_t *shape, int is_fortran)
{
    int64_t stride = 0, size = 1;
    if (count_of(a->ndim, a->shape) == 1)
        return 0;
    if (a->ndim != ndim)
        return NO_ROW;
    for (int i = 0; i < ndim; i++) {
        const int d = is_fortran ? i : ndim - 1 - i;
        if (a->shape[d] != shape[d])
            return NO_ROW;
        if (shape[d] == 1)
            continue;
        if (size == 1)
            stride = a->strides[d];
        else if (a->strides[d] != stride * size)
            return NO_ROW;
        size *= shape[d];
    }
    return stride;
}

/* Finds the strides of the arrays as rows in an order; returns false if one is not a row. */
static int find_rows(masked *m, const mylib_array *mask, int64_t count, int is_fortran)
{
    const mylib_array *out = &m->arrays[0];
    if (mask->ndim > out->ndim || count_of(mask->ndim, mask->shape) != count ||
        row_stride(mask, out->ndim, out->shape, is_fortran) != (count == 1 ? 0 : 1))
        return 0;
    for (int k = 0; k <= m->inputs; k++)
        if ((m->stride[k] = row_stride(&m->arrays[k], out->ndim, out->shape, is_fortran)) == NO_ROW)
            return 0;
    return 1;
}

int plan_masked(masked *m, const mylib_array *arrays, int inputs, const mylib_array *mask,
                int64_t count)
{
    int64_t selected, changes;
    m->mask = mask->data;
    m->inputs = inputs;
    m->arrays = arrays;
    m->capacity = 0;
    if (!find_rows(m, mask, count, 0) && !find_rows(m, mask, count, 1))
        return 0;
    count_selected(m->mask, count, &selected, &changes);
    if (selected < LONG_RUN * (changes / 2))
        m->capacity = selected < MOST_GATHERED ? selected : MOST_GATHERED;
    return m->capacity == 0 || selected <= count / SPARSE;
}

/* ---- Computing ---- */

/* Computes `n` elements of rows that begin at data[k] with stride[k]. */
static mylib_status map_rows(const masked *m, int64_t n, char *const *data, const int64_t *stride)
{
    mylib_array row[1 + MASK_INPUTS];
    for (int k = 0; k <= m->inputs; k++)
        row[k] = (mylib_array){.data = data[k],
                               .device = m->arrays[k].device,
                               .type = m->arrays[k].type,
                               .ndim = k == 0 || stride[k] != 0,
                               .shape = &n,
                               .strides = &stride[k]};
    return m->task(m->context, &row[0], &row[1]);
}

#define MOVE(size) \
    case size: \
        for (int64_t i = 0; i < n; i++) \
            memcpy(to + (is_scatter ? index[i] * stride : i * (size)), \
                   from + (is_scatter ? i * (size) : index[i] * stride), size); \
        break;

/* Copies the elements at index[] of a row to contiguous memory or, for a scatter, from there. */
static inline void move_elements(int is_scatter, int size, int64_t n, const int64_t *index,
                                 char *to, const char *from, int64_t stride)
{
    /* list_selected() sets all n indices.  NOLINTBEGIN(clang-analyzer-core.*) */
    switch (size) {
        MOVE(1)
        MOVE(2)
        MOVE(4)
        MOVE(8)
        MOVE(16)
    }
    /* NOLINTEND(clang-analyzer-core.*) */
}
#undef MOVE

/* Computes the elements at index[]; `memory` is for the gathered elements. */
static mylib_status map_gathered(const masked *m, int64_t n, const int64_t *index, char *memory)
{
    char *data[1 + MASK_INPUTS], *const results = memory;
    int64_t stride[1 + MASK_INPUTS];
    for (int k = 0; k <= m->inputs; k++) {
        const mylib_array *a = &m->arrays[k];
        const int size = type_sizes[a->type];
        data[k] = k > 0 && m->stride[k] == 0 ? a->data : memory;
        stride[k] = k > 0 && m->stride[k] == 0 ? 0 : size;
        if (k > 0 && stride[k] != 0)
            move_elements(0, size, n, index, memory, a->data, m->stride[k]);
        memory += (m->capacity + STEP) * WIDEST;
    }
    const mylib_status status = map_rows(m, n, data, stride);
    if (status == MYLIB_OK)
        move_elements(1, type_sizes[m->arrays[0].type], n, index, m->arrays[0].data, results,
                      m->stride[0]);
    return status;
}

static mylib_status map_runs(const masked *m, int64_t begin, int64_t end)
{
    mylib_status status = MYLIB_OK;
    int64_t run_end;
    for (int64_t i = begin; status == MYLIB_OK; i = run_end) {
        char *data[1 + MASK_INPUTS];
        if ((i = find_next(m->mask, i, end, 1)) == end)
            break;
        run_end = find_next(m->mask, i, end, 0);
        for (int k = 0; k <= m->inputs; k++)
            data[k] = (char *)m->arrays[k].data + i * m->stride[k];
        status = map_rows(m, run_end - i, data, m->stride);
    }
    return status;
}

/*
 * Lists the selected elements of [*begin, end) until the list, of `capacity` + STEP numbers, is
 * full.  Returns their number, and sets *begin to where it stopped.
 */
static int64_t list_selected(const unsigned char *mask, int64_t *begin, int64_t end,
                             int64_t capacity, int64_t *index)
{
    int64_t n = 0, i = *begin;
    while (i < end && n < capacity) {
        while (i + STEP <= end && (load_word(mask + i) | load_word(mask + i + 8)) == 0)
            i += STEP;
        const int64_t stop = end - i < STEP ? end : i + STEP;
        for (; i < stop; i++) { /* without an unpredictable branch */
            index[n] = i;
            n += mask[i] != 0;
        }
    }
    *begin = i;
    return n;
}

mylib_status map_masked(const masked *m, int64_t begin, int64_t end)
{
    mylib_status status = MYLIB_OK;
    int64_t *index = NULL;
    char *memory = NULL;
    if (m->capacity > 0) {
        index = malloc((size_t)(m->capacity + STEP) * sizeof *index);
        memory = malloc((size_t)(m->capacity + STEP) * WIDEST * (1 + MASK_INPUTS));
    }
    if (index == NULL || memory == NULL) { /* works without memory, but takes longer */
        status = map_runs(m, begin, end);
    } else {
        while (begin < end && status == MYLIB_OK) {
            const int64_t n = list_selected(m->mask, &begin, end, m->capacity, index);
            if (n > 0)
                status = map_gathered(m, n, index, memory);
        }
    }
    free(index);
    free(memory);
    return status;
}
