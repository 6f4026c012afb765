/*
 * device.c - CUDA devices, errors, memory.  Plain C on the runtime API.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cuda_internal.h"

#define MAX_DEVICES 64

/* ---- Errors -------------------------------------------------------------------------------- */

mylib_status mylib_from_cuda(cudaError_t error, const char *call, const char *file, int line)
{
    if (error == cudaSuccess)
        return MYLIB_OK;
    /* Left set, the error would be found by the next caller of CUDA in this process. */
    (void)cudaGetLastError();
    const char *slash = strrchr(file, '/');
    file = slash != NULL ? slash + 1 : file;
    if (error == cudaErrorMemoryAllocation)
        return mylib_fail(MYLIB_ERR_NO_MEMORY, "out of memory in %s (%s:%d)", call, file, line);
    return mylib_fail(MYLIB_ERR_CUDA, "%s: %s, in %s (%s:%d)", cudaGetErrorName(error),
                      cudaGetErrorString(error), call, file, line);
}

/* ---- Devices ------------------------------------------------------------------------------- */

/*
 * A child of fork() cannot use the CUDA state of its parent, and some calls would hang.  One that
 * was forked before CUDA was first used is free to use it.
 */
static atomic_int is_used, is_poisoned;

static void note_fork(void)
{
    if (atomic_load(&is_used))
        atomic_store(&is_poisoned, 1);
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, note_fork);
}

mylib_status mylib_cuda_device_count(int *count_ret)
{
    int count = 0, driver = 0, runtime = 0;
    if (count_ret == NULL)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "count_ret is NULL");
    *count_ret = 0;
    if (atomic_load(&is_poisoned))
        return mylib_fail(MYLIB_ERR_FORKED,
                          "CUDA was used before fork() and cannot be used in the child; start "
                          "processes with exec or \"spawn\", or first use the GPU in the child");
    atomic_store(&is_used, 1);
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0) {
        *count_ret = count;
        return MYLIB_OK;
    }
    (void)cudaGetLastError();
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    (void)cudaGetLastError();
    if (error == cudaSuccess || error == cudaErrorNoDevice)
        return mylib_fail(
            MYLIB_ERR_NO_DEVICE,
            "no CUDA GPU: the NVIDIA driver is there, but shows no GPU (check nvidia-smi and "
            "CUDA_VISIBLE_DEVICES)");
    if (driver == 0)
        return mylib_fail(
            MYLIB_ERR_NO_DEVICE,
            "no CUDA GPU: the NVIDIA driver (libcuda.so.1) was not found on this machine");
    if (error == cudaErrorInsufficientDriver)
        return mylib_fail(
            MYLIB_ERR_NO_DEVICE,
            "no CUDA GPU: the NVIDIA driver supports CUDA %d.%d, this library needs %d.%d: "
            "update the driver, or build with an older toolkit",
            driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    return mylib_fail(MYLIB_ERR_NO_DEVICE, "no CUDA GPU can be used: %s: %s",
                      cudaGetErrorName(error), cudaGetErrorString(error));
}

/* The count does not change while a process lives, and asking costs; 0 until known. */
static atomic_int known_count;

static mylib_status check_index(int device)
{
    int count = atomic_load_explicit(&known_count, memory_order_relaxed);
    if (count == 0 || atomic_load_explicit(&is_poisoned, memory_order_relaxed)) {
        mylib_status st = mylib_cuda_device_count(&count);
        if (st != MYLIB_OK)
            return st;
        atomic_store(&known_count, count);
    }
    if (device < 0 || device >= count)
        return mylib_fail(MYLIB_ERR_NO_DEVICE,
                          "there is no cuda:%d: this machine shows %d CUDA GPU%s, cuda:0%s", device,
                          count, count == 1 ? "" : "s", count == 1 ? "" : " and on");
    return MYLIB_OK;
}

mylib_status mylib_cuda_enter(int device, int *previous_ret)
{
    mylib_status st;
    MYLIB_TRY(check_index(device));
    CUDA_TRY(cudaGetDevice(previous_ret));
    if (*previous_ret != device)
        CUDA_TRY(cudaSetDevice(device));
    else
        *previous_ret = -1; /* nothing to restore */
out:
    return st;
}

void mylib_cuda_leave(int previous)
{
    if (previous >= 0)
        (void)cudaSetDevice(previous);
}

mylib_status mylib_cuda_device_info(int index, mylib_device_info *info_ret)
{
    int previous = -1;
    mylib_status st;
    size_t free_nbytes, total_nbytes;
    struct cudaDeviceProp properties;

    if (info_ret == NULL)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "info_ret is NULL");
    if ((st = mylib_cuda_enter(index, &previous)) != MYLIB_OK)
        return st;
    CUDA_TRY(cudaGetDeviceProperties(&properties, index));
    CUDA_TRY(cudaMemGetInfo(&free_nbytes, &total_nbytes));
    memset(info_ret, 0, sizeof *info_ret);
    snprintf(info_ret->name, sizeof info_ret->name, "%s", properties.name);
    info_ret->compute_major = properties.major;
    info_ret->compute_minor = properties.minor;
    info_ret->multiprocessors = properties.multiProcessorCount;
    info_ret->free_nbytes = free_nbytes;
    info_ret->total_nbytes = total_nbytes;
    CUDA_TRY(cudaDriverGetVersion(&info_ret->driver_version));
    CUDA_TRY(cudaRuntimeGetVersion(&info_ret->runtime_version));
out:
    mylib_cuda_leave(previous);
    return st;
}

/* ---- Memory -------------------------------------------------------------------------------- */

/*
 * A pool of our own, so that its settings are nobody else's; keeps what is freed until it is
 * trimmed.
 */
static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static cudaMemPool_t pools[MAX_DEVICES];

static mylib_status pool_of(int device, cudaMemPool_t *pool_ret)
{
    mylib_status st = MYLIB_OK;
    struct cudaMemPoolProps properties;
    uint64_t keep_all = UINT64_MAX;

    if (device >= MAX_DEVICES)
        return mylib_fail(MYLIB_ERR_UNSUPPORTED, "cuda:%d: at most %d GPUs are supported", device,
                          MAX_DEVICES);
    pthread_mutex_lock(&pools_lock);
    if (pools[device] == NULL) {
        cudaMemPool_t pool;
        memset(&properties, 0, sizeof properties);
        properties.allocType = cudaMemAllocationTypePinned;
        properties.location.type = cudaMemLocationTypeDevice;
        properties.location.id = device;
        CUDA_TRY(cudaMemPoolCreate(&pool, &properties));
        pools[device] = pool;
        CUDA_TRY(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all));
    }
    *pool_ret = pools[device];
out:
    pthread_mutex_unlock(&pools_lock);
    return st;
}

mylib_status mylib_cuda_alloc(int device, size_t nbytes, void *stream, void **ptr_ret)
{
    int previous;
    mylib_status st;
    cudaMemPool_t pool = NULL;
    void *ptr = NULL;

    if ((st = mylib_cuda_enter(device, &previous)) != MYLIB_OK)
        return st;
    MYLIB_TRY(pool_of(device, &pool));
    if (nbytes == 0)
        nbytes = 1;
    cudaError_t error = cudaMallocFromPoolAsync(&ptr, nbytes, pool, stream);
    if (error == cudaErrorMemoryAllocation) {
        /* What was freed may still be held for streams that have not got there. */
        (void)cudaGetLastError();
        CUDA_TRY(cudaDeviceSynchronize());
        CUDA_TRY(cudaMemPoolTrimTo(pool, 0));
        error = cudaMallocFromPoolAsync(&ptr, nbytes, pool, stream);
    }
    if (error == cudaErrorMemoryAllocation) {
        size_t free_nbytes = 0, total_nbytes = 0;
        (void)cudaGetLastError();
        (void)cudaMemGetInfo(&free_nbytes, &total_nbytes);
        st = mylib_fail(MYLIB_ERR_NO_MEMORY,
                        "could not allocate %zu bytes on cuda:%d: %zu of its %zu bytes are free",
                        nbytes, device, free_nbytes, total_nbytes);
        goto out;
    }
    CUDA_TRY(error);
    *ptr_ret = ptr;
out:
    mylib_cuda_leave(previous);
    return st;
}

mylib_status mylib_cuda_free(int device, void *ptr, void *stream)
{
    int previous;
    mylib_status st = mylib_cuda_enter(device, &previous);
    if (st != MYLIB_OK)
        return st;
    CUDA_TRY(cudaFreeAsync(ptr, stream));
out:
    mylib_cuda_leave(previous);
    return st;
}

mylib_status mylib_alloc_pinned(size_t nbytes, void **ptr_ret)
{
    int count;
    void *ptr = NULL;
    mylib_status st;
    if (ptr_ret == NULL)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "ptr_ret is NULL");
    MYLIB_TRY(mylib_cuda_device_count(&count));
    cudaError_t error = cudaHostAlloc(&ptr, nbytes != 0 ? nbytes : 1, cudaHostAllocPortable);
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return mylib_fail(MYLIB_ERR_NO_MEMORY, "could not allocate %zu bytes of pinned host memory",
                          nbytes);
    }
    CUDA_TRY(error);
    *ptr_ret = ptr;
out:
    return st;
}

mylib_status mylib_free_pinned(void *ptr)
{
    int count;
    mylib_status st = MYLIB_OK;
    if (ptr == NULL)
        return st;
    MYLIB_TRY(mylib_cuda_device_count(&count));
    CUDA_TRY(cudaFreeHost(ptr));
out:
    return st;
}

mylib_status mylib_free_cached(void)
{
    mylib_status st = MYLIB_OK;
    if (!atomic_load(&is_used) || atomic_load(&is_poisoned))
        return st;
    mylib_stream_free_cached();
    pthread_mutex_lock(&pools_lock);
    for (int i = 0; i < MAX_DEVICES; i++)
        if (pools[i] != NULL)
            CUDA_TRY(cudaMemPoolTrimTo(pools[i], 0));
out:
    pthread_mutex_unlock(&pools_lock);
    return st;
}

mylib_status mylib_cuda_copy(mylib_device dst_device, void *dst, mylib_device src_device,
                             const void *src, size_t nbytes, void *stream)
{
    int previous;
    int device = dst_device.kind == MYLIB_CUDA ? dst_device.index : src_device.index;
    int has_host = dst_device.kind == MYLIB_CPU || src_device.kind == MYLIB_CPU;
    mylib_status st = mylib_cuda_enter(device, &previous);
    if (st != MYLIB_OK)
        return st;
    if (!has_host && dst_device.index != src_device.index)
        MYLIB_TRY(mylib_fail(MYLIB_ERR_UNSUPPORTED,
                             "copies between GPUs (cuda:%d to cuda:%d) go through host memory",
                             (int)src_device.index, (int)dst_device.index));
    CUDA_TRY(cudaMemcpyAsync(dst, src, nbytes, cudaMemcpyDefault, stream));
    if (has_host)
        CUDA_TRY(cudaStreamSynchronize(stream));
out:
    mylib_cuda_leave(previous);
    return st;
}

mylib_status mylib_cuda_synchronize(int device, void *stream)
{
    int previous;
    mylib_status st = mylib_cuda_enter(device, &previous);
    if (st != MYLIB_OK)
        return st;
    CUDA_TRY(cudaStreamSynchronize(stream));
out:
    mylib_cuda_leave(previous);
    return st;
}
