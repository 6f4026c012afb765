/*
 * config.c - version and build description; memory calls that choose a backend.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "mylib_build.h"

#define STRING_(x) #x
#define STRING(x) STRING_(x)
#define VERSION \
    STRING(MYLIB_VERSION_MAJOR) "." STRING(MYLIB_VERSION_MINOR) "." STRING(MYLIB_VERSION_PATCH)

const char *mylib_version(void) { return VERSION; }

mylib_status mylib_get_config(mylib_config *config_ret)
{
    RETURN_IF_NULL(config_ret);
    config_ret->version = VERSION;
    config_ret->compiler = MYLIB_BUILD_COMPILER;
    config_ret->has_cuda = MYLIB_BUILD_HAS_CUDA;
    config_ret->cuda_version = MYLIB_BUILD_CUDA_VERSION;
    config_ret->cuda_architectures = MYLIB_BUILD_CUDA_ARCHITECTURES;
    config_ret->cuda_searched = MYLIB_BUILD_CUDA_SEARCHED;
    config_ret->cpu_level = mylib_cpu()->name;
    config_ret->threads = mylib_cpu_threads();
    return MYLIB_OK;
}

/* ---- Memory ---- */

mylib_status mylib_alloc(mylib_device device, size_t nbytes, void *stream, void **ptr_ret)
{
    RETURN_IF_ERROR(mylib_check_device(device));
    RETURN_IF_NULL(ptr_ret);
    if (device.kind == MYLIB_CUDA)
        return mylib_cuda_alloc(device.index, nbytes, stream, ptr_ret);
    void *ptr = NULL;
    if (posix_memalign(&ptr, 64, nbytes != 0 ? nbytes : 1) != 0)
        return mylib_fail(MYLIB_ERR_NO_MEMORY, "could not allocate %zu bytes of host memory",
                          nbytes);
    *ptr_ret = ptr;
    return MYLIB_OK;
}

mylib_status mylib_free(mylib_device device, void *ptr, void *stream)
{
    RETURN_IF_ERROR(mylib_check_device(device));
    if (device.kind == MYLIB_CUDA)
        return ptr == NULL ? MYLIB_OK : mylib_cuda_free(device.index, ptr, stream);
    free(ptr);
    return MYLIB_OK;
}

mylib_status mylib_copy(mylib_device dst_device, void *dst, mylib_device src_device,
                        const void *src, size_t nbytes, void *stream)
{
    RETURN_IF_ERROR(mylib_check_device(dst_device));
    RETURN_IF_ERROR(mylib_check_device(src_device));
    if (nbytes == 0)
        return MYLIB_OK;
    RETURN_IF_NULL(dst);
    RETURN_IF_NULL(src);
    if (nbytes > PTRDIFF_MAX)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "nbytes is %zu: no memory is so large", nbytes);
    if (dst_device.kind == MYLIB_CPU && src_device.kind == MYLIB_CPU)
        memcpy(dst, src, nbytes);
    else
        RETURN_IF_ERROR(mylib_cuda_copy(dst_device, dst, src_device, src, nbytes, stream));
    return MYLIB_OK;
}

mylib_status mylib_synchronize(mylib_device device, void *stream)
{
    RETURN_IF_ERROR(mylib_check_device(device));
    return device.kind == MYLIB_CPU ? MYLIB_OK : mylib_cuda_synchronize(device.index, stream);
}
