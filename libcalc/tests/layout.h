/*
 * layout.h - random N-dimensional layouts: dimensions in any order in memory, gaps, negative
 * strides, broadcast inputs; and the plain way to find an element, index by index.
 */
#ifndef MYLIB_LAYOUT_H
#define MYLIB_LAYOUT_H

#include "test.h"

typedef struct layout {
    int ndim;
    int64_t shape[MYLIB_MAX_NDIM];
    int64_t strides[MYLIB_MAX_NDIM];
    int64_t offset; /* of the element with all indices 0 from the lowest byte */
    int64_t span;   /* bytes from the lowest to the highest; 0 when there are no elements */
} layout;

static inline int64_t layout_count(const layout *l)
{
    int64_t count = 1;
    for (int d = 0; d < l->ndim; d++)
        count *= l->shape[d];
    return count;
}

/* Computes the offset and the span from the strides. */
static inline void layout_measure(layout *l, int64_t size)
{
    l->offset = 0;
    l->span = size;
    for (int d = 0; d < l->ndim; d++) {
        int64_t reach = (l->shape[d] - 1) * l->strides[d];
        if (l->shape[d] <= 1)
            continue;
        l->span += reach < 0 ? -reach : reach;
        l->offset -= reach < 0 ? reach : 0;
    }
    if (layout_count(l) == 0)
        l->offset = l->span = 0;
}

/* Sets the strides to C order without gaps. */
static inline void layout_pack(layout *l, int64_t size)
{
    int64_t next = size;
    for (int d = l->ndim - 1; d >= 0; d--) {
        l->strides[d] = next;
        next *= l->shape[d];
    }
    layout_measure(l, size);
}

/* Makes a shape of at most 'limit' elements: few dimensions, or up to 64 with many sizes of 1. */
static inline void random_shape(rng *r, layout *l, int64_t limit)
{
    int64_t count = 1;
    l->ndim = rng_once_in(r, 8) ? (int)rng_below(r, MYLIB_MAX_NDIM + 1) : (int)rng_below(r, 6);
    for (int d = 0; d < l->ndim; d++) {
        int64_t size = rng_once_in(r, 4)   ? 1
                       : rng_once_in(r, 4) ? rng_below(r, 40)
                                           : rng_below(r, 6);
        if (size == 0 && !rng_once_in(r, 8))
            size = 2;
        if (count * size > limit)
            size = 1;
        l->shape[d] = size;
        count *= size > 0 ? size : 1;
    }
}

/* Makes strides without overlap; if 'aligned', they are multiples of the element size. */
static inline void random_strides(rng *r, layout *l, int64_t size, int aligned)
{
    int order[MYLIB_MAX_NDIM];
    int64_t next = size;
    int c_order = rng_once_in(r, 3);
    for (int d = 0; d < l->ndim; d++)
        order[d] = l->ndim - 1 - d;
    for (int d = l->ndim - 1; d > 0 && !c_order; d--) {
        int other = (int)rng_below(r, d + 1), t = order[d];
        order[d] = order[other];
        order[other] = t;
    }
    for (int i = 0; i < l->ndim; i++) {
        int d = order[i];
        int64_t gap = rng_once_in(r, 3) ? rng_below(r, 3) * size : 0;
        if (!aligned && rng_once_in(r, 4))
            gap += rng_below(r, 4);
        l->strides[d] = next + gap;
        if (l->shape[d] > 1)
            next = l->strides[d] * l->shape[d];
        else if (rng_once_in(r, 4)) /* never used: it may be anything */
            l->strides[d] = (rng_below(r, 3) - 1) * ((int64_t)1 << 40);
        if (rng_once_in(r, 4))
            l->strides[d] = -l->strides[d];
    }
    layout_measure(l, size);
}

/* Makes an input that broadcasts to 'out': dimensions are missing, sizes are 1, strides 0. */
static inline void random_input(rng *r, const layout *out, layout *l, int64_t size, int aligned)
{
    int missing = rng_once_in(r, 4) ? (int)rng_below(r, out->ndim + 1) : 0;
    int broadcasts = rng_once_in(r, 2);
    l->ndim = out->ndim - missing;
    for (int d = 0; d < l->ndim; d++) {
        l->shape[d] = out->shape[missing + d];
        if (broadcasts && rng_once_in(r, 3))
            l->shape[d] = 1;
    }
    random_strides(r, l, size, aligned);
    for (int d = 0; d < l->ndim; d++)
        if (broadcasts && rng_once_in(r, 4))
            l->strides[d] = 0;
    layout_measure(l, size);
}

/* Advances to the next index in C order; returns false after the last. */
static inline int layout_next(const layout *l, int64_t *index)
{
    for (int d = l->ndim - 1; d >= 0; d--) {
        if (++index[d] < l->shape[d])
            return 1;
        index[d] = 0;
    }
    return 0;
}

/* Returns the offset of the element that meets 'index' of 'out', from that with all indices 0. */
static inline int64_t layout_at(const layout *l, const layout *out, const int64_t *index)
{
    int64_t at = 0;
    for (int d = 0; d < l->ndim; d++)
        if (l->shape[d] != 1)
            at += index[out->ndim - l->ndim + d] * l->strides[d];
    return at;
}

static inline mylib_array layout_array(const layout *l, mylib_type type, mylib_device device,
                                       void *lowest)
{
    mylib_array array = {(char *)lowest + l->offset, device, type, l->ndim, l->shape, l->strides};
    return array;
}

/* Returns "3,4@32,-8", the shape and the strides, cut if long: one of a few texts per thread. */
static inline const char *layout_text(const layout *l)
{
    static _Thread_local char texts[4][90];
    static _Thread_local unsigned next;
    char *text = texts[next++ % 4];
    size_t used = 0, room = sizeof *texts;
    text[0] = '\0';
    for (int part = 0; part < 2; part++) {
        const int64_t *numbers = part == 0 ? l->shape : l->strides;
        for (int d = 0; d < l->ndim && used + 24 < room; d++)
            used += (size_t)snprintf(text + used, room - used, "%s%lld", d == 0 ? "" : ",",
                                     (long long)numbers[d]);
        if (part == 0 && used + 2 < room)
            used += (size_t)snprintf(text + used, room - used, "@");
    }
    return text;
}

#endif /* MYLIB_LAYOUT_H */
