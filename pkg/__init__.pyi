"""The public names of the package, for type checkers."""

from typing import Any, Final

import numpy as np
from numpy import finfo as finfo
from numpy import iinfo as iinfo

from . import core as core
from . import ufuncs as ufuncs
from ._array import Array as Array
from ._array import asnumpy as asnumpy
from ._creation import arange as arange
from ._creation import asarray as asarray
from ._creation import empty as empty
from ._creation import empty_like as empty_like
from ._creation import full as full
from ._creation import full_like as full_like
from ._creation import linspace as linspace
from ._creation import ones as ones
from ._creation import ones_like as ones_like
from ._creation import zeros as zeros
from ._creation import zeros_like as zeros_like
from ._device import config as config
from ._device import cuda_is_available as cuda_is_available
from ._device import default_device as default_device
from ._device import device_count as device_count
from ._device import get_include as get_include
from ._device import get_library_dir as get_library_dir
from ._device import get_num_threads as get_num_threads
from ._device import set_num_threads as set_num_threads
from ._device import show_config as show_config
from ._expressions import Expression as Expression
from ._expressions import evaluate as evaluate
from ._functions import fib as fib
from ._functions import helloworld as helloworld
from ._functions import trace as trace
from ._functions import vector_add as vector_add
from ._functions import vector_add_cpu as vector_add_cpu
from ._functions import vector_add_cuda as vector_add_cuda
from ._functions import vector_divide as vector_divide
from ._functions import vector_multiply as vector_multiply
from ._functions import vector_subtract as vector_subtract
from ._interop import from_dlpack as from_dlpack
from ._manipulation import astype as astype
from ._manipulation import broadcast_to as broadcast_to
from ._manipulation import concatenate as concat
from ._manipulation import concatenate as concatenate
from ._manipulation import expand_dims as expand_dims
from ._manipulation import flip as flip
from ._manipulation import matrix_transpose as matrix_transpose
from ._manipulation import moveaxis as moveaxis
from ._manipulation import permute_dims as permute_dims
from ._manipulation import reshape as reshape
from ._manipulation import squeeze as squeeze
from ._manipulation import stack as stack
from ._manipulation import transpose as transpose
from ._manipulation import where as where
from ._namespace import __array_namespace_info__ as __array_namespace_info__
from ._namespace import can_cast as can_cast
from ._namespace import isdtype as isdtype
from ._namespace import result_type as result_type
from ._reductions import dot as dot
from ._reductions import max as max
from ._reductions import mean as mean
from ._reductions import min as min
from ._reductions import prod as prod
from ._reductions import sum as sum
from ._streams import MemoryInfo as MemoryInfo
from ._streams import Stream as Stream
from ._streams import free_cached_memory as free_cached_memory
from ._streams import memory_info as memory_info
from ._streams import set_memory_limit as set_memory_limit
from ._streams import stream as stream
from ._streams import synchronize as synchronize
from ._tracing import fuse as fuse
from .core import CudaError as CudaError
from .core import Operation
from .core import __version__ as __version__

operations: Final[tuple[str, ...]]

add: Final[Operation]
subtract: Final[Operation]
multiply: Final[Operation]
divide: Final[Operation]
floor_divide: Final[Operation]
remainder: Final[Operation]
minimum: Final[Operation]
maximum: Final[Operation]
negative: Final[Operation]
absolute: Final[Operation]
square: Final[Operation]
sqrt: Final[Operation]
abs: Final[Operation]

e: Final[float]
inf: Final[float]
nan: Final[float]
pi: Final[float]
newaxis: Final[None]
int8: Final[np.dtype[Any]]
int16: Final[np.dtype[Any]]
int32: Final[np.dtype[Any]]
int64: Final[np.dtype[Any]]
uint8: Final[np.dtype[Any]]
uint16: Final[np.dtype[Any]]
uint32: Final[np.dtype[Any]]
uint64: Final[np.dtype[Any]]
float16: Final[np.dtype[Any]]
float32: Final[np.dtype[Any]]
float64: Final[np.dtype[Any]]
complex64: Final[np.dtype[Any]]
complex128: Final[np.dtype[Any]]
bool: Final[np.dtype[Any]]
equal: Final[Operation]
not_equal: Final[Operation]
less: Final[Operation]
less_equal: Final[Operation]
greater: Final[Operation]
greater_equal: Final[Operation]

__all__ = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "remainder",
    "minimum",
    "maximum",
    "negative",
    "absolute",
    "square",
    "sqrt",
    "Array",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "CudaError",
    "Expression",
    "MemoryInfo",
    "Stream",
    "__array_namespace_info__",
    "__version__",
    "abs",
    "arange",
    "asarray",
    "asnumpy",
    "astype",
    "bool",
    "broadcast_to",
    "can_cast",
    "complex128",
    "complex64",
    "concat",
    "concatenate",
    "config",
    "cuda_is_available",
    "default_device",
    "device_count",
    "dot",
    "e",
    "empty",
    "empty_like",
    "evaluate",
    "expand_dims",
    "fib",
    "finfo",
    "flip",
    "float16",
    "float32",
    "float64",
    "free_cached_memory",
    "from_dlpack",
    "full",
    "full_like",
    "fuse",
    "get_include",
    "get_library_dir",
    "get_num_threads",
    "helloworld",
    "iinfo",
    "inf",
    "int16",
    "int32",
    "int64",
    "int8",
    "isdtype",
    "linspace",
    "matrix_transpose",
    "max",
    "mean",
    "memory_info",
    "min",
    "moveaxis",
    "nan",
    "newaxis",
    "ones",
    "ones_like",
    "operations",
    "permute_dims",
    "pi",
    "prod",
    "reshape",
    "result_type",
    "set_memory_limit",
    "set_num_threads",
    "show_config",
    "squeeze",
    "stack",
    "stream",
    "sum",
    "synchronize",
    "trace",
    "transpose",
    "ufuncs",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "vector_add",
    "vector_add_cpu",
    "vector_add_cuda",
    "vector_divide",
    "vector_multiply",
    "vector_subtract",
    "where",
    "zeros",
    "zeros_like",
]
