"""`Array`: an array whose elements are on a GPU; its Python half.

`pkg.core.ArrayBase` has the memory, the attributes and the operators of the usual case.  Here are
the methods, and what the operators leave: operands that are no arrays, outputs that need
conversion, errors.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _out, core
from ._convert import warn_of_complex
from ._operands import broadcast_shapes, has_own_rules, integers, plain, refusal

if TYPE_CHECKING:
    from types import ModuleType

Shape = tuple[int, ...]

_NUMBERS = (bool, int, float, complex)

#: The types of elements that there are, as NumPy's characters.
_ELEMENTS = frozenset("?bhilqBHILQefdFD")

#: The operations whose results are bool.
COMPARISONS = frozenset(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"))

#: The most that ``x ** n`` multiplies.
_MOST_POWER = 64


def _normalized_axes(name: str, axes: Any, ndim: int, what: str = "axis") -> tuple[int, ...]:
    if type(axes) is int and -ndim <= axes < ndim:
        return (axes % ndim,)
    given = integers(name, what, axes)
    return tuple(np.lib.array_utils.normalize_axis_tuple(given, ndim, f"{name}()"))


class Array(core.ArrayBase):
    """An array on a GPU; made by `pkg.asarray`, `pkg.zeros` and their like, and by arithmetic.

    Arithmetic, broadcasting, promotion and indexing with integers, slices, ``...`` and ``None``
    are NumPy's, and so are the bits of the results.  Work on the GPU is asynchronous; an error
    of it appears, as `pkg.CudaError`, where the values are next waited for.
    """

    __slots__ = ()
    __array_priority__ = 1000.0

    # ---- Leaving the GPU -------------------------------------------------------------------------

    def to_device(self, device: str, /, *, stream: Any = None) -> Any:
        """The array on another device: a NumPy array for ``"cpu"``; itself where it already is."""
        if stream is not None:
            raise ValueError("to_device(): stream must be None; use pkg.stream() around the call")
        ordinal = core.parse_device(device)
        if ordinal < 0:
            return asnumpy(self)
        if ordinal == self._ordinal:
            return self
        core.check_device(ordinal)
        result = core.empty(self.shape, self.dtype, ordinal, _is_fortran(self))
        core.copy(result, self)
        return result

    def item(self, *args: int) -> Any:
        """One element as a Python number; the only one, or the one at an index."""
        array = self
        if args:
            index = args[0] if len(args) == 1 else args
            if isinstance(index, tuple):
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
        return asnumpy(array).item()

    def tolist(self) -> Any:
        """The elements as Python numbers in nested lists."""
        return asnumpy(self).tolist()

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(
                "the truth value of an array with more than one element is ambiguous"
                if self.size
                else "the truth value of an empty array is ambiguous"
            )
        return bool(self.item())

    def _scalar(self, kind: str) -> Any:
        if self.size != 1:
            raise TypeError(f"only an array of one element can be converted to {kind}")
        return self.item()

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

    # ---- Python's protocols ----------------------------------------------------------------------

    def __iter__(self) -> Iterator[Array]:
        if self.ndim == 0:
            raise TypeError("iteration over an array without dimensions")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        return bool(_reductions.max(self == value)) if self.size else False

    def __repr__(self) -> str:
        host = _summary(self)
        prefix = "array("
        if host.size:
            text = _formatted(self, host, prefix)
        else:
            text = "[]" if self.shape == (0,) else f"[], shape={self.shape}"
        usual = (np.int64, np.float64, np.complex128, np.bool_)
        dtype = "" if host.size and self.dtype.type in usual else f", dtype={self.dtype.name}"
        return f"{prefix}{text}{dtype}, device={self.device!r})"

    def __str__(self) -> str:
        host = _summary(self)
        if host.ndim == 0:
            return str(host[()])
        return _formatted(self, host, "", separator=" ") if host.size else "[]"

    def __format__(self, spec: str) -> str:
        return format(self.item() if self.ndim == 0 else str(self), spec)

    def __copy__(self) -> Array:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Array:
        return self.copy()

    def __reduce__(self) -> Any:
        return _unpickled, (asnumpy(self), self.device)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes

    # ---- Operators -------------------------------------------------------------------------------

    def __pos__(self) -> Array:
        return self.copy()

    def __pow__(self, exponent: Any, modulo: Any = None) -> Any:
        if modulo is not None:
            return NotImplemented
        return power(self, exponent)

    def __rpow__(self, base: Any) -> Any:
        return NotImplemented

    def __ipow__(self, exponent: Any) -> Any:  # type: ignore[misc]
        result = power(self, exponent)
        if result is NotImplemented:
            return result
        return _stored("power", self, result)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    # ---- NumPy's protocols -----------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from . import _numpy

        return _numpy.ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from . import _numpy

        return _numpy.function(function, types, args, kwargs)

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        from . import _namespace

        return _namespace.of_version(api_version)

    # ---- Exchange --------------------------------------------------------------------------------

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        from . import _interop

        return _interop.dlpack(
            self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        from . import _interop

        return _interop.dlpack_device(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        from . import _interop

        return _interop.cuda_array_interface(self)

    # ---- Views -----------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Array:
        return core.view(self, *_indexed(self, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        _assign(core.view(self, *_indexed(self, key)), value)

    @property
    def T(self) -> Array:  # noqa: N802  NumPy's name
        """The array with its axes in reverse order, as a view."""
        return core.view(self, 0, self.shape[::-1], self.strides[::-1])

    @property
    def mT(self) -> Array:  # noqa: N802  NumPy's name
        """The array with its last two axes exchanged, as a view."""
        if self.ndim < 2:
            raise ValueError(f"mT needs two dimensions or more; the shape is {self.shape}")
        return self.transpose(*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)

    @property
    def flags(self) -> dict[str, bool]:
        """C_CONTIGUOUS, F_CONTIGUOUS and WRITEABLE, as NumPy's flags."""
        return {
            "C_CONTIGUOUS": self._is_c_contiguous,
            "F_CONTIGUOUS": self._is_f_contiguous,
            "WRITEABLE": not self._is_readonly,
        }

    def transpose(self, *axes: Any) -> Array:
        """The array with its axes in another order, as a view; reversed when none is given."""
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], Sequence)):
            axes = () if axes[0] is None else integers("transpose", "axes", axes[0])
        if not axes:
            return self.T
        order = _normalized_axes("transpose", axes, self.ndim, "axes")
        if len(order) != self.ndim:
            raise ValueError(f"axes {axes} do not match an array of {self.ndim} dimensions")
        shape, strides = self.shape, self.strides
        return core.view(self, 0, [shape[axis] for axis in order], [strides[a] for a in order])

    def reshape(self, *shape: Any, copy: bool | None = None) -> Array:
        """The elements, in C order, in another shape; a view where that is possible.

        One size may be -1.  `copy`: True always copies, False raises ValueError where it must.
        """
        given = shape[0] if len(shape) == 1 else shape
        sizes = _resolved_shape(self.size, integers("reshape", "shape", given))
        strides = None if copy else _reshaped_strides(self, sizes)
        if strides is None:
            if copy is False:
                raise ValueError("reshape(): the elements do not lie so that no copy is needed")
            return core.view(
                _c_ordered(self, copy=True), 0, sizes, _c_strides(sizes, self.itemsize)
            )
        return core.view(self, 0, sizes, strides)

    def ravel(self) -> Array:
        """The elements, in C order, in one dimension; a view where that is possible."""
        return self.reshape(-1)

    def flatten(self) -> Array:
        """A copy in one dimension, in C order."""
        return self.reshape(-1, copy=True)

    def squeeze(self, axis: Any = None) -> Array:
        """Without the dimensions of size 1, or those of `axis`, as a view."""
        if axis is None:
            drop = tuple(d for d, size in enumerate(self.shape) if size == 1)
        else:
            drop = _normalized_axes("squeeze", axis, self.ndim)
        for d in drop:
            if self.shape[d] != 1:
                raise ValueError(f"cannot squeeze axis {d}: its size is {self.shape[d]}, not 1")
        keep = [d for d in range(self.ndim) if d not in drop]
        shape, strides = self.shape, self.strides
        return core.view(self, 0, [shape[d] for d in keep], [strides[d] for d in keep])

    # ---- Copies ----------------------------------------------------------------------------------

    def copy(self, order: str = "C") -> Array:
        """A new array with the same elements; `order` is "C", "F", "A" or "K" as in NumPy."""
        is_fortran = order == "F" or (order in "AK" and _is_fortran(self))
        if order not in ("C", "F", "A", "K"):
            raise ValueError(f'order must be "C", "F", "A" or "K", not {order!r}')
        result = core.empty(self.shape, self.dtype, self._ordinal, is_fortran)
        core.copy(result, self)
        return result

    def astype(self, dtype: Any, *, casting: str = "unsafe", copy: bool = True) -> Array:
        """The elements converted to another type; itself when `copy` is false and it has it."""
        dtype = np.dtype(dtype)
        if not np.can_cast(self.dtype, dtype, casting=casting):  # type: ignore[arg-type]
            raise TypeError(
                f"astype(): cannot cast from {self.dtype} to {dtype} with casting rule {casting!r}"
            )
        if dtype == self.dtype and not copy:
            return self
        warn_of_complex(self.dtype, dtype)
        result = core.empty(self.shape, dtype, self._ordinal, _is_fortran(self))
        core.copy(result, self)
        return result

    def fill(self, value: Any) -> None:
        """Sets all elements to a number."""
        _assign(self, value)

    # ---- Reductions ------------------------------------------------------------------------------

    def sum(
        self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        """See `pkg.sum`."""
        return _reductions.sum(self, axis, dtype, out, keepdims)

    def prod(
        self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        """See `pkg.prod`."""
        return _reductions.prod(self, axis, dtype, out, keepdims)

    def min(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """See `pkg.min`."""
        return _reductions.min(self, axis, out, keepdims)

    def max(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """See `pkg.max`."""
        return _reductions.max(self, axis, out, keepdims)

    def mean(
        self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        """See `pkg.mean`."""
        return _reductions.mean(self, axis, dtype, out, keepdims)

    def dot(self, other: Any, out: Any = None) -> Any:
        """See `pkg.dot`."""
        return _reductions.dot(self, other, out)

    def trace(self, offset: int = 0) -> Array:
        """See `pkg.trace`."""
        return _functions.trace(self, offset)  # type: ignore[no-any-return]


# ---- Helpers: layouts ----------------------------------------------------------------------------


def _is_fortran(array: Array) -> bool:
    return array._is_f_contiguous and not array._is_c_contiguous


def _c_strides(shape: Shape, itemsize: int) -> list[int]:
    strides = [itemsize] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * max(shape[d + 1], 1)
    return strides


def _c_ordered(array: Array, *, copy: bool = False) -> Array:
    return array if array._is_c_contiguous and not copy else array.copy()


def _resolved_shape(size: int, shape: Shape) -> Shape:
    """`shape` with its -1 worked out; ValueError when it does not hold `size` elements."""
    unknown = [d for d, n in enumerate(shape) if n == -1]
    known = math.prod(n for n in shape if n != -1)
    if len(unknown) > 1:
        raise ValueError(f"only one size can be -1, not {shape}")
    if any(n < -1 for n in shape):
        raise ValueError(f"negative size in the shape {shape}")
    if unknown and known and size % known == 0:
        return tuple(size // known if n == -1 else n for n in shape)
    if unknown or known != size:
        raise ValueError(f"cannot reshape an array of {size} elements to the shape {shape}")
    return shape


def _reshaped_strides(array: Array, shape: Shape) -> list[int] | None:
    """Strides that show the array in another shape, None where there are none.

    Runs of old and new dimensions with the same number of elements correspond; a run of old ones
    must be evenly spaced.
    """
    if array.size == 0:
        return _c_strides(shape, array.itemsize)
    old = [(n, s) for n, s in zip(array.shape, array.strides, strict=True) if n != 1]
    strides: list[int] = []
    i = 0
    j = 0
    while j < len(shape):
        if shape[j] == 1:
            strides.append(array.itemsize)
            j += 1
            continue
        count_old, first = old[i][0], i
        count_new, start = shape[j], j
        i += 1
        j += 1
        while count_old != count_new:
            if count_old < count_new:
                if old[i - 1][1] != old[i][0] * old[i][1]:
                    return None
                count_old *= old[i][0]
                i += 1
            else:
                count_new *= shape[j]
                j += 1
        del first
        stride = old[i - 1][1]
        run: list[int] = []
        for d in range(j - 1, start - 1, -1):
            run.append(stride)
            stride *= shape[d]
        strides += run[::-1]
    return strides


def _integer(key: Any) -> int:
    """`key` as an integer; IndexError when it is none."""
    try:
        if not isinstance(key, bool | np.bool_):
            return operator.index(key)
    except TypeError:
        pass
    raise IndexError(
        "an array on a GPU is indexed by integers, slices, ... and None, "
        f"not by {type(key).__name__}"
    )


def _indexed(array: Array, key: Any) -> tuple[int, list[int], list[int]]:
    """What `key` selects: the offset in bytes of its first element, its shape and strides."""
    keys = key if isinstance(key, tuple) else (key,)
    consumed = sum(1 for k in keys if k is not None and k is not Ellipsis)
    if sum(1 for k in keys if k is Ellipsis) > 1:
        raise IndexError("an index can have only one ellipsis ('...')")
    if consumed > array.ndim:
        raise IndexError(
            f"too many indices: the array has {array.ndim} dimensions, but {consumed} were indexed"
        )
    if Ellipsis not in [k if k is Ellipsis else None for k in keys]:
        keys = (*keys, Ellipsis)
    old_shape, old_strides = array.shape, array.strides
    offset, shape, strides, d = 0, [], [], 0
    for k in keys:
        if k is None:
            shape.append(1)
            strides.append(0)
        elif k is Ellipsis:
            for _ in range(array.ndim - consumed):
                shape.append(old_shape[d])
                strides.append(old_strides[d])
                d += 1
        elif isinstance(k, slice):
            start, stop, step = k.indices(old_shape[d])
            count = len(range(start, stop, step))
            if count:
                offset += start * old_strides[d]
            shape.append(count)
            # A single element has no next one; its step may be any number.
            strides.append(step * old_strides[d] if count > 1 else old_strides[d])
            d += 1
        else:
            index = _integer(k)
            size = old_shape[d]
            if not -size <= index < size:
                raise IndexError(f"index {index} is out of bounds for axis {d} with size {size}")
            offset += index % size * old_strides[d]
            d += 1
    return offset, shape, strides


def _unpickled(host: Any, device: str) -> Any:
    from ._creation import asarray

    return asarray(host, device=device)


# ---- Helpers: printing ---------------------------------------------------------------------------


def _summary(array: Array) -> Any:
    """The elements as NumPy prints them: of a large array only those at the edges."""
    options = np.get_printoptions()
    if array.size <= options["threshold"]:
        return asnumpy(array)
    edge = int(options["edgeitems"])
    from ._manipulation import concatenate

    for axis, size in enumerate(array.shape):
        if size > 2 * edge + 1:
            first: list[Any] = [slice(None)] * array.ndim
            last = list(first)
            first[axis] = slice(0, edge + 1)
            last[axis] = slice(size - edge, size)
            array = concatenate([array[tuple(first)], array[tuple(last)]], axis=axis)
    return asnumpy(array)


def _formatted(array: Array, host: Any, prefix: str, separator: str = ", ") -> str:
    threshold = 0 if host.size < array.size else host.size
    return np.array2string(host, separator=separator, prefix=prefix, threshold=threshold)


# ---- Helpers: values -----------------------------------------------------------------------------


def _is_scalar(x: Any) -> bool:
    if isinstance(x, np.ndarray):
        return x.ndim == 0 and not has_own_rules(x)
    return isinstance(x, (*_NUMBERS, np.generic))


def _refuse_host(x: Any, device: str) -> TypeError:
    if has_own_rules(x):
        return refusal(f"one operand is on {device} and another", x)
    return TypeError(
        f"one operand is a {type(x).__module__}.{type(x).__name__} in host memory, another is on "
        f"{device}, and nothing is moved in silence: use pkg.asarray(x, device={device!r}) or "
        "pkg.asnumpy(x)"
    )


def _refuse_other_device(name: str, array: Any, device: str | None) -> None:
    """ValueError when `device` is not where the array is; None is."""
    if device is not None and core.parse_device(device) != array._ordinal:
        raise ValueError(f"{name}: the array is on {array.device}, and device is {device!r}")


_OURS_OR_HOST = (Array, np.ndarray, np.generic, *_NUMBERS, list, tuple, type(None))


def as_array(x: Any) -> Any:
    """An Array for foreign GPU memory, without a copy; anything else as it is."""
    if isinstance(x, _OURS_OR_HOST):
        return x
    if hasattr(type(x), "__dlpack_device__") or hasattr(type(x), "__cuda_array_interface__"):
        from . import _interop

        found = _interop.from_foreign(x)
        return x if found is None else found
    return x


def _assign(view: Array, value: Any) -> None:
    """view[...] = value."""
    if view._is_readonly:
        raise ValueError("assignment to a read-only array")
    value = as_array(value)
    if _is_scalar(value):
        if type(value) in _NUMBERS:
            host = np.asarray(value, view.dtype)  # OverflowError and TypeError are NumPy's
        else:
            host = np.asarray(value)
            warn_of_complex(host.dtype, view.dtype)
        core.copy(view, host)
        return
    if not isinstance(value, Array):
        raise _refuse_host(value, view.device)
    if value._ordinal != view._ordinal:
        raise ValueError(
            f"the array is on {view.device}, the values are on {value.device}: "
            "move them with to_device() first"
        )
    missing = value.ndim - view.ndim
    if missing > 0 and all(size == 1 for size in value.shape[:missing]):
        value = value.reshape(value.shape[missing:])
    _check_broadcast(value.shape, view.shape)
    warn_of_complex(value.dtype, view.dtype)
    if value._memory is view._memory and not _is_same(view, value):
        value = value.copy()
    core.copy(view, value)


def _is_same(a: Array, b: Array) -> bool:
    return a._pointer == b._pointer and (a.dtype, a.shape, a.strides) == (
        b.dtype,
        b.shape,
        b.strides,
    )


def _check_broadcast(source: Shape, target: Shape) -> None:
    tail = target[len(target) - len(source) :]
    if len(source) > len(target) or any(s not in (1, t) for s, t in zip(source, tail, strict=True)):
        raise ValueError(f"could not broadcast input from shape {source} into shape {target}")


# ---- What the operators leave --------------------------------------------------------------------


def compares_beyond(name: str, number: int, number_is_first: bool) -> bool:
    """The answer of a comparison of integers with a Python int that their type cannot hold."""
    less = (number > 0) is not number_is_first  # the first operand is the lesser one
    return {
        "equal": False,
        "not_equal": True,
        "less": less,
        "less_equal": less,
        "greater": not less,
        "greater_equal": not less,
    }[name]


def is_number(x: Any) -> bool:
    """Returns whether `x` is a Python number, perhaps of a subclass (an enum, ...)."""
    return isinstance(x, _NUMBERS) and not isinstance(x, np.generic)


def typed_number(x: Any) -> Any:
    """Returns an instance of a subclass of int, float or complex as the NumPy scalar it becomes.

    As for NumPy, only the numbers of Python itself are weak.
    """
    return np.asarray(x)[()] if is_number(x) and type(x) not in _NUMBERS else x


def call(index: int, is_true_division: int, args: tuple[Any, ...], out: Any) -> Any:
    """An operation on operands of which one is an Array, when `pkg.core` leaves it.

    NotImplemented for operands that are no arrays and no numbers.
    """
    operation = core.operations[index]
    name = operation.__name__
    args = tuple(typed_number(as_array(x)) for x in args)
    arrays = [x for x in args if isinstance(x, Array)]
    if not arrays:
        place = _out.target(name, out).device
        raise TypeError(
            f"{name}(): out is on {place}, but no operand is: nothing is moved in silence"
        )
    for x in args:
        if isinstance(x, Array) or _is_scalar(x):
            if getattr(x, "dtype", np.dtype(np.bool_)).char not in _ELEMENTS:
                return NotImplemented
        elif isinstance(x, np.ndarray | list | tuple):
            raise _refuse_host(x, arrays[0].device)
        else:
            return NotImplemented
    places = {x.device: None for x in arrays}
    if len(places) > 1:
        raise ValueError(
            f"the operands are on {' and '.join(places)}: move one of them with to_device() first"
        )
    broadcast_shapes(*(x.shape for x in arrays))  # or its ValueError
    answer = _general.known_answer(operation, args)
    if answer is not None:
        result = core.empty(arrays[0].shape, np.bool_, arrays[0]._ordinal, _is_fortran(arrays[0]))
        core.copy(result, np.asarray(answer))
        return result if out is None else _stored(name, out, result)
    # Foreign operands have become arrays by now.
    result = core.map_arrays(index, is_true_division, args, None)
    return result if out is None else _stored(name, out, result)


def _stored(name: str, out: Any, result: Array, casting: str = "same_kind") -> Any:
    """Stores the result of an operation in `out`, and returns `out`."""
    found = _out.check(name, out, result.shape, result.dtype, result._ordinal, casting)
    _out.store(found, result)
    return out


def power(base: Any, exponent: Any) -> Any:
    """base ** exponent for a number as exponent: an integer of small size, or one half."""
    if isinstance(exponent, np.ndarray) and has_own_rules(exponent):
        raise refusal("an exponent", exponent)
    if isinstance(exponent, Array | np.ndarray) and exponent.ndim == 0:
        exponent = exponent.item()
    if isinstance(exponent, np.generic):
        exponent = exponent.item()
    if isinstance(exponent, float) and exponent == 0.5:
        return core.operations[_index("sqrt")](base * 1.0 if base.dtype.kind in "biu" else base)
    if isinstance(exponent, float) and exponent.is_integer():
        if base.dtype.kind in "biu":
            base = base.astype(np.float64)
        exponent = int(exponent)
    if not isinstance(exponent, int) or isinstance(exponent, bool):
        return NotImplemented
    check_exponent(base.dtype, exponent)
    if exponent == 0:
        from ._creation import ones_like

        return ones_like(base, dtype=np.int8 if base.dtype == np.bool_ else None)
    if exponent < 0:
        return 1 / power(base, -exponent)
    square = core.operations[_index("square")]
    result = power_by_products(base, exponent, operator.mul, square)
    return result.copy() if result is base else result


def check_exponent(dtype: np.dtype[Any], exponent: int) -> None:
    """ValueError where elements of a type have no power with this exponent."""
    if abs(exponent) > _MOST_POWER:
        raise ValueError(f"the exponent {exponent} is not between {-_MOST_POWER} and {_MOST_POWER}")
    if dtype.kind in "biu" and exponent < 0:
        raise ValueError("integers to negative integer powers are not allowed")


def power_by_products(
    base: Any, exponent: int, multiply: Callable[[Any, Any], Any], square: Callable[[Any], Any]
) -> Any:
    """base ** exponent, 1 or more, by squares and products: the one order that gives the bits."""
    result = None
    while True:
        if exponent & 1:
            result = base if result is None else multiply(result, base)
        exponent >>= 1
        if not exponent:
            return result
        base = square(base)


def _index(name: str) -> int:
    return next(operation.index for operation in core.operations if operation.__name__ == name)


# ---- To the host ---------------------------------------------------------------------------------


def _check_host(name: str, out: Any, x: Any) -> None:
    if not isinstance(out, np.ndarray):
        raise TypeError(f"{name}(): out must be a NumPy array, not {type(out).__name__}")
    _out.check(name, out, x.shape, x.dtype, -1, exact=True)


def asnumpy(x: Any, out: Any = None) -> Any:
    """The elements as a NumPy array in host memory; waits for them.

    `out` is a NumPy array to be filled, of x's shape and of a type to which x's casts
    (``same_kind``).  What is in host memory already is returned as it is.

    >>> import pkg as pcd
    >>> pcd.asnumpy([1, 2])
    array([1, 2])
    """
    x = as_array(x)
    if not isinstance(x, Array):
        host = plain("the operand of asnumpy()", x)
        if out is None:
            return host
        _check_host("asnumpy", out, host)
        np.copyto(out, host, casting="same_kind")
        return out
    if out is None:
        out = np.empty(x.shape, x.dtype, order="F" if _is_fortran(x) else "C")
    else:
        _check_host("asnumpy", out, x)
        if not out.dtype.isnative:
            out[...] = asnumpy(x)
            return out
    core.copy(out, x)
    return out


core.set_array_hooks(Array, call)

# They need what is above; an import in each call of a method would take longer than the call.
from . import _functions, _general, _reductions  # noqa: E402
