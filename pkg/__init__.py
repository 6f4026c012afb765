"""pipcudemo: arithmetic on NumPy arrays, on the CPU and on CUDA GPUs, with the same bits on both.

>>> import numpy as np
>>> import pkg as pcd
>>> pcd.add(1, 2)
3
>>> pcd.add(np.array([1.0, 2.0]), 0.5)
array([1.5, 2.5])

Every operation takes Python numbers, NumPy arrays and anything that NumPy accepts as an array.
``device=`` chooses where it is computed: ``"cpu"``, ``"cuda"``, ``"cuda:N"`` or, for host arrays,
``"cuda:all"``.
"""

import numpy as _np

try:
    from . import core
except ImportError as _error:
    from . import _unbuilt

    raise _unbuilt.explain(_error) from _error
from . import _numpy as _numpy, ufuncs as ufuncs
from ._array import Array as Array, asnumpy as asnumpy
from ._call import methods as _methods
from ._creation import (
    arange as arange,
    asarray as asarray,
    astype as astype,
    empty as empty,
    empty_like as empty_like,
    full as full,
    full_like as full_like,
    linspace as linspace,
    ones as ones,
    ones_like as ones_like,
    zeros as zeros,
    zeros_like as zeros_like,
)
from ._devices import (
    MemoryInfo as MemoryInfo,
    Stream as Stream,
    config as config,
    cuda_is_available as cuda_is_available,
    default_device as default_device,
    device_count as device_count,
    free_cached_memory as free_cached_memory,
    get_default_device as get_default_device,
    get_include as get_include,
    get_library_dir as get_library_dir,
    get_num_threads as get_num_threads,
    memory_info as memory_info,
    set_default_device as set_default_device,
    set_memory_limit as set_memory_limit,
    set_num_threads as set_num_threads,
    show_config as show_config,
    stream as stream,
    synchronize as synchronize,
)
from ._docs import SIGNATURES as _SIGNATURES, document as _document
from ._elementwise import clip as clip, round as round
from ._fingerprint import fingerprint as fingerprint
from ._functions import (
    fib as fib,
    helloworld as helloworld,
    vector_add as vector_add,
    vector_add_cpu as vector_add_cpu,
    vector_add_cuda as vector_add_cuda,
    vector_divide as vector_divide,
    vector_multiply as vector_multiply,
    vector_subtract as vector_subtract,
)
from ._interop import from_dlpack as from_dlpack
from ._manipulation import (
    broadcast_to as broadcast_to,
    concatenate as concatenate,
    expand_dims as expand_dims,
    flip as flip,
    matrix_transpose as matrix_transpose,
    moveaxis as moveaxis,
    permute_dims as permute_dims,
    reshape as reshape,
    squeeze as squeeze,
    stack as stack,
    transpose as transpose,
    where as where,
)
from ._namespace import (
    __array_api_version__ as __array_api_version__,
    __array_namespace_info__ as __array_namespace_info__,
    can_cast as can_cast,
    isdtype as isdtype,
    result_type as result_type,
)
from ._operations import *  # noqa: F403
from ._reductions import (
    all as all,
    any as any,
    count_nonzero as count_nonzero,
    dot as dot,
    max as max,
    mean as mean,
    min as min,
    prod as prod,
    sum as sum,
    trace as trace,
)
from .core import CudaError as CudaError, __version__ as __version__
from .expressions import Expression as Expression, evaluate as evaluate, fuse as fuse

#: The names of the element-wise operations.
operations: tuple[str, ...] = tuple(operation.__name__ for operation in core.operations)

for _operation in (*core.operations, core.true_divide):
    _operation.describe(_document(_operation), _SIGNATURES[_operation.nin], _methods(_operation))

# Further names of the array API standard.
concat = concatenate
finfo, iinfo = _np.finfo, _np.iinfo
e, inf, nan, newaxis, pi = _np.e, _np.inf, _np.nan, None, _np.pi
int8, int16, int32, int64 = map(_np.dtype, ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(_np.dtype, ("uint8", "uint16", "uint32", "uint64"))
float16, float32, float64 = map(_np.dtype, ("float16", "float32", "float64"))
complex64, complex128 = map(_np.dtype, ("complex64", "complex128"))
bool = _np.dtype("bool")

# Type checkers read the public names from the imports above; they cannot read a computed __all__.
globals()["__all__"] = sorted(
    name
    for name in globals()
    if name in ("__array_api_version__", "__array_namespace_info__", "__version__")
    or not (name.startswith("_") or name in ("core", "expressions"))
)

for _name in globals()["__all__"]:
    # Users see and pickle `pkg.Expression`, whichever file defines it.
    if getattr(globals()[_name], "__module__", "").startswith(f"{__name__}."):
        globals()[_name].__module__ = __name__
del _name, _operation
