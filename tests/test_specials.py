"""Values at the edges of a type, and the warnings of np.errstate that they give."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import cases
import generators
import numpy as np
import oracle
import pytest
from cases import Case

import pkg as pcd
from pkg._docs import COMPLEX_ELEMENTARY


@cases.each()
@pytest.mark.usefixtures("quiet")
def test_each_special_with_each(case: Case) -> None:
    """Computes in one call, in shortened vectors and strided: their code differs."""
    inputs = generators.special_pairs(case.dtype, case.nin)
    oracle.check(case, case(*inputs), inputs)
    for start in range(1, 8):
        part = [x[start : start + 13] for x in inputs]
        oracle.check(case, case(*part), part)
    out = generators.LAYOUTS["strided"](inputs[0].shape, case.result_dtype)
    case(*inputs, out=out)
    oracle.check(case, out, inputs, "strided")


@cases.each_dtype(cases.INTEGERS)
@cases.each_device()
@pytest.mark.usefixtures("quiet")
def test_integer_division_never_traps(dtype: np.dtype, device: str) -> None:
    info = np.iinfo(dtype)
    a = np.array([info.min, info.max, 0, 7], dtype)
    zero = np.zeros(4, dtype)
    for operation in (pcd.divide, pcd.floor_divide, pcd.remainder):
        assert operation(a, zero, device=device).tolist() == [0, 0, 0, 0]
        assert operation(a, 0, device=device).tolist() == [0, 0, 0, 0]
    if dtype.kind == "i":
        for divisor in (-1, np.full(4, -1, dtype)):
            wanted = np.array([info.min, -info.max, 0, -7], dtype)
            assert np.array_equal(pcd.divide(a, divisor, device=device), wanted)
            assert np.array_equal(pcd.floor_divide(a, divisor, device=device), wanted)
            assert np.array_equal(pcd.remainder(a, divisor, device=device), zero)


@cases.each_dtype(cases.FLOATS)
@cases.each_device()
def test_zeros_are_those_of_the_stated_operand(dtype: np.dtype, device: str) -> None:
    """docs/differences.md states them, because NumPy's depend on the processor."""
    for n in (1, 7, 1000):
        plus, minus = np.zeros(n, dtype), -np.zeros(n, dtype)
        for a, b in ((plus, minus), (minus, plus)):
            for wanted, results in (
                (a, (pcd.fmin(a, b, device=device), pcd.fmax(a, b, device=device))),
                (b, (pcd.minimum(a, b, device=device), pcd.maximum(a, b, device=device))),
                (b, (pcd.clip(a, b, 1, device=device), pcd.clip(a, -1, b, device=device))),
            ):
                for result in results:
                    oracle.assert_same(np.signbit(result), np.signbit(wanted))


def _raised(function: Callable[..., Any], *args: Any) -> set[str]:
    """Returns the kinds of floating-point error that np.errstate reports."""
    heard: set[str] = set()
    with np.errstate(all="call", call=lambda kind, flags: heard.add(kind)):
        function(*args)
    return heard


#: Functions report what operands and results tell, and no underflow.
_FUNCTIONS = pcd.operations[pcd.operations.index("greater_equal") + 1 :]


#: Poles of the functions of complex numbers.
_POLES = {
    **dict.fromkeys(("reciprocal", "log", "log2", "log10"), (0,)),
    "log1p": (-1,),
    "arctanh": (1, -1),
    "arctan": (1j, -1j),
}


def _warnings_of_function(name: str, z: Any, result: Any) -> set[str]:
    """Returns the warnings of a function of one complex number, for both parts of its result."""
    found = set()
    for part in (result.real, result.imag):
        if np.isnan(part) and not np.isnan(z):
            found.add("invalid value")
        elif np.isinf(part) and np.isfinite(z):
            found.add("divide by zero" if z in _POLES.get(name, ()) else "overflow")
    return found


def _is_at_edge_of_underflow(x: np.ndarray) -> bool:
    """Rounded up to the smallest normal number: IEEE 754 leaves open whether it underflowed."""
    return bool((np.abs(x) == np.finfo(x.dtype).tiny).all()) if x.dtype.kind == "f" else False


@cases.each(cuda=False, where=lambda case: case.dtype.kind != "c")
def test_warnings_are_numpys(case: Case) -> None:
    """Element by element: the same kinds of warning as NumPy, no more and no fewer."""
    # The conditions of C's quotient are those of the floor.
    is_quotient = case.name == "divide" and case.dtype.kind in "iu"
    numpys = oracle.function("floor_divide" if is_quotient else case.name)
    inputs = generators.special_pairs(case.dtype, case.nin)
    different = []
    for i in range(inputs[0].size):
        element = [x[i : i + 1].copy() for x in inputs]
        ours, wanted = _raised(case, *element), _raised(numpys, *element)
        if case.name in _FUNCTIONS:
            ours, wanted = ours - {"underflow"}, wanted - {"underflow"}
        if case.name == "logaddexp":  # NumPy compares NaNs, and its difference overflows
            wanted -= {"invalid value", "overflow"}
        if case.name == "reciprocal" and case.dtype.kind in "iu":
            wanted -= {"invalid value"}
        if case.name == "power" and np.isinf(element[1]).all():
            # Exact; NumPy's code for AVX-512 warns, that for other processors does not.
            wanted -= {"divide by zero", "overflow"}
        if ours ^ wanted == {"underflow"} and _is_at_edge_of_underflow(np.asarray(case(*element))):
            continue
        if ours != wanted:
            different.append(f"{[x[0] for x in element]}: {sorted(ours)}, NumPy: {sorted(wanted)}")
    assert not different, f"{case}: {len(different)} of {inputs[0].size}\n" + "\n".join(
        different[:10]
    )


@cases.each(cuda=False, where=lambda case: case.dtype.kind == "c")
def test_warnings_of_complex_numbers(case: Case) -> None:
    """The formulas' warnings; absolute and sqrt overflow only if the result does; comparisons never
    warn.

    NumPy's own depend on whether its vector or its scalar loop runs.
    """
    inputs = generators.special_pairs(case.dtype, case.nin)
    different = []
    for i in range(0, inputs[0].size, 1 if case.nin == 1 else 7):
        element = [x[i : i + 1].copy() for x in inputs]
        ours = _raised(case, *element)
        if case.result_dtype == np.bool_:
            wanted = set()
        elif case.name in ("absolute", "sqrt"):
            with np.errstate(all="ignore"):
                overflows = np.isfinite(element[0]).all() and not np.isfinite(case(*element)).all()
            ours -= {"underflow"}
            wanted = {"overflow"} if overflows else set()
        elif case.name in _FUNCTIONS:
            with np.errstate(all="ignore"):
                can_warn = case.name in ("reciprocal", *COMPLEX_ELEMENTARY)
                z, result = element[0][0], case(*element)[0]
                wanted = _warnings_of_function(case.name, z, result) if can_warn else set()
        else:
            wanted = _raised(oracle.expected, case.name, *element)
        if ours != wanted:
            different.append(
                f"{[x[0] for x in element]}: {sorted(ours)}, expected {sorted(wanted)}"
            )
    assert not different, f"{case}: {len(different)} of {inputs[0].size}\n" + "\n".join(
        different[:10]
    )


@cases.each(cuda=False, where=lambda case: case.name == "remainder" and case.dtype.kind == "f")
def test_remainders_of_distant_operands(case: Case) -> None:
    """A remainder is exact even if the quotient underflows, overflows or loses digits."""
    info = np.finfo(case.dtype)
    powers = 2.0 ** np.arange(info.minexp - info.nmant, info.maxexp)
    for factor in (1, 1.5):
        powers_of = (powers * factor).astype(case.dtype)
        for a in (powers_of[0], powers_of[info.nmant], case.dtype.type(0.75), info.max):
            inputs = np.full(powers.size, a), powers.astype(case.dtype)
            wanted = _raised(np.remainder, *inputs)
            assert _raised(case, *inputs) == wanted, f"{case}: {a} and powers of 2"
            oracle.check(case, case(*inputs), inputs)


@cases.each(cuda=False, where=lambda case: case.name == "remainder" and case.dtype.kind == "f")
def test_remainders_of_near_multiples(case: Case) -> None:
    """Whole blocks without infinities, NaNs and zeros, for which a kernel may divide."""
    b = generators.moderate(case.dtype, 3000)
    b[abs(b) < 0.01] = 3
    for multiple in (0, 1, -3, 200, 60000):
        near = (np.float64(b) * multiple).clip(-65000, 65000).astype(case.dtype)
        for a in (near, np.nextafter(near, b), np.nextafter(near, -b)):
            for pair in ((a, b), (a, b[:1])):
                assert _raised(case, *pair) == set()
                oracle.check(case, case(*pair), pair)


@cases.each(cuda=False)
def test_no_warnings_for_everyday_values(case: Case) -> None:
    """No warnings either from memory beyond the end, which whole vectors load."""
    for n in (1, 5, 17, 1000, 200_000):
        inputs = [generators.moderate(case.dtype, n, seed) for seed in range(case.nin)]
        if case.name in ("multiply", "square", "sqrt") or case.dtype.itemsize == 1:
            inputs = [abs(x) for x in inputs]
        if case.name == "power":
            inputs = [abs(x) % 2 for x in inputs]
        if case.name.startswith(("log", "arc")) and case.nin == 1 and case.dtype.kind == "f":
            inputs = [abs(x) / 16 + (case.name == "arccosh") for x in inputs]
        assert _raised(case, *inputs) == set(), f"{case}, {n} elements"


@cases.each(cuda=False, where=lambda case: case.name == "divide" and case.dtype.kind != "c")
def test_warnings_from_every_thread(case: Case) -> None:
    """One bad element anywhere in a large array is reported."""
    n = 300_000
    a, b = generators.moderate(case.dtype, n), generators.moderate(case.dtype, n, 1)
    assert _raised(case, a, b) == set()
    for position in (0, n // 3, n // 2 - 1, n // 2, n - 1):
        bad = b.copy()
        bad[position] = 0
        assert _raised(case, a, bad) == {"divide by zero"}, f"{case}: at {position}"


def test_flags_do_not_leak_into_the_next_call() -> None:
    a = np.array([1.0, 0.0])
    assert _raised(pcd.divide, a, np.zeros(2)) == {"divide by zero", "invalid value"}
    assert _raised(pcd.divide, a, np.ones(2)) == set()
    assert _raised(np.add, a, a) == set()
    with np.errstate(all="ignore"):
        pcd.divide(a, np.zeros(2))
    assert _raised(np.add, a, a) == set()


def _ways(device: str) -> dict[str, Callable[[], Any]]:
    """A division by zero on each path through the package."""
    one, zero = np.ones(3), np.zeros(3)
    return {
        "fast": lambda: pcd.divide(one, zero, device=device),
        "out": lambda: pcd.divide(one, zero, out=np.empty(3), device=device),
        "mixed types": lambda: pcd.divide(one, np.zeros(3, "f4"), device=device),
        "integers": lambda: pcd.divide(np.ones(3, int), 0, device=device),
        "strided": lambda: pcd.divide(one, np.zeros((3, 2)).T[0], device=device),
        "large": lambda: pcd.divide(np.ones((400, 300)), np.zeros((300, 400)).T, device=device),
        "scalar": lambda: pcd.divide(np.float64(1), np.float64(0), device=device),
        "lists": lambda: pcd.divide([1.0], [0.0], device=device),
    }


@cases.each_device()
@pytest.mark.parametrize("way", _ways("cpu"))
def test_errstate(way: str, device: str) -> None:
    """ignore, warn, raise, call and log, as NumPy does them."""
    divide = _ways(device)[way]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        divide()
    with np.errstate(divide="warn"), pytest.warns(RuntimeWarning, match="divide by zero .*divide"):
        divide()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        divide()
    heard: list[str] = []

    class Log:
        def write(self, message: str) -> None:
            heard.append(message)

    with np.errstate(divide="log", call=Log()):
        divide()
    assert len(heard) == 1 and "divide by zero" in heard[0]
    with np.errstate(divide="call", call=lambda kind, flags: heard.append(kind)):
        divide()
    assert heard[1:] == ["divide by zero"]


@cases.each_device()
def test_the_default_is_a_warning(device: str) -> None:
    with pytest.warns(RuntimeWarning, match="invalid value encountered in sqrt"):
        result = pcd.sqrt(np.array([-1.0, 4.0]), device=device)
    assert np.isnan(result[0]) and result[1] == 2


def test_an_exception_leaves_out_computed() -> None:
    """As in NumPy, the error is raised after the loop."""
    out = np.full(3, 9.0)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        pcd.divide(np.ones(3), np.zeros(3), out=out)
    assert np.isinf(out).all()


def test_a_failing_callback_is_the_exception() -> None:
    def fail(kind: str, flags: int) -> None:
        raise KeyError(kind)

    with np.errstate(all="call", call=fail), pytest.raises(KeyError, match="divide by zero"):
        pcd.divide(np.ones(3), np.zeros(3))


@pytest.mark.usefixtures("quiet")
@cases.each(where=lambda case: case.name in ("minimum", "maximum") and case.dtype.kind in "fc")
def test_nan_wins(case: Case) -> None:
    nan, one = np.array([np.nan], case.dtype), np.ones(1, case.dtype)
    for inputs in ((nan, one), (one, nan), (nan, nan)):
        assert np.isnan(case(*inputs)[0])


@pytest.mark.parametrize("operand", [np.float64(1), np.array(1.0)], ids=["scalar", "0-d array"])
def test_warnings_without_dimensions_name_the_operation(operand: Any) -> None:
    with np.errstate(all="warn"), pytest.warns(RuntimeWarning, match="divide by zero .* in divide"):
        result = pcd.divide(operand, operand * 0)
    assert type(result) is np.float64 and np.isinf(result)


@pytest.mark.parametrize("char", np.typecodes["AllInteger"] + np.typecodes["AllFloat"])
def test_results_without_dimensions_have_the_type_of_the_operands(char: str) -> None:
    if char not in pcd.core.type_chars:
        return
    operand = np.ones((), char)
    for x in (operand, operand[()]):
        for y in (x, 1):
            for got, wanted in (
                (pcd.multiply(x, y), np.multiply(x, y)),
                (pcd.less(x, y), np.less(x, y)),
                (pcd.absolute(x), np.absolute(x)),
            ):
                assert type(got) is type(wanted) and got == wanted


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nans_of_large_arrays_warn_of_nothing(dtype: str) -> None:
    """Stores past the cache have loops of their own, and some of a processor's comparisons raise
    a flag for NaN."""
    a, b = np.full((2, (1 << 25) // np.dtype(dtype).itemsize), 1.5, dtype)
    a[::7] = b[::5] = np.nan
    for name in "add subtract multiply divide minimum maximum less equal absolute sqrt".split():
        operands = (a, b)[: getattr(pcd, name).nin]
        with np.errstate(all="raise"):
            result = getattr(pcd, name)(*operands)
        assert np.array_equal(result, getattr(np, name)(*operands), equal_nan=result.dtype != bool)
