"""The constants of libcalc/src/elementary/power.h."""

from __future__ import annotations

import mpmath as mp
from exponential import tail_row
from logarithm import LARGEST, pair, series
from remez import fit, run


def main() -> None:
    coefficients, error = fit(series, mp.mpf(0), LARGEST, range(8), lambda z: z, bits=[106])
    log_2 = mp.log(2)
    high = pair(log_2, 42)
    constants = {
        "POWER_SERIES": [*pair(coefficients[0]), *coefficients[1:]],
        "POWER_TAIL": [c / 2 for c in tail_row()[0]],
        "LN2_42": high,
        "LN2_THIRD": [pair(log_2 - high[0] - high[1])[0]],
    }
    run("power.h", constants, {"POWER_SERIES": error})


if __name__ == "__main__":
    main()
