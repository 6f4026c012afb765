"""Checks that no file of the library calls or includes upwards.

    python floors.py SOURCE_FOLDER OBJECT...

The floors are those of CONTRIBUTING.md, bottom to top.  A file may call those below its own, and
include headers of its own folder and of the one above it.  Which functions an object file defines
and calls is read with `nm`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

FLOORS = (
    "status.c",
    "table.c",
    "layout.c",
    "cpu/kernels.c",
    "cpu/dispatch.c",
    "program.c",
    "code.c",
    "cpu/threads.c",
    "cpu/arange.c",
    "cpu/evaluate.c",
    "cpu/execute.c",
    "cpu/run_row.c",
    "cpu/run.c",
    "cpu/reduce.c",
    "cuda/none.c",
    "cuda/device.c",
    "cuda/contiguous.cu",
    "cuda/strided.cu",
    "cuda/fused.cu",
    "cuda/reduce.cu",
    "cuda/strided.c",
    "cuda/contiguous.c",
    "cuda/fused.c",
    "cuda/memory.c",
    "cuda/run.c",
    "cuda/host.c",
    "cuda/reduce.c",
    "cuda/reduce_pieces.c",
    "config.c",
    "scalar.c",
    "map.c",
    "copy.c",
    "reduce.c",
)


def source_of(path: str) -> str | None:
    """Returns the name of an object's source in FLOORS; None for what the tests add."""
    found = re.search(r"\.dir/src/(.*\.(?:c|cu))\.o$", path)
    return found[1] if found else None


def symbols(path: str) -> tuple[set[str], set[str]]:
    """Returns the library's functions that an object file defines, and those that it needs."""
    nm = os.environ.get("NM", "nm")
    text = subprocess.run([nm, path], capture_output=True, text=True, check=True).stdout
    rows = [line.split()[-2:] for line in text.splitlines() if len(line.split()) >= 2]
    ours = [(kind, name) for kind, name in rows if name.startswith("mylib_")]
    return {n for kind, n in ours if kind in "TDBRVW"}, {n for kind, n in ours if kind == "U"}


def upward_calls(objects: list[str]) -> list[str]:
    """Returns a line for each call that goes to a higher floor."""
    sources = {path: source for path in objects if (source := source_of(path)) is not None}
    unknown = sorted({s for s in sources.values() if s not in FLOORS})
    failures = [f"{name} has no floor: give it one in {__file__}" for name in unknown]
    table = {path: symbols(path) for path in sources}
    owner = {name: sources[path] for path, (defined, _) in table.items() for name in defined}
    for path, (_, needed) in table.items():
        caller = sources[path]
        for name in sorted(needed):
            callee = owner.get(name, caller)
            if {caller, callee} <= set(FLOORS) and FLOORS.index(callee) > FLOORS.index(caller):
                failures.append(f"{caller} calls {name} in {callee}, a higher floor")
    return failures


def upward_includes(folder: Path) -> list[str]:
    """Returns a line for each include from a folder neither the file's own nor above it."""
    failures = []
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".c", ".h", ".cu", ".cuh")):
        for name in re.findall(r'^#include "(.*)"', path.read_text(encoding="utf-8"), re.M):
            found = [d / name for d in (path.parent, folder) if (d / name).exists()]
            if found and found[0].resolve().parent not in path.resolve().parents:
                failures.append(f"{path.relative_to(folder)} includes {name}, of another folder")
    return failures


def main() -> int:
    folder, objects = Path(sys.argv[1]), sys.argv[2:]
    failures = upward_includes(folder) + upward_calls(objects)
    print("\n".join(sorted(set(failures))) or f"{len(objects)} object files, no call upwards")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
