"""Exceptions that a handler of np.seterrcall raises come out as raised, after one call of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from shared import on_gpu

import pkg as pcd

_HUGE = np.full(3, 1e200)
_SINGLE = np.ones(3, "f4")
_HALF = np.ones(5000, "f2")


CALLS: dict[str, Callable[[], Any]] = {
    "operation": lambda: pcd.multiply(_HUGE, _HUGE),
    "operation of a number": lambda: pcd.multiply(_HUGE, 1e200),
    "operation with out": lambda: pcd.multiply(_HUGE, _HUGE, out=np.empty(3)),
    "operation of two types": lambda: pcd.multiply(_HUGE, np.full(3, 3e38, "f4") * 1e200),
    "operation, converting": lambda: pcd.add(_SINGLE, 1e300),
    "operation, large": lambda: pcd.multiply(np.full(70000, 1e200)[::-1], 1e200),
    "operation where": lambda: pcd.multiply(_HUGE, _HUGE, where=np.ones(3, bool), out=np.empty(3)),
    "comparison, converting": lambda: pcd.less(_SINGLE, 1e300),
    "comparison, converting an int": lambda: pcd.less(_HALF, 70000),
    "comparison with out": lambda: pcd.greater(_SINGLE, 1e300, out=np.empty(3, bool)),
    "comparison with where": lambda: pcd.equal(_SINGLE, 1e300, where=True),
    "expression": lambda: pcd.evaluate("a * b", {"a": _HUGE, "b": _HUGE}),
    "expression, converting": lambda: pcd.evaluate("a < b", {"a": _SINGLE, "b": 1e300}),
    "expression with a constant": lambda: pcd.evaluate("a < 1e300", {"a": _SINGLE}),
    "expression, an int": lambda: pcd.evaluate("a + b", {"a": _HALF, "b": 70000}),
    "expression with out": lambda: pcd.evaluate("a * b", {"a": _HUGE, "b": _HUGE}, out=np.empty(3)),
    "reduced expression": lambda: pcd.evaluate("sum(a * b)", {"a": _HUGE, "b": _HUGE}),
    "reduction": lambda: pcd.prod(_HUGE),
}
GPU_CALLS: dict[str, Callable[[], Any]] = {
    "operation through a GPU": lambda: pcd.multiply(_HUGE, _HUGE, device="cuda"),
    "comparison through a GPU": lambda: pcd.less(_SINGLE, 1e300, device="cuda"),
    "comparison of an Array": lambda: pcd.less(on_gpu(_SINGLE), 1e300),
    "comparison of an Array with an int": lambda: pcd.less(on_gpu(_HALF), 70000),
    "operator of an Array": lambda: on_gpu(_HALF) + 70000,
    "comparing operator of an Array": lambda: on_gpu(_HALF) < 70000,
    "expression of an Array": lambda: pcd.evaluate("a < b", {"a": on_gpu(_HALF), "b": 70000}),
}


@pytest.mark.parametrize("error", [OverflowError, ZeroDivisionError, TypeError, KeyError])
@pytest.mark.parametrize(
    "call",
    [pytest.param(call, id=name) for name, call in CALLS.items()]
    + [pytest.param(call, id=name, marks=pytest.mark.gpu) for name, call in GPU_CALLS.items()],
)
def test_what_a_handler_raises(call: Callable[[], Any], error: type[Exception]) -> None:
    """Covers the call that makes a program, and the next one, which finds it."""
    calls = []
    raised = error("mine")

    def handler(kind: str, flags: int) -> None:
        calls.append(kind)
        raise raised

    for _ in range(2):
        calls.clear()
        with np.errstate(over="call", call=handler), pytest.raises(error) as info:
            call()
        assert info.value is raised
        assert calls == ["overflow"]


@pytest.mark.parametrize("k", [-1, 200, 300, -300, 2**40, 2**63, 2**64, 2**70, -(2**70), 10**400])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "i8", "u8"])
def test_comparisons_with_ints_beyond_the_type(dtype: str, k: int) -> None:
    """They are still answered, on every path."""
    a = np.array([0, 1, 100], dtype)
    for name in ("less", "less_equal", "equal", "not_equal", "greater", "greater_equal"):
        operation, wanted = getattr(pcd, name), getattr(np, name)(a, k)
        assert (operation(a, k) == wanted).all()
        assert (operation(k, a) == getattr(np, name)(k, a)).all()
        assert operation(a[0], k) == wanted[0]
        out = np.empty(3, bool)
        assert operation(a, k, out=out) is out
        assert (out == wanted).all()
        if dtype == "i8" and k != 2**63:
            assert (operation(a.tolist(), k) == wanted).all()
    e = pcd.Expression("a < k")
    for _ in range(2):
        assert (e(a, k) == (a < k)).all()
        assert (e(a, 2) == (a < 2)).all()


@pytest.mark.filterwarnings("always")
def test_warnings_name_the_operation() -> None:
    """Warnings name the operation on every path; ufuncs of divide and power have other names."""
    single = np.full(3, 1e30, "f4")
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("power", lambda: pcd.power(_HUGE, _HUGE)),
        ("power", lambda: pcd.power(_HUGE.tolist(), 2)),
        ("power", lambda: pcd.power(single, _HUGE)),
        ("power", lambda: pcd.power(single, 2.0, dtype="f4")),
        ("power", lambda: pcd.power(single, 2, order="F", signature="ff->f")),
        ("divide", lambda: pcd.divide([1.0], 0)),
        ("divide", lambda: pcd.divide(np.float32(1), np.arange(3))),
        ("divide", lambda: pcd.divide(np.arange(3), np.int8(0), where=True, dtype="f8")),
        ("multiply", lambda: pcd.multiply(single, single, dtype="f4")),
    ]
    for name, call in calls:
        with pytest.warns(RuntimeWarning) as caught:
            call()
        assert {str(one.message).rpartition(" in ")[2] for one in caught} == {name}
        with np.errstate(all="raise"), pytest.raises(FloatingPointError, match=f"in {name}$"):
            call()
