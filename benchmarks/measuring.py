"""Timing: samples of all contenders in turn, so that other load slows all of them."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

#: A sample of short calls repeats them until it takes this long, in seconds.
SAMPLE_SECONDS = 5e-4

#: Before a sample of a call shorter than this the caches are warmed by one more call, in seconds.
WARM_SECONDS = 0.05

#: At least this many samples, however long they take.
MIN_SAMPLES = 3


class Timer(Protocol):
    """Anything that can be timed, as `timeit.Timer`."""

    def timeit(self, number: int) -> float:
        """Seconds for `number` repetitions."""


@dataclass(frozen=True)
class Times:
    """Seconds per call."""

    median: float
    best: float
    low: float  # first quartile
    high: float  # third quartile
    samples: int
    number: int  # calls per sample

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, over the median."""
        return (self.high - self.low) / 2 / self.median


def _summary(samples: list[float], number: int) -> Times:
    if len(samples) == 1:
        low = high = samples[0]
    else:
        low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Times(statistics.median(samples), min(samples), low, high, len(samples), number)


def calls_per_sample(timer: Timer, sample_seconds: float) -> tuple[int, float]:
    """Returns the number of calls in a sample, and the seconds of one; warms up meanwhile."""
    seconds, number = timer.timeit(1), 1
    if seconds >= WARM_SECONDS:
        return 1, seconds
    while True:
        seconds = timer.timeit(number)
        if seconds >= sample_seconds / 4:
            return max(1, math.ceil(number * sample_seconds / seconds)), seconds / number
        number *= 8


def measure(
    timers: Mapping[str, Timer],
    repeats: int,
    budget: float = 2.0,
    sample_seconds: float = SAMPLE_SECONDS,
) -> dict[str, Times]:
    """`repeats` samples, or fewer (but three) when those take more than `budget` seconds."""
    numbers, latest = {}, {}
    for name, timer in timers.items():
        numbers[name], latest[name] = calls_per_sample(timer, sample_seconds)
    samples: dict[str, list[float]] = {name: [] for name in timers}
    start = time.perf_counter()
    for i in range(repeats):
        if i >= MIN_SAMPLES and time.perf_counter() - start > budget:
            break
        for name, timer in timers.items():
            # The other contenders have filled the caches meanwhile.
            if latest[name] < WARM_SECONDS:
                timer.timeit(1)
            latest[name] = timer.timeit(numbers[name]) / numbers[name]
            samples[name].append(latest[name])
    return {name: _summary(samples[name], numbers[name]) for name in timers}
