"""Expressions in threads, processes, other libraries; their memory; reductions; GPU arrays."""

from __future__ import annotations

import _thread
import gc
import itertools
import queue
import sys
import threading
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cases
import generators
import numpy as np
import oracle
import pytest
import trees
from hypothesis import given
from hypothesis import strategies as st

import pkg as pcd
import pkg.numexpr as ne
from pkg import Expression, evaluate

# ---- Threads and signals ----


@cases.each_device()
def test_one_expression_in_many_threads(device: str) -> None:
    """Each thread has its own types and sizes, so programs are replaced meanwhile."""
    expression = Expression("(a * b + c) / (a - 0.5)")
    a_times_b = ("multiply", ("input", "a"), ("input", "b"))
    difference = ("subtract", ("input", "a"), ("number", 0.5))
    tree = ("true_divide", ("add", a_times_b, ("input", "c")), difference)
    start = threading.Barrier(4)
    kinds = "bhilBHILefdFD"

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        start.wait(30)
        for _ in range(150):
            n = int(rng.choice([1, 10, 3000, 20_000]))
            a, b, c = (
                generators.moderate(np.dtype(str(rng.choice(list(kinds)))), n, k) for k in range(3)
            )
            with np.errstate(all="ignore"):
                result = expression(a, b, c, device=device)
                oracle.assert_same(result, trees.value(tree, {"a": a, "b": b, "c": c}))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


INTERRUPTED = """
import signal, threading, time, os
import numpy as np
from pkg import Expression
n = 30_000_000
a = np.full(n, 1.5)
out = np.empty(n)
e = Expression("a" + " + a" * 2000)  # many seconds
e(a[:10])
begin = time.process_time()
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    e(a, out=out)
except KeyboardInterrupt:
    print(f"interrupted after {time.process_time() - begin}")
else:
    print(f"complete after {time.process_time() - begin}")
assert (e(a[:10]) == e(a[-10:])).all()
"""


def test_keyboard_interrupt(python: Any) -> None:
    """A long evaluation stops within about a second of Ctrl-C, and the next one works.

    The time is that of two processors: others may be busy on the machine.
    """
    text = python(INTERRUPTED, OMP_NUM_THREADS="2").split()
    assert text[0] == "interrupted" and float(text[-1]) < 6, text


def test_pieces() -> None:
    """Large arrays are computed in pieces along their outermost dimensions: none is left out."""
    terms, shape = 400, (3, 700_001)
    assert 2**26 // terms < shape[1], "several pieces in each row"
    text = "a" + " + b * 2" * terms
    a = np.arange(shape[1], dtype="f4")
    b = np.array([[1.0], [2.0], [3.0]], "f4")
    wanted = a + 2 * terms * b
    for out in (
        np.empty(shape, "f4"),
        np.empty(shape[::-1], "f4").T,
        np.empty(shape, "f4")[::-1, ::-1],
    ):
        out[...] = np.nan
        evaluate(text, {"a": a, "b": b}, out=out)
        oracle.assert_same(out, wanted)


# ---- Memory ----


def _peak(function: Any) -> int:
    """Returns the peak memory of NumPy and Python in a call, in bytes."""
    function()
    gc.collect()
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_no_temporaries() -> None:
    """Only the output is as large as an input, and it is allocated only without `out`."""
    n = 1_000_000
    a, b = np.ones(n), np.ones(n, "f4")
    swapped = a.astype(">f8")
    out = np.empty(n)
    for text in ("(a * b + a) / (a - b - 3)", "where(a > b, a, b * 2) ** 3"):
        expression = Expression(text)
        assert _peak(lambda e=expression: e(a, b)) < 8 * n + 200_000
        assert _peak(lambda e=expression: e(a, b, out=out)) < 200_000
        assert _peak(lambda e=expression: e(a, b, out=out.view(">f8"))) < 2_000_000
        assert _peak(lambda e=expression: e(swapped, b, out=out)) < 2_000_000
        assert _peak(lambda e=expression: e(swapped, b, out=swapped)) < 2_000_000
    i = np.ones(n, "i8")
    power, swapped = Expression("i ** j"), i.astype(">i8")  # looked through before it is computed
    assert _peak(lambda: power(swapped, i, out=out.view("i8"))) < 2_000_000
    assert _peak(lambda: power(swapped, i, out=swapped)) < 2_000_000
    assert _peak(lambda: evaluate("sum(a * b)", {"a": a, "b": b})) < 200_000
    assert _peak(lambda: evaluate("mean(a * b - a)", {"a": a, "b": b})) < 200_000


RESIDENT = """
import resource
import numpy as np
from pkg import evaluate
n = 20_000_000
a, b, out = np.ones(n), np.ones(n), np.ones(n)
evaluate("a * b", {"a": a[:9], "b": b[:9]})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
evaluate("(a * b + a) / (a - b - 3) + a ** 3", out=out)
total = evaluate("sum((a * b + a) ** 2 - a)")
assert total == 3 * n
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_resident_memory(python: Any) -> None:
    """The library itself takes no such memory either; in KiB, for inputs of 156,000."""
    assert int(python(RESIDENT)) < 20_000


# ---- Other libraries ----


@cases.each_device()
def test_dask(device: str) -> None:
    """`map_blocks` calls with empty arrays to find the type, then with each block."""
    da = pytest.importorskip("dask.array")
    a = np.arange(24.0).reshape(4, 6)
    x, y = da.from_array(a, chunks=(2, 3)), da.from_array(a.astype("f4"), chunks=(2, 3))
    expression = Expression("(a - b) / (a + b + 1)")
    lazy = da.map_blocks(expression, x, y, device=device)
    assert lazy.dtype == np.float64
    for scheduler in ("synchronous", "threads"):
        oracle.assert_same(lazy.compute(scheduler=scheduler), (a - a) / (a + a + 1))


def test_processes() -> None:
    """Expressions and results can be sent to other processes."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        assert pool.submit(Expression("a * 2 + b"), 3, 4).result() == 10


# ---- Reductions ----


@cases.each_place()
@pytest.mark.parametrize(
    "name", ["sum", "prod", "min", "max", "mean", "any", "all", "count_nonzero"]
)
@given(data=st.data())
def test_reductions(place: str, name: str, data: Any) -> None:
    """The bits are those of the reduction of the array that the expression gives."""
    tree = data.draw(trees.trees(trees.NAMES[:2], 6))
    inputs = data.draw(trees.inputs(trees.NAMES[:2]))
    used = {k: x for k, x in inputs.items() if k in trees.names(tree)}
    values, refused = trees.outcome(trees.value, tree, used)
    if refused is None and trees.of_numbers(used):
        values, refused = trees.outcome(np.asarray, values, type(values))
    if refused is not None:
        return
    axes = [None, *range(-values.ndim, values.ndim), tuple(range(values.ndim))]
    axis = data.draw(st.sampled_from(axes))
    keepdims = data.draw(st.booleans())
    text = f"{name}({trees.text(tree)}, axis={axis}, keepdims={keepdims})"
    reduction = getattr(pcd, name)
    wanted, refused = trees.outcome(lambda: reduction(values, axis=axis, keepdims=keepdims))
    actual, error = trees.outcome(trees.call, text, place, used)
    if refused is not None:
        assert isinstance(error, ValueError), f"{text}: {error!r}, not {refused!r}"
        return
    if error is not None:
        raise AssertionError(f"{text} of {used}") from error
    oracle.assert_same(actual, wanted, text)


def test_reductions_of_numexpr() -> None:
    """numexpr's forms: the axis by position or by name; out."""
    a, b = np.arange(12.0).reshape(3, 4), np.full((3, 4), 2.0)
    assert evaluate("sum(a * b)") == 132
    oracle.assert_same(evaluate("sum(a * b, 1)"), (a * b).sum(1))
    oracle.assert_same(evaluate("sum(a * b, axis=0)"), (a * b).sum(0))
    oracle.assert_same(evaluate("max(a - b, axis=-1)"), (a - b).max(-1))
    out = np.empty(4)
    assert evaluate("sum(a * b, axis=0)", out=out) is out
    oracle.assert_same(out, (a * b).sum(0))
    with pytest.raises(ValueError, match=r"out has shape \(4,\), but the result has \(3,\)"):
        evaluate("sum(a * b, axis=1)", out=out)
    with pytest.raises(TypeError, match="from float64 to out's int64"):
        evaluate("sum(a * b, axis=0)", out=np.empty(4, "i8"))
    with pytest.raises(ValueError, match="axis 2 is out of bounds"):
        evaluate("sum(a, 2)")
    with pytest.raises(ValueError, match="no elements"):
        evaluate("min(a * 2)", {"a": np.ones(0)})
    assert evaluate("sum(a * 2)", {"a": np.ones(0)}) == 0
    assert type(evaluate("sum(a * 2)", {"a": 3})) is np.int64


def _along_rows(reduce: Any) -> Any:
    return lambda a: reduce(a * 2, axis=1)


@cases.each_place()
def test_reductions_of_truths(place: str) -> None:
    """Truths of masks and of numbers (NaN is true); in fused functions; no elements; `out`."""
    a = np.arange(12.0).reshape(3, 4) - 2
    a[1, 2] = np.nan
    for name, text in itertools.product(("any", "all", "count_nonzero"), ("a > 8", "a * 2", "a")):
        for axis in (None, 0, (0, 1)):
            wanted = getattr(np, name)(eval(text), axis=axis)
            actual = cases.call(Expression(f"{name}({text}, axis={axis})"), place, a)
            oracle.assert_same(actual, wanted, f"{name}({text})")
    for count in (np.any, np.all, np.count_nonzero):
        fused = pcd.fuse(_along_rows(count))
        oracle.assert_same(cases.call(fused, place, a), count(a * 2, axis=1))
    assert not cases.call(Expression("any(a + 1)"), place, a[:0])
    assert cases.call(Expression("all(a + 1)"), place, a[:0])
    if place == "cpu":
        assert pcd.fuse(lambda a: (a > 8).any())(a) and pcd.fuse(lambda a: (a > -9).all())(a[:1])
        fused = pcd.fuse(lambda a: np.logical_or.reduce(a > 8))
        assert fused(a).tolist() == [False, False, False, True]
        out = np.zeros(4, bool)
        assert evaluate("any(a > 5, axis=0)", out=out) is out
        assert out.tolist() == [True] * 4
        assert evaluate("any(k > 2)", {"k": 3}) and evaluate("count_nonzero(k)", {"k": 3}) == 1
        assert Expression("count_nonzero(a)").dtype_for(np.float32) == np.int64
        assert Expression("any(a)").dtype_for(np.float32) == np.bool_


@cases.each_device()
def test_large_reductions(device: str) -> None:
    """Many blocks and threads keep the documented order."""
    rng = np.random.default_rng(5)
    a, b = rng.random(300_007), rng.random(300_007).astype("f4")
    for text, terms in (("sum(a * b - 1)", a * b - 1), ("sum(sqrt(b))", np.sqrt(b))):
        result = evaluate(text, device=device)
        oracle.assert_same(result, oracle.ordered_sum(terms))
    oracle.assert_same(evaluate("mean(a > b)", device=device), np.mean(a > b))


@pytest.mark.gpu
@pytest.mark.no_emulated_gpu
@pytest.mark.parametrize("columns", [3, 480])
def test_many_rows_of_one_input(columns: int) -> None:
    """A thread block copies several tiles of rows ahead, one after the other."""
    a = np.random.default_rng(5).random((3 * 2**21 // columns, columns)).astype("f4")
    result = evaluate("sum(a * a, axis=1)", {"a": pcd.asarray(a, device="cuda")})
    oracle.assert_same(pcd.asnumpy(result), evaluate("sum(a * a, axis=1)"))


def test_warnings_of_reductions() -> None:
    """Elements and the sum itself warn, on every path."""
    expression, zero = Expression("sum(1 / a)"), np.array([0.0, 1.0])
    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="divide by zero encountered in evaluate"):
            expression(zero)
        with pytest.warns(RuntimeWarning, match="overflow encountered in evaluate"):
            expression(np.full(2, 2.0**-1023))


# ---- Arrays on a GPU ----


@pytest.mark.gpu
def test_arrays_and_numbers() -> None:
    """Arrays of a GPU with numbers and host arrays without dimensions; the result stays there."""
    a = np.arange(6.0).reshape(2, 3)
    x = pcd.asarray(a, device="cuda")
    for k in (2, 2.5, np.float32(3), np.array(2), np.array(2.5, ">f8"), True):
        result = evaluate("x * k + 1")
        assert isinstance(result, pcd.Array) and result.device == x.device
        oracle.assert_same(pcd.asnumpy(result), a * k + 1)
    assert (
        pcd.asnumpy(evaluate("x ** k", {"x": x, "k": pcd.asarray(2, device="cuda")})).tolist()
        == (a**2).tolist()
    )
    total = evaluate("sum(x * 2)")
    assert isinstance(total, pcd.Array) and total.item() == 30


@pytest.mark.gpu
def test_arrays_that_do_not_mix() -> None:
    """Nothing is moved in silence; the errors are those of the operators."""
    x = pcd.ones((3,), device="cuda")
    h = np.ones(3)
    for text in ("x + h", "h + x", "sum(x * h)"):
        for _ in range(2):
            with pytest.raises(TypeError, match="in host memory.*asarray"):
                evaluate(text)
    with pytest.raises(TypeError, match="on cuda:0 and out is in host memory"):
        evaluate("x + 1", out=h)
    with pytest.raises(TypeError, match="in host memory and out is on cuda:0"):
        evaluate("h + 1", out=x)
    with pytest.raises(ValueError, match="device is 'cpu'"):
        evaluate("x + 1", device="cpu")
    if pcd.device_count() > 1:
        other = {"x": x, "y": pcd.ones((3,), device="cuda:1")}
        with pytest.raises(ValueError, match="cuda:0 and cuda:1"):
            evaluate("x + y", other)
        assert evaluate("y + 1", other).device == "cuda:1"


@pytest.mark.gpu
def test_output_arrays() -> None:
    """`out` of the result's type or another, overlapping, read-only, or of another shape."""
    a = np.arange(8.0)
    x = pcd.asarray(a, device="cuda")
    out = pcd.empty((8,), dtype="f8", device="cuda")
    assert evaluate("x * 2", out=out) is out
    oracle.assert_same(pcd.asnumpy(out), a * 2)
    small = pcd.empty((8,), dtype="f4", device="cuda")
    with pytest.raises(TypeError, match="from float64 to out's float32"):
        evaluate("x * 2", out=small)
    evaluate("x * 2", out=small, casting="same_kind")
    oracle.assert_same(pcd.asnumpy(small), (a * 2).astype("f4"))
    evaluate("y + 1", {"y": x[:-1]}, out=x[1:])
    oracle.assert_same(pcd.asnumpy(x), np.r_[a[0], a[:-1] + 1])
    with pytest.raises(ValueError, match="read-only"):
        evaluate("x * 2", out=pcd.broadcast_to(out, (8,)))
    with pytest.raises(ValueError, match=r"shape \(7,\), but the result has \(8,\)"):
        evaluate("x * 2", out=out[1:])


@pytest.mark.gpu
def test_default_device() -> None:
    """Host arrays follow the default device, on the fast path too; arrays on a GPU do not."""
    a = np.arange(5.0)
    expression = Expression("a * 2 + 1")
    expression(a)
    with pcd.default_device("cuda"):
        oracle.assert_same(expression(a), a * 2 + 1)
    with pcd.default_device("cpu"):
        oracle.assert_same(expression(a), a * 2 + 1)
        assert isinstance(expression(pcd.asarray(a, device="cuda")), pcd.Array)


@pytest.mark.gpu
def test_streams_and_lifetimes() -> None:
    """Work goes to the current stream, and operands live until it is done."""
    stream = pcd.Stream()
    x = pcd.asarray(np.arange(100_000.0), device="cuda")
    stream.wait(1)
    expression = Expression("x * 2 + 1")
    for _ in range(3):
        with pcd.stream(stream):
            y = expression(expression(x))
        noted = pcd.core.streams_of(x)
        assert any(s is not None and s.handle == stream.handle for s in noted)
        stream.synchronize()
        oracle.assert_same(pcd.asnumpy(y), np.arange(100_000.0) * 4 + 3)


def test_no_gpu() -> None:
    """Asking for a missing GPU is an error, and nothing else looks for one."""
    if pcd.cuda_is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(pcd.CudaError):
        evaluate("a + 1", {"a": np.ones(3)}, device="cuda")
    for device, error in (("gpu", ValueError), (3, TypeError)):
        with pytest.raises(error):
            evaluate("a + 1", {"a": np.ones(3)}, device=device)  # type: ignore[arg-type]


def test_variables_are_not_kept() -> None:
    """A function frees an array with `del` after an expression used it; `locals()` stays whole."""
    a = np.arange(1000.0)
    reference = weakref.ref(a)
    assert evaluate("sum(a)") == 499500
    del a
    assert reference() is None, "the frame keeps a copy of its variables"
    b = 2.0
    mine = locals()
    assert evaluate("b + 1") == 3
    assert mine["b"] is b

    class Body:
        c = 3.0
        d = evaluate("c * 2")

    assert Body.c == 3 and Body.d == 6


@pytest.mark.parametrize("function", [evaluate, ne.evaluate])
def test_threads_without_a_frame(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread or a callback of C may call `evaluate` with no function of Python above it."""
    ended: queue.Queue[Any] = queue.Queue()
    monkeypatch.setattr(sys, "unraisablehook", lambda told: ended.put(told.exc_type))

    class Values(dict[str, Any]):
        """Notes that the thread dropped it when it ended."""

        def __del__(self) -> None:
            ended.put(None)

    def run(*arguments: Any) -> Any:
        """Returns the type of the error, or None."""
        _thread.start_new_thread(function, arguments)
        del arguments
        return ended.get(timeout=60)

    a, out = np.arange(3.0), np.zeros(3)
    error = run("2 * a", Values(a=a), None, out)  # `assert` would keep the values
    assert error is None and out.tolist() == [0, 2, 4]
    error = run("b + 1", None, Values(b=a), out)
    assert error is None and out.tolist() == [1, 2, 3]
    error = run("1 + 1", None, Values(), out[:1].reshape(()))
    assert error is None and out[0] == 2
    error = run("a + b", Values(b=1))
    assert error is (NameError if function is evaluate else KeyError)


@cases.each_device()
@pytest.mark.parametrize("text", ["out - b * c", "sum(out - b * c)"])
def test_names_are_bound_in_order(device: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated call binds arguments by position or name without Python code."""
    expression = Expression(text)
    out, b, c = (pcd.asarray(np.array([k, 5.0, 7.5 * k]), device=device) for k in (2, 3, 4))
    want = np.asarray(pcd.asnumpy(expression(out, b, c)))
    monkeypatch.setattr(Expression, "_call", None)
    names = {"out": out, "b": b, "c": c}
    for first in range(4):
        for order in itertools.permutations(list(names)[first:]):
            args = list(names.values())[:first]
            got = expression(*args, **{name: names[name] for name in order})
            assert np.array_equal(pcd.asnumpy(got), want)
    if text == "out - b * c":  # given by position, the name is the option's
        target = pcd.empty(3, device=device)
        assert expression(out, b, c=c, out=target) is target
        assert expression(out, c=c, out=None, b=b) is not target
        assert np.array_equal(pcd.asnumpy(target), want)
    monkeypatch.undo()
    for args, named in (
        ((out, b), {}),
        ((out, b), {"b": b, "c": c}),
        ((out, b, c, c), {}),
        ((), {"b": b, "c": c}),
        ((out,), {"b": b, "d": c}),
    ):
        with pytest.raises(TypeError, match="the inputs of the expression are out, b, c"):
            expression(*args, **named)


_TEXTS_WITH_NUMBERS = (
    "2 * n * a",
    "(n - m) * a + b * -n",
    "where(n > m, a, b)",
    "n / m * a",
    "2 ** n * a",
    "n ** m * a",
    "(n + m) * a < n * m",
    "sum(a * (n + 1), axis=0)",
    "abs(n) * a + (n == m)",
    "complex(n, m) * a",
    "minimum(n, m) * a",
    "a * (n * 10 ** 18)",
)
_NUMBERS = (0, 1, -3, True, 2.5, float("inf"), 1 + 2j, 2**62, 2**70, 1e308)


@cases.each_device()
@pytest.mark.parametrize("type_", ["f8", "i4", "u1"])
@pytest.mark.parametrize("text", _TEXTS_WITH_NUMBERS)
def test_numbers_combined_before_arrays(device: str, type_: str, text: str) -> None:
    """A call after others of its kind gives what a first one gives, an error too."""
    a, b = (pcd.asarray(np.arange(6, dtype=type_).reshape(2, 3) + k, device=device) for k in (0, 1))

    def outcome(expression: Expression, n: Any, m: Any) -> Any:
        given = {"n": n, "m": m, "a": a, "b": b}
        try:
            with np.errstate(all="ignore"):
                x = pcd.asnumpy(expression(**{name: given[name] for name in expression.inputs}))
        except (ArithmeticError, TypeError, ValueError) as error:
            return type(error), str(error)
        return x.dtype, x.shape, x.tobytes()

    used = Expression(text)
    for n, m in itertools.product(_NUMBERS, repeat=2):
        assert outcome(used, n, m) == outcome(Expression(text), n, m), (n, m)


@pytest.mark.parametrize("text", ["2 * n * a", "where(n > 1, a, b) + (n - 1)", "sum(a * (n + 1))"])
def test_numbers_combined_on_the_fast_path(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call teaches C the others: with other numbers, unless one becomes another kind."""
    expression, a = Expression(text), np.arange(3.0)
    given = {name: {"n": 2, "a": a, "b": a}[name] for name in expression.inputs}
    expression(**given)
    monkeypatch.setattr(Expression, "_call", lambda self, **named: "the long way")
    want = eval(text, {"a": a, "b": a, "n": 5, "where": np.where, "sum": np.sum})
    assert np.array_equal(expression(**{**given, "n": 5}), want)
    assert expression(**{**given, "n": 5.0}) == "the long way"


def test_names_that_read_alike() -> None:
    """Different names that read alike, of a subclass of str, fill no input twice."""

    class Name(str):
        __slots__ = ()
        __hash__ = object.__hash__

        def __eq__(self, other: object) -> bool:
            return self is other

    expression = Expression("a + b")
    x = np.ones(3)
    expression(x, x)
    for names in (("a", "a"), ("b", "b"), ("a", "b", "out", "out")):
        with pytest.raises(TypeError, match="the inputs of the expression are a, b"):
            expression(**{Name(name): x for name in names})
