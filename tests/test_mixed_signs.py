"""Comparisons of signed integers with uint64 are exact, as NumPy's, on every way into the library.

Both converted to float64, as other operations on them are, numbers near 2**63 would be equal.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import cases
import numpy as np
import oracle
import pytest

import pkg as pcd

SYMBOLS = dict(zip(oracle.COMPARISONS, ["==", "!=", "<", "<=", ">", ">="], strict=True))
SIGNED = ["i1", "i2", "i4", "i8", "q", ">i8"]
UNSIGNED = ["u8", "Q", ">u8"]

BOUNDARIES = [0, 1, 127, 128, 2**31, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 513, 2**63 - 1]
EVERY = [*BOUNDARIES, 2**63, 2**63 + 1, 2**64 - 1025, 2**64 - 1]


def _signed(dtype: Any) -> np.ndarray:
    info = np.iinfo(dtype)
    values = [sign * x - less for x in BOUNDARIES for sign in (1, -1) for less in (0, 1)]
    return np.array([x for x in values if info.min <= x <= info.max], dtype)


def _unsigned(dtype: Any) -> np.ndarray:
    return np.array(EVERY, dtype)


def _pairs(native: bool = False) -> list[tuple[np.ndarray, np.ndarray]]:
    """Each signed type with uint64, in both orders, all numbers of one with all of the other."""
    pairs = []
    for s, u in itertools.product(SIGNED, UNSIGNED):
        if native and ">" in s + u:
            continue
        a, b = np.broadcast_arrays(_signed(s)[:, None], _unsigned(u))
        pairs += [(a.copy(), b.copy()), (b.copy(), a.copy())]
    return pairs


def _wanted(name: str, a: Any, b: Any) -> np.ndarray:
    """Returns the answers of Python's own integers."""
    compare = np.frompyfunc(oracle.COMPARISONS[name], 2, 1)
    return np.asarray(compare(np.asarray(a).astype(object), np.asarray(b).astype(object)), bool)


def _array_operator(name: str, a: Any, b: Any) -> Any:
    x, y = (pcd.asarray(v, device="cuda") for v in (a, b))
    return pcd.asnumpy(oracle.COMPARISONS[name](x, y))


def _fused(name: str, a: Any, b: Any) -> Any:
    return pcd.fuse(lambda x, y: oracle.COMPARISONS[name](x, y))(a, b)


def _evaluate(name: str, a: Any, b: Any, **kwargs: Any) -> Any:
    return pcd.Expression(f"a {SYMBOLS[name]} b")(a, b, **kwargs)


def _on_arrays(name: str, a: Any, b: Any) -> Any:
    return pcd.asnumpy(_evaluate(name, *(pcd.asarray(v, device="cuda") for v in (a, b))))


def _out(name: str, a: Any, b: Any) -> Any:
    out = np.full(np.broadcast_shapes(a.shape, b.shape), 7, np.int8).view(bool)
    assert getattr(pcd, name)(a, b, out=out) is out
    return out


def _where(name: str, a: Any, b: Any) -> Any:
    everywhere = np.zeros(np.broadcast_shapes(a.shape, b.shape), bool)
    for mask in (np.arange(everywhere.size).reshape(everywhere.shape) % 2 == k for k in (0, 1)):
        getattr(pcd, name)(a, b, where=mask, out=everywhere)
    return everywhere


def _on_device(name: str, a: Any, b: Any) -> Any:
    return getattr(pcd, name)(a, b, device="cuda")


gpu = pytest.mark.gpu
WAYS: dict[str, Any] = {
    "operation": lambda name, a, b: getattr(pcd, name)(a, b),
    "ufunc": lambda name, a, b: getattr(pcd, name).ufunc(a, b),
    "out": _out,
    "where": _where,
    "outer": lambda name, a, b: np.squeeze(
        np.array([getattr(pcd, name).outer(x, y) for x, y in zip(a, b, strict=True)])
    ).diagonal(axis1=1, axis2=2),
    "expression": _evaluate,
    "out of another type": lambda name, a, b: _evaluate(
        name, a, b, out=np.empty(np.shape(a), "f4")
    ).astype(bool),
    "fuse": _fused,
    "inside": lambda name, a, b: pcd.evaluate(f"where(a {SYMBOLS[name]} b, 1, 0) + 0 * 1") == 1,
    "device": pytest.param(_on_device, marks=gpu),
    "Array": pytest.param(
        lambda name, a, b: cases.call(getattr(pcd, name), "array", a, b), marks=gpu
    ),
    "operator": pytest.param(_array_operator, marks=gpu),
    "expression of Arrays": pytest.param(_on_arrays, marks=gpu),
    "expression on a device": pytest.param(
        lambda name, a, b: _evaluate(name, a, b, device="cuda"), marks=gpu
    ),
}


@pytest.mark.parametrize("name", oracle.COMPARISONS)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_way(name: str, way: Callable[..., Any]) -> None:
    for a, b in _pairs():
        result = way(name, a, b)
        oracle.assert_same(result, _wanted(name, a, b), name, (a, b), f"{a.dtype} {b.dtype}")


@cases.each_place()
@pytest.mark.parametrize("name", oracle.COMPARISONS)
def test_scalars_and_large_arrays(name: str, place: str) -> None:
    operation = getattr(pcd, name)
    for a, b in _pairs(native=True):
        for args in (
            (a[0, 0], b),
            (a, b[0, -1]),
            (a[:, :1], b[:1]),
            (a.T, b.T),
            (a[::-2], b[::-2]),
        ):
            oracle.assert_same(
                cases.call(operation, place, *args), _wanted(name, *args), name, args
            )
    a, b = (np.tile(x.reshape(-1), 300) for x in _pairs()[6])
    assert a.size > 65536
    oracle.assert_same(cases.call(operation, place, a, b), getattr(np, name)(a, b))


def test_numpys_ufuncs_of_types() -> None:
    for name in oracle.COMPARISONS:
        types = getattr(pcd, name).types
        assert {"lL->?", "Ll->?"} <= set(types) or {"qQ->?", "Qq->?"} <= set(types)
    assert all(len(set(t.split("->")[0])) == 1 for t in pcd.add.types)


def test_float16_and_other_kinds_are_as_ever() -> None:
    """NumPy still converts integers beside floats to float64."""
    a, b = np.array([2**53 + 1], "u8"), np.array([2.0**53])
    assert pcd.equal(a, b).tolist() == np.equal(a, b).tolist() == [True]
    assert pcd.minimum(a, np.array([-1])).dtype == np.float64
