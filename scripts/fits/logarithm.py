"""The constants of libcalc/src/elementary/logarithm.h."""

from __future__ import annotations

import mpmath as mp
from remez import fit, nearest, run

# The largest z = s^2, where s = 2 f / (2 + f) and 1 + f is the square root of 2.
LARGEST = (2 * (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2


def series(z: mp.mpf) -> mp.mpf:
    """(2 artanh(s/2) - s) / s^3, where z = s^2: 1/12 + z/80 + z^2/448 + ..."""
    if z < mp.mpf(2) ** -20:
        return mp.fsum(z**k / ((2 * k + 3) * 4 ** (k + 1)) for k in range(12))
    s = mp.sqrt(z)
    return (2 * mp.atanh(s / 2) - s) / s**3


def pair(x: mp.mpf, bits: int = 53) -> list[mp.mpf]:
    return [nearest(x, bits), nearest(x - nearest(x, bits))]


def main() -> None:
    constants = {
        "LN2_42": pair(mp.log(2), 42),
        "LOG10_2_42": pair(mp.log10(2), 42),
        "LOG2_E": pair(1 / mp.log(2)),
        "LOG10_E": pair(1 / mp.log(10)),
    }
    errors = {}
    # Relative to the logarithm, which is near s.
    constants["LOG_SERIES"], errors["LOG_SERIES"] = fit(
        series, mp.mpf(0), LARGEST, range(8), lambda z: z
    )
    constants["LOG_NEAR"], errors["LOG_NEAR"] = fit(
        series, mp.mpf(0), LARGEST, range(7), lambda z: z
    )
    run("logarithm.h", constants, errors)


if __name__ == "__main__":
    main()
