"""Elementary functions against MPFR: float16 and float32 are right, the others within their bounds.

The risk: a wrong constant, a lost special value, or a path for hard arguments that another path
of the library, a stride or a device, does not take.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest

import pkg as pcd
from pkg._docs import COMPLEX_ELEMENTARY

pytest.importorskip("gmpy2", reason="the true values are MPFR's, by way of gmpy2")
import elementary

NAMES = [name for name in elementary.FUNCTIONS if hasattr(pcd, name)]
COUNT = 3000
EACH = pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, np.dtype(c)) for name in NAMES for c in "efd"]
    + [(name, np.dtype(c)) for name in COMPLEX_ELEMENTARY for c in "FD"],
    ids=str,
)


def _arguments(name: str, dtype: Any, seed: int) -> tuple[np.ndarray[Any, Any], ...]:
    rng = np.random.default_rng(seed)
    if dtype.kind == "c":
        return elementary.complex_arguments(name, rng, COUNT, dtype)
    return elementary.FUNCTIONS[name].arguments(rng, COUNT, dtype)


@EACH
def test_values(name: str, dtype: Any) -> None:
    arguments = _arguments(name, dtype, 1)
    with np.errstate(all="ignore"):
        result = getattr(pcd, name)(*arguments)
    if dtype == np.complex64:
        with np.errstate(all="ignore"):
            wider = getattr(pcd, name)(arguments[0].astype(np.complex128)).astype(dtype)
        oracle.assert_same(result, wider, "rounded from complex128", arguments)
    elif dtype == np.complex128:
        errors = elementary.complex_ulps(name, result, *arguments)
        worst = int(np.argmax(errors))
        assert errors[worst] <= 1, f"{name} of {arguments[0][worst]}"
    elif dtype == np.float64:
        errors = elementary.ulps(name, result, *arguments)
        worst = int(np.argmax(errors))
        given = [x[worst] for x in arguments]
        assert errors[worst] <= elementary.FUNCTIONS[name].bound, f"{name} of {given}"
    else:
        oracle.assert_same(result, elementary.rounded(name, *arguments), name, arguments)


@pytest.mark.parametrize("name", [name for name in COMPLEX_ELEMENTARY if name.startswith("log")])
def test_complex_logarithms_of_tiny_parts(name: str) -> None:
    """Subnormal squares and remainders: half of one, or a multiple, would round twice."""
    rng = np.random.default_rng(5)
    sizes = rng.uniform(1, 2, (3, 500))
    one = rng.choice([-1.0, 1.0], 500)
    root, subnormal = sizes[0] * 2.0**-530, np.ldexp(sizes[1], rng.integers(-1074, -1022, 500))
    far = np.ldexp(sizes[2], rng.integers(-900, -150, 500))
    z = np.concatenate([one + 1j * root, root + 1j * one, far + 1j * subnormal])
    errors = elementary.complex_ulps(name, getattr(pcd, name)(z), z)
    worst = int(np.argmax(errors))
    assert errors[worst] <= 1, f"{name} of {z[worst]}"


def test_complex_powers() -> None:
    """Within 1 ulp of the modulus, of all binades; complex64 is rounded from complex128."""
    rng = np.random.default_rng(4)
    with np.errstate(all="ignore"):
        z, w = elementary.complex_powers(rng, COUNT, np.dtype("D"))
        errors = elementary.complex_ulps("power", pcd.power(z, w), z, w)
        worst = int(np.argmax(errors))
        assert errors[worst] <= 1, f"power of {z[worst]}, {w[worst]}"
        z, w = elementary.complex_powers(rng, COUNT, np.dtype("F"))
        wider = pcd.power(z.astype("D"), w.astype("D")).astype("F")
        oracle.assert_same(pcd.power(z, w), wider, "rounded from complex128", (z, w))


@pytest.mark.gpu
@EACH
def test_the_gpu_gives_the_same_bits(name: str, dtype: Any) -> None:
    arguments = _arguments(name, dtype, 2)
    with np.errstate(all="ignore"):
        wanted = getattr(pcd, name)(*arguments)
    there = [pcd.asarray(x, device="cuda") for x in arguments]
    oracle.assert_same(pcd.asnumpy(getattr(pcd, name)(*there)), wanted, name, arguments)
    if len(arguments) == 2:
        text = f"{name}(b, a)"
        swapped = pcd.evaluate(text, {"a": there[1], "b": there[0]})
        oracle.assert_same(pcd.asnumpy(swapped), wanted, text, arguments)
    backwards = pcd.asnumpy(getattr(pcd, name)(*(x[::-3] for x in there)))
    oracle.assert_same(backwards, wanted[::-3], name, [x[::-3] for x in arguments])


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_the_gpu_rounds_what_is_near_the_middle_of_two_float32(name: str) -> None:
    """A quick way must not decide how a result within 2^-38 of a middle rounds to float32."""
    arguments = elementary.FUNCTIONS[name].arguments(
        np.random.default_rng(6), 1 << 22, np.dtype(np.float32)
    )
    with np.errstate(all="ignore"):
        wide = getattr(pcd, name)(*(x.astype(np.float64) for x in arguments))
    from_middle = np.abs((wide.view(np.int64) & 0x1FFFFFFF) - 0x10000000)
    is_near = (from_middle < 0x4000) & np.isfinite(wide)
    assert is_near.any()
    near = [x[is_near] for x in arguments]
    with np.errstate(all="ignore"):
        there = getattr(pcd, name)(*(pcd.asarray(x, device="cuda") for x in near))
    right = elementary.rounded(name, *near)
    oracle.assert_same(pcd.asnumpy(there), right, name, near)


@EACH
def test_an_element_decides_alone(name: str, dtype: Any) -> None:
    """An element has the same bits alone, in any row, with any stride and among others."""
    arguments = _arguments(name, dtype, 3)
    function = getattr(pcd, name)
    with np.errstate(all="ignore"):
        wanted = function(*arguments)
        for start, stop, step in ((5, 6, 1), (1, 100, 1), (0, None, 7), (None, None, -1)):
            part = slice(start, stop, step)
            chosen = [x[part] for x in arguments]
            oracle.assert_same(function(*chosen), wanted[part], name, chosen)
        text = f"{name}({', '.join('ab'[: len(arguments)])}) * 1"
        names = dict(zip("ab", arguments, strict=False))
        oracle.assert_same(pcd.evaluate(text, names), wanted * 1, text, arguments)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", COMPLEX_ELEMENTARY)
def test_signs_of_complex_zeros(name: str, dtype: Any) -> None:
    """Zero parts have NumPy's signs, which choose the side of a branch cut."""
    parts = np.array([0.0, 0.25, 1.0, 2.5], dtype().real.dtype)
    parts = np.concatenate([parts, -parts])
    z = np.empty((parts.size, parts.size), dtype)
    z.real, z.imag = parts[:, None], parts
    with np.errstate(all="ignore"):
        ours, numpys = getattr(pcd, name)(z), getattr(np, name)(z)
    for part in ("real", "imag"):
        signs = [np.signbit(getattr(x, part)) for x in (ours, numpys)]
        wrong = np.argwhere(signs[0] != signs[1])
        assert not wrong.size, f"{name}({z[tuple(wrong[0])]}).{part}"
