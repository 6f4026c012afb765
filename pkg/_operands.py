"""Checks operands: rules of their own, the device that they share, shapes, and other arguments.

Masked arrays, matrices, quantities with a unit, pandas' and xarray's objects and Dask's arrays mean
more than their elements.  `np.asarray` would drop the mask, the unit or the labels, and compute
lazy arrays.  So every function of the package either passes such an operand to NumPy's function,
if NumPy leaves the work to the operand's own class, or raises TypeError.
"""

from __future__ import annotations

import functools
import numbers
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from . import core
from ._table import check_dtype
from ._warnings import call_for_user

Shape = tuple[int, ...]

NUMBERS = (bool, int, float, complex)

#: Python numbers that adopt the type of an array beside them (NEP 50).
WEAK = (int, float, complex)

#: Types without rules of their own, which are no foreign arrays either.
PLAIN = frozenset(
    (np.ndarray, np.memmap, bool, int, float, complex, str, bytes, type(None), slice, range)
)

#: NumPy's limit on dimensions; more deeply nested lists are not arrays.
MAX_DIMENSIONS = 64

#: Advice on what to pass instead, by the library of the operand.
_ADVICE = {
    "dask": "use dask.array.map_blocks(function, ...)",
    "xarray": "use xarray.apply_ufunc(function, ...)",
    "pandas": "pass its values: x.to_numpy()",
    "astropy": "pass its values in a unit: x.to_value(unit)",
    "pint": "pass its values in a unit: x.to(unit).magnitude",
    "pkg": "name the device where you call the fused function or the Expression",
}


# ---- The policy ----


def own_rules(x: Any, depth: int = 0) -> Any:
    """Returns the first object with rules of its own: `x`, or one in its lists; None without one.

    HDF5's null dataspaces, without a shape, count too.
    """
    kind = type(x)
    if kind in PLAIN or issubclass(kind, np.generic | core.ArrayBase):
        return None
    if issubclass(kind, np.ndarray):
        return x
    if issubclass(kind, list | tuple):
        return _own_rules_in(x, depth)
    if hasattr(kind, "__array_function__") or hasattr(kind, "__array_ufunc__"):
        return x
    if hasattr(kind, "__array__") and getattr(x, "shape", ()) is None:
        return x
    interface = getattr(x, "__array_interface__", None)
    return x if isinstance(interface, dict) and interface.get("mask") is not None else None


def _own_rules_in(sequence: Sequence[Any], depth: int) -> Any:
    if depth < MAX_DIMENSIONS and not set(map(type, sequence)) <= PLAIN:
        for x in sequence:
            found = own_rules(x, depth + 1)
            if found is not None:
                return found
    return None


def has_own_rules(x: Any) -> bool:
    return own_rules(x) is not None


def refusal(what: str, x: Any) -> TypeError:
    found = own_rules(x)
    if getattr(found, "shape", ()) is None:
        return TypeError(f"{what}, a {describe(found)}, has no elements (a null dataspace)")
    kind = type(found)
    advice = _ADVICE.get(kind.__module__.split(".")[0], "pass a plain array, as np.asarray(x)")
    verb = "holds" if isinstance(x, list | tuple) else "is"
    return TypeError(
        f"{what} {verb} a {kind.__module__}.{kind.__qualname__}, which has rules of its own: "
        f"{advice}"
    )


def own_ufuncs(x: Any) -> bool:
    """Tells whether the class of `x` computes NumPy's ufuncs itself, or refuses them."""
    own = getattr(type(x), "__array_ufunc__", np.ndarray.__array_ufunc__)
    return own is not np.ndarray.__array_ufunc__


def check_ufunc(name: str, inputs: Sequence[Any], out: Any, where: Any) -> None:
    """Raises TypeError if NumPy's ufunc would drop the rules of an operand.

    It ignores rules inside lists, and the mask of another object or of `where`, and it writes
    masked elements to a plain `out`.
    """
    for x in filter(has_own_rules, inputs):
        if not isinstance(x, np.ndarray) and not own_ufuncs(x):
            raise refusal(f"an operand of {name}()", x)
    if any(map(own_ufuncs, (*inputs, out, where))):
        return
    if has_own_rules(where):
        raise refusal(f"where of {name}()", where)
    _check_plain_out(name, inputs, out)


def _is_masked(x: Any) -> bool:
    """Tells whether `x` is a masked array, without importing `np.ma`, which is slow."""
    return "numpy.ma" in sys.modules and isinstance(x, np.ma.MaskedArray)


def _check_plain_out(name: str, inputs: Iterable[Any], out: Any) -> None:
    """Raises TypeError if masked elements would be written to an `out` without a mask."""
    if isinstance(out, np.ndarray) and not has_own_rules(out):
        for x in filter(_is_masked, inputs):
            raise refusal(f"{name}(): out has no mask and an operand", x)


def share_domain(name: str, ufunc: np.ufunc, operands: Iterable[Any]) -> None:
    """Gives `ufunc` the domain of NumPy's, for masked arrays: they mask the rest."""
    if any(map(_is_masked, operands)):
        masked: Any = np.ma.core
        domains, fills = masked.ufunc_domain, masked.ufunc_fills
        numpys = getattr(np, name, None)
        if domains.get(numpys) is not None:
            domains[ufunc], fills[ufunc] = domains[numpys], fills[numpys]


def share_units(name: str, ufunc: np.ufunc, operands: Iterable[Any]) -> None:
    """Gives `ufunc` the rules for units of NumPy's, for astropy's quantities."""
    if "astropy.units" in sys.modules:
        units: Any = sys.modules["astropy.units"]
        if any(isinstance(x, units.Quantity) for x in operands):
            rules = getattr(units.quantity_helper, "UFUNC_HELPERS", {})
            rule = rules.get(getattr(np, name, None))
            if rule is not None:
                rules.setdefault(ufunc, rule)


def plain(what: str, x: Any) -> np.ndarray[Any, Any]:
    """Returns `x` as a NumPy array; TypeError if it has rules of its own."""
    if has_own_rules(x):
        raise refusal(what, x)
    return np.asarray(x)


def plain_array(name: str, x: Any) -> Any:
    """Returns `x` as an Array or a NumPy array in native byte order, of a supported type."""
    if isinstance(x, core.ArrayBase):
        return x
    x = np.asarray(x).view()  # no other thread sets the view's shape
    dtype = check_dtype(name, x.dtype)
    return x if x.dtype.isnative else x.astype(dtype)


# ---- NumPy's dispatch ----


def _broadcast_masked(x: Any, shape: Any) -> Any:
    data, mask = (np.broadcast_to(part, shape) for part in (x.data, np.ma.getmaskarray(x)))
    return np.ma.MaskedArray(data, mask)


def _join_masked(join: Callable[..., Any]) -> Callable[..., Any]:
    def call(arrays: Sequence[Any], axis: Any, dtype: Any = None) -> Any:
        if dtype is not None:
            arrays = [np.ma.asanyarray(x).astype(dtype, casting="same_kind") for x in arrays]
        return join(arrays, axis)

    return call


@functools.cache
def _masked_functions() -> dict[Any, Callable[..., Any]]:
    """Returns functions to use instead of NumPy's, which lose the mask; imports `np.ma`."""
    return {
        np.concatenate: _join_masked(np.ma.concatenate),
        np.stack: _join_masked(np.ma.stack),
        np.broadcast_to: _broadcast_masked,
        np.where: np.ma.where,
        np.dot: np.ma.dot,
    }


#: NumPy's functions that call the method of the same name of any class; the second kind makes a
#: plain array if the method raises TypeError.
_LEFT_TO_METHODS = frozenset((np.sum, np.prod, np.min, np.max, np.mean, np.any, np.all))
_BY_METHOD = frozenset((np.transpose, np.squeeze, np.clip, np.round))


def overrides(x: Any) -> bool:
    own = getattr(type(x), "__array_function__", None)
    return own is not None and own is not np.ndarray.__array_function__


def _is_computed_at_once(function: Any, x: Any) -> bool:
    """Tells whether NumPy's `function` would compute the lazy array `x`, since Dask has none."""
    if type(x).__module__.split(".")[0] != "dask":
        return False
    return function is np.linspace or not hasattr(sys.modules["dask.array"], function.__name__)


def _implementation(function: Any, operands: Sequence[Any]) -> Callable[..., Any] | None:
    """Returns the function that computes NumPy's `function` by the operands' rules, or None."""
    foreign = [x for x in operands if has_own_rules(x)]
    own: Callable[..., Any] = function
    method: Callable[..., Any] | None = getattr(type(foreign[0]), function.__name__, None)
    if any(own_rules(x) is not x for x in foreign):
        return None  # NumPy does not look into lists
    if function is np.ndarray.astype:
        return method
    if any(overrides(x) for x in foreign):
        return None if any(_is_computed_at_once(function, x) for x in foreign) else own
    if all(isinstance(x, np.ndarray) for x in foreign):
        is_masked = any(isinstance(x, np.ma.MaskedArray) for x in foreign)
        return _masked_functions().get(function, own) if is_masked else own
    if function in _BY_METHOD and foreign[0] is not operands[0]:
        return own if own_ufuncs(foreign[0]) else None  # such as a bound of `clip`
    if function in _BY_METHOD:
        return method
    return own if function in _LEFT_TO_METHODS and method is not None else None


def call_numpy(
    function: Any, *args: Any, operands: Sequence[Any], ordinal: int = -1, **kwargs: Any
) -> Any:
    """Returns NumPy's ``function(*args, **kwargs)``, computed by the rules of its operands.

    `operands` are the arguments that are arrays, in host memory.  Omits keyword arguments that are
    None.  Raises TypeError if NumPy would drop rules, or a GPU, `ordinal`, should apply them.
    """
    kwargs = {name: x for name, x in kwargs.items() if x is not None}
    found = next(filter(has_own_rules, operands), None)
    if found is None:
        if "dtype" in kwargs:  # conversions may warn
            return call_for_user(function, *args, **kwargs)
        return function(*args, **kwargs)
    implementation = _implementation(function, operands)
    if implementation is None:
        raise refusal(f"an operand of {function.__name__}()", found)
    if ordinal >= 0:
        raise refusal(
            f"{function.__name__}(): device is {device_name(ordinal)} and an operand", found
        )
    out = kwargs.get("out")
    _check_plain_out(function.__name__, operands, out)
    result = call_for_user(implementation, *args, **kwargs)
    if result is out:
        return out
    if type(result) is np.ndarray and isinstance(found, np.ndarray) and not overrides(found):
        raise refusal(f"an operand of {function.__name__}()", found)  # NumPy dropped the subclass
    return result


# ---- Numbers and devices ----


def is_number(x: Any) -> bool:
    """Tells whether `x` is a Python number, perhaps of a subclass (an enum, ...)."""
    return isinstance(x, NUMBERS) and not isinstance(x, np.generic)


def type_number(x: Any) -> Any:
    """Returns an instance of a subclass of a number as a NumPy scalar: not weak."""
    return np.asarray(x)[()] if is_number(x) and type(x) not in NUMBERS else x


def python_number(x: Any) -> Any:
    """Returns a number, perhaps of a subclass, as Python's own type."""
    if type(x) in NUMBERS:
        return x
    kind: Any = next(kind for kind in WEAK if isinstance(x, kind))
    return kind.__pos__(x)


def is_scalar(x: Any) -> bool:
    """Tells whether `x` combines with arrays on any device: a number, or an array without axes."""
    if isinstance(x, np.ndarray):
        return x.ndim == 0 and not has_own_rules(x)
    return isinstance(x, (*NUMBERS, np.generic))


def native(x: Any) -> Any:
    """Returns an operand; a memmap or a byte-swapped host array without axes as a scalar."""
    is_odd = type(x) is np.memmap or (type(x) is np.ndarray and not x.dtype.isnative)
    return x[()] if is_odd and not x.ndim else x


def gpu_of(x: Any) -> int:
    """Returns the GPU that holds an array, -1 for host memory."""
    ordinal: int = getattr(x, "_ordinal", -1)
    return ordinal


def device_name(ordinal: int) -> str:
    if ordinal == core.ALL_GPUS:
        return "cuda:all"
    return "cpu" if ordinal < 0 else f"cuda:{ordinal}"


def one_device(device: str | None) -> int:
    """Returns the ordinal of `device`; raises ValueError for all GPUs, which are not one device."""
    ordinal = core.parse_device(device)
    if ordinal == core.ALL_GPUS:
        given = (
            f"device is {device!r}" if device is not None else "the default device is 'cuda:all'"
        )
        raise ValueError(
            f"{given}: all GPUs together compute with NumPy arrays, and an Array, a Stream and "
            'memory belong to one; expected "cpu", "cuda" or "cuda:N"'
        )
    return ordinal


def place_error(name: str, where: str) -> ValueError:
    return ValueError(
        f"{name}(): {where}; arrays are computed where they are: move one with to_device() first"
    )


def find_place(name: str, operands: Iterable[Any], device: str | None = None) -> int:
    """Returns the GPU that computes a call, -1 for the CPU: that of the Arrays, else `device`.

    Raises TypeError if another operand is an array in host memory, and ValueError if operands are
    on two GPUs or `device` names another one.
    """
    ordinal, found, hosts = core.parse_device(device), None, []
    for x in operands:
        if gpu_of(x) < 0:
            hosts.append(x)
        elif found is None:
            found = x
        elif x._ordinal != found._ordinal:
            raise place_error(name, f"the operands are on {found.device} and {x.device}")
    if found is None:
        return ordinal
    for x in hosts:
        if not is_scalar(x):
            raise host_error(x, found.device)
    if device is not None and ordinal != found._ordinal:
        raise place_error(name, f"an operand is on {found.device} and device is {device!r}")
    return int(found._ordinal)


def host_error(x: Any, device: str) -> TypeError:
    if has_own_rules(x):
        return refusal(f"one operand is on {device} and another", x)
    if not isinstance(x, np.ndarray | list | tuple) and np.asarray(x).dtype.kind not in "biufc":
        return TypeError(
            f"one operand is on {device} and another, a {describe(x)}, is neither an array of "
            "numbers nor a number"
        )
    return TypeError(
        f"one operand is a {type(x).__module__}.{type(x).__name__} in host memory, another is on "
        f"{device}, and nothing is moved in silence: use pkg.asarray(x, device={device!r}) or "
        "pkg.asnumpy(x)"
    )


# ---- Other arguments ----


def describe(x: Any) -> str:
    """Names an argument: its type, and the types of its elements."""
    kind = type(x)
    library = kind.__module__.split(".")[0] if isinstance(kind.__module__, str) else "builtins"
    name = kind.__name__ if library == "builtins" else f"{library}.{kind.__name__}"
    if isinstance(x, list | tuple):
        kinds = ", ".join(dict.fromkeys(type(one).__name__ for one in x)) or "nothing"
        return f"{name} of {kinds}"
    dtype = getattr(x, "dtype", None)
    is_array = isinstance(dtype, np.dtype) and not isinstance(x, np.generic)
    return f"{name} of {dtype}" if is_array else name


def integer(name: str, what: str, x: Any) -> int:
    try:
        return operator.index(x)
    except TypeError:
        raise TypeError(f"{name}(): {what} must be an int, not {describe(x)}") from None


def flag(name: str, what: str, x: Any) -> bool:
    """Returns a bool, or an int, as a bool."""
    try:
        return bool(x if isinstance(x, np.bool_) else operator.index(x))
    except TypeError:
        raise TypeError(f"{name}(): {what} must be a bool, not {describe(x)}") from None


def limits_of(given: dict[str, Any]) -> tuple[Any, Any]:
    """Takes the limits from the arguments of `np.clip`: one pair, or NumPy's error."""
    named = [name for name in ("min", "max") if name in given]
    old = [f"a_{name}" for name in ("min", "max") if f"a_{name}" in given]
    if len(old) == 1:
        raise TypeError(f"clip(): {old[0]} is given, but not both of a_min and a_max")
    if old and named:
        raise ValueError(f"clip(): {named[0]} is given beside a_min and a_max")
    prefix = "a_" if old else ""
    return given.pop(f"{prefix}min", None), given.pop(f"{prefix}max", None)


def copies(name: str, x: Any) -> bool | None:
    """True always copies, False never, None if needed."""
    return None if x is None else flag(name, "copy", x)


def _integers(name: str, what: str, x: Any, *candidates: Any) -> tuple[int, ...]:
    """Returns the first candidate that is a sequence of ints as a tuple; a bool is no int here."""
    for candidate in candidates:
        try:
            items = tuple(candidate)
            if bool not in map(type, items):
                return tuple(map(operator.index, items))
        except TypeError:
            pass
    raise TypeError(f"{name}(): {what} must be an int or a tuple of ints, not {describe(x)}")


def integers(name: str, what: str, x: Any) -> tuple[int, ...]:
    """Returns an int or a sequence of ints as a tuple; TypeError for others."""
    if type(x) is int:
        return (x,)
    sequences = () if isinstance(x, str | bytes | dict | set) else (x,)
    return _integers(name, what, x, (x,), *sequences)


def axes_of(name: str, what: str, x: Any) -> tuple[int, ...]:
    """Returns an axis or a sequence of axes as a tuple; AxisError beyond limits."""
    given = integers(name, what, x)
    for axis in given:
        if abs(axis) > MAX_DIMENSIONS:
            raise np.exceptions.AxisError(
                f"{name}(): {what} is {axis}, but an array has at most {MAX_DIMENSIONS} dimensions"
            )
    return given


def tuple_of_axes(name: str, x: Any) -> tuple[int, ...]:
    """Returns an int or a tuple of ints as a tuple; TypeError for lists."""
    return axes_of(name, "axis", _integers(name, "axis", x, x if isinstance(x, tuple) else (x,)))


def axis_or_axes(name: str, x: Any) -> Any:
    """Returns the argument `axis`, an int (which may be 0 or -1 for no axes), a tuple or None."""
    axes = None if x is None else tuple_of_axes(name, x)
    return axes if axes is None or isinstance(x, tuple) else axes[0]


def sizes_of(name: str, what: str, x: Any) -> tuple[int, ...]:
    given = integers(name, what, x)
    for n in given:
        if not 0 <= n < 2**63:
            wrong = "negative" if n < 0 else "2**63 or more"
            raise ValueError(f"{name}(): {what} is {x!r}, but a size cannot be {wrong}")
    return given


def sequence(name: str, x: Any) -> list[Any]:
    try:
        if not isinstance(x, str | bytes | dict | set):
            return list(x)
    except TypeError:
        pass
    raise TypeError(f"{name}(): arrays must be a sequence of arrays, not {describe(x)}")


def number(name: str, what: str, x: Any) -> Any:
    """Takes a number, an array without dimensions or, as dates, a string."""
    is_number = isinstance(x, numbers.Number | np.generic | str)
    if not is_number and (not hasattr(x, "dtype") or np.ndim(x) != 0):
        raise TypeError(f"{name}(): {what} must be a number, not {describe(x)}")
    return x


# ---- Shapes ----


def broadcast_shapes(*shapes: Shape) -> Shape:
    """Returns the shape to which the shapes broadcast.

    `np.broadcast_shapes` allows only 32 dimensions, NumPy's arrays 64.
    """
    if shapes and shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    result = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for d in range(-len(shape), 0):
            if result[d] == 1:
                result[d] = shape[d]
            elif shape[d] not in (1, result[d]):
                given = " ".join(str(tuple(shape)).replace(" ", "") for shape in shapes)
                raise ValueError(f"operands could not be broadcast together with shapes {given}")
    return tuple(result)


def broadcasts(shape: Shape, target: Shape) -> bool:
    missing = len(target) - len(shape)
    return missing >= 0 and all(n in (1, m) for n, m in zip(shape, target[missing:], strict=True))


def normalize_axes(name: str, axes: Any, ndim: int) -> Shape:
    """Returns an axis or a sequence of axes as numbers from 0 to ndim - 1."""
    if type(axes) is int and -ndim <= axes < ndim:
        return (axes % ndim,)
    given = axes_of(name, "axis", axes)
    return tuple(np.lib.array_utils.normalize_axis_tuple(given, ndim, f"{name}()"))


def reduced_axes(name: str, axis: Any, ndim: int) -> Shape:
    if axis is None:
        return tuple(range(ndim))
    axes = tuple_of_axes(name, axis)
    if ndim == 0 and name != "mean" and not isinstance(axis, tuple) and axes[0] in (0, -1):
        return ()  # NumPy allows these
    return normalize_axes(name, axes, ndim)


def check_vectors(name: str, a: Any, b: Any) -> None:
    """Raises ValueError unless two arrays have one dimension, and equally many elements."""
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(
            f"{name}: the arrays must have one dimension; their shapes are {a.shape} and {b.shape}"
        )
    if a.shape != b.shape:
        raise ValueError(f"{name}: a has {a.size} elements and b has {b.size}: they must be equal")


def order_of(name: str, order: Any, default: str = "K", allowed: str = "CFAK") -> str:
    """Returns the argument `order` as a capital letter; None is the default, as in NumPy."""
    if order is None:
        return default
    if not isinstance(order, str):
        raise TypeError(f"{name}(): order must be a str, not {describe(order)}")
    if len(order) != 1 or order.upper() not in allowed:
        *letters, last = (f'"{letter}"' for letter in allowed)
        raise ValueError(f"{name}(): order must be {', '.join(letters)} or {last}, not {order!r}")
    return order.upper()
