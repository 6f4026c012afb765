"""The Python half of `Array`: an array whose elements are on a GPU.

`core.ArrayBase` has the memory, the attributes, and the fast path of the operators.  The methods do
not use the package's functions, which dispatch to them.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from . import _interop, _reductions, core
from ._call import assign, assign_where, call_arrays, foreign_rules, normalize, power
from ._convert import check_cast, copied, warn_of_complex
from ._mode import in_default_mode
from ._namespace import namespace_of
from ._operands import (
    Shape,
    axes_of,
    axis_or_axes,
    copies,
    integers,
    one_device,
    order_of,
    own_ufuncs,
    plain,
)
from ._results import check_out, finish, unwrap_out
from ._table import MAX, MIN, OPERATIONS, PROD, REDUCTION_OF, SUM, TRUTHS, UFUNCS, dtype_of

#: Computes NumPy's functions of Arrays; `_numpy` fills it.
NUMPY_FUNCTIONS: dict[Any, Callable[..., Any]] = {}


class _Flags:
    """NumPy's flags of an array.

    Only WRITEABLE can be set, and only to False.
    """

    __slots__ = ("_array",)
    _array: Array

    def __init__(self, array: Array) -> None:
        object.__setattr__(self, "_array", array)

    def _numpys(self) -> Any:
        flags: Any = None

        def take(shadow: Any) -> Any:
            nonlocal flags
            flags = shadow.flags
            return shadow

        core.view(self._array, take)
        return flags

    def __getitem__(self, key: str) -> Any:
        return self._numpys()[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(self._numpys(), name):
            known = ", ".join(x for x in dir(np.empty(0).flags) if not x.startswith("_"))
            raise AttributeError(f"flags has no {name!r}; it has {known}")
        return getattr(self._numpys(), name)

    def __setitem__(self, key: str, value: Any) -> None:
        is_set = self[key]
        if key not in ("W", "WRITEABLE") or (value and not is_set):
            raise ValueError(f"cannot set flags[{key!r}] of an array on a GPU to {value!r}")
        self._array._is_readonly = not value

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "writeable":
            raise AttributeError(f"cannot set the flag {name!r}; only writeable, to False")
        self["WRITEABLE"] = value

    def __repr__(self) -> str:
        return repr(self._numpys())


class Array(core.ArrayBase):
    """An array on a GPU, made by `pkg.asarray`, `pkg.zeros` and the like, or by arithmetic.

    Arithmetic, broadcasting, promotion and indexing with integers, slices, ``...`` and ``None``
    are NumPy's, and so are the bits of the results.  Work on the GPU is asynchronous: an error
    appears, as `pkg.CudaError`, when a later call waits for the values.
    """

    __slots__ = ()
    __array_priority__ = 1000.0

    # ---- Leaving the GPU ----

    def to_device(self, device: str, /, *, stream: Any = None) -> Any:
        """Returns the array on another device; for ``"cpu"`` a NumPy array."""
        if stream is not None:
            raise ValueError("to_device(): stream must be None; use pkg.stream() around the call")
        if device is None:
            raise TypeError('to_device(): device must be "cpu", "cuda" or "cuda:N", not None')
        ordinal = one_device(device)
        if ordinal < 0:
            return asnumpy(self)
        if ordinal == self._ordinal:
            return self
        core.check_device(ordinal)
        return copied(self, ordinal)

    def item(self, *args: int) -> Any:
        """Returns one element as a Python number: the only one, or the one at an index."""
        array = self
        if args:
            index: Any = args
            while isinstance(index, tuple) and len(index) == 1:
                (index,) = index
            if isinstance(index, tuple):
                index = integers("item", "the index", index)
                if len(index) not in (0, self.ndim):
                    raise ValueError(f"item(): {len(index)} indices, but {self.ndim} dimensions")
                array = self[index]
            else:
                index = operator.index(index)
                if not -self.size <= index < self.size:
                    raise IndexError(f"index {index} is out of bounds for size {self.size}")
                array = self[np.unravel_index(index % self.size, self.shape)]
        if array.size != 1:
            raise ValueError(
                f"item() needs an array of one element, or an index; the shape is {self.shape}"
            )
        return core.item(array)

    @in_default_mode
    def tolist(self) -> Any:
        """Returns the elements as Python numbers in nested lists."""
        return asnumpy(self).tolist()

    @in_default_mode
    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(
                f"the truth value of {self.size} elements is ambiguous: use any() or all()"
            )
        return bool(core.item(self))

    def _scalar(self, kind: str) -> Any:
        if self.ndim != 0:
            raise TypeError(
                f"only an array without dimensions can be converted to {kind}, the shape is "
                f"{self.shape}; item() gives the only element"
            )
        return core.item(self)

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        if self.ndim != 0 or self.dtype.kind not in "iu":
            raise TypeError("only an integer array without dimensions can be an index")
        return int(self.item())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TypeError(
            f"the array is on {self.device} and is not moved in silence: "
            "pkg.asnumpy(x) gives a NumPy array"
        )

    # ---- Python's protocols ----

    def __bytes__(self) -> bytes:
        raise TypeError("bytes() does not move an array in silence: pkg.asnumpy(x).tobytes() does")

    def __iter__(self) -> Iterator[Array]:
        if self.ndim == 0:
            raise TypeError("cannot iterate over an array without dimensions")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        equal: Any = self == value
        return bool(equal.any() if isinstance(equal, Array) else equal)

    def __repr__(self) -> str:
        host = _summary(self)
        prefix = "array("
        text = _format(self, host, prefix) if host.size else "[]"
        if _is_summary(self) or (not host.size and self.ndim > 1):
            text += f", shape={self.shape}"
        usual = (np.int64, np.float64, np.complex128, np.bool_)
        dtype = "" if host.size and self.dtype.type in usual else f", dtype={self.dtype.name}"
        return f"{prefix}{text}{dtype}, device={self.device!r})"

    def __str__(self) -> str:
        host = _summary(self)
        if host.ndim == 0:
            return str(host[()])
        return _format(self, host, "", separator=" ") if host.size else "[]"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.ndim == 0 else object.__format__(self, spec)

    def __copy__(self, memo: Any = None) -> Array:
        return self.copy("K")

    __deepcopy__ = __copy__

    def __reduce__(self) -> Any:
        return _unpickle, (asnumpy(self), self.device)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes

    # ---- Operators ----

    def __pos__(self) -> Array:
        return OPERATIONS["positive"](self)

    def __pow__(self, exponent: Any, modulo: Any = None) -> Any:
        if modulo is not None:
            return NotImplemented
        return power(self, exponent)

    def __rpow__(self, base: Any, modulo: Any = None) -> Any:
        return NotImplemented if modulo is not None else power(base, self)

    def __ipow__(self, exponent: Any) -> Any:  # type: ignore[misc]
        result = power(self, exponent)
        if result is NotImplemented:
            return result
        return finish("power", result, self)

    def __divmod__(self, other: Any) -> Any:
        quotient = self.__floordiv__(other)
        return quotient if quotient is NotImplemented else (quotient, self.__mod__(other))

    def __rdivmod__(self, other: Any) -> Any:
        quotient = self.__rfloordiv__(other)
        return quotient if quotient is NotImplemented else (quotient, self.__rmod__(other))

    # ---- NumPy's protocols ----

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        tell_dask()
        known = NUMPY_FUNCTIONS.get(function)
        return NotImplemented if known is None else known(*args, **kwargs)

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        return namespace_of(api_version)

    # ---- Exchange ----

    __dlpack__ = _interop.dlpack
    __dlpack_device__ = _interop.dlpack_device

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return _interop.cuda_array_interface(self)

    # ---- Views ----

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, core.ArrayBase) and key.dtype == np.bool_:
            assign_where(self, key, value)
        else:
            assign(self[key], value)

    def __delitem__(self, key: Any) -> None:
        raise ValueError("cannot delete array elements")

    @property
    def T(self) -> Array:
        """The array with its axes in reverse order, as a view."""
        return core.view(self, np.ndarray.transpose)

    @property
    def mT(self) -> Array:
        """The array with its last two axes exchanged, as a view."""
        if self.ndim < 2:
            raise ValueError(f"mT needs two dimensions or more; the shape is {self.shape}")
        return core.view(self, np.ndarray.swapaxes, -1, -2)

    @property
    def flags(self) -> _Flags:
        """NumPy's flags, as keys or attributes; ``flags.writeable = False`` makes it read-only."""
        return _Flags(self)

    def transpose(self, *axes: Any) -> Array:
        """Returns a view with the axes in another order, by default reversed."""
        given = axes[0] if len(axes) == 1 else axes or None
        return core.view(
            self,
            np.ndarray.transpose,
            given if given is None else axes_of("transpose", "axes", given),
        )

    def reshape(self, *shape: Any, copy: bool | None = None) -> Array:
        """Returns the elements, in C order, in another shape; a view if possible.

        One size may be -1.  If `copy` is true, it always copies; if false, a needed copy raises
        ValueError.
        """
        copy = copies("reshape", copy)
        sizes = integers("reshape", "shape", shape[0] if len(shape) == 1 else shape)
        if any(n < -1 for n in sizes):  # NumPy would read any of them as -1
            raise ValueError(f"negative size in the shape {sizes}")
        if not copy:
            try:
                return core.view(self, _reshape, sizes, copy=False)
            except (ValueError, AttributeError):
                pass
        if math.prod(sizes) != self.size:
            np.broadcast_to(0, self.size).reshape(sizes)  # raises ValueError, unless for -1
        if copy is False:
            raise ValueError("reshape(): copy=False, but elements at these strides need a copy")
        return core.view(self.copy(), _reshape, sizes, copy=False)

    def ravel(self) -> Array:
        """Returns the elements, in C order, in one dimension; a copy if they are not contiguous."""
        flat = self.reshape(-1)
        return flat if flat._is_c_contiguous else flat.copy()

    def flatten(self) -> Array:
        """Returns a copy in one dimension, in C order."""
        return self.reshape(-1, copy=True)

    def squeeze(self, axis: Any = None) -> Array:
        """Returns a view without the axes of size 1, or those in `axis`."""
        return core.view(self, np.ndarray.squeeze, axis_or_axes("squeeze", axis))

    # ---- Copies ----

    def copy(self, order: str = "C") -> Array:
        """Returns a copy; `order` is "C", "F", "A" or "K" as in NumPy."""
        return copied(self, self._ordinal, order=order_of("copy", order))

    def astype(self, dtype: Any, *, casting: str = "unsafe", copy: bool = True) -> Array:
        """Returns the elements in another type; itself if `copy` is false and it has that type."""
        dtype = dtype_of("astype", dtype)
        check_cast("astype", self.dtype, dtype, casting)
        if dtype == self.dtype and not copy:
            return self
        warn_of_complex(self.dtype, dtype)
        return copied(self, self._ordinal, dtype)

    def fill(self, value: Any) -> None:
        """Sets all elements to a number."""
        assign(self, value)

    # ---- Parts of complex numbers ----

    @property
    def real(self) -> Array:
        """The real parts, as a view; real numbers are their own."""
        return core.view(self, _real) if self.dtype.kind == "c" else self

    @real.setter
    def real(self, value: Any) -> None:
        assign(self.real, value)

    @property
    def imag(self) -> Array:
        """The imaginary parts, as a view; for real numbers new, read-only zeros."""
        if self.dtype.kind != "c":
            return core.broadcast_to(OPERATIONS["imag"](self), self.shape)
        return core.view(self, _imag)

    @imag.setter
    def imag(self, value: Any) -> None:
        if self.dtype.kind != "c":
            raise TypeError(f"real numbers of {self.dtype} have no imaginary parts to assign to")
        assign(self.imag, value)

    def conj(self) -> Array:
        """Returns the complex conjugates."""
        return OPERATIONS["conjugate"](self) if self.dtype.kind == "c" else self

    conjugate = conj

    # ---- Reductions ----

    def sum(
        self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False
    ) -> Array:
        """See `pkg.sum`."""
        return core.reduce_any(SUM, self, axis, keepdims, dtype, out, None)

    def prod(
        self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False
    ) -> Array:
        """See `pkg.prod`."""
        return core.reduce_any(PROD, self, axis, keepdims, dtype, out, None)

    def min(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Array:
        """See `pkg.min`."""
        return core.reduce_any(MIN, self, axis, keepdims, None, out, None)

    def max(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Array:
        """See `pkg.max`."""
        return core.reduce_any(MAX, self, axis, keepdims, None, out, None)

    def mean(
        self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False
    ) -> Array:
        """See `pkg.mean`."""
        return core.reduce_any(core.MEAN, self, axis, keepdims, dtype, out, None)

    def any(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Array:
        """See `pkg.any`."""
        return core.reduce_any(core.ANY, self, axis, keepdims, None, out, None)

    def all(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Array:
        """See `pkg.all`."""
        return core.reduce_any(core.ALL, self, axis, keepdims, None, out, None)

    def dot(self, other: Any, out: Any = None) -> Array:
        """See `pkg.dot`."""
        return core.dot(self, other, out, None)

    def trace(self, offset: int = 0) -> Array:
        """See `pkg.trace`."""
        return _reductions.trace(self, offset)

    def round(self, decimals: int = 0, out: Any = None) -> Array:
        """See `pkg.round`."""
        return NUMPY_FUNCTIONS[np.round](self, decimals, out)

    def clip(self, min: Any = None, max: Any = None, out: Any = None) -> Array:
        """See `pkg.clip`."""
        return NUMPY_FUNCTIONS[np.clip](self, min, max, out)


def _call_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    arguments = (*inputs, *kwargs.get("out", ()), kwargs.get("where"))
    if any(map(own_ufuncs, foreign_rules(arguments))):
        return NotImplemented
    name = UFUNCS.get(ufunc)
    if method == "__call__" and name is not None:
        operation = OPERATIONS[name]
        # NumPy passes no out=None on, so its absence says nothing.
        inputs, keywords = normalize(operation, inputs, {"out": None, **kwargs})
        return call_arrays(operation, inputs, keywords)
    if method == "__call__" and ufunc is np.divmod:
        return _divmod(inputs, **kwargs)
    if method == "reduce" and name in REDUCTION_OF:
        return _reduce_by_ufunc(REDUCTION_OF[name], *inputs, **kwargs)
    return NotImplemented


def _divmod(inputs: tuple[Any, ...], out: Any = (None, None), **kwargs: Any) -> Any:
    """Computes `np.divmod`; `out` may overlap the operands."""
    if kwargs.get("where", True) is not True:
        raise TypeError("divmod() does not take where with arrays on a GPU")
    if not any(isinstance(core.as_array(x), Array) for x in inputs):
        raise TypeError("divmod(): out is on a GPU, but no operand is: nothing is moved in silence")
    both = (np.floor_divide, np.remainder)
    results = [_call_ufunc(one, "__call__", inputs, kwargs) for one in both]
    if results[1] is NotImplemented:
        return NotImplemented
    pairs = list(zip(results, out, strict=True))
    casting = kwargs.get("casting", "same_kind")
    for result, one in pairs:
        if one is not None:
            check_out("divmod", one, result.shape, result.dtype, result._ordinal, casting)
    return tuple(finish("divmod", result, one, casting) for result, one in pairs)


def _reduce_by_ufunc(
    name: str,
    x: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = np._NoValue,
    where: Any = True,
) -> Any:
    if initial is not np._NoValue or (where is not True and where is not np.True_):
        raise TypeError(f"{name}() does not take initial or where with arrays on a GPU")
    if name in TRUTHS:
        if dtype is not None and np.dtype(dtype) != np.bool_:
            raise TypeError(f"{name}() gives bool, not {dtype}")
        dtype = None
    return _reductions.reduce_slowly(name, x, axis, dtype, unwrap_out(name, out), keepdims)


# ---- Helpers ----


def _set_shape(host: Any, shape: Shape, copy: bool) -> Any:
    """Returns `host` in another shape, without a copy; or AttributeError."""
    host.shape = shape
    return host


#: Returns a view in another shape; raises an exception if only a copy has that shape.
_reshape: Any = np.ndarray.reshape if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else _set_shape


_real, _imag = operator.attrgetter("real"), operator.attrgetter("imag")


def _count(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, **more: Any) -> Any:
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    reduced = {d % x.ndim for d in axes}
    number = np.asarray(math.prod(x.shape[d] for d in reduced), dtype or np.float64)
    if axis is None and not keepdims:
        return number[()]
    shape = [
        1 if d in reduced else n for d, n in enumerate(x.shape) if keepdims or d not in reduced
    ]
    result = core.empty(shape, number.dtype, x._ordinal, False)
    core.copy(result, number)
    return result


def tell_dask() -> None:
    """Tells Dask, if it is imported, that counts of Arrays are Arrays.

    Every function that makes an Array for Dask calls this.
    """
    dispatch = sys.modules.get("dask.array.dispatch")
    lookup = getattr(dispatch, "numel_lookup", None)
    if lookup is not None and lookup.dispatch(Array) is not _count:
        lookup.register(Array, _count)


def _unpickle(host: Any, device: str) -> Any:
    tell_dask()
    ordinal = core.parse_device(device)
    core.check_device(ordinal)
    return copied(host, ordinal)


# ---- Helpers: printing ----


def _is_summary(array: Array) -> bool:
    return bool(array.size > np.get_printoptions()["threshold"])


def _summary(array: Array) -> Any:
    if not _is_summary(array):
        return asnumpy(array)
    edge = int(np.get_printoptions()["edgeitems"])
    for axis, size in enumerate(array.shape):
        if size > 2 * edge + 1:
            ends = slice(edge + 1), slice(size - edge, size)
            parts = [array[(slice(None),) * axis + (end,)] for end in ends]
            array = core.join(parts, axis, False, None, "same_kind")
    return asnumpy(array)


def _format(array: Array, host: Any, prefix: str, separator: str = ", ") -> str:
    threshold = 0 if _is_summary(array) else None
    return np.array2string(host, separator=separator, prefix=prefix, threshold=threshold)


# ---- To the host ----


_copyto: Any = in_default_mode(np.copyto)


def asnumpy(x: Any, out: Any = None) -> Any:
    """Returns the elements as a NumPy array in host memory, once they are computed.

    `out` is a NumPy array to fill, of x's shape and of a type to which x's casts (``same_kind``).
    Without `out`, an array in host memory is returned unchanged.

    >>> import pkg as pcd
    >>> pcd.asnumpy([1, 2])
    array([1, 2])
    """
    x = core.as_array(x)
    host = x if isinstance(x, Array) else plain("the operand of asnumpy()", x)
    if out is not None:
        if not isinstance(out, np.ndarray):
            raise TypeError(f"asnumpy(): out must be a NumPy array, not {type(out).__name__}")
        check_out("asnumpy", out, host.shape, host.dtype, -1, exact=True)
    if out is None:
        return copied(x, -1) if isinstance(x, Array) else host
    if isinstance(x, Array) and out.dtype.isnative:
        core.copy(out, x)
    else:
        _copyto(out, asnumpy(host), casting="same_kind")
    return out


core.set_array_type(Array)
core.slow_paths["from_foreign"] = _interop.from_foreign
