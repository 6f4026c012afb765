"""Bad input: a clear exception, the same on every path, and nothing printed or left behind."""

from __future__ import annotations

import gc
import sys
from typing import Any

import cases
import numpy as np
import pytest

import pkg as pcd

SIZES = pytest.mark.parametrize("n", [3, 70_000])

OPERATIONS = pytest.mark.parametrize("operation", pcd.core.operations, ids=lambda op: op.__name__)
OF_FLOATS = pytest.mark.parametrize("operation", cases.OF_FLOATS, ids=lambda op: op.__name__)


@pytest.fixture(autouse=True)
def _nothing_printed(capfd: pytest.CaptureFixture[str]) -> Any:
    yield
    assert capfd.readouterr() == ("", "")


@cases.each_device()
@SIZES
def test_shapes_that_do_not_broadcast(n: int, device: str) -> None:
    """The text names both shapes."""
    for kwargs in ({}, {"dtype": "f4"}, {"order": "F"}):
        with pytest.raises(ValueError, match=rf"\({n},\).*\({n + 1},\)"):
            pcd.add(np.ones(n), np.ones(n + 1), device=device, **kwargs)
    with pytest.raises(ValueError, match=rf"\(2,{n}\).*\(3,1\)"):
        pcd.add(np.ones((2, n)), np.ones((3, 1)), device=device)
    with pytest.raises(ValueError, match=rf"\({n},\).*\(2,\)"):
        pcd.add(np.ones(n, "f4"), np.ones(2), device=device)


@cases.each_device()
@SIZES
def test_out_of_the_wrong_shape(n: int, device: str) -> None:
    a = np.ones(n)
    for shape in ((n + 1,), (1,), (), (n, 2)):
        with pytest.raises(ValueError) as info:
            pcd.add(a, a, out=np.zeros(shape), device=device)
        assert f"({n},)" in str(info.value), info.value


@cases.each_device()
@SIZES
def test_out_of_the_wrong_type(n: int, device: str) -> None:
    for out in (np.zeros(n, "i4"), np.zeros(n, "M8[s]")):
        before = out.tobytes()
        with pytest.raises(TypeError):
            pcd.add(np.ones(n), np.ones(n), out=out, device=device)
        assert out.tobytes() == before
    for thing in ([0.0] * 3, "out", 5, (np.zeros(n), np.zeros(n)), object()):
        with pytest.raises((TypeError, ValueError)):
            pcd.add(np.ones(n), np.ones(n), out=thing, device=device)


@cases.each_device()
@SIZES
@OF_FLOATS
def test_read_only_out(operation: Any, n: int, device: str) -> None:
    out = np.zeros(n)
    out.flags.writeable = False
    args = (np.ones(n), np.ones(n))[: operation.nin]
    for kwargs in ({}, {"order": "C"}, {"where": np.ones(n, bool)}):
        with pytest.raises(ValueError, match="read-only"):
            operation(*args, out=out, device=device, **kwargs)
    assert not out.any()
    with pytest.raises(ValueError, match="read-only"):
        operation(*args, out=np.broadcast_to(np.zeros(1), n), device=device)


@cases.each_device()
@OPERATIONS
def test_unsupported_types_name_the_supported(operation: Any, device: str) -> None:
    supported = [np.dtype(types[0]).name for types in operation.types]
    bad = [np.array(["a", "b"]), np.array([b"a", b"b"]), np.array(["2020-01-01"] * 2, "M8[D]")]
    bad += [np.ones(2, "m8[s]"), np.array([None, 1]), np.ones(2, np.longdouble), np.ones(2, "G")]
    bad += [np.zeros(2, [("x", "f8")])]
    for x in bad:
        args = (x, x)[: operation.nin]
        with pytest.raises(TypeError) as info:
            operation(*args, device=device)
        text = str(info.value)
        assert operation.__name__ in text and all(name in text for name in supported), text
        if operation.nin == 2:
            with pytest.raises(TypeError):
                operation(np.ones(2), x, device=device)


@cases.each_device()
@pytest.mark.parametrize("operation", [pcd.floor_divide, pcd.remainder], ids=lambda op: op.__name__)
def test_operations_that_complex_numbers_lack(operation: Any, device: str) -> None:
    for args in ((np.ones(2, "c8"), 2), (np.ones(2), 2j), (np.ones(2, int), np.complex64(1))):
        with pytest.raises(TypeError, match=rf"{operation.__name__}.*int8.*float64"):
            operation(*args, device=device)


@pytest.mark.filterwarnings("ignore:divide by zero")  # of arctanh
@cases.each_device()
@OPERATIONS
def test_the_wrong_number_of_arguments(operation: Any, device: str) -> None:
    for count in (0, operation.nin - 1, operation.nin + 2, 7):
        if 0 <= count != operation.nin:
            for x in (1, np.ones(2)):
                with pytest.raises(TypeError):
                    operation(*[x] * count, device=device)
    with pytest.raises(TypeError):
        operation(*[np.ones(2, np.int32)] * operation.nin)(3)


@cases.each_device()
def test_unknown_keywords(device: str) -> None:
    for x in (1, 1.5, np.ones(2), [1, 2]):
        with pytest.raises(TypeError, match="wrong_keyword"):
            pcd.add(x, x, device=device, wrong_keyword=1)
        with pytest.raises(TypeError, match="wrong_keyword"):
            pcd.add(x, x, wrong_keyword=1)


@cases.each_device()
def test_keywords_of_the_wrong_type(device: str) -> None:
    a = np.ones(3)
    for kwargs in (
        {"casting": "wrong"},
        {"order": "Z"},
        {"order": "Z", "out": np.ones(3)},
        {"dtype": "wrong"},
        {"casting": 3},
        {"dtype": 3},
    ):
        with pytest.raises((TypeError, ValueError)):
            np.add(a, a, **kwargs)
        with pytest.raises((TypeError, ValueError)):
            pcd.add(a, a, device=device, **kwargs)
    with pytest.raises(TypeError):
        pcd.add(a, a, a, out=a, device=device)


class Raises:
    """Its conversion to an array fails."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise LookupError("no array today")


class Lies:
    """Its conversion gives something else."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return "not an array"


class RaisesUfunc:
    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        raise LookupError("no ufunc today")


@cases.each_device()
@OPERATIONS
def test_operands_that_raise(operation: Any, device: str) -> None:
    """The operand's exception is raised, and no operand is kept alive."""
    other = np.ones(3)
    for bad in (Raises(), RaisesUfunc()):
        before = sys.getrefcount(bad), sys.getrefcount(other)
        for args in ((bad, other), (other, bad)):
            if operation.nin == 1:
                args = (bad,)
            with pytest.raises(LookupError, match="today"):
                operation(*args, device=device)
        del args
        gc.collect()
        assert (sys.getrefcount(bad), sys.getrefcount(other)) == before
    with pytest.raises((TypeError, ValueError)):
        operation(*[Lies()] * operation.nin, device=device)


@cases.each_device()
def test_a_sequence_that_is_no_array(device: str) -> None:
    with pytest.raises(ValueError, match="inhomogeneous"):
        pcd.add([[1, 2], [3]], 1, device=device)


@cases.each_device()
@OF_FLOATS
def test_memory_that_runs_out(operation: Any, device: str) -> None:
    """The text has the sizes."""
    args = [np.broadcast_to(np.float64(1), (2**30, 2**17))] * operation.nin
    with pytest.raises(MemoryError, match="1.00 PiB|1125899906842624|1073741824"):
        operation(*args, device=device)


@pytest.mark.parametrize(
    "device",
    ["gpu", "", "CPU", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "cuda:12345", "cpu:0\0",
     "cuda:al", "cuda:all ", "cuda:ALL", "all"],
)  # fmt: skip
def test_unknown_devices(device: str) -> None:
    """The text says what was given, and what is possible."""
    calls = [lambda: pcd.add(1, 2, device=device), lambda: pcd.add(np.ones(2), 1, device=device)]
    calls += [lambda: pcd.trace(np.ones((2, 2)), device=device), lambda: pcd.default_device(device)]
    calls += [lambda: pcd.vector_add([1], [2], device=device)]
    for call in calls:
        with pytest.raises(ValueError) as info:
            call()
        assert repr(device) in str(info.value) and '"cuda:N"' in str(info.value)


@pytest.mark.parametrize("device", [0, 1.5, b"cpu", ["cpu"], object(), True])
def test_devices_that_are_no_strings(device: Any) -> None:
    for call in (
        lambda: pcd.add(1, 2, device=device),
        lambda: pcd.add(np.ones(2), 1, device=device),
        lambda: pcd.default_device(device),
    ):
        with pytest.raises(TypeError, match="device must be a string"):
            call()


def test_core_functions_check_their_arguments() -> None:
    """They are not public, but a mistake in the package must not crash."""
    core, a = pcd.core, np.ones(3)
    read_only = np.ones(3)
    read_only.flags.writeable = False
    index = pcd.add.index
    for args in ((), (index,), (index, -1, a), (index, -1, a, a), (index, -1, a, a, a, a)):
        with pytest.raises(TypeError):
            core.map(*args)
    for arrays in ((a, a, [1]), (a, a, a.astype(">f8")), (a, a, a.astype("S8")), (None, a, a)):
        with pytest.raises(TypeError):
            core.map(index, -1, *arrays)
    for arrays in (
        (a, a, a.astype("f4")),
        (a.astype("f4"), a, a),
        (a, a, np.ones(2)),
        (read_only, a, a),
    ):
        with pytest.raises(ValueError):
            core.map(index, -1, *arrays)
    with pytest.raises(TypeError):
        core.map(pcd.remainder.index, -1, *[np.ones(2, "c8")] * 3)
    for index in (-1, 1000, 2**40):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            core.map(index, -1, a, a, a)
        with pytest.raises((ValueError, OverflowError)):
            core.make_ufunc(index, False, -1, "name")
    with pytest.raises(TypeError):
        core.reduce(0, "f8", -1, (0,), False)
    with pytest.raises(IndexError):
        core.reduce_any(8, a, None, False, None, None, None)
    for n in (94, 2**64 - 1):
        with pytest.raises(OverflowError, match=r"F\(93\)"):
            core.fib(n)
    for n in (-1, 2**64):
        with pytest.raises((OverflowError, TypeError, ValueError)):
            core.fib(n)
    with pytest.raises(TypeError, match="x86-64-v9.*generic"):
        core.set_cpu_level("x86-64-v9")
    with pytest.raises(TypeError):
        core.set_cpu_level(3)
    with pytest.raises(TypeError):
        type(pcd.add)()


def test_operations_are_not_changed_by_accident() -> None:
    for name in ("ufunc", "nin", "index", "__name__"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(pcd.add, name, None)
    with pytest.raises(AttributeError):
        pcd.add.something_new = 1


def test_names_of_ufuncs_that_are_not_there() -> None:
    for name in ("no_such", "add_cuda", "add_cuda99999", "no_such_cuda0", "divide"):
        with pytest.raises(AttributeError, match=name):
            getattr(pcd.ufuncs, name)
