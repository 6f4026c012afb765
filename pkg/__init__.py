"""pipcudemo: arithmetic on NumPy arrays, on the CPU and on CUDA GPUs, with the same bits on both.

>>> import numpy as np
>>> import pkg as pcd
>>> pcd.add(1, 2)
3
>>> pcd.add(np.array([1.0, 2.0]), 0.5)
array([1.5, 2.5])

Every operation takes Python numbers, NumPy arrays and whatever NumPy takes for an array, and
``device=`` asks for the place where it is computed: ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
"""

from __future__ import annotations

import numpy as _np

try:
    from . import core
except ImportError as error:
    from . import _unbuilt

    raise _unbuilt.explained(error) from error
from ._array import Array, asnumpy
from ._creation import (
    arange,
    asarray,
    empty,
    empty_like,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from ._device import (
    config,
    cuda_is_available,
    default_device,
    device_count,
    get_include,
    get_library_dir,
    get_num_threads,
    set_num_threads,
    show_config,
)
from ._docs import document as _document
from ._docs import signature as _signature
from ._expressions import Expression, evaluate
from ._functions import (
    fib,
    helloworld,
    trace,
    vector_add,
    vector_add_cpu,
    vector_add_cuda,
    vector_divide,
    vector_multiply,
    vector_subtract,
)
from ._interop import from_dlpack
from ._manipulation import (
    astype,
    broadcast_to,
    concatenate,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    permute_dims,
    reshape,
    squeeze,
    stack,
    transpose,
    where,
)
from ._namespace import __array_namespace_info__, can_cast, isdtype, result_type
from ._reductions import dot, max, mean, min, prod, sum  # noqa: A004  NumPy's names
from ._streams import (
    MemoryInfo,
    Stream,
    free_cached_memory,
    memory_info,
    set_memory_limit,
    stream,
    synchronize,
)
from ._tracing import fuse
from .core import CudaError, __version__

from . import _general, ufuncs  # noqa: F401  isort: skip  (installs the general path)

#: The names of the element-wise operations.
operations: tuple[str, ...] = tuple(operation.__name__ for operation in core.operations)

for _operation in core.operations:
    _operation.describe(_document(_operation), _signature(_operation.nin))
    globals()[_operation.__name__] = _operation
del _operation

# Further names of the array API standard.
abs = globals()["absolute"]  # noqa: A001
concat = concatenate
finfo, iinfo = _np.finfo, _np.iinfo
e, inf, nan, newaxis, pi = _np.e, _np.inf, _np.nan, None, _np.pi
bool, float16, float32, float64, complex64, complex128 = (  # noqa: A001
    *map(_np.dtype, ("bool", "float16", "float32", "float64", "complex64", "complex128")),
)
int8, int16, int32, int64 = map(_np.dtype, ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(_np.dtype, ("uint8", "uint16", "uint32", "uint64"))

__all__ = [
    *operations,
    "Array",
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
