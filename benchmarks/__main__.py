"""Times the package beside its peers; refuses to time a wrong result.

Exit status: 0; 1 when a case failed or gave a wrong result; 2 for invalid arguments.  Missed goals
do not count as failures; --verbose lists them.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pkg as pcd

from . import cases, ceilings, contenders, measuring, report
from .case import CEILING, Case, Environment, Sizes


class Progress:
    """A progress bar on a terminal with tqdm, else only the lines."""

    def __init__(self, total: int) -> None:
        self.bar: Any = None
        try:
            from tqdm import tqdm  # type: ignore[import-untyped]
        except ImportError:
            return
        self.bar = tqdm(total=total, disable=None, leave=False, unit="case", file=sys.stderr)

    def write(self, text: str) -> None:
        if self.bar is not None:
            self.bar.clear()
        print(text, flush=True)
        if self.bar is not None:
            self.bar.refresh()

    def step(self, text: str) -> None:
        if self.bar is not None:
            self.bar.set_postfix_str(text[:40], refresh=False)
            self.bar.update()

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


def size(text: str) -> int:
    base, power, exponent = text.partition("^")
    try:
        n = int(base) ** int(exponent) if power else int(base)
    except ValueError:
        n = 0
    if n < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of elements, 1000 or 2^20")
    return n


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--size",
        type=size,
        action="append",
        metavar="N",
        help="this number of elements instead of the usual ones (1000, 2^20); may be repeated",
    )
    parser.add_argument(
        "--only", metavar="REGEX", help='cases whose "group: name" matches; --list shows them'
    )
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    parser.add_argument(
        "--device",
        choices=["cpu", "cuda", "all"],
        default="all",
        help="all (default): the CPU, and the GPU where there is one",
    )
    parser.add_argument(
        "--peers", metavar="NAMES", help="only these peers: numpy,numexpr,pytorch,cupy"
    )
    parser.add_argument(
        "--cpu-level", metavar="NAME", help="such as x86-64-v3, instead of this processor's best"
    )
    parser.add_argument("--repeats", type=int, metavar="N", help="samples of each case")
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes and few samples, to try the runner"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the results, with the machine"
    )
    parser.add_argument("--plots", type=Path, metavar="DIR", help="write pictures of the results")
    parser.add_argument("--verbose", action="store_true", help="list the goals that were missed")
    return parser


def run_case(
    case: Case, environment: Environment, repeats: int | None = None, quick: bool = False
) -> report.Row:
    """Checks, then times.  After a failure the row has its `error`, and no times."""
    row = report.Row(case)
    sample_seconds = 1e-5 if quick else measuring.SAMPLE_SECONDS
    count = repeats or (2 if quick else case.repeats)
    try:
        # Repeated addition in place finally overflows float16.
        with np.errstate(over="ignore"):
            prepared = case.prepare(environment)
            row.nbytes, row.values, row.lacking = prepared.nbytes, prepared.values, prepared.lacking
            if prepared.timers:
                row.times = measuring.measure(prepared.timers, count, sample_seconds=sample_seconds)
            # A miss may be noise: a second, longer measurement decides.
            if prepared.timers and row.missed() and not quick:
                row.times = measuring.measure(prepared.timers, 3 * count, 3.0, 2 * sample_seconds)
    except Exception as error:  # one case that fails must not stop the run
        row.times = {}
        row.error = f"{type(error).__name__}: {str(error).strip()[:300]}"
    return row


def _environment(wanted: set[str] | None, devices: set[str]) -> tuple[Environment, dict[str, str]]:
    cpu_peers, absent = contenders.load(contenders.ON_CPU, wanted) if "cpu" in devices else ({}, {})
    gpu_peers, more = contenders.load(contenders.ON_GPU, wanted) if "cuda" in devices else ({}, {})
    absent.update({f"{name} (GPU)" if name in absent else name: why for name, why in more.items()})
    environment = Environment(cpu_peers, gpu_peers, None, cases.usable_threads())
    try:
        environment.library = ceilings.compile_ceilings()
    except ceilings.CeilingError as error:
        environment.lacking[CEILING] = str(error)
    return environment, absent


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.repeats is not None and options.repeats < 1:
        parser.error("--repeats: expected 1 or more")
    try:
        pcd.core.set_cpu_level(options.cpu_level)
    except TypeError as error:
        parser.error(f"--cpu-level: {error}")
    has_gpu = pcd.cuda_is_available()
    if options.device == "cuda" and not has_gpu:
        parser.error(f"--device cuda: {pcd.config()['cuda_reason']}")
    devices = {"cpu", "cuda"} if options.device == "all" else {options.device}
    if not has_gpu:
        devices.discard("cuda")
    sizes = Sizes.quick() if options.quick else Sizes()
    if options.size:
        sizes = Sizes.only(tuple(options.size))
    threads = cases.usable_threads()
    chosen = cases.select(cases.list_cases(devices, sizes, threads), options.only)
    if not chosen:
        parser.error("no case matches")
    if options.list:
        print(*(f"{case.group}: {case.name}" for case in chosen), sep="\n")
        return 0

    wanted = (
        None
        if options.peers is None
        else {name.strip().lower() for name in options.peers.split(",")}
    )
    environment, absent = _environment(wanted, devices)
    peers = {
        p.name: p.version
        for p in (*environment.cpu_peers.values(), *environment.gpu_peers.values())
    }
    facts = report.machine()
    print(*report.describe(facts, peers, absent), sep="\n", flush=True)

    start = time.perf_counter()
    progress = Progress(len(chosen))
    matrix = report.Matrix(progress.write)
    rows: list[report.Row] = []
    group = ""
    for case in chosen:
        progress.step(case.name)
        row = run_case(case, environment, options.repeats, options.quick)
        rows.append(row)
        if case.group in ("operations", "layouts"):
            matrix.add(row)
        else:
            matrix.flush()
            if case.group != group:
                progress.write(f"\n{case.group}")
            progress.write(report.line(row))
        group = case.group
    matrix.flush()
    progress.close()
    seconds = time.perf_counter() - start

    missed = report.misses(rows)
    failed = [row for row in rows if row.error]
    if options.verbose and missed:
        print("\ngoals missed:", *missed, sep="\n")
    if failed:
        print(f"\nFAILED: {len(failed)}")
        print(*(f"{row.case.group}: {report.line(row)}" for row in failed), sep="\n")
    if options.json is not None:
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        head = {
            "finished": now,
            "seconds": seconds,
            "machine": facts,
            "peers": peers,
            "absent": absent,
        }
        report.write_json(options.json, head, rows)
        print(f"wrote {options.json}")
    failed_to_plot = False
    if options.plots is not None:
        try:
            for path in report.write_plots(options.plots, rows):
                print(f"wrote {path}")
        except ImportError as error:
            print(f"no plots: {error}")
            failed_to_plot = True
    print(f"\n{len(rows)} cases in {seconds:.0f} s. A peer's median time over ours, and the range:")
    print(*report.summary(rows), sep="\n")
    return 1 if failed or failed_to_plot else 0


if __name__ == "__main__":
    sys.exit(main())
