"""The shape of a landscape, computed on the GPU where there is one and on the CPU otherwise.

The elevations of the Jacksboro fault in Tennessee, which Matplotlib ships as sample data, become
slope, local relief, normalised height and a shaded picture.  Then NumPy does the same steps, and
every number must have the same bits.

    python examples/demo.py [--device auto|cpu|cuda|cuda:N] [--output FILE]
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pkg as pcd

SAMPLE = "jacksboro_fault_dem.npz"

#: Length of a degree of latitude, in metres.
DEGREE = 111_200.0

#: The local relief is that of a square of this many cells, about 1 km wide.
WINDOW = 11

#: Height of the light above the horizon, in degrees.
ALTITUDE = 40


@dataclass(frozen=True)
class Grid:
    """Elevations in metres, rows from north to south; distances between cells in metres."""

    elevation: np.ndarray
    dx: float
    dy: float


def load() -> Grid:
    """The sample of Matplotlib.  Ends the program with a clear error when it is not there."""
    try:
        from matplotlib.cbook import get_sample_data

        data: Any = get_sample_data(SAMPLE)
        elevation = data["elevation"].astype(np.float64)
        latitude = (float(data["ymin"]) + float(data["ymax"])) / 2
        dx, dy = float(data["dx"]), float(data["dy"])
    except ImportError as error:
        sys.exit(f"demo: Matplotlib is needed for its sample data and the picture: {error}")
    except (OSError, KeyError, ValueError) as error:
        sys.exit(
            f"demo: Matplotlib's sample data {SAMPLE} cannot be read: {error}\n"
            "Some Linux packages leave it out; 'pip install matplotlib' has it."
        )
    return Grid(elevation, dx * DEGREE * math.cos(math.radians(latitude)), dy * DEGREE)


def fold(operation: Any, x: np.ndarray) -> float:
    """One number from all elements of `x`, by halving: what `reduce` does, on any device."""
    x = x.reshape(-1)
    while x.size > 1:
        half = x.size // 2
        folded = operation(x[:half], x[half : 2 * half])
        x = folded if x.size % 2 == 0 else np.append(folded, x[-1])
    return float(x[0])


def window(operation: Any, x: np.ndarray, size: int) -> np.ndarray:
    """`operation` over each square of size x size cells: along the rows, then along the columns."""
    for _ in range(2):
        result = x[:, : x.shape[1] - size + 1]
        for k in range(1, size):
            result = operation(result, x[:, k : x.shape[1] - size + 1 + k])
        x = result.T
    return x


def landscape(xp: Any, grid: Grid) -> dict[str, np.ndarray]:
    """Slope, light, local relief, normalised height; by the operations of `xp`, pkg or numpy."""
    z = grid.elevation

    # Central differences: the rise towards the east and towards the north, per metre.
    east = xp.divide(xp.subtract(z[1:-1, 2:], z[1:-1, :-2]), 2 * grid.dx)
    north = xp.divide(xp.subtract(z[:-2, 1:-1], z[2:, 1:-1]), 2 * grid.dy)
    squared = xp.add(xp.square(east), xp.square(north))
    slope = xp.sqrt(squared)

    # The cosine of the angle between the ground's normal and the light: low, from the north-west.
    altitude, azimuth, exaggeration = math.radians(ALTITUDE), math.radians(315), 3.0
    to_east = exaggeration * math.cos(altitude) * math.sin(azimuth)
    to_north = exaggeration * math.cos(altitude) * math.cos(azimuth)
    facing = xp.add(xp.multiply(east, to_east), xp.multiply(north, to_north))
    length = xp.sqrt(xp.add(xp.multiply(squared, exaggeration**2), 1.0))
    light = xp.maximum(xp.divide(xp.subtract(math.sin(altitude), facing), length), 0.0)

    low, high = fold(xp.minimum, z), fold(xp.maximum, z)
    return {
        "slope": slope,
        "light": light,
        "relief": xp.subtract(window(xp.maximum, z, WINDOW), window(xp.minimum, z, WINDOW)),
        "height": xp.divide(xp.subtract(z, low), high - low),
    }


def count_differences(got: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> int:
    """Counts the numbers that differ in any bit."""
    return sum(int(np.count_nonzero(_bits(got[name]) != _bits(want[name]))) for name in want)


def _bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(np.uint64)


def draw(grid: Grid, result: dict[str, np.ndarray], output: Path) -> None:
    """Three maps; two of them shaded by the light."""
    import matplotlib.pyplot as plt

    rows, columns = grid.elevation.shape
    extent = (0, columns * grid.dx / 1000, 0, rows * grid.dy / 1000)
    low, high = grid.elevation.min(), grid.elevation.max()
    edge = WINDOW // 2
    relief = np.pad(result["relief"], edge, "edge")[1:-1, 1:-1]
    across = WINDOW * grid.dy / 1000
    scale = f"normalised height (0: {low:.0f} m, 1: {high:.0f} m)"
    maps: list[tuple[str, np.ndarray, str, tuple[float, float], str]] = [
        ("Height", result["height"][1:-1, 1:-1], "gist_earth", (-0.25, 1.1), scale),
        ("Slope", 100 * result["slope"], "inferno", (0, 60), "slope (%)"),
        ("Local relief", relief, "viridis", (0, 400), f"high to low within {across:.1f} km (m)"),
    ]
    # Full colour where the ground is flat or turned to the light.
    shade = np.clip(0.35 + 0.65 * result["light"] / math.sin(math.radians(ALTITUDE)), 0, 1)
    figure, axes = plt.subplots(1, 3, figsize=(16, 6.1), layout="constrained", sharey=True)
    for axis, (title, values, colors, limits, label) in zip(axes, maps, strict=True):
        image = axis.imshow(values, cmap=colors, vmin=limits[0], vmax=limits[1], extent=extent)
        if title != "Slope":
            shaded = image.to_rgba(values)
            shaded[..., :3] *= shade[..., None]
            axis.imshow(shaded, extent=extent)
        bar = figure.colorbar(image, ax=axis, orientation="horizontal", shrink=0.85, pad=0.02)
        bar.set_label(label)
        if title == "Height":
            bar.ax.set_xlim(0, 1)
        axis.set(title=title, xlabel="distance from the west edge (km)")
    axes[0].set_ylabel("distance from the south edge (km)")
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=110)
    plt.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda or cuda:N")
    default = Path(__file__).resolve().parents[1] / "build" / "demo.png"
    parser.add_argument("--output", type=Path, default=default, help="the picture (build/demo.png)")
    options = parser.parse_args()

    grid = load()
    device = options.device
    if device == "auto":
        device = "cuda" if pcd.cuda_is_available() else "cpu"
    try:
        with pcd.default_device(device) as place:
            result = landscape(pcd, grid)
    except (pcd.CudaError, ValueError) as error:
        sys.exit(f"demo: {error}")
    differences = count_differences(result, landscape(np, grid))

    config = pcd.config()
    chip = f"the CPU ({config['cpu_level']})"
    if place != "cpu":
        chip = f"{place} ({config['gpus'][int(place.partition(':')[2])]['name']})"
    rows, columns = grid.elevation.shape
    z, slope, relief, height = (grid.elevation, result["slope"], result["relief"], result["height"])
    low, high = z.min(), z.max()
    print(f"{rows} x {columns} elevations, {grid.dx:.1f} m by {grid.dy:.1f} m apart, on {chip}")
    print(f"relief             {high - low:.0f} m: from {low:.0f} m to {high:.0f} m")
    print(f"local relief       mean {relief.mean():.0f} m, largest {relief.max():.0f} m in 1 km")
    print(f"slope              mean {100 * slope.mean():.1f} %, steepest {100 * slope.max():.1f} %")
    print(f"normalised height  mean {height.mean():.3f} (0 is the lowest cell, 1 the highest)")
    total = sum(x.size for x in result.values())
    if differences:
        print(f"compared with NumPy: {differences} of {total} numbers DIFFER")
    else:
        print(f"compared with NumPy: all {total} numbers have the same bits")
    draw(grid, result, options.output)
    print(f"picture: {options.output}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
