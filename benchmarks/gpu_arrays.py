"""Cases of arrays that live on the GPU: each contender computes on arrays of its own.

Times are of finished calls: of a burst of calls, and of waiting for the last, over their number;
but "enqueue" is the time until a call returns, while the GPU has room for more.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import pkg as pcd

from .case import CEILING, LAUNCH, OURS, Case, Environment, Goal, Prepared
from .ceilings import CeilingError, LaunchTimer
from .operands import WrongResult

#: Calls of a burst: long enough that waiting for the last does not show.
BURST = 16

#: Calls that are enqueued in a row; a driver takes about a thousand.
ENQUEUED = 400


class Burst:
    """Times a function: finished calls, or the enqueueing of them."""

    def __init__(
        self, function: Callable[[], Any], wait: Callable[[], Any], calls: int, enqueue: bool
    ) -> None:
        self.function, self.wait, self.calls, self.enqueue = function, wait, calls, enqueue

    def timeit(self, number: int) -> float:
        function, seconds = self.function, 0.0
        for _ in range(number):
            self.wait()
            start = time.perf_counter()
            for _ in range(self.calls):
                function()
            if self.enqueue:
                seconds += time.perf_counter() - start
                self.wait()
            else:
                self.wait()
                seconds += time.perf_counter() - start
        return seconds / self.calls


@dataclass(frozen=True)
class Library:
    """A contender as statements use it: its module, moving arrays there and back, waiting."""

    name: str
    api: Any
    put: Callable[[Any], Any]
    make: Callable[[tuple[int, ...], str], Any]
    wait: Callable[[], Any]


def ours() -> Library:
    return Library(
        OURS,
        pcd,
        lambda x: pcd.asarray(x, device="cuda"),
        lambda shape, type_: pcd.empty(shape, type_, device="cuda"),
        pcd.core.Stream(0, 0).synchronize,
    )


def cupy(api: Any) -> Library:
    return Library("CuPy", api, api.asarray, api.empty, api.cuda.get_current_stream().synchronize)


def torch(api: Any) -> Library:
    return Library(
        "PyTorch",
        api,
        lambda x: api.from_numpy(np.ascontiguousarray(x)).cuda(),
        lambda shape, type_: api.empty(
            shape, dtype=getattr(api, np.dtype(type_).name), device="cuda"
        ),
        api.cuda.synchronize,
    )


@dataclass(frozen=True)
class GpuCase(Case):
    """A statement over arrays ``a``, ``b``, ... that each library has on the GPU.

    `statement` is ours; `peers` has the peers' where theirs differs (None: they have none).
    ``out`` is an array for the result.  `nbytes` are read and written by one call.
    """

    statement: str = ""
    peers: tuple[tuple[str, str | None], ...] = ()
    arrays: tuple[tuple[str, str, tuple[int, ...]], ...] = ()  # name, type, shape
    out: tuple[str, tuple[int, ...]] | None = None
    expected: Callable[..., Any] | None = None
    nbytes: int = 0
    enqueue: bool = False
    with_launch: bool = False
    tolerance: float = 0.0

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "statement": self.statement}

    def _function(self, library: Library, text: str, host: dict[str, Any]) -> Callable[[], Any]:
        names: dict[str, Any] = {"xp": library.api}
        for name, x in host.items():
            names[name] = library.put(x)
        if self.out is not None:
            names["out"] = library.make(self.out[1], self.out[0])
        function: Callable[[], Any] = eval(f"lambda: {text}", names)
        return function

    def prepare(self, environment: Environment) -> Prepared:
        prepared = Prepared(nbytes=self.nbytes)
        host = {
            name: _values(k, type_, shape) for k, (name, type_, shape) in enumerate(self.arrays)
        }
        calls = ENQUEUED if self.enqueue else BURST
        libraries = [ours()]
        if "CuPy" in environment.gpu_peers:
            libraries.append(cupy(environment.gpu_peers["CuPy"].api))
        if "PyTorch" in environment.gpu_peers:
            libraries.append(torch(environment.gpu_peers["PyTorch"].api))
        texts = dict(self.peers)
        for library in libraries:
            text = (
                self.statement if library.name == OURS else texts.get(library.name, self.statement)
            )
            if text is None:
                prepared.lacking[library.name] = "no such operation or type"
                continue
            try:
                function = self._function(library, text, host)
                result = function()
                if library.name == OURS:
                    self._check(result, host)
                prepared.timers[library.name] = Burst(function, library.wait, calls, self.enqueue)
            except WrongResult:
                raise
            except Exception as error:
                if library.name == OURS:
                    raise
                prepared.lacking[library.name] = (str(error).strip() or repr(error))[:200]
        if self.nbytes:
            add_ceiling(prepared, environment, self.nbytes)
        if self.with_launch and environment.library is not None:
            timer = LaunchTimer(environment.library)
            try:
                timer.timeit(1)
                prepared.timers[LAUNCH] = timer
            except CeilingError as error:
                prepared.lacking[LAUNCH] = str(error)
        return prepared

    def _check(self, result: Any, host: dict[str, Any]) -> None:
        """The first and the last elements, and some between, against NumPy's."""
        if self.expected is None:
            return
        with np.errstate(all="ignore"):
            want = np.asarray(self.expected(*host.values()))
        if result.shape != want.shape or result.dtype != want.dtype:
            raise WrongResult(f"{result.dtype} {result.shape} is not {want.dtype} {want.shape}")
        got = pcd.asnumpy(result)
        if np.array_equal(got, want):
            return
        same = (got == want) | ((got != got) & (want != want))
        if self.tolerance:
            same |= abs(got - want) <= self.tolerance * abs(want)
        if not same.all():
            raise WrongResult(f"{np.count_nonzero(~same)} of {same.size} elements are wrong")


def add_ceiling(prepared: Prepared, environment: Environment, nbytes: int) -> None:
    """A copy within the GPU that reads and writes `nbytes` together."""
    peer = environment.gpu_peers.get("CuPy")
    if peer is None:
        prepared.lacking[CEILING] = "measured with CuPy, which is not there"
        return
    cp, half = peer.api, nbytes // 2
    source, target = cp.zeros(half, "u1"), cp.zeros(half, "u1")
    runtime = cp.cuda.runtime

    def copy() -> None:
        runtime.memcpyAsync(target.data.ptr, source.data.ptr, half, runtime.memcpyDeviceToDevice, 0)

    prepared.timers[CEILING] = Burst(copy, cp.cuda.Stream.null.synchronize, BURST, False)


@functools.lru_cache(maxsize=2)  # cases that follow each other often have the same
def _values(seed: int, type_: str, shape: tuple[int, ...]) -> Any:
    """Values from 1 to 100: every operation is defined for them, and sums stay finite."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(type_)
    block = rng.uniform(1, 100, 65537)
    if dtype.kind == "c":
        block = block + 1j * rng.uniform(1, 100, 65537)
    return np.resize(block.astype(dtype), math.prod(shape)).reshape(shape)


def _map_cases(nbytes: int) -> Iterator[Case]:
    goals = (Goal(reference=CEILING, ratio=0.98),)
    types = ("f8", "f4", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "c8", "c16")
    table = [("add", type_) for type_ in types]
    table += [(op, type_) for type_ in ("f8", "f4") for op in ("subtract", "multiply", "divide")]
    table += [("divide", "i4"), ("divide", "i8"), ("minimum", "f4"), ("remainder", "i4")]
    for op, type_ in table:
        n = nbytes // np.dtype(type_).itemsize
        is_integer_divide = op == "divide" and type_ in ("i4", "i8")
        peers: dict[str, str | None] = {}
        if is_integer_divide:
            peers["CuPy"] = "xp.floor_divide(a, b, out=out)"
            peers["PyTorch"] = "xp.div(a, b, rounding_mode='trunc', out=out)"
        function = np.floor_divide if is_integer_divide else getattr(np, op)
        yield GpuCase(
            "gpu arrays",
            f"{op} {type_}",
            9,
            goals,
            "cuda",
            statement=f"xp.{op}(a, b, out=out)",
            peers=tuple(peers.items()),
            arrays=(("a", type_, (n,)), ("b", type_, (n,))),
            out=(type_, (n,)),
            expected=function,
            nbytes=3 * nbytes,
            # The textbook product; NumPy's may be fused on some processors.
            tolerance=1e-6 if np.dtype(type_).kind == "c" else 0.0,
        )
    n = nbytes // 8
    yield GpuCase(
        "gpu arrays",
        "add i4 + f8",
        9,
        goals,
        "cuda",
        statement="xp.add(a, b, out=out)",
        arrays=(("a", "i4", (n,)), ("b", "f8", (n,))),
        out=("f8", (n,)),
        expected=lambda a, b: a + b,
        nbytes=20 * n,
    )
    for op, type_ in (("less", "f4"), ("equal", "i8")):
        n = nbytes // np.dtype(type_).itemsize
        yield GpuCase(
            "gpu arrays",
            f"{op} {type_}",
            9,
            (Goal(reference=CEILING, ratio=0.95),),
            "cuda",
            statement=f"xp.{op}(a, b, out=out)",
            peers=(
                ("PyTorch", "xp.lt(a, b, out=out)" if op == "less" else "xp.eq(a, b, out=out)"),
            ),
            arrays=(("a", type_, (n,)), ("b", type_, (n,))),
            out=("?", (n,)),
            expected=getattr(np, op),
            nbytes=2 * nbytes + n,
        )
    n = nbytes // 4
    yield GpuCase(
        "gpu arrays",
        "f4 to f8",
        9,
        (),
        "cuda",
        statement="a.astype('f8')",
        peers=(("PyTorch", "a.double()"),),
        arrays=(("a", "f4", (n,)),),
        expected=lambda a: a.astype("f8"),
        nbytes=12 * n,
    )


def _layout_cases(nbytes: int) -> Iterator[Case]:
    for type_ in ("f4", "f8"):
        n = nbytes // np.dtype(type_).itemsize
        rows = 2 ** (int(math.log2(n)) // 2)
        shape = (n // rows, rows)
        matrix = ("a", type_, shape)
        for name, operand, ratio, count in (
            ("matrix + row", ("b", type_, (rows,)), 0.95, 2),
            ("matrix + column", ("b", type_, (shape[0], 1)), 0.95, 2),
        ):
            yield GpuCase(
                "gpu arrays",
                f"{name} {type_}",
                9,
                (Goal(reference=CEILING, ratio=ratio),),
                "cuda",
                statement="xp.add(a, b, out=out)",
                arrays=(matrix, operand),
                out=(type_, shape),
                expected=lambda a, b: a + b,
                nbytes=count * nbytes,
            )
        yield GpuCase(
            "gpu arrays",
            f"A + B.T {type_}",
            9,
            (Goal(reference=CEILING, ratio=0.85),),
            "cuda",
            statement="xp.add(a, b.T, out=out)",
            arrays=(matrix, ("b", type_, shape[::-1])),
            out=(type_, shape),
            expected=lambda a, b: a + b.T,
            nbytes=3 * nbytes,
        )
        yield GpuCase(
            "gpu arrays",
            f"slices [1:-1, 1:-1] {type_}",
            9,
            (),
            "cuda",
            statement="xp.add(a[1:-1, 1:-1], b[1:-1, 1:-1], out=out)",
            arrays=(matrix, ("b", type_, shape)),
            out=(type_, (shape[0] - 2, shape[1] - 2)),
            expected=lambda a, b: a[1:-1, 1:-1] + b[1:-1, 1:-1],
            nbytes=3 * (shape[0] - 2) * (shape[1] - 2) * np.dtype(type_).itemsize,
        )
        yield GpuCase(
            "gpu arrays",
            f"every other element {type_}",
            9,
            (),
            "cuda",
            statement="xp.add(a[::2], b[::2], out=out)",
            arrays=(("a", type_, (n,)), ("b", type_, (n,))),
            out=(type_, (n // 2,)),
            expected=lambda a, b: a[::2] + b[::2],
            # Memory is read in pieces of 32 bytes: what lies between is read as well.
            nbytes=2 * nbytes + nbytes // 2,
        )


def _reduction_cases(nbytes: int) -> Iterator[Case]:
    for type_ in ("f4", "f8"):
        n = nbytes // np.dtype(type_).itemsize
        goals = (Goal(reference=CEILING, ratio=0.97),)
        tolerance = 1e-4 if type_ == "f4" else 1e-12
        yield GpuCase(
            "gpu arrays",
            f"sum {type_}",
            9,
            goals,
            "cuda",
            statement="xp.sum(a)",
            arrays=(("a", type_, (n,)),),
            expected=lambda a: a.sum(),
            nbytes=nbytes,
            tolerance=tolerance,
        )
        yield GpuCase(
            "gpu arrays",
            f"max {type_}",
            9,
            (),
            "cuda",
            statement="xp.max(a)",
            arrays=(("a", type_, (n,)),),
            expected=lambda a: a.max(),
            nbytes=nbytes,
        )
        yield GpuCase(
            "gpu arrays",
            f"dot {type_}",
            9,
            goals,
            "cuda",
            statement="xp.dot(a, b)",
            arrays=(("a", type_, (n,)), ("b", type_, (n,))),
            expected=lambda a, b: (a * b).sum(),
            nbytes=2 * nbytes,
            tolerance=tolerance,
        )
    n = nbytes // 8
    rows = 2 ** (int(math.log2(n)) // 2)
    for axis in (0, 1):
        yield GpuCase(
            "gpu arrays",
            f"sum along axis {axis} f8",
            9,
            (Goal(reference=CEILING, ratio=0.95),),
            "cuda",
            statement=f"xp.sum(a, {axis})",
            arrays=(("a", "f8", (n // rows, rows)),),
            expected=lambda a, axis=axis: a.sum(axis),
            nbytes=nbytes,
            tolerance=1e-12,
        )
    yield from _narrow_and_short_cases(nbytes)
    yield from _expression_cases(nbytes)
    size = math.isqrt(nbytes // 4)
    yield TraceCase(
        "gpu arrays",
        "trace f4, finished",
        9,
        (Goal(at_most=12e-6),),
        "cuda",
        statement="xp.trace(a)",
        arrays=(("a", "f4", (size, size)),),
        expected=lambda a: a.trace(),
        tolerance=1e-4,
        with_launch=True,
    )


def _narrow_and_short_cases(nbytes: int) -> Iterator[Case]:
    """Sums of short rows, and reductions of narrow types."""

    def case(
        name: str, statement: str, type_: str, shape: tuple[int, ...], result: str, ratio: float
    ) -> Case:
        outputs = math.prod(shape) if "(a, 0" in statement or "(a, 1" in statement else 1
        for axis in (0, 1):
            if f"(a, {axis}" in statement:
                outputs //= shape[axis]

        def expected(a: Any) -> Any:
            # NumPy sums f2 in f2.
            a = a.astype("f4") if type_ == "f2" else a
            return eval(statement, {"xp": np, "a": a}).astype(result)

        in_torch = statement.replace("'f4'", "xp.float32")
        if "mean" in statement:
            in_torch = "xp.mean(a, dtype=xp.float64)"
        return GpuCase(
            "gpu arrays",
            name,
            9,
            (Goal(reference=CEILING, ratio=ratio),),
            "cuda",
            statement=statement,
            peers=(("PyTorch", in_torch),),
            arrays=(("a", type_, shape),),
            expected=expected,
            nbytes=math.prod(shape) * np.dtype(type_).itemsize
            + outputs * np.dtype(result).itemsize,
            tolerance={"f2": 2e-3, "f4": 1e-4, "c8": 1e-4}.get(type_, 1e-12),
        )

    sums = {"f2": "f2", "f4": "f4", "f8": "f8", "i1": "i8", "u1": "u8", "i2": "i8", "u2": "u8"}
    sums |= {"i4": "i8", "i8": "i8", "c8": "c8", "?": "i8"}
    for length in (2, 3, 4, 8, 16, 33, 64, 300, 1000):
        for type_ in ("f4", "u1", "f2", "f8", "i1", "i4", "i8", "c8"):
            if type_ in ("f4", "u1") or length in (3, 16, 1000):
                size = length * np.dtype(type_).itemsize + np.dtype(sums[type_]).itemsize
                shape = (nbytes // 2 // size, length)
                name = f"sum of rows of {length} {type_}"
                yield case(name, "xp.sum(a, 1)", type_, shape, sums[type_], 0.85)
    yield case("max of rows of 3 u1", "xp.max(a, 1)", "u1", (nbytes // 8, 3), "u1", 0.85)
    for type_ in ("f2", "u1", "i1", "i2", "u2", "?"):
        n = nbytes // 2 // np.dtype(type_).itemsize
        rows = 2 ** (int(math.log2(n)) // 2)
        shape, result, dtype = (n // rows, rows), sums[type_], ""
        if type_ == "f2":  # too large for f2
            result, dtype = "f4", ", dtype='f4'"
        for axis, ratio in ((0, 0.9), (1, 0.8)):
            statement = f"xp.sum(a, {axis}{dtype})"
            yield case(f"sum along axis {axis} {type_}", statement, type_, shape, result, ratio)
        statement = f"xp.sum(a{dtype})"
        yield case(f"sum {type_}", statement, type_, (n,), result, 0.8)
        if type_ != "f2":
            yield case(f"mean {type_}", "xp.mean(a)", type_, (n,), "f8", 0.8)


def _expression_cases(nbytes: int) -> Iterator[Case]:
    """Reductions of expressions along rows and across them, in one pass."""
    for type_, tolerance in (("f4", 1e-4), ("f8", 1e-12)):
        size = np.dtype(type_).itemsize
        rows = 2 ** (int(math.log2(nbytes // 2 // size)) // 2)
        shapes = [(nbytes // 2 // size // length, length) for length in (3, 16, 300, 1000, 5000)]
        for axis, shape in [(1, shape) for shape in shapes] + [(0, (rows, rows))]:
            for text, count in (("a * a", 1), ("(a - b) ** 2", 2)):
                arrays = tuple((name, type_, shape) for name in "ab"[:count])
                given = ", ".join(f"{name}={name}" for name in "ab"[:count])
                where = f"of rows of {shape[1]}" if axis else "along axis 0"
                function = eval(f"lambda a, b=None: ({text}).sum(axis={axis})")
                yield GpuCase(
                    "gpu arrays",
                    f"sum({text}) {where} {type_}",
                    9,
                    (Goal(reference=CEILING, ratio=0.85 if axis else 0.9),),
                    "cuda",
                    statement=f"xp.evaluate('sum({text}, axis={axis})', dict({given}))",
                    peers=(
                        ("CuPy", f"({text}).sum({axis})"),
                        ("PyTorch", f"({text}).sum({axis})"),
                    ),
                    arrays=arrays,
                    expected=function,
                    nbytes=count * math.prod(shape) * size + shape[1 - axis] * size,
                    tolerance=tolerance,
                )


def _function_cases(nbytes: int) -> Iterator[Case]:
    """Elementary functions of large arrays."""
    names = ("exp", "expm1", "log", "log1p", "sin", "cos", "tan", "tanh", "sqrt", "cbrt", "arctan")
    two = ("power", "arctan2", "hypot", "logaddexp")
    for type_, ratio, tolerance in (("f8", 1, 1e-14), ("f4", 0.85, 1e-6)):
        n = nbytes // np.dtype(type_).itemsize
        for name in names + two:
            arrays = tuple((operand, type_, (n,)) for operand in ("ab" if name in two else "a"))
            statement = f"xp.{name}({', '.join(operand for operand, *_ in arrays)}, out=out)"
            in_torch = None if name == "cbrt" else statement.replace("power", "pow")
            goals = [Goal(reference="PyTorch", ratio=ratio)]
            if type_ == "f8":
                goals.append(Goal(reference=CEILING, ratio=0.6 if name in two else 0.9))
            yield GpuCase(
                "gpu functions",
                f"{name} {type_}",
                9,
                tuple(goals),
                "cuda",
                statement=statement,
                peers=(("PyTorch", in_torch),),
                arrays=arrays,
                out=(type_, (n,)),
                expected=getattr(np, name),
                nbytes=(1 + len(arrays)) * nbytes,
                tolerance=tolerance,
            )


class TraceCase(GpuCase):
    """One call at a time, each waited for."""

    def prepare(self, environment: Environment) -> Prepared:
        prepared = super().prepare(environment)
        for timer in prepared.timers.values():
            if isinstance(timer, Burst):
                timer.calls = 1
        return prepared


def _call_cases() -> Iterator[Case]:
    """One call on a small array."""
    arrays = tuple((name, "f8", (1000,)) for name in "abcde")
    for name, statement, ours, over_cupy, over_torch in (
        ("add, new output", "xp.add(a, b)", 4.2e-6, 0.54, 0.67),
        ("add, out=", "xp.add(a, b, out=out)", 3.6e-6, 0.54, 0.67),
        ("a + b", "a + b", 4.2e-6, 0.54, 0.67),
        ("a + 1", "a + 1", 4.2e-6, 0.54, 0.67),
        ("(a*b+c)/(d-e), one by one", "(a * b + c) / (d - e)", 0, 1, 1),
        ("sum", "xp.sum(a)", 0, 1, 1),
    ):
        goals = [
            Goal(reference="CuPy", ratio=1 / over_cupy),
            Goal(reference="PyTorch", ratio=1 / over_torch),
        ]
        if ours:
            goals.append(Goal(at_most=ours))
        yield GpuCase(
            "gpu calls",
            f"{name} f8 n=1000 enqueue",
            15,
            tuple(goals),
            "cuda",
            statement=statement,
            arrays=arrays,
            out=("f8", (1000,)),
            enqueue=True,
        )
    no_slower = (Goal(reference="CuPy", ratio=1), Goal(reference="PyTorch", ratio=1))
    peers: tuple[tuple[str, str | None], ...]
    for statement, peers in (
        ("xp.where(a > b, a, b)", ()),
        ("xp.concatenate((a, b))", (("PyTorch", "xp.cat((a, b))"),)),
        (
            "xp.zeros(1000, device='cuda')",
            (
                ("CuPy", "xp.zeros(1000)"),
                ("PyTorch", "xp.zeros(1000, dtype=xp.float64, device='cuda')"),
            ),
        ),
        ("a[10:20]", ()),
        ("float(a.sum())", ()),
    ):
        yield GpuCase(
            "gpu calls",
            f"{statement.replace('xp.', '')} f8 n=1000 enqueue",
            15,
            no_slower,
            "cuda",
            statement=statement,
            peers=peers,
            arrays=arrays,
            enqueue=True,
        )


def _size_cases(most: int) -> Iterator[Case]:
    """Bandwidth against size, for the plot."""
    for n in (2**k for k in range(10, most.bit_length())):
        yield SweepCase(
            "gpu sizes",
            f"add f4 n={n}",
            5,
            (),
            "cuda",
            statement="xp.add(a, b, out=out)",
            arrays=(("a", "f4", (n,)), ("b", "f4", (n,))),
            out=("f4", (n,)),
            nbytes=12 * n,
        )


class SweepCase(GpuCase):
    """One case of a plot over sizes."""

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "n": self.nbytes // 12, "type": "f32"}


def list_cases(nbytes: int) -> list[Case]:
    """All cases of arrays on the GPU; large arrays have `nbytes`."""
    cases = [*_map_cases(nbytes), *_layout_cases(nbytes), *_reduction_cases(nbytes), *_call_cases()]
    return [*cases, *_function_cases(nbytes), *_size_cases(nbytes // 8)]
