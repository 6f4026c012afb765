"""The constants of libcalc/src/elementary/quick.h, which are those of f32."""

from __future__ import annotations

from collections.abc import Callable

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
    run("quick.h", constants, {name: error for name, (_, error) in rows.items()})


if __name__ == "__main__":
    main()
