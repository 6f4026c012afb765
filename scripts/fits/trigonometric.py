"""The constants of libcalc/src/elementary/trigonometric.h."""

from __future__ import annotations

import mpmath as mp
from remez import Function, fit, nearest, run

# r exceeds pi/4 by the error of the quotient that is rounded to the quarter.
QUARTER = (mp.pi / 4 * (1 + mp.mpf(2) ** -20)) ** 2

# Below this a function of z = r^2 is taken there, where its digits do not cancel.
LEAST = mp.mpf(2) ** -20

POLYNOMIALS: dict[str, tuple[Function, Function, mp.mpf, int]] = {
    # sin r = r + r z p(z), relative error
    "sin": (lambda z: (mp.sinc(mp.sqrt(z)) - 1) / z, lambda z: z / mp.sinc(mp.sqrt(z)), QUARTER, 6),
    # cos r = 1 - z/2 + z^2 p(z), relative error
    "cos": (
        lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2,
        lambda z: z**2 / mp.cos(mp.sqrt(z)),
        QUARTER,
        6,
    ),
    # sin r up to pi/2, for f32 and f16
    "sin, narrow": (
        lambda z: (mp.sinc(mp.sqrt(z)) - 1) / z,
        lambda z: z / mp.sinc(mp.sqrt(z)),
        4 * QUARTER,
        8,
    ),
}


def parts_of_pi() -> dict[str, list[mp.mpf]]:
    half = mp.pi / 2
    high = nearest(half)
    middle = nearest(half - high, 31)
    degree = nearest(nearest(mp.pi) / 180)
    narrow_pi = nearest(mp.pi, 24)
    return {
        "2/pi and 1/pi": [nearest(2 / mp.pi), nearest(1 / mp.pi)],
        "pi/2 in 53 + 53 bits": [high, nearest(half - high)],
        "pi/2 in 53 + 31 + 53 bits": [high, middle, nearest(half - high - middle)],
        "pi in 53 + 53 bits": [2 * high, nearest(mp.pi - 2 * high)],
        "degrees, f64": [degree, nearest(180 / nearest(mp.pi))],
        "degrees, f32": [nearest(narrow_pi / 180, 24), nearest(180 / narrow_pi, 24)],
    }


def bits_of_two_over_pi() -> list[str]:
    """Returns 64 zeros and the first 1216 bits of 2/pi after the point, in words."""
    with mp.workprec(1400):
        number = int(mp.floor(2 / mp.pi * mp.mpf(2) ** 1216))
    return [f"0x{number >> 64 * (19 - k) & (1 << 64) - 1:016x}" for k in range(20)]


def main() -> None:
    constants, errors = parts_of_pi(), {}
    for name, (function, weight, high, n) in POLYNOMIALS.items():
        constants[name], errors[name] = fit(function, LEAST, high, range(n), weight)
    run("trigonometric.h", constants, errors, bits_of_two_over_pi())


if __name__ == "__main__":
    main()
