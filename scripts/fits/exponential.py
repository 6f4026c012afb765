"""The constants of libcalc/src/elementary/exponential.h."""

from __future__ import annotations

import mpmath as mp
from remez import fit, nearest, run

LN2 = mp.log(2)
HALF_LN2 = LN2 / 2 * (1 + mp.mpf(2) ** -40)


def tail(x: mp.mpf) -> mp.mpf:
    """2 (e^x - 1 - x - x^2/2) / x^3"""
    if abs(x) < mp.mpf(2) ** -20:
        return mp.fsum(2 * x**k / mp.factorial(k + 3) for k in range(12))
    return 2 * (mp.expm1(x) - x - x * x / 2) / x**3


def tail_row() -> tuple[list[mp.mpf], mp.mpf]:
    """Coefficients of tail(), and their error relative to e^x - 1, the smaller of two results."""
    return fit(
        tail, -HALF_LN2, HALF_LN2, range(10), lambda x: x**3 / 2 / mp.expm1(x) if x else mp.mpf(0)
    )


def slope(x: mp.mpf) -> mp.mpf:
    """(e^x - 1) / x"""
    return mp.expm1(x) / x if x else mp.mpf(1)


def slope_2(x: mp.mpf) -> mp.mpf:
    """(2^x - 1) / x"""
    return LN2 * slope(x * LN2)


def main() -> None:
    log2_e = nearest(1 / LN2)
    ln2_high = nearest(LN2, 42)
    ln2_low = nearest(LN2 - ln2_high)
    ln2_hi = nearest(LN2)
    constants = {
        "LOG2_E": [log2_e],
        "LN2_42": [ln2_high, ln2_low],
        "LN2_DD": [ln2_hi, nearest(LN2 - ln2_hi)],
    }
    errors = {}
    row, errors["EXP_TAIL"] = tail_row()
    constants["EXP_TAIL"] = [row[0], *(2 * c for c in row[1:])]  # times r^2/2, not r^2
    constants["EXP_NEAR"], errors["EXP_NEAR"] = fit(
        slope, -HALF_LN2, HALF_LN2, range(11), lambda x: 1 / slope(x)
    )
    constants["EXP2_NEAR"], errors["EXP2_NEAR"] = fit(
        slope_2, mp.mpf("-0.5"), mp.mpf("0.5"), range(11), lambda x: x
    )
    run("exponential.h", constants, errors)


if __name__ == "__main__":
    main()
