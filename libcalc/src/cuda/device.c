/*
 * device.c - CUDA errors, devices, streams and events.  Plain C on the runtime API.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_internal.h"

/* ---- Errors ---- */

/* Tells whether the error ends the context: every later call of the process returns it again. */
static int is_context_lost(cudaError_t error)
{
    switch ((int)error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case 226: /* cudaErrorContained; older toolkits have no name for it */
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case 721: /* cudaErrorTensorMemoryLeak */
        return 1;
    default:
        return 0;
    }
}

static atomic_int is_lost;

int mylib_cuda_is_lost(void) { return atomic_load_explicit(&is_lost, memory_order_relaxed); }

mylib_status mylib_from_cuda(cudaError_t error, const char *call, const char *file, int line)
{
    if (error == cudaSuccess)
        return MYLIB_OK;
    if (is_context_lost(error))
        atomic_store(&is_lost, 1);
    /* Otherwise the next caller of CUDA in this process would find it. */
    (void)cudaGetLastError();
    const char *slash = strrchr(file, '/');
    file = slash != NULL ? slash + 1 : file;
    if (error == cudaErrorMemoryAllocation)
        return mylib_fail(MYLIB_ERR_NO_MEMORY, "out of memory in %s (%s:%d)", call, file, line);
    return mylib_fail(MYLIB_ERR_CUDA, "%s: %s, in %s (%s:%d)%s", cudaGetErrorName(error),
                      cudaGetErrorString(error), call, file, line,
                      is_context_lost(error)
                          ? ". The CUDA context of this process is lost, with all GPU memory: no "
                            "call will succeed until the process is restarted"
                          : "");
}

/* ---- Devices ---- */

/* After fork() only a child of a process that had not used CUDA may use it; calls may hang. */
static atomic_int is_used, is_poisoned;

int mylib_cuda_is_in_use(void) { return atomic_load(&is_used) && !atomic_load(&is_poisoned); }

static void note_fork(void)
{
    if (atomic_load(&is_used))
        atomic_store(&is_poisoned, 1);
}

__attribute__((constructor(101))) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, note_fork);
}

mylib_status mylib_cuda_device_count(int *count_ret)
{
    int count = 0, driver = 0, runtime = 0;
    RETURN_IF_NULL(count_ret);
    *count_ret = 0;
    if (atomic_load(&is_poisoned))
        return mylib_fail(MYLIB_ERR_FORKED,
                          "CUDA was used before fork() and cannot be used in the child; start "
                          "processes with exec or \"spawn\", or first use the GPU in the child");
    const int was_used = atomic_exchange(&is_used, 1);
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0) {
        *count_ret = count;
        return MYLIB_OK;
    }
    if (error == cudaSuccess || error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver)
        atomic_store(&is_used, was_used); /* no GPU was touched: a child may look for one */
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

/* The number of GPUs, cached because the query is slow; 0 until known. */
static atomic_int known_count;

mylib_status mylib_cuda_check_device(int device)
{
    int count = atomic_load_explicit(&known_count, memory_order_relaxed);
    if (count == 0 || atomic_load_explicit(&is_poisoned, memory_order_relaxed)) {
        RETURN_IF_ERROR(mylib_cuda_device_count(&count));
        atomic_store(&known_count, count);
    }
    if (device == MYLIB_ALL_GPUS)
        return mylib_refuse_all_gpus();
    if (device < 0 || device >= count)
        return mylib_fail(MYLIB_ERR_NO_DEVICE,
                          "there is no cuda:%d: this machine shows %d CUDA GPU%s, cuda:0%s", device,
                          count, count == 1 ? "" : "s", count == 1 ? "" : " and on");
    if (device >= MYLIB_CUDA_MAX_DEVICES)
        return mylib_fail(MYLIB_ERR_UNSUPPORTED, "cuda:%d: at most %d GPUs are supported", device,
                          MYLIB_CUDA_MAX_DEVICES);
    return MYLIB_OK;
}

int mylib_cuda_all(void)
{
    const int count = atomic_load_explicit(&known_count, memory_order_relaxed);
    return count < MYLIB_CUDA_MAX_DEVICES ? count : MYLIB_CUDA_MAX_DEVICES;
}

mylib_status mylib_cuda_enter(int device, int *previous_ret)
{
    int current;
    RETURN_IF_ERROR(mylib_cuda_check_device(device));
    if (atomic_load_explicit(&known_count, memory_order_relaxed) == 1)
        return MYLIB_OK; /* a single GPU is always current */
    CUDA_RETURN_IF_ERROR(cudaGetDevice(&current));
    if (current != device) {
        CUDA_RETURN_IF_ERROR(cudaSetDevice(device));
        *previous_ret = current;
    }
    return MYLIB_OK;
}

void mylib_cuda_leave(const int *previous)
{
    if (*previous >= 0)
        CUDA_CLEANUP(cudaSetDevice(*previous));
}

mylib_status mylib_cuda_device_info(int index, mylib_device_info *info_ret)
{
    size_t free_nbytes, total_nbytes;
    struct cudaDeviceProp properties;

    RETURN_IF_NULL(info_ret);
    ENTER_DEVICE(index);
    CUDA_RETURN_IF_ERROR(cudaGetDeviceProperties(&properties, index));
    CUDA_RETURN_IF_ERROR(cudaMemGetInfo(&free_nbytes, &total_nbytes));
    memset(info_ret, 0, sizeof *info_ret);
    snprintf(info_ret->name, sizeof info_ret->name, "%s", properties.name);
    info_ret->compute_major = properties.major;
    info_ret->compute_minor = properties.minor;
    info_ret->multiprocessors = properties.multiProcessorCount;
    info_ret->free_nbytes = free_nbytes;
    info_ret->total_nbytes = total_nbytes;
    CUDA_RETURN_IF_ERROR(cudaDriverGetVersion(&info_ret->driver_version));
    CUDA_RETURN_IF_ERROR(cudaRuntimeGetVersion(&info_ret->runtime_version));
    return MYLIB_OK;
}

/* ---- Streams and events ---- */

/* One event per device, kept for reuse: recording it again does not affect earlier waits. */
static _Atomic(cudaEvent_t) spare_event[MYLIB_CUDA_MAX_DEVICES];

mylib_status mylib_cuda_record(int device, void *stream, cudaEvent_t *event_ret)
{
    mylib_status st = MYLIB_OK;
    cudaEvent_t event = atomic_exchange(&spare_event[device], NULL);
    if (event == NULL)
        CUDA_TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CUDA_TRY(cudaEventRecord(event, stream));
    *event_ret = event;
    return st;
out:
    if (event != NULL)
        CUDA_CLEANUP(cudaEventDestroy(event));
    return st;
}

void mylib_cuda_release_event(int device, cudaEvent_t event)
{
    cudaEvent_t none = NULL;
    if (!atomic_compare_exchange_strong(&spare_event[device], &none, event))
        CUDA_CLEANUP(cudaEventDestroy(event));
}

void mylib_cuda_free_event(int device)
{
    cudaEvent_t event = atomic_exchange(&spare_event[device], NULL);
    if (event != NULL)
        CUDA_CLEANUP(cudaEventDestroy(event));
}

mylib_status mylib_stream_create(mylib_device device, void **stream_ret)
{
    cudaStream_t stream;
    RETURN_IF_ERROR(mylib_check_gpu(device));
    RETURN_IF_NULL(stream_ret);
    ENTER_DEVICE(device.index);
    CUDA_RETURN_IF_ERROR(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    *stream_ret = stream;
    return MYLIB_OK;
}

mylib_status mylib_stream_destroy(mylib_device device, void *stream)
{
    RETURN_IF_ERROR(mylib_check_gpu(device));
    if (stream == NULL || stream == cudaStreamLegacy || stream == cudaStreamPerThread)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "a default stream cannot be destroyed");
    ENTER_DEVICE(device.index);
    cudaError_t error = cudaStreamDestroy(stream);
    if (error == cudaErrorCudartUnloading) /* at exit, as in mylib_cuda_free() */
        return MYLIB_OK;
    return mylib_from_cuda(error, "cudaStreamDestroy(stream)", __FILE__, __LINE__);
}

static mylib_status wait_for_event(int device, void *stream, cudaEvent_t event)
{
    ENTER_DEVICE(device);
    CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(stream, event, 0));
    return MYLIB_OK;
}

mylib_status mylib_stream_wait(mylib_device device, void *stream, mylib_device other_device,
                               void *other)
{
    cudaEvent_t event = NULL;
    mylib_status st;
    RETURN_IF_ERROR(mylib_check_gpu(device));
    RETURN_IF_ERROR(mylib_check_gpu(other_device));
    RETURN_IF_ERROR(mylib_cuda_check_device(device.index));
    if (device.index == other_device.index && stream == other)
        return MYLIB_OK;

    {
        ENTER_DEVICE(other_device.index);
        RETURN_IF_ERROR(mylib_cuda_record(other_device.index, other, &event));
    }
    st = wait_for_event(device.index, stream, event);
    mylib_cuda_release_event(other_device.index, event);
    return st;
}

mylib_status mylib_cuda_synchronize(int device, void *stream)
{
    ENTER_DEVICE(device);
    CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream));
    return MYLIB_OK;
}
