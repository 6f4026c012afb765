"""The constants of libcalc/src/elementary/logaddexp.h."""

from __future__ import annotations

import mpmath as mp
from exponential import HALF_LN2
from logarithm import LARGEST, pair
from remez import fit, run


def exp_tail(r: mp.mpf) -> mp.mpf:
    """The terms after r^6/720 in the series of e^r, divided by r^7."""
    return mp.fsum(r**k / mp.factorial(k + 7) for k in range(40))


def log_tail(z: mp.mpf) -> mp.mpf:
    """The terms after z^3/448 in the series of 2 artanh(s/2) / s, divided by z^4; z = s^2."""
    return mp.fsum(z**k / ((2 * k + 9) * mp.mpf(4) ** (k + 4)) for k in range(50))


def words_of_ln_2() -> list[str]:
    """Returns the first 192 bits of ln 2 after the point, in words."""
    with mp.workprec(300):
        number = int(mp.floor(mp.log(2) * mp.mpf(2) ** 192))
    return [f"0x{number >> 32 * (5 - k) & 0xFFFFFFFF:08x}" for k in range(6)]


def main() -> None:
    constants = {
        "1/6, 1/24, 1/120, 1/720": [
            part for k in (3, 4, 5, 6) for part in pair(1 / mp.factorial(k))
        ],
        "1/12, 1/80, 1/448": [part for n in (12, 80, 448) for part in pair(mp.mpf(1) / n)],
        "ln 2": pair(mp.log(2)),
    }
    errors = {}
    # Relative to e^r, and to the logarithm, which is near s.
    for name, row in {
        "EXP_TAIL": (exp_tail, -HALF_LN2, HALF_LN2, 9, lambda r: r**7 / mp.exp(r)),
        "LOG_TAIL": (log_tail, mp.mpf(0), LARGEST, 8, lambda z: z**4),
    }.items():
        function, low, high, terms, weight = row
        constants[name], errors[name] = fit(function, low, high, range(terms), weight)
    run("logaddexp.h", constants, errors, words_of_ln_2())


if __name__ == "__main__":
    main()
