#!/usr/bin/env python3
"""The share of the library that the C tests run: lines and branches in per cent, by gcov.

cmake --preset debug -DMYLIB_CUDA=OFF "-DCMAKE_C_FLAGS=--coverage -Og"
cmake --build --preset debug && ctest --preset debug
python scripts/coverage.py build/debug
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).resolve().parents[1] / "libcalc" / "src"


@dataclass
class Counts:
    """Counts what ran of one source file: lines, and the ways out of each line."""

    lines: dict[int, bool] = field(default_factory=dict)
    branches: dict[tuple[int, int], bool] = field(default_factory=dict)

    def add(self, line: dict[str, Any]) -> None:
        """A line counts as run when it ran in one of the builds of its file, or functions."""
        number = line["line_number"]
        self.lines[number] = self.lines.get(number, False) or line["count"] > 0
        for k, branch in enumerate(line["branches"]):
            self.branches[number, k] = self.branches.get((number, k), False) or branch["count"] > 0


def documents(build: Path) -> Iterator[dict[str, Any]]:
    """Yields gcov's report on each object file of the library."""
    for data in sorted((build / "libcalc" / "CMakeFiles").rglob("*.gcda")):
        command = ["gcov", "--json-format", "--stdout", "--branch-probabilities", str(data)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        yield from map(json.loads, text.splitlines())


def measure(build: Path) -> dict[str, Counts]:
    """Source file, relative to libcalc/src -> what ran of it."""
    found: dict[str, Counts] = {}
    for document in documents(build):
        folder = Path(document["current_working_directory"])
        for file in document["files"]:
            path = (folder / file["file"]).resolve()
            if path.is_relative_to(SOURCES):
                counts = found.setdefault(str(path.relative_to(SOURCES)), Counts())
                for line in file["lines"]:
                    counts.add(line)
    return found


def share(ran: list[bool]) -> float:
    return 100 * sum(ran) / len(ran) if ran else 100.0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "build", type=Path, help="a CMake build with --coverage, of which tests ran"
    )
    for what in ("lines", "branches"):
        parser.add_argument(f"--{what}", type=float, default=0, metavar="PERCENT", help="the least")
    options = parser.parse_args()
    found = measure(options.build)
    # Files for another processor than this one do not count.
    found = {name: counts for name, counts in found.items() if any(counts.lines.values())}
    for name, counts in sorted(found.items()):
        lines, branches = list(counts.lines.values()), list(counts.branches.values())
        print(f"{name:24} lines {share(lines):5.1f} %  branches {share(branches):5.1f} %")
    lines = [ran for counts in found.values() for ran in counts.lines.values()]
    branches = [ran for counts in found.values() for ran in counts.branches.values()]
    print(f"coverage: lines {share(lines):.1f} %, branches {share(branches):.1f} %")
    return 0 if share(lines) >= options.lines and share(branches) >= options.branches else 1


if __name__ == "__main__":
    sys.exit(main())
