"""Fits polynomials to functions: least largest error, with coefficients that are doubles.

    coefficients, error = fit(function, low, high, powers)
    run("header.h", {"NAME": coefficients}, {"NAME": error})

``python scripts/fits/NAME.py`` prints the constants of NAME.h, and --check compares them.

The coefficients are rounded one after the other, from the lowest power, and what is left is fitted
again, so that later ones make up for the roundings of earlier ones.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import mpmath as mp

mp.mp.prec = 200

HEADERS = Path(__file__).resolve().parents[2] / "libcalc" / "src" / "elementary"

Function = Callable[[mp.mpf], mp.mpf]


def nearest(x: mp.mpf, bits: int = 53) -> mp.mpf:
    """Rounds to a float of so many bits, to nearest, ties to even."""
    with mp.workprec(bits):
        return +x


def one(x: mp.mpf) -> mp.mpf:
    """The weight of an absolute error."""
    return mp.mpf(1)


def value(coefficients: Sequence[mp.mpf], powers: Sequence[int], x: mp.mpf) -> mp.mpf:
    return mp.fsum(c * x**p for c, p in zip(coefficients, powers, strict=True))


def chebyshev(low: mp.mpf, high: mp.mpf, n: int) -> list[mp.mpf]:
    """Returns n points of [low, high], closer together towards its ends; none is one or 0."""
    angles = (mp.pi * (2 * k + 1) / (2 * n) for k in range(n))
    points = ((low + high) / 2 - (high - low) / 2 * mp.cos(angle) for angle in angles)
    least = (high - low) * mp.mpf(2) ** -20
    return [x if abs(x) > least else least for x in points]


def remez(
    function: Function, low: mp.mpf, high: mp.mpf, powers: Sequence[int], weight: Function
) -> list[mp.mpf]:
    """Returns the real coefficients of least weighted error on [low, high].

    The exchange may fail to converge if the powers leave out the lowest and 0 is inside, because
    then no error need alternate.  The result is the better of its best and the least-squares fit.
    """
    n = len(powers) + 1
    nodes = chebyshev(low, high, n)
    grid = chebyshev(low, high, 20 * n)
    wanted, weights = [function(x) for x in grid], [abs(weight(x)) for x in grid]

    def errors_of(coefficients: list[mp.mpf]) -> list[mp.mpf]:
        rows = zip(grid, wanted, weights, strict=True)
        return [(f - value(coefficients, powers, x)) * w for x, f, w in rows]

    rows = [[x**p * w for p in powers] for x, w in zip(grid, weights, strict=True)]
    right = [f * w for f, w in zip(wanted, weights, strict=True)]
    best = list(mp.lu_solve(mp.matrix(rows), mp.matrix(right)))
    least = max(map(abs, errors_of(best)))
    for _ in range(12):
        rows = [[x**p for p in powers] + [(-1) ** k / abs(weight(x))] for k, x in enumerate(nodes)]
        try:
            solved = mp.lu_solve(mp.matrix(rows), mp.matrix([function(x) for x in nodes]))
        except ZeroDivisionError:  # two nodes have met
            break
        coefficients, levelled = list(solved[:-1]), abs(solved[n - 1])
        errors = errors_of(coefficients)
        largest = max(map(abs, errors))
        if largest < least:
            best, least = coefficients, largest
        if largest <= levelled * mp.mpf("1.01"):
            break
        # The highest error of each run of one sign; of too many runs, those at the better end.
        peaks: list[int] = []
        for i, e in enumerate(errors):
            if peaks and (errors[peaks[-1]] < 0) == (e < 0):
                if abs(e) > abs(errors[peaks[-1]]):
                    peaks[-1] = i
            else:
                peaks.append(i)
        while len(peaks) > n:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        if len(peaks) < n:
            break
        nodes = [grid[i] for i in peaks]
    return best


def largest_error(
    function: Function,
    low: mp.mpf,
    high: mp.mpf,
    coefficients: Sequence[mp.mpf],
    powers: Sequence[int],
    weight: Function = one,
) -> mp.mpf:
    """Returns the largest weighted error of a polynomial, over points of [low, high]."""
    xs = (low + (high - low) * k / 2000 for k in range(2001))
    return max(
        abs((function(x) - value(coefficients, powers, x)) * weight(x)) for x in xs if x != 0
    )


def fit(
    function: Function,
    low: float | mp.mpf,
    high: float | mp.mpf,
    powers: Sequence[int],
    weight: Function = one,
    bits: Sequence[int] = (),
) -> tuple[list[mp.mpf], mp.mpf]:
    """Returns coefficients that are doubles, and the largest weighted error on [low, high].

    The weight is what the absolute error is multiplied with: 1 / function for the relative error.
    bits[k] is the number of bits of coefficient k, 53 where it is not given.
    """
    low, high = mp.mpf(low), mp.mpf(high)
    done: list[mp.mpf] = []
    for k in range(len(powers)):
        fixed, left = list(done), powers[k:]

        def rest(x: mp.mpf, fixed: list[mp.mpf] = fixed, k: int = k) -> mp.mpf:
            return function(x) - value(fixed, powers[:k], x)

        coefficients = remez(rest, low, high, left, weight)
        done.append(nearest(coefficients[0], bits[k] if k < len(bits) else 53))
    return done, largest_error(function, low, high, done, powers, weight)


def as_hex(x: mp.mpf) -> str:
    """A double as C writes it in hex."""
    number = float(x)
    assert mp.mpf(number) == x, f"{x} is not a double"
    sign, digits, exponent = re.fullmatch(
        r"(-?)0x(\d(?:\.[0-9a-f]+)?)p([+-]\d+)", number.hex()
    ).groups()  # type: ignore[union-attr]
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    return f"{sign}0x{digits}p{int(exponent)}"


def run(
    header: str,
    constants: Mapping[str, Sequence[mp.mpf]],
    errors: Mapping[str, mp.mpf],
    words: Sequence[str] = (),
) -> None:
    """Prints the constants, with the errors of fits, or compares them for ``--check``.

    `words` are the bits of a number.
    """
    if "--check" in sys.argv[1:]:
        check(header, constants, words)
        return
    for name, row in constants.items():
        error = f": error 2^{mp.nstr(mp.log(errors[name], 2), 4)}" if name in errors else ""
        print(name + error, *map(as_hex, row), sep="\n    ")
    print(*words, sep="\n")


def check(
    header: str, constants: Mapping[str, Sequence[mp.mpf]], words: Sequence[str] = ()
) -> None:
    """Exits with an error where the header does not hold one of the constants."""
    text = (HEADERS / header).read_text(encoding="utf-8")
    numbers = {1.0} | {float.fromhex(n) for n in re.findall(r"-?0x[0-9a-f.]+p[+-]?\d+", text)}
    missing = [
        f"{name}: {as_hex(x)}"
        for name, row in constants.items()
        for x in row
        if float(x) not in numbers and -float(x) not in numbers
    ]
    if missing:
        lines = "\n  ".join(missing)
        raise SystemExit(f"{header} does not hold what its script computes:\n  {lines}")
    digits = len(words[0]) - 2 if words else 0
    if words and re.findall(rf"\b0x[0-9a-f]{{{digits}}}\b(?=[,}}])", text) != words:
        raise SystemExit(f"{header} does not hold the bits that its script computes")
    print(f"{header} holds all {sum(map(len, constants.values()))} constants")
