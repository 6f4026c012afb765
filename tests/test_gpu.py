"""Paths that only a GPU has: pieces of large arrays, buffers that are reused, several GPUs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import cases
import generators
import numpy as np
import oracle
import pytest

import pkg as pcd

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("quiet")]

MIB = 2**20


def _same_on_both(name: str, inputs: list[np.ndarray], note: str = "") -> None:
    operation = getattr(pcd, name)
    cpu = operation(*inputs, device="cpu")
    out = generators.poisoned(cpu.shape, cpu.dtype)
    assert operation(*inputs, out=out, device="cuda") is out
    oracle.assert_same(out, cpu, f"{name}-{inputs[0].dtype}-cuda", inputs, note, name="")


@pytest.mark.parametrize("mib", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("off", [-1, 0, 1])
@cases.each_dtype(["u1", "f2", "i4", "f8", "c16"])
def test_around_pieces(mib: int, off: int, dtype: str) -> None:
    """Tries arrays of whole MiB, and of one element more or less."""
    dtype = np.dtype(dtype)
    n = mib * MIB // dtype.itemsize + off
    data = np.resize(generators.moderate(dtype, 10_007), n + 1)
    _same_on_both("multiply", [data[:n], data[1:]], f"{n} elements")
    _same_on_both("negative", [data[:n]], f"{n} elements")


@cases.each(cuda=False)
def test_every_operation_over_several_pieces(case: cases.Case) -> None:
    n = 9 * MIB // case.dtype.itemsize + 3
    period = generators.values(case.dtype, 10_007)
    inputs = [np.resize(np.roll(period, 17 * seed), n) for seed in range(case.nin)]
    result = cases.call(case.operation, "cuda", *inputs)
    oracle.assert_same(result, case(*inputs), case, inputs, "on cuda", name="")


@pytest.mark.parametrize("name", ["add", "sqrt"])
@pytest.mark.parametrize("layout", [x for x in generators.LAYOUTS if x != "contiguous"])
def test_large_layouts_over_several_pieces(name: str, layout: str) -> None:
    data = np.resize(generators.moderate(np.dtype("f4"), 10_007), (2100, 2503))
    inputs = [generators.laid_out(data, layout), data][: getattr(pcd, name).nin]
    _same_on_both(name, inputs, layout)
    out = generators.LAYOUTS[layout](data.shape, data.dtype)
    around = generators.surroundings(out)
    getattr(pcd, name)(*inputs, out=out, device="cuda")
    oracle.assert_same(out, getattr(pcd, name)(*inputs), name, inputs, layout, name="")
    assert np.array_equal(generators.surroundings(out), around)


#: Views whose terms are runs, long and short, contiguous and strided, in one to three dimensions.
VIEWS: dict[str, Callable[[Any], Any]] = {
    "inner": lambda x: x[1:-1, 1:-1],
    "strided": lambda x: x[:, ::3],
    "reversed": lambda x: x[::-1, ::-2],
    "flat": lambda x: x.reshape(-1)[1::2],
    "planes": lambda x: x.reshape(30, -1, 2503)[:, 1:, 4:],
    "short": lambda x: x.reshape(-1, 100)[:, :-1],
}


@pytest.mark.parametrize("dtype", ["f2", "f4", "u1", "c8"])
@pytest.mark.parametrize("view", VIEWS)
def test_reductions_of_large_views(view: str, dtype: str) -> None:
    data = np.resize(generators.moderate(np.dtype(dtype), 10_007), (7200, 2503))
    host, array = VIEWS[view](data), VIEWS[view](pcd.asarray(data, device="cuda"))
    for name, axis in itertools.product(("sum", "max"), (None, -1)):
        function = getattr(pcd, name)
        result, wanted = pcd.asnumpy(function(array, axis=axis)), function(host, axis=axis)
        oracle.assert_same(result, wanted, name, [], f"{view}, axis {axis}", name="")


@pytest.mark.parametrize(
    "name", ["exp", "log", "sin", "arctanh", "erf", "left power", "right power"]
)
def test_float16_by_a_table(name: str) -> None:
    """Long arrays, aligned or not, whose last elements fill no vector: all 65,536 arguments."""
    function = {
        "left power": lambda x: pcd.power(x, np.float16(2.5)),
        "right power": lambda x: pcd.power(np.float16(-2), x),
    }.get(name) or getattr(pcd, name)
    few = np.arange(1 << 16).astype(np.uint16).view(np.float16)
    many = np.resize(few, (1 << 24) + 77)
    array = pcd.asarray(many, device="cuda")
    wanted = function(few)
    for first in (0, 1):
        result = pcd.asnumpy(function(array[first:]))
        oracle.assert_same(result, np.resize(wanted, many.shape)[first:], name, [many])


@pytest.mark.parametrize(
    "shapes",
    [
        ((3_000_000,), (1,)),
        ((2000, 1500), (1500,)),
        ((2000, 1500), (2000, 1)),
        ((2000, 1), (1500,)),
        ((3, 1, 700_001), (4, 1)),
    ],
    ids=str,
)
def test_large_broadcasts(shapes: tuple[tuple[int, ...], ...]) -> None:
    for order, dtype in itertools.product((shapes, shapes[::-1]), ("f4", "i8", "u1")):
        inputs = [
            np.resize(generators.moderate(np.dtype(dtype), 10_007, seed), shape)
            for seed, shape in enumerate(order)
        ]
        _same_on_both("subtract", inputs, str(order))


def test_sizes_up_and_down() -> None:
    """Buffers kept between calls serve larger and smaller arrays later."""
    base = generators.moderate(np.dtype("f8"), 2_000_000)
    for n in (1, 2_000_000, 3, 1_000_000, 0, 5000, 2_000_000):
        _same_on_both("add", [base[:n], base[::-1][:n]], f"{n} elements")
    pcd.core.free_cached()
    _same_on_both("add", [base, base], "after free_cached")


def test_in_place_over_several_pieces() -> None:
    data = np.resize(generators.moderate(np.dtype("f8"), 10_007), 3_000_001)
    wanted = pcd.multiply(data, data[::-1])
    memory = data.copy()
    pcd.multiply(memory, data[::-1], out=memory, device="cuda")
    oracle.assert_same(memory, wanted, "multiply-cuda", [data])


def test_every_gpu() -> None:
    a = generators.moderate(np.dtype("f8"), 1000)
    for ordinal in range(pcd.device_count()):
        device = f"cuda:{ordinal}"
        oracle.assert_same(pcd.divide(a, a[::-1], device=device), a / a[::-1], device)
        assert pcd.add(1, 2, device=device) == 3
        with pcd.default_device(device) as name:
            assert name == device and pcd.add(a, a)[3] == a[3] + a[3]


def test_default_device_computes_there() -> None:
    """Arrays, numbers, functions and operands with rules of their own; errors are unchanged."""
    a = generators.moderate(np.dtype("f4"), 100)
    with pcd.default_device("cuda"):
        oracle.assert_same(pcd.add(a, a), a + a)
        oracle.assert_same(pcd.vector_multiply(a, a), a * a)
        assert pcd.trace(np.eye(5)) == 5 and pcd.add(2, 3) == 5 and pcd.sqrt(4.0) == 2.0
        masked = np.ma.array(a, mask=a > 0)
        assert isinstance(pcd.add(masked, masked), np.ma.MaskedArray)
        with pytest.raises(ValueError, match="shapes|broadcast"):
            pcd.add(a, a[:3])
        with pytest.raises(ZeroDivisionError):
            pcd.divide(1, 0)


def test_after_an_error_the_gpu_still_computes() -> None:
    a = np.arange(10.0)
    for _ in range(3):
        with pytest.raises(pcd.CudaError):
            pcd.add(a, a, device="cuda:9999")
        assert pcd.add(a, a, device="cuda").tolist() == (2 * a).tolist()


@pytest.mark.parametrize("dtype", [case.dtype.name for case in cases.CPU if case.name == "divide"])
def test_integer_warnings(dtype: str) -> None:
    """Division by zero is reported on every device."""
    a, zero = np.ones(1000, dtype), np.zeros(1000, dtype)
    heard: set[str] = set()
    with np.errstate(all="call", call=lambda kind, flags: heard.add(kind)):
        pcd.divide(a, zero, device="cuda")
    assert "divide by zero" in heard or (np.dtype(dtype).kind == "c" and "invalid value" in heard)


@pytest.mark.parametrize("name", ["divide", "floor_divide", "remainder", "fmod", "reciprocal"])
@pytest.mark.parametrize("dtype", "bBhHiIlL")
def test_integer_warnings_are_the_cpus(name: str, dtype: str) -> None:
    info = np.iinfo(dtype)
    a = np.resize(np.array([1, 7, info.max, info.min], dtype), 1000)
    for others in ([3, 0], [1, 3], [-1, 5] if info.min < 0 else [2, 3]):
        args = (a, np.resize(np.array(others, dtype), 1000))
        args = args if name != "reciprocal" else args[1:]
        heard: dict[str, set[str]] = {}
        for device in ("cpu", "cuda"):
            kinds = heard.setdefault(device, set())
            with np.errstate(all="call", call=lambda kind, flags, kinds=kinds: kinds.add(kind)):
                getattr(pcd, name)(*args, device=device)
        assert heard["cuda"] == heard["cpu"], others
