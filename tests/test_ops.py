"""Every operation with every element type at every length, new outputs and given ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import cases
import generators
import numpy as np
import oracle
import pytest
from cases import Case
from hypothesis import given
from hypothesis import strategies as st

import pkg as pcd

pytestmark = pytest.mark.usefixtures("quiet")


def test_the_table_is_covered() -> None:
    """The header's enumerators, the package's names and the cases agree."""
    header = (Path(pcd.get_include()) / "mylib.h").read_text()
    names = tuple(re.findall(r"\bMYLIB_OP_([a-z]\w*) *=", header))
    assert pcd.operations == names
    assert {case.name for case in cases.CPU} == set(names)
    stored = int(re.search(r"define MYLIB_TYPE_COUNT (\d+)", header)[1])
    assert len(cases.DTYPES) == stored - 1  # nothing computes in bool
    assert all(getattr(pcd, name) in pcd.core.operations for name in names)


@pytest.mark.parametrize("operation", pcd.core.operations, ids=lambda op: op.__name__)
def test_an_operation_is_documented(operation) -> None:
    header = (Path(pcd.get_include()) / "mylib.h").read_text()
    assert f"MYLIB_OP_{operation.__name__}" in header
    doc = operation.__doc__
    for part in ("Parameters", "Returns", "Raises", "Examples", f">>> pcd.{operation.__name__}("):
        assert part in doc
    for dtype in {np.dtype(types[0]).name for types in operation.types}:
        assert dtype in doc


@cases.each()
def test_every_length(case: Case) -> None:
    for n in generators.LENGTHS:
        inputs = [generators.values(case.dtype, n, seed) for seed in range(case.nin)]
        before = [x.tobytes() for x in inputs]
        out = generators.poisoned(n, case.result_dtype)
        assert case(*inputs, out=out) is out
        oracle.check(case, out, inputs, "out=")
        oracle.check(case, case(*inputs), inputs, "new output")
        assert [x.tobytes() for x in inputs] == before, (
            f"{case}: an input of length {n} was changed"
        )


@cases.each()
@pytest.mark.parametrize("n", generators.LARGE_LENGTHS)
def test_large(case: Case, n: int) -> None:
    """Long enough for threads and for stores past the cache."""
    period = 10_007  # a prime, so that the pieces of the threads differ
    inputs = [np.resize(generators.values(case.dtype, period, seed), n) for seed in range(case.nin)]
    short = [x[:period] for x in inputs]
    result = case(*inputs)
    # The elements repeat with the period, and NumPy's float remainder of random bits is slow.
    wanted = np.resize(case(*short), n)
    oracle.check(case, result[:period], short)
    oracle.assert_same(result, wanted, case, inputs, name="")


@cases.each(where=lambda case: case.nin == 2)
def test_a_number_among_arrays(case: Case) -> None:
    """A Python number takes the type of the arrays, and is an operand of stride 0."""
    a = generators.values(case.dtype, 100)
    weak = {"i": -3, "u": 3, "f": 1.5, "c": 1.5 - 2j}[case.dtype.kind]
    for inputs in ((a, weak), (weak, a), (a, case.dtype.type(weak)), (case.dtype.type(weak), a)):
        out = generators.poisoned(100, case.result_dtype)
        assert case(*inputs, out=out) is out
        oracle.check(case, out, inputs)
        oracle.check(case, case(*inputs), inputs)


@cases.each()
def test_zero_dimensions(case: Case) -> None:
    """0-d arrays and NumPy scalars give NumPy scalars; a 0-d output stays an array."""
    for kind in (np.asarray, lambda x: x):
        inputs = [kind(generators.values(case.dtype, 5, seed)[3]) for seed in range(case.nin)]
        result = case(*inputs)
        assert type(result) is case.result_dtype.type, f"{case}: {type(result)}"
        oracle.check(case, result, inputs)
        out = generators.poisoned((), case.result_dtype)
        assert case(*inputs, out=out) is out
        oracle.check(case, out, inputs)


@cases.each()
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 5)], ids=str)
def test_no_elements(case: Case, shape: tuple[int, ...]) -> None:
    inputs = [np.empty(shape, case.dtype)] * case.nin
    result = case(*inputs)
    assert result.shape == shape and result.dtype == case.result_dtype
    out = np.empty(shape, case.result_dtype)
    assert case(*inputs, out=out) is out


@cases.each(where=lambda case: case.dtype.kind == "c" and case.result_dtype != np.bool_)
def test_complex_is_within_the_stated_bound(case: Case) -> None:
    """Against results in a wider type, in units of the last place."""
    wide = np.complex128 if case.dtype == np.complex64 else np.clongdouble
    inputs = [generators.moderate(case.dtype, 5000, seed) for seed in range(case.nin)]
    exact = getattr(np, case.name)(*(x.astype(wide) for x in inputs))
    result = case(*inputs)
    error = np.abs(result - exact)
    scale = np.abs(exact)
    ulps = oracle.COMPLEX_ULPS.get(case.name, 1.0)
    if case.name in ("multiply", "square"):
        scale = np.abs(inputs[0].astype(wide)) * np.abs(inputs[-1].astype(wide))
    eps = np.finfo(case.dtype).eps
    worst = int(np.argmax(error - ulps * eps * scale))
    assert error[worst] <= ulps * eps * scale[worst], (
        f"{case}: {result[worst]!r}, exactly {exact[worst]!r}, of {[x[worst] for x in inputs]!r}: "
        f"{float(error[worst] / (eps * scale[worst])):.2f} units, at most {ulps} are allowed"
    )


@given(data=st.data())
@pytest.mark.parametrize("operation", pcd.core.operations, ids=lambda op: op.__name__)
def test_any_arrays(operation, data: st.DataObject) -> None:
    """Shapes that broadcast, layouts and values as hypothesis finds them."""
    case = data.draw(st.sampled_from([c for c in cases.CPU if c.operation is operation]))
    inputs, shape = data.draw(generators.operands(case.dtype, case.nin))
    oracle.check(case, case(*inputs), inputs, "new output")
    out = generators.LAYOUTS[data.draw(generators.output_layouts)](shape, case.result_dtype)
    around = generators.surroundings(out)
    assert case(*inputs, out=out) is out
    oracle.check(case, out, inputs, "out=")
    assert np.array_equal(generators.surroundings(out), around), f"{case}: wrote beside out"


@cases.each(cuda=False, where=lambda case: case.dtype.itemsize == 1)
def test_all_values_of_one_byte(case: Case) -> None:
    values = np.arange(256).astype(np.uint8).view(case.dtype)
    inputs = [values] if case.nin == 1 else [values[:, None], values]
    oracle.check(case, case(*inputs), inputs)


@cases.each(where=lambda case: case.dtype == np.float16)
def test_all_values_of_float16(case: Case) -> None:
    """All 65536 values; with two operands, against the specials and some of all."""
    values = np.arange(65536).astype(np.uint16).view(np.float16)
    if case.nin == 1:
        inputs = [values]
    else:
        others = np.concatenate([generators.specials(case.dtype), values[::9973]])
        inputs = [values, others[:, None]]
    oracle.check(case, case(*inputs), inputs)


def test_json_of_config_is_plain() -> None:
    """Reports of benchmarks hold config(): it must be made of plain values."""
    assert json.loads(json.dumps(pcd.config())) == pcd.config()
