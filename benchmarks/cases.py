"""The cases to measure, made from the table of operations, and the goals that belong to them."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

import pkg as pcd

from . import ceilings, contenders, expressions, gpu_arrays, layouts, operands
from .case import CEILING, LAUNCH, ONE_GPU, OURS, Case, Environment, Goal, Prepared, Sizes
from .contenders import Statement

OPERATIONS: dict[str, Any] = {name: getattr(pcd, name) for name in pcd.operations}

#: "No slower" with allowance for noise.
NO_SLOWER = (Goal("NumPy", 0.95),)

#: Operations that give finite results however often they are repeated on their own output.
REPEATABLE = ("add", "subtract", "minimum", "maximum", "negative", "absolute")

#: From this size on, a sample is so long that few of them suffice.
LARGE = 2**19

CPU_PEERS = ("NumPy", "numexpr", "PyTorch")
GPU_PEERS = ("CuPy", "PyTorch")


def _tried(peer: contenders.Peer, *args: Any) -> Statement:
    return peer.statement(*args).tried()


# ---- Arrays ----


@dataclass(frozen=True)
class ArrayCase(Case):
    """An operation on host arrays."""

    op: str = ""
    type: str = ""
    char: str = ""
    layout: str = "contiguous"
    n: int = 0
    variant: str = "out"  # or "new": the call makes its output
    peers: tuple[str, ...] = ()
    with_ceiling: bool = False

    def facts(self) -> dict[str, Any]:
        return {
            **super().facts(),
            "op": self.op,
            "type": self.type,
            "layout": self.layout,
            "n": self.n,
            "variant": self.variant,
        }

    def prepare(self, environment: Environment) -> Prepared:
        operation = OPERATIONS[self.op]
        inputs, out = operands.make_operands(operation, self.char, self.layout, self.n)
        prepared = Prepared(nbytes=operands.bytes_moved(inputs, out))
        want = operands.oracle(self.op)(*inputs)
        given_out = out if self.variant == "out" else None
        statement = contenders.ours(operation, self.device, inputs, given_out)
        got = statement.value()
        if given_out is not None and got is not out:
            raise operands.WrongResult("the call does not return its out")
        operands.check(self.op, got, want, self.char in "FD")
        del got, want
        prepared.timers[OURS] = statement
        peers = environment.cpu_peers if self.device == "cpu" else environment.gpu_peers
        for name in self.peers:
            if name in peers:
                prepared.add(name, _tried, peers[name], self.op, self.char, inputs, given_out)
        if self.with_ceiling and self.device == "cpu":
            prepared.add_ceiling(environment, inputs, out)
        elif self.with_ceiling:
            prepared.add_with_cupy(environment, CEILING, ceilings.PipelinedAdd, *inputs)
        return prepared


class AllGpusCase(ArrayCase):
    """The operation on all GPUs at once, compared with one of them and the host's memory."""

    def prepare(self, environment: Environment) -> Prepared:
        prepared = super().prepare(environment)
        one = prepared.timers.pop(OURS)
        assert isinstance(one, Statement)
        names = {**one.names, "device": "cuda:all"}
        prepared.timers[OURS] = ours = Statement(one.text, **names)
        want = one.value().copy()
        if ours.value().tobytes() != want.tobytes():
            raise operands.WrongResult("all GPUs and one give different bits")
        if pcd.device_count() > 1:
            prepared.timers[ONE_GPU] = one
        else:
            prepared.lacking[ONE_GPU] = "this takes two GPUs"
        inputs = [x for name, x in names.items() if re.fullmatch(r"x\d", name)]
        prepared.add_ceiling(environment, inputs, names["out"])
        return prepared


def _array_case(
    group: str,
    op: str,
    type_: str,
    n: int,
    variant: str = "out",
    layout: str = "contiguous",
    device: str = "cpu",
    **more: Any,
) -> ArrayCase:
    name = f"{op} {type_} {layout} n={n} {variant}"
    more |= {"op": op, "type": type_, "char": operands.type_chars(OPERATIONS[op])[type_]}
    more |= {"n": n, "variant": variant, "layout": layout, "device": device}
    return ArrayCase(group, name if device == "cpu" else f"{name} {device}", **more)


# ---- Statements ----

#: Statements whose operands or result have several types, and the types of a and b.
CONVERTING = (
    ("xp.add(a, b)", "i4", "f8"),
    ("xp.add(a, b)", "f4", "f8"),
    ("xp.add(a, b)", "i1", "i2"),
    ("xp.add(a, b)", "f2", "f4"),
    ("xp.multiply(a, 1.5)", "i4", "i4"),
    ("xp.multiply(a, 1.5)", "u1", "u1"),
    ("xp.sqrt(a)", "i4", "i4"),
    ("xp.sqrt(a)", "u1", "u1"),
    ("xp.equal(a, b)", "?", "?"),
)

#: Calls of functions and keywords that are not single operations, and the type of a, b and out.
#: About half of the mask m is true.
CALLS = (
    ("xp.where(m, a, b)", "f8"),
    ("xp.where(m, a, 0)", "u1"),
    ("xp.add(a, b, out=out, where=m)", "f8"),
    ("xp.clip(a, 20, 60)", "f8"),
    ("xp.clip(a, 20, 60)", "i4"),
    ("xp.round(a, 1)", "f8"),
    ("xp.concatenate((a, b))", "f8"),
    ("xp.power(a, 2)", "f8"),
    ("xp.any(a)", "f8"),
    ("xp.all(a)", "i4"),
    ("xp.max(a)", "?"),
    ("xp.count_nonzero(a)", "f4"),
)


@dataclass(frozen=True)
class StatementCase(Case):
    """A call of host arrays, `xp` being this package or NumPy."""

    statement: str = ""
    types: tuple[str, str] = ("", "")
    n: int = 0

    def prepare(self, environment: Environment) -> Prepared:
        rng = np.random.default_rng(0)
        a, b = (rng.integers(0, 2 if t == "?" else 100, self.n).astype(t) for t in self.types)
        m, out = rng.random(self.n) < 0.5, np.zeros_like(a)
        statements = {
            name: Statement(self.statement, xp=xp, a=a, b=b, m=m, out=out)
            for name, xp in ((OURS, pcd), ("NumPy", np))
        }
        got, want = (np.array(statement.value()) for statement in statements.values())
        if got.dtype != want.dtype or got.tobytes() != want.tobytes():
            raise operands.WrongResult(f"{got.dtype} and NumPy's {want.dtype} differ")
        nbytes = got.nbytes + a.nbytes + (b.nbytes if "b)" in self.statement else 0)
        return Prepared(dict(statements), nbytes)


def _statement_cases() -> Iterator[Case]:
    converting = [("two types", statement, types) for statement, *types in CONVERTING]
    calls = [("calls", statement, [type_, type_]) for statement, type_ in CALLS]
    for group, statement, types in converting + calls:
        for n in (1000, 100_000):
            name = f"{statement} {' and '.join(dict.fromkeys(types))} n={n}"
            goals = (Goal("NumPy", 0.85 if "equal" in statement else 1),)
            yield StatementCase(
                group, name, 9, goals, statement=statement, types=(types[0], types[1]), n=n
            )


# ---- Numbers ----


@dataclass(frozen=True)
class NumberCase(Case):
    """An operation on Python numbers."""

    op: str = ""
    numbers: tuple[Any, ...] = ()

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "op": self.op}

    def prepare(self, environment: Environment) -> Prepared:
        arguments = ", ".join(map(repr, self.numbers))
        call = f"f({arguments})" if self.device == "cpu" else f"f({arguments}, device='cuda')"
        statement = Statement(call, f=OPERATIONS[self.op])
        want = operands.oracle(self.op)(*self.numbers)
        number = np.asarray(want).item()
        operands.check(self.op, statement.value(), number, isinstance(number, complex))
        prepared = Prepared({OURS: statement})
        if self.device != "cpu":
            prepared.add_launch(environment)
            for name in GPU_PEERS:
                if name in environment.gpu_peers:
                    prepared.add(name, self._on_gpu, name, environment.gpu_peers[name].api)
        elif "NumPy" in environment.cpu_peers and hasattr(np, self.op):
            function = operands.nearest(self.op, np.asarray(self.numbers[0]).dtype.char)
            prepared.timers["NumPy"] = Statement(f"f({arguments})", f=function)
        return prepared

    def _on_gpu(self, name: str, api: Any) -> Statement:
        """Returns a peer's statement, of arrays without dimensions."""
        put = api.asarray if name == "CuPy" else functools.partial(api.tensor, device="cuda")
        names = {f"x{k}": put(x) for k, x in enumerate(self.numbers)}
        return Statement(f"f({', '.join(names)}).item()", f=getattr(api, self.op), **names).tried()


def _number_cases() -> Iterator[Case]:
    order = ["add", *(op for op in OPERATIONS if op != "add")]
    for op in order:
        operation = OPERATIONS[op]
        kinds = {np.dtype(char).kind for char in operands.type_chars(operation).values()}
        for kind, values in (("i", (1, 2)), ("f", (1.0, 2.0))):
            if kind not in kinds:
                continue
            numbers = (0.5,) if op == "arctanh" else values[: operation.nin]  # its domain
            goals = (Goal("NumPy", 8), Goal(at_most=60e-9)) if op == "add" else ()
            name = f"{op}({', '.join(map(repr, numbers))})"
            yield NumberCase("numbers", name, 15, goals, op=op, numbers=numbers)


# ---- The installation ----


class ImportTimer:
    """Importing a module in a fresh interpreter that has imported NumPy."""

    def __init__(self, module: str) -> None:
        self.code = (
            "import time, numpy\n"
            "start = time.perf_counter()\n"
            f"import {module}\n"
            "print(time.perf_counter() - start)"
        )

    def timeit(self, number: int) -> float:
        seconds = 0.0
        # Modules are compiled beforehand, as in an installed package.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        for _ in range(number):
            done = subprocess.run(
                [sys.executable, "-c", self.code],
                check=True,
                capture_output=True,
                text=True,
                cwd=Path(pcd.__file__).parents[1],
                env=environment,
            )
            seconds += float(done.stdout)
        return seconds


class ImportCase(Case):
    def prepare(self, environment: Environment) -> Prepared:
        return Prepared({OURS: ImportTimer("pkg")})


def _installed_files() -> list[Path]:
    """The files of a wheel; a source tree has others beside them."""
    root = Path(pcd.__file__).parent
    return [
        path
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and path.suffix in (".py", ".pyi", ".so", ".typed", ".h", ".cmake", ".pc")
        and not (path.parent == root and path.suffix == ".h")
    ]


class SizeCase(Case):
    def prepare(self, environment: Environment) -> Prepared:
        files = _installed_files()
        if self.name == "installed size":
            return Prepared(values={OURS: float(sum(path.stat().st_size for path in files))})
        packed = BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as wheel:
            for path in files:
                wheel.write(path, path.name)
        return Prepared(values={OURS: float(len(packed.getvalue()))})


def _installation_cases() -> Iterator[Case]:
    yield ImportCase("installation", "import, over NumPy's own", 11, (Goal(at_most=10e-3),))
    yield SizeCase("installation", "installed size", unit="B")
    yield SizeCase(
        "installation", "wheel (installed files, packed)", goals=(Goal(at_most=2e6),), unit="B"
    )


# ---- All ----


#: Each operation and type.
ROWS = [
    (op, type_) for op, operation in OPERATIONS.items() for type_ in operands.type_chars(operation)
]


def _operation_cases(n: int, variant: str, **more: Any) -> Iterator[Case]:
    for op, type_ in ROWS:
        yield _array_case("operations", op, type_, n, variant, **more)


def _bandwidth_cases(sizes: tuple[int, ...], threads: int) -> Iterator[Case]:
    goals = [Goal(CEILING, 0.9)] + ([Goal("NumPy", 1.4)] if threads > 1 else [])
    more: dict[str, Any] = {"peers": CPU_PEERS, "with_ceiling": True, "goals": tuple(goals)}
    for n in sizes:
        yield _array_case("bandwidth", "add", "f64", n, repeats=15, **more)
    for type_ in operands.type_chars(pcd.add):
        if type_ != "f64":
            yield _array_case("bandwidth", "add", type_, sizes[0], repeats=7, **more)
    yield _array_case("bandwidth", "add", "f64", sizes[0], "new", repeats=7, peers=CPU_PEERS)


def _layout_cases(sizes: tuple[int, ...]) -> Iterator[Case]:
    for n in sizes:
        large = n >= LARGE
        more: dict[str, Any] = {"goals": NO_SLOWER, "repeats": 5 if large else 7}
        for layout in operands.LAYOUTS:
            if layout == "contiguous":
                continue
            for variant in ("out",) if large or layout in operands.OUT_ONLY else ("out", "new"):
                for op, type_ in ROWS:
                    if OPERATIONS[op].nin == 1 and layout in operands.TWO_OPERANDS:
                        continue
                    if layout == "in place" and op not in REPEATABLE:
                        continue
                    yield _array_case(
                        "layouts", op, type_, n, variant, layout, peers=("NumPy",), **more
                    )


def _transfer_cases(sizes: tuple[int, ...]) -> Iterator[Case]:
    goals = (Goal(CEILING, 1 / 1.45), Goal("CuPy", 6), Goal("PyTorch", 6))
    more: dict[str, Any] = {"device": "cuda", "repeats": 7, "peers": ("NumPy", *GPU_PEERS)}
    for variant in ("out", "new"):
        is_out = variant == "out"
        more |= {"with_ceiling": is_out, "goals": goals if is_out else goals[1:]}
        for n in sizes:
            yield _array_case("transfer", "add", "f64", n, variant, **more)
    all_goals = (Goal(ONE_GPU, 2.5 if pcd.device_count() > 3 else 1.7),)
    all_gpus: dict[str, Any] = {"op": "add", "type": "f64", "char": "d", "peers": ("NumPy",)}
    for n in sizes:
        name = f"add f64 contiguous n={n} out cuda:all"
        yield AllGpusCase("transfer", name, 7, all_goals, "cuda", n=n, **all_gpus)


def list_cases(devices: set[str], sizes: Sizes, threads: int) -> list[Case]:
    """All cases, the important ones first."""
    cpu, cuda = "cpu" in devices, "cuda" in devices
    cases: list[Case] = []
    if cpu:
        cases += list(_number_cases())[:1]
        cases += _installation_cases()
        cases += _bandwidth_cases(sizes.bandwidth, threads)
    if cuda:
        cases += _transfer_cases(sizes.transfer)
        goals = (Goal(LAUNCH, 1 / 1.2),)
        add: dict[str, Any] = {"op": "add", "numbers": (1, 2)}
        cases.append(NumberCase("numbers", "add(1, 2, device='cuda')", 15, goals, "cuda", **add))
    if cpu:
        for n in sizes.small:
            for variant in ("new", "out"):
                cases += _operation_cases(n, variant, peers=("NumPy",), goals=NO_SLOWER)
        cases += list(_number_cases())[1:]
        cases += _statement_cases()
        cases += _layout_cases(sizes.layouts)
        large: dict[str, Any] = {"goals": NO_SLOWER, "with_ceiling": True, "repeats": 5}
        for n in sizes.large:
            cases += _operation_cases(n, "out", peers=CPU_PEERS, **large)
    for device, peers in (("cpu", CPU_PEERS), ("cuda", GPU_PEERS)):
        if device in devices:
            more: dict[str, Any] = {"device": device, "peers": peers, "repeats": 5}
            for n in sizes.sweep:
                for type_ in ("f32", "f64"):
                    cases.append(_array_case("sizes", "add", type_, n, **more))
    if cuda:
        more = {"device": "cuda", "peers": ("NumPy", *GPU_PEERS), "repeats": 3}
        for n in (*sizes.small, *sizes.large):
            cases += _operation_cases(n, "out", **more)
        cases += gpu_arrays.list_cases(sizes.gpu_nbytes)
        cases += layouts.list_cases(sizes.gpu_nbytes)
    cases += expressions.list_cases(devices, sizes)
    return cases


def select(cases: list[Case], only: str | None) -> list[Case]:
    """The cases whose group and name match."""
    return cases if only is None else [c for c in cases if re.search(only, f"{c.group}: {c.name}")]


def usable_threads() -> int:
    """Returns the number of threads that a large operation of the package uses."""
    return int(pcd.config()["threads"]) or len(os.sched_getaffinity(0))
