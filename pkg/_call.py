"""Computes the element-wise calls that the fast paths in C decline: the one slow path.

They come from the operations (`call`), the operators of `Array` (`call_operator`) and NumPy's
protocols (`call_arrays`).  `core.map` computes host arrays in native byte order, and `core.compute`
Arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from . import core, ufuncs
from ._convert import array_of_number, conversion, convert, in_native_order, warn_of_complex
from ._docs import DEFAULTS, METHODS
from ._interop import call_foreign
from ._mode import in_default_mode
from ._operands import (
    NUMBERS,
    WEAK,
    Shape,
    broadcast_shapes,
    broadcasts,
    check_ufunc,
    describe,
    find_place,
    gpu_of,
    has_own_rules,
    is_number,
    is_scalar,
    native,
    order_of,
    own_ufuncs,
    python_number,
    refusal,
    share_domain,
    share_units,
    type_number,
)
from ._results import check_out, finish, open_out, store, unwrap_out
from ._table import ELEMENTS, LOGIC, OPERATIONS, PREDICATES, SUM, dtype_of
from ._warnings import call_for_user, report_flags, warn

#: Keyword arguments that the slow path handles; the ufunc checks all others.
_KNOWN = frozenset({"out", "where", "dtype", "casting", "order", "subok"})

_BOOL = np.dtype(np.bool_)

#: NumPy's words for an operation that lacks a type.
_NO_LOOP = (
    "not supported for the input types",
    "did not contain a loop with signature",
    "cannot be computed together",
)

_TOGETHER = "operands of these types and places cannot be computed together"

#: The largest exponent of ``x ** n`` that is computed by products.
_MAX_EXPONENT = 64


# ---- Element types ----


def explain(
    operation: Any, error: TypeError, args: Sequence[Any] = (), kinds: Sequence[Any] = ()
) -> TypeError:
    """Returns a TypeError that names the operands, or their types."""
    # A ufunc may have another name, so that pandas does not mistake it for NumPy's.
    text = str(error).replace(operation.ufunc.__name__, operation.__name__)
    supported = ", ".join(dict.fromkeys(np.dtype(types[0]).name for types in operation.types))
    if text.startswith(("No loop matching", "The `dtype` and `signature`")):
        better = TypeError(f"{operation.__name__}(): dtype must be one of {supported} ({text})")
    elif any(part in text for part in _NO_LOOP):
        names = [kind.__name__ if isinstance(kind, type) else kind.name for kind in kinds]
        given = " and ".join(map(describe, args[: operation.nin]) if args else names)
        better = TypeError(
            f"{operation.__name__}() is not defined for {given}; it is defined for {supported} "
            f"and what casts to them safely ({text})"
        )
    else:
        return error if text == str(error) else TypeError(text)
    better.__cause__ = error
    return better


def _call_ufunc(
    operation: Any, ufunc: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    try:
        return call_for_user(ufunc, *args, **keywords)
    except TypeError as error:
        raise explain(operation, error, args) from error.__cause__


def resolve(
    operation: Any,
    kinds: Sequence[Any],
    out: Any = None,
    dtype: Any = None,
    casting: Any = "same_kind",
    args: Sequence[Any] = (),
) -> tuple[Any, ...]:
    """Returns the element types of the inputs and the output, as the ufunc would choose them.

    `kinds` and `out` are dtypes, or int, float or complex for a Python number; an error names
    `args`, the operands.
    """
    ufunc = operation.ufunc
    signature: Any = {} if dtype is None else {"signature": (None,) * ufunc.nin + (dtype,)}
    try:
        # Without an array, numbers have no type to adopt, unless `dtype` gives them one.
        if (dtype is None or ufunc.nin == 1) and all(isinstance(kind, type) for kind in kinds):
            kinds = [np.dtype(kind) for kind in kinds]
        if casting == "equiv":  # NumPy's resolve_dtypes crashes on it with a Python number
            samples = (k(1) if isinstance(k, type) else np.empty(0, k) for k in kinds)
            ufunc(*samples, out if out is None else np.empty(0, out), casting=casting, dtype=dtype)
            casting = "safe"
        dtypes: tuple[Any, ...] = ufunc.resolve_dtypes((*kinds, out), casting=casting, **signature)
        if dtypes[0] == np.bool_ and operation.compares:  # the library compares int8
            dtypes = (*[np.dtype(np.int8)] * (len(dtypes) - 1), dtypes[-1])
        return dtypes
    except TypeError as error:
        raise explain(operation, error, args, kinds) from error.__cause__


def _kind(x: Any) -> Any:
    return type(x) if type(x) in WEAK else getattr(x, "dtype", _BOOL)


def _check_mask(name: str, where: Any) -> Any:
    mask = where if isinstance(where, np.ndarray | core.ArrayBase) else np.asarray(where, np.bool_)
    if mask.dtype != np.bool_:
        raise TypeError(f"{name}(): where must be an array of bool, not of {mask.dtype}")
    return mask


def _warn_of_unset(keywords: dict[str, Any]) -> None:
    """Warns, as NumPy since 2.4, of elements that `where` leaves unset; not with ``out=None``."""
    is_new = np.lib.NumpyVersion(np.__version__) >= "2.4.0"
    if is_new and "where" in keywords and "out" not in keywords:
        warn("'where' used without 'out': use out=None if elements may be unset", UserWarning)


# ---- Predicates ----


def compare_beyond(name: str, number: int, number_is_first: bool) -> bool:
    """Returns the result of comparing integers with an int beyond their type: one for all."""
    if name in ("equal", "not_equal"):
        return name == "not_equal"
    is_less = (number > 0) is not number_is_first  # the first operand is the lesser one
    return name.startswith("less") is is_less


def _check_predicate(
    operation: Any, inputs: Sequence[Any], keywords: dict[str, Any]
) -> dict[str, Any]:
    """Returns the keywords of a predicate without `casting`, if NumPy's predicate allows it.

    The library does not always compute a predicate in NumPy's types, and under any casting rule
    NumPy compares bool with Python ints and takes the truth of anything.  So NumPy checks the rule,
    on empty arrays.
    """
    if operation.__name__ not in PREDICATES or "casting" not in keywords or "signature" in keywords:
        return keywords

    def empty(x: Any) -> Any:
        return x if x is None or type(x) in NUMBERS else np.empty(0, _dtype(x))

    checked = {name: x for name, x in keywords.items() if name in ("dtype", "casting")}
    predicate = getattr(np, operation.__name__)
    predicate(*map(empty, inputs), out=empty(keywords.get("out")), **checked)
    return {name: x for name, x in keywords.items() if name != "casting"}


def _dtype(x: Any) -> Any:
    return x.dtype if isinstance(x, core.ArrayBase) else np.asarray(x).dtype


def _known_answer(operation: Any, inputs: Sequence[Any]) -> bool | None:
    """Returns the answer of a comparison of numbers, or with an int beyond a type; else None."""
    if not operation.compares:
        return None
    if all(map(is_number, inputs)):
        return bool(operation(*map(python_number, inputs)))
    for k, number in enumerate(inputs):
        if type(number) is not int:
            continue
        dtype = _dtype(inputs[1 - k])
        if dtype.kind in "iub":
            info = np.iinfo(np.int64 if dtype.kind == "b" else dtype)
            if not info.min <= number <= info.max:
                return compare_beyond(operation.__name__, number, k == 0)
    return None


def _truths(operation: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Python numbers beside others become bools."""
    if operation.__name__ not in LOGIC or all(map(is_number, inputs)):
        return inputs
    return tuple(_truth(python_number(x)) if is_number(x) else x for x in inputs)


@in_default_mode
def _truth(x: Any) -> bool:
    return bool(x)


# ---- Calls of operations ----


def normalize(
    operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the inputs, and the keyword arguments that differ from the defaults, with `out`.

    `out` may be None beside `where`.
    """
    name, nin = operation.__name__, operation.nin
    keywords = dict(kwargs)
    if len(args) == nin + 1:
        if keywords.get("out") is not None:
            raise TypeError(f"{name}() got out by position and by name")
        if args[nin] is ...:
            raise TypeError("out=... is only allowed as a keyword argument.")
        args, keywords["out"] = args[:nin], args[nin]
    if len(args) != nin:
        raise TypeError(f"{name}() takes {nin} operand{'s' * (nin > 1)} and out, not {len(args)}")
    if "out" in keywords:
        keywords["out"] = unwrap_out(name, keywords["out"])
    signature = keywords.get("signature")
    is_dtype = type(signature) is tuple and len(signature) == nin + 1 and not any(signature[:nin])
    if is_dtype and "dtype" not in keywords:
        keywords["dtype"] = keywords.pop("signature")[nin]

    def is_default(name: str, x: Any) -> bool:
        return any(
            x is default or (type(x) is str and x == default) for default in DEFAULTS.get(name, ())
        )

    if type(keywords.get("subok", True)) is not bool:
        raise TypeError(f"{name}(): subok must be a bool, not {describe(keywords['subok'])}")
    if "order" in keywords:
        keywords["order"] = order_of(name, keywords["order"])
    is_chosen = "out" in keywords  # beside `where`, NumPy warns if it is not, even of None
    keywords = {name: x for name, x in keywords.items() if not is_default(name, x)}
    if is_chosen and "where" in keywords:
        keywords.setdefault("out", None)
    if "dtype" in keywords:
        keywords["dtype"] = dtype_of(name, keywords["dtype"])
        if name in PREDICATES and keywords["dtype"] == np.bool_:
            del keywords["dtype"]  # the result is bool in any case
    return args, keywords


def call(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Computes `operation(*args, **kwargs)`."""
    inputs, keywords = normalize(operation, args, kwargs)
    result = call_foreign(operation, inputs, keywords)
    if result is not NotImplemented:
        return result
    inputs = _truths(operation, inputs)
    arrays = (*inputs, keywords.get("out"), keywords.get("where"))
    if any(isinstance(x, core.ArrayBase) for x in arrays):
        if "device" not in keywords and any(map(own_ufuncs, filter(has_own_rules, arrays))):
            return operation.ufunc(*inputs, **keywords)  # NumPy asks their classes
        return call_arrays(operation, inputs, keywords)
    if keywords.keys() <= {"device"} and all(map(is_number, inputs)):
        return operation(*map(python_number, inputs), **keywords)
    ordinal = core.parse_device(keywords.pop("device", None))
    # Lazy operands (Dask, and xarray over it) may be computed on another host that has the device.
    if ordinal >= 0 and not any(getattr(x, "__dask_graph__", None) for x in inputs):
        core.check_device(ordinal)
    if any(map(has_own_rules, arrays)):
        return _call_with_rules(operation, ordinal, inputs, keywords)
    return _call_host(operation, ordinal, inputs, keywords)


def _call_with_rules(
    operation: Any, ordinal: int, inputs: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    """Lets a ufunc compute a call in which an argument has rules of its own; NumPy applies them."""
    arguments = (*inputs, keywords.get("out"), keywords.get("where"))
    check_ufunc(operation.__name__, inputs, *arguments[-2:])
    if not any(map(own_ufuncs, arguments)):
        ufunc = ufuncs.named(operation, ordinal)
    else:  # other libraries may look for it by name
        ufunc = operation.ufunc if ordinal < 0 else ufuncs.on_device(operation, ordinal)
    share_domain(operation.__name__, ufunc, inputs)
    share_units(operation.__name__, ufunc, inputs)
    try:
        return _call_ufunc(operation, ufunc, inputs, keywords)
    except TypeError as error:
        found = next(filter(own_ufuncs, arguments), None)
        is_pints = type(found).__module__.split(".")[0] == "pint"
        unknown = "operand type(s) all returned" if is_pints else "unknown ufunc"  # astropy
        if not str(error).startswith(unknown):
            raise
        raise refusal(f"an operand of {operation.__name__}()", found) from error
    except OverflowError:
        # Integers and a number beyond their type: NumPy has the answer, but crashes with `where`.
        if not operation.compares or "where" in keywords:
            raise
        return getattr(np, operation.__name__)(*inputs, **keywords)


def _unless_shared(x: Any, out: Any) -> Any:
    """Returns `x`, or a copy of an array that writing `out`, another array, could change.

    NumPy's ufunc reads a mask too late, and converts elements that the mask does not select.
    """
    is_shared = isinstance(x, np.ndarray) and x is not out and np.may_share_memory(x, out)
    return np.array(x) if is_shared else x


def _call_host(
    operation: Any, ordinal: int, inputs: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    """Computes a call of host arrays, scalars and lists."""
    if keywords.get("out") is ...:  # asks for an array
        return np.asarray(_call_host(operation, ordinal, inputs, {**keywords, "out": None}))
    out, where = keywords.get("out"), keywords.get("where")
    if where is not None and out is not None:
        keywords["where"], *rest = (_unless_shared(x, out) for x in (where, *inputs))
        inputs = tuple(rest)
    keywords = _check_predicate(operation, inputs, keywords)
    is_regular = keywords.keys() <= _KNOWN and (out is None or isinstance(out, np.ndarray))
    if "dtype" not in keywords and keywords.keys() <= _KNOWN:
        answer = _known_answer(operation, inputs)
        if answer is not None:
            arrays = [np.asarray(x) for x in inputs]
            return _map_where(operation, ordinal, arrays, (_BOOL,), keywords, answer)
    if is_regular and (ordinal >= 0 or _is_for_the_library(operation, inputs, keywords)):
        return _map(operation, ordinal, inputs, keywords)
    return _call_ufunc(operation, ufuncs.named(operation, ordinal), inputs, keywords)


def _is_for_the_library(operation: Any, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Tells whether the ufunc would compute a call wrongly, or slowly."""
    # The ufunc computes converted and selected elements part by part.  The library finds a negative
    # exponent before it writes anything.
    is_power = operation.__name__ == "power" and keywords.get("out") is not None
    if is_power and all(np.asarray(x).dtype.kind in "biu" for x in inputs):
        return True
    # NumPy's buffers convert elements that are not selected, too, and warn of them; and NumPy calls
    # the loop for each run of selected elements, which is slow.
    if "where" in keywords:
        return True
    # NumPy's buffers must not convert floats to integers; see _convert.py.
    types = (getattr(keywords.get("out"), "dtype", None), keywords.get("dtype"))
    if (
        keywords.get("casting") == "unsafe"
        and any(dtype is not None and dtype.kind in "iu" for dtype in types)
        and all(type(x) in WEAK or np.can_cast(_dtype(x), np.complex128) for x in inputs)
    ):
        return True
    if not keywords.keys() <= {"out"}:
        return False
    hosts = [x for x in inputs if type(x) is np.ndarray]
    others = [x for x in inputs if type(x) is not np.ndarray and type(x) not in NUMBERS]
    if len({x.dtype for x in hosts}) != 1 or others:
        return False
    # Large arrays of one type, for which only the layout prevents threads.  NumPy converts others
    # in small pieces, which is better than the whole copies of `_map`.
    return max(x.size for x in hosts) >= core.LARGE_COUNT


def _map(operation: Any, ordinal: int, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Computes with one `core.map` on operands that are numbers, ndarrays or array-like."""
    out, casting = keywords.get("out"), keywords.get("casting", "same_kind")
    # A number alone has no type to adopt: an int of 2**63 or more is a uint64.
    operands = [x if type(x) in WEAK and len(inputs) > 1 else np.asarray(x) for x in inputs]
    out_dtype, dtype = None if out is None else out.dtype, keywords.get("dtype")
    kinds = [_kind(x) for x in operands]
    try:
        dtypes = resolve(operation, kinds, out_dtype, dtype, casting, args=inputs)
    except TypeError:
        # NumPy converts ints before it checks how the result is cast: OverflowError comes first.
        if all(type(x) in NUMBERS for x in inputs) and int in map(type, inputs):
            for x, own in zip(inputs, resolve(operation, kinds, args=inputs), strict=False):
                _number_as(x, own)
        raise
    # A weak number is converted to the resolved type here, or raises NumPy's OverflowError.
    arrays = [
        _number_as(x, dtype) if type(x) in NUMBERS else _known(x, dtype)
        for x, dtype in zip(operands, dtypes, strict=False)
    ]
    if "where" in keywords:
        return _map_where(operation, ordinal, arrays, dtypes, keywords)
    shape = broadcast_shapes(*(x.shape for x in arrays))
    if out is None:
        result = empty_like_all(arrays, shape, dtypes[-1], keywords.get("order", "K"))
    else:
        check_out(operation.__name__, out, shape, dtypes[-1], -1, casting)
        own = out.dtype.newbyteorder("=") if out.dtype.char in ELEMENTS else dtypes[-1]
        result = out if _is_direct(out, own, arrays) else np.empty_like(out, own)
    flags = _run(operation, ordinal, result, arrays, dtypes)
    if out is None:
        out = result if result.ndim else result[()]
    elif result is not out:
        store(out, result)
    if flags:  # last: if it raises, `out` has the results, as in NumPy
        report_flags(operation.__name__, flags)
    return out


def _number_as(x: Any, dtype: Any) -> Any:
    x = array_of_number(x, dtype)
    if isinstance(x, np.ndarray):
        return convert(x, dtype)
    return call_for_user(np.asarray, x, dtype) if type(x) is float else np.asarray(x, dtype)


def _is_direct(out: Any, dtype: np.dtype[Any], arrays: Sequence[Any]) -> bool:
    """Tells whether elements of a type are written to `out` itself.

    Otherwise they go to a temporary array, so that an error leaves `out` unchanged.
    """
    layout = out.__array_interface__["data"], out.shape, out.strides
    shared = [x for x in arrays if np.may_share_memory(out, x)]
    return (
        out.dtype == dtype
        and all((x.__array_interface__["data"], x.shape, x.strides) == layout for x in shared)
        and not (shared and core.overlaps_itself(out))
    )


def empty_like_all(values: Iterable[Any], shape: Shape, dtype: Any, order: Any = "K") -> Any:
    """Returns a new array whose axes lie in memory as NumPy's ufuncs choose for these operands."""
    hosts = [x for x in values if isinstance(x, np.ndarray)]
    given: Any = [None, *hosts]
    op_flags: Any = [["writeonly", "allocate"], *[["readonly"]] * len(hosts)]
    op_dtypes: Any = [dtype, *[None] * len(hosts)]
    return np.nditer(
        given, ["zerosize_ok", "refs_ok"], op_flags, op_dtypes, order=order, itershape=shape
    ).operands[0]


def _converts_quietly(x: Any, dtype: np.dtype[Any]) -> bool:
    """Tells whether a conversion never warns, not even of a signaling NaN."""
    own = x.dtype
    return own.char == dtype.char or (own.kind in "biu" and np.can_cast(own, dtype))


def _known(x: Any, dtype: np.dtype[Any]) -> Any:
    """Returns an operand of a type of the library; warns if `dtype` drops imaginary parts."""
    if x.dtype.char not in ELEMENTS:
        return convert(x, dtype)
    warn_of_complex(x.dtype, dtype)
    return x


def _run(operation: Any, ordinal: int, out: Any, arrays: Iterable[Any], dtypes: Any) -> int:
    """Computes in the types `dtypes` into `out`, in native byte order; returns the flags.

    The library converts the arrays, so that a flag is reported once.
    """
    flags, given, out = 0, [], np.asarray(out)  # no memmap
    for x, dtype in zip(map(in_native_order, arrays), dtypes, strict=False):
        given.append(x if x.dtype == dtype else np.empty_like(x, dtype))
        if x.dtype != dtype:
            flags |= conversion(x.dtype, dtype).call(-1, "K", given[-1], (x,), True)
    result = out if out.dtype == dtypes[-1] else np.empty_like(out, dtypes[-1])
    flags |= core.map(operation.index, ordinal, result, *given)
    if result is not out:
        flags |= conversion(result.dtype, out.dtype).call(-1, "K", out, (result,), True)
    return flags


def _map_where(
    operation: Any,
    ordinal: int,
    arrays: list[Any],
    dtypes: tuple[Any, ...],
    keywords: dict[str, Any],
    answer: bool | None = None,
) -> Any:
    """Computes only the elements that `where` selects, because only they may warn.

    `answer` is the result of a comparison if it is known.
    """
    name, given = operation.__name__, keywords.get("out")
    mask = _check_mask(name, keywords.get("where", True))
    shape = broadcast_shapes(mask.shape, *(x.shape for x in arrays))
    out: Any = given
    if given is None:
        _warn_of_unset(keywords)
        out = empty_like_all([mask, *arrays], shape, dtypes[-1], keywords.get("order", "K"))
    else:
        casting = keywords.get("casting", "same_kind")
        out = check_out(name, given, shape, dtypes[-1], -1, casting)
    mask = np.broadcast_to(mask, out.shape)
    # Unselected elements may be refused, raise a flag, or warn when converted: skip them then.
    may_refuse = name == "power" and dtypes[-1].kind == "i"
    result, flags = np.empty(out.shape, dtypes[-1]), 0
    if answer is not None:
        np.copyto(out, answer, casting="unsafe", where=mask)
    elif (
        may_refuse
        or not _converts_quietly(result, out.dtype)
        or _run(operation, ordinal, result, arrays, dtypes)
    ):
        own = out.dtype.newbyteorder("=") if out.dtype.char in ELEMENTS else dtypes[-1]
        result = np.empty(np.count_nonzero(mask), own)
        parts = [np.broadcast_to(x, out.shape)[mask] for x in arrays]
        flags = _run(operation, ordinal, result, parts, dtypes)
        out[mask] = result
    else:
        result = convert(result, out.dtype, copy=False)
        if out.dtype.isnative and out.size:
            core.select(out, mask, result, out)
        else:
            np.copyto(out, result, casting="unsafe", where=mask)
    if flags:
        report_flags(name, flags)
    return given if given is not None else out if out.ndim else out[()]


# ---- Methods of ufuncs ----


#: Where `dtype` stands among the arguments of the methods that take it.
_DTYPE_POSITIONS = {"reduce": 2, "accumulate": 2, "reduceat": 3}


def _sum_of_floats(x: Any, axis: Any = 0, dtype: Any = None, keepdims: bool = False) -> Any:
    """Computes `add.reduce` of floats by `core`, in an order that only the length decides.

    NumPy's reduction along an outer axis would add element by element.  Returns NotImplemented for
    anything else.
    """
    if type(x) not in (np.ndarray, list, tuple) or has_own_rules(x):
        return NotImplemented
    x = np.asarray(x)
    chosen = x.dtype if dtype is None else np.dtype(dtype)
    if x.ndim == 0 or x.dtype.kind not in "biufc" or chosen.char not in "efdFD":
        return NotImplemented
    return core.reduce_any(SUM, x, axis, keepdims, dtype, None, None)


def _call_method(operation: Any, name: str, is_logic: bool, /, *args: Any, **keywords: Any) -> Any:
    """Calls a method of the ufunc, which warns in the operation's name.

    Logic has no loop of a bool, the result so far, and an element: it computes in bool.
    """
    if is_logic and name in _DTYPE_POSITIONS:
        position = _DTYPE_POSITIONS[name]
        if len(args) <= position:
            keywords["dtype"] = keywords.get("dtype") or bool
        elif args[position] is None:
            args = (*args[:position], bool, *args[position + 1 :])
    if name == "reduce" and operation.__name__ == "add" and 0 < len(args) < 4:
        if keywords.keys() <= {"axis", "dtype", "keepdims"}:
            result = _sum_of_floats(*args, **keywords)
            if result is not NotImplemented:
                return result
    out = keywords.get("out")
    arguments = (*args, *keywords.values(), *(out if isinstance(out, tuple) else ()))
    ufunc = operation.ufunc if any(map(own_ufuncs, arguments)) else operation.named_ufunc
    return call_for_user(core.call_in_mode, getattr(ufunc, name), *args, **keywords)


def methods(operation: Any) -> dict[str, Any]:
    """Returns the methods that an operation gets from its ufunc."""
    result = {}
    is_predicate = operation.__name__ in PREDICATES
    is_logic = operation.nin == 2 and is_predicate and not operation.compares
    for name, text in METHODS.items():
        result[name] = partial(_call_method, operation, name, is_logic)
        result[name].__dict__["__wrapped__"] = getattr(operation.ufunc, name)  # for `inspect`
        result[name].__doc__ = text
    for types in operation.types if is_logic else ():
        # NumPy caches the loop for a bool and an element by their types, whatever chose it: the
        # loop of a call with dtype=bool would break every later reduction.
        result["reduce"](np.empty(0, types[0]))
    return result


# ---- Calls with Arrays ----


def call_operator(index: int, is_true_division: int, inputs: tuple[Any, ...], out: Any) -> Any:
    """Computes an operator with an Array.

    Returns NotImplemented if an operand is neither an array nor a number.
    """
    keywords = {} if out is None else {"out": out}
    operation = core.true_divide if is_true_division else core.operations[index]
    result = _compute(operation, inputs, keywords)
    if result is NotImplemented and keywords and operation.__name__ == "add":
        return operator.add(*inputs)  # Python would return it: a subclass's += is for sequences too
    other = next((x for x in inputs if isinstance(x, np.generic)), None)
    if result is not NotImplemented or other is None:
        return result
    # NumPy's own operator would only ask the Array again.
    if other.dtype.kind in "fc" or operation.__name__ not in ("equal", "not_equal"):
        raise explain(operation, TypeError(_TOGETHER), inputs)
    return operation.__name__ == "not_equal"


def call_arrays(operation: Any, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Computes a call with an Array among its arguments, which come from `normalize`."""
    name = operation.__name__
    if keywords.get("out") is ...:  # every result is an array
        keywords["out"] = None
    for x in foreign_rules((*inputs, keywords.get("out"), keywords.get("where"))):
        raise refusal(f"{name}(): one operand is an Array and another", x)
    result = _compute(operation, inputs, _check_predicate(operation, inputs, keywords))
    if result is NotImplemented:
        raise explain(operation, TypeError(_TOGETHER), inputs)
    return result


def foreign_rules(arguments: Iterable[Any]) -> list[Any]:
    """Returns the arguments with rules of their own; GPU memory of other libraries has none."""
    return [x for x in map(core.as_array, arguments) if has_own_rules(x)]


def _compute(operation: Any, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    name = operation.__name__
    unknown = keywords.keys() - DEFAULTS.keys()
    if unknown:
        raise TypeError(f"{name}() does not take {', '.join(unknown)} with arrays on a GPU")
    out, where = keywords.get("out"), core.as_array(keywords.get("where", True))
    dtype, casting = keywords.get("dtype"), keywords.get("casting", "same_kind")
    order = keywords.get("order", "K")
    inputs = tuple(native(type_number(core.as_array(x))) for x in inputs)
    arrays = [x for x in inputs if isinstance(x, core.ArrayBase)]
    if not arrays:
        what, found = ("where", where) if out is None else ("out", open_out(name, out))
        raise TypeError(
            f"{name}(): {what} is on {found.device}, but no operand is: nothing is moved in silence"
        )
    for x in inputs:
        if isinstance(x, core.ArrayBase) or is_scalar(x):
            if getattr(x, "dtype", _BOOL).char not in ELEMENTS:
                return NotImplemented
        elif not isinstance(x, np.ndarray | list | tuple):
            return NotImplemented
    inputs = _truths(operation, inputs)
    ordinal = find_place(name, inputs, keywords.get("device"))

    def types() -> tuple[Any, ...]:
        out_dtype = getattr(out, "dtype", None)
        return resolve(operation, list(map(_kind, inputs)), out_dtype, dtype, casting)

    if dtype is not None or casting != "same_kind":
        inputs = tuple(map(_cast, inputs, types()))
    try:
        broadcast_shapes(*(x.shape for x in arrays))
    except ValueError:
        types()  # NumPy refuses types first
        raise
    if name == "power" and where is not True:
        inputs = (inputs[0], _selected_exponents(name, inputs, where, ordinal))
    answer = _known_answer(operation, inputs)
    if answer is not None:
        result: Any = core.empty_like(arrays[0], _BOOL, ordinal)
        core.copy(result, np.asarray(answer))
    else:
        try:
            result = core.compute(operation.index, operation.is_true_division, *inputs)
            if result is NotImplemented:
                raise TypeError(_TOGETHER)
        except TypeError as error:
            raise explain(operation, error, inputs) from error.__cause__
    if where is not True:
        result = _select(name, result, where, out, casting, order)
        _warn_of_unset(keywords)
        return result
    if out is not None:
        return finish(name, result, out, casting)
    if order == "A":
        order = "F" if all(x._is_f_contiguous for x in arrays) else "C"
    if order == "K" or result.flags[f"{order}_CONTIGUOUS"]:
        return result
    return result.copy(order)


def _selected_exponents(name: str, inputs: tuple[Any, ...], where: Any, ordinal: int) -> Any:
    """Returns the exponents of a power; integers are 0 where the mask is false: never refused."""
    exponents, mask = inputs[1], _check_mask(name, where)
    dtype = resolve(OPERATIONS[name], list(map(_kind, inputs)))[1].newbyteorder("=")
    if dtype.kind != "i" or (isinstance(mask, np.ndarray) and mask.ndim):
        return exponents  # see `_select`
    if not isinstance(exponents, core.ArrayBase):
        exponents = np.asarray(exponents, dtype)
    chosen: Any = core.empty(broadcast_shapes(mask.shape, exponents.shape), dtype, ordinal, False)
    core.copy(chosen, np.zeros((), dtype))
    core.select(chosen, mask, exponents, chosen)
    return chosen


def _cast(x: Any, dtype: Any) -> Any:
    if isinstance(x, core.ArrayBase):
        array: Any = x
        if 0 not in array.strides:
            return array.astype(dtype.newbyteorder("="), copy=False)
        # Converts repeated elements once, and repeats them again: NumPy's order of the result's
        # axes depends on which strides are 0.
        once = array[tuple(slice(1 if stride == 0 else None) for stride in array.strides)]
        return core.broadcast_to(once.astype(dtype.newbyteorder("=")), array.shape)
    if isinstance(x, np.generic | np.ndarray):
        return convert(x, dtype)[()]
    return _number_as(x, dtype)[()]


def _select(name: str, result: Any, where: Any, out: Any, casting: str, order: str) -> Any:
    mask = _check_mask(name, where)
    if isinstance(mask, np.ndarray) and mask.ndim:
        raise TypeError(f"{name}(): where is in host memory, the operands are on {result.device}")
    shape = broadcast_shapes(mask.shape, result.shape)
    if out is None:
        out = found = core.empty_like(result, result.dtype, result._ordinal, order, shape)
    else:
        found = check_out(name, out, shape, result.dtype, result._ordinal, casting)
    core.select(found, _apart(mask, found), result, found)
    return out


# ---- Assignment ----


_asarray: Any = in_default_mode(np.asarray)


def assign(view: Any, value: Any) -> None:
    if view._is_readonly:
        raise ValueError("assignment to a read-only array")
    value = core.as_array(value)
    if isinstance(value, np.integer) and view.dtype.kind == "i":
        value = int(value)  # it has to fit, as in NumPy; unsigned types wrap
    if is_scalar(value):
        if type(value) in NUMBERS:
            host = _asarray(value, view.dtype)  # OverflowError and TypeError are NumPy's
        else:
            host = np.asarray(native(value))
            warn_of_complex(host.dtype, view.dtype)
        core.copy(view, host)
        return
    find_place("assignment", (view, value))
    missing = value.ndim - view.ndim
    if missing > 0 and all(size == 1 for size in value.shape[:missing]):
        value = value.reshape(value.shape[missing:])
    if not broadcasts(value.shape, view.shape):
        raise ValueError(
            f"could not broadcast input from shape {value.shape} into shape {view.shape}"
        )
    warn_of_complex(value.dtype, view.dtype)
    core.copy(view, _apart(value, view))


def assign_where(array: Any, mask: Any, value: Any) -> None:
    """Sets the elements of an Array for which a mask is true to a number."""
    if array._is_readonly:
        raise ValueError("assignment to a read-only array")
    find_place("assignment", (array, mask))
    if mask.shape != array.shape:
        raise IndexError(
            f"the mask has the shape {mask.shape} and the array {array.shape}: they must be equal"
        )
    value = core.as_array(value)
    if np.ndim(value) != 0:
        raise TypeError(
            "the elements that a mask selects are set to one number, not to an array: use "
            "pkg.where(mask, values, x)"
        )
    number = core.empty((), array.dtype, array._ordinal, False)
    assign(number, np.asarray(value) if isinstance(value, np.integer) else value)
    core.select(array, _apart(mask, array), number, array)


def _apart(x: Any, target: Any) -> Any:
    """Returns `x`, or a copy if writing `target` could change its elements before they are read."""
    if not isinstance(x, core.ArrayBase) or not core.shares_memory(x, target):
        return x
    layout = ("_pointer", "dtype", "shape", "strides")
    is_same = all(getattr(x, name) == getattr(target, name) for name in layout)
    return x if is_same else x.copy()  # type: ignore[attr-defined]


# ---- Powers ----


def is_by_products(exponent: Any) -> bool:
    """Tells whether `**` computes powers with this number by products, or by the square root."""
    if isinstance(exponent, bool) or not isinstance(exponent, int | float):
        return False
    return abs(exponent) <= _MAX_EXPONENT and (exponent == int(exponent) or exponent == 0.5)


def power(base: Any, exponent: Any) -> Any:
    """Computes base ** exponent; at least one operand is an Array.

    Returns NotImplemented if an operand is neither an array nor a number.
    """
    for x in (base, exponent):
        if isinstance(x, np.ndarray) and has_own_rules(x):
            raise refusal("an operand of **", x)
    number = exponent = type_number(exponent)
    if -1 != gpu_of(exponent) != gpu_of(base) != -1:
        find_place("power", (base, exponent))  # raises ValueError
    if isinstance(exponent, core.ArrayBase | np.ndarray | np.generic) and exponent.ndim == 0:
        number = exponent.item()  # type: ignore[union-attr]
    if gpu_of(base) < 0 or not is_by_products(number):
        return _compute(OPERATIONS["power"], (base, exponent), {})
    if number is not exponent:
        dtype = np.result_type(base.dtype, exponent.dtype)
        base = base.astype(dtype.newbyteorder("="), copy=False)
    if number == 0.5 and base.dtype.kind in "fc":
        return OPERATIONS["sqrt"](base)
    if number == 2 and base.dtype.kind in ("iufc" if isinstance(number, int) else "fc"):
        return OPERATIONS["square"](base)
    return core.slow_paths["raised"](float(number) if isinstance(number, float) else int(number))(
        base
    )


core.slow_paths.update(call=call, operator=call_operator, explain=explain, finish=finish)
