/*
 * none.c - the CUDA backend of a library built without CUDA: every call fails and says so.
 */
#include <stdlib.h>

#include "internal.h"
#include "mylib_build.h"

static mylib_status no_cuda(void)
{
    return mylib_fail(
        MYLIB_ERR_NO_DEVICE,
        "this libmylib was built without CUDA (looked for a CUDA toolkit in: %s). Install "
        "a CUDA toolkit, set CUDA_HOME to it if it is elsewhere, and build again with "
        "MYLIB_CUDA=ON, from the source distribution: pip install --force-reinstall "
        "--no-cache-dir ./pipcudemo-%d.%d.%d.tar.gz",
        MYLIB_BUILD_CUDA_SEARCHED, MYLIB_VERSION_MAJOR, MYLIB_VERSION_MINOR, MYLIB_VERSION_PATCH);
}

mylib_status mylib_cuda_device_count(int *count_ret)
{
    RETURN_IF_NULL(count_ret);
    *count_ret = 0;
    return no_cuda();
}

mylib_status mylib_stream_wait(mylib_device device, void *stream, mylib_device other_device,
                               void *other)
{
    (void)stream, (void)other;
    RETURN_IF_ERROR(mylib_check_gpu(device));
    RETURN_IF_ERROR(mylib_check_gpu(other_device));
    return no_cuda();
}

mylib_status mylib_stream_create(mylib_device device, void **stream_ret)
{
    return mylib_stream_wait(device, stream_ret, device, NULL);
}

mylib_status mylib_stream_destroy(mylib_device device, void *stream)
{
    return mylib_stream_wait(device, stream, device, NULL);
}

/* The functions below ignore their arguments. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

mylib_status mylib_free_pinned(void *ptr) { return ptr == NULL ? MYLIB_OK : no_cuda(); }

mylib_status mylib_free_cached(void) { return MYLIB_OK; }

void mylib_cuda_discard(int device, void *ptr, void *stream) {}

#define REFUSE(name, ...) \
    mylib_status name(__VA_ARGS__) { return no_cuda(); }

REFUSE(mylib_cuda_device_info, int index, mylib_device_info *info_ret)
REFUSE(mylib_cuda_check_device, int index)
REFUSE(mylib_alloc_pinned, size_t nbytes, void **ptr_ret)
REFUSE(mylib_pointer_device, const void *ptr, mylib_device *device_ret)
REFUSE(mylib_cuda_memory_info, int index, mylib_memory_info *info_ret)
REFUSE(mylib_cuda_set_memory_limit, int index, uint64_t limit_nbytes)
REFUSE(mylib_cuda_alloc, int device, size_t nbytes, void *stream, void **ptr_ret)
REFUSE(mylib_cuda_free, int device, void *ptr, void *stream)
REFUSE(mylib_cuda_copy, mylib_device dst_device, void *dst, mylib_device src_device,
       const void *src, size_t nbytes, void *stream)
REFUSE(mylib_cuda_synchronize, int device, void *stream)
REFUSE(mylib_cuda_map, int device, void *stream, const mylib_program *program, mylib_layout *layout,
       const char *const *names)
REFUSE(mylib_cuda_map_host, int device, const mylib_program *program, mylib_layout *layout)
REFUSE(mylib_cuda_program_reduce, int device, void *stream, mylib_reduction reduction,
       const mylib_program *program, mylib_type type, mylib_layout *layout, int kept_ndim,
       mylib_type out_type, const char *const *names)
REFUSE(mylib_cuda_reduce_host, int device, mylib_reduction reduction, const mylib_program *program,
       mylib_type type, mylib_layout *layout, int kept_ndim, mylib_type out_type)
REFUSE(mylib_cuda_reduce, int device, void *stream, mylib_reduction reduction,
       const mylib_terms *terms, mylib_layout *layout, int kept_ndim, mylib_type out_type,
       const char *const *names)
REFUSE(mylib_cuda_copy_host, int device, void *stream, const mylib_layout *layout,
       mylib_type dst_type, mylib_type src_type, int dst_is_host)
REFUSE(mylib_cuda_copy_pieces, const mylib_array *dst, void *stream, const mylib_copies *copies)
REFUSE(mylib_cuda_arange, int device, void *stream, mylib_type type, int64_t n, char *out,
       int64_t stride, const void *start, const void *step)
REFUSE(mylib_cuda_scalar, int device, mylib_op op, mylib_type type, const void *a, const void *b,
       void *result)
