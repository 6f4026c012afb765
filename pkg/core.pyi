"""Types of the extension module; the public interface is the package."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from inspect import Signature
from typing import Any, Final, TypedDict, TypeVar, final, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Unpack, disjoint_base

from ._array import Array

_Out = TypeVar("_Out", bound=npt.NDArray[Any] | ArrayBase)

__version__: Final[str]

class CudaError(RuntimeError): ...
class OutOfRange(OverflowError): ...

class _Keywords(TypedDict, total=False):
    where: npt.ArrayLike | ArrayBase
    dtype: npt.DTypeLike | None
    casting: str
    order: str
    subok: bool
    device: str | None

@final
class Operation:
    __name__: Final[str]
    __qualname__: Final[str]
    index: Final[int]
    nin: Final[int]
    is_true_division: Final[bool]
    compares: Final[bool]
    takes_ints: Final[bool]
    ufunc: Final[np.ufunc]
    named_ufunc: Final[np.ufunc]
    @overload
    def __call__(self, a: int, b: int = ..., /, *, device: str | None = None) -> int | float: ...
    @overload
    def __call__(self, a: float, b: float = ..., /, *, device: str | None = None) -> float: ...
    @overload
    def __call__(
        self, a: Any, b: Any, /, out: _Out | tuple[_Out], **keywords: Unpack[_Keywords]
    ) -> _Out: ...
    @overload
    def __call__(
        self, a: Any, /, *, out: _Out | tuple[_Out], **keywords: Unpack[_Keywords]
    ) -> _Out: ...
    @overload
    def __call__(
        self, a: Array, b: Any = ..., /, out: None = None, **keywords: Unpack[_Keywords]
    ) -> Array: ...
    @overload
    def __call__(
        self, a: Any, b: Array, /, out: None = None, **keywords: Unpack[_Keywords]
    ) -> Array: ...
    @overload
    def __call__(
        self, a: Any, b: Any = ..., /, out: Any = None, **keywords: Unpack[_Keywords]
    ) -> Any: ...
    def describe(self, doc: str, signature: Signature, methods: dict[str, Any], /) -> None: ...
    # The rest is the ufunc's.
    types: Final[list[str]]
    ntypes: Final[int]
    nout: Final[int]
    nargs: Final[int]
    identity: Final[int | None]
    signature: Final[str | None]
    resolve_dtypes: Final[Callable[..., tuple[np.dtype[Any], ...]]]
    reduce: Final[Callable[..., Any]]
    accumulate: Final[Callable[..., Any]]
    reduceat: Final[Callable[..., Any]]
    outer: Final[Callable[..., Any]]
    at: Final[Callable[..., None]]

@final
class Memory: ...

@final
class Stream:
    def __new__(cls, ordinal: int, handle: int | None = None, owner: Any = None) -> Stream: ...
    handle: Final[int]
    ordinal: Final[int]
    def synchronize(self) -> None: ...
    def wait(self, other: Stream, /) -> None: ...

@disjoint_base
class ArrayBase:
    __hash__: None  # type: ignore[assignment]
    shape: Final[tuple[int, ...]]
    strides: Final[tuple[int, ...]]
    dtype: Final[np.dtype[Any]]
    device: Final[str]
    ndim: Final[int]
    size: Final[int]
    itemsize: Final[int]
    nbytes: Final[int]
    _ordinal: Final[int]
    _pointer: Final[int]
    _memory: Final[Memory]
    _is_c_contiguous: Final[bool]
    _is_f_contiguous: Final[bool]
    _is_readonly: bool
    def __len__(self) -> int: ...
    def __getitem__(self, key: Any, /) -> Array: ...
    def __add__(self, other: Any, /) -> Array: ...
    __radd__ = __iadd__ = __sub__ = __rsub__ = __isub__ = __mul__ = __rmul__ = __imul__ = __add__
    __truediv__ = __rtruediv__ = __itruediv__ = __floordiv__ = __rfloordiv__ = __add__
    __ifloordiv__ = __mod__ = __rmod__ = __imod__ = __and__ = __rand__ = __iand__ = __add__
    __or__ = __ror__ = __ior__ = __xor__ = __rxor__ = __ixor__ = __lshift__ = __add__
    __rlshift__ = __ilshift__ = __rshift__ = __rrshift__ = __irshift__ = __add__
    def __neg__(self) -> Array: ...
    __invert__ = __abs__ = __neg__
    def __eq__(self, other: Any, /) -> Array: ...  # type: ignore[override]
    def __ne__(self, other: Any, /) -> Array: ...  # type: ignore[override]
    def __lt__(self, other: Any, /) -> Array: ...
    __le__ = __gt__ = __ge__ = __lt__

@disjoint_base
class ExpressionBase:
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any: ...
    def _remember(self, *args: Any) -> None: ...

# For work in the repository: the source distribution ends here.

@final
class Program:
    def __new__(
        cls,
        input_dtypes: Sequence[Any],
        constants: Sequence[tuple[Any, Any]],
        steps: Sequence[tuple[int, Any, tuple[int, ...]]],
        name: str,
    ) -> Program: ...
    dtype: Final[np.dtype[Any]]
    def call(
        self,
        ordinal: int,
        order: str,
        out: Any,
        inputs: tuple[Any, ...],
        returns_flags: bool = False,
        /,
    ) -> Any: ...
    def reduce(
        self,
        reduction: int,
        dtype: Any,
        ordinal: int,
        axes: tuple[int, ...],
        keepdims: bool,
        inputs: tuple[Any, ...],
        /,
    ) -> Any: ...

STEP_CONVERT: Final[int]
STEP_SELECT: Final[int]
PROGRAM_MAX_INPUTS: Final[int]
PROGRAM_MAX_CONSTANTS: Final[int]
PROGRAM_MAX_STEPS: Final[int]
LARGE_COUNT: Final[int]
ALL_GPUS: Final[int]
# The tables: the element types, bool first; the characters of all dtypes that have one of them;
# what messages call them; the operations by their numbers; by their numbers the reductions, each
# with the operation that it repeats.
dtypes: Final[tuple[np.dtype[Any], ...]]
ANY: Final[int]
ALL: Final[int]
COUNT_NONZERO: Final[int]
MEAN: Final[int]
type_chars: Final[str]
supported_types: Final[str]
operations: Final[tuple[Operation, ...]]
true_divide: Final[Operation]
reductions: Final[tuple[tuple[str, Operation], ...]]
# By name, what computes the calls that the fast paths in C decline.
slow_paths: Final[dict[str, Callable[..., Any]]]
default_device: Final[ContextVar[str | None]]
current_stream: Final[ContextVar[Stream | None]]

# Arrays on a GPU; `Any` among the arguments is an Array or a NumPy array.
def empty(shape: Sequence[int], dtype: Any, ordinal: int, is_fortran: bool, /) -> Array: ...
def fill(
    name: str, shape: Any, value: Any, dtype: Any, device: str | None, order: str, /
) -> Any: ...
def empty_like(
    x: Any, dtype: Any, ordinal: int, order: str = "K", shape: Sequence[int] | None = None, /
) -> Any: ...
def asarray_new(x: Any, device: str | None, /) -> Any: ...
def item(array: ArrayBase, /) -> Any: ...
def as_array(x: Any, /) -> Any: ...
def view(array: ArrayBase, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Array: ...
def broadcast_to(array: ArrayBase, shape: Sequence[int], /) -> Array: ...
def shares_memory(a: ArrayBase, b: ArrayBase, /) -> bool: ...
def overlaps_itself(array: ArrayBase | np.ndarray[Any, Any], /) -> bool: ...
def wrap(
    pointer: int,
    ordinal: int,
    dtype: Any,
    shape: Sequence[int],
    strides: Sequence[int] | None,
    is_readonly: bool,
    owner: Any,
    stream: Stream | None,
    /,
) -> Array: ...
def copy(dst: Any, src: Any, /) -> None: ...
def compute(op: int, is_true_division: bool, /, *inputs: Any) -> Any: ...
def select(out: Any, condition: Any, a: Any, b: Any, /) -> None: ...
def where_arrays(condition: Any, x: Any, y: Any, /) -> Any: ...
def join_arrays(arrays: tuple[Any, ...], axis: int, is_stack: bool, dtype: Any, /) -> Any: ...
def join(arrays: Any, axis: Any, is_stack: bool, dtype: Any, casting: str, /) -> Any: ...
def reduce(
    reduction: int, dtype: Any, ordinal: int, axes: tuple[int, ...], keepdims: bool, /, *inputs: Any
) -> Any: ...
def reduce_any(
    reduction: int, array: Any, axis: Any, keepdims: Any, dtype: Any, out: Any, device: Any, /
) -> Any: ...
def dot(a: Any, b: Any, out: Any, device: str | None, /) -> Any: ...
def trace(matrix: Any, offset: Any, device: str | None, /) -> Any: ...
def arange(out: Any, start: Any, step: Any, /) -> None: ...
def pointer_device(pointer: int, /) -> int: ...
def memory_info(ordinal: int, /) -> tuple[int, int, int | None, int, int]: ...
def set_memory_limit(ordinal: int, nbytes: int | None, /) -> None: ...
def to_dlpack(array: ArrayBase, is_versioned: bool, is_copied: bool = False, /) -> Any: ...
def from_dlpack(capsule: Any, stream: Stream | None, owner_is_on_stream: bool, /) -> Array: ...
def streams_of(array: ArrayBase, /) -> tuple[Stream | None, ...]: ...
def note_use(array: ArrayBase, stream: Stream | None, /) -> None: ...
def set_array_type(array_type: type[ArrayBase], /) -> None: ...
def report_flags(name: str, flags: int, /) -> None: ...
def make_ufunc(op: int, is_true_division: bool, ordinal: int, name: str, /) -> np.ufunc: ...
def parse_device(device: str | None, /) -> int: ...
def set_process_device(ordinal: int | None, /) -> None: ...
def check_device(ordinal: int, /) -> None: ...
def map(op: int, ordinal: int, out: npt.NDArray[Any], /, *inputs: npt.NDArray[Any]) -> int: ...
def fib(n: int, /) -> int: ...
def device_count() -> tuple[int, str | None]: ...
def device_info(ordinal: int, /) -> dict[str, Any]: ...
def config() -> dict[str, Any]: ...
def set_cpu_level(level: str | None, /) -> None: ...
def get_num_threads() -> int: ...
def set_num_threads(threads: int, /) -> int: ...
def astype_new(array: Any, dtype: Any, /) -> Any: ...
def call_in_mode(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any: ...
def free_cached() -> None: ...
