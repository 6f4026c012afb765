"""Arrays on a GPU are made as NumPy makes its own: types, orders, values; and leave again."""

from __future__ import annotations

import itertools
import math
import resource
import warnings
from typing import Any

import cases
import generators
import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared import assert_array

import pkg as pcd

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("quiet")]

SHAPES = [(), (0,), (1,), (5,), (3, 0, 2), (2, 3), (4, 1, 3), (1,) * 64]


# ---- From what is there ----


@cases.each_dtype(cases.WITH_BOOL)
@pytest.mark.parametrize("layout", generators.INPUT_LAYOUTS)
def test_asarray_of_numpy(dtype: np.dtype, layout: str) -> None:
    for shape in ((7,), (4, 5), (2, 3, 4), (0, 3), ()):
        size = math.prod(shape)
        data = (
            np.arange(size) % 2 == 0 if dtype == np.bool_ else generators.values(dtype, size)
        ).reshape(shape)
        host = generators.laid_out(data, layout)
        x = pcd.asarray(host, device="cuda")
        data = np.array(host).astype(dtype)
        assert_array(x, data, layout)
        assert x.device == "cuda:0" and x.dtype == dtype
        out = generators.poisoned(shape, dtype)
        assert pcd.asnumpy(x, out=out) is out
        oracle.assert_same(out, data)


@cases.each_dtype(cases.WITH_BOOL, "to")
@cases.each_dtype(cases.WITH_BOOL)
def test_asarray_converts(dtype: np.dtype, to: np.dtype) -> None:
    """Converts as astype() does, and back into an array of another type."""
    if dtype.kind == "c" and to.kind not in "cb":
        with pytest.warns(np.exceptions.ComplexWarning):
            assert pcd.asarray([1.5 + 2j], dtype, "cuda").astype(to).tolist() == [to.type(1.5)]
        return
    data = np.arange(20) % 2 == 0 if dtype == np.bool_ else generators.moderate(dtype, 20)
    if dtype.kind in "fc" and to.kind == "u":
        data = abs(data)
    host = data.astype(to)
    assert_array(pcd.asarray(data, to, "cuda"), host)
    x = pcd.asarray(data, device="cuda")
    for converted in (x.astype(to), pcd.astype(x, to), pcd.asarray(x, to)):
        assert_array(converted, host)
    if np.can_cast(dtype, to, "same_kind"):
        out = generators.poisoned(20, to)
        assert pcd.asnumpy(x, out=out) is out
        oracle.assert_same(out, host)
    else:
        with pytest.raises(TypeError, match="cannot cast"):
            pcd.asnumpy(x, out=np.empty(20, to))
        with pytest.raises(TypeError, match="cannot cast"):
            x.astype(to, casting="same_kind")


@pytest.mark.parametrize(
    "obj",
    [3, 2.5, 1j, True, [1, 2, 3], [[1.5], [2]], (1, 2), [], [True, False], range(4), np.float32(2),
     np.array(5, "i2"), [np.int8(3)], [[]], 2**40, [2**63]],
    ids=repr,
)  # fmt: skip
def test_asarray_of_numbers_and_lists(obj: Any) -> None:
    assert_array(pcd.asarray(obj, device="cuda"), np.asarray(obj))
    with pcd.default_device("cuda"):
        assert_array(pcd.asarray(obj), np.asarray(obj))
    on_cpu = pcd.asarray(obj, device="cpu")
    assert type(on_cpu) is np.ndarray
    oracle.assert_same(on_cpu, np.asarray(obj))


@pytest.mark.parametrize(
    "obj",
    ["a", [object()], np.array(["2020"], "M8[s]"), np.array("a", "T"), np.longdouble(1), None],
)
def test_asarray_of_what_has_no_numbers(obj: Any) -> None:
    with pytest.raises(TypeError, match="arrays on a GPU have elements of"):
        pcd.asarray(obj, device="cuda")
    with pytest.raises(TypeError, match="arrays on a GPU have elements of"):
        pcd.empty(3, np.asarray(obj).dtype, "cuda")


def test_asarray_that_fails() -> None:
    with pytest.raises(ValueError, match="inhomogeneous"):
        pcd.asarray([[1], [1, 2]], device="cuda")
    with pytest.raises(OverflowError):
        pcd.asarray([300], "u1", "cuda")
    with pytest.raises(ValueError, match="takes a copy"):
        pcd.asarray([1], device="cuda", copy=False)
    with pytest.raises(ValueError, match="device"):
        pcd.asarray([1], device="gpu")
    with pytest.raises(pcd.CudaError):
        pcd.asarray([1], device="cuda:999")


def test_asarray_of_an_array() -> None:
    x = pcd.asarray([1.5, 2.5], device="cuda")
    assert pcd.asarray(x) is x and pcd.asarray(x, device="cuda") is x
    assert pcd.asarray(x, "f8", copy=False) is x
    assert pcd.asarray(x, copy=True)._pointer != x._pointer
    converted = pcd.asarray(x, "f4", copy=True)
    assert_array(converted, np.array([1.5, 2.5], "f4"))
    wide = np.arange(6.0).reshape(2, 3)
    for dtype in (None, "f8"):  # the order stays
        copied = pcd.asarray(pcd.asarray(wide, device="cuda").T, dtype, copy=True)
        assert copied.strides == np.asarray(wide.T, copy=True).strides
    for no in (False, np.False_, 0):  # as NumPy's `copy` takes them
        for call in (
            lambda no=no: pcd.asarray(x, "f4", copy=no),
            lambda no=no: pcd.asarray(x, device="cpu", copy=no),
            lambda no=no: pcd.asarray(wide, device="cuda", copy=no),
            lambda no=no: pcd.asarray(wide, "i4", copy=no),
            lambda no=no: pcd.reshape(wide.T, 6, copy=no),
            lambda no=no: pcd.asarray(wide, device="cuda").T.reshape(6, copy=no),
            lambda no=no: pcd.from_dlpack(x, device="cpu", copy=no),
            lambda no=no: pcd.from_dlpack(wide, device="cuda", copy=no),
            lambda no=no: x.__dlpack__(dl_device=(1, 0), copy=no),
        ):
            with pytest.raises((ValueError, BufferError), match="copy"):
                call()
    host = pcd.asarray(x, device="cpu")
    assert type(host) is np.ndarray and host.tolist() == [1.5, 2.5]
    with pcd.default_device("cpu"):  # where it is, wins
        assert pcd.asarray(x) is x


def test_byte_order() -> None:
    x = pcd.asarray(np.array([1, 2], ">i4"), device="cuda")
    assert x.dtype == np.dtype("i4") and x.tolist() == [1, 2]
    assert_array(pcd.asarray([1, 2], ">f8", "cuda"), np.array([1.0, 2.0]))
    out = np.empty(2, ">i4")
    assert pcd.asnumpy(x, out=out) is out and out.tolist() == [1, 2]


# ---- New ones ----


@cases.each_dtype(cases.WITH_BOOL)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: str(shape)[:12])
def test_filled(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    for order in "CF":
        for name in ("zeros", "ones"):
            x = getattr(pcd, name)(shape, dtype, "cuda", order=order)
            wanted = getattr(np, name)(shape, dtype, order)
            assert_array(x, wanted)
            assert x.flags[f"{order}_CONTIGUOUS"]
        x = pcd.full(shape, 3, dtype, "cuda", order=order)
        assert_array(x, np.full(shape, 3, dtype, order))
        x = pcd.empty(shape, dtype, "cuda", order=order)
        assert (x.shape, x.dtype, x.ndim) == (shape, dtype, len(shape))
        assert x.flags[f"{order}_CONTIGUOUS"] and x.flags["WRITEABLE"]
        if x.size:
            assert x.strides == np.empty(shape, dtype, order).strides


def test_default_types() -> None:
    for name in ("zeros", "ones", "empty"):
        assert getattr(pcd, name)(3, device="cuda").dtype == np.float64
    for value in (True, 2, 2.5, 1j, np.float32(3), np.array(3, "i2")):
        assert_array(pcd.full(4, value, device="cuda"), np.full(4, value))
    assert_array(pcd.full(2, pcd.asarray(2.5, device="cuda"), device="cuda"), np.full(2, 2.5))
    wide = np.int64(300)  # which wraps, unlike Python's
    assert_array(pcd.full(2, wide, "i1", "cuda"), np.full(2, wide, "i1"))


def test_the_other_byte_order() -> None:
    """0-d arrays and dtypes in the other byte order: a GPU has elements in its own order."""
    three, x = np.array(3, ">i2"), pcd.arange(6, device="cuda")
    assert_array(pcd.full(4, three, device="cuda"), np.full(4, 3, "i2"))
    assert_array(pcd.full_like(x, three), np.full(6, 3))
    assert_array(pcd.full_like(np.zeros(2, ">i4"), 1, device="cuda"), np.ones(2, "i4"))
    for dtype in (">f4", np.dtypes.Float32DType):
        assert_array(pcd.zeros(2, dtype, "cuda"), np.zeros(2, "f4"))
    assert_array(pcd.where(three, x, 7), np.arange(6))
    assert_array(pcd.clip(x, np.array(1, ">i8"), three.astype(">i8")), np.arange(6).clip(1, 3))
    assert_array(pcd.clip(x, three.astype(">i8"), None), np.arange(6).clip(3, None))
    numbers = pcd.arange(3, dtype=">f4", device="cuda")
    assert_array(numbers, np.arange(3, dtype="f4"))
    assert_array(pcd.concatenate([numbers, numbers], dtype=">f8"), np.array([0.0, 1, 2, 0, 1, 2]))
    assert_array(pcd.stack([numbers], dtype=">i4", casting="unsafe"), np.array([[0, 1, 2]], "i4"))


@cases.each_place()
def test_the_letters_of_an_order(place: str) -> None:
    """NumPy accepts lower case, and None for the default; anything but a text raises TypeError."""
    how = {} if place == "cpu" else {"device": "cuda"}
    x = np.ones((2, 3))
    a = x if place == "cpu" else pcd.asarray(x, **how)
    for order, is_fortran in (("f", True), ("c", False), (None, False)):
        for made in (
            pcd.empty((2, 3), order=order, **how), pcd.zeros((2, 3), order=order, **how),
            pcd.full((2, 3), 7, order=order, **how), pcd.ones_like(x, order=order, **how),
            pcd.add(a, a, order=order), pcd.evaluate("a + a", order=order),
        ):  # fmt: skip
            assert made.flags["F_CONTIGUOUS"] is is_fortran
    for call in (
        lambda order: pcd.zeros(2, order=order, **how), lambda order: pcd.add(a, a, order=order),
        lambda order: pcd.zeros_like(a, order=order),
        lambda order: pcd.evaluate("a + a", {"a": a}, order=order),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="order must be"):
            call(1)
        with pytest.raises(ValueError, match="order must be"):
            call("CF")


def test_making_that_fails() -> None:
    with pytest.raises(ValueError, match="order must be"):
        pcd.zeros(3, order="K", device="cuda")
    with pytest.raises(ValueError, match="negative"):
        pcd.zeros((3, -1), device="cuda")
    for sizes in ((3, 1.5), True, (True, 2)):
        with pytest.raises(TypeError):
            pcd.zeros(sizes, device="cuda")
    with pytest.raises(ValueError, match="65 dimensions"):
        pcd.zeros((1,) * 65, device="cuda")
    with pytest.raises(ValueError, match="must be a number"):
        pcd.full(3, [1, 2, 3], device="cuda")
    with pytest.raises(OverflowError):
        pcd.full(3, 300, "u1", "cuda")
    for shape in ((2**62, 4), (2**31, 2**31, 2**31), (2**62, 4, 0), (0, 2**62, 2**62)):
        for device in ("cuda", "cpu"):
            with pytest.raises(ValueError):
                pcd.zeros(shape, device=device)
    assert pcd.empty((2**60, 0), "i1", "cuda").size == 0
    with pytest.raises(TypeError, match="asarray"):
        pcd.Array()


@cases.each_dtype(cases.WITH_BOOL)
def test_like(dtype: np.dtype) -> None:
    for host in (np.ones((2, 3), dtype), np.ones((2, 3), dtype, "F"), np.ones((), dtype)):
        x = pcd.asarray(host, device="cuda")
        for name in ("zeros_like", "ones_like"):
            assert_array(getattr(pcd, name)(x), getattr(np, name)(host))
            assert getattr(pcd, name)(x).strides == getattr(np, name)(host).strides
            assert_array(getattr(pcd, name)(host, device="cuda"), getattr(np, name)(host))
            assert type(getattr(pcd, name)(x, device="cpu")) is np.ndarray
            assert type(getattr(pcd, name)(host)) is np.ndarray
            assert_array(
                getattr(pcd, name)(x, "f4", shape=(4,)), getattr(np, name)(host, "f4", shape=(4,))
            )
        assert_array(pcd.full_like(x, 2), np.full_like(host, 2))
        like = pcd.empty_like(x)
        assert (like.shape, like.dtype, like.strides) == (x.shape, x.dtype, x.strides)


# ---- Sequences ----

NUMERIC = [dtype for dtype in cases.WITH_BOOL if dtype.kind in "iuf"]


@pytest.mark.parametrize(
    "args",
    [(5,), (0,), (-3,), (2, 9), (2, 9, 3), (9, 2, -2), (9, 2, 3), (0.5, 4), (5.0,), (0, 1, 0.1),
     (1, 0, -0.3), (-2.5, 3, 0.7), (-0.0, 2.0), (-0.0, 1.0, 0.5), (10**12, 10**12 + 5),
     (0, 10**6, 7), (2**40, 2**40 + 10, 3)],
    ids=str,
)  # fmt: skip
def test_arange(args: tuple[Any, ...]) -> None:
    assert_array(pcd.arange(*args, device="cuda"), np.arange(*args))
    for dtype in ("f8", "f4", "i8", "f2"):
        if max(abs(x) for x in args) < (1000 if dtype == "f2" else 1e7):
            assert_array(
                pcd.arange(*args, dtype=dtype, device="cuda"), np.arange(*args, dtype=dtype)
            )


@cases.each_dtype(NUMERIC)
def test_arange_of_each_type(dtype: np.dtype) -> None:
    for args in ((0, 100), (3, 90, 7), (100, 0, -3)):
        if dtype.kind == "u" and args[-1] < 0:
            continue
        assert_array(pcd.arange(*args, dtype=dtype, device="cuda"), np.arange(*args, dtype=dtype))
    n = 100_000
    if dtype.itemsize > 2:
        assert_array(pcd.arange(n, dtype=dtype, device="cuda"), np.arange(n, dtype=dtype))


@pytest.mark.parametrize(
    "args",
    [
        (np.float32(1), np.float32(5), np.float32(1)), (np.float32(0), 1, np.float32(0.1)),
        (np.float32(0), np.float32(1), np.float32(0.1)),
        (np.float16(3),), (np.uint64(5),), (np.uint8(5),), (np.int8(1), np.int8(9), np.int8(3)),
        (True,), (np.array(3, ">i2"),), (0.0, 1.0, np.inf), (1, 5, np.inf), (0.0, -1.0, np.inf),
        (0.0, -1.0, -np.inf), (0.0, 1e-300, 1e100), (0.0, -1e-300, 1e100), (1.0, 1.0, np.inf),
    ],
    ids=str,
)  # fmt: skip
def test_arange_has_numpys_types_and_lengths(args: tuple[Any, ...]) -> None:
    """Numbers give int64 at least; a step beyond the end leaves one element."""
    assert_array(pcd.arange(*args, device="cuda"), np.arange(*args))


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_arange_of_bool_and_without_a_step(device: str) -> None:
    """Types and steps that NumPy takes, and the GPU refused: bool up to two elements, and None."""
    for args in ((2,), (0, 2), (2, 4), (-1, 1, None), (0.5, 2.5), (5, 0), (2, 0, -1), (1, 5, None)):
        dtype = None if args == (1, 5, None) else bool
        made = pcd.arange(*args, dtype=dtype, device=device)
        oracle.assert_same(pcd.asnumpy(made), np.arange(*args, dtype=dtype))
    with pytest.raises(TypeError, match="at most length 2"):
        pcd.arange(3, dtype=bool, device=device)


def test_arange_that_fails() -> None:
    for args in ((0, np.inf), (0, np.nan), (0, 1e300), (0.0, 1.0, 1e-300)):
        for device in ("cuda", "cpu"):
            with pytest.raises(ValueError):
                pcd.arange(*args, device=device)
    for args in ((5j,), (0, 5, 1j), (0, 5 + 5j, 1), (np.complex64(1), 5)):
        with pytest.raises(TypeError, match="must be a real number"):
            pcd.arange(*args, device="cuda")
    with pytest.raises(ZeroDivisionError):
        pcd.arange(0, 5, 0, device="cuda")
    with pytest.raises(TypeError):
        pcd.arange("a", device="cuda")
    with pytest.raises(TypeError, match="numeric"):
        pcd.arange(3, dtype="S3", device="cuda")
    with pytest.raises((MemoryError, ValueError)):
        pcd.arange(10**15, device="cuda")
    for args, dtype in (((-3, 7), "u8"), ((1, -9, -3), "u4"), ((300, 302), "i1"), ((-3, -9), "u1")):
        try:
            wanted = np.arange(*args, dtype=dtype)
        except OverflowError:
            with pytest.raises(OverflowError):
                pcd.arange(*args, dtype=dtype, device="cuda")
        else:
            assert_array(pcd.arange(*args, dtype=dtype, device="cuda"), wanted)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(
    start=st.sampled_from([0, 2.5, -2.5, 8.0, 2e5, -7e15, 1e-5, 2.0**24, 2**53 + 1, np.int64(300)]),
    step=st.sampled_from([1, 3, 0.25, -300, 387859.4, 8e12, -1e15, np.float32(1.5)]) | st.floats(1),
    n=st.integers(1, 5),
    dtype=st.sampled_from(["i1", "u1", "i4", "u8", "f2", "f4", "f8", "c8"]),
)
def test_arange_at_the_limits_of_types(start: Any, step: Any, n: int, dtype: str) -> None:
    """The first two elements are exact, however the type rounds their distance.

    Integers have to fit, also integers given as floats.
    """
    args = (start, start + n * step, step)
    try:
        wanted = np.arange(*args, dtype=dtype)
    except (ValueError, OverflowError):
        with pytest.raises((ValueError, OverflowError)):
            pcd.arange(*args, dtype=dtype, device="cuda")
    else:
        info = np.iinfo(dtype) if wanted.dtype.kind in "iu" else None
        fits = info is None or all(info.min <= int(x) <= info.max for x in (start, start + step))
        if wanted.size < 100 and fits:  # else NumPy before 2.4 may wrap them
            assert_array(pcd.arange(*args, dtype=dtype, device="cuda"), wanted)


@given(
    start=st.floats(-1e6, 1e6), stop=st.floats(-1e6, 1e6), num=st.integers(0, 60), end=st.booleans()
)
def test_linspace(start: float, stop: float, num: int, end: bool) -> None:
    assert_array(
        pcd.linspace(start, stop, num, endpoint=end, device="cuda"),
        np.linspace(start, stop, num, endpoint=end),
    )


_ENDS = [0, 7.5, True, 2 + 1j, 2**40]
_ENDS += [np.float32(0.3), np.float16(-3), np.int8(3), np.float32(1e-44)]


@pytest.mark.parametrize("dtype", [None, "f4", "f2", "f8", "c16"])
@pytest.mark.parametrize("num", [1, 2, 50])
def test_linspace_computes_in_numpys_type(num: int, dtype: Any) -> None:
    """The type is that of the ends: float32 for a float32 and a Python number."""
    for start, stop in itertools.product(_ENDS, _ENDS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            wanted = np.linspace(start, stop, num, dtype=dtype)
            assert_array(pcd.linspace(start, stop, num, dtype=dtype, device="cuda"), wanted)
    for dtype_of_integers in ("i2", "u8"):
        for stop in (np.inf, -np.inf, 1e300):
            wanted = pcd.linspace(1, stop, num, dtype=dtype_of_integers, device="cpu")
            assert_array(pcd.linspace(1, stop, num, dtype=dtype_of_integers, device="cuda"), wanted)


@pytest.mark.parametrize("dtype", [None, "f4", "f2", "i4", "u1", "c8"])
def test_types_of_linspace(dtype: Any) -> None:
    for args in ((0, 1), (0, 100, 7), (5, 5, 3), (3, 120, 1), (0, 9, 10), (1.5, 100.25, 1000)):
        assert_array(
            pcd.linspace(*args, dtype=dtype, device="cuda"), np.linspace(*args, dtype=dtype)
        )
    if dtype == "i4":
        assert_array(
            pcd.linspace(-5, 5, 7, dtype=dtype, device="cuda"), np.linspace(-5, 5, 7, dtype=dtype)
        )
    with pytest.raises(ValueError, match="num"):
        pcd.linspace(0, 1, -1, device="cuda")


def test_linspace_of_complex() -> None:
    assert_array(pcd.linspace(0, 1 + 2j, 7, device="cuda"), np.linspace(0, 1 + 2j, 7))


# ---- The CPU ----


@cases.each_device()
def test_the_cpu_gives_numpy(device: str) -> None:
    """Arrays asked for on the CPU are NumPy's, whatever the default device."""
    with pcd.default_device(device):
        for x in (
            pcd.zeros((2, 3), "i4", "cpu"), pcd.ones(2, device="cpu"), pcd.empty(2, device="cpu"),
            pcd.full(2, 7, device="cpu"), pcd.arange(5, device="cpu"),
            pcd.linspace(0, 1, 5, device="cpu"), pcd.asarray([1, 2], device="cpu"),
        ):  # fmt: skip
            assert type(x) is np.ndarray
        kind = np.ndarray if device == "cpu" else pcd.Array
        for x in (pcd.zeros(3), pcd.arange(5), pcd.linspace(0, 1), pcd.asarray([1])):
            assert type(x) is kind


@pytest.mark.parametrize("dtype", ["U3", "S2", "V4", "M8[s]", "m8[D]", "O", ">f4", "g", "i4"])
def test_other_types_on_the_cpu_are_filled_as_by_numpy(dtype: str) -> None:
    x = np.empty((2, 3), dtype)
    for name, args in (("zeros", ()), ("ones", ()), ("full", (3,))):
        ours, numpys = getattr(pcd, name), getattr(np, name)
        assert ours((2, 3), *args, dtype).tolist() == numpys((2, 3), *args, dtype).tolist()
        ours, numpys = getattr(pcd, f"{name}_like"), getattr(np, f"{name}_like")
        assert ours(x, *args).tolist() == numpys(x, *args).tolist()


def test_zeros_on_the_cpu_take_memory_only_where_they_are_written() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    x = pcd.zeros((2**28,), "f4")  # 1 GiB
    x[:: 2**24] = 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**19  # KiB


# ---- Leaving ----


def test_leaving() -> None:
    host = generators.values(np.dtype("f4"), 60).reshape(3, 4, 5)
    x = pcd.asarray(host, device="cuda")
    for view, wanted in (
        (x, host), (x.T, host.T), (x[::-1, 1], host[::-1, 1]), (x[..., ::2], host[..., ::2]),
        (pcd.broadcast_to(x[:, :1], host.shape), np.broadcast_to(host[:, :1], host.shape)),
    ):  # fmt: skip
        for gone in (pcd.asnumpy(view), view.to_device("cpu")):
            oracle.assert_same(gone, wanted)
        np.testing.assert_array_equal(np.array(view.tolist(), "f4"), wanted)
        out = generators.LAYOUTS["strided"](wanted.shape, np.dtype("f4"))
        around = generators.surroundings(out)
        pcd.asnumpy(view, out)
        oracle.assert_same(out, wanted)
        assert np.array_equal(generators.surroundings(out), around)
    assert x.to_device("cuda:0") is x
    assert pcd.asnumpy(host) is host


def test_leaving_that_fails() -> None:
    x = pcd.ones((2, 3), device="cuda")
    read_only = np.zeros((2, 3))
    read_only.flags.writeable = False
    for out, error in (
        ([1], TypeError), (x, TypeError), (np.ones(3), ValueError),
        (np.ones((2, 3), int), TypeError), (read_only, ValueError),
    ):  # fmt: skip
        with pytest.raises(error):
            pcd.asnumpy(x, out=out)
    with pytest.raises(ValueError, match="stream"):
        x.to_device("cpu", stream=3)
    with pytest.raises(ValueError, match="device"):
        x.to_device("gpu")
    with pytest.raises(TypeError, match="not None"):  # it would be the default device
        x.to_device(None)  # type: ignore[arg-type]
    with pytest.raises(pcd.CudaError):
        x.to_device("cuda:99")


def test_item() -> None:
    host = np.arange(6, dtype="f4").reshape(2, 3)
    x = pcd.asarray(host, device="cuda")
    for args in ((4,), (-1,), (1, 2), ((0, 1),), (np.int64(3),)):
        assert x.item(*args) == host.item(*args) and type(x.item(*args)) is float
    assert x.T.item(1) == host.T.item(1) and x.item((1,)) == host.item((1,))
    for index in ((0, 0, 0), (0, 0, 0, 0)):
        with pytest.raises(ValueError, match="indices"):
            x.item(*index)
    assert pcd.asarray([[7]], device="cuda").item() == 7
    assert type(pcd.asarray(True, device="cuda").item()) is bool
    assert type(pcd.asarray(1j, device="cuda").item()) is complex
    for args in ((6,), (-7,), (2, 0)):
        with pytest.raises(IndexError):
            x.item(*args)
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        x.item()
    for index in (slice(2), (slice(0, 1), 0), (0, None), (0, ...), [0]):
        with pytest.raises(TypeError):
            x.item(index)


@given(data=st.data())
def test_round_trips(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(cases.DTYPES))
    arrays, _ = data.draw(generators.operands(dtype, 1))
    x = pcd.asarray(arrays[0], device="cuda")
    assert_array(x, np.array(arrays[0]).astype(dtype))


def test_host_arrays_like_others_keep_the_order_of_axes() -> None:
    x = np.empty((4, 5, 6), ">f4").transpose(1, 2, 0)
    for order in "KACF":
        for name in ("empty_like", "zeros_like", "ones_like"):
            result, wanted = (getattr(lib, name)(x, order=order) for lib in (pcd, np))
            assert result.strides == wanted.strides and result.dtype == wanted.dtype
        result = pcd.full_like(x, 3, "i2", order=order)
        assert result.strides == np.full_like(x, 3, "i2", order=order).strides
        assert (result == 3).all()


def test_arrays_like_others_keep_the_order_of_axes() -> None:
    """Tries each device, with prototypes on each, and another shape."""
    host = np.empty((4, 5, 6), "f4")
    for axes in ((0, 1, 2), (2, 1, 0), (1, 2, 0), (1, 0, 2)):
        prototype = host.transpose(axes)
        x = pcd.asarray(prototype, device="cuda")
        assert x.strides == prototype.strides == pcd.asnumpy(x).strides
        for order in "KACF":
            for shape in (None, (3, 4, 5), (7, 3), (2, 3, 4, 5)):
                wanted = np.empty_like(prototype, "i2", order, shape=shape).strides
                for source, device in ((x, None), (x, "cpu"), (prototype, "cuda")):
                    result = pcd.zeros_like(source, "i2", device, order=order, shape=shape)
                    assert result.strides == wanted, (order, shape, device)
