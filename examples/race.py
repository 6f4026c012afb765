"""A race: the landscape of demo.py, enlarged, is lit by NumPy, by this package, and on a GPU.

Each computes the light on every cell in strips of rows, and reports its time and the memory it
needed besides the landscape; all results must have one fingerprint.  The landscape is as large as
the memory allows, a hundred and twenty million cells at most.

    python examples/race.py [--cells 120M]
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from demo import ALTITUDE, Grid, load

import pkg as pcd

STRIPS = 24

#: Bytes for each cell: the landscape, its light, and what NumPy needs for a strip.
NBYTES_PER_CELL = 12

_EAST, _NORTH = "(e - w) / dx", "(n - s) / dy"

#: The cosine of the angle between the ground's normal and the light, as in demo.py.
LIGHT = pcd.Expression(
    f"maximum((up - ({_EAST}) * to_east - ({_NORTH}) * to_north)"
    f" / sqrt((({_EAST}) ** 2 + ({_NORTH}) ** 2) * squared + 1), 0)"
)


def numbers(grid: Grid) -> dict[str, float]:
    """The numbers of the formula: distances, and the direction of the light."""
    altitude, azimuth, exaggeration = math.radians(ALTITUDE), math.radians(315), 3.0
    return {
        "dx": 2 * grid.dx,
        "dy": 2 * grid.dy,
        "up": math.sin(altitude),
        "to_east": exaggeration * math.cos(altitude) * math.sin(azimuth),
        "to_north": exaggeration * math.cos(altitude) * math.cos(azimuth),
        "squared": exaggeration**2,
    }


def by_numpy(e: Any, w: Any, n: Any, s: Any, out: Any, k: dict[str, float]) -> None:
    """The formula as one writes it with NumPy."""
    east, north = (e - w) / k["dx"], (n - s) / k["dy"]
    facing = k["up"] - east * k["to_east"] - north * k["to_north"]
    length = np.sqrt((east**2 + north**2) * k["squared"] + 1)
    np.maximum(facing / length, 0, out=out)


def by_package(e: Any, w: Any, n: Any, s: Any, out: Any, k: dict[str, float]) -> None:
    """The formula in one pass."""
    LIGHT(e=e, w=w, n=n, s=s, out=out, **k)


def available_memory() -> int:
    """Bytes that this process may safely take, of the machine and its container."""
    found = re.search(r"^MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
    free = 1024 * int(found[1]) if found else os.sysconf("SC_PHYS_PAGES") * 4096 // 2
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        try:
            free = min(free, int(Path(limit).read_text()) - int(Path(used).read_text()))
        except (OSError, ValueError):
            continue  # no such file, or "max"
    return free


def enlarge(z: np.ndarray, cells: int) -> np.ndarray:
    """At least so many cells: the landscape and its mirror images, side by side."""
    z = z.astype(np.float32)
    four = np.block([[z, z[:, ::-1]], [z[::-1], z[::-1, ::-1]]])
    times = math.sqrt(cells / four.size)
    rows, columns = (max(8, round(n * times)) for n in four.shape)
    result = np.empty((rows, columns), np.float32)
    for i in range(0, rows, four.shape[0]):
        for j in range(0, columns, four.shape[1]):
            part = result[i : i + four.shape[0], j : j + four.shape[1]]
            part[...] = four[: part.shape[0], : part.shape[1]]
    return result


def show(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:78}\r", end="", file=sys.stderr, flush=True)


def strips(name: str, z: Any) -> Iterator[slice]:
    """Yields the rows of each strip, and shows the progress on a terminal."""
    rows = z.shape[0] - 2
    for k in range(STRIPS):
        show(f"{name} [{'#' * k:{STRIPS}}]")
        yield slice(rows * k // STRIPS, rows * (k + 1) // STRIPS)
    show("")


def light(name: str, z: Any, formula: Callable[..., None], k: dict[str, float]) -> Any:
    """The light on all inner cells, an array where the landscape is."""
    out = pcd.empty((z.shape[0] - 2, z.shape[1] - 2), "f4", getattr(z, "device", "cpu"))
    for rows in strips(name, z):
        a, b = rows.start, rows.stop
        middle = z[a + 1 : b + 1]
        formula(middle[:, 2:], middle[:, :-2], z[a:b, 1:-1], z[a + 2 : b + 2, 1:-1], out[rows], k)
    return out


def run(name: str, z: Any, formula: Callable[..., None], k: dict[str, float]) -> tuple[str, float]:
    """Lets one of them run, and prints how it went; returns the fingerprint and the seconds."""
    is_on_gpu = isinstance(z, pcd.Array)
    before = pcd.memory_info().used if is_on_gpu else 0
    tracemalloc.start()
    begin = time.perf_counter()
    result = light(name, z, formula, k)
    if is_on_gpu:
        pcd.synchronize()
    seconds = time.perf_counter() - begin
    needed = pcd.memory_info().used - before if is_on_gpu else tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    show(f"{name}: fingerprint")
    digits = pcd.fingerprint(result)
    show("")
    print(f"{name:24} {seconds:8.3f} s {needed / 2**20:8.0f} MiB   {digits}", flush=True)
    return digits, seconds


def _cells(text: str) -> int:
    found = re.fullmatch(r"(\d+)([kMG]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of cells, such as 120M")
    return int(found[1]) * {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}[found[2]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cells", type=_cells, default=_cells("120M"), help="default: 120M")
    options = parser.parse_args()

    grid = load()
    cells = min(options.cells, available_memory() // 2 // NBYTES_PER_CELL)
    if cells < options.cells:
        print(f"the memory allows {cells / 1e6:.0f} million cells, not {options.cells / 1e6:.0f}")
    show("enlarging the landscape")
    z = enlarge(grid.elevation, cells)
    k = numbers(grid)
    print(f"\nlight on {z.size / 1e6:.0f} million cells, {z.nbytes / 2**20:.0f} MiB of float32")
    print(f"{'':24} {'time':>10} {'memory':>12}   fingerprint of the light")
    runs = [run("NumPy", z, by_numpy, k)]
    threads = pcd.get_num_threads()
    with pcd.default_device("cpu"):
        name = f"pkg, {threads} thread{'s' * (threads > 1)}"
        runs.append(run(name, z, by_package, k))
    if pcd.cuda_is_available():
        info = pcd.memory_info("cuda")
        if info.free < 3 * z.nbytes:
            print(f"cuda:0 has {info.free / 2**20:.0f} MiB free: too little for this landscape")
        else:
            begin = time.perf_counter()
            there = pcd.asarray(z, device="cuda")
            pcd.synchronize()
            moving = time.perf_counter() - begin
            with pcd.default_device("cuda"):
                light("first launch", there[: 10 * STRIPS], by_package, k)
                runs.append(run("pkg on cuda:0", there, by_package, k))
            print(f"{'':24} {moving:8.3f} s to move the landscape there")
    print(f"{runs[0][1] / runs[1][1]:.1f} times as fast as NumPy on the CPU", end="")
    print(f", {runs[0][1] / runs[2][1]:.0f} times on the GPU" if len(runs) > 2 else "")
    if len({digits for digits, _ in runs}) > 1:
        print("race: the fingerprints differ", file=sys.stderr)
        return 1
    print("one fingerprint: the same bits from all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
