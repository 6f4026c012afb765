"""The caller's floating-point mode changes no result, and is restored after the call.

Libraries built with ``-ffast-math`` make denormal numbers zeros in the whole thread when loaded.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import platform
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cases
import numpy as np
import pytest
from shared import fetched

import pkg as pcd

LIBM = ctypes.CDLL(ctypes.util.find_library("m") or None)

# The control register in fenv_t, and its modes: x86-64's MXCSR and aarch64's FPCR.
if platform.machine() in ("x86_64", "AMD64"):
    OFFSET, MASK = 28, 0xFFC0
    MODES = {
        "flush to zero": 0x9F80,
        "denormals are zeros": 0x1FC0,
        "as -ffast-math": 0x9FC0,
        "down": 0x3F80,
        "up": 0x5F80,
        "toward zero": 0x7F80,
        "traps": 0x1900,  # division by zero, overflow, invalid
    }
elif platform.machine() in ("aarch64", "arm64"):
    OFFSET, MASK = 0, 0x07C00000
    MODES = {"flush to zero": 1 << 24, "up": 1 << 22, "down": 2 << 22, "toward zero": 3 << 22}
else:
    pytest.skip("the control register of this processor is not known", allow_module_level=True)


def _mode() -> int:
    """Returns the control register's bits that are not flags."""
    env = ctypes.create_string_buffer(64)
    LIBM.fegetenv(env)
    return ctypes.c_uint32.from_buffer(env, OFFSET).value & MASK


@contextmanager
def _in_mode(bits: int) -> Iterator[None]:
    before, env = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    LIBM.fegetenv(before)
    LIBM.fegetenv(env)
    register = ctypes.c_uint32.from_buffer(env, OFFSET)
    register.value = register.value & ~MASK | bits
    LIBM.fesetenv(env)
    try:
        yield
    finally:
        LIBM.fesetenv(before)


def _numbers(dtype: str, n: int, seed: int) -> Any:
    """A third denormal, a third whose products are, a third ordinary."""
    rng = np.random.default_rng(seed)
    tiny = float(np.finfo(dtype).tiny)
    scale = np.array([tiny / 4, tiny**0.5 / 8, 1.0])[rng.integers(0, 3, n)]
    with np.errstate(all="ignore"):
        return (rng.uniform(-2, 2, n) * scale).astype(dtype)


def _mask(a: Any) -> Any:
    return np.arange(len(a)) % 3 == 0


def _added(a: Any, w: Any) -> Any:
    result = a.copy()
    pcd.add.at(result, np.arange(30), w[:30])
    return result


E5 = pcd.Expression("(a * b + 0.1) / 3e-5 - a")
TINY, SUBNORMAL = 2.2250738585072014e-308, 5e-324

# Calls with arrays a and b of one type and w of another.
CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda a, b, w: pcd.add(a, b),
    "multiply": lambda a, b, w: pcd.multiply(a, b),
    "divide": lambda a, b, w: pcd.divide(a, b),
    "sqrt": lambda a, b, w: pcd.sqrt(pcd.absolute(a)),
    "less": lambda a, b, w: pcd.less(a, 0),
    "other type": lambda a, b, w: pcd.add(a, w),
    "dtype": lambda a, b, w: pcd.multiply(a, b, dtype="c16"),
    "out": lambda a, b, w: pcd.multiply(a, b, out=np.zeros(a.shape, "f8"), casting="unsafe"),
    "narrow out": lambda a, b, w: pcd.multiply(a, w, out=np.zeros(a.shape, "f2"), casting="unsafe"),
    "where": lambda a, b, w: pcd.multiply(a, b, where=_mask(a), out=np.zeros_like(a)),
    "number": lambda a, b, w: pcd.multiply(a, 0.1),
    "denormal number": lambda a, b, w: pcd.multiply(a, 1e-310),
    "swapped": lambda a, b, w: pcd.multiply(a.astype(a.dtype.newbyteorder()), b),
    "reduce": lambda a, b, w: pcd.add.reduce(a),
    "accumulate": lambda a, b, w: pcd.add.accumulate(a),
    "outer": lambda a, b, w: pcd.multiply.outer(a[:50], b[:50]),
    "sum": lambda a, b, w: pcd.sum(a),
    "sum as f8": lambda a, b, w: pcd.sum(a, dtype="f8"),
    "sum as f2": lambda a, b, w: pcd.sum(w, dtype="f2"),
    "prod": lambda a, b, w: pcd.prod(a[:5]),
    "min": lambda a, b, w: pcd.min(a),
    "mean": lambda a, b, w: pcd.mean(a),
    "dot": lambda a, b, w: pcd.dot(a, b),
    "dot of two types": lambda a, b, w: pcd.dot(a, w),
    "select": lambda a, b, w: pcd.where(_mask(a), a, w),
    "select by a number": lambda a, b, w: pcd.where(SUBNORMAL, a, b),
    "logic with a number": lambda a, b, w: pcd.logical_and(a, SUBNORMAL),
    "logic with a complex number": lambda a, b, w: pcd.logical_xor(a, complex(0, SUBNORMAL)),
    "reduced logic": lambda a, b, w: pcd.logical_or.reduce(a.reshape(-1, 1), axis=1),
    "at": lambda a, b, w: _added(a, w),
    "dot with a number": lambda a, b, w: pcd.dot(a, 0.1),
    "asnumpy": lambda a, b, w: pcd.asnumpy(a, np.zeros(a.shape, w.dtype)),
    "astype": lambda a, b, w: pcd.astype(a, "f2"),
    "expression": lambda a, b, w: E5(a=a, b=b),
    "expression of two types": lambda a, b, w: E5(a=a, b=w),
    "expression with out": lambda a, b, w: E5(
        a=a, b=b, out=np.zeros(a.shape, "f2"), casting="unsafe"
    ),
    "evaluate": lambda a, b, w: pcd.evaluate("a * 0.1 + w / 3"),
    "evaluate sum": lambda a, b, w: pcd.evaluate("sum(a * w)"),
    "new expression": lambda a, b, w: pcd.Expression("a * 0.7 + 1e-45")(a),
}

SCALARS: list[tuple[str, tuple[Any, ...]]] = [
    (name, numbers)
    for name in ("add", "subtract", "multiply", "divide", "remainder", "floor_divide", "minimum")
    for numbers in [(0.1, 0.7), (TINY, 0.3), (SUBNORMAL, 3.0), (1.0, SUBNORMAL), (0.1 + 1j, 0.7j)]
    if isinstance(numbers[0], float) or name in ("add", "subtract", "multiply", "divide")
]


def _bits(result: Any) -> tuple[Any, bytes]:
    a = np.asarray(fetched(result))
    return a.dtype, a.tobytes()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [37, 300_000])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", CALLS)
def test_arrays(name: str, dtype: str, n: int, mode: str) -> None:
    call = CALLS[name]
    a, b = _numbers(dtype, n, 1), _numbers(dtype, n, 2)
    w = _numbers("f8" if dtype == "f4" else "f4", n, 3)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = _bits(call(a, b, w))
        with _in_mode(MODES[mode]):
            got = call(a, b, w)
            after = _mode()
        assert _bits(got) == wanted
    assert after == MODES[mode], "the caller's mode was changed"


@pytest.mark.parametrize("mode", MODES)
@cases.each_device()
def test_numbers(device: str, mode: str) -> None:
    for name, numbers in SCALARS:
        operation = getattr(pcd, name)
        wanted = operation(*numbers, device=device)
        with _in_mode(MODES[mode]):
            got = operation(*numbers, device=device)
            after = _mode()
        assert _bits(got) == _bits(wanted), (name, numbers)
        assert after == MODES[mode], "the caller's mode was changed"


def _filled(x: Any, value: float, index: Any = slice(None)) -> Any:
    result = x.copy()
    result[index] = value
    return result


@pytest.mark.gpu
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [37, 300_000])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_arrays_on_a_gpu(dtype: str, n: int, mode: str) -> None:
    """Numbers and conversions that the host computes for the GPU."""
    a, b = _numbers(dtype, n, 1), _numbers(dtype, n, 2)

    def call() -> list[Any]:
        x, y = pcd.asarray(a, device="cuda"), pcd.asarray(b, device="cuda", dtype="f4")
        return [
            *(x * y, x * 0.1, x / 3e-40, 1e-310 * x, x.sum(), E5(a=x, b=y), x.astype("f2")),
            *(pcd.multiply(a, b, device="cuda"), pcd.sum(a, device="cuda"), pcd.asnumpy(x)),
            *(pcd.where(SUBNORMAL, x, y), pcd.logical_and(x, SUBNORMAL), pcd.dot(x, 0.1)),
            *([number.item() for number in x[:9]], [bool(number) for number in x[:9]]),
            *(x[:9].tolist(), _filled(x, 1e-40), _filled(x, 1e-40, x < 0)),
        ]

    with np.errstate(all="ignore"):
        wanted = [_bits(result) for result in call()]
        with _in_mode(MODES[mode]):
            got = call()
            after = _mode()
    assert [_bits(result) for result in got] == wanted
    assert after == MODES[mode], "the caller's mode was changed"


def test_the_mode_is_set() -> None:
    """NumPy computes in the caller's mode; otherwise the other tests prove nothing."""
    with _in_mode(MODES["up"]):
        assert _mode() == MODES["up"]
        up = np.divide(1.0, 3.0)
    assert up > np.divide(1.0, 3.0)
