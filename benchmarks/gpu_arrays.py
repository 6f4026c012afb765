"""Cases of arrays that live on the GPU: each contender computes on arrays of its own.

Times are of finished calls: a burst of calls and the wait for the last, divided by their number.
"enqueue" is the time until a call returns, while the GPU has room for more.
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

from .case import CEILING, OURS, Case, Environment, Goal, Prepared
from .operands import WrongResult

#: Calls of a burst: long enough that waiting for the last does not show.
BURST = 16

#: Calls that are enqueued in a row; a driver takes about a thousand.
ENQUEUED = 400


class Burst:
    """Times a function: finished calls, or the enqueueing of them."""

    def __init__(
        self, function: Callable[[], Any], wait: Callable[[], Any], enqueue: bool = False
    ) -> None:
        self.function, self.wait, self.enqueue = function, wait, enqueue
        self.calls = ENQUEUED if enqueue else BURST

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


def libraries(environment: Environment) -> Iterator[Library]:
    """Yields ours, and those of the peers that are there."""
    yield ours()
    for name, make in (("CuPy", cupy), ("PyTorch", torch)):
        if name in environment.gpu_peers:
            yield make(environment.gpu_peers[name].api)


def first_call(
    name: str, library: Library, call: Callable[[], Any], check: Callable[[Any], Any], enqueue: bool
) -> Burst:
    """Returns the timer of a contender's calls, after the first one; checks our result."""
    result = call()
    if name == OURS:
        check(result)
    return Burst(call, library.wait, enqueue)


#: Name, type and shape of operands.
Arrays = tuple[tuple[str, str, tuple[int, ...]], ...]


def vectors(names: str, type_: str, *shape: int) -> Arrays:
    """Returns operands of one type and shape, which have names of one letter."""
    return tuple((name, type_, shape) for name in names)


@dataclass(frozen=True)
class GpuCase(Case):
    """A statement over arrays ``a``, ``b``, ... that each library has on the GPU.

    `statement` is ours; `peers` has the peers' where theirs differs (None: they have none). ``out``
    is an array for the result, ``host`` the first operand in host memory.  NumPy's result is that
    of `expected`, or of the statement. One call reads and writes `nbytes`; None: all operands and
    the result.
    """

    device: str = "cuda"
    statement: str = ""
    peers: tuple[tuple[str, str | None], ...] = ()
    arrays: Arrays = ()
    expected: Callable[..., Any] | None = None
    is_checked: bool = True
    nbytes: int | None = None
    enqueue: bool = False
    tolerance: float = 0.0

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "statement": self.statement}

    def _want(self, host: dict[str, Any]) -> Any:
        """Returns NumPy's result."""
        with np.errstate(all="ignore"):
            if self.expected is not None:
                return np.asarray(self.expected(*host.values()))
            return np.asarray(eval(self.statement, {"xp": np, "out": None, **host}))

    def _timer(self, library: Library, host: dict[str, Any], want: Any) -> Burst:
        text = dict(self.peers).get(library.name, self.statement)
        if library.name == OURS:
            text = self.statement
        if text is None:
            raise LookupError("no such operation or type")
        names = {"xp": library.api, **{name: library.put(x) for name, x in host.items()}}
        names["host"] = next(iter(host.values()))
        if "out=out" in text:
            names["out"] = library.make(want.shape, want.dtype)
        call: Callable[[], Any] = eval(f"lambda: {text}", names)
        check = functools.partial(self._check, want)
        return first_call(library.name, library, call, check, self.enqueue)

    def prepare(self, environment: Environment) -> Prepared:
        host = {
            name: _values(k, type_, shape) for k, (name, type_, shape) in enumerate(self.arrays)
        }
        needs_result = self.is_checked or "out=out" in self.statement
        want = self._want(host) if needs_result else np.empty(0)
        nbytes = self.nbytes
        if nbytes is None:
            nbytes = want.nbytes + sum(x.nbytes for x in host.values())
        prepared = Prepared(nbytes=nbytes)
        for library in libraries(environment):
            prepared.add(library.name, self._timer, library, host, want)
        if nbytes:
            add_ceiling(prepared, environment)
        return prepared

    def _check(self, want: Any, result: Any) -> None:
        """The first and the last elements, and some between, against NumPy's."""
        if not self.is_checked:
            return
        if result.shape != want.shape or result.dtype != want.dtype:
            raise WrongResult(f"{result.dtype} {result.shape} is not {want.dtype} {want.shape}")
        got = pcd.asnumpy(result)
        if np.array_equal(got, want):
            return
        same = (got == want) | ((got != got) & (want != want))
        if self.tolerance:
            with np.errstate(invalid="ignore"):  # of two infinities
                same |= abs(got - want) <= self.tolerance * abs(want)
        if not same.all():
            raise WrongResult(f"{np.count_nonzero(~same)} of {same.size} elements are wrong")


def _copy(cp: Any, nbytes: int) -> Burst:
    half = nbytes // 2
    source, target = cp.zeros(half, "u1"), cp.zeros(half, "u1")
    runtime = cp.cuda.runtime

    def copy() -> None:
        runtime.memcpyAsync(target.data.ptr, source.data.ptr, half, runtime.memcpyDeviceToDevice, 0)

    return Burst(copy, cp.cuda.Stream.null.synchronize)


def add_ceiling(prepared: Prepared, environment: Environment) -> None:
    """A copy within the GPU that reads and writes as many bytes as a call."""
    prepared.add_with_cupy(environment, CEILING, _copy, prepared.nbytes)


@functools.lru_cache(maxsize=2)  # cases that follow each other often have the same
def _values(seed: int, type_: str, shape: tuple[int, ...]) -> Any:
    """Values from 1 to 100: every operation is defined for them, and sums stay finite."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(type_)
    block = rng.uniform(1, 100, 65537)
    if dtype.kind == "c":
        block = block + 1j * rng.uniform(1, 100, 65537)
    return np.resize(block.astype(dtype), math.prod(shape)).reshape(shape)


def _case(name: str, statement: str, arrays: Arrays, ratio: float = 0, **more: Any) -> Case:
    """Returns a case of large arrays, which is to reach a share of a copy's bandwidth."""
    goals = (Goal(CEILING, ratio),) if ratio else ()
    return GpuCase("gpu arrays", name, goals=goals, statement=statement, arrays=arrays, **more)


def _map_cases(nbytes: int) -> Iterator[Case]:
    types = ("f8", "f4", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "c8", "c16")
    table = [("add", type_) for type_ in types]
    table += [(op, type_) for type_ in ("f8", "f4") for op in ("subtract", "multiply", "divide")]
    table += [("divide", "i4"), ("divide", "i8"), ("minimum", "f4"), ("remainder", "i4")]
    integer_divide = {
        "expected": np.floor_divide,
        "peers": (
            ("CuPy", "xp.floor_divide(a, b, out=out)"),
            ("PyTorch", "xp.div(a, b, rounding_mode='trunc', out=out)"),
        ),
    }
    for op, type_ in table:
        dtype = np.dtype(type_)
        yield _case(
            f"{op} {type_}",
            f"xp.{op}(a, b, out=out)",
            vectors("ab", type_, nbytes // dtype.itemsize),
            0.98,
            # The textbook product; NumPy's may be fused on some processors.
            tolerance=1e-6 if dtype.kind == "c" else 0.0,
            **(integer_divide if op == "divide" and dtype.kind == "i" else {}),
        )
    n = nbytes // 8
    arrays = vectors("a", "i4", n) + vectors("b", "f8", n)
    yield _case("add i4 + f8", "xp.add(a, b, out=out)", arrays, 0.98)
    for op, type_, in_torch in (("less", "f4", "lt"), ("equal", "i8", "eq")):
        arrays = vectors("ab", type_, nbytes // np.dtype(type_).itemsize)
        peers = (("PyTorch", f"xp.{in_torch}(a, b, out=out)"),)
        yield _case(f"{op} {type_}", f"xp.{op}(a, b, out=out)", arrays, 0.95, peers=peers)
    arrays = vectors("a", "f4", nbytes // 4)
    yield _case("f4 to f8", "a.astype('f8')", arrays, peers=(("PyTorch", "a.double()"),))


def _layout_cases(nbytes: int) -> Iterator[Case]:
    for type_ in ("f4", "f8"):
        size = np.dtype(type_).itemsize
        n = nbytes // size
        rows = 2 ** (int(math.log2(n)) // 2)
        shape = (n // rows, rows)
        matrix = vectors("a", type_, *shape)
        add = "xp.add(a, b, out=out)"
        yield _case(f"matrix + row {type_}", add, matrix + vectors("b", type_, rows), 0.95)
        column = vectors("b", type_, shape[0], 1)
        yield _case(f"matrix + column {type_}", add, matrix + column, 0.95)
        turned = vectors("b", type_, *shape[::-1])
        yield _case(f"A + B.T {type_}", "xp.add(a, b.T, out=out)", matrix + turned, 0.85)
        yield _case(
            f"slices [1:-1, 1:-1] {type_}",
            "xp.add(a[1:-1, 1:-1], b[1:-1, 1:-1], out=out)",
            vectors("ab", type_, *shape),
            nbytes=3 * (shape[0] - 2) * (shape[1] - 2) * size,
        )
        yield _case(
            f"every other element {type_}",
            "xp.add(a[::2], b[::2], out=out)",
            vectors("ab", type_, n),
            # Memory is read in pieces of 32 bytes, so skipped elements are read too.
            nbytes=2 * nbytes + nbytes // 2,
        )
    rows = math.isqrt(nbytes // 4)
    square, inner, halved = (rows, rows), "[1:-1, 1:-1]", "[:, ::2]"
    for name, statement, sizes in (
        (f"sum of {inner}", f"xp.sum(a{inner})", square),
        (f"sum of {inner} along axis 0", f"xp.sum(a{inner}, axis=0)", square),
        (f"sum of {halved} along axis 0", f"xp.sum(a{halved}, axis=0)", square),
        (f"sum of {halved} along axis 1", f"xp.sum(a{halved}, axis=1)", square),
        ("sum of (256, 64, n) along axis 1", "xp.sum(a, axis=1)", (256, 64, nbytes >> 16)),
        ("sum of (n, 3) along axis 0", "xp.sum(a, axis=0)", (nbytes // 12, 3)),
        ("sum of A.T", "xp.sum(a.T)", square),
        (f"where of {inner}", f"xp.where(m{inner}, a{inner}, b{inner})", square),
    ):
        more: dict[str, Any] = {}
        if "where" in name:
            arrays = vectors("ab", "f4", *sizes) + vectors("m", "?", *sizes)
        else:
            arrays = vectors("a", "f4", *sizes)
            more["expected"] = functools.partial(_in_float64, statement)
        yield _case(f"{name} f4", statement, arrays, tolerance=1e-4, **more)


def _in_float64(statement: str, a: Any) -> Any:
    """For sums along axis 0, where NumPy adds to one float32 term by term."""
    return eval(statement, {"xp": np, "a": a.astype("f8")}).astype(a.dtype)


def _dot(a: Any, b: Any) -> Any:
    """In float64: NumPy's sum of 2^28 float32 products was wrong by 0.2 % with one thread."""
    return np.dot(a.astype("f8"), b.astype("f8")).astype(a.dtype)


def _reduction_cases(nbytes: int) -> Iterator[Case]:
    for type_, tolerance in (("f4", 1e-4), ("f8", 1e-12)):
        n = nbytes // np.dtype(type_).itemsize
        a = vectors("a", type_, n)
        yield _case(f"sum {type_}", "xp.sum(a)", a, 0.97, tolerance=tolerance)
        yield _case(f"max {type_}", "xp.max(a)", a)
        arrays = vectors("ab", type_, n)
        yield _case(
            f"dot {type_}", "xp.dot(a, b)", arrays, 0.97, tolerance=tolerance, expected=_dot
        )
    n = nbytes // 8
    rows = 2 ** (int(math.log2(n)) // 2)
    for axis in (0, 1):
        name, arrays = f"sum along axis {axis} f8", vectors("a", "f8", n // rows, rows)
        yield _case(name, f"xp.sum(a, {axis})", arrays, 0.95, tolerance=1e-12)
    yield from _narrow_and_short_cases(nbytes)
    yield from _expression_cases(nbytes)
    size = math.isqrt(nbytes // 4)
    yield TraceCase(
        "gpu arrays",
        "trace f4, finished",
        goals=(Goal(at_most=12e-6),),
        statement="xp.trace(a)",
        arrays=vectors("a", "f4", size, size),
        nbytes=0,
        tolerance=1e-4,
    )


def _narrow_and_short_cases(nbytes: int) -> Iterator[Case]:
    """Sums of short rows, and reductions of narrow types."""

    def case(
        name: str, statement: str, type_: str, shape: tuple[int, ...], result: str, ratio: float
    ) -> Case:
        def expected(a: Any) -> Any:
            # NumPy sums f2 in f2.
            a = a.astype("f4") if type_ == "f2" else a
            return eval(statement, {"xp": np, "a": a}).astype(result)

        in_torch = statement.replace("'f4'", "xp.float32")
        if "mean" in statement:
            in_torch = "xp.mean(a, dtype=xp.float64)"
        return _case(
            name,
            statement,
            vectors("a", type_, *shape),
            ratio,
            peers=(("PyTorch", in_torch),),
            expected=expected,
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
                names = "ab"[:count]
                given = ", ".join(f"{name}={name}" for name in names)
                where = f"of rows of {shape[1]}" if axis else "along axis 0"
                in_peers = f"({text}).sum({axis})"
                yield _case(
                    f"sum({text}) {where} {type_}",
                    f"xp.evaluate('sum({text}, axis={axis})', dict({given}))",
                    vectors(names, type_, *shape),
                    0.85 if axis else 0.9,
                    peers=(("CuPy", in_peers), ("PyTorch", in_peers)),
                    expected=eval(f"lambda a, b=None: {in_peers}"),
                    tolerance=tolerance,
                )


def _function_cases(nbytes: int) -> Iterator[Case]:
    """Elementary functions of large arrays."""
    names = ("exp", "expm1", "log", "log1p", "sin", "cos", "tan", "tanh", "sqrt", "cbrt", "arctan")
    two = ("power", "arctan2", "hypot", "logaddexp")
    for type_, ratio, tolerance in (("f8", 1, 1e-14), ("f4", 0.85, 1e-6)):
        n = nbytes // np.dtype(type_).itemsize
        for name in names + two:
            operands = "ab" if name in two else "a"
            statement = f"xp.{name}({', '.join(operands)}, out=out)"
            in_torch = None if name == "cbrt" else statement.replace("power", "pow")
            goals = [Goal("PyTorch", ratio)]
            if type_ == "f8":
                goals.append(Goal(CEILING, 0.6 if name in two else 0.9))
            yield GpuCase(
                "gpu functions",
                f"{name} {type_}",
                goals=tuple(goals),
                statement=statement,
                peers=(("PyTorch", in_torch),),
                arrays=vectors(operands, type_, n),
                tolerance=tolerance,
            )


class TraceCase(GpuCase):
    """One call at a time, each waited for."""

    def prepare(self, environment: Environment) -> Prepared:
        prepared = super().prepare(environment)
        for timer in prepared.timers.values():
            assert isinstance(timer, Burst)
            timer.calls = 1
        prepared.add_launch(environment)
        return prepared


def _call_cases() -> Iterator[Case]:
    """One call on a small array."""
    more: dict[str, Any] = {"repeats": 15, "arrays": vectors("abcde", "f8", 1000)}
    more |= {"is_checked": False, "nbytes": 0, "enqueue": True}
    for name, statement, ours, over_cupy, over_torch in (
        ("add, new output", "xp.add(a, b)", 4.2e-6, 0.54, 0.67),
        ("add, out=", "xp.add(a, b, out=out)", 3.6e-6, 0.54, 0.67),
        ("a + b", "a + b", 4.2e-6, 0.54, 0.67),
        ("a + 1", "a + 1", 4.2e-6, 0.54, 0.67),
        ("(a*b+c)/(d-e), one by one", "(a * b + c) / (d - e)", 0, 1, 1),
        ("sum", "xp.sum(a)", 0, 1, 1),
    ):
        goals = [Goal("CuPy", 1 / over_cupy), Goal("PyTorch", 1 / over_torch)]
        if ours:
            goals.append(Goal(at_most=ours))
        name = f"{name} f8 n=1000 enqueue"
        yield GpuCase("gpu calls", name, goals=tuple(goals), statement=statement, **more)
    zeros = "xp.zeros(1000, dtype=xp.float64, device='cuda')"
    peers: tuple[tuple[str, str], ...]
    for statement, peers in (
        ("xp.where(a > b, a, b)", ()),
        ("xp.concatenate((a, b))", (("PyTorch", "xp.cat((a, b))"),)),
        ("xp.zeros(1000, device='cuda')", (("CuPy", "xp.zeros(1000)"), ("PyTorch", zeros))),
        ("a[10:20]", ()),
        ("float(a.sum())", ()),
        ("a[0].item()", ()),
        ("xp.asnumpy(a)", (("PyTorch", "a.cpu()"),)),
        (
            "xp.asarray(host, device='cuda')",
            (("CuPy", "xp.asarray(host)"), ("PyTorch", "xp.from_numpy(host).cuda()")),
        ),
    ):
        yield GpuCase(
            "gpu calls",
            f"{statement.replace('xp.', '')} f8 n=1000 enqueue",
            goals=(Goal("CuPy", 1), Goal("PyTorch", 1)),
            statement=statement,
            peers=peers,
            **more,
        )


def _size_cases(most: int) -> Iterator[Case]:
    """Bandwidth against size, for the plot."""
    for n in (2**k for k in range(10, most.bit_length())):
        add, arrays = "xp.add(a, b, out=out)", vectors("ab", "f4", n)
        yield SweepCase("gpu sizes", f"add f4 n={n}", 5, statement=add, arrays=arrays)


class SweepCase(GpuCase):
    """One case of a plot over sizes."""

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "n": self.arrays[0][2][0], "type": "f32"}


def list_cases(nbytes: int) -> list[Case]:
    """All cases of arrays on the GPU; large arrays have `nbytes`."""
    cases = [*_map_cases(nbytes), *_layout_cases(nbytes), *_reduction_cases(nbytes), *_call_cases()]
    return [*cases, *_function_cases(nbytes), *_size_cases(nbytes // 8)]
