/*
 * image.h - one piece of GPU memory and its images on the host, for tests that a GPU gives the
 * CPU's bits.  Operands lie in it between sentinels, and all bytes must come out the same.
 */
#ifndef MYLIB_IMAGE_H
#define MYLIB_IMAGE_H

#include "layout.h"
#include "reference.h"

#define POISON 0xa5
#define SENTINEL 0x5a
#define GAP 256

#ifndef IMAGE_NBYTES
#define IMAGE_NBYTES (8 << 20)
#endif

static const mylib_device gpu = {MYLIB_CUDA, 0};

/* The bytes before a call, after it by the GPU, and after it by the CPU; and those of the GPU. */
static unsigned char *before, *after, *right, *on_device;

static inline void open_images(void)
{
    before = test_malloc(IMAGE_NBYTES);
    after = test_malloc(IMAGE_NBYTES);
    right = test_malloc(IMAGE_NBYTES);
    void *memory = NULL;
    CHECK_OK(mylib_alloc(gpu, IMAGE_NBYTES, NULL, &memory));
    on_device = memory;
}

static inline void close_images(void)
{
    CHECK_OK(mylib_free(gpu, on_device, NULL));
    free(before);
    free(after);
    free(right);
}

/* Returns an operand's offset: 'shift' bytes from an aligned place, GAP or more from the last. */
static inline int64_t reserve(int64_t *used, int64_t span, int64_t shift)
{
    int64_t at = (*used + GAP + 255) / 256 * 256 + shift;
    *used = at + span + GAP;
    if (*used > IMAGE_NBYTES)
        test_give_up("the image is too small");
    return at;
}

/*
 * Checks that 'after' is 'right': in the output, of 'span' bytes from 'at' on, up to the payload of
 * NaNs, and in all other bytes of the 'used' ones.
 */
static inline void compare_images(mylib_type type, int64_t at, int64_t span, int64_t used)
{
    int64_t size = test_size(type), n = span / size;
    int64_t i = first_difference(type, n, after + at, right + at);
    const unsigned char *got = after + at + i * size, *wanted = right + at + i * size;
    CHECK(i == n, "%lld bytes into out there is %s (0x%02x...), not %s (0x%02x...)",
          (long long)(i * size), describe(type, got), got[0], describe(type, wanted), wanted[0]);
    memcpy(after + at, right + at, (size_t)(n * size));
    for (i = 0; i < used && after[i] == right[i]; i++)
        continue;
    CHECK(i == used, "byte %lld of %lld, where out is %lld to %lld, was written", (long long)i,
          (long long)used, (long long)at, (long long)(at + span));
}

/* An operand: where it lies in an image, or one element of host memory. */
typedef struct operand {
    mylib_type type;
    const layout *layout;
    int64_t at;
    void *number;
} operand;

/*
 * Computes from the 'used' bytes of 'before', where the operands lie, out first, on the CPU and on
 * the GPU: over GPU memory, or over host arrays.  All bytes must come out the same.
 */
static inline void compare_places(mylib_status (*compute)(const void *what, mylib_device device,
                                                          const mylib_array *arrays),
                                  const void *what, int operands, const operand *o, int on_host,
                                  int64_t used)
{
    for (int place = 0; place < 2; place++) {
        unsigned char *base = place == 0 ? right : on_host ? after : on_device;
        const mylib_device device = place == 0 || on_host ? test_cpu : gpu;
        mylib_array arrays[1 + MYLIB_PROGRAM_MAX_INPUTS];
        for (int k = 0; k < operands; k++)
            arrays[k] = o[k].number != NULL
                            ? (mylib_array){o[k].number, test_cpu, o[k].type, 0, NULL, NULL}
                            : layout_array(o[k].layout, o[k].type, device, base + o[k].at);
        CHECK_OK(mylib_copy(device, base, test_cpu, before, (size_t)used, NULL));
        CHECK_OK(compute(what, place == 0 ? test_cpu : gpu, arrays));
    }
    if (!on_host)
        CHECK_OK(mylib_copy(test_cpu, after, gpu, on_device, (size_t)used, NULL));
    compare_images(o[0].type, o[0].at, o[0].layout->span, used);
}

static inline layout row_of(int64_t n, int64_t size)
{
    layout l = {.ndim = 1, .shape = {n}};
    layout_pack(&l, size);
    return l;
}

/* The bytes that repeat in the first array of open_huge(). */
#define HUGE_CHUNK (1 << 26)

/*
 * Allocates two arrays of n bytes on the GPU, and fills the first with the HUGE_CHUNK bytes that it
 * returns, repeated.  Returns NULL, and says so, if the test is quick or memory is short.
 */
static inline int8_t *open_huge(const char *test, rng *r, int64_t n, void **a, void **out)
{
    mylib_device_info info;
    CHECK_OK(mylib_cuda_device_info(gpu.index, &info));
    if (test_quick || info.free_nbytes < 3 * (uint64_t)n) {
        printf("%s: arrays beyond 2^31 elements are left out%s\n", test,
               test_quick ? "" : ": not enough memory");
        return NULL;
    }
    int8_t *values = test_malloc(HUGE_CHUNK);
    fill_values(r, MYLIB_I8, HUGE_CHUNK, values);
    CHECK_OK(mylib_alloc(gpu, (size_t)n, NULL, a));
    CHECK_OK(mylib_alloc(gpu, (size_t)n, NULL, out));
    for (int64_t at = 0; at < n; at += HUGE_CHUNK)
        CHECK_OK(mylib_copy(gpu, (char *)*a + at, test_cpu, values,
                            (size_t)(n - at < HUGE_CHUNK ? n - at : HUGE_CHUNK), NULL));
    return values;
}

static inline void close_huge(int8_t *values, void *a, void *out)
{
    CHECK_OK(mylib_free(gpu, a, NULL));
    CHECK_OK(mylib_free(gpu, out, NULL));
    free(values);
}

#endif /* MYLIB_IMAGE_H */
