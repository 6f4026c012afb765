"""The constants of libcalc/src/elementary/quick.h, which are those of f32, and of quick_f64.h."""

from __future__ import annotations

from collections.abc import Callable

import lanes
import mpmath as mp
from logarithm import LARGEST, series
from remez import fit, nearest, run

# Functions of z = s^2 are fitted from here on, where their digits do not cancel.
LEAST = mp.mpf(2) ** -20

Row = tuple[list[mp.mpf], mp.mpf]


def pair_f32(x: mp.mpf, bits: int = 24) -> list[mp.mpf]:
    return [nearest(x, bits), nearest(x - nearest(x, bits), 24)]


def in_f32(row: Row) -> Row:
    """The first of the coefficients as a pair."""
    (first, *others), error = row
    return pair_f32(first) + others, error


def odd(function: Callable[[mp.mpf], mp.mpf], largest: mp.mpf, n: int) -> Row:
    """(f(s) / s - 1) / z for z = s^2: the relative error of f."""
    return in_f32(
        fit(
            lambda z: (function(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
            LEAST,
            largest,
            range(n),
            lambda z: z * mp.sqrt(z) / function(mp.sqrt(z)),
            [48] + [24] * n,
        )
    )


def quotient(
    function: Callable[[mp.mpf], mp.mpf], largest: mp.mpf, above: int, below: int
) -> tuple[list[mp.mpf], list[mp.mpf], mp.mpf]:
    """Returns two polynomials, of these degrees, and the relative error of their quotient.

    Each round solves least squares, weighted with the errors of the last round (Lawson's method).
    """
    n = 400
    points = [largest * (1 - mp.cos(mp.pi * (2 * k + 1) / (2 * n))) / 2 for k in range(n)]
    values = [function(z) for z in points]
    weights, divisors = [mp.mpf(1)] * n, [mp.mpf(1)] * n
    for _ in range(10):
        rows, right = [], []
        for z, v, w, d in zip(points, values, weights, divisors, strict=True):
            scale = mp.sqrt(w) / (d * v)
            powers = [z**k for k in range(above + 1)] + [-v * z**k for k in range(1, below + 1)]
            rows.append([scale * p for p in powers])
            right.append(scale * v)
        matrix = mp.matrix(rows)
        solved = list(mp.lu_solve(matrix.T * matrix, matrix.T * mp.matrix(right)))
        upper, lower = solved[: above + 1], [mp.mpf(1), *solved[above + 1 :]]
        divisors = [mp.polyval(lower[::-1], z) for z in points]
        errors = [
            abs(mp.polyval(upper[::-1], z) / d / v - 1)
            for z, v, d in zip(points, values, divisors, strict=True)
        ]
        weights = [w * e / max(errors) for w, e in zip(weights, errors, strict=True)]
        total = mp.fsum(weights)
        weights = [w / total + mp.mpf(10) ** -12 for w in weights]
    return [nearest(c) for c in upper], [nearest(c) for c in lower], max(errors)


def rows_of_f64() -> dict[str, Row]:
    """Near enough for all but one in 100000 to round to f32."""
    eighth, half = (mp.tan(mp.pi / 8) * (1 + LEAST)) ** 2, mp.mpf(0.5) * (1 + LEAST)
    upper, lower, error = quotient(
        lambda z: mp.tan(mp.sqrt(z)) / mp.sqrt(z), (mp.pi / 4 * (1 + LEAST)) ** 2, 2, 3
    )

    def log2_slope(z: mp.mpf) -> mp.mpf:
        return (1 + z * series(z)) / mp.log(2)

    def exp2_slope(f: mp.mpf) -> mp.mpf:
        return (mp.mpf(2) ** f - 1) / f if abs(f) > mp.mpf(10) ** -30 else mp.log(2)

    def sinh_slope(z: mp.mpf) -> mp.mpf:
        return mp.sinh(mp.sqrt(z) * mp.log(2)) / mp.sqrt(z)

    def cosh_slope(z: mp.mpf) -> mp.mpf:
        return (mp.cosh(mp.sqrt(z) * mp.log(2)) - 1) / z

    return {
        "sinh(f ln 2) / f": fit(sinh_slope, LEAST, half**2, range(5), lambda z: 1 / sinh_slope(z)),
        "(cosh(f ln 2) - 1) / z": fit(
            cosh_slope, LEAST, half**2, range(4), lambda z: z / (1 + z * cosh_slope(z))
        ),
        "(artanh t / t - 1) / z": fit(
            lambda z: 4 * series(4 * z), mp.mpf(0), mp.mpf("0.2007") ** 2, range(5), lambda z: z
        ),
        "(2 artanh(s/2) - s) / s^3, s <= 2/3": fit(
            series, mp.mpf(0), (2 * (1 + LEAST) / 3) ** 2, range(7), lambda z: z
        ),
        "tan r / r": (upper + lower, error),
        "(arctan t / t - 1) / z": lanes.odd(mp.atan, eighth, 8),
        "(arcsin s / s - 1) / z": lanes.odd(mp.asin, mp.mpf(1) / 4 * (1 + LEAST), 8),
        "(2 artanh(s/2) - s) / s^3, f64": fit(series, mp.mpf(0), LARGEST, range(5), lambda z: z),
        "2 artanh(s/2) / (s ln 2)": fit(
            log2_slope, mp.mpf(0), LARGEST, range(7), lambda z: 1 / log2_slope(z)
        ),
        "(2^f - 1) / f": fit(exp2_slope, -half, half, range(9), lambda f: 1 / exp2_slope(f)),
    }


def main() -> None:
    middle = mp.atan(mp.mpf(13) / 32)
    rows = {
        "(2 artanh(s/2) - s) / s^3": in_f32(
            fit(series, mp.mpf(0), LARGEST, range(5), lambda z: z, [48] + [24] * 5)
        ),
        "tanh": odd(mp.tanh, (mp.log(2) / 4 * (1 + LEAST)) ** 2, 4),
        "arctan": odd(mp.atan, mp.mpf("0.0416"), 5),
        "m^(-1/3)": fit(lambda z: mp.cbrt(1 / z), 1, 2, range(4), lambda z: mp.cbrt(z), [24] * 4),
    }
    constants = {
        "ln 2, and half of it": [x * h for x in pair_f32(mp.log(2), 16) for h in (1, mp.mpf(0.5))],
        "2 / ln 2": [nearest(2 / mp.log(2), 24)],
        "arctan 13/32": pair_f32(middle),
        "pi/2 - arctan 13/32": pair_f32(mp.pi / 2 - middle),
        "pi/2, and half of it": [x * h for x in pair_f32(mp.pi / 2) for h in (1, mp.mpf(0.5))],
        "2^(1/3), 2^(-1/3)": [nearest(mp.cbrt(2), 24), nearest(1 / mp.cbrt(2), 24)],
        "1/3, 2/9": [nearest(mp.mpf(1) / 3, 24), nearest(mp.mpf(2) / 9, 24)],
    }
    constants |= {name: row for name, (row, _) in rows.items()}
    errors = {name: error for name, (_, error) in rows.items()}
    run("quick.h", constants, errors)
    of_f64 = rows_of_f64()
    constants = {name: row for name, (row, _) in of_f64.items()}
    run("quick_f64.h", constants, {name: error for name, (_, error) in of_f64.items()})


if __name__ == "__main__":
    main()
