/*
 * cuda_standin.c - a stand-in for the CUDA runtime, over host memory: GPUs that are not there.
 * With it the library's own files run on machines without a GPU, and any of their calls can be made
 * to fail (cuda_standin.h).  Never part of a release: CMake's MYLIB_EMULATED_GPUS, 0 unless given,
 * says how many GPUs there are.
 *
 * All work is done when it is enqueued, so streams have nothing to wait for.  As in CUDA, an error
 * stays set in its thread until cudaGetLastError() takes it, and that of a lost context in all.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_runtime_api.h"
#include "cuda_standin.h"

/* AddressSanitizer: bytes beyond an allocation, up to its multiple of 256, must not be touched. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define FORBID(at, nbytes) ASAN_POISON_MEMORY_REGION(at, nbytes)
#define ALLOW(at, nbytes) ASAN_UNPOISON_MEMORY_REGION(at, nbytes)
#else
#define FORBID(at, nbytes) ((void)0)
#define ALLOW(at, nbytes) ((void)0)
#endif

#define TOTAL_NBYTES ((size_t)1 << 30) /* of each GPU */
#define ALIGNMENT 256

/* ---- Errors ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that is shared below */
static cuda_standin_counts counts;
static long fail_at;
static int fails_for_ever;
static cudaError_t error_to_give;
static const char *failed_call;
static _Atomic(cudaError_t) lost;
static _Thread_local cudaError_t last_error;

static int is_of_lost_context(cudaError_t error)
{
    return error == cudaErrorECCUncorrectable || error == cudaErrorNvlinkUncorrectable ||
           (error >= cudaErrorIllegalAddress && error <= cudaErrorLaunchFailure &&
            error != cudaErrorLaunchOutOfResources);
}

static cudaError_t set_error(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

/* Counts a call; the error that it has to give instead of working. */
static cudaError_t begin(const char *name)
{
    cudaError_t error = cudaSuccess;
    pthread_mutex_lock(&lock);
    counts.calls++;
    if (fail_at != 0 && (counts.calls == fail_at || (fails_for_ever && counts.calls > fail_at))) {
        error = error_to_give;
        if (failed_call == NULL)
            failed_call = name;
        if (is_of_lost_context(error))
            atomic_store(&lost, error);
    }
    pthread_mutex_unlock(&lock);
    if (atomic_load(&lost) != cudaSuccess)
        error = atomic_load(&lost);
    return set_error(error);
}

/* First in each function that can fail. */
#define BEGIN() \
    do { \
        cudaError_t error_ = begin(__func__); \
        if (error_ != cudaSuccess) \
            return error_; \
    } while (0)

int cuda_standin_launch(void) { return (int)begin("a launch"); }

void cuda_standin_fail(long n, int error, int for_ever)
{
    pthread_mutex_lock(&lock);
    fail_at = n == 0 ? 0 : counts.calls + n;
    error_to_give = (cudaError_t)error;
    fails_for_ever = for_ever;
    failed_call = NULL;
    pthread_mutex_unlock(&lock);
}

const char *cuda_standin_failed(void)
{
    pthread_mutex_lock(&lock);
    const char *name = failed_call;
    pthread_mutex_unlock(&lock);
    return name;
}

void cuda_standin_restart(void)
{
    atomic_store(&lost, cudaSuccess);
    last_error = cudaSuccess;
}

int cuda_standin_last_error(void) { return (int)last_error; }

void cuda_standin_count(cuda_standin_counts *counts_ret)
{
    pthread_mutex_lock(&lock);
    *counts_ret = counts;
    pthread_mutex_unlock(&lock);
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = atomic_load(&lost);
    return error != cudaSuccess ? error : last_error;
}

const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
#define CASE(name, number, text) \
    case cuda##name: \
        return "cuda" #name;
        CUDA_STANDIN_ERRORS(CASE)
#undef CASE
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
#define CASE(name, number, text) \
    case cuda##name: \
        return text;
        CUDA_STANDIN_ERRORS(CASE)
#undef CASE
    }
    return "unrecognized error code";
}

/* ---- Devices ---- */

static size_t used_nbytes[MYLIB_EMULATED_GPUS];
static _Thread_local int current;

static int is_device(int device) { return device >= 0 && device < MYLIB_EMULATED_GPUS; }

cudaError_t cudaGetDeviceCount(int *count)
{
    BEGIN();
    *count = MYLIB_EMULATED_GPUS;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    BEGIN();
    *device = current;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    BEGIN();
    if (!is_device(device))
        return set_error(cudaErrorInvalidDevice);
    current = device;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    BEGIN();
    if (!is_device(device))
        return set_error(cudaErrorInvalidDevice);
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "emulated GPU");
    properties->multiProcessorCount = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can_access, int device, int peer)
{
    BEGIN();
    if (!is_device(device) || !is_device(peer))
        return set_error(cudaErrorInvalidDevice);
    *can_access = device != peer;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    BEGIN();
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    BEGIN();
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    BEGIN();
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_nbytes, size_t *total_nbytes)
{
    BEGIN();
    pthread_mutex_lock(&lock);
    *free_nbytes = TOTAL_NBYTES - used_nbytes[current];
    pthread_mutex_unlock(&lock);
    *total_nbytes = TOTAL_NBYTES;
    return cudaSuccess;
}

/* ---- Streams that are there ---- */

struct CUstream_st {
    int device;
    struct CUstream_st *next;
};

static struct CUstream_st *streams;

/* The error of a call on a stream, which may have been destroyed: CUDA need not even say so. */
static cudaError_t check_stream(cudaStream_t stream)
{
    int is_there = stream == NULL || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
    pthread_mutex_lock(&lock);
    for (const struct CUstream_st *s = streams; s != NULL && !is_there; s = s->next)
        is_there = s == stream;
    pthread_mutex_unlock(&lock);
    return set_error(is_there ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

/* First in each function that is given a stream. */
#define BEGIN_ON(stream) \
    do { \
        BEGIN(); \
        cudaError_t stream_error_ = check_stream(stream); \
        if (stream_error_ != cudaSuccess) \
            return stream_error_; \
    } while (0)

/* ---- Memory ---- */

struct CUmemPoolHandle_st {
    int device;
    uint64_t used_nbytes;
};

/* GPU memory, or pinned host memory, in a list: other host memory is found out. */
typedef struct block {
    struct block *next;
    int device; /* -1: pinned */
    cudaMemPool_t pool;
    char *data;
    size_t nbytes, room;
    int is_registered; /* pinned, and another's memory */
} block;

static block *blocks;

/* The block that holds an address; the caller has the lock. */
static block *find_block(const void *ptr)
{
    for (block *b = blocks; b != NULL; b = b->next)
        if ((const char *)ptr >= b->data && (const char *)ptr < b->data + b->nbytes)
            return b;
    return NULL;
}

static cudaError_t add_block(int device, cudaMemPool_t pool, void **ptr, size_t nbytes)
{
    size_t room = (nbytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *data = NULL;
    block *b = NULL;
    cudaError_t error = cudaErrorMemoryAllocation;
    if (nbytes == 0 || nbytes > SIZE_MAX - ALIGNMENT)
        return set_error(nbytes == 0 ? cudaErrorInvalidValue : error);
    pthread_mutex_lock(&lock);
    if ((device < 0 || room <= TOTAL_NBYTES - used_nbytes[device]) &&
        (b = malloc(sizeof *b)) != NULL && posix_memalign(&data, ALIGNMENT, room) == 0) {
        *b = (block){blocks, device, pool, data, nbytes, room, 0};
        blocks = b;
        if (device >= 0) {
            memset(data, 0xa5, room);
            used_nbytes[device] += room;
            if (pool != NULL)
                pool->used_nbytes += room;
            counts.allocations++;
        } else {
            counts.pinned++;
        }
        FORBID(b->data + nbytes, room - nbytes);
        *ptr = data;
        b = NULL;
        error = cudaSuccess;
    }
    free(b);
    pthread_mutex_unlock(&lock);
    return set_error(error);
}

static cudaError_t remove_block(void *ptr, int is_pinned, int is_registered)
{
    cudaError_t error = cudaErrorInvalidValue;
    if (ptr == NULL)
        return cudaSuccess;
    pthread_mutex_lock(&lock);
    for (block **link = &blocks; *link != NULL; link = &(*link)->next) {
        block *b = *link;
        if (b->data != ptr || (b->device < 0) != is_pinned || b->is_registered != is_registered)
            continue;
        *link = b->next;
        if (b->device >= 0) {
            used_nbytes[b->device] -= b->room;
            if (b->pool != NULL)
                b->pool->used_nbytes -= b->room;
            counts.allocations--;
        } else if (!is_registered) {
            counts.pinned--;
        }
        if (!is_registered) {
            ALLOW(b->data, b->room);
            free(b->data);
        }
        free(b);
        error = cudaSuccess;
        break;
    }
    pthread_mutex_unlock(&lock);
    return set_error(error);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties)
{
    BEGIN();
    if (!is_device(properties->location.id))
        return set_error(cudaErrorInvalidDevice);
    cudaMemPool_t made = calloc(1, sizeof *made);
    if (made == NULL)
        return set_error(cudaErrorMemoryAllocation);
    made->device = properties->location.id;
    pthread_mutex_lock(&lock);
    counts.pools++;
    pthread_mutex_unlock(&lock);
    *pool = made;
    return cudaSuccess;
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    BEGIN();
    pthread_mutex_lock(&lock);
    counts.pools--;
    pthread_mutex_unlock(&lock);
    free(pool);
    return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value)
{
    BEGIN();
    (void)pool, (void)value;
    return set_error(attribute == cudaMemPoolAttrReleaseThreshold ? cudaSuccess
                                                                  : cudaErrorInvalidValue);
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value)
{
    BEGIN();
    if (attribute != cudaMemPoolAttrReservedMemCurrent)
        return set_error(cudaErrorInvalidValue);
    pthread_mutex_lock(&lock);
    *(uint64_t *)value = pool->used_nbytes;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *access,
                                 size_t count)
{
    BEGIN();
    (void)pool, (void)count;
    return set_error(is_device(access->location.id) ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t nbytes)
{
    BEGIN();
    (void)pool, (void)nbytes;
    return cudaSuccess;
}

cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t nbytes, cudaMemPool_t pool,
                                    cudaStream_t stream)
{
    BEGIN_ON(stream);
    return add_block(pool->device, pool, ptr, nbytes);
}

cudaError_t cudaFreeAsync(void *ptr, cudaStream_t stream)
{
    BEGIN_ON(stream);
    return remove_block(ptr, 0, 0);
}

cudaError_t cudaMalloc(void **ptr, size_t nbytes)
{
    BEGIN();
    return add_block(current, NULL, ptr, nbytes);
}

cudaError_t cudaFree(void *ptr)
{
    BEGIN();
    return remove_block(ptr, 0, 0);
}

cudaError_t cudaHostAlloc(void **ptr, size_t nbytes, unsigned flags)
{
    BEGIN();
    (void)flags;
    return add_block(-1, NULL, ptr, nbytes);
}

cudaError_t cudaFreeHost(void *ptr)
{
    BEGIN();
    return remove_block(ptr, 1, 0);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
    BEGIN();
    pthread_mutex_lock(&lock);
    const block *b = find_block(ptr);
    attributes->type = b == NULL       ? cudaMemoryTypeUnregistered
                       : b->device < 0 ? cudaMemoryTypeHost
                                       : cudaMemoryTypeDevice;
    attributes->device = b != NULL && b->device >= 0 ? b->device : 0;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

/* ---- Copies ---- */

/* False for memory that begins in an allocation, or in a pinned part, and goes beyond it. */
static int is_within(const void *ptr, size_t nbytes)
{
    pthread_mutex_lock(&lock);
    const block *b = find_block(ptr);
    int is = b == NULL || nbytes <= b->nbytes - (size_t)((const char *)ptr - b->data);
    pthread_mutex_unlock(&lock);
    return is;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t nbytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    BEGIN_ON(stream);
    (void)kind;
    if (!is_within(to, nbytes) || !is_within(from, nbytes))
        return set_error(cudaErrorInvalidValue);
    memcpy(to, from, nbytes);
    return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t nbytes, cudaStream_t stream)
{
    BEGIN_ON(stream);
    if (!is_device(to_device) || !is_device(from_device))
        return set_error(cudaErrorInvalidDevice);
    memcpy(to, from, nbytes);
    return cudaSuccess;
}

/* ---- Streams and events ---- */

struct CUevent_st {
    int is_recorded, device;
};

static void *make_handle(size_t nbytes, long *count)
{
    void *handle = calloc(1, nbytes);
    pthread_mutex_lock(&lock);
    *count += handle != NULL;
    pthread_mutex_unlock(&lock);
    return handle;
}

static void free_handle(void *handle, long *count)
{
    pthread_mutex_lock(&lock);
    --*count;
    pthread_mutex_unlock(&lock);
    free(handle);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    BEGIN();
    (void)flags;
    cudaStream_t made = make_handle(sizeof *made, &counts.streams);
    if (made == NULL)
        return set_error(cudaErrorMemoryAllocation);
    made->device = current;
    pthread_mutex_lock(&lock);
    made->next = streams;
    streams = made;
    pthread_mutex_unlock(&lock);
    *stream = made;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    BEGIN_ON(stream);
    pthread_mutex_lock(&lock);
    struct CUstream_st **link = &streams;
    while (*link != NULL && *link != stream)
        link = &(*link)->next;
    if (*link != NULL)
        *link = stream->next;
    pthread_mutex_unlock(&lock);
    free_handle(stream, &counts.streams);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    BEGIN_ON(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    BEGIN_ON(stream);
    (void)flags;
    return set_error(event->is_recorded ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    BEGIN();
    (void)flags;
    cudaEvent_t made = make_handle(sizeof *made, &counts.events);
    if (made == NULL)
        return set_error(cudaErrorMemoryAllocation);
    made->device = current;
    *event = made;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    BEGIN();
    free_handle(event, &counts.events);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    BEGIN_ON(stream);
    const int is_default =
        stream == NULL || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
    event->is_recorded = event->device == (is_default ? current : stream->device);
    return set_error(event->is_recorded ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

/* ---- The driver ---- */

/* Stands for the part of libcuda.so.1 with which tests own streams and pinned memory themselves. */

CUDA_STANDIN_API int cuStreamCreate(cudaStream_t *stream, unsigned flags);
CUDA_STANDIN_API int cuStreamDestroy_v2(cudaStream_t stream);
CUDA_STANDIN_API int cuMemHostRegister_v2(void *ptr, size_t nbytes, unsigned flags);
CUDA_STANDIN_API int cuMemHostUnregister(void *ptr);

int cuStreamCreate(cudaStream_t *stream, unsigned flags)
{
    return (int)cudaStreamCreateWithFlags(stream, flags);
}

int cuStreamDestroy_v2(cudaStream_t stream) { return (int)cudaStreamDestroy(stream); }

int cuMemHostRegister_v2(void *ptr, size_t nbytes, unsigned flags)
{
    block *b = malloc(sizeof *b);
    (void)flags;
    if (b == NULL)
        return cudaErrorMemoryAllocation;
    pthread_mutex_lock(&lock);
    *b = (block){blocks, -1, NULL, ptr, nbytes, nbytes, 1};
    blocks = b;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

int cuMemHostUnregister(void *ptr) { return (int)remove_block(ptr, 1, 1); }
