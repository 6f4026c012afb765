"""Every level of the CPU kernels that this machine can run gives the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cases
import generators
import numpy as np
import oracle
import pytest
from cases import Case

import pkg as pcd

LEVELS = ("generic", "x86-64-v2", "x86-64-v3", "x86-64-v4")


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """A level that this machine has, chosen."""
    try:
        pcd.core.set_cpu_level(request.param)
    except TypeError as error:
        pytest.skip(str(error))
    yield request.param
    pcd.core.set_cpu_level(None)


def test_the_level_is_chosen(level: str) -> None:
    assert pcd.config()["cpu_level"] == level


def test_the_best_level_is_the_default() -> None:
    pcd.core.set_cpu_level(None)
    best = pcd.config()["cpu_level"]
    available = []
    for name in LEVELS:
        try:
            pcd.core.set_cpu_level(name)
        except TypeError:
            continue
        available.append(name)
    pcd.core.set_cpu_level(None)
    assert available[0] == "generic" and best == available[-1] == pcd.config()["cpu_level"]


@cases.each(cuda=False)
@pytest.mark.usefixtures("quiet")
def test_operations(case: Case, level: str) -> None:
    for n in (1, 7, 33, 129, 1000, 8193):
        inputs = [generators.values(case.dtype, n, seed) for seed in range(case.nin)]
        oracle.check(case, case(*inputs), inputs, level)
    inputs = generators.special_pairs(case.dtype, case.nin)
    specials = case(*inputs)
    oracle.check(case, specials, inputs, level)
    out = generators.LAYOUTS["strided"](inputs[0].shape, case.result_dtype)
    case(*inputs, out=out)
    oracle.assert_same(out, specials, case, inputs, f"{level}, strided", name="")
    pcd.core.set_cpu_level("generic")
    oracle.assert_same(specials, case(*inputs), case, inputs, f"{level} against generic", name="")


def _flags(operation: Any, inputs: list[np.ndarray[Any, Any]], code: str) -> list[int]:
    """Returns the flags of each pair of special values, except underflow and inexact."""
    out = np.empty(1, code)
    mask = ~(16 | 32)
    return [
        pcd.core.map(operation.index, -1, out, *(x[k : k + 1] for x in inputs)) & mask
        for k in range(inputs[0].size)
    ]


@pytest.mark.parametrize("code", "efd")
def test_flags(code: str, level: str) -> None:
    """No level raises a flag that the best one does not, whatever its compiler computes ahead."""
    dtype = np.dtype(code)
    for operation in pcd.core.operations:
        types = [one for one in operation.types if one[: operation.nin] == code * operation.nin]
        if types:
            inputs = generators.special_pairs(dtype, operation.nin)
            inputs = [np.ascontiguousarray(x).reshape(-1) for x in inputs]
            found = _flags(operation, inputs, types[0][-1])
            pcd.core.set_cpu_level(None)
            assert found == _flags(operation, inputs, types[0][-1]), operation.__name__
            pcd.core.set_cpu_level(level)


@cases.each(cuda=False, where=lambda case: case.dtype.kind == "c")
@pytest.mark.usefixtures("quiet")
def test_complex_numbers_are_never_contracted(case: Case, level: str) -> None:
    """Compares long calls with calls of one element: a multiply-add fused in one loop shows."""
    inputs = [generators.moderate(case.dtype, 500, seed) for seed in range(case.nin)]
    long = case(*inputs)
    single = np.array([case(*(x[i : i + 1] for x in inputs))[0] for i in range(500)])
    oracle.assert_same(long, single, case, inputs, level, name="")


@cases.each_dtype([*cases.FLOATS, *cases.COMPLEX])
def test_sums(dtype: np.dtype, level: str) -> None:
    terms = generators.moderate(dtype, 10_007)
    matrix = np.lib.stride_tricks.as_strided(terms, (5003, 5003), (dtype.itemsize,) * 2)
    wanted = dtype.type(oracle.ordered_sum(terms[::2][:5003]))
    oracle.assert_same(pcd.trace(matrix), wanted, "trace", [terms], level)
    here = pcd.add.reduce(terms)
    pcd.core.set_cpu_level("generic")
    assert pcd.add.reduce(terms) == here


@cases.each(cuda=False, where=lambda case: case.dtype == np.float16)
@pytest.mark.usefixtures("quiet")
def test_all_values_of_float16(case: Case, level: str) -> None:
    values = np.arange(65536).astype(np.uint16).view(np.float16)
    inputs = [values, generators.specials(case.dtype)[:, None]][: case.nin]
    oracle.check(case, case(*inputs), inputs, level)
