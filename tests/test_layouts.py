"""Every operation and type in every layout: strides, byte order, alignment, memory order."""

from __future__ import annotations

import itertools

import cases
import generators
import numpy as np
import oracle
import pytest
from cases import Case

import pkg as pcd

pytestmark = pytest.mark.usefixtures("quiet")

SHAPES = [(37,), (5, 33), (3, 4, 17)]

PAIRS = list(itertools.product(generators.INPUT_LAYOUTS, repeat=2))


def _inputs(case: Case, shape: tuple[int, ...], layouts: tuple[str, ...]) -> list[np.ndarray]:
    size = int(np.prod(shape))
    return [
        generators.laid_out(generators.values(case.dtype, size, seed).reshape(shape), layout)
        for seed, layout in enumerate(layouts)
    ]


@cases.each()
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_layouts_of_inputs(case: Case, shape: tuple[int, ...]) -> None:
    """Combines each layout with each, with a new output."""
    for layouts in itertools.product(generators.INPUT_LAYOUTS, repeat=case.nin):
        inputs = _inputs(case, shape, layouts)
        oracle.check(case, case(*inputs), inputs, " and ".join(layouts))


@cases.each()
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_layouts_of_outputs(case: Case, shape: tuple[int, ...]) -> None:
    """Writes outputs of each layout, and nothing beside them."""
    for layout, first in itertools.product(
        generators.LAYOUTS, ["contiguous", "fortran", "strided"]
    ):
        inputs = _inputs(case, shape, (first, "contiguous")[: case.nin])
        out = generators.LAYOUTS[layout](shape, case.result_dtype)
        around = generators.surroundings(out)
        assert case(*inputs, out=out) is out
        oracle.check(case, out, inputs, f"out is {layout}")
        assert np.array_equal(generators.surroundings(out), around), f"{case}: beside {layout}"


@cases.each(where=lambda case: case.dtype == case.result_dtype)
def test_in_place(case: Case) -> None:
    """The output is an input, in each layout."""
    for layout, position in itertools.product(generators.LAYOUTS, range(case.nin)):
        inputs = _inputs(case, (5, 33), (layout, "contiguous", "contiguous")[: case.nin])
        if position == 1:
            inputs.reverse()
        copies = [x.copy() for x in inputs]
        around = generators.surroundings(inputs[position])
        assert case(*inputs, out=inputs[position]) is inputs[position]
        oracle.check(case, inputs[position], copies, f"in place, {layout}, input {position}")
        assert np.array_equal(generators.surroundings(inputs[position]), around)


@cases.each(where=lambda case: case.nin == 2)
@pytest.mark.parametrize(
    "shapes",
    [
        ((5, 33), (33,)),
        ((5, 33), (5, 1)),
        ((5, 1), (1, 33)),
        ((4, 1, 9), (3, 9)),
        ((4, 1, 9), (1, 3, 1)),
        ((1, 7), ()),
        ((3, 1, 2, 1, 5), (4, 1, 6, 1)),
        ((1,) * 30 + (2, 3), (2, 1)),
        ((0, 1), (1, 4)),
    ],
    ids=str,
)
def test_broadcasting(case: Case, shapes: tuple[tuple[int, ...], ...]) -> None:
    for order in (shapes, shapes[::-1]):
        inputs = [
            generators.values(case.dtype, int(np.prod(shape)), seed).reshape(shape)
            for seed, shape in enumerate(order)
        ]
        result = case(*inputs)
        oracle.check(case, result, inputs, "new output")
        out = generators.poisoned(result.shape, case.result_dtype)
        assert case(*inputs, out=out) is out
        oracle.check(case, out, inputs, "out=")


LARGE_LAYOUTS = [
    ("contiguous", "transposed", "contiguous"),
    ("transposed", "transposed", "transposed"),
    ("strided", "contiguous", "window"),
    ("reversed", "window", "contiguous"),
    ("contiguous", "repeated_row", "contiguous"),
    ("repeated_column", "contiguous", "transposed"),
    ("contiguous", "repeated_scalar", "strided"),
    ("unaligned", "contiguous", "unaligned"),
    ("swapped", "contiguous", "contiguous"),
    ("contiguous", "contiguous", "swapped"),
]


@cases.each(where=lambda case: case.name not in ("floor_divide", "maximum", "subtract"))
@pytest.mark.parametrize("layouts", LARGE_LAYOUTS, ids="-".join)
def test_large_layouts(case: Case, layouts: tuple[str, ...]) -> None:
    """Arrays large enough for several threads and, on a GPU, several pieces."""
    shape = (257, 401)
    tile = [np.resize(generators.values(case.dtype, 2003, seed), shape) for seed in range(case.nin)]
    inputs = [generators.laid_out(x, layout) for x, layout in zip(tile, layouts, strict=False)]
    out = generators.LAYOUTS[layouts[2]](shape, case.result_dtype)
    around = generators.surroundings(out)
    assert case(*inputs, out=out) is out
    oracle.check(case, out, inputs, "out=")
    assert np.array_equal(generators.surroundings(out), around), f"{case}: wrote beside out"
    oracle.check(case, case(*inputs), inputs, "new output")


@cases.each_place()
@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
@pytest.mark.parametrize("layouts", PAIRS, ids="-".join)
def test_memory_order_of_new_outputs(place: str, order: str, layouts: tuple[str, str]) -> None:
    """A new output has the strides that NumPy gives it."""
    case = cases.Case(pcd.add, np.dtype("f8"), np.dtype("f8"), place)
    for shape in ((5, 4), (3, 4, 5), (2, 1, 5)):
        inputs = _inputs(case, shape, layouts)
        wanted = np.add(*inputs, order=order)
        result = case(*inputs, order=order)
        assert cases.steps(result) == cases.steps(wanted), f"order={order}, {shape}"
        if order == "K":
            assert cases.steps(case(*inputs)) == cases.steps(wanted), f"the default order, {shape}"


@cases.each_device()
def test_memory_that_is_mapped_read_only(device: str, tmp_path) -> None:
    a = generators.values(np.dtype("i4"), 1000)
    a.tofile(tmp_path / "a")
    mapped = np.memmap(tmp_path / "a", np.int32, "r")
    oracle.assert_same(pcd.multiply(mapped, 3, device=device), np.multiply(a, np.int32(3)))
