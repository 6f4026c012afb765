"""The constants of libcalc/src/cpu/lanes.h, in f64."""

from __future__ import annotations

import struct
from collections.abc import Callable

import mpmath as mp
from exponential import slope_2
from remez import fit, nearest, run

# Functions of z = t^2 are fitted from here on, where their digits do not cancel.
LEAST = mp.mpf(2) ** -20

# Arguments exceed their limits by a rounding.
ABOVE = 1 + LEAST

Row = tuple[list[mp.mpf], mp.mpf]


def less_index(x: mp.mpf, i: int) -> mp.mpf:
    """The double whose bits are those of x, less i 2^48."""
    (bits,) = struct.unpack("<q", struct.pack("<d", float(nearest(x))))
    return mp.mpf(struct.unpack("<d", struct.pack("<q", bits - (i << 48)))[0])


def odd(function: Callable[[mp.mpf], mp.mpf], largest: mp.mpf, n: int) -> Row:
    """(f(t) / t - 1) / z for z = t^2: the relative error of f."""
    return fit(
        lambda z: (function(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
        LEAST,
        largest,
        range(n),
        lambda z: z * mp.sqrt(z) / function(mp.sqrt(z)),
    )


def parts() -> list[tuple[mp.mpf, mp.mpf, mp.mpf]]:
    """The ends of each sixteenth of the significands from 3/4 to 3/2, and 1 / c for its middle c.

    In the part of 1, c is 1.
    """
    rows = []
    for i in range(16):
        low, high = (mp.mpf(3 * (16 + n)) / 64 for n in (i, i + 1))
        rows.append((low, high, mp.mpf(1) if low < 1 < high else nearest(2 / (low + high))))
    return rows


def bounds_of_rest() -> tuple[mp.mpf, mp.mpf]:
    """The least and largest r = m / c - 1."""
    rests = [end * inverse - 1 for low, high, inverse in parts() for end in (low, high)]
    return min(rests) * ABOVE, max(rests) * ABOVE


def logarithm(base: mp.mpf, n: int) -> Row:
    """log(1 + r) / r: the relative error."""

    def slope(r: mp.mpf) -> mp.mpf:
        return mp.log1p(r) / r / mp.log(base)

    return fit(slope, *bounds_of_rest(), range(n), lambda r: 1 / slope(r))


def half_odd_part(z: mp.mpf) -> mp.mpf:
    """(2^f - 2^-f) / 4 f for z = f^2."""
    f = mp.sqrt(z)
    return mp.sinh(f * mp.log(2)) / f / 2


def angles() -> tuple[list[mp.mpf], list[mp.mpf], mp.mpf]:
    """c and arctan c for the half octaves from 3/32 to 12, and the largest t^2 that is left.

    t is the tangent of an angle less arctan c.  c is 0 below, 2^60 above.
    """
    edges = [mp.mpf(3) / 32 * 2 ** (k // 2) * (mp.mpf(4) / 3 if k % 2 else 1) for k in range(15)]
    tangents = [
        nearest(mp.tan((mp.atan(a) + mp.atan(b)) / 2), 24)
        for a, b in zip(edges[:-1], edges[1:], strict=True)
    ]
    rest = max(
        [edges[0], 1 / edges[-1]]
        + [
            abs(mp.tan(mp.atan(edge) - mp.atan(c)))
            for a, b, c in zip(edges[:-1], edges[1:], tangents, strict=True)
            for edge in (a, b)
        ]
    )
    values = [mp.mpf(0), *(nearest(mp.atan(c)) for c in tangents), nearest(mp.pi / 2)]
    return [mp.mpf(0), *tangents, mp.mpf(2) ** 60], values, (rest * ABOVE) ** 2


def main() -> None:
    tenth = mp.mpf(1) / 32 * ABOVE
    estimate = mp.mpf(2) ** -13
    tangents, values, widest = angles()
    inverses = [inverse for _, _, inverse in parts()]
    rows: dict[str, Row] = {
        "(2^f - 1) / f, relative to 2^f": fit(slope_2, -tenth, tenth, range(4), lambda f: f),
        "(2^f - 1) / f": fit(slope_2, -tenth, tenth, range(5), lambda f: 1 / slope_2(f)),
        "(2^f + 2^-f) / 4": fit(
            lambda z: mp.cosh(mp.sqrt(z) * mp.log(2)) / 2, LEAST, tenth**2, range(3)
        ),
        "(2^f - 2^-f) / 4 f": fit(half_odd_part, LEAST**2, tenth**2, range(3)),
        "log(1 + r) / r": logarithm(mp.e, 6),
        "log2(1 + r) / r, for power": logarithm(2, 8),
        "(arctan t / t - 1) / z": odd(mp.atan, widest, 4),
        "(arctan t / t - 1) / z, |t| <= 1/16": odd(mp.atan, (tenth * 2 + estimate) ** 2, 3),
        "(arcsin s / s - 1) / z": odd(mp.asin, mp.mpf(1) / 4 * ABOVE, 8),
    }
    constants = {
        "2^(i/16), less i": [less_index(mp.mpf(2) ** (mp.mpf(i) / 16), i) for i in range(16)],
        "2^(-i/16), plus i": [less_index(mp.mpf(2) ** (-mp.mpf(i) / 16), -i) for i in range(16)],
        "log c": [nearest(-mp.log(i)) for i in inverses],
        "ln 2": [nearest(mp.log(2))],
        "1 / ln 2, 2 / ln 2, 1 / ln 10": [
            nearest(n / mp.log(b)) for n, b in ((1, 2), (2, 2), (1, 10))
        ],
        "arctan k/8": [nearest(mp.atan(mp.mpf(k) / 8)) for k in range(9)],
        "tangents": tangents,
        "their angles": values,
    }
    constants |= {name: row for name, (row, _) in rows.items()}
    run("../cpu/lanes.h", constants, {name: error for name, (_, error) in rows.items()})


if __name__ == "__main__":
    main()
