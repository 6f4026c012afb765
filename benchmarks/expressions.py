"""Cases of expressions: one pass here; the peers compute operation by operation, or compile."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pkg as pcd

from . import gpu_arrays
from .case import CEILING, OURS, Case, Environment, Goal, Prepared, Sizes, failure
from .contenders import Statement
from .measuring import Timer
from .operands import check

EVALUATE = "pkg.evaluate"
RE_EVALUATE = "re_evaluate"
FUSED = "CuPy fused"
COMPILED = "PyTorch compiled"
BUS = "bus"

#: Below this size the fixed cost of a call shows.
SMALL = 2**16

#: Numbers of operations in a chain.
CHAINS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Program:
    """An expression over the arrays ``a``, ``b``, ..., which have `types`.

    `with_out` writes it into an array `out`, with a library's functions.
    """

    label: str
    text: str
    types: tuple[str, ...]
    with_out: str = ""

    @property
    def names(self) -> str:
        return "abcdefgh"[: len(self.types)]

    def arrays(self, n: int) -> dict[str, np.ndarray[Any, Any]]:
        return {
            name: _values(name, type_, n)
            for name, type_ in zip(self.names, self.types, strict=True)
        }

    def nbytes(self, n: int) -> int:
        """Counts each input once, and a result of as many elements, unless it is a reduction."""
        width = sum(np.dtype(type_).itemsize for type_ in self.types)
        if self.text.startswith(("sum(", "max(")):
            return n * width
        return n * (width + np.result_type(*self.types).itemsize)

    def statement(self, api: Any, arrays: dict[str, Any], out: Any = None) -> Statement:
        """One operation after the other, with a library's functions."""
        more = {} if out is None else {"out": out}
        return Statement(
            self.text if out is None else self.with_out, **functions(api), **arrays, **more
        )

    def ours(self, arrays: dict[str, Any], **more: Any) -> Statement:
        """A call of an Expression; `more` are further arguments."""
        expression = pcd.Expression(self.text)
        given = ", ".join([*expression.inputs, *(f"{name}={name}" for name in more)])
        return Statement(f"f({given})", f=expression, **arrays, **more)

    def reference(self, arrays: dict[str, Any]) -> Any:
        """NumPy's result; sums in the package's order."""
        ours = {name: getattr(pcd, name) for name in ("sum", *_ELEMENTARY)}
        return eval(self.text, {**functions(np), **ours, **arrays})


_PLAIN = ("sqrt", "where", "abs", "sum", "max", "divide")
#: Libraries differ in the last bits of these.
_ELEMENTARY = ("exp", "log1p", "sin", "cos")


def functions(api: Any) -> dict[str, Any]:
    return {name: getattr(api, name) for name in _PLAIN + _ELEMENTARY}


@functools.cache
def _block(name: str, kind: str) -> np.ndarray[Any, Any]:
    """From 1 to 100; d from 101, so that nothing is divided by 0; b below 1, for long products."""
    low, high = {"d": (101, 200), "b": (0.5, 1)}.get(name, (1, 100))
    if kind == "i" and name == "b":
        low, high = 2, 9
    return np.random.default_rng(ord(name)).uniform(low, high, 65537)


def _values(name: str, type_: str, n: int) -> np.ndarray[Any, Any]:
    dtype = np.dtype(type_)
    return np.resize(_block(name, dtype.kind).astype(dtype), n)


_TEXT = "(a * b + c) / (d - e)"
_OUT = "divide(a * b + c, d - e, out=out)"
F8 = Program(f"{_TEXT} f8", _TEXT, ("f8",) * 5, _OUT)
F4 = Program(f"{_TEXT} f4", _TEXT, ("f4",) * 5, _OUT)
MIXED = Program(f"{_TEXT} i4 and f8", _TEXT, ("i4", "f8", "i4", "f8", "i4"), _OUT)
FUNCTIONS = (
    Program("sin(a)**2 + cos(b)**2 f8", "sin(a) ** 2 + cos(b) ** 2", ("f8", "f8")),
    Program("exp(-a * a / 4096) f8", "exp(-a * a / 4096)", ("f8",)),
    Program("log1p(a) f8", "log1p(a)", ("f8",)),
)
OTHERS = (
    Program(f"{_TEXT} f2", _TEXT, ("f2",) * 5),
    Program("sqrt(a * a + b * b) f8", "sqrt(a * a + b * b)", ("f8", "f8")),
    Program("where(a < c, a * b, c) f4", "where(a < c, a * b, c)", ("f4", "f4", "f4")),
    Program("sum(a * b) f8", "sum(a * b)", ("f8", "f8")),
    Program("sum(a * b) f4", "sum(a * b)", ("f4", "f4")),
    Program("exp(-(a - b)**2 / 8) f8", "exp(-((a - b) ** 2) / 8)", ("f8", "f8")),
    Program("exp(-(a - b)**2 / 8) f4", "exp(-((a - b) ** 2) / 8)", ("f4", "f4")),
    *FUNCTIONS,
)
#: More of what is reduced in the pass that computes it.
REDUCED = (
    Program("sum((a - b) ** 2) f8", "sum((a - b) ** 2)", ("f8", "f8")),
    Program("sum((a - b) ** 2) f4", "sum((a - b) ** 2)", ("f4", "f4")),
    Program("max(abs(a - b)) f8", "max(abs(a - b))", ("f8", "f8")),
    Program("sum(a * b + c) f8", "sum(a * b + c)", ("f8", "f8", "f8")),
)


def chain(operations: int) -> Program:
    """((a * b + c) * b + c) ...: each operation needs the one before."""
    text = "a"
    for k in range(operations):
        text = f"({text} + c)" if k % 2 else f"({text} * b)"
    return Program(f"{operations} operations", text, ("f8",) * min(operations + 1, 3))


@dataclass(frozen=True)
class ProgramCase(Case):
    """A case of an expression over arrays of `n` elements."""

    program: Program = F8
    n: int = 0
    #: In a chain of operations their number.
    operations: int = 0

    def facts(self) -> dict[str, Any]:
        facts = {**super().facts(), "expression": self.program.text, "n": self.n}
        return {**facts, "operations": self.operations} if self.operations else facts

    def _by_operations(self, api: Any, arrays: dict[str, Any], out: Any) -> Statement:
        return self.program.statement(api, arrays, out).tried()


# ---- The CPU ----


@dataclass(frozen=True)
class ExpressionCase(ProgramCase):
    """An expression over host arrays, on the CPU."""

    variant: str = "new"  # or "out"

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "variant": self.variant}

    def prepare(self, environment: Environment) -> Prepared:
        program, arrays = self.program, self.program.arrays(self.n)
        prepared = Prepared(nbytes=program.nbytes(self.n))
        want = program.reference(arrays)
        out = np.full(self.n, 113, want.dtype) if self.variant == "out" else None
        more = {} if out is None else {"out": out}
        statement = program.ours(arrays, **more)
        check("an expression", statement.value(), want, False)
        prepared.timers[OURS] = statement
        if self.n < SMALL:
            prepared.timers[EVALUATE] = Statement(
                "f(expression, x)", f=pcd.evaluate, expression=program.text, x=arrays
            ).tried()
        peers = environment.cpu_peers
        if "NumPy" in peers:
            prepared.add("NumPy", self._by_operations, np, arrays, out)
        if "numexpr" in peers:
            self._add_numexpr(prepared, peers["numexpr"].api, arrays, more)
        if "PyTorch" in peers:
            torch = peers["PyTorch"].api
            tensors = {name: torch.from_numpy(x) for name, x in arrays.items()}
            target = None if out is None else torch.from_numpy(out)
            prepared.add("PyTorch", self._by_operations, torch, tensors, target)
        if out is not None and len({x.nbytes for x in (out, *arrays.values())}) == 1:
            prepared.add_ceiling(environment, list(arrays.values()), out)
        return prepared

    def _add_numexpr(
        self, prepared: Prepared, numexpr: Any, arrays: dict[str, Any], more: dict[str, Any]
    ) -> None:
        given = ", ".join(["expression", "x", "{}", *(f"{name}={name}" for name in more)])
        names = {"expression": self.program.text, "x": arrays, **more}
        evaluate = Statement(f"f({given})", f=numexpr.evaluate, **names)
        prepared.add("numexpr", evaluate.tried)
        if "numexpr" in prepared.timers and self.n < SMALL:
            # It repeats the latest call of evaluate, which is the one above.
            again = Statement("f(x)", f=numexpr.re_evaluate, x=arrays)
            prepared.add(RE_EVALUATE, again.tried)


class DifferenceCase(ProgramCase):
    """The share of results that differ from NumPy's, in per cent: ours, and the peers'."""

    def prepare(self, environment: Environment) -> Prepared:
        arrays = self.program.arrays(self.n)
        want = self.program.reference(arrays)
        prepared = Prepared()
        for name, compute in self._contenders(environment, arrays):
            try:
                got = compute()
            except Exception as error:
                if name == OURS:
                    raise
                prepared.lacking[name] = failure(error)
                continue
            prepared.values[name] = 100 * float(np.mean(got != want))
        return prepared

    def _contenders(
        self, environment: Environment, arrays: dict[str, Any]
    ) -> Iterator[tuple[str, Callable[[], Any]]]:
        if self.device != "cpu":
            for name, library, function in on_gpu(
                self.program.text, self.program.names, environment
            ):
                yield name, functools.partial(_fetched, library, function, arrays)
            return
        yield OURS, self.program.ours(arrays).value
        for name, peer in environment.cpu_peers.items():
            if name == "numexpr":
                yield name, functools.partial(peer.api.evaluate, self.program.text, arrays, {})
            elif name == "PyTorch":
                tensors = {key: peer.api.from_numpy(x) for key, x in arrays.items()}
                statement = self.program.statement(peer.api, tensors)
                yield name, lambda statement=statement: statement.value().numpy()


# ---- Arrays on the GPU ----


def on_gpu(
    text: str, names: Sequence[str], environment: Environment, compiled: bool = False
) -> Iterator[tuple[str, gpu_arrays.Library, Callable[..., Any]]]:
    """Each contender: its name, its library, and its function of the operands `names`."""
    arguments = ", ".join(names)
    for library in gpu_arrays.libraries(environment):
        if library.name == OURS:
            expression = pcd.Expression(text)
            call = f"lambda {arguments}: f({', '.join(expression.inputs)})"
            is_direct = expression.inputs == tuple(names)
            yield OURS, library, expression if is_direct else eval(call, {"f": expression})
            continue
        function = eval(f"lambda {arguments}: {text}", functions(library.api))
        if library.name == "CuPy":
            yield FUSED, library, library.api.fuse(kernel_name="fused")(function)
        yield library.name, library, function
        if library.name == "PyTorch" and compiled:
            yield COMPILED, library, library.api.compile(function)


def add_bursts(
    prepared: Prepared,
    contenders: Iterable[tuple[str, gpu_arrays.Library, Callable[..., Any]]],
    operands_of: Callable[[gpu_arrays.Library], list[Any]],
    want: Any,
    enqueue: bool = False,
) -> None:
    """Adds contenders' timers; each library's operands are made once."""
    operands: dict[str, list[Any]] = {}

    def make(name: str, library: gpu_arrays.Library, function: Callable[..., Any]) -> Timer:
        if library.name not in operands:
            operands[library.name] = operands_of(library)
        call = functools.partial(function, *operands[library.name])
        return gpu_arrays.first_call(name, library, call, compare, enqueue)

    def compare(result: Any) -> None:
        check("an expression", pcd.asnumpy(result), np.asarray(want), False)

    for name, library, function in contenders:
        prepared.add(name, make, name, library, function)


def _fetched(
    library: gpu_arrays.Library, function: Callable[..., Any], arrays: dict[str, Any]
) -> Any:
    """Computes with a contender from host arrays, and returns a NumPy array."""
    result = function(*(library.put(x) for x in arrays.values()))
    if library.name == OURS:
        return pcd.asnumpy(result)
    return result.get() if library.name == "CuPy" else result.cpu().numpy()


@dataclass(frozen=True)
class GpuExpressionCase(ProgramCase):
    """An expression over arrays that each library has on the GPU, with a new result."""

    enqueue: bool = False

    def prepare(self, environment: Environment) -> Prepared:
        program, host = self.program, self.program.arrays(self.n)
        prepared = Prepared(nbytes=0 if self.enqueue else program.nbytes(self.n))
        contenders = on_gpu(program.text, program.names, environment)
        add_bursts(
            prepared,
            contenders,
            lambda library: [library.put(x) for x in host.values()],
            program.reference(host),
            self.enqueue,
        )
        if prepared.nbytes:
            gpu_arrays.add_ceiling(prepared, environment)
        return prepared


class PinnedCopy:
    """Copies as many bytes as the inputs have from pinned memory to the GPU."""

    def __init__(self, cp: Any, nbytes: int, count: int) -> None:
        self.cp, self.nbytes, self.count = cp, nbytes, count
        self.memory = cp.cuda.alloc_pinned_memory(nbytes)
        self.target = cp.empty(nbytes, "u1")
        np.frombuffer(self.memory, "u1", nbytes)[:] = 1
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.start, self.end = cp.cuda.Event(), cp.cuda.Event()

    def timeit(self, number: int) -> float:
        runtime = self.cp.cuda.runtime
        self.start.record(self.stream)
        for _ in range(number * self.count):
            runtime.memcpyAsync(
                self.target.data.ptr,
                self.memory.ptr,
                self.nbytes,
                runtime.memcpyHostToDevice,
                self.stream.ptr,
            )
        self.end.record(self.stream)
        self.end.synchronize()
        return float(self.cp.cuda.get_elapsed_time(self.start, self.end)) / 1000


class StreamedCase(ProgramCase):
    """Host arrays through the GPU, a host array out; against the bus, one way, for the inputs."""

    def prepare(self, environment: Environment) -> Prepared:
        program, arrays = self.program, self.program.arrays(self.n)
        prepared = Prepared(nbytes=program.nbytes(self.n))
        want = program.reference(arrays)
        out = np.full(self.n, 113, want.dtype)
        statement = program.ours(arrays, out=out, device="cuda")
        check("an expression", statement.value(), want, False)
        del want
        prepared.timers[OURS] = statement
        prepared.add("NumPy", self._by_operations, np, arrays, out)
        for name, library, function in on_gpu(program.text, program.names, environment):
            if name != OURS:
                there_and_back = functools.partial(_fetched, library, function, arrays)
                prepared.add(name, Statement("f()", f=there_and_back).tried)
        nbytes = next(iter(arrays.values())).nbytes
        prepared.add_with_cupy(environment, BUS, PinnedCopy, nbytes, len(arrays))
        return prepared


# ---- The first call ----

#: What a fresh process runs: how long the first call takes more than the second.  It has used the
#: device before, for arrays; a peer that adds arrays has used its kernels as well.
_FRESH = """
import time
import numpy as np
{prepare}
def call():
    start = time.perf_counter()
    {call}
    {wait}
    return time.perf_counter() - start
first = call()
second = min(call() for _ in range(3))
print(first - second)
"""

_HOST = "a, b, c, d, e = np.random.default_rng(0).uniform(1, 100, (5, 1000))"


def _fresh_code(contender: str, device: str) -> str:
    if contender == OURS:
        prepare = f"import pkg as pcd\n{_HOST}\n"
        wait = "pass"
        if device == "cuda":
            prepare += "a, b, c, d, e = (pcd.asarray(x, device='cuda') for x in (a, b, c, d, e))\n"
            wait = "pcd.synchronize()"
        return _FRESH.format(prepare=prepare + wait, call=f"pcd.evaluate({_TEXT!r})", wait=wait)
    if contender == "numexpr":
        return _FRESH.format(
            prepare=f"import numexpr\n{_HOST}", call=f"numexpr.evaluate({_TEXT!r})", wait="pass"
        )
    if contender == FUSED:
        wait = "cupy.cuda.Device().synchronize()"
        prepare = (
            f"import cupy\n{_HOST}\na, b, c, d, e = map(cupy.asarray, (a, b, c, d, e))\n{wait}\n"
            f"f = cupy.fuse(kernel_name='fused')(lambda a, b, c, d, e: {_TEXT})"
        )
        return _FRESH.format(prepare=prepare, call="f(a, b, c, d, e)", wait=wait)
    wait = "torch.cuda.synchronize()" if device == "cuda" else "pass"
    prepare = (
        f"import torch\n{_HOST}\n"
        f"a, b, c, d, e = (torch.from_numpy(x).to({device!r}) for x in (a, b, c, d, e))\n{wait}\n"
        f"f = torch.compile(lambda a, b, c, d, e: {_TEXT})"
    )
    return _FRESH.format(prepare=prepare, call="f(a, b, c, d, e)", wait=wait)


def _fresh_seconds(contender: str, device: str, folder: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-c", _fresh_code(contender, device)],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=300,
        # A peer's disk cache would answer instead of its compiler.
        env={**os.environ, "CUPY_CACHE_IN_MEMORY": "1", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"},
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr else "it failed")
    return float(done.stdout)


class FirstCallCase(Case):
    """The time by which the first call in a process exceeds those that follow."""

    def prepare(self, environment: Environment) -> Prepared:
        prepared = Prepared()
        folder = Path(pcd.__file__).parents[1]
        for name in (OURS, *self._peers(environment)):
            try:
                # The median of three; a compiler that takes seconds runs once.
                seconds = [_fresh_seconds(name, self.device, folder)]
                while len(seconds) < 3 and seconds[0] < 1:
                    seconds.append(_fresh_seconds(name, self.device, folder))
                prepared.values[name] = sorted(seconds)[len(seconds) // 2]
            except Exception as error:
                if name == OURS:
                    raise
                prepared.lacking[name] = failure(error)
        return prepared

    def _peers(self, environment: Environment) -> Iterator[str]:
        peers = environment.cpu_peers if self.device == "cpu" else environment.gpu_peers
        known = {"numexpr": "numexpr", "CuPy": FUSED, "PyTorch": COMPILED}
        yield from (name for peer, name in known.items() if peer in peers)


# ---- All ----


def _cpu_goals(program: Program, n: int, variant: str) -> tuple[Goal, ...]:
    """The case has a size of the promise; between those, expressions must not be slower."""
    if n < SMALL:
        return (Goal(RE_EVALUATE, 2),) if program is F8 else ()
    if n >= 2**24 and program in (F8, F4, MIXED) and variant == "out":
        ceiling = () if program is MIXED else (Goal(CEILING, 0.95),)
        return (*ceiling, Goal("numexpr", 2), Goal("NumPy", 2.5))
    if n >= 2**24 and program in FUNCTIONS:
        return (Goal("numexpr", 3), Goal("NumPy", 2))
    return (Goal("numexpr", 1), Goal("NumPy", 1))


def _cpu_cases(sizes: Sizes) -> Iterator[Case]:
    for program in (F8, F4, MIXED, *OTHERS):
        for n in sizes.expressions:
            if n > 2**24 and program not in (F8, F4):
                continue
            for variant in ("out", "new") if program.with_out and n >= SMALL else ("new",):
                yield ExpressionCase(
                    "expressions",
                    f"{program.label} n={n} {variant}",
                    9 if n < 2**26 else 5,
                    _cpu_goals(program, n, variant),
                    program=program,
                    n=n,
                    variant=variant,
                )
    yield FirstCallCase("expressions", "first call", goals=(Goal(at_most=1e-3),))
    yield from _difference_cases(sizes, "expressions", "cpu")
    yield from _chain_cases(ExpressionCase, sizes.chains, "cpu")


def _difference_cases(sizes: Sizes, group: str, device: str) -> Iterator[Case]:
    goals = (Goal(at_most=0.0),)
    for program in (F8, F4, MIXED):
        name = f"{program.label}, results that differ from NumPy's"
        more: dict[str, Any] = {"program": program, "n": max(sizes.layouts)}
        yield DifferenceCase(group, name, goals=goals, device=device, unit="%", **more)


def _chain_cases(kind: type[ProgramCase], n: int, device: str) -> Iterator[Case]:
    for operations in CHAINS:
        program = chain(operations)
        name = f"{program.label} n={n}" + ("" if device == "cpu" else " cuda")
        more: dict[str, Any] = {"program": program, "n": n, "operations": operations}
        yield kind("chains", name, 5, device=device, **more)


def _gpu_cases(sizes: Sizes) -> Iterator[Case]:
    n = sizes.gpu_nbytes // 8
    no_slower = tuple(Goal(name, 1) for name in (FUSED, "CuPy", "PyTorch"))
    goals: tuple[Goal, ...]
    for program, to_fused in ((F8, 1.02), (F4, 1.02), (MIXED, 1.1)):
        goals = (Goal(FUSED, 1 / to_fused), Goal("CuPy", 2), Goal("PyTorch", 2))
        yield _gpu_case(GpuExpressionCase, f"n={n}", 9, goals, program, n)
    for program in (*OTHERS, *REDUCED):
        yield _gpu_case(GpuExpressionCase, f"n={n}", 9, no_slower, program, n)
    for program in (F8, F4):
        goals = (Goal(at_most=5e-6), *no_slower)
        yield _gpu_case(GpuExpressionCase, "n=1000 enqueue", 15, goals, program, 1000, enqueue=True)
    yield FirstCallCase("gpu expressions", "first call", goals=(Goal(at_most=1e-3),), device="cuda")
    for n in sizes.transfer:
        yield _gpu_case(StreamedCase, f"n={n} host arrays", 5, (Goal(BUS, 0.75),), F8, n)
    yield from _difference_cases(sizes, "gpu expressions", "cuda")
    yield from _chain_cases(GpuExpressionCase, max(sizes.gpu_nbytes // 16, 1), "cuda")


def _gpu_case(
    kind: type[ProgramCase],
    name: str,
    repeats: int,
    goals: tuple[Goal, ...],
    program: Program,
    n: int,
    **more: Any,
) -> Case:
    more |= {"program": program, "n": n}
    return kind("gpu expressions", f"{program.label} {name}", repeats, goals, "cuda", **more)


def list_cases(devices: set[str], sizes: Sizes) -> list[Case]:
    """All cases of expressions."""
    cases: list[Case] = []
    if "cpu" in devices:
        cases += _cpu_cases(sizes)
    if "cuda" in devices:
        cases += _gpu_cases(sizes)
    return cases
