/*
 * copies.h - copies between places, checked element by element against a separate reference.
 *
 * Numbers are small integers, which every element type holds, so that a converted number is the
 * same number in another type.
 */
#ifndef MYLIB_TEST_COPIES_H
#define MYLIB_TEST_COPIES_H

#include "layout.h"
#include "reference.h"

/* ---- Places ---- */

typedef struct place {
    mylib_device device;
    int is_pinned;
} place;

static inline const char *place_name(place p)
{
    static const char *const names[] = {"cuda:0", "cuda:1", "another GPU"};
    if (p.device.kind == MYLIB_CPU)
        return p.is_pinned ? "pinned" : "host";
    return names[p.device.index < 2 ? p.device.index : 2];
}

/* Allocates memory at a place, with the content of 'image'; take_back() frees it. */
static inline unsigned char *place_memory(place p, const unsigned char *image, size_t nbytes,
                                          void *stream)
{
    void *data = NULL;
    if (p.device.kind == MYLIB_CUDA)
        CHECK_OK(mylib_alloc(p.device, nbytes, stream, &data));
    else if (p.is_pinned)
        CHECK_OK(mylib_alloc_pinned(nbytes, &data));
    else
        data = test_malloc(nbytes);
    if (data == NULL)
        test_give_up("no memory");
    CHECK_OK(mylib_copy(p.device, data, (mylib_device){MYLIB_CPU, 0}, image, nbytes, stream));
    return data;
}

static inline void take_back(place p, unsigned char *data, unsigned char *image, size_t nbytes,
                             void *stream)
{
    CHECK_OK(mylib_copy((mylib_device){MYLIB_CPU, 0}, image, p.device, data, nbytes, stream));
    if (p.device.kind == MYLIB_CUDA)
        CHECK_OK(mylib_free(p.device, data, stream));
    else if (p.is_pinned)
        CHECK_OK(mylib_free_pinned(data));
    else
        free(data);
}

/* ---- One copy ---- */

#define COPY_MARGIN 256
#define COPY_POISON 0xa5

/*
 * Copies src to dst between two places and compares all bytes of dst's memory, those between and
 * around the elements included.  'lead': elements from an aligned address to either array.
 */
static inline void check_copy(rng *r, const layout *dst, mylib_type dst_type, place to,
                              const layout *src, mylib_type src_type, place from, int lead,
                              void *stream)
{
    int64_t dst_size = (int64_t)mylib_type_size(dst_type);
    int64_t src_size = (int64_t)mylib_type_size(src_type);
    int64_t dst_at = COPY_MARGIN + lead * dst_size, src_at = COPY_MARGIN + lead * src_size;
    size_t dst_nbytes = (size_t)(dst->span + dst_at + COPY_MARGIN);
    size_t src_nbytes = (size_t)(src->span + src_at + COPY_MARGIN);
    unsigned char *got = test_malloc(dst_nbytes), *expected = test_malloc(dst_nbytes);
    unsigned char *image = test_malloc(src_nbytes);
    int64_t index[MYLIB_MAX_NDIM] = {0}, n = layout_count(dst);
    int64_t src_index[MYLIB_MAX_NDIM] = {0};

    memset(image, 0, src_nbytes);
    memset(expected, COPY_POISON, dst_nbytes);
    /* A number derived from the element's position, so that repeated elements agree. */
    int salt = (int)rng_below(r, 50);
    if (layout_count(src) > 0) {
        do {
            int64_t at = src->offset + layout_at(src, src, src_index);
            int value = (int)((at / src_size * 7 + salt) % 101);
            const double parts[2] = {value, value % 3};
            reference_convert(src_type, MYLIB_C128, parts, image + src_at + at);
        } while (layout_next(src, src_index));
    }
    for (int64_t i = 0; i < n; i++, layout_next(dst, index)) {
        const unsigned char *element = image + src_at + src->offset + layout_at(src, dst, index);
        int64_t at = dst_at + dst->offset + layout_at(dst, dst, index);
        if (dst_type == src_type)
            memcpy(expected + at, element, (size_t)src_size);
        else
            reference_convert(dst_type, src_type, element, expected + at);
    }

    memset(got, COPY_POISON, dst_nbytes);
    unsigned char *dst_data = place_memory(to, got, dst_nbytes, stream);
    unsigned char *src_data = place_memory(from, image, src_nbytes, stream);
    mylib_array dst_array = layout_array(dst, dst_type, to.device, dst_data + dst_at);
    mylib_array src_array = layout_array(src, src_type, from.device, src_data + src_at);
    CHECK_OK(mylib_copy_array(stream, &dst_array, &src_array));
    take_back(to, dst_data, got, dst_nbytes, stream);
    take_back(from, src_data, image, src_nbytes, stream);

    size_t i = 0;
    if (memcmp(got, expected, dst_nbytes) != 0)
        while (got[i] == expected[i])
            i++;
    else
        i = dst_nbytes;
    CHECK(i == dst_nbytes,
          "byte %zu of %zu (elements lie from %lld to %lld) is %#x, and should be %#x", i,
          dst_nbytes, (long long)dst_at, (long long)(dst_at + dst->span), got[i % dst_nbytes],
          expected[i % dst_nbytes]);
    free(got);
    free(expected);
    free(image);
}

/* Returns one dimension of n elements, 'step' elements apart. */
static inline layout copy_row(int64_t n, int64_t step, mylib_type type)
{
    layout l = {.ndim = 1, .shape = {n}, .strides = {step * test_size(type)}};
    layout_measure(&l, test_size(type));
    return l;
}

/* Checks random shapes, strides and broadcasts; half of the cases have two types. */
static inline void check_random_copies(rng *r, int cases, int64_t limit, place to, place from,
                                       void *stream)
{
    for (int i = 0; i < cases; i++) {
        layout dst, src;
        mylib_type dst_type = (mylib_type)rng_below(r, MYLIB_TYPE_COUNT);
        mylib_type src_type =
            rng_once_in(r, 2) ? dst_type : (mylib_type)rng_below(r, MYLIB_TYPE_COUNT);
        random_shape(r, &dst, i % 5 == 4 ? limit : 500);
        random_strides(r, &dst, (int64_t)mylib_type_size(dst_type), 1);
        random_input(r, &dst, &src, (int64_t)mylib_type_size(src_type), 1);
        test_set_case("copy %s %s of %s from %s %s of %s", place_name(to), layout_text(&dst),
                      mylib_type_name(dst_type), place_name(from), layout_text(&src),
                      mylib_type_name(src_type));
        check_copy(r, &dst, dst_type, to, &src, src_type, from, (int)rng_below(r, 4), stream);
    }
}

#endif /* MYLIB_TEST_COPIES_H */
