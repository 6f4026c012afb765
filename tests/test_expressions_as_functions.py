"""Expressions and fused functions are functions to other libraries: names, tasks, wrappers."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from shared import library

import pkg as pcd


@pcd.fuse
def contrast(a: Any, b: Any) -> Any:
    """The contrast of two values."""
    return (a - b) / (a + b)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Expression": pcd.Expression("(a - b) / (a + b)"),
    "spaces": pcd.Expression("  (a-b) /(a+b) "),
    "fused": contrast,
    "expression of fused": contrast.expression,  # type: ignore[attr-defined]
    "lambda": pcd.fuse(lambda a, b: (a - b) / (a + b)),
    "expression of lambda": pcd.fuse(lambda a, b: (a - b) / (a + b)).expression,
    "pickled": pickle.loads(pickle.dumps(pcd.Expression("(a - b) / (a + b)"))),
    "pickled fused": pickle.loads(pickle.dumps(contrast.expression)),  # type: ignore[attr-defined]
    "copied": copy.deepcopy(contrast.expression),  # type: ignore[attr-defined]
}
EACH = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)

A = np.arange(1.0, 13.0).reshape(3, 4)
B = A[::-1] + 0.5
WANTED = (A - B) / (A + B)


@EACH
def test_names(function: Any) -> None:
    assert function.__name__.isidentifier() or function.__name__ == "<lambda>"
    assert isinstance(function.__qualname__, str)
    wrapped = functools.wraps(function)(lambda *args: function(*args))
    assert wrapped.__name__ == function.__name__ and wrapped(3.0, 1.0) == 0.5
    assert list(inspect.signature(function).parameters)[:2] == ["a", "b"]
    assert list(inspect.signature(wrapped).parameters)[:2] == ["a", "b"]


def test_names_of_functions() -> None:
    assert FUNCTIONS["Expression"].__name__ == "expression"
    assert contrast.__name__ == contrast.__qualname__ == "contrast"
    assert contrast.__doc__ == "The contrast of two values."
    for name in ("expression of fused", "pickled fused", "copied"):
        assert FUNCTIONS[name].__name__ == FUNCTIONS[name].__qualname__ == "contrast"
    assert pcd.Expression.__name__ == pcd.Expression.__qualname__ == "Expression"
    assert FUNCTIONS["Expression"] == FUNCTIONS["expression of fused"]  # whatever their names


def test_warnings_name_the_function() -> None:
    """A warning from `round` or a fused function must not name `evaluate`."""
    half = np.array([6e4], "f2")
    for function, name in ((contrast, "contrast"), (pcd.round, "round")):
        for _ in range(2):
            with pytest.warns(RuntimeWarning, match=f"overflow encountered in {name}$"):
                function(half, -half if name == "contrast" else 2)


@EACH
def test_xarray_apply_ufunc(function: Any) -> None:
    xr = library("xarray")
    library("dask.array")
    a, b = (xr.DataArray(x, dims=("y", "x"), coords={"x": list("pqrs")}) for x in (A, B))
    result = xr.apply_ufunc(function, a, b)
    assert (result.values == WANTED).all() and list(result.x.values) == list("pqrs")
    a, b = a.chunk({"y": 2}), b.chunk({"y": 2})
    lazy = xr.apply_ufunc(function, a, b, dask="parallelized", output_dtypes=[float])
    assert lazy.chunks is not None
    assert (lazy.compute(scheduler="synchronous").values == WANTED).all()


@EACH
def test_dask(function: Any) -> None:
    da = library("dask.array")
    a, b = da.from_array(A, chunks=2), da.from_array(B, chunks=2)
    for lazy in (
        da.map_blocks(function, a, b),
        da.map_blocks(function, a, b, dtype=float),
        da.blockwise(function, "ij", a, "ij", b, "ij", dtype=float),
        da.apply_gufunc(function, "(),()->()", a, b, output_dtypes=float),
    ):
        assert (lazy.compute(scheduler="synchronous") == WANTED).all()


def test_dask_tells_expressions_of_one_name_apart() -> None:
    da = library("dask.array")
    a = da.from_array(A, chunks=2)
    results = [da.map_blocks(pcd.Expression(text), a) for text in ("a + 1", "a * 2")]
    assert len({result.name for result in results}) == 2
    total = (results[0] + results[1]).compute(scheduler="synchronous")
    assert (total == A + 1 + A * 2).all()


@EACH
def test_users_of_functions(function: Any) -> None:
    assert (np.vectorize(function)(A, B) == WANTED).all()
    assert functools.partial(function, 3.0)(1.0) == 0.5
    assert functools.reduce(function, [3.0, 1.0]) == 0.5
    assert list(map(function, [3.0], [1.0])) == [0.5]
