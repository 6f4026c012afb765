"""Checks that no file of the library calls or includes upwards.

    python floors.py SOURCE_FOLDER OBJECT...

The floors are those drawn in CONTRIBUTING.md.  A file may call those on lower floors, and include
headers of its own folder and of the one above it; X.h also those of the folder X.  Which functions
an object file defines and calls is read with `nm`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path


def read_floors(page: Path) -> dict[str, int]:
    """Returns the floor of each file, as drawn on the page, highest first."""
    found = re.search(
        r"^```library floors\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S
    )
    assert found, f"{page} has no drawing of the library's floors"
    rows = reversed(found[1].splitlines())
    return {name: floor for floor, row in enumerate(rows) for name in row.split()}


def source_of(path: str) -> str | None:
    """Returns an object's source below libcalc/src; None for what the tests add."""
    found = re.search(r"\.dir/src/(.*\.(?:c|cu))\.o$", path)
    return found[1] if found else None


def symbols(path: str) -> tuple[set[str], set[str]]:
    """Returns the library's functions that an object file defines, and those that it needs."""
    nm = os.environ.get("NM", "nm")
    text = subprocess.run([nm, path], capture_output=True, text=True, check=True).stdout
    rows = [line.split()[-2:] for line in text.splitlines() if len(line.split()) >= 2]
    ours = [(kind, name) for kind, name in rows if name.startswith("mylib_")]
    return {n for kind, n in ours if kind in "TDBRVW"}, {n for kind, n in ours if kind == "U"}


def upward_calls(objects: list[str], floors: dict[str, int]) -> list[str]:
    """Returns a line for each call to a file that is not on a lower floor."""
    sources = {path: source for path in objects if (source := source_of(path)) is not None}
    unknown = {source for source in sources.values() if source not in floors}
    if unknown:
        return [f"{name} has no floor: draw it in CONTRIBUTING.md" for name in sorted(unknown)]
    table = {path: symbols(path) for path in sources}
    owner = {name: sources[path] for path, (defined, _) in table.items() for name in defined}
    return [
        f"{sources[path]} calls {name} in {owner[name]}, which is not on a lower floor"
        for path, (_, needed) in table.items()
        for name in sorted(needed & owner.keys())
        if floors[owner[name]] >= floors[sources[path]]
    ]


def upward_includes(folder: Path) -> list[str]:
    """Returns a line for each include from a folder neither the file's own nor above it."""
    failures = []
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".c", ".h", ".cu", ".cuh")):
        for name in re.findall(r'^#include "(.*)"', path.read_text(encoding="utf-8"), re.M):
            found = [d / name for d in (path.parent, folder) if (d / name).exists()]
            allowed = [*path.resolve().parents, path.resolve().with_suffix("")]
            if found and found[0].resolve().parent not in allowed:
                failures.append(f"{path.relative_to(folder)} includes {name}, of another folder")
    return failures


def main() -> int:
    folder, objects = Path(sys.argv[1]), sys.argv[2:]
    floors = read_floors(folder.parents[1] / "CONTRIBUTING.md")
    failures = upward_includes(folder) + upward_calls(objects, floors)
    print("\n".join(sorted(set(failures))) or f"{len(objects)} object files, no call upwards")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
