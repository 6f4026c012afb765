"""Memory stays constant over 100,000 calls, good ones and bad; operands are given back."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cases
import numpy as np
import pytest
from shared import fails, references_kept, resident_bytes

import pkg as pcd

CALLS = 100_000

A = np.arange(1.0, 101.0)
I4 = np.arange(1, 101, dtype="i4")
ZERO = np.zeros(100)
SHORT = np.ones(3)
OUT = np.empty(100)
READ_ONLY = np.zeros(100)
READ_ONLY.flags.writeable = False
STRIDED = np.ones((100, 2))[:, 0]
TEXT = np.array(["a", "b"])
MATRIX = np.ones((10, 10))
EXPRESSION = pcd.Expression("(a * k + b) / (a + 1)")


#: What a call that fails raises.
ERRORS = (ArithmeticError, TypeError, ValueError, RuntimeError)

#: name: (what is called, of how many calls the 100,000 are; slow paths get fewer)
WAYS: dict[str, tuple[Callable[[], Any], int]] = {
    "ints": (lambda: pcd.add(2**40, 2**41), CALLS),
    "floats": (lambda: pcd.divide(1.5, 2.5), CALLS),
    "complex": (lambda: pcd.multiply(1j, 2.5), CALLS),
    "arrays": (lambda: pcd.add(A, A), CALLS),
    "out": (lambda: pcd.add(A, A, out=OUT), CALLS),
    "numbers among arrays": (lambda: pcd.add(A, 2.5), CALLS),
    "in place": (lambda: pcd.negative(OUT, OUT), CALLS),
    "strided": (lambda: pcd.add(STRIDED, A), CALLS),
    "mixed types": (lambda: pcd.add(A, I4), CALLS),
    "cpu by name": (lambda: pcd.add(A, A, device="cpu"), CALLS // 2),
    "flags": (lambda: pcd.divide(A, ZERO), CALLS // 2),
    "reduce": (lambda: pcd.add.reduce(A), CALLS),
    "trace": (lambda: pcd.trace(MATRIX), CALLS // 2),
    "overflow": (fails(ERRORS, pcd.add, 2**62, 2**62), CALLS),
    "huge int": (fails(ERRORS, pcd.add, 2**70, 1), CALLS),
    "zero": (fails(ERRORS, pcd.divide, 1, 0), CALLS),
    "shapes": (fails(ERRORS, pcd.add, A, SHORT), CALLS // 2),
    "read-only": (fails(ERRORS, pcd.add, A, A, out=READ_ONLY), CALLS // 2),
    "text": (fails(ERRORS, pcd.add, TEXT, TEXT), CALLS // 5),
    "device": (fails(ERRORS, pcd.add, A, A, device="gpu"), CALLS),
    "keyword": (fails(ERRORS, pcd.add, A, A, wrong=1), CALLS // 2),
    "out of the wrong type": (fails(ERRORS, pcd.add, A, A, out=I4), CALLS // 2),
    "attribute": (lambda: hasattr(pcd.add, "nothing"), CALLS),
    "expression": (lambda: EXPRESSION(A, I4, 2), CALLS),
    "expression of numbers": (lambda: pcd.evaluate("2 * n * x", {"n": 3, "x": A}), CALLS),
    "expression with out": (lambda: EXPRESSION(A, I4, 2, out=OUT), CALLS),
    "expression, the long way": (lambda: EXPRESSION(A, I4, 2, order="C"), CALLS),
    "expression reduced": (lambda: pcd.evaluate("sum(x * 2)", {"x": A}), CALLS),
    "expression made": (lambda: pcd.Expression("a * b + 1")(A, A), CALLS // 5),
    "expression of flags": (lambda: pcd.evaluate("x / y", {"x": A, "y": ZERO}), CALLS // 2),
    "expression of wrong order": (fails(ERRORS, EXPRESSION, A, A, 2, order="X"), CALLS // 2),
    "expression of text": (fails(ERRORS, EXPRESSION, A, TEXT, 2), CALLS // 2),
    "no program": (
        fails(ERRORS, pcd.core.Program, ["f8"], [("f8", 1)], [(77, "f8", (0, 1))], "f"),
        CALLS,
    ),
}


def _traced_growth(call: Callable[[], Any]) -> int:
    """Returns the bytes of Python and NumPy that 1000 calls leave."""
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(1000):
        call()
    gc.collect()
    return tracemalloc.get_traced_memory()[0] - before


def _resident_growth(call: Callable[[], Any], calls: int) -> int:
    """Returns the bytes by which the process is larger after the calls."""
    gc.collect()
    before = resident_bytes()
    for _ in range(calls):
        call()
    gc.collect()
    return resident_bytes() - before


def _least(growth: Callable[[], int], limit: int) -> int:
    """Returns the growth that is below a limit, or the third.

    A leak shows each time.  Objects that replace older ones in Python's caches, and a huge page
    that the system makes of small ones, do so once.
    """
    for _ in range(3):
        found = growth()
        if found < limit:
            break
    return found


def _check(call: Callable[[], Any], calls: int) -> None:
    """Fails if the counts of Python and NumPy, or the process, grow with the calls."""
    with np.errstate(all="ignore"):
        for _ in range(max(100, calls // 50)):
            call()
        grown = _least(lambda: _resident_growth(call, calls), 10 * calls)
        tracemalloc.start()
        try:
            for _ in range(200):
                call()
            traced = _least(lambda: _traced_growth(call), 8000)
        finally:
            tracemalloc.stop()
    # One object of the smallest size in a call would be 1.6 MB in 100,000 and 16 kB in 1000.
    assert grown < 10 * calls, f"{grown} bytes more after {calls} calls"
    assert traced < 8000, f"{traced} bytes more after 1000 calls"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("way", WAYS)
def test_memory_is_constant(way: str) -> None:
    _check(*WAYS[way])


@pytest.mark.gpu
@pytest.mark.whole_gpu
def test_memory_is_constant_on_a_gpu() -> None:
    for call in (
        lambda: pcd.add(A, A, device="cuda"),
        lambda: pcd.add(1, 2, device="cuda"),
        fails(ERRORS, pcd.add, A, SHORT, device="cuda"),
        fails(ERRORS, pcd.divide, 1, 0, device="cuda"),
    ):
        _check(call, 20_000)
    free = pcd.core.device_info(0)["free_nbytes"]
    large = np.ones(4_000_000)
    for _ in range(20):
        pcd.add(large, large, device="cuda")
        pcd.trace(MATRIX, device="cuda")
    first = pcd.core.device_info(0)["free_nbytes"]
    for _ in range(100):
        pcd.add(large, large, device="cuda")
        pcd.trace(MATRIX, device="cuda")
    assert pcd.core.device_info(0)["free_nbytes"] >= first - 2**21, (
        f"{free} bytes were free at first"
    )


@pytest.mark.filterwarnings("ignore:divide by zero")  # of arctanh
@cases.each_device()
@pytest.mark.parametrize("operation", cases.OF_FLOATS, ids=lambda op: op.__name__)
def test_operands_are_given_back(operation: Any, device: str) -> None:
    a, b, out = np.ones(100), np.ones(100, "f4"), np.ones(100)
    wrong = np.ones(99)
    watched = (a, b, out, wrong, operation, a.dtype)
    calls = [
        lambda: operation(*(a, a)[: operation.nin], device=device),
        lambda: operation(*(a, b)[: operation.nin], device=device),
        lambda: operation(*(a, b)[: operation.nin], out=out, device=device),
        lambda: operation(*(a, 2)[: operation.nin], out=(out,), where=a > 0, device=device),
        fails(ERRORS, operation, *(a, wrong)[: operation.nin], out=wrong[:5], device=device),
        fails(ERRORS, operation, *(a, "text")[: operation.nin], wrong, wrong, device=device),
    ]
    kept = references_kept(calls, watched)
    # The operation and the dtype are shared with the rest of the process: they may move by a few.
    assert not any(kept[:4]) and max(map(abs, kept)) < 25
