"""One rule says what `out` may be, for operations, expressions and reductions, as in NumPy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
from numpy.lib.stride_tricks import as_strided

import pkg as pcd
from pkg import core

#: A sum of an array and 1, called with keywords.
SUMS: dict[str, Callable[..., Any]] = {
    "add": lambda x, **kwargs: pcd.add(x, 1, **kwargs),
    "reflected": lambda x, **kwargs: pcd.add(1, x, **kwargs),
    "ufunc": lambda x, **kwargs: np.add(x, 1, **kwargs),
    "where": lambda x, **kwargs: pcd.add(x, 1, where=np.True_, **kwargs),
    "casting": lambda x, **kwargs: pcd.add(x, 1, casting="unsafe", **kwargs),
    "evaluate": lambda x, **kwargs: pcd.evaluate("x + 1", {"x": x}, **kwargs),
    "evaluate again": lambda x, **kwargs: (
        pcd.evaluate("x + 1", {"x": x}),
        pcd.evaluate("x + 1", {"x": x}, **kwargs),
    )[1],
}

PLACES = ["host", pytest.param("gpu", marks=pytest.mark.gpu)]


def _there(place: str, x: np.ndarray) -> Any:
    return x if place == "host" else pcd.asarray(x, device="cuda")


def _outcome(call: Callable[[], Any]) -> Any:
    """The result on the host, or the type of the exception."""
    try:
        return pcd.asnumpy(call())
    except Exception as error:
        return type(error) if type(error) in (ValueError, TypeError) else type(error).__base__


SHAPES = [
    *[((3,), (3,)), ((3,), (2, 3)), ((3,), (2, 1, 3)), ((1,), (3,)), ((), (3,)), ((), ())],
    *[((3,), (1,)), ((3,), (4,)), ((3,), ()), ((1, 3), (3,)), ((2, 3), (3, 2)), ((1,), (0,))],
    *[((0,), (0,)), ((0,), (1,)), ((0,), (3,)), ((0, 3), (0, 4)), ((0, 3), (5, 3)), ((2, 0), (0,))],
    *[((0, 3), (0, 3)), ((0, 4), (3, 0)), ((0,), (2, 0)), ((2, 1, 3), (2, 4, 3))],
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize(("shape", "out_shape"), SHAPES)
def test_shapes_of_outputs(name: str, place: str, shape: Any, out_shape: Any) -> None:
    x = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    wanted = np.full(out_shape, -1.0)
    expected = _outcome(lambda: np.add(x, 1, out=wanted))
    for _ in range(2):
        out = _there(place, np.full(out_shape, -1.0))
        operand = _there(place, x)
        actual = _outcome(lambda operand=operand, out=out: SUMS[name](operand, out=out))
        if isinstance(expected, type):
            assert actual is expected
        else:
            oracle.assert_same(actual, expected)
        oracle.assert_same(pcd.asnumpy(out), wanted)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", SUMS)
def test_outputs_of_another_type_and_shape(name: str, place: str) -> None:
    """The type is refused first, as by NumPy: code may expect its TypeError."""
    error = ValueError if name == "casting" else TypeError
    for shape in ((4,), ()):
        for _ in range(2):
            x, out = (_there(place, host) for host in (np.arange(3.0), np.zeros(shape, int)))
            with pytest.raises(error):
                SUMS[name](x, out=out)
            if shape and error is TypeError:
                with pytest.raises(TypeError):
                    out += x


@pytest.mark.gpu
@pytest.mark.parametrize("name", SUMS)
def test_outputs_in_other_places(name: str) -> None:
    if pcd.device_count() < 2:
        pytest.skip("needs two GPUs")
    x = pcd.arange(3.0, device="cuda")
    out = pcd.zeros(3, device="cuda:1")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"cuda:0.*cuda:1"):
            SUMS[name](x, out=out)
        with pytest.raises(TypeError, match="out"):
            SUMS[name](x, out=np.zeros(3))
        with pytest.raises(TypeError, match="out is on cuda:1"):
            SUMS[name](np.arange(3.0), out=out)
    assert not pcd.asnumpy(out).any()


LAYOUTS = {
    "windows": ((3, 4), (8, 8)),
    "windows of every second": ((3, 4), (16, 8)),
    "one row": ((3, 4), (0, 8)),
    "one column": ((3, 4), (8, 0)),
    "transposed windows": ((4, 3), (8, 8)),
    "in part": ((5,), (4,)),
    "large": ((300, 400), (8, 8)),
}


def test_memory_of_large_outputs() -> None:
    """The block that was freed last is the next output, and no array that is in use."""
    x = np.arange(2.0**22)
    for k in range(2):
        y, z = pcd.add(x, k), pcd.evaluate("x - 1")
        freed = y.ctypes.data
        del y
        y = pcd.multiply(x, 2)
        assert y.ctypes.data == freed or not sys.platform.startswith("linux")
        y.resize(2 * x.size, refcheck=False)
        oracle.assert_same(y, np.append(x * 2, x * 0), "resized")
        oracle.assert_same(z, x - 1, "the other output")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SUMS)
def test_outputs_that_overlap_themselves(name: str, layout: str) -> None:
    """Gives NumPy's result, also if the output is the input."""
    results = []
    for function in (SUMS["ufunc"], SUMS[name], SUMS[name]):
        memory = np.arange(1000.0)
        out = as_strided(memory[2:], *LAYOUTS[layout])
        assert function(out, out=out) is out
        results.append(memory)
    for memory in results[1:]:
        oracle.assert_same(memory, results[0])


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["add", "reflected", "evaluate", "evaluate again"])
def test_outputs_of_host_arrays_that_overlap_themselves(
    name: str, layout: str, device: str
) -> None:
    memory, wanted = np.arange(1000.0), np.arange(1000.0)
    out, expected = (as_strided(x[2:], *LAYOUTS[layout]) for x in (memory, wanted))
    np.add(expected, 1, out=expected)
    SUMS[name](out, out=out, device=device)
    oracle.assert_same(memory, wanted)


class _Window:
    """GPU memory whose elements overlap, as another library may show it."""

    def __init__(self, array: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        shown = array.__cuda_array_interface__
        self.array = array
        self.__cuda_array_interface__ = {**shown, "shape": shape, "strides": strides}


@pytest.mark.gpu
@pytest.mark.parametrize("layout", ["windows", "one row", "one column", "transposed windows"])
@pytest.mark.parametrize("name", SUMS)
def test_outputs_on_a_gpu_that_overlap_themselves(name: str, layout: str) -> None:
    memory = pcd.arange(1000.0, device="cuda")
    out = pcd.from_dlpack(_Window(memory, *LAYOUTS[layout]))
    for _ in range(2):
        with pytest.raises(ValueError, match="out overlaps itself"):
            SUMS[name](out, out=out)
    x = pcd.ones(out.shape, device="cuda")
    with pytest.raises(ValueError, match="out overlaps itself"):
        SUMS[name](x, out=out)
    oracle.assert_same(pcd.asnumpy(memory), np.arange(1000.0))


@pytest.mark.gpu
@pytest.mark.parametrize("name", SUMS)
def test_interleaved_outputs_on_a_gpu(name: str) -> None:
    """Their rows interleave, but their elements do not overlap."""
    memory, wanted, layout = pcd.arange(10.0, device="cuda"), np.arange(10.0), ((3, 2), (16, 24))
    out, expected = pcd.from_dlpack(_Window(memory, *layout)), as_strided(wanted, *layout)
    np.add(expected, 1, out=expected)
    for _ in range(2):
        assert SUMS[name](out - 0, out=out) is out
        oracle.assert_same(pcd.asnumpy(memory), wanted)
        out -= 1
    assert not core.overlaps_itself(out)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_overlaps_itself(layout: str) -> None:
    memory = np.arange(1000.0)
    assert core.overlaps_itself(as_strided(memory, *LAYOUTS[layout]))
    assert not core.overlaps_itself(as_strided(memory, (3, 2), (16, 24)))
    assert not core.overlaps_itself(as_strided(memory, (0, 2), (0, 0)))
    for wrong in (np.array(["text"]), 1.0, [1.0]):
        with pytest.raises(TypeError, match="expected an Array or a NumPy array"):
            core.overlaps_itself(wrong)
