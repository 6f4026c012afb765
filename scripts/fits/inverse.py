"""Prints the constants of inverse.h, and the errors of its polynomials.

python scripts/fits/inverse.py          prints them
python scripts/fits/inverse.py --check  compares them with those in the header
"""

from __future__ import annotations

import sys

import mpmath as mp
from remez import as_hex, check, fit, nearest

# Functions of z = t^2 are fitted from here on, where their digits do not cancel.
LEAST = mp.mpf(2) ** -20

# t exceeds tan(pi/8) by the rounding of the breakpoints.
LARGEST = mp.tan(mp.pi / 8) ** 2 * (1 + mp.mpf(2) ** -40)


def main() -> None:
    quarter = nearest(mp.pi / 4)
    constants = {
        "tan(pi/8) and tan(3 pi/8)": [nearest(mp.tan(mp.pi / 8)), nearest(mp.tan(3 * mp.pi / 8))],
        "pi/4 in 53 + 53 bits": [quarter, nearest(mp.pi / 4 - quarter)],
    }
    # arctan t = t + t z p(z) and arcsin s = s + s z p(z), relative errors
    for name, inverse, high, n in (
        ("arctan", mp.atan, LARGEST, 11),
        ("arcsin", mp.asin, mp.mpf(1) / 4, 12),
    ):
        constants[name], error = fit(
            lambda z, inverse=inverse: (inverse(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
            LEAST,
            high,
            range(n),
            lambda z, inverse=inverse: z * mp.sqrt(z) / inverse(mp.sqrt(z)),
        )
        print(f"{name}: relative error 2^{float(mp.log(error, 2)):.1f}")
    if "--check" in sys.argv[1:]:
        check("inverse.h", constants)
    else:
        for name, numbers in constants.items():
            print(name, *map(as_hex, numbers), sep="\n    ")


if __name__ == "__main__":
    main()
