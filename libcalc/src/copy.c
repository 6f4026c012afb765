/*
 * copy.c - mylib_copy_array() and mylib_copy_arrays(): check the arrays and pick the copy between
 * their devices.
 */
#include <string.h>

#include "flags.h"
#include "internal.h"

static const char *const names[] = {"dst", "src"};

/* Copies on one GPU, with contiguous memory for operand k; converts `from` to `to`. */
static mylib_status copy_packed(mylib_device device, void *stream, const mylib_layout *layout,
                                int k, void *packed, mylib_type to, mylib_type from)
{
    mylib_operation operation;
    DECLARE_LAYOUT(part, 2);
    mylib_layout_copy(&part, layout);
    mylib_layout_set_contiguous(&part, k, packed, mylib_type_size(to));
    mylib_layout_simplify(&part);
    mylib_operation_of_conversion(&operation, to, from);
    return mylib_cuda_map(device.index, stream, &operation.program, &part, names);
}

/*
 * Contiguous memory of one type is copied directly; otherwise the source's GPU packs and converts,
 * and the destination's unpacks.  'stream' is the destination's; the source's GPU uses a stream of
 * its own, ordered after earlier work on 'stream', before the transfer.
 */
static mylib_status copy_between_gpus(void *stream, mylib_device dst_device,
                                      mylib_device src_device, const mylib_layout *layout,
                                      mylib_type dst_type, mylib_type src_type)
{
    size_t size = mylib_type_size(dst_type), nbytes = (size_t)layout->count * size;
    void *packed = NULL, *received = NULL, *side = NULL;
    char *from = layout->data[1], *to = layout->data[0];
    int packs = dst_type != src_type || !mylib_layout_is_contiguous(layout, 1, size);
    int unpacks = !mylib_layout_is_contiguous(layout, 0, size);
    mylib_status st;

    if (packs) {
        MYLIB_TRY(mylib_stream_create(src_device, &side));
        MYLIB_TRY(mylib_stream_wait(src_device, side, dst_device, stream));
        MYLIB_TRY(mylib_alloc(src_device, nbytes, side, &packed));
        MYLIB_TRY(copy_packed(src_device, side, layout, 0, packed, dst_type, src_type));
        MYLIB_TRY(mylib_stream_wait(dst_device, stream, src_device, side));
        from = packed;
    }
    if (unpacks) {
        MYLIB_TRY(mylib_alloc(dst_device, nbytes, stream, &received));
        to = received;
    }
    MYLIB_TRY(mylib_copy(dst_device, to, src_device, from, nbytes, stream));
    if (packs)
        MYLIB_TRY(mylib_stream_wait(src_device, side, dst_device, stream));
    if (unpacks)
        MYLIB_TRY(copy_packed(dst_device, stream, layout, 1, received, dst_type, dst_type));
out:
    mylib_begin_cleanup();
    if (st != MYLIB_OK && packed != NULL)
        (void)mylib_synchronize(dst_device, stream); /* the copy may still read `packed` */
    mylib_cuda_discard(src_device.index, packed, side);
    mylib_cuda_discard(dst_device.index, received, stream);
    if (side != NULL && mylib_stream_destroy(src_device, side) != MYLIB_OK) /* retry once */
        (void)mylib_stream_destroy(src_device, side);
    mylib_end_cleanup();
    return st;
}

/*
 * Copies a broadcast source from the host: each element crosses the bus once, and the GPU repeats
 * it.  'once' is the source with size 1 in each dimension of stride 0.
 */
static mylib_status copy_repeated(void *stream, const mylib_array *dst, const mylib_array *src)
{
    int64_t shape[MYLIB_MAX_NDIM], count = 1;
    void *data = NULL;
    mylib_array once = *src;
    mylib_status st;
    for (int d = 0; d < src->ndim; d++) {
        shape[d] = src->strides != NULL && src->strides[d] == 0 ? 1 : src->shape[d];
        count *= shape[d];
    }
    once.shape = shape;
    mylib_array on_gpu = {NULL, dst->device, src->type, src->ndim, shape, NULL};
    MYLIB_TRY(mylib_alloc(dst->device, (size_t)count * mylib_type_size(src->type), stream, &data));
    on_gpu.data = data;
    MYLIB_TRY(mylib_copy_array(stream, &on_gpu, &once));
    MYLIB_TRY(mylib_copy_array(stream, dst, &on_gpu));
    MYLIB_TRY(mylib_synchronize(dst->device, stream));
out:
    mylib_cuda_discard(dst->device.index, data, stream);
    return st;
}

static int is_repeated(const mylib_layout *l, int k)
{
    for (int d = 0; d < l->ndim; d++)
        if (l->strides[k][d] == 0 && l->shape[d] > 1)
            return 1;
    return 0;
}

/* Returns false if a copy is large or has more dimensions. */
static int add_piece(mylib_copies *copies, const mylib_layout *l, int64_t size)
{
    const int inner = l->ndim - 1;
    const int64_t nbytes = l->count * size, *to = l->strides[0], *from = l->strides[1];
    if (inner > 1 || l->count > MYLIB_PIECE_NBYTES || nbytes > MYLIB_PIECE_NBYTES)
        return 0;
    const uintptr_t ends = (uintptr_t)l->data[0] | (uintptr_t)l->data[1] | (uintptr_t)nbytes;
    mylib_copy_piece *p = &copies->piece[copies->pieces++];
    *p = (mylib_copy_piece){l->data[0],
                            l->data[1],
                            {inner == 1 ? to[0] : 0, to[inner]},
                            {inner == 1 ? from[0] : 0, from[inner]},
                            (int32_t)l->count,
                            (int32_t)l->shape[inner],
                            (int32_t)size};
    if (inner == 0 && to[0] == size && from[0] == size && ends % 16 == 0) {
        p->size = 16;
        p->to_stride[1] = p->from_stride[1] = 16;
        p->count = p->columns = (int32_t)(nbytes / 16);
    }
    return 1;
}

/* Copies, or adds the copy to `copies` unless that is NULL. */
static mylib_status copy_array(void *stream, const mylib_array *dst, const mylib_array *src,
                               mylib_copies *copies)
{
    mylib_operation operation;
    DECLARE_LAYOUT(layout, 2);

    RETURN_IF_NULL(src);
    RETURN_IF_ERROR(mylib_layout_init_named(&layout, dst, src, 1, names));
    if (layout.count == 0)
        return MYLIB_OK;
    if (mylib_elements_overlap(layout.ndim, layout.shape, layout.strides[0],
                               mylib_type_size(dst->type)))
        return mylib_fail(MYLIB_ERR_ARGUMENT, "dst overlaps itself: elements share memory");

    mylib_device to = dst->device, from = src->device;
    int is_one_place = mylib_is_same_place(to, from);
    if (is_one_place) {
        mylib_overlap overlap = mylib_layout_overlap(&layout, 1, mylib_type_size(dst->type),
                                                     mylib_type_size(src->type));
        if (overlap == MYLIB_IDENTICAL && dst->type == src->type)
            return MYLIB_OK;
        if (overlap != MYLIB_DISJOINT)
            return mylib_fail(MYLIB_ERR_ARGUMENT,
                              "dst and src overlap: they must be disjoint, or exactly the same");
    }

    if (to.kind == MYLIB_CUDA && from.kind == MYLIB_CPU) {
        layout.is_host_scalar[1] = src->ndim == 0;
        if (src->ndim != 0 && is_repeated(&layout, 1))
            return copy_repeated(stream, dst, src);
    }
    mylib_layout_simplify(&layout);
    if (copies != NULL && is_one_place && to.kind == MYLIB_CUDA && dst->type == src->type &&
        add_piece(copies, &layout, (int64_t)mylib_type_size(dst->type)))
        return MYLIB_OK;
    mylib_operation_of_conversion(&operation, dst->type, src->type);
    if (is_one_place && to.kind == MYLIB_CPU)
        return mylib_cpu_run(&operation.program, &layout);
    if (is_one_place || layout.is_host_scalar[1])
        return mylib_cuda_map(to.index, stream, &operation.program, &layout, names);
    if (to.kind == MYLIB_CUDA && from.kind == MYLIB_CUDA)
        return copy_between_gpus(stream, to, from, &layout, dst->type, src->type);
    return mylib_cuda_copy_host(to.kind == MYLIB_CUDA ? to.index : from.index, stream, &layout,
                                dst->type, src->type, to.kind == MYLIB_CPU);
}

mylib_status mylib_copy_array(void *stream, const mylib_array *dst, const mylib_array *src)
{
    ENTER_DEFAULT_MODE();
    return copy_array(stream, dst, src, NULL);
}

static mylib_status copy_arrays(void *stream, const mylib_array *dst, const int64_t *strides,
                                int axis, int count, const mylib_array *src)
{
    int64_t shape[MYLIB_MAX_NDIM];
    mylib_array slice = *dst;
    mylib_copies copies;
    copies.pieces = 0;
    memcpy(shape, dst->shape, sizeof *shape * (size_t)dst->ndim);
    slice.shape = shape;
    slice.strides = strides;
    for (int i = 0; i < count; i++) {
        shape[axis] = src[i].shape[axis];
        RETURN_IF_ERROR(copy_array(stream, &slice, &src[i], &copies));
        if (dst->data != NULL)
            slice.data = (char *)slice.data + shape[axis] * strides[axis];
        if (copies.pieces == MYLIB_MAX_PIECES || (i == count - 1 && copies.pieces > 0)) {
            RETURN_IF_ERROR(mylib_cuda_copy_pieces(dst, stream, &copies));
            copies.pieces = 0;
        }
    }
    return MYLIB_OK;
}

mylib_status mylib_copy_arrays(void *stream, const mylib_array *dst, int axis, int count,
                               const mylib_array *src)
{
    char text[MYLIB_SHAPE_TEXT];
    int64_t strides[MYLIB_MAX_NDIM];
    RETURN_IF_ERROR(mylib_check_array("dst", dst));
    if (axis < 0 || axis >= dst->ndim)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "axis is %d: expected one of the %d of dst", axis,
                          (int)dst->ndim);
    if (count < 0)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "count is %d: expected 0 or more", count);
    if (count > 0)
        RETURN_IF_NULL(src);
    int64_t left = dst->shape[axis];
    for (int i = 0; i < count && left >= 0; i++) {
        RETURN_IF_ERROR(mylib_check_array("src", &src[i]));
        left = src[i].ndim == dst->ndim ? left - src[i].shape[axis] : -1;
    }
    if (left != 0)
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "the %d arrays do not join to the shape %s of dst along axis %d", count,
                          mylib_shape_text(text, dst->ndim, dst->shape), axis);
    mylib_array_strides(dst, strides);
    if (mylib_elements_overlap(dst->ndim, dst->shape, strides, mylib_type_size(dst->type)))
        return mylib_fail(MYLIB_ERR_ARGUMENT, "dst overlaps itself: elements share memory");
    ENTER_DEFAULT_MODE();
    return copy_arrays(stream, dst, strides, axis, count, src);
}
