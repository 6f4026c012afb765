"""Operands with rules of their own are dispatched as NumPy does, or refused; never unwrapped.

The table is every public function by every kind of operand, in every argument that takes one.
"""

from __future__ import annotations

import inspect
import operator
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import cases
import numpy as np
import pytest
from shared import library

import pkg as pcd

pytestmark = pytest.mark.usefixtures("quiet")

# ---- The table: functions ----

#: Parameters that take arrays, and those that take sequences of them.
OPERANDS = ("x", "a", "b", "obj", "matrix", "condition", "y", "fill_value", "start", "stop", "n")
SEQUENCES = ("arrays", "arrays_and_dtypes")

#: Values of the other parameters, where one is needed.
OTHERS = {
    **{"shape": (1, 3), "dtype": "f8", "axis": 0, "axes": (0,), "source": 0, "destination": 0},
    **{"from_": "f4", "to": "f8", "kind": "integral", "expr": "a + 1", "function": abs},
}

#: Values beside the operand that is of a certain kind.
PLAIN = {"fill_value": 2.0, "start": 0, "stop": 3, "n": 3}

#: Functions without operands: of devices, streams and memory, texts and types.
WITHOUT = frozenset(
    "config cuda_is_available default_device device_count free_cached_memory get_default_device "
    "get_include get_library_dir get_num_threads helloworld memory_info set_default_device "
    "set_memory_limit set_num_threads "
    "show_config stream synchronize "
    "empty ones zeros Expression MemoryInfo Stream CudaError Array finfo iinfo isdtype "
    "__array_namespace_info__ fuse evaluate".split()
)


def _parameters(function: Any) -> list[inspect.Parameter]:
    if type(function) is type(pcd.add):
        kind = inspect.Parameter.POSITIONAL_ONLY
        return [inspect.Parameter(name, kind) for name in "ab"[: function.nin]]
    return list(inspect.signature(function).parameters.values())


def _calls() -> Iterator[tuple[str, str]]:
    """Yields each public function with each of its parameters that takes an operand."""
    for name in pcd.__all__:
        function = getattr(pcd, name)
        if not callable(function) or isinstance(function, np.dtype) or name in WITHOUT:
            continue
        names = [parameter.name for parameter in _parameters(function)]
        found = [one for one in names if one in (*OPERANDS, *SEQUENCES, "from_")]
        assert found, f"which parameters of {name}() take operands? Add them to OPERANDS"
        yield from ((name, one) for one in found)


def _call(name: str, target: str, x: Any, two_dimensional: Any, **more: Any) -> Any:
    """Calls a function with `x` as one of its operands, and plain values as the others."""
    function = getattr(pcd, name)
    args: list[Any] = []
    kwargs: dict[str, Any] = dict(more)
    plain = np.arange(1.0, 4.0)
    x = two_dimensional if name in ("trace", "matrix_transpose") else x
    for parameter in _parameters(function):
        one = parameter.name
        if one == target:
            value = [x, x] if one in SEQUENCES else x
        elif one in PLAIN:
            value = PLAIN[one]
        elif one in OPERANDS:
            value = plain
        elif parameter.default is parameter.empty or (name, one) == ("arange", "stop"):
            value = OTHERS[one]
        else:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += value
        elif parameter.kind is parameter.KEYWORD_ONLY:
            kwargs[one] = value
        else:
            args.append(value)
    return function(*args, **kwargs)


CALLS = sorted(set(_calls()))
EACH_CALL = pytest.mark.parametrize(("name", "target"), CALLS, ids=lambda x: str(x))

#: Functions of the types of their operands alone, which have nothing to lose.
OF_TYPES = ("result_type", "can_cast")


# ---- The table: kinds ----


class Unwrapped(AssertionError):
    """Raised when an operand is made a plain array."""


class Own:
    """Has only the ufunc protocol of an array; must not become a plain array."""

    shape, ndim, dtype, size = (3,), 1, np.dtype(float), 3

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise Unwrapped

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return self


class OwnFunctions(Own):
    """Answers all of NumPy's functions with itself."""

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        return self


class OwnSquare(OwnFunctions):
    shape, ndim, size = (3, 3), 2, 9


class Opposed(Own):
    """Takes part in no ufunc."""

    __array_ufunc__ = None  # type: ignore[assignment]


class Masked:
    """Has a mask, but no protocol."""

    def __init__(self) -> None:
        self._data = np.arange(3.0)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {**self._data.__array_interface__, "mask": np.array([True, False, False])}


def _never(block: Any) -> Any:
    raise Unwrapped


def _dask(shape: tuple[int, ...]) -> Any:
    da = library("dask.array")
    return da.ones(shape, chunks=2).map_blocks(
        _never, dtype=float, meta=np.empty((0,) * len(shape))
    )


def _masked(shape: tuple[int, ...]) -> Any:
    data = np.full(shape, 1e30)
    data.flat[1:] = 1
    mask = np.zeros(shape, bool)
    mask.flat[0] = True
    return np.ma.array(data, mask=mask)


def _matrix(shape: tuple[int, ...]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return np.asmatrix(np.ones(shape))


def _quantity(shape: tuple[int, ...]) -> Any:
    units = library("astropy.units")
    return np.ones(shape) * units.m


def _dataarray(shape: tuple[int, ...]) -> Any:
    xr = library("xarray")
    return xr.DataArray(np.ones(shape), dims=tuple("xy"[: len(shape)]))


def _lazy_dataarray(shape: tuple[int, ...]) -> Any:
    xr = library("xarray")
    return xr.DataArray(_dask(shape), dims=tuple("xy"[: len(shape)]))


def _pandas(make: str) -> Callable[[Any], Any]:
    def made(shape: tuple[int, ...]) -> Any:
        pd = library("pandas")
        if make == "DataFrame" or len(shape) == 2:
            return pd.DataFrame({"x": [1.0, np.nan], "y": [2.0, 3.0]}, index=["r", "s"])
        values = [1, None, 3]
        if make == "Series":
            return pd.Series(values, index=list("abc"))
        return pd.Index([1, 2, 3]) if make == "Index" else pd.array(values, dtype="Int64")

    return made


#: Each kind: makes one of a shape.
KINDS: dict[str, Callable[[tuple[int, ...]], Any]] = {
    "own": lambda shape: Own(),
    "own functions": lambda shape: OwnFunctions() if len(shape) == 1 else OwnSquare(),
    "opposed": lambda shape: Opposed(),
    "masked interface": lambda shape: Masked(),
    "masked": _masked,
    "matrix": _matrix,
    "quantity": _quantity,
    "Series": _pandas("Series"),
    "DataFrame": _pandas("DataFrame"),
    "Index": _pandas("Index"),
    "extension": _pandas("extension"),
    "DataArray": _dataarray,
    "Dataset": lambda shape: library("xarray").Dataset({"v": _dataarray(shape)}),
    "dask": _dask,
    "DataArray of dask": _lazy_dataarray,
}
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


def _is_lost(result: Any) -> bool:
    """Tells whether a result is a plain array, which loses the operand's meaning."""
    return type(result) is np.ndarray or isinstance(result, pcd.Array)


#: Functions for which the class itself gives a plain array, or NumPy a plain number.
BY_THEIR_OWN_RULES = {
    ("extension", "astype"),
    ("masked", "count_nonzero"),
    ("quantity", "count_nonzero"),
    *(("quantity", name) for name in "isfinite isinf isnan sign signbit copysign".split()),
    *(("Index", name) for name in "equal not_equal less less_equal greater greater_equal".split()),
}


@EACH_KIND
@EACH_CALL
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_nothing_is_unwrapped(name: str, target: str, kind: str) -> None:
    make = KINDS[kind]
    x = make((3,))
    try:
        result = _call(name, target, x, make((3, 3)))
    except Unwrapped:
        raise
    except Exception as error:
        assert not isinstance(error, AttributeError | RecursionError | Warning)
        return
    if name in OF_TYPES:
        assert isinstance(result, np.dtype | bool)
        return
    if (kind, name) in BY_THEIR_OWN_RULES:
        return
    assert not _is_lost(result), f"{name}({target}=...) of {kind}: {result!r}"
    if kind == "masked" and not isinstance(result, np.ma.MaskedArray):
        assert isinstance(result, np.generic) and abs(result) < 1e29
    elif kind == "masked":
        assert np.ma.getmaskarray(result).any() or not (np.ma.getdata(result) == 1e30).any()
    elif kind == "quantity" and not isinstance(result, np.ndarray):
        assert isinstance(result, bool)
    elif "dask" in kind:
        assert getattr(result, "chunks", None) is not None


@EACH_KIND
@pytest.mark.parametrize(("name", "target"), [c for c in CALLS if c[0] not in OF_TYPES])
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_the_error_says_what_was_given(name: str, target: str, kind: str) -> None:
    """A refusal names the class and says what to pass instead."""
    x = KINDS[kind]((3,))
    try:
        _call(name, target, x, KINDS[kind]((3, 3)))
    except TypeError as error:
        if "rules of its own" in str(error):
            assert re.search("pass|use ", str(error))
            assert type(x).__qualname__ in str(error) or "DataFrame" in str(error)
    except Exception:
        return


#: Operands without rules of their own are taken everywhere.
ACCEPTED: dict[str, Callable[[], Any]] = {
    "memmap": lambda: np.ones(3).view(np.memmap),
    "list": lambda: [1.0, 1.0, 1.0],
    "tuple": lambda: (1.0, 1.0, 1.0),
    "list of scalars": lambda: [np.float64(1), 1, np.ones(())],
    "buffer": lambda: memoryview(np.ones(3)),
}


@pytest.mark.parametrize("kind", ACCEPTED)
@pytest.mark.parametrize("name", ["add", "sum", "dot", "asarray", "concatenate", "where"])
def test_what_has_no_rules_is_accepted(name: str, kind: str) -> None:
    (target,) = {one for function, one in CALLS if function == name} & {"a", "x", "obj", "arrays"}
    given, plain = ACCEPTED[kind](), np.ones(3)
    result = _call(name, target, given, None)
    assert np.array_equal(result, _call(name, target, plain, None))


# ---- The table: places ----


def _arrays(x: Any) -> tuple[Any, Any]:
    array = pcd.asarray(np.arange(3.0), device="cuda")
    return array, array.copy()


#: Each place of an operand besides those of the functions above: what is called with it.
PLACES: dict[str, Callable[[Any], Any]] = {
    "in a list": lambda x: pcd.add([x], 1),
    "in nested lists": lambda x: pcd.less(np.ones(3), [[x, x]]),
    "of one operand": lambda x: pcd.sqrt(x),
    "with where": lambda x: pcd.add(np.ones(3), 1, out=np.full(3, 7.0), where=x),
    "with where in a list": lambda x: pcd.add(
        np.ones((1, 3)), 1, out=np.full((1, 3), 7.0), where=[x]
    ),
    "with out": lambda x: pcd.add(x, 1, out=np.empty(3)),
    "with a tuple of out": lambda x: pcd.add(x, 1, out=(np.empty(3),)),
    "with casting": lambda x: pcd.add(x, 1, casting="unsafe", dtype="i4"),
    "of a comparison with casting": lambda x: pcd.less(x, 1, casting="no"),
    "beyond the type": lambda x: pcd.less(x, 2**70),
    "with a device": lambda x: pcd.add(x, 1, device="cpu"),
    "in a list, on a GPU": lambda x: pcd.add([x], 1, device="cuda"),
    "out of an operation": lambda x: pcd.add(np.ones(3), 1, out=x),
    "out of an operation of Arrays": lambda x: pcd.add(_arrays(x)[0], 1, out=x),
    "out of sum": lambda x: pcd.sum(np.ones((3, 3)), 0, out=x),
    "out of mean": lambda x: pcd.mean(np.ones((3, 3)), 0, out=x),
    "out of dot": lambda x: pcd.dot(np.ones(3), 2, out=x),
    "out of asnumpy": lambda x: pcd.asnumpy(np.ones(3), out=x),
    "out of asnumpy of an Array": lambda x: pcd.asnumpy(_arrays(x)[0], out=x),
    "out of evaluate": lambda x: pcd.evaluate("a + 1", {"a": np.ones(3)}, {}, out=x),
    "of evaluate": lambda x: pcd.evaluate("a + 1", {"a": x}, {}),
    "of an Expression, in a list": lambda x: pcd.Expression("a + 1")([x]),
    "of asarray, in a list": lambda x: pcd.asarray([x]),
    "of asarray, on a GPU": lambda x: pcd.asarray([x], device="cuda"),
    "x + y": lambda x: _arrays(x)[0] + x,
    "y + x": lambda x: x + _arrays(x)[0],
    "x < y": lambda x: _arrays(x)[0] < x,
    "x += y": lambda x: operator.iadd(_arrays(x)[0], x),
    "x ** y": lambda x: _arrays(x)[0] ** x,
    "x + [y]": lambda x: _arrays(x)[0] + [x],
    "x[...] = y": lambda x: operator.setitem(_arrays(x)[0], ..., x),
    "x[...] = [y]": lambda x: operator.setitem(_arrays(x)[0], ..., [x]),
    "x.fill(y)": lambda x: _arrays(x)[0].fill(x),
    "np.add": lambda x: np.add(_arrays(x)[0], x),
    "np.add with where": lambda x: np.add(_arrays(x)[0], 1, where=x),
    "np.add with out": lambda x: np.add(_arrays(x)[0], 1, out=x),
    "np.sum with out": lambda x: np.sum(_arrays(x)[0], out=x),
    "np.copyto": lambda x: np.copyto(_arrays(x)[0], x),
    "np.concatenate": lambda x: np.concatenate([_arrays(x)[0], x]),
    "np.where": lambda x: np.where(_arrays(x)[0] > 1, _arrays(x)[1], x),
    "np.dot": lambda x: np.dot(_arrays(x)[0], x),
    "np.full_like": lambda x: np.full_like(_arrays(x)[0], x),
    "np.clip": lambda x: np.clip(_arrays(x)[0], x, 2),
    "np.clip by an Array": lambda x: np.clip(x, 0, _arrays(x)[0]),
    "a bound of clip": lambda x: pcd.clip(np.ones(3), x, 2),
    "a bound of clip of an Array": lambda x: pcd.clip(_arrays(x)[0], None, x),
    "a bound of clip, and what is clipped": lambda x: pcd.clip(x, None, x),
    "a bound of clip of a number": lambda x: pcd.clip(1, x, None),
}

#: The classes' own answers.
ANSWERED = {
    ("Index", "beyond the type"),
    ("Index", "with where"),
    *(
        (kind, f"with {out}")
        for kind in ("Index", "extension", "matrix")
        for out in ("out", "a tuple of out")
    ),
}


#: Kinds that also have a form without dimensions, which is easily taken for a number.
ZERO_DIMENSIONAL = ("masked", "quantity", "dask", "DataArray")


@pytest.mark.parametrize(
    ("kind", "shape"),
    [*((kind, (3,)) for kind in KINDS), *((kind, ()) for kind in ZERO_DIMENSIONAL)],
)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_no_place_unwraps(place: str, kind: str, shape: tuple[int, ...]) -> None:
    x = KINDS[kind](shape)
    try:
        result = PLACES[place](x)
    except Unwrapped:
        raise
    except Exception as error:
        # NumPy asks the class of `where`, which pandas' and xarray's do not expect.
        is_theirs = isinstance(error, RecursionError) and "with where" in place
        assert is_theirs or not isinstance(
            error, AttributeError | RecursionError | SystemError | Warning
        )
        return
    if (kind, place) in ANSWERED:
        return
    assert result is not None
    assert not _is_lost(result), f"{place} of {kind}: {result!r}"


# ---- As NumPy ----

#: Functions without values for some elements, which a masked array masks.
DOMAINS = "sqrt log log2 log10 tan arcsin arccos arccosh arctanh divide floor_divide remainder fmod"


@cases.each_device()
@pytest.mark.parametrize("name", DOMAINS.split())
def test_masked_arrays_mask_what_has_no_value(name: str, device: str) -> None:
    x = np.ma.array([-2.0, 0.0, 0.5, 1.0, 3.0], mask=[0, 0, 0, 0, 1])
    y = np.ma.array([1.0, 0.0, 2.0, 1e-310, 1.0], mask=[0, 0, 0, 0, 1])
    args = (x, y)[: getattr(pcd, name).nin]
    result, wanted = getattr(pcd, name)(*args, device=device), getattr(np, name)(*args)
    assert np.ma.getmaskarray(result).tolist() == np.ma.getmaskarray(wanted).tolist()
    assert np.ma.allclose(result, wanted)


@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "mean", "any", "all"])
def test_reductions_are_left_to_methods(name: str) -> None:
    """pandas' objects too: their methods skip missing values."""
    pandas = pytest.importorskip("pandas")
    for x in (pandas.Series([1.0, np.nan, 0.0]), pandas.DataFrame({"a": [1, 0], "b": [2, 3]})):
        ours, numpys = getattr(pcd, name)(x), getattr(np, name)(x)
        assert type(ours) is type(numpys) and np.array_equal(ours, numpys)


@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "mean", "any", "all"])
def test_nothing_is_written_where_a_reduction_is_refused(name: str) -> None:
    out = np.full((), 7.0)
    with pytest.raises(TypeError, match="out has no mask and an operand is a numpy.ma.MaskedArray"):
        getattr(pcd, name)(np.ma.array([1.0, 2.0], mask=[0, 1]), out=out)
    assert out == 7

    class Own(np.ndarray):
        pass

    x = np.array([1.0, 2.0]).view(Own)
    assert getattr(pcd, name)(x, out=out) is out
    assert out == getattr(np, name)([1.0, 2.0])


def _quantities(library: str) -> tuple[Any, Any]:
    """Returns a unit of length and one of time."""
    if library == "astropy":
        units = pytest.importorskip("astropy.units")
        return units.m, units.s
    registry = pytest.importorskip("pint").UnitRegistry()
    return registry.m, registry.s


@pytest.mark.parametrize("library", ["astropy", "pint"])
def test_quantities_keep_their_units(library: str) -> None:
    """The results are those of NumPy's functions, of large arrays too, and so are the errors."""
    metre, second = _quantities(library)
    for n in (3, 100_000):
        x, t = np.arange(1.0, n + 1) * metre, np.full(n, 2.0) * second
        for name in ("add", "subtract", "multiply", "sqrt", "less", "maximum", "floor", "hypot"):
            operands = [x, x][: getattr(pcd, name).nin]
            got, want = getattr(pcd, name)(*operands), getattr(np, name)(*operands)
            assert type(got) is type(want) and str(got) == str(want), name
        assert str(pcd.multiply(x, t)) == str(x * t)
        assert str(pcd.add(x, 1000 * x)) == str(x + 1000 * x)
        for refused in (lambda x=x, t=t: pcd.add(x, t), lambda x=x: pcd.exp(x)):
            with pytest.raises(Exception, match="(?i)dimension|convert"):
                refused()


@pytest.mark.parametrize("library", ["astropy", "pint"])
def test_quantities_are_refused_by_name(library: str) -> None:
    """No rule says which unit the result has."""
    advice = {"astropy": r"x\.to_value\(unit\)", "pint": r"x\.to\(unit\)\.magnitude"}[library]
    metre, _ = _quantities(library)
    x = np.ones(2) * metre
    for call in (
        lambda: pcd.erf(x),
        lambda: pcd.asarray(x),
        lambda: pcd.evaluate("x + 1", {"x": x}),
        lambda: pcd.fingerprint(x),
    ):
        with pytest.raises(TypeError, match=rf"is an? .*Quantity, .*: .*{advice}"):
            call()
    if library == "pint":
        with pytest.raises(TypeError, match=rf"power\(\) is .*{advice}"):
            pcd.power(x, 2)
    else:
        assert str(pcd.power(x, 2)) == str(x**2) and str(pcd.divide(x, x)) == str(x / x)
