"""The public names of the package, for type checkers."""

from typing import Final

from . import core as core
from . import ufuncs as ufuncs
from ._device import config as config
from ._device import cuda_is_available as cuda_is_available
from ._device import default_device as default_device
from ._device import device_count as device_count
from ._device import get_include as get_include
from ._device import get_library_dir as get_library_dir
from ._device import show_config as show_config
from ._functions import fib as fib
from ._functions import helloworld as helloworld
from ._functions import trace as trace
from ._functions import vector_add as vector_add
from ._functions import vector_add_cpu as vector_add_cpu
from ._functions import vector_add_cuda as vector_add_cuda
from ._functions import vector_divide as vector_divide
from ._functions import vector_multiply as vector_multiply
from ._functions import vector_subtract as vector_subtract
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
