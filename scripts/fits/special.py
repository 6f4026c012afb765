"""The constants of libcalc/src/elementary/special.h: cbrt and erf."""

from __future__ import annotations

import mpmath as mp
from remez import Function, largest_error, nearest, one, remez, run


def erf_ratio(z: mp.mpf) -> mp.mpf:
    """erf(x) / x, of z = x^2."""
    x = mp.sqrt(z)
    return mp.erf(x) / x if x != 0 else 2 / mp.sqrt(mp.pi)


def erf_slope(z: mp.mpf) -> mp.mpf:
    return erf_ratio(z) - 1 + mp.mpf("0.375") * z


def erfc(t: mp.mpf) -> mp.mpf:
    return mp.erfc(BREAK + t)


BREAK = mp.mpf("0.875")  # the two polynomials of erf meet
CENTER = mp.mpf(247) / 32  # of the squares of arguments up to 3.93
LEAST = mp.mpf(2) ** -20


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


def fit_ratio(terms: int) -> tuple[list[mp.mpf], mp.mpf]:
    """erf(x) / x of x^2 - CENTER: exact at 0, as the rest is fitted as x^2 times a polynomial."""
    low, high = LEAST - CENTER, mp.mpf("3.93") ** 2 * (1 + LEAST) - CENTER
    first = erf_ratio(mp.mpf(0))

    def ratio(t: mp.mpf) -> mp.mpf:
        return erf_ratio(CENTER + t)

    rest = remez(
        lambda t: (ratio(t) - first) / (CENTER + t),
        low,
        high,
        range(terms - 1),
        lambda t: (CENTER + t) / ratio(t),
    )
    row = [nearest(a + CENTER * b) for a, b in zip([first, *rest], [*rest, 0], strict=True)]
    return row, largest_error(ratio, low, high, row, range(terms), lambda t: 1 / ratio(t))


FITS = {
    "z^(-1/3) on [1, 2], relative": fit(
        lambda z: 1 / mp.cbrt(z), mp.mpf(1), mp.mpf(2), 5, weight=mp.cbrt
    ),
    "erf(sqrt(z)) / sqrt(z) - 1 + 3/8 z on [0, 49/64], absolute": fit(
        erf_slope, mp.mpf(0), BREAK**2, 12, weight=one
    ),
    "erf(x) / x, of x^2 - 247/32, relative": fit_ratio(22),
    "log(erfc(7/8 + t)) on [0, 41/8], absolute in erf": fit(
        lambda t: mp.log(erfc(t)), mp.mpf(0), 6 - BREAK, 19, weight=erfc
    ),
}

if __name__ == "__main__":
    rows, errors = ({name: fitted[k] for name, fitted in FITS.items()} for k in (0, 1))
    run("special.h", rows, errors)
