"""Floats that an integer type cannot hold become the nearest integer, NaN the lowest; wherever.

What NumPy gives for them depends on the processor, and its buffers convert in silence.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import cases
import numpy as np
import oracle
import pytest

import pkg as pcd
from pkg._table import PREDICATES

FLOATS = ["f2", "f4", "f8", ">f8", "c8", "c16"]
INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "q", "Q", ">i4"]

VALUES = [
    math.nan, math.inf, -math.inf, 1e300, -1e300, 2.0**64, 2.0**63, -(2.0**63), 3e9, 70000.0, 300.0,
    127.9, 128.0, -128.9, -129.0, 1.9, -1.9, -1.0, -0.0, 0.5, 5e-324, 2.0**31, 2.0**32, -(2.0**31),
]  # fmt: skip


def _floats(dtype: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.array(VALUES * 3).astype(dtype)


def _saturated(x: Any, dtype: Any) -> np.ndarray:
    """Returns the result of Python's own arithmetic."""
    info = np.iinfo(np.dtype(dtype))
    result = np.empty(np.shape(x), _native(dtype))
    for index, value in np.ndenumerate(np.asarray(x).real):
        number = float(value)
        if math.isnan(number):
            result[index] = info.min
        elif math.isinf(number):
            result[index] = info.max if number > 0 else info.min
        else:
            result[index] = min(max(int(number), info.min), info.max)
    return result


def _out(x: np.ndarray, dtype: str, device: str | None = None, **kwargs: Any) -> Any:
    out = np.full(x.shape, 77, dtype)
    assert pcd.add(x, x.dtype.type(0), out=out, casting="unsafe", device=device, **kwargs) is out
    return out


def _strided_out(x: np.ndarray, dtype: str) -> Any:
    out = np.full((x.size, 3), 77, dtype)
    pcd.add(x, 0, casting="unsafe", out=out[::-1, 1])
    assert (out[:, ::2] == 77).all()
    return out[::-1, 1]


def _broadcast_out(x: np.ndarray, dtype: str) -> Any:
    out = np.full((2, x.size), 77, dtype)
    pcd.negative(x, out=out, casting="unsafe")
    pcd.negative(pcd.negative(x), out=out, casting="unsafe")
    assert (out[0] == out[1]).all()
    return out[0]


def _overlapping_out(x: np.ndarray, dtype: str) -> Any:
    memory = np.empty(max(x.itemsize, np.dtype(dtype).itemsize) * x.size + 16, np.uint8)
    a = memory[: x.nbytes].view(x.dtype)
    a[...] = x
    out = memory[: x.size * np.dtype(dtype).itemsize].view(dtype)
    pcd.add(a, 0, out=out, casting="unsafe")
    return out


def _masked_out(x: np.ndarray, dtype: str, **kwargs: Any) -> Any:
    out = np.full(x.shape, 77, dtype)
    mask = np.arange(x.size) % 2 == 0
    pcd.add(x, x.dtype.type(0), out=out, where=mask, casting="unsafe", **kwargs)
    assert (out[~mask] == 77).all()
    pcd.add(x, x.dtype.type(0), out=out, where=~mask, casting="unsafe", **kwargs)
    return out


def _one_by_one(function: Any) -> Any:
    return lambda x, dtype: np.array([function(one, dtype) for one in x], dtype)


def _evaluated(x: Any, dtype: str, **kwargs: Any) -> Any:
    out = np.empty(np.shape(x), dtype)
    assert pcd.evaluate("x + 0", out=out, casting="unsafe", **kwargs) is out
    return out


def _reduced_expression(x: Any, dtype: str) -> Any:
    out = np.empty(np.shape(x), dtype)
    return pcd.Expression("sum(x + 0, axis=0)")(x[None], out=out, casting="unsafe")


def _filled(x: Any, dtype: str) -> Any:
    return pcd.full(2, np.asarray(x), dtype)[1]


def _added(one: Any, dtype: str, device: Any = None, array: Any = None) -> Any:
    """Adds a Python number, which takes the type before it is added."""
    array = np.zeros(2, "u1") if array is None else array
    return pcd.add(array, one.item(), dtype=_kind(dtype), casting="unsafe", device=device)[1]


def _filled_like(x: Any, dtype: str) -> Any:
    return pcd.full_like(np.empty(2, dtype), x)[1]


def _native(dtype: str) -> str:
    return np.dtype(dtype).newbyteorder("=").str


def _kind(dtype: str) -> str:
    """Names a type for `dtype=` of a ufunc: no byte order, nor the second of C's 64-bit types."""
    return f"{np.dtype(dtype).kind}{np.dtype(dtype).itemsize}"


def _gpu(x: np.ndarray) -> Any:
    return pcd.asarray(x, device="cuda")


def _assigned(x: np.ndarray, dtype: str) -> Any:
    target = pcd.empty(x.shape, dtype, "cuda")
    for k, one in enumerate(x.astype(x.dtype.newbyteorder("="))):
        target[k] = one
    return pcd.asnumpy(target)


gpu = pytest.mark.gpu
WAYS: dict[str, Any] = {
    "out": _out,
    "strided out": _strided_out,
    "broadcast out": _broadcast_out,
    "overlapping out": _overlapping_out,
    "out of one element": _one_by_one(lambda one, dtype: _out(np.asarray(one), dtype)),
    "out and where": _masked_out,
    "out of an expression": _evaluated,
    "out of a reduced expression": _reduced_expression,
    "dtype": lambda x, dtype: pcd.add(x, 0, dtype=_kind(dtype), casting="unsafe"),
    "dtype and where": lambda x, dtype: pcd.add(
        x, 0, None, dtype=_kind(dtype), casting="unsafe", where=np.ones(x.shape, bool)
    ),
    "dtype of one operand": lambda x, dtype: pcd.add(
        x, np.zeros((), dtype), dtype=_kind(dtype), casting="unsafe"
    ),
    "a NumPy scalar": _one_by_one(
        lambda one, dtype: pcd.add(one, 0, dtype=_kind(dtype), casting="unsafe")
    ),
    "dtype of a list": lambda x, dtype: pcd.add([x], 0, dtype=_kind(dtype), casting="unsafe")[0],
    "unary": lambda x, dtype: pcd.maximum(x, x, out=np.empty(x.shape, dtype), casting="unsafe"),
    "sum": lambda x, dtype: pcd.sum(x[None], axis=0, dtype=_native(dtype)),
    "prod": lambda x, dtype: pcd.prod(x[None], axis=0, dtype=_native(dtype)),
    "astype": lambda x, dtype: pcd.astype(x, dtype),
    "astype of columns": lambda x, dtype: pcd.astype(x.reshape(4, -1, order="F"), dtype).reshape(
        -1, order="F"
    ),
    "asarray": lambda x, dtype: pcd.asarray(x, dtype),
    "asarray of a list of arrays": lambda x, dtype: pcd.asarray([x, x], dtype)[1],
    "concatenate": lambda x, dtype: pcd.concatenate([x[:9], x[9:]], dtype=dtype, casting="unsafe"),
    "stack": lambda x, dtype: pcd.stack([x, x], dtype=dtype, casting="unsafe")[1],
    "stack of lists": lambda x, dtype: pcd.stack([[x], [x]], dtype=dtype, casting="unsafe")[1, 0],
    "asarray of scalars": _one_by_one(lambda one, dtype: pcd.asarray(one, dtype)),
    "dtype and a number": _one_by_one(_added),
    "dtype and a number on a device": pytest.param(
        _one_by_one(lambda one, dtype: _added(one, dtype, "cuda")), marks=gpu
    ),
    "Arrays and a number": pytest.param(
        _one_by_one(
            lambda one, dtype: _added(one, dtype, array=pcd.zeros(2, "u1", "cuda")).item()
        ),
        marks=gpu,
    ),
    "full of a number": _one_by_one(lambda one, dtype: pcd.full(2, one.item(), dtype)[1]),
    "full of a number on a device": pytest.param(
        _one_by_one(lambda one, dtype: pcd.full((), one.item(), _native(dtype), "cuda").item()),
        marks=gpu,
    ),
    "full_like of a number": _one_by_one(
        lambda one, dtype: pcd.full_like(np.empty(2, dtype), one.item())[1]
    ),
    "full_like of a number on a device": pytest.param(
        _one_by_one(
            lambda one, dtype: pcd.full_like(
                pcd.empty((), _native(dtype), "cuda"), one.item()
            ).item()
        ),
        marks=gpu,
    ),
    "full": _one_by_one(_filled),
    "full_like": _one_by_one(_filled_like),
    "astype to a device": pytest.param(
        lambda x, dtype: pcd.asnumpy(pcd.astype(x, dtype, device="cuda")), marks=gpu
    ),
    "asarray on a device": pytest.param(
        lambda x, dtype: pcd.asnumpy(pcd.asarray(x, dtype, "cuda")), marks=gpu
    ),
    "asarray of a list on a device": pytest.param(
        lambda x, dtype: pcd.asnumpy(pcd.asarray([x], dtype, "cuda"))[0], marks=gpu
    ),
    "device": pytest.param(lambda x, dtype: _out(x, dtype, "cuda"), marks=gpu),
    "device and where": pytest.param(
        lambda x, dtype: _masked_out(x, dtype, device="cuda"), marks=gpu
    ),
    "expression on a device": pytest.param(
        lambda x, dtype: _evaluated(x, dtype, device="cuda"), marks=gpu
    ),
    "Array.astype": pytest.param(
        lambda x, dtype: pcd.asnumpy(_gpu(x).astype(_native(dtype))), marks=gpu
    ),
    "Arrays": pytest.param(
        lambda x, dtype: cases.on_arrays(
            pcd.add, x, 0, dtype=_native(dtype), casting="unsafe"
        ),
        marks=gpu,
    ),
    "an Array and a NumPy scalar": pytest.param(
        _one_by_one(
            lambda one, dtype: pcd.add(
                pcd.zeros((), _native(dtype), "cuda"), one,
                dtype=_native(dtype), casting="unsafe",
            ).item()
        ),
        marks=gpu,
    ),
    "assignment to an Array": pytest.param(
        lambda x, dtype: _assigned(x, _native(dtype)), marks=gpu
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_way(way: Any) -> None:
    """Every conversion saturates without a warning."""
    for source in FLOATS:
        x = _floats(source)
        for dtype in INTEGERS:
            result = np.asarray(way(x, dtype))
            result = result.astype(result.dtype.newbyteorder("="))
            oracle.assert_same(result, _saturated(x, dtype), source, (x,), f"to {dtype}")


@cases.each_device()
def test_every_operation(device: str) -> None:
    """Tries operations of two operands, and those that compute integers in floats."""
    x = _floats("f8")
    for operation in cases.OF_FLOATS:
        args = (x, x[::-1])[: operation.nin]
        if operation.__name__ in PREDICATES:
            continue
        with np.errstate(all="ignore"):
            wanted = _saturated(operation(*args), "i2")
            out = np.empty(x.shape, "i2")
            operation(*args, out=out, casting="unsafe", device=device)
        oracle.assert_same(out, wanted, operation.__name__, args)
    with np.errstate(all="ignore"):
        out = np.empty(2, "i1")
        pcd.sqrt(np.array([-4, 10**10]), out=out, casting="unsafe", device=device)
    assert out.tolist() == [-128, 127]


@cases.each_device()
def test_floats_of_ints_of_more_than_64_bits(device: str) -> None:
    """The number alone has no type of the library; beside floats it is one of them."""
    for number, wanted in ((2**70, [127, 127]), (-(2**70), [-128, -128])):
        for x in (np.ones(2), np.ones(2, "f4"), np.ones(2, "c8")):
            out = np.zeros(2, "i1")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
                pcd.add(x, number, out=out, casting="unsafe", device=device)
            assert out.tolist() == wanted


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "f2", "i4", "?"])
def test_expressions_into_small_types(dtype: str) -> None:
    """A GPU stores them as it computes; risks: layouts, and programs that do not fit."""
    rng = np.random.default_rng(5)
    for source, text in (
        ("f4", "(x - m) / m * 250 + 1"), ("u1", "(x - m) / m * 2.5 + 1"), ("f2", "x * m + x"),
        ("i2", "where(x > m, x * m, m)"), ("f4", "sin(x) * m + x"), ("f4", "x * m % 3 + x"),
        ("f8", "(x - m) * 2 + x"), ("c8", "real(x * m + x)"),
    ):  # fmt: skip
        kind = {"f8": "f8", "c8": "c8"}.get(source, "f4")
        for shape in ((), (0, 3), (1,), (5,), (4099,), (67, 129), (3, 33, 31)):
            x = (rng.standard_normal(shape) * 90).astype(source)
            if source == "f4" and x.size > 24:
                x.reshape(-1)[:24] = _floats("f4")[:24]
            m = np.array(3, kind) if len(shape) < 2 else rng.standard_normal(shape[-1]).astype(kind)
            for view in (np.s_[...], np.s_[..., ::-1], np.s_[..., 1::2]):
                if not shape and view != np.s_[...]:
                    continue
                wanted, out = np.full(shape, 77, dtype), pcd.full(shape, 77, dtype, device="cuda")
                inputs = {"x": x[view], "m": m if m.ndim == 0 else m[view]}
                on_gpu = {name: _gpu(value) for name, value in inputs.items()}
                with np.errstate(all="ignore"):
                    pcd.evaluate(text, inputs, out=wanted[view], casting="unsafe")
                    pcd.evaluate(text, on_gpu, out=out[view], casting="unsafe")
                oracle.assert_same(pcd.asnumpy(out), wanted, text, (x, m), f"to {dtype}")


def test_large_arrays() -> None:
    x = np.tile(_floats("f8"), 2000)
    assert x.size > 65536
    oracle.assert_same(_out(x, "i4"), _saturated(x[:72], "i4")[np.arange(x.size) % 72])
    oracle.assert_same(pcd.astype(x, "u1"), _saturated(x[:72], "u1")[np.arange(x.size) % 72])


def test_casting_is_still_asked_for() -> None:
    x, out = np.ones(3), np.zeros(3, "i4")
    for kwargs in ({}, {"casting": "same_kind"}, {"casting": "safe"}, {"dtype": "i4", "out": None}):
        with pytest.raises(TypeError, match="[Cc]ast"):
            pcd.add(x, x, **{"out": out, **kwargs})
    with pytest.raises(ValueError):
        pcd.add(x, x, out=np.zeros(4, "i4"), casting="unsafe")
    with pytest.raises(ValueError):
        pcd.add(x, np.ones((2, 3)), out=out, casting="unsafe")
    with pytest.raises(ValueError, match="read-only"):
        pcd.add(x, x, out=np.broadcast_to(np.zeros(1, "i4"), 3), casting="unsafe")


def test_other_types_are_numpys() -> None:
    """NumPy converts the types that the library lacks, with its own errors."""
    for x in (np.array([1, "two"], object), np.array(["1", "two"]), [3, "two"]):
        with pytest.raises(ValueError, match="two"):
            pcd.add(x, 1, dtype="i8", casting="unsafe")
    assert pcd.add(np.array([1, 2.5], object), 1, dtype="i8", casting="unsafe").tolist() == [2, 3]
    assert pcd.add(np.ones(2, "g"), 1, dtype="i8", casting="unsafe").tolist() == [2, 2]


def test_imaginary_parts_are_missed_once() -> None:
    """NumPy's ComplexWarning stays."""
    z = np.array([1.5 + 2j, 1e30 - 1j])
    for call in (
        lambda: pcd.astype(z, "u1"),
        lambda: pcd.asarray(z, "u1"),
        lambda: pcd.asarray([1, z[0]], "u1"),
        lambda: pcd.add(z, 0, out=np.empty(2, "u1"), casting="unsafe"),
        lambda: pcd.add(z, 0, dtype="u1", casting="unsafe"),
        lambda: pcd.evaluate("z", {"z": z}, {}, out=np.empty(2, "u1"), casting="unsafe"),
        lambda: pcd.evaluate("sum(z)", {"z": z}, {}, out=np.empty((), "u1"), casting="unsafe"),
        lambda: pcd.evaluate("sum(z)", {"z": z}, {}, out=np.empty((), "f4"), casting="unsafe"),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        kinds = [warning.category for warning in caught]
        assert kinds == [np.exceptions.ComplexWarning]


def test_python_numbers_that_do_not_fit_are_errors() -> None:
    """They raise an error, as in NumPy's conversions of lists."""
    for number, error in ((1e300, OverflowError), (math.nan, ValueError), (1j, TypeError)):
        for make in (lambda x: pcd.asarray(x, "i4"), lambda x: pcd.asarray([1.0, x], "i4")):
            with pytest.raises(error):
                make(number)
    for make in (lambda x: pcd.full(2, x, "i4"), lambda x: pcd.add([1], x, dtype="i4")):
        with pytest.raises(OverflowError):
            make(2**31)
    assert pcd.asarray([2**62 + 1, 1.5], "i8").tolist() == [2**62 + 1, 1]


def test_what_makes_arrays() -> None:
    assert pcd.linspace(-1e30, 1e30, 3, dtype="i8").tolist() == [-(2**63), 0, 2**63 - 1]
    for dtype in ("i4", "u1", "f4", None):
        oracle.assert_same(
            pcd.linspace(-3.7, 250.2, 9, dtype=dtype)[2:],
            np.linspace(-3.7, 250.2, 9, dtype=dtype)[2:],
        )
    with pytest.warns(RuntimeWarning, match="empty"):
        assert pcd.mean(np.empty(0), dtype="i4") == -(2**31)


def test_files(tmp_path: Path) -> None:
    from pkg.__main__ import main

    x = _floats("f8")
    np.save(tmp_path / "x.npy", x)
    for text, wanted in (("x + 0", _saturated(x, "i2")), ("sum(x)", _saturated(math.nan, "i2"))):
        path = str(tmp_path / "y.npy")
        with np.errstate(all="ignore"):
            main(["eval", text, f"x={tmp_path / 'x.npy'}", "-o", path, "--dtype", "i2",
                  "--casting", "unsafe", "--overwrite", "--quiet"])  # fmt: skip
        oracle.assert_same(np.load(path), wanted, text)


def test_a_subclass_keeps_its_class(tmp_path: Path) -> None:
    x = np.memmap(tmp_path / "x", "f8", "w+", shape=(2,))
    x[:] = 1e300, -1.5
    assert pcd.asarray(x, "i2").tolist() == [32767, -1]
