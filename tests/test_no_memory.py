"""Allocations of Python that fail, each that a call makes in turn, once and for ever.

MemoryError comes out, or the right result; never a crash, another exception, or an exception that
is left beside a result.  Nothing is leaked or released twice, and the next call is right.

The group `binding` calls what is written in C, without a Python function between.  The other groups
pass through Python code, where CPython 3.11 itself loses references and reports SystemError when a
traceback has no memory; there they are not counted.

Left out, because CPython or NumPy crash by themselves: entering and leaving a context variable
among others, `np.errstate` (whose place `Unchanged` takes), NumPy's repr, `ufunc.types` and with it
the text for unsupported operands, timedelta64 among the operands, making ufuncs (and so an import),
the parser on a text with an error, pickle.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import operator
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pkg as pcd
from pkg import core

Calls = dict[str, Callable[[], Any]]


# ---- The calls ----

SMALL = np.arange(6, dtype="f8").reshape(2, 3)
TURNED = np.asfortranarray(SMALL)
SWAPPED = SMALL.astype(">f8")
LARGE = np.arange(70000, dtype="i4")
I1, U8, F4 = (np.arange(1, 7, dtype=t).reshape(2, 3) for t in ("i1", "u8", "f4"))
C8 = (SMALL + 1j).astype("c8")
OUT, MASK = np.zeros((2, 3)), SMALL > 2
FIVE_AXES = np.ones((2, 1, 2, 1, 2))


def refusal(call: Callable[[], Any], *kinds: type[Exception]) -> Callable[[], Any]:
    """The call, which fails in any case: the name of its exception."""

    def refused() -> str:
        try:
            call()
        except kinds as error:
            return type(error).__name__
        raise AssertionError("the call succeeded")

    return refused


def into(out: Any, call: Callable[[], Any]) -> Callable[[], Any]:
    """The call, which gives `out`: its elements, poisoned first."""

    def written() -> Any:
        out[...] = 7
        assert call() is out
        return out

    return written


def numbers() -> Calls:
    return {
        "int": lambda: pcd.add(2**40, 2**41),
        "float": lambda: pcd.divide(1.5, 3.0),
        "complex": lambda: pcd.multiply(1 + 2j, 2.0),
        "compare": lambda: pcd.less(2**70, 1.5),
        "compare complex": lambda: pcd.less(2**70, 1.5 + 1j),
        "overflow": refusal(lambda: pcd.add(2**63, 1), OverflowError),
        "zero": refusal(lambda: pcd.divide(1, 0), ZeroDivisionError),
        "keywords": lambda: pcd.add(2**40, 3, out=None, where=True),
        "device": lambda: pcd.add(1, 2, device="cpu"),
        "no device": refusal(lambda: pcd.add(1, 2, device="tpu"), ValueError),
        "fib": lambda: pcd.fib(93),
        "config": pcd.config,
        "set_num_threads": lambda: pcd.set_num_threads(2),
        "result_type": lambda: pcd.result_type("f4", 2.0),
    }


def arrays() -> Calls:
    return {
        "same type": lambda: pcd.add(SMALL, SMALL),
        "number": lambda: pcd.multiply(SMALL, 2.5),
        "complex number": lambda: pcd.multiply(C8, 2 - 1j),
        "scalar": lambda: pcd.subtract(SMALL, np.float64(2)),
        "turned": lambda: pcd.add(TURNED, TURNED),
        "mixed order": lambda: pcd.add(TURNED, SMALL),
        "swapped": lambda: pcd.add(SWAPPED, SMALL),
        "types": lambda: pcd.add(I1, F4),
        "mixed signs": lambda: pcd.less(I1.astype("i8"), U8),
        "out of range": lambda: pcd.less(I1, 300),
        "list": lambda: pcd.add([1, 2, 3], SMALL),
        "flags": refusal(lambda: pcd.divide(SMALL, 0.0), FloatingPointError),
        "out": into(OUT, lambda: pcd.add(SMALL, 1.0, out=OUT)),
        "out of another type": into(OUT, lambda: pcd.add(I1, I1, out=OUT)),
        "where": into(OUT, lambda: pcd.add(SMALL, 1, out=OUT, where=MASK)),
        "dtype": lambda: pcd.add(I1, I1, dtype="f4"),
        "casting": lambda: pcd.add(SMALL, 1, casting="no"),
        "device": lambda: pcd.sqrt(SMALL, device="cpu"),
        "large": lambda: pcd.add(LARGE[::2], LARGE[::-2]),
        "shapes": refusal(lambda: pcd.add(SMALL, SMALL.T), ValueError),
        "reduce": lambda: pcd.add.reduce(SMALL),
        "accumulate": lambda: pcd.add.accumulate(SMALL, axis=1),
        "outer": lambda: pcd.multiply.outer(SMALL, SMALL[0]),
        "asarray": lambda: pcd.asarray(SMALL, dtype="f4"),
        "astype": lambda: pcd.astype(SMALL, "i2"),
        "pcd.where": lambda: pcd.where(MASK, SMALL, 0.5),
        "concatenate": lambda: pcd.concatenate((SMALL, SMALL), axis=1),
        "arange": lambda: pcd.arange(0, 10, 2),
    }


def reductions() -> Calls:
    number = np.empty(())
    return {
        "sum": lambda: pcd.sum(SMALL),
        "sum of a list": lambda: pcd.sum([1, 2, 3]),
        "axis": lambda: pcd.sum(SMALL, axis=1),
        "axes": lambda: pcd.sum(FIVE_AXES, axis=(0, -1), keepdims=True),
        "dtype": lambda: pcd.prod(I1, dtype="f8"),
        "out": into(number, lambda: pcd.sum(SMALL, out=number)),
        "min": lambda: pcd.min(SMALL, axis=0),
        "max": lambda: pcd.max(TURNED),
        "of none": refusal(lambda: pcd.max(SMALL[:0]), ValueError),
        "mean": lambda: pcd.mean(SMALL, axis=0),
        "dot": lambda: pcd.dot(SMALL[0], I1[0]),
        "trace": lambda: pcd.trace(SMALL),
        "large": lambda: pcd.sum(LARGE),
    }


EXPRESSION = pcd.Expression("(a * b + 2) / a")
BY_ROWS = pcd.Expression("sum(a * b)")


def plain(x: Any, y: Any) -> Any:
    return (x + y) * 2 - x / y


fused = pcd.fuse(plain)


def expressions() -> Calls:
    names = {"a": I1, "b": F4}
    count = iter(range(10**9))
    return {
        "call": lambda: EXPRESSION(U8, F4),
        "remembered": lambda: BY_ROWS(SMALL, SMALL),
        "number": lambda: EXPRESSION(F4, 2.5),
        "numbers": lambda: EXPRESSION(3.0, 2),
        "out": into(OUT, lambda: EXPRESSION(SMALL + 1, SMALL, out=OUT)),
        "out of another type": into(OUT, lambda: EXPRESSION(F4, F4, out=OUT)),
        "swapped": lambda: EXPRESSION(SWAPPED + 1, SMALL),
        "list": lambda: EXPRESSION([1.0, 2.0, 4.0], 2),
        "broadcast": lambda: EXPRESSION(F4, F4[0]),
        "shapes": refusal(lambda: EXPRESSION(F4, F4.T), ValueError),
        "flags": refusal(lambda: EXPRESSION(SMALL, 0.0), FloatingPointError),
        "large": lambda: EXPRESSION(LARGE + 1, LARGE),
        "evaluate": lambda: pcd.evaluate("a * b + 3", names),
        "a new text": lambda: pcd.evaluate(f"a * b + a{' ' * next(count)}", names),
        "new types": lambda: pcd.Expression("where(a < b, -a, b ** 2) + 1")(I1, F4),
        "fuse": lambda: fused(SMALL + 1, F4),
        "fuse anew": lambda: pcd.fuse(plain)(SMALL + 1, 2.0),
        "program": program,
    }


def program() -> Any:
    """A program with a constant, and more steps than the library keeps on the stack."""
    steps = [(0, "f8", (0, 1))] + [(0, "f8", (k, 0)) for k in range(2, 60)]
    made = core.Program(["f8"], [("f8", np.float64(2))], steps, "f")
    total = made.reduce(0, "f8", -1, (0, 1), False, (SMALL,))
    return made.call(-1, "K", None, (SMALL,)), total, made.dtype


def inside(setting: Any, call: Callable[[], Any]) -> Callable[[], Any]:
    """The call, for which sweep() enters a setting first."""
    call.around = setting  # type: ignore[attr-defined]
    return call


def settings() -> Calls:
    def on_stream() -> Any:
        made = pcd.Stream()
        made.wait(pcd.Stream())
        made.synchronize()
        return made.device

    made: Calls = {
        "default_device": lambda: pcd.default_device("cpu").device,
        "get_default_device": pcd.get_default_device,
    }
    if GPUS:
        made |= {
            "default_device of a GPU": lambda: pcd.default_device("cuda").device,
            "on the default_device": inside(
                pcd.default_device("cuda"), lambda: pcd.add(pcd.ones(3), 1)
            ),
            "streams": on_stream,
            "on a stream": inside(pcd.stream(pcd.Stream()), lambda: X + Y),
            "synchronize": lambda: pcd.synchronize("cuda"),
            "memory_info": lambda: pcd.memory_info("cuda").limit,
            "config": lambda: pcd.config()["gpus"][0]["name"],
            "free_cached_memory": pcd.free_cached_memory,
        }
    return made


GPUS = pcd.device_count()
if GPUS:
    X = pcd.asarray(SMALL + 1, device="cuda")
    Y = pcd.asarray(I1, device="cuda")
    Z = pcd.asarray(FIVE_AXES, device="cuda")
    GPU_OUT = pcd.asarray(OUT, device="cuda")
    GPU_MASK = pcd.asarray(MASK, device="cuda")
    ROW = pcd.asarray(SMALL[1], device="cuda")


class Foreign:
    """An array of another library."""

    @property
    def __cuda_array_interface__(self) -> Any:
        return X.__cuda_array_interface__


class Tensor:
    """An array of a library that knows DLPack."""

    def __dlpack_device__(self) -> Any:
        return X.__dlpack_device__()

    def __dlpack__(self, **keywords: Any) -> Any:
        return X.__dlpack__(**keywords)


def gpu_creation() -> Calls:
    return {
        "asarray": lambda: pcd.asarray(SMALL, device="cuda"),
        "asarray of a list": lambda: pcd.asarray([1, 2, 3], dtype="f4", device="cuda"),
        "copy": lambda: pcd.asarray(X, copy=True),
        "zeros": lambda: pcd.zeros((2, 3), device="cuda"),
        "ones_like": lambda: pcd.ones_like(X, dtype="i2"),
        "full": lambda: pcd.full(3, 2.5, device="cuda"),
        "arange": lambda: pcd.arange(1, 7, 2, device="cuda"),
        "linspace": lambda: pcd.linspace(0, 1, 5, device="cuda"),
        "five axes": lambda: pcd.full((2, 1, 2, 1, 2), 3, device="cuda"),
        "asnumpy": lambda: pcd.asnumpy(X),
        "to_device": lambda: X.to_device("cpu"),
        "from_dlpack": lambda: pcd.from_dlpack(Tensor()),
        "from_dlpack of an Array": lambda: pcd.from_dlpack(X),
        "dlpack": lambda: type(X.__dlpack__()),
        "dlpack 1": lambda: type(X.__dlpack__(max_version=(1, 0))),
        "dlpack to the host": lambda: np.from_dlpack(pcd.asarray(X, device="cpu")),
        "dlpack of five axes": lambda: pcd.from_dlpack(Z),
        "__cuda_array_interface__": lambda: X.__cuda_array_interface__["shape"],
        "interface": lambda: pcd.asarray(Foreign()),
        "interface, once": lambda: pcd.from_dlpack(Foreign()),
    }


def gpu_arrays() -> Calls:
    def in_place() -> Any:
        x = pcd.asarray(X, copy=True)
        x += 1
        x *= Y
        x[0] = 5
        x[:, 1] = ROW[:2]
        return x

    return {
        "add": lambda: X + X,
        "number": lambda: 2.5 * X,
        "promotion": lambda: X + Y,
        "five axes": lambda: Z + Z,
        "true division": lambda: Y / 2,
        "power": lambda: X**3,
        "compare": lambda: X < 3,
        "compare out of range": lambda: Y < 300,
        "not a number": lambda: X == "x",
        "in place": in_place,
        "negative": lambda: -X,
        "pcd.add": lambda: pcd.add(X, Y),
        "out": into(GPU_OUT, lambda: pcd.add(X, 1, out=GPU_OUT)),
        "out of another type": into(GPU_OUT, lambda: pcd.add(Y, Y, out=GPU_OUT)),
        "where": into(GPU_OUT, lambda: pcd.add(X, 1, out=GPU_OUT, where=GPU_MASK)),
        "dtype": lambda: pcd.add(Y, Y, dtype="f4"),
        "foreign": lambda: pcd.add(X, Foreign()),
        "foreign tensor": lambda: pcd.add(Tensor(), 1),
        "host array": refusal(lambda: X + SMALL, TypeError, ValueError),
        "np.add": lambda: np.add(X, 1),
        "np.sum": lambda: np.sum(X),
        "host arrays": lambda: pcd.add(SMALL, SMALL, device="cuda"),
        "host types": lambda: pcd.add(SMALL, I1, device="cuda"),
        "index": lambda: X[1],
        "slice": lambda: X[::-1, 1:],
        "newaxis": lambda: X[None, ..., 0],
        "element": lambda: X[1, 2].item(),
        "no element": refusal(lambda: X[5], IndexError),
        "float": lambda: float(X[1, 2]),
        "reshape": lambda: X.reshape(3, 2),
        "transpose": lambda: X.T,
        "attributes": lambda: (X.shape, X.strides, X.dtype, X.device, X.size, X.nbytes, X.ndim),
        "iteration": lambda: [row.shape for row in X],
        "astype": lambda: X.astype("i4"),
        "tolist": lambda: X.tolist(),
        "concatenate": lambda: pcd.concatenate((X, X)),
        "stack": lambda: pcd.stack((X, X)),
        "flip": lambda: pcd.flip(X),
        "broadcast_to": lambda: pcd.broadcast_to(ROW, (2, 3)),
        "pcd.where": lambda: pcd.where(X > 2, X, 0),
        "sum": lambda: X.sum(),
        "axis": lambda: pcd.sum(X, axis=0),
        "axes": lambda: pcd.sum(Z, axis=(0, -1)),
        "mean": lambda: pcd.mean(X),
        "max": lambda: pcd.max(X, axis=1, keepdims=True),
        "dot": lambda: pcd.dot(ROW, ROW),
        "trace": lambda: pcd.trace(X),
        "host sum": lambda: pcd.sum(SMALL, device="cuda"),
        "expression": lambda: EXPRESSION(X + 1, Y),
        "expression and out": into(GPU_OUT, lambda: EXPRESSION(X + 1, X, out=GPU_OUT)),
        "reducing expression": lambda: BY_ROWS(X, X),
        "evaluate": lambda: pcd.evaluate("a * b", {"a": X, "b": 2}),
        "fuse": lambda: fused(X + 1, 2.0),
    }


class Fresh:
    """A call that is made anew each time, before allocations fail."""

    def __init__(self, make: Callable[[], Callable[[], Any]]) -> None:
        self.make = make

    def __call__(self) -> Any:
        return self.make()()


def binding() -> Calls:
    """Calls that reach the extension module at once."""
    steps = [(0, "f8", (0, 1)), *((0, "f8", (k, 0)) for k in range(2, 60))]
    made = core.Program(["f8"], [("f8", np.float64(2))], steps, "f")
    numbers: Calls = {
        "int": partial(pcd.add, 2**40, 2**41),
        "float": partial(pcd.divide, 1.5, 3.0),
        "complex": partial(pcd.multiply, 1 + 2j, 2.0),
        "compare": partial(pcd.less, 2**70, 1.5),
        "compare complex": partial(pcd.less, 2**70, 1.5 + 1j),
        "device of numbers": partial(pcd.add, 1, 2, device="cpu"),
        "fib": partial(core.fib, 93),
        "config": core.config,
        "device_count": core.device_count,
        "parse_device": partial(core.parse_device, "cpu"),
        "set_num_threads": partial(core.set_num_threads, 2),
        "__reduce__": pcd.add.__reduce__,
        "repr": partial(repr, pcd.add),
        "identity": partial(getattr, pcd.add, "identity"),
    }
    arrays: Calls = {
        "same type": partial(pcd.add, SMALL, SMALL),
        "number": partial(pcd.multiply, SMALL, 2.5),
        "complex number": partial(pcd.multiply, C8, 2 - 1j),
        "scalar": partial(pcd.subtract, SMALL, np.float64(2)),
        "turned": partial(pcd.add, TURNED, TURNED),
        "five axes": partial(pcd.add, FIVE_AXES, SMALL[0, 0]),
        "out": partial(pcd.add, SMALL, 1.0, out=OUT),
        "large": partial(pcd.add, LARGE, LARGE),
        "map": partial(core.map, 0, -1, OUT, SMALL, SMALL),
        "concatenate": partial(pcd.concatenate, (SMALL, SMALL)),
        "reduce": partial(core.reduce, 0, "f8", -1, (0, 1), False, SMALL),
        "dot": partial(core.reduce, 0, "f8", -1, (0,), False, *SMALL),
        "copy": partial(core.copy, OUT, I1),
    }
    programs: Calls = {
        "Program": partial(core.Program, ["f8"], [("f8", np.float64(2))], steps, "f"),
        "call": partial(made.call, -1, "K", None, (SMALL,)),
        "call with a number": partial(made.call, -1, "C", None, (2.5,)),
        "call into": partial(made.call, -1, "K", OUT, (SMALL,)),
        "reduce a program": partial(made.reduce, 0, "f8", -1, (1,), True, (SMALL,)),
        "dtype": partial(getattr, made, "dtype"),
        "expression": partial(EXPRESSION, SMALL + 1, SMALL),
        "expression into": partial(EXPRESSION, SMALL + 1, 2.0, out=OUT),
        "reducing expression": partial(BY_ROWS, SMALL, SMALL),
    }
    return {**numbers, **arrays, **programs, **(gpu_binding(made) if GPUS else {})}


def gpu_binding(made: core.Program) -> Calls:
    stream = core.Stream(0)
    pointer = X._pointer
    names = "shape strides dtype device ndim size nbytes itemsize _pointer _is_c_contiguous"
    operators: Calls = {
        "add": partial(operator.add, X, X),
        "number": partial(operator.mul, 2.5, X),
        "promotion": partial(operator.add, X, Y),
        "a scalar of NumPy": partial(operator.sub, X, np.float32(2)),
        "axes": partial(operator.add, Z, Z),
        "true division": partial(operator.truediv, Y, 2),
        "compare": partial(operator.lt, X, 3),
        "negative": partial(operator.neg, X),
        "absolute": partial(abs, X),
        "pcd.add": partial(pcd.add, X, Y),
        "out on a GPU": partial(pcd.add, X, Y, out=GPU_OUT),
        "numbers on a GPU": partial(pcd.add, 1, 2, device="cuda"),
        "on a stream": inside(pcd.stream(pcd.Stream()), partial(operator.add, X, Y)),
        "expression of Arrays": partial(EXPRESSION, X, Y),
        "reducing expression of Arrays": partial(BY_ROWS, X, X),
        "program of Arrays": partial(made.call, 0, "K", None, (X,)),
        "attributes": partial(operator.attrgetter(*names.split()), X),
    }
    functions: Calls = {
        "empty": partial(core.empty, (2, 1, 0, 1, 2), "f8", 0, True),
        "view": partial(core.view, X, np.ndarray.transpose),
        "broadcast_to": partial(core.broadcast_to, X, (2, *X.shape)),
        "wrap": partial(core.wrap, pointer, 0, "f8", (6,), None, False, X, None),
        "copy in": partial(core.copy, GPU_OUT, SMALL),
        "copy out": partial(core.copy, OUT, X),
        "select": partial(core.select, GPU_OUT, GPU_MASK, X, Y),
        "reduce on a GPU": partial(core.reduce, 0, "f8", 0, (0,), False, SMALL),
        "reduce_any": partial(core.reduce_any, 0, X, 1, False, None, None, None),
        "mean": partial(pcd.mean, X, 1),
        "dot of Arrays": partial(pcd.dot, ROW, ROW),
        "arange": partial(core.arange, ROW, np.zeros(()), np.ones(())),
        "pointer_device": partial(core.pointer_device, pointer),
        "memory_info": partial(core.memory_info, 0),
        "device_info": partial(core.device_info, 0),
        "compute": partial(core.compute, 0, False, X, X),
        "streams_of": partial(core.streams_of, X),
        "note_use": partial(core.note_use, X, stream),
        "Stream": partial(core.Stream, 0),
        "wait": partial(stream.wait, core.Stream(0)),
        "to_dlpack": partial(core.to_dlpack, Z, True),
    }
    for is_versioned in (False, True):
        capsule = partial(core.to_dlpack, Z, is_versioned)
        functions[f"from_dlpack, versioned: {is_versioned}"] = Fresh(
            lambda capsule=capsule: partial(core.from_dlpack, capsule(), None, True)  # type: ignore
        )
    return {**operators, **functions}


GROUPS: dict[str, Callable[[], Calls]] = {
    "binding": binding,
    "numbers": numbers,
    "arrays": arrays,
    "reductions": reductions,
    "expressions": expressions,
    "settings": settings,
    "gpu_creation": gpu_creation,
    "gpu_arrays": gpu_arrays,
}


# ---- A process for each group ----

OPERANDS: list[Any] = [SMALL, TURNED, SWAPPED, LARGE, I1, U8, F4, C8, OUT, MASK, EXPRESSION]
OPERANDS += [pcd.add, pcd.Array, pcd.Stream, core.Stream]
OPERANDS += [np.dtype(t) for t in ("bool", "i1", "i4", "i8", "u8", "f4", "f8", "c8", "c16")]
if GPUS:
    OPERANDS += [X, Y, Z, ROW, GPU_OUT]
    OPERANDS += [a._memory for a in (X, Y, Z, ROW, GPU_OUT)]

#: Numbers of allocations that fail, from a call's n-th on.  Never all: CPython 3.11 would look for
#: memory for ever where an exception leaves a `with` block.
LENGTHS = 1, 25


class Unchanged(contextlib.nullcontext[None]):
    """Stands for np.errstate."""

    def __init__(self, **settings: str) -> None:
        super().__init__()


def host(value: Any) -> Any:
    """Returns a result as what == compares: an array as its bytes with type and shape."""
    if isinstance(value, pcd.Array):
        value = pcd.asnumpy(value)
    if isinstance(value, np.ndarray | np.generic):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, tuple):
        return tuple(map(host, value))
    kinds = (int, float, complex, str, tuple, list, dict)
    return value if value is None or isinstance(value, kinds) else type(value)


def state() -> dict[str, Any]:
    """Returns what a call must leave as it was."""
    gc.collect()
    tiny, one = sys.float_info.min / 2, 1.0
    return {
        "mode": (tiny * one, one + tiny, -one - tiny),  # denormals, rounding
        "settings": [v.get(None) for v in (core.default_device, core.current_stream)],
        "references": [sys.getrefcount(x) for x in OPERANDS],
        "memory": pcd.memory_info("cuda").used if GPUS else 0,
    }


def attempt(call: Callable[[], Any], n: int, stop: int) -> tuple[Any, BaseException | None, bool]:
    """Returns what a call gives while allocations fail, or raises, and whether none has failed."""
    import _testcapi  # type: ignore[import-not-found]

    result: Any = None
    error: BaseException | None = None
    made = call.make() if isinstance(call, Fresh) else call
    # CPython 3.11 crashes where an iterator over a dict has no memory for a pair: here are some.
    pairs = [(k, n) for k in range(50)]
    del pairs
    has_memory = False
    _testcapi.set_nomemory(n, stop)
    try:
        result = made()
        bytearray(3000)
        has_memory = True
    except BaseException as raised:
        _testcapi.remove_mem_hooks()
        error = raised.with_traceback(None)
    finally:
        _testcapi.remove_mem_hooks()
    ctypes.pythonapi.PyErr_Occurred()  # raises an exception that is set
    return result, error, has_memory


def is_pythons(error: BaseException) -> bool:
    """Tells whether CPython 3.11 or NumPy raised the error for want of memory."""
    ours = ["pkg.core", "<operation", *(f"built-in function {name}>" for name in dir(core))]
    return type(error) is SystemError and not any(name in str(error) for name in ours)


def sweep(group: str, name: str, call: Callable[[], Any]) -> Iterator[str]:
    """Lets each allocation of the call fail; yields what is wrong."""
    for _ in range(3):
        expected = host(call())
    before = state()
    n = 0
    is_done = False
    while not is_done:
        is_done = True
        for length in LENGTHS:
            what = f"{group}: {name}, {length} from {n} on"
            try:
                result, error, _ = attempt(call, n, n + length)
            except BaseException as left:
                yield f"{what}: left set: {left!r}"
                continue
            is_done = is_done and error is None
            if error is None and result is not None and host(result) != expected:
                yield f"{what}: {result!r}"
            elif not isinstance(error, MemoryError | None) and (
                group == "binding" or not is_pythons(error)
            ):
                yield f"{what}: {error!r}"
            result = error = None
        if is_done:  # or the failure was swallowed: nothing fails in a call without one
            is_done = attempt(call, n, 0)[2]
        n += 1 + n // 60
    if host(call()) != expected:
        yield f"{group}: the next {name} is wrong"
    after = state()
    for what in before if group == "binding" else ("mode", "settings"):
        if before[what] != after[what]:
            yield f"{group}: {name}: {what}: {before[what]} became {after[what]}"


def run(group: str) -> int:
    """Prints what is wrong with a group; returns the exit status."""
    faulthandler.enable()
    np.seterr(all="raise")
    np.errstate = Unchanged  # type: ignore[assignment, misc]
    sys.unraisablehook = lambda _: None
    count = 0
    for name, call in GROUPS[group]().items():
        with getattr(call, "around", contextlib.nullcontext()):
            for text in sweep(group, name, call):
                print(text)
                count += 1
    print(f"{group}: {count} failures")
    return min(count, 1)


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(group, marks=[pytest.mark.gpu] if group.startswith("gpu") else [])
        for group in GROUPS
    ],
)
def test_no_memory(group: str) -> None:
    """A process of its own, so that a crash is seen as one."""
    pytest.importorskip("_testcapi", reason="this Python comes without CPython's test module")
    if group not in ("binding", "numbers") and sys.version_info[:2] != (3, 11):
        pytest.skip("CPython 3.12 itself crashes without memory for f-strings, functions or frames")
    place = str(Path(pcd.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, __file__, group],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([place, *sys.path])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


if __name__ == "__main__":
    sys.exit(run(sys.argv[1]))
