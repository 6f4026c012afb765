"""Outputs that share memory with inputs, and the methods of ufuncs, which make them do so."""

from __future__ import annotations

import math
from typing import Any

import cases
import generators
import numpy as np
import oracle
import pytest
from cases import Case

import pkg as pcd
from pkg._docs import ELEMENTARY
from pkg._table import PREDICATES

pytestmark = pytest.mark.usefixtures("quiet")

Slices = tuple[Any, Any, Any]

#: (a, b, out) as parts of one array of one dimension.
OVERLAPS: dict[str, Slices] = {
    "out one after a": (np.s_[:-1], np.s_[:-1], np.s_[1:]),
    "out one before a": (np.s_[1:], np.s_[1:], np.s_[:-1]),
    "out between a and b": (np.s_[:-2], np.s_[2:], np.s_[1:-1]),
    "out reversed": (np.s_[:], np.s_[:], np.s_[::-1]),
    "a reversed": (np.s_[::-1], np.s_[:], np.s_[:]),
    "out is a, b one off": (np.s_[:-1], np.s_[1:], np.s_[:-1]),
    "every second": (np.s_[:-1:2], np.s_[1::2], np.s_[1::2]),
    "out twice as wide": (np.s_[:60], np.s_[60:], np.s_[::2]),
    "out shares its head with a": (np.s_[:60], np.s_[60:], np.s_[40:100]),
}


def _check_overlap(case: Case, memory: np.ndarray, parts: Slices, note: str) -> None:
    inputs = [memory[part] for part in parts[: case.nin]]
    out = memory[parts[2]]
    copies = [x.copy() for x in inputs]
    own = generators.surroundings(out)
    assert case(*inputs, out=out) is out
    oracle.check(case, out, copies, note)
    assert np.array_equal(generators.surroundings(out), own), f"{case}, {note}: wrote beside out"


@cases.each(where=lambda case: case.dtype == case.result_dtype)
def test_out_overlaps_inputs(case: Case) -> None:
    """All inputs are read before anything is written."""
    for note, parts in OVERLAPS.items():
        _check_overlap(case, generators.values(case.dtype, 120), parts, note)


@cases.each(where=lambda case: case.dtype == case.result_dtype)
def test_out_is_the_transposed_input(case: Case) -> None:
    for n in (3, 40):
        memory = generators.values(case.dtype, n * n).reshape(n, n)
        inputs = [memory, memory[::-1]][: case.nin]
        copies = [x.copy() for x in inputs]
        case(*inputs, out=memory.T)
        oracle.check(case, memory.T, copies)


@cases.each(
    array=False, where=lambda case: case.dtype == case.result_dtype and case.dtype.itemsize > 1
)
def test_out_shares_single_bytes_with_an_input(case: Case) -> None:
    """Elements overlap partly."""
    buffer = generators.values(np.dtype("u1"), 60 * case.dtype.itemsize + 1)
    a, out = buffer[:-1].view(case.dtype), buffer[1:].view(case.dtype)
    inputs = [a, a[::-1]][: case.nin]
    copies = [x.copy() for x in inputs]
    case(*inputs, out=out)
    oracle.check(case, out, copies)


@cases.each(cuda=False, where=lambda case: case.dtype == case.result_dtype and case.nin == 2)
def test_out_is_one_number_of_an_input(case: Case) -> None:
    """a[0:1] is repeated over out, whose first element it is."""
    memory = generators.values(case.dtype, 50)
    inputs = [memory[:1], memory.copy()]
    copies = [x.copy() for x in inputs]
    case(*inputs, out=memory)
    oracle.check(case, memory, copies)


@cases.each(where=lambda case: case.name in ("add", "divide", "square") and case.dtype.itemsize > 2)
def test_large_overlap(case: Case) -> None:
    """Uses several threads, and several pieces on a GPU."""
    base = np.resize(generators.values(case.dtype, 2003), 200_000)
    for parts in ((np.s_[:-1], np.s_[1:], np.s_[1:]), (np.s_[::-1], np.s_[:], np.s_[:])):
        _check_overlap(case, base.copy(), parts, str(parts))


@cases.each_device()
@pytest.mark.parametrize("name", ["add", "power", "equal"])
def test_a_mask_that_shares_memory_with_out(name: str, device: str) -> None:
    """The mask is read before anything is written, even where NumPy reads it too late."""
    operation = getattr(pcd, name)
    for dtype, out_dtype in (("i4", "i4"), ("i1", "i8"), ("f4", "f8"), ("u1", "?")):
        for n in (5, 3000):
            a, b = np.arange(n).astype(dtype), np.full(n, 2, dtype)
            size = n * np.dtype(out_dtype).itemsize
            for begin, step in ((0, 1), (0, -1), (1, 1)):
                memory = np.resize([0, 1, 1], size + 8).astype("u1")
                wanted = memory.copy()
                masks = [x[:n].view(bool) for x in (memory, memory.copy())]
                for x, mask in zip((memory, wanted), masks, strict=True):
                    out = x[begin : begin + size].view(out_dtype)[::step]
                    operation(a, b, out=out, where=mask, casting="unsafe", device=device)
                assert np.array_equal(memory, wanted), (dtype, out_dtype, n, begin, step)


@cases.each_device()
@pytest.mark.parametrize("kinds", ["f4 ?", "u1 i2", "i8 f8"])
def test_unselected_elements_where_out_overlaps_an_operand(kinds: str, device: str) -> None:
    """They stay unchanged; NumPy converts them to the type of the result and back."""
    dtype, other = kinds.split()
    for n in (6, 3000):
        mask, ones = np.arange(n) % 3 != 0, np.ones(n, other)
        for parts in (np.s_[::-1], np.s_[:]):
            memory = np.arange(n).astype(dtype)
            wanted = memory[parts].copy()
            wanted[mask] = np.equal(memory, ones)[mask]
            pcd.equal(memory, ones, out=memory[parts], where=mask, device=device)
            assert np.array_equal(memory[parts], wanted), (n, parts)
            memory = np.arange(n).astype(dtype)
            with pcd.default_device(device):
                pcd.equal(memory, ones, memory[parts], where=mask)
            assert np.array_equal(memory[parts], wanted), (n, parts, "the default device")


# ---- The methods of ufuncs ----


def _binary(case: Case) -> bool:
    """A result that can be an operand again; comparisons of numbers cannot be reduced."""
    return case.nin == 2 and case.result_dtype == case.dtype


def _step(case: Case, *operands: np.ndarray) -> np.ndarray:
    """One step of a fold; small errors of the oracle would grow with each."""
    if case.name in ELEMENTARY or (case.dtype.kind == "c" and case.name == "sqrt"):
        return np.asarray(case(*operands))
    return np.asarray(oracle.expected(case.name, *operands))


def _reduce_dtype(case: Case) -> np.dtype:
    """add and multiply reduce narrow integers in 64 bits, as NumPy's do."""
    name = case.name if case.name in ("add", "multiply") else "minimum"
    return np.dtype(getattr(np, name).reduce(np.ones(1, case.dtype)).dtype)


def _is_float_sum(case: Case) -> bool:
    return case.name == "add" and case.dtype.kind in "fc"


def _data(case: Case, n: int, seed: int = 0) -> np.ndarray:
    return generators.values(case.dtype, n, seed)


def _same_fold(case: Case, actual: Any, wanted: Any, inputs: Any, note: str) -> None:
    oracle.assert_same(actual, wanted, case, inputs, note)


@cases.each(cuda=False, where=lambda case: _binary(case) and not _is_float_sum(case))
def test_reduce_is_the_fold(case: Case) -> None:
    """Reduces one element after the other, along a contiguous and a strided axis."""
    dtype = _reduce_dtype(case)
    for n in (1, 2, 3, 8, 33, 200):
        data = _data(case, n * 5).reshape(n, 5)
        data[data == 0] = 1  # so that a product is not 0 at once
        wanted = data[0].astype(dtype)
        # NumPy begins with the identity, which matters to infinities and signs.
        if case.name in ("multiply", "hypot", "logaddexp"):
            first = np.full(5, case.operation.identity, dtype)
            wanted = _step(case, first, wanted)
        for row in data[1:]:
            wanted = _step(case, wanted, row.astype(dtype))
        for layout in ("contiguous", "fortran", "reversed_strided", "unaligned", "swapped"):
            laid = generators.laid_out(data, layout)
            note = f"reduce of {n}, {layout}"
            _same_fold(case, case.operation.reduce(laid, axis=0), wanted, [data], note)
            _same_fold(case, case.operation.reduce(laid.T, axis=1), wanted, [data], note)
            out = generators.poisoned(5, dtype)
            assert case.operation.reduce(laid, axis=0, out=out) is out
            _same_fold(case, out, wanted, [data], note + ", out=")
            one = np.array(case.operation.reduce(laid[:, 2]))
            _same_fold(case, one, wanted[2], [data[:, 2]], note + ", one column")


@cases.each(cuda=False, where=_binary)
def test_accumulate_is_the_fold(case: Case) -> None:
    dtype = _reduce_dtype(case)
    for n in (0, 1, 2, 3, 8, 33, 200):
        data = _data(case, n * 3).reshape(n, 3)
        data[data == 0] = 1
        wanted = data.astype(dtype)
        for i in range(1, n):
            wanted[i] = _step(case, wanted[i - 1], wanted[i])
        for layout in ("contiguous", "fortran", "reversed_strided", "unaligned", "swapped"):
            laid = generators.laid_out(data, layout)
            note = f"accumulate of {n}, {layout}"
            _same_fold(case, case.operation.accumulate(laid), wanted, [data], note)
            _same_fold(case, case.operation.accumulate(laid.T, axis=1).T, wanted, [data], note)
            column = case.operation.accumulate(np.ascontiguousarray(laid[:, 1]))
            _same_fold(case, column, wanted[:, 1], [data[:, 1]], note + ", one column")


@cases.each(cuda=False, where=lambda case: _binary(case) and not _is_float_sum(case))
def test_reduceat_is_the_fold(case: Case) -> None:
    dtype = _reduce_dtype(case)
    data = _data(case, 100)
    data[data == 0] = 1
    starts = [0, 4, 1, 90, 5, 99, 7]
    result = case.operation.reduceat(data, starts)
    wide = data.astype(dtype)
    for k, start in enumerate(starts):
        stop = starts[k + 1] if k + 1 < len(starts) else 100
        wanted = wide[start : start + 1]
        for i in range(start + 1, stop):
            wanted = _step(case, wanted, wide[i : i + 1])
        _same_fold(case, result[k : k + 1], wanted, [data], f"reduceat, [{start}:{stop}]")


@cases.each(cuda=False, where=_binary)
def test_outer(case: Case) -> None:
    a, b = _data(case, 7, 0), _data(case, 33, 1)
    result = case.operation.outer(a, b)
    assert result.shape == (7, 33)
    oracle.check(case, result, [a[:, None], b], "outer")


@cases.each(cuda=False, where=lambda case: case.dtype == case.result_dtype)
def test_at(case: Case) -> None:
    """In place, one index after the other, repeated ones too."""
    data, other = _data(case, 20, 0), _data(case, 9, 1)
    index = [3, 3, 0, 19, 3, 7, -1, 7, 7]
    wanted = data.copy()
    for k, i in enumerate(index):
        operands = [wanted[i : i + 1 or None], other[k : k + 1]][: case.nin]
        wanted[i] = _step(case, *operands)[0]
    actual = data.copy()
    case.operation.at(actual, index, *[other][: case.nin - 1])
    oracle.assert_same(actual, wanted, case, [data], "at")


@cases.each(cuda=False, where=lambda case: case.name in ("add", "multiply", "minimum", "maximum"))
def test_reduce_arguments_are_numpys(case: Case) -> None:
    """axis, keepdims, initial and where."""
    data = generators.moderate(case.dtype, 60).reshape(3, 4, 5)
    mask = np.arange(60).reshape(3, 4, 5) % 3 > 0
    ours, numpys = case.operation.reduce, getattr(np, case.name).reduce
    exact = case.dtype.kind in "iu" or case.name in ("minimum", "maximum")
    for kwargs in (
        {"axis": None},
        {"axis": (0, 2)},
        {"axis": -1, "keepdims": True},
        {"axis": 1, "initial": 2},
        {"axis": (0, 1), "where": mask, "initial": 3},
    ):
        result, wanted = np.asarray(ours(data, **kwargs)), np.asarray(numpys(data, **kwargs))
        assert result.shape == wanted.shape and result.dtype == wanted.dtype, kwargs
        if exact:
            oracle.assert_same(result, wanted, case, [data], str(kwargs))
        else:
            np.testing.assert_allclose(
                result, wanted, rtol=60 * np.finfo(case.dtype).eps, err_msg=str(kwargs)
            )


@pytest.mark.parametrize(
    "operation",
    [op for op in cases.OF_FLOATS if op.__name__ not in (*PREDICATES, "real", "imag")],
    ids=lambda op: op.__name__,
)
def test_reduce_of_nothing_is_numpys(operation: Any) -> None:
    numpys = getattr(np, operation.__name__, np.cbrt)  # it has no erf
    empty = np.empty((0, 3))
    try:
        wanted = numpys.reduce(empty)
    except ValueError:
        with pytest.raises(ValueError):
            operation.reduce(empty)
    else:
        oracle.assert_same(operation.reduce(empty), wanted)
    assert operation.identity == numpys.identity or operation.nin == 1


def test_reduce_over_axes_that_cannot_be_reordered() -> None:
    with pytest.raises(ValueError, match="reorder"):
        pcd.subtract.reduce(np.ones((2, 2)), axis=None)
    a = np.arange(6.0).reshape(2, 3)
    a[0, 0] = np.nan
    for name in ("minimum", "maximum", "fmin", "fmax"):
        ours, numpys = getattr(pcd, name), getattr(np, name)
        for axis in (None, (0, 1)):
            oracle.assert_same(ours.reduce(a, axis=axis), numpys.reduce(a, axis=axis), name)


# ---- Sums ----

SUM_LENGTHS = (1, 2, 255, 256, 257, 2047, 2048, 2049, 2050, 4097, 6145, 10_000, 100_003)


@cases.each_dtype([*cases.FLOATS, *cases.COMPLEX])
def test_sums_have_the_documented_order(dtype: np.dtype) -> None:
    """Sums have the order of mylib.h, except for the first term: only the length matters."""
    for n in SUM_LENGTHS:
        terms = generators.moderate(dtype, n)
        sums = [
            pcd.add.reduce(generators.laid_out(terms, layout))
            for layout in ("contiguous", "strided")
        ]
        assert sums[0] == sums[1] == pcd.add.reduce(terms, keepdims=True)[0]
        wide = terms.astype(np.float32) if dtype == np.float16 else terms
        rest = oracle.ordered_sum(wide[1:])
        candidates = [oracle.ordered_sum(wide), wide[0] + rest, rest + wide[0]]
        assert sums[0] in [dtype.type(x) for x in candidates], f"{dtype}, {n} terms"


@cases.each_dtype([*cases.FLOATS, *cases.COMPLEX])
def test_sums_along_axes_have_one_order(dtype: np.dtype) -> None:
    """NumPy's reduction along an outer axis would add, and round, element by element."""
    values = generators.moderate(dtype, 300 * 6).reshape(300, 2, 3)
    for x in (values, np.asfortranarray(values), values[::-1], values.transpose(1, 0, 2)):
        for axis in (0, 1, -1, (0, 2), None):
            for keepdims in (False, True):
                actual = pcd.add.reduce(x, axis, keepdims=keepdims)
                oracle.assert_same(actual, pcd.sum(x, axis, keepdims=keepdims))
    assert pcd.add.reduce(np.ones((5000, 2), "f2"), dtype="f2").tolist() == [5000, 5000]
    oracle.assert_same(pcd.add.reduce(values), pcd.sum(values, 0))


@cases.each_dtype([*cases.FLOATS, *cases.COMPLEX])
def test_sums_are_as_accurate_as_numpys(dtype: np.dtype) -> None:
    """Over many arrays, against math.fsum; NumPy adds up pairwise."""
    for n, arrays in ((100, 300), (1000, 300), (5000, 300), (50_000, 20)):
        ours, numpys = 0.0, 0.0
        for seed in range(arrays):
            terms = (generators.moderate(dtype, n, seed) / 64).astype(dtype)
            exact = oracle.exact_sum(terms)
            ours += abs(pcd.add.reduce(terms).item() - exact) ** 2
            numpys += abs(np.add.reduce(terms).item() - exact) ** 2
        error, numpys_error = math.sqrt(ours / arrays), math.sqrt(numpys / arrays)
        assert error <= 1.25 * numpys_error, f"{dtype}, {n} terms: {error}, NumPy {numpys_error}"


@cases.each_dtype([*cases.FLOATS, *cases.COMPLEX])
def test_sums_of_parts_are_accurate(dtype: np.dtype) -> None:
    """reduceat, and reduce along each axis."""
    terms = generators.moderate(dtype, 3000).reshape(30, 100)
    eps = np.finfo(dtype).eps
    for axis in (0, 1):
        result = pcd.add.reduce(terms, axis=axis)
        for got, line in zip(result, np.moveaxis(terms, axis, -1), strict=True):
            bound = 110 * eps * np.abs(line.astype(np.complex128)).sum()
            assert abs(got.item() - oracle.exact_sum(line)) <= bound
    flat = terms.reshape(-1)
    starts = [0, 100, 1, 2500, 2999]
    result = pcd.add.reduceat(flat, starts)
    for got, start, stop in zip(result, starts, [100, 101, 2500, 2999, 3000], strict=True):
        part = flat[start:stop]
        bound = 25 * eps * np.abs(part.astype(np.complex128)).sum()
        assert abs(got.item() - oracle.exact_sum(part)) <= bound
