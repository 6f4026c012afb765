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

from . import core
from ._device import (
    config,
    cuda_is_available,
    default_device,
    device_count,
    get_include,
    get_library_dir,
    show_config,
)
from ._docs import document as _document
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
from .core import CudaError, __version__

from . import _general, ufuncs  # noqa: F401  isort: skip  (installs the general path)

#: The names of the element-wise operations.
operations: tuple[str, ...] = tuple(operation.__name__ for operation in core.operations)

for _operation in core.operations:
    _operation.__doc__ = _document(_operation)
    globals()[_operation.__name__] = _operation
del _operation

__all__ = [
    *operations,
    "CudaError",
    "__version__",
    "config",
    "cuda_is_available",
    "default_device",
    "device_count",
    "fib",
    "get_include",
    "get_library_dir",
    "helloworld",
    "operations",
    "show_config",
    "trace",
    "ufuncs",
    "vector_add",
    "vector_add_cpu",
    "vector_add_cuda",
    "vector_divide",
    "vector_multiply",
    "vector_subtract",
]
