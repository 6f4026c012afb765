"""The constants of libcalc/src/elementary/special.h: cbrt and erf.

python scripts/fits/special.py            prints them, with the error of each fit
python scripts/fits/special.py --check    compares them with what the header holds
"""

from __future__ import annotations

import sys

import mpmath as mp
from remez import Function, as_hex, check, largest_error, nearest, one, remez


def erf_slope(z: mp.mpf) -> mp.mpf:
    """erf(x) / x - 1 + 3/8 x^2, of z = x^2."""
    x = mp.sqrt(z)
    return (mp.erf(x) / x if x != 0 else 2 / mp.sqrt(mp.pi)) - 1 + mp.mpf("0.375") * z


def erfc(t: mp.mpf) -> mp.mpf:
    return mp.erfc(BREAK + t)


BREAK = mp.mpf("0.875")  # the two polynomials of erf meet


def fit(
    function: Function, low: mp.mpf, high: mp.mpf, terms: int, weight: Function
) -> tuple[list[mp.mpf], mp.mpf]:
    """The best coefficients on [low, high], rounded, and the error of the polynomial.

    remez.fit() makes later coefficients correct the first, whose error at 0 they cannot reach.
    """
    powers = range(terms)
    coefficients = remez(function, low, high, powers, weight)
    row = [nearest(c) for c in coefficients]
    return row, largest_error(function, low, high, row, powers, weight)


CONSTANTS = {
    "z^(-1/3) on [1, 2], relative": fit(
        lambda z: 1 / mp.cbrt(z), mp.mpf(1), mp.mpf(2), 5, weight=mp.cbrt
    ),
    "erf(sqrt(z)) / sqrt(z) - 1 + 3/8 z on [0, 49/64], absolute": fit(
        erf_slope, mp.mpf(0), BREAK**2, 12, weight=one
    ),
    "log(erfc(7/8 + t)) on [0, 41/8], absolute in erf": fit(
        lambda t: mp.log(erfc(t)), mp.mpf(0), 6 - BREAK, 19, weight=erfc
    ),
}

if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        check("special.h", {name: row for name, (row, _) in CONSTANTS.items()})
    else:
        for name, (row, error) in CONSTANTS.items():
            print(f"{name}: error 2^{float(mp.log(error, 2)):.2f}")
            print("  " + ",\n  ".join(as_hex(x) for x in row))
