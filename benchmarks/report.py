"""Results on the terminal, as JSON and as pictures."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import pkg as pcd

from .case import CEILING, LAUNCH, ONE_GPU, OURS, Case, Goal
from .measuring import Times

TYPES = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "c64", "c128")


@dataclass
class Row:
    """The results of a case."""

    case: Case
    nbytes: int = 0
    times: dict[str, Times] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    error: str = ""

    def ours(self) -> float:
        """Seconds or bytes; NaN when the case failed."""
        return self.times[OURS].median if OURS in self.times else self.values.get(OURS, math.nan)

    def ratio(self, reference: str) -> float:
        """Returns the reference's time divided by ours; NaN if one of them was not measured."""
        if reference not in self.times or OURS not in self.times:
            return math.nan
        return self.times[reference].median / self.times[OURS].median

    def bandwidth(self) -> float:
        """GB/s, each element of each operand counted once."""
        return self.nbytes / self.ours() / 1e9

    def reached(self, goal: Goal) -> bool | None:
        """None when there is nothing to compare with."""
        got = self.ratio(goal.reference) if goal.reference else self.ours()
        if math.isnan(got):
            return None
        return got >= goal.ratio if goal.reference else got <= goal.at_most

    def missed(self) -> list[Goal]:
        return [goal for goal in self.case.goals if self.reached(goal) is False]

    def as_json(self) -> dict[str, Any]:
        references = [name for name in self.times if name != OURS]
        data: dict[str, Any] = {
            **self.case.facts(),
            "nbytes": self.nbytes,
            "times": {name: {**asdict(t), "spread": t.spread} for name, t in self.times.items()},
            "values": self.values,
            "ratios": {name: self.ratio(name) for name in references},
            "goals": [{**asdict(goal), "reached": self.reached(goal)} for goal in self.case.goals],
            "lacking": self.lacking,
            "error": self.error,
        }
        if self.nbytes and OURS in self.times:
            data["GB/s"] = {name: self.nbytes / t.median / 1e9 for name, t in self.times.items()}
        return data


# ---- The machine ----


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine() -> dict[str, Any]:
    """Describes the machine and the versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_nbytes": memory,
        "load_at_start": os.getloadavg()[0],
        "system": f"{platform.system()} {platform.machine()}",
        **pcd.config(),
    }


def describe(facts: dict[str, Any], peers: dict[str, str], absent: dict[str, str]) -> list[str]:
    """The head of the report."""
    gpus = ", ".join(gpu["name"] for gpu in facts["gpus"]) or f"none ({facts['cuda_reason']})"
    lines = [
        f"pkg {facts['version']} ({facts['cpu_level']}, {facts['threads']} threads),"
        f" Python {facts['python']}",
        f"{facts['processor']}, {facts['cores']} cores, {facts['memory_nbytes'] / 2**30:.0f} GiB,"
        f" load {facts['load_at_start']:.2f}",
        f"GPU: {gpus}",
        "peers: " + (", ".join(f"{name} {version}" for name, version in peers.items()) or "none"),
    ]
    lines += [f"  {name} is absent: {reason}" for name, reason in absent.items()]
    lines.append("A ratio is the other's time over ours: above 1 we are faster.")
    return lines


# ---- Tables ----


def seconds_text(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def amount_text(case: Case, value: float) -> str:
    if case.unit == "%":
        return f"{value:.3g} %"
    return seconds_text(value) if case.unit == "s" else f"{value / 1e6:.2f} MB"


def _goal_text(row: Row) -> str:
    words = {True: "reached", False: "MISSED", None: "not measured"}
    texts = []
    for goal in row.case.goals:
        wanted = str(goal) if goal.reference else f"<= {amount_text(row.case, goal.at_most)}"
        texts.append(f"{wanted}: {words[row.reached(goal)]}")
    return "; ".join(texts)


def line(row: Row) -> str:
    """A row by itself."""
    if row.error:
        return f"{row.case.name:40} FAILED: {row.error}"
    parts = [f"{row.case.name:40} {amount_text(row.case, row.ours()):>9}"]
    if OURS in row.times:
        parts.append(f"+-{100 * row.times[OURS].spread:4.1f}%")
    if row.nbytes >= 2**16:
        parts.append(f"{row.bandwidth():7.1f} GB/s")
    for name, times in row.times.items():
        if name != OURS:
            parts.append(f" {name} {seconds_text(times.median)} ({row.ratio(name):.2f})")
    parts += [
        f" {name} {amount_text(row.case, value)}"
        for name, value in row.values.items()
        if name != OURS
    ]
    parts += [
        f" {name}: {reason}"
        for name, reason in row.lacking.items()
        if name in (CEILING, LAUNCH, ONE_GPU)
    ]
    goals = _goal_text(row)
    return " ".join(parts) + (f"  [{goals}]" if goals else "")


class Matrix:
    """Prints operations by types, each operation's line as soon as it is complete."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.write = write
        self.title = self.op = ""
        self.rows: dict[str, Row] = {}

    def add(self, row: Row) -> None:
        facts = row.case.facts()
        title = (
            f"{facts['layout']}, n = {facts['n']}, "
            + ("out= given" if facts["variant"] == "out" else "new output")
            + ("" if facts["device"] == "cpu" else f", device={facts['device']!r}")
        )
        if (title, facts["op"]) != (self.title, self.op):
            self.flush()
        if title != self.title:
            self.write(f"\n{title}: ratio to NumPy, * where a goal is missed")
            self.write(" " * 14 + "".join(f"{name:>7}" for name in TYPES))
        self.title, self.op = title, facts["op"]
        self.rows[facts["type"]] = row

    def flush(self) -> None:
        if self.rows:
            self.write(f"{self.op:14}" + "".join(self._cell(name) for name in TYPES))
            for row in self.rows.values():
                if row.error:
                    self.write(line(row))
        self.rows = {}

    def _cell(self, name: str) -> str:
        row = self.rows.get(name)
        if row is None:
            return f"{'':>7}"
        if row.error:
            return f"{'FAILED':>7}"
        ratio = row.ratio("NumPy")
        text = seconds_text(row.ours()).replace(" ", "") if math.isnan(ratio) else f"{ratio:.2f}"
        return f"{text + ('*' if row.missed() else ''):>7}"


def misses(rows: list[Row]) -> list[str]:
    """Goals that were missed, the worst first in each group."""
    found = [(row, goal) for row in rows for goal in row.missed()]

    def order(pair: tuple[Row, Goal]) -> tuple[str, float]:
        row, goal = pair
        return row.case.group, row.ratio(goal.reference) if goal.reference else 0.0

    lines = []
    for row, goal in sorted(found, key=order):
        text = f"{row.case.group}: {row.case.name}: {amount_text(row.case, row.ours())}"
        if OURS in row.times:
            text += f" +-{100 * row.times[OURS].spread:.0f}%"
        if goal.reference:
            other = row.times[goal.reference]
            text += (
                f", {goal.reference} {seconds_text(other.median)} +-{100 * other.spread:.0f}%, "
                f"ratio {row.ratio(goal.reference):.2f}, goal {goal.ratio:.2f}"
            )
        else:
            text += f", goal {amount_text(row.case, goal.at_most)}"
        lines.append(text)
    return lines


#: The groups that come last in the summary.
DETAILS = ("installation", "sizes", "gpu sizes", "gpu calls")

SUMMARY_LINES = 9


def summary(rows: list[Row]) -> list[str]:
    """At most nine lines: how many times as long each peer takes, group by group."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.case.group, []).append(row)
    lines = []
    for group in sorted(groups, key=lambda group: group in DETAILS):
        ratios: dict[str, list[float]] = {}
        for row in groups[group]:
            for name in row.times:
                if name not in (OURS, CEILING, LAUNCH):
                    ratios.setdefault(name, []).append(row.ratio(name))
        found = {name: [x for x in values if x > 0] for name, values in ratios.items()}
        text = ", ".join(
            f"{name} {statistics.median(values):.2g} ({min(values):.2g} to {max(values):.2g})"
            for name, values in found.items()
            if values
        )
        if text:
            lines.append(f"{group + ':':16} {text}")
    return lines[:SUMMARY_LINES]


def _finite(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, dict):
        return {key: _finite(x) for key, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(x) for x in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, head: dict[str, Any], rows: list[Row]) -> None:
    data = {
        **head,
        "command": ["python -m benchmarks", *sys.argv[1:]],
        "rows": [row.as_json() for row in rows],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_finite(data), indent=1, allow_nan=False) + "\n")


# ---- Pictures ----


def _plot_series(
    axis: Any, series: dict[str, list[tuple[int, float]]], title: str, xlabel: str
) -> None:
    """Plots a line for us and for each peer, on logarithmic axes."""
    for label, points in series.items():
        is_ours = label.startswith(OURS)
        axis.plot(
            *zip(*sorted(points), strict=True),
            marker="o",
            markersize=3.5,
            linewidth=2.2 if is_ours else 1.2,
            linestyle="--" if "GPU" in label else "-",
            zorder=3 if is_ours else 2,
            label=label,
        )
    axis.set(xscale="log", yscale="log", title=title, xlabel=xlabel)
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small")


def _save(plt: Any, figure: Any, path: Path, dpi: int = 130) -> Path:
    figure.tight_layout()
    figure.savefig(path, dpi=dpi)
    plt.close(figure)
    return path


def _plot_sizes(plt: Any, rows: list[Row], folder: Path, group: str, file: str) -> Path | None:
    """Bandwidth against size, for us and for each peer."""
    chosen = [row for row in rows if row.case.group == group and not row.error]
    if not chosen:
        return None
    types = sorted({row.case.facts()["type"] for row in chosen})
    figure, axes = plt.subplots(
        1, len(types), figsize=(6 * len(types), 4.5), squeeze=False, sharey=True
    )
    for axis, type_ in zip(axes[0], types, strict=True):
        series: dict[str, list[tuple[int, float]]] = {}
        for row in chosen:
            facts = row.case.facts()
            if facts["type"] != type_:
                continue
            there_and_back = group == "sizes" and facts["device"] != "cpu"
            for name, times in row.times.items():
                label = f"{name}, GPU there and back" if there_and_back else name
                series.setdefault(label, []).append((facts["n"], row.nbytes / times.median / 1e9))
        _plot_series(axis, series, f"add, {type_}, out= given", "elements")
        axis.set_xscale("log", base=2)
    axes[0][0].set_ylabel("GB/s (two inputs read, one output written)")
    return _save(plt, figure, folder / file)


def _plot_chains(plt: Any, rows: list[Row], folder: Path) -> Path | None:
    """Time against the number of operations in an expression, for us and for each peer."""
    from matplotlib.ticker import LogLocator

    chosen = [row for row in rows if row.case.group == "chains" and not row.error]
    places = sorted({(row.case.device, row.case.facts()["n"]) for row in chosen})
    if not places:
        return None
    figure, axes = plt.subplots(1, len(places), figsize=(6 * len(places), 4.5), squeeze=False)
    for axis, place in zip(axes[0], places, strict=True):
        series: dict[str, list[tuple[int, float]]] = {}
        for row in chosen:
            facts = row.case.facts()
            if (facts["device"], facts["n"]) == place:
                for name, times in row.times.items():
                    points = series.setdefault(name, [])
                    points.append((facts["operations"], times.median * 1e3))
        device, n = place
        where = "arrays on the GPU" if device == "cuda" else "CPU"
        _plot_series(axis, series, f"{n:,} f64, {where}", "operations in the expression")
        axis.set_ylabel("ms")
        counts = sorted({row.case.facts()["operations"] for row in chosen})
        axis.set_xticks(counts, map(str, counts))
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.minorticks_off()
    return _save(plt, figure, folder / "chains.png")


def _plot_ratios(plt: Any, rows: list[Row], folder: Path) -> Path | None:
    """Ratio to NumPy of every operation and type, one panel for each size."""
    chosen = [row for row in rows if row.case.group == "operations" and "NumPy" in row.times]
    panels: dict[tuple[Any, ...], dict[tuple[str, str], float]] = {}
    for row in chosen:
        facts = row.case.facts()
        key = (facts["device"], facts["n"], facts["variant"])
        panels.setdefault(key, {})[facts["op"], facts["type"]] = row.ratio("NumPy")
    if not panels:
        return None
    figure, axes = plt.subplots(len(panels), 1, figsize=(9, 4.2 * len(panels)), squeeze=False)
    for axis, ((device, n, variant), cells) in zip(axes[:, 0], panels.items(), strict=True):
        ops = [op for op in pcd.operations if any(key[0] == op for key in cells)]
        grid = np.array([[cells.get((op, t), math.nan) for t in TYPES] for op in ops])
        image = axis.imshow(np.log2(grid), cmap="RdYlGn", vmin=-3, vmax=3, aspect="auto")
        for i, j in np.ndindex(grid.shape):
            if not math.isnan(grid[i, j]):
                axis.text(j, i, f"{grid[i, j]:.2g}", ha="center", va="center", fontsize=7)
        axis.set_xticks(range(len(TYPES)), TYPES)
        axis.set_yticks(range(len(ops)), ops)
        output = "out= given" if variant == "out" else "new output"
        axis.set_title(f"{device}, n = {n}, {output}: times as fast as NumPy")
        bar = figure.colorbar(image, ax=axis, ticks=[-3, -2, -1, 0, 1, 2, 3])
        bar.ax.set_yticklabels(["1/8", "1/4", "1/2", "1", "2", "4", "8"])
    return _save(plt, figure, folder / "ratios.png", 110)


def write_plots(folder: Path, rows: list[Row]) -> list[Path]:
    """The pictures for which there are results.  ImportError without matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    paths = [
        _plot_sizes(plt, rows, folder, "sizes", "sizes.png"),
        _plot_sizes(plt, rows, folder, "gpu sizes", "gpu-sizes.png"),
        _plot_chains(plt, rows, folder),
        _plot_ratios(plt, rows, folder),
    ]
    return [path for path in paths if path is not None]
