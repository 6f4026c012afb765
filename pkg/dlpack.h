/*
 * dlpack.h - the structures of DLPack 1.1, through which Python libraries hand arrays to each
 * other: https://dmlc.github.io/dlpack/latest/c_api.html.  Only the parts that dlpack.c uses.
 */
#pragma once

#include "memory.h"

#define DLPACK_MAJOR 1
#define DLPACK_MINOR 1

typedef struct DLPackVersion {
    uint32_t major; /* for other versions the layout after `deleter` is unknown */
    uint32_t minor;
} DLPackVersion;

typedef enum DLDeviceType {
    kDLCUDA = 2,
    kDLCUDAManaged = 13 /* accessible to the CPU and all GPUs */
} DLDeviceType;

typedef struct DLDevice {
    int32_t device_type; /* a DLDeviceType */
    int32_t device_id;
} DLDevice;

typedef enum DLDataTypeCode {
    kDLInt = 0,
    kDLUInt = 1,
    kDLFloat = 2,
    kDLComplex = 5,
    kDLBool = 6 /* of 8 bits */
} DLDataTypeCode;

typedef struct DLDataType {
    uint8_t code;   /* a DLDataTypeCode */
    uint8_t bits;   /* of an element; complex: of both parts together */
    uint16_t lanes; /* more than 1: vectors */
} DLDataType;

typedef struct DLTensor {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: C order without gaps */
    uint64_t byte_offset;
} DLTensor;

/* In a capsule "dltensor".  The consumer calls `deleter`, which may be NULL, when it is done. */
typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

#define DLPACK_FLAG_BITMASK_READ_ONLY (UINT64_C(1) << 0)
#define DLPACK_FLAG_BITMASK_IS_COPIED (UINT64_C(1) << 1)

typedef struct DLManagedTensorVersioned {
    DLPackVersion version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

extern PyMethodDef dlpack_functions[];
