"""The constants of libcalc/src/elementary/inverse.h."""

from __future__ import annotations

import mpmath as mp
from remez import fit, nearest, run

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
    errors = {}
    # arctan t = t + t z p(z) and arcsin s = s + s z p(z), relative errors
    for name, inverse, high, n in (
        ("arctan", mp.atan, LARGEST, 11),
        ("arcsin", mp.asin, mp.mpf(1) / 4, 12),
    ):
        constants[name], errors[name] = fit(
            lambda z, inverse=inverse: (inverse(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
            LEAST,
            high,
            range(n),
            lambda z, inverse=inverse: z * mp.sqrt(z) / inverse(mp.sqrt(z)),
        )
    run("inverse.h", constants, errors)


if __name__ == "__main__":
    main()
