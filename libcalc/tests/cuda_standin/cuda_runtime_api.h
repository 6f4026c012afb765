/*
 * cuda_runtime_api.h - the part of the CUDA runtime's interface that the library uses, declared for
 * the stand-in (cuda_standin.c), so that emulated GPUs need no toolkit.  Numbers are CUDA's.
 */
#ifndef MYLIB_TEST_CUDA_RUNTIME_API_H
#define MYLIB_TEST_CUDA_RUNTIME_API_H

#include <stddef.h>
#include <stdint.h>

#define CUDA_STANDIN_ERRORS(E) \
    E(Success, 0, "no error") \
    E(ErrorInvalidValue, 1, "invalid argument") \
    E(ErrorMemoryAllocation, 2, "out of memory") \
    E(ErrorCudartUnloading, 4, "driver shutting down") \
    E(ErrorInvalidConfiguration, 9, "invalid configuration argument") \
    E(ErrorInsufficientDriver, 35, "driver version is insufficient") \
    E(ErrorNoDevice, 100, "no CUDA-capable device is detected") \
    E(ErrorInvalidDevice, 101, "invalid device ordinal") \
    E(ErrorECCUncorrectable, 214, "uncorrectable ECC error encountered") \
    E(ErrorNvlinkUncorrectable, 220, "uncorrectable NVLink error") \
    E(ErrorInvalidResourceHandle, 400, "invalid resource handle") \
    E(ErrorIllegalAddress, 700, "an illegal memory access was encountered") \
    E(ErrorLaunchOutOfResources, 701, "too many resources requested for launch") \
    E(ErrorLaunchTimeout, 702, "the launch timed out and was terminated") \
    E(ErrorAssert, 710, "device-side assert triggered") \
    E(ErrorHardwareStackError, 714, "hardware stack error") \
    E(ErrorIllegalInstruction, 715, "an illegal instruction was encountered") \
    E(ErrorMisalignedAddress, 716, "misaligned address") \
    E(ErrorInvalidAddressSpace, 717, "operation not supported on global/shared address space") \
    E(ErrorInvalidPc, 718, "invalid program counter") \
    E(ErrorLaunchFailure, 719, "unspecified launch failure") \
    E(ErrorNotSupported, 801, "operation not supported")

#define CUDA_STANDIN_ENUMERATOR(name, number, text) cuda##name = number,
typedef enum cudaError { CUDA_STANDIN_ERRORS(CUDA_STANDIN_ENUMERATOR) } cudaError_t;
#undef CUDA_STANDIN_ENUMERATOR

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUmemPoolHandle_st *cudaMemPool_t;

#define cudaStreamLegacy ((cudaStream_t)1)
#define cudaStreamPerThread ((cudaStream_t)2)
#define cudaStreamNonBlocking 1
#define cudaEventDisableTiming 2
#define cudaHostAllocPortable 1
#define cudaHostAllocMapped 2

typedef enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDefault = 4 } cudaMemcpyKind;
typedef enum cudaMemoryType {
    cudaMemoryTypeUnregistered = 0,
    cudaMemoryTypeHost = 1,
    cudaMemoryTypeDevice = 2,
    cudaMemoryTypeManaged = 3
} cudaMemoryType;

struct cudaPointerAttributes {
    cudaMemoryType type;
    int device;
};

struct cudaDeviceProp {
    char name[256];
    int major, minor, multiProcessorCount;
};

enum { cudaMemAllocationTypePinned = 1 };
enum { cudaMemLocationTypeDevice = 1 };
enum { cudaMemAccessFlagsProtReadWrite = 3 };
typedef enum cudaMemPoolAttr {
    cudaMemPoolAttrReleaseThreshold = 4,
    cudaMemPoolAttrReservedMemCurrent = 5
} cudaMemPoolAttr;
struct cudaMemLocation {
    int type, id;
};
struct cudaMemPoolProps {
    int allocType;
    struct cudaMemLocation location;
};
struct cudaMemAccessDesc {
    struct cudaMemLocation location;
    int flags;
};

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t cudaGetLastError(void);
const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
cudaError_t cudaDeviceCanAccessPeer(int *can_access, int device, int peer);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaMemGetInfo(size_t *free_nbytes, size_t *total_nbytes);

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties);
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value);
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *access,
                                 size_t count);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t nbytes);
cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t nbytes, cudaMemPool_t pool,
                                    cudaStream_t stream);
cudaError_t cudaFreeAsync(void *ptr, cudaStream_t stream);
cudaError_t cudaMalloc(void **ptr, size_t nbytes);
cudaError_t cudaFree(void *ptr);
cudaError_t cudaHostAlloc(void **ptr, size_t nbytes, unsigned flags);
cudaError_t cudaFreeHost(void *ptr);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr);

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t nbytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t nbytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* MYLIB_TEST_CUDA_RUNTIME_API_H */
