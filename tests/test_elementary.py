"""Elementary functions against MPFR: float16 and float32 are right, float64 is within its bound.

The risk: a wrong constant, a lost special value, or a path for hard arguments that another path
of the library, a stride or a device, does not take.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest

import pkg as pcd

pytest.importorskip("gmpy2", reason="the true values are MPFR's, by way of gmpy2")
import elementary

NAMES = [name for name in elementary.FUNCTIONS if hasattr(pcd, name)]
COUNT = 3000


def _arguments(name: str, dtype: Any, seed: int) -> tuple[np.ndarray[Any, Any], ...]:
    return elementary.FUNCTIONS[name].arguments(np.random.default_rng(seed), COUNT, dtype)


@pytest.mark.parametrize("dtype", [np.dtype(c) for c in "efd"], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_values(name: str, dtype: Any) -> None:
    arguments = _arguments(name, dtype, 1)
    with np.errstate(all="ignore"):
        result = getattr(pcd, name)(*arguments)
    if dtype == np.float64:
        errors = elementary.ulps(name, result, *arguments)
        worst = int(np.argmax(errors))
        given = [x[worst] for x in arguments]
        assert errors[worst] <= elementary.FUNCTIONS[name].bound, f"{name} of {given}"
    else:
        oracle.assert_same(result, elementary.rounded(name, *arguments), name, arguments)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.dtype(c) for c in "efd"], ids=str)
@pytest.mark.parametrize("name", NAMES)
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


@pytest.mark.parametrize("dtype", [np.dtype(c) for c in "efd"], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_an_element_decides_alone(name: str, dtype: Any) -> None:
    """Alone, in any row and with any stride, an element has the bits that it has among others."""
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
