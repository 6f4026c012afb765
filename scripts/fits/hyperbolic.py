"""The constants of libcalc/src/elementary/hyperbolic.h."""

from __future__ import annotations

import mpmath as mp
from logarithm import series
from remez import fit, run

HALF_OCTAVE = mp.log(2) / 2 + mp.mpf(2) ** -20  # the largest r
LARGEST = HALF_OCTAVE**2


def sinh_tail(z: mp.mpf) -> mp.mpf:
    """(sinh r - r) / r^3, of z = r^2."""
    r = mp.sqrt(z)
    return (mp.sinh(r) - r) / r**3 if r != 0 else mp.mpf(1) / 6


def cosh_tail(z: mp.mpf) -> mp.mpf:
    """(cosh r - 1 - r^2/2) / r^4, of z = r^2."""
    return (mp.cosh(mp.sqrt(z)) - 1 - z / 2) / z**2 if z != 0 else mp.mpf(1) / 24


# Weighted by what the error adds to sinh r relative to r, and to cosh r.
# u = tanh of half the rest of arctanh: half an octave and 0.0861, the error of k by bits.
WIDEST = (2 * mp.mpf("0.2006")) ** 2
FITS = {
    "(2 artanh(s/2) - s) / s^3": fit(series, mp.mpf(0), WIDEST, range(7), weight=lambda z: z),
    "(sinh r - r) / r^3": fit(sinh_tail, 0, LARGEST, range(6), weight=lambda z: z),
    "(cosh r - 1 - r^2/2) / r^4": fit(cosh_tail, 0, LARGEST, range(5), weight=lambda z: z * z),
}

if __name__ == "__main__":
    rows, errors = ({name: fitted[k] for name, fitted in FITS.items()} for k in (0, 1))
    run("hyperbolic.h", rows, errors)
