"""Arrays that are changed during a call, by another thread or by Python code that the call runs.

NumPy frees the sizes and strides of an array when its shape is set.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

Python = Callable[..., str]

_BEGIN = """
import faulthandler, signal, sys, threading, time, warnings
import numpy as np
import pkg as pcd
faulthandler.enable()

SHAPES = (4096,), (64, 64), (2, 2, 4, 4, 4, 4, 4), (16, 16, 16)

def poison():
    # Other arrays get the freed memory, and fill it with sizes that end in a crash.
    others = [np.empty(1, "i1") for _ in range(50)]
    for x in others:
        for ndim in (1, 2, 3, 7):
            x.shape = (1,) * ndim
    return others
"""

_THREAD = (
    _BEGIN
    + """
a, b = np.arange(1.0, 4097.0), np.arange(4096.0)
out, single, fixed = np.empty(4096), np.ones(4096, "f4"), np.ones(4096)
e, total, three = (pcd.Expression(t) for t in ("a * b + a", "sum(a * b)", "(a + b) * c"))
compute = lambda: {call}
done = threading.Event()

def change():
    while not done.is_set():
        for shape in SHAPES:
            for x in (a, b, out):
                x.shape = shape
        poison()

sys.setswitchinterval(1e-5)
thread = threading.Thread(target=change)
thread.start()
until = time.monotonic() + 0.7
warnings.simplefilter("ignore")
try:
    while time.monotonic() < until:
        try:
            assert compute() is not NotImplemented
        except ValueError as error:
            # The shapes of two moments: they do not fit together.
            text = str(error)
            assert any(w in text for w in ("shape", "broadcast", "dimension", "size", "axis")), text
finally:
    done.set()
    thread.join()
print("good")
"""
)

_CALLS = {
    "operation": "pcd.add(a, b)",
    "operation with out": "pcd.add(a, b, out)",
    "operation with a number": "pcd.multiply(a, 2.0)",
    "operation of two types": "pcd.add(a, single.reshape(a.shape))",
    "operation with where": "pcd.add(a, b, where=True, out=out)",
    "operation on a GPU": "pcd.add(a, b, device='cuda')",
    "comparison": "pcd.less(a, b)",
    "sum": "pcd.sum(a)",
    "sum of an axis": "pcd.sum(a, axis=0)",
    "minimum with out": "pcd.min(a, axis=-1, out=out)",
    "mean of another type": "pcd.mean(a, axis=0, dtype='f4')",
    "product of an axis of another type": "pcd.prod(a, axis=-1, dtype='f4')",
    "dot": "pcd.dot(a, b)",
    "trace": "pcd.trace(a)",
    "expression": "e(a, b)",
    "expression with out": "e(a, b, out=out)",
    "expression with another type": "three(a, single.reshape(a.shape), 2.0)",
    "reduced expression": "total(a, b)",
    "where": "pcd.where(a > b, a, b)",
    "to a GPU": "pcd.asarray(a, device='cuda')",
    "from a GPU": "pcd.asarray(a, device='cuda').to_device('cpu')",
    "reduce": "pcd.add.reduce(a)",
}


@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="without the GIL NumPy itself reads the shape while it is set",
)
@pytest.mark.parametrize(
    "call",
    [
        pytest.param(call, id=name, marks=[pytest.mark.gpu] if "cuda" in call else [])
        for name, call in _CALLS.items()
    ],
)
def test_a_shape_that_another_thread_sets(call: str, python: Python) -> None:
    assert python(_THREAD.replace("{call}", call)).strip() == "good"


_CALLBACK = (
    _BEGIN
    + """
a = np.full(4096, 1e200)
seen = []

def change(kind, flags):
    for shape in SHAPES[1:]:
        a.shape = shape
    seen.append(poison())

for compute in (
    pcd.Expression("a * k"), lambda a, k: pcd.multiply(a, k), pcd.Expression("sum(a * k)"),
    lambda a, k: pcd.multiply(a, k, out=np.empty(a.shape)),
):
    for k in (1e200, np.full(4096, 1e200)):
        for _ in range(3):
            a.shape = 4096
            with np.errstate(over="call", call=change):
                result = compute(a, k)
            assert np.isinf(result).all() and np.size(result) in (1, 4096)
        assert seen
        seen.clear()

# A number that overflows as it is converted, before anything is computed.
h = np.ones(4096, "f2")

def change_h(kind, flags):
    for shape in SHAPES[1:]:
        h.shape = shape
    seen.append(poison())

for compute in (pcd.Expression("h * k"), pcd.multiply, pcd.Expression("k + h * k")):
    for _ in range(3):
        h.shape = 4096
        with np.errstate(over="call", call=change_h):
            result = compute(h, 1e300) if compute is pcd.multiply else compute(*(
                (h, 1e300) if compute.inputs[0] == "h" else (1e300, h)))
        assert np.size(result) == 4096, result.shape
    assert seen
    seen.clear()
print("good")
"""
)


def test_a_shape_that_a_callback_of_errstate_sets(python: Python) -> None:
    assert python(_CALLBACK).strip() == "good"


_SIGNAL = (
    _BEGIN
    + """
n = 1 << 22
a, out = np.ones(n).reshape(2048, 2048), np.empty((2048, 2048))
e = pcd.Expression(" + ".join(f"sqrt(a * {k}.5)" for k in range(1, 60)))
wanted = e(a[:1, :1])[0, 0]
seen = []

def change(number, frame):
    for x in (a, out):
        x.shape = (n,)
        x.shape = (4,) * 11
    seen.append(poison())

signal.signal(signal.SIGALRM, change)
for _ in range(3):
    a.shape = out.shape = 2048, 2048
    out.fill(0)
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    e(a, out=out)
    while not seen:
        time.sleep(0.01)
    seen.clear()
    assert (out == wanted).all()
print("good")
"""
)


def test_a_shape_that_a_signal_handler_sets_between_pieces(python: Python) -> None:
    """The handler runs while the rest of a large expression is still to be computed."""
    assert python(_SIGNAL).strip() == "good"
