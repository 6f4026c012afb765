"""NumPy's own functions on arrays on a GPU, Dask's chunks, and the array API's namespace."""

from __future__ import annotations

import inspect
import operator
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cases
import generators
import numpy as np
import oracle
import pytest
from shared import assert_array, on_gpu

import pkg as pcd

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("quiet")]


HOST = np.array([[1.5, -2.0, 3.25], [4.0, 0.5, -6.0]])


# ---- Ufuncs ----


@pytest.mark.parametrize(
    "name", [name for name in pcd.operations if isinstance(getattr(np, name, None), np.ufunc)]
)
def test_numpys_ufuncs(name: str) -> None:
    """NumPy's divide is true division; other ufuncs are our operations."""
    of_floats = getattr(pcd, name) in cases.OF_FLOATS
    one, two = (np.float32(2), np.float64(2)) if of_floats else (np.int8(2), np.uint8(2))
    for dtype in ("f4", "f8", "i4", "u1") if of_floats else ("i4", "u1", "i8", "u4"):
        host = abs(HOST).astype(dtype) + 1
        x, ufunc = on_gpu(host), getattr(np, name)
        args = [(x, x[::-1]), (x, 2), (2, x), (x, one), (two, x)]
        numpys = [(host, host[::-1]), (host, 2), (2, host), (host, one), (two, host)]
        if ufunc.nin == 1:
            args, numpys = [(x,)], [(host,)]
        for ours, theirs in zip(args, numpys, strict=True):
            wanted = ufunc(*theirs)
            assert_array(ufunc(*ours), wanted, name=name)
            out = pcd.empty(wanted.shape, wanted.dtype, "cuda")
            assert ufunc(*ours, out=out) is out
            assert_array(out, wanted, name=name)
            if name not in ("minimum", "maximum"):  # NumPy warns of it there
                assert ufunc(*ours, out) is out


def test_packages_ufuncs() -> None:
    x = on_gpu(np.array([7, -7]))
    assert_array(pcd.add.ufunc(x, x), np.array([14, -14]))
    assert_array(pcd.divide.ufunc(x, 2), np.array([3, -3]))
    assert_array(np.divide(x, 2), np.array([3.5, -3.5]))
    assert_array(np.true_divide(x, 2), np.array([3.5, -3.5]))
    assert_array(pcd.divide(x, 2), np.array([3, -3]))
    assert_array(x / 2, np.array([3.5, -3.5]))


@pytest.mark.parametrize("number", [np.longdouble(3), np.array(3, "g"), np.datetime64(1, "s")])
def test_numbers_of_other_types(number: Any) -> None:
    """The errors must name the supported types: one said only "not numpy.ndarray"."""
    x = on_gpu(HOST)
    for call in (
        lambda: operator.setitem(x, 0, number), lambda: operator.setitem(x, x > 0, number),
        lambda: x.fill(number), lambda: np.copyto(x, number, "unsafe"), lambda: x + number,
        lambda: number + x, lambda: x**number, lambda: x < number, lambda: x.__iadd__(number),
        lambda: pcd.add(x, number), lambda: np.add(x, number), lambda: np.divmod(x, number),
        lambda: pcd.where(x > 1, x, number), lambda: np.where(x > 1, number, x),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="float16") as info:
            call()
        assert "longdouble" in str(info.value) or number.dtype.name.split("[")[0] in str(info.value)
    assert_array(x, HOST)


def test_keywords_of_divmod() -> None:
    """With `out` or `dtype` it was an error that named no reason."""
    host = np.array([7, -7, 9])
    x, outs = on_gpu(host), (on_gpu(np.zeros(3, int)), on_gpu(np.zeros(3)))
    wanted = np.divmod(host, 2)
    for made in (np.divmod(x, 2, out=outs), np.divmod(x, 2, *outs)):
        assert made[0] is outs[0] and made[1] is outs[1]
        assert_array(outs[0], wanted[0])
        assert_array(outs[1], wanted[1].astype(float))
    for ours, theirs in zip(
        np.divmod(x, 2, dtype="f4"), np.divmod(host, 2, dtype="f4"), strict=True
    ):
        assert_array(ours, theirs)
    y = on_gpu(np.array([2, 3, 4]))
    np.divmod(x, y, out=(x, y))  # the quotient must not change the operand of the remainder
    assert_array(x, host // [2, 3, 4])
    assert_array(y, host % [2, 3, 4])
    ints = np.zeros(3, int)
    for match, call in (
        ("where", lambda: np.divmod(x, 2, where=x > 0)),
        ("nothing is moved", lambda: np.divmod(ints, 2, out=(x, x))),
        ("nothing is moved", lambda: np.divmod(x, 2, out=(x, ints))),
        ("cannot cast", lambda: np.divmod(x, 2.5, out=(outs[1], x))),
    ):
        with pytest.raises(TypeError, match=match):
            call()
    assert_array(outs[1], wanted[1].astype(float))  # `out` is checked before anything is written


def test_keywords_of_ufuncs() -> None:
    x = on_gpu(HOST)
    assert_array(np.add(x, 1, dtype="f4"), np.add(HOST, 1, dtype="f4"))
    assert_array(np.add(x, 1, dtype=np.dtypes.Float32DType), np.add(HOST, 1, dtype="f4"))
    with pytest.raises(TypeError):
        np.add(x, 1, dtype="i4")
    assert_array(
        np.add(x, 1, dtype="i4", casting="unsafe"), np.add(HOST, 1, dtype="i4", casting="unsafe")
    )
    out = on_gpu(np.zeros((2, 3), "i4"))
    np.add(x, 1, out=out, casting="unsafe")
    assert_array(out, (HOST + 1).astype("i4"))
    mask = HOST > 0
    out, wanted = on_gpu(np.zeros((2, 3))), np.zeros((2, 3))
    assert np.sqrt(x, out=out, where=on_gpu(mask)) is out
    assert_array(out, np.sqrt(HOST, out=wanted, where=mask))
    assert_array(np.add(x, 1, where=True), HOST + 1)
    with pytest.raises(TypeError, match="where"):
        np.add(x, 1, where=mask)
    with pytest.raises(TypeError, match="bool"):
        np.add(x, 1, where=x)
    for keyword in ({"axes": [0, 0]}, {"signature": "dd->d"}, {"keepdims": True}):
        with pytest.raises(TypeError):
            np.add(x, 1, **keyword)


def test_reduce() -> None:
    x = on_gpu(HOST)
    for ufunc in (np.add, np.multiply, np.minimum, np.maximum):
        for kwargs in ({}, {"axis": 1}, {"axis": None}, {"axis": (0, 1)}, {"keepdims": True},
                       {"axis": -1, "keepdims": True}):  # fmt: skip
            assert_array(ufunc.reduce(x, **kwargs), ufunc.reduce(HOST, **kwargs))
        out = pcd.zeros(3, device="cuda")
        assert ufunc.reduce(x, out=out) is out
        assert_array(out, ufunc.reduce(HOST))
    assert_array(np.add.reduce(x, dtype="f4"), np.add.reduce(HOST, dtype="f4"))
    assert_array(pcd.add.reduce(x, axis=1), HOST.sum(1))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.spacing(x), lambda x: np.matmul(x, x.T), lambda x: np.add.accumulate(x),
        lambda x: np.add.outer(x, x), lambda x: np.add.at(x, [0], 1), lambda x: np.gcd(x, x),
        lambda x: np.subtract.reduce(x), lambda x: np.add.reduceat(x, [0, 1]),
        lambda x: np.modf(x), lambda x: np.frexp(x), lambda x: np.isnat(x),
        lambda x: np.add(x, np.ones((2, 3))), lambda x: np.add(np.ones((2, 3)), x),
        lambda x: np.add(np.ones((2, 3)), 1, out=x), lambda x: np.add(x, 1, out=np.ones((2, 3))),
        lambda x: np.add(x, [[1, 2, 3]]), lambda x: np.add(x, "a"),
    ],
)  # fmt: skip
def test_ufuncs_that_are_refused(call: Any) -> None:
    """Raises TypeError: nothing moves silently."""
    with pytest.raises(TypeError):
        call(on_gpu(HOST))


# ---- Functions ----

FUNCTIONS: dict[str, Any] = {
    "sum": lambda x: np.sum(x),
    "sum axis": lambda x: np.sum(x, axis=0),
    "sum keywords": lambda x: np.sum(x, axis=1, keepdims=True, dtype="f4"),
    "prod": lambda x: np.prod(x, 0),
    "min": lambda x: np.min(x, axis=1),
    "max": lambda x: np.max(x, keepdims=True),
    "amax": lambda x: np.amax(x),
    "amin": lambda x: np.amin(x, 0),
    "mean": lambda x: np.mean(x, axis=1),
    "mean keepdims": lambda x: np.mean(x, keepdims=True),
    "dot": lambda x: np.dot(x[0], x[1]),
    "trace": lambda x: np.trace(x),
    "trace offset": lambda x: np.trace(x, 1),
    "trace keywords": lambda x: np.trace(x, offset=-1, axis1=0, axis2=1),
    "concatenate": lambda x: np.concatenate([x, x], axis=1),
    "concatenate flat": lambda x: np.concatenate((x, x[0]), axis=None),
    "stack": lambda x: np.stack([x, x], axis=-1),
    "where": lambda x: np.where(x > 0, x, 0),
    "reshape": lambda x: np.reshape(x, (3, 2)),
    "reshape order": lambda x: np.reshape(x, -1, order="C"),
    "transpose": lambda x: np.transpose(x),
    "transpose axes": lambda x: np.transpose(x, (1, 0)),
    "matrix_transpose": lambda x: np.matrix_transpose(x),
    "moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "expand_dims": lambda x: np.expand_dims(x, 1),
    "squeeze": lambda x: np.squeeze(x[:1]),
    "squeeze axis": lambda x: np.squeeze(x[:1], axis=0),
    "flip": lambda x: np.flip(x, 0),
    "broadcast_to": lambda x: np.broadcast_to(x, (4, 2, 3)),
    "ravel": lambda x: np.ravel(x),
    "copy": lambda x: np.copy(x),
    "zeros_like": lambda x: np.zeros_like(x),
    "ones_like": lambda x: np.ones_like(x, dtype="i4"),
    "full_like": lambda x: np.full_like(x, 3),
    "full_like shape": lambda x: np.full_like(x, 3, shape=(5,)),
    "zeros_like keywords": lambda x: np.zeros_like(x, dtype="f4", shape=(2,), subok=False),
    "sum by name": lambda x: np.sum(a=x),
    "sum with defaults": lambda x: np.sum(x, None, None, None, np._NoValue, where=True),
    "max by name": lambda x: np.max(a=x, axis=0),
    "mean with defaults": lambda x: np.mean(x, 0, None, None, where=np._NoValue),
    "count_nonzero by name": lambda x: np.count_nonzero(a=x, axis=0, keepdims=False),
    "dot by name": lambda x: np.dot(a=x[0], b=x[1], out=None),
    "trace with defaults": lambda x: np.trace(x, 0, np.int64(0), 1, None, None),
    "concatenate with defaults": lambda x: np.concatenate((x, x), 1, None, casting="same_kind"),
    "stack by name": lambda x: np.stack(arrays=[x, x], axis=1, out=None),
    "clip by name": lambda x: np.clip(a=x, a_min=0, a_max=None),
    "clip with defaults": lambda x: np.clip(x, None, 2, None),
    "round by name": lambda x: np.round(a=x, decimals=1),
    "reshape with defaults": lambda x: np.reshape(x, (3, 2), "C"),
    "transpose by name": lambda x: np.transpose(a=x, axes=None),
    "moveaxis by name": lambda x: np.moveaxis(x, source=0, destination=1),
    "expand_dims by name": lambda x: np.expand_dims(a=x, axis=0),
    "squeeze by name": lambda x: np.squeeze(a=x[:1], axis=0),
    "flip by name": lambda x: np.flip(m=x),
    "broadcast_to by name": lambda x: np.broadcast_to(array=x, shape=(2, 2, 3), subok=True),
    "ravel with defaults": lambda x: np.ravel(x, "C"),
    "copy by name": lambda x: np.copy(a=x, subok=True),
    "real by name": lambda x: np.real(val=x),
    "zeros_like by name": lambda x: np.zeros_like(a=x, device=None),
    "zeros_like with defaults": lambda x: np.zeros_like(x, None, "K", True),
    "ones_like by position": lambda x: np.ones_like(x, "i4", "F", False, (2, 2)),
    "full_like by name": lambda x: np.full_like(a=x, fill_value=3),
    **(
        {
            "astype": lambda x: np.astype(x, "i2"),
            "astype with defaults": lambda x: np.astype(x, "i2", copy=True, device=None),
        }
        if hasattr(np, "astype")
        else {}
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    function = FUNCTIONS[name]
    for host in (HOST, HOST.T.copy().T, HOST[:, ::-1]):
        assert_array(function(on_gpu(host)), function(host))


@pytest.mark.parametrize(
    "name, call",
    [
        ("sum.*initial", lambda x: np.sum(x, initial=0)),
        ("min.*where", lambda x: np.min(x, where=x > 0)),
        ("ravel.*order", lambda x: np.ravel(x, "F")),
        ("trace.*axis1, axis2", lambda x: np.trace(x, 0, 1, 0)),
        ("clip.*dtype", lambda x: np.clip(x, 0, 1, dtype="f4")),
        ("copyto.*where", lambda x: np.copyto(x, 1, "same_kind", x > 0)),
        ("concatenate.*out", lambda x: np.concatenate((x, x), 0, x)),
    ],
)
def test_refusals_name_numpys_function_and_the_argument(name: str, call: Any) -> None:
    with pytest.raises(TypeError, match=rf"numpy\.{name} must have its default"):
        call(on_gpu(HOST))


@pytest.mark.parametrize("name", ["concatenate", "dot", "where", "can_cast", "empty_like"])
def test_numpys_functions_without_a_signature(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions written in C have no signature before NumPy 2.4."""
    function, found = getattr(np, name), inspect.signature

    def signature(one: Any) -> inspect.Signature:
        if one is function:
            raise ValueError("no signature found")
        return found(one)

    monkeypatch.setattr(inspect, "signature", signature)
    pcd._numpy._bind.cache_clear()
    try:
        x = on_gpu(HOST)
        assert_array(np.concatenate((x, x), 1, None), np.concatenate((HOST, HOST), 1))
        assert_array(np.dot(x[0], b=x[1], out=None), np.dot(HOST[0], HOST[1]))
        assert_array(np.where(x > 0, x, 0), np.where(HOST > 0, HOST, 0))
        assert np.can_cast(x, "f4", casting="same_kind") and not np.can_cast(x, "f4")
        assert np.empty_like(x, None, "F").flags["F_CONTIGUOUS"]
    finally:
        pcd._numpy._bind.cache_clear()


def test_orders() -> None:
    for host in (HOST, HOST.T):
        x = on_gpu(HOST) if host is HOST else on_gpu(HOST).T
        for order in "CFAK":
            for function in (np.copy, np.zeros_like, np.empty_like):
                assert function(x, order=order).strides == function(host, order=order).strides
    for order in "FAK":
        with pytest.raises(TypeError):
            np.ravel(x, order=order)


def test_functions_that_give_no_array() -> None:
    x = on_gpu(HOST)
    assert np.shape(x) == (2, 3) and np.ndim(x) == 2 and np.size(x) == 6 and np.size(x, 1) == 3
    assert np.size(x, axis=-1) == 3 and np.size(a=x, axis=(0, 1)) == 6
    with pytest.raises(np.exceptions.AxisError):
        np.size(x, axis=5)
    assert np.may_share_memory(x, x[0]) and not np.may_share_memory(x, x + 1)
    assert not np.may_share_memory(x, HOST)
    assert np.array_repr(x) == repr(x) and np.array_str(x) == str(x)
    assert np.result_type(x, np.float32) == np.float64
    assert np.can_cast(x, "c16") and not np.can_cast(x, "f4") and np.can_cast(x, "f4", "same_kind")
    assert np.can_cast(x, "f4", casting="same_kind") and not np.can_cast(x, "i4", "same_kind")
    third = np.array(1 / 3)
    assert np.array_str(x * third, precision=2) == np.array_str(HOST * third, precision=2)
    assert np.array_repr(x * third, 20, 2)[:20] == np.array_repr(HOST * third, 20, 2)[:20]
    assert np.empty_like(x).shape == (2, 3)


def test_copyto() -> None:
    x = on_gpu(np.zeros((2, 3)))
    np.copyto(x, on_gpu(HOST))
    assert_array(x, HOST)
    np.copyto(x, 5)
    assert_array(x, np.full((2, 3), 5.0))
    with pytest.raises(TypeError, match="cannot cast"):
        np.copyto(pcd.zeros(3, "i4", "cuda"), x)
    np.copyto(pcd.zeros((2, 3), "i4", "cuda"), x, casting="unsafe")
    np.copyto(dst=x, src=1, casting="same_kind", where=True)
    with pytest.raises(OverflowError):
        np.copyto(pcd.zeros(2, "u1", "cuda"), 300, casting="unsafe")
    assert_array(x, np.ones((2, 3)))
    for call in (lambda: np.copyto(HOST.copy(), x), lambda: np.copyto(x, HOST),
                 lambda: np.copyto(x, 1, where=HOST > 0)):  # fmt: skip
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("dtype", ["?", "u1", "i4", "f4", "c8"])
@pytest.mark.parametrize(
    "number", [True, 3, 2.5, 2j, np.float32(2), np.int8(3), np.array(2.5, ">f8")], ids=repr
)
@pytest.mark.parametrize("casting", ["same_kind", "safe", "unsafe", "no"])
def test_copyto_casts_numbers_by_the_rule(dtype: str, number: Any, casting: Any) -> None:
    """Python numbers too; what NumPy refuses is refused with the same type of error."""
    host = np.zeros(2, dtype)
    x = on_gpu(host)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        try:
            np.copyto(host, number, casting=casting)
        except (TypeError, OverflowError) as error:
            with pytest.raises(type(error)):
                np.copyto(x, number, casting=casting)
        else:
            np.copyto(x, number, casting=casting)
        assert_array(x, host)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.sort(x), lambda x: np.linalg.norm(x), lambda x: np.unique(x),
        lambda x: np.cumsum(x), lambda x: np.std(x), lambda x: np.argmax(x), lambda x: np.dot(x, x),
        lambda x: np.einsum("ij->i", x), lambda x: np.fft.fft(x), lambda x: np.histogram(x),
        lambda x: np.concatenate([x, HOST]), lambda x: np.where(x > 0, x, HOST),
        lambda x: np.sum(HOST, axis=0, out=x[0]), lambda x: np.sum(x, where=x > 0),
        lambda x: np.sum(x, initial=5), lambda x: np.reshape(x, -1, order="F"),
        lambda x: np.trace(x, axis1=1, axis2=0), lambda x: np.where(x),
        lambda x: np.concatenate([x, x], 0, x), lambda x: np.clip(x, 0, 1, dtype="f4"),
        lambda x: np.any(x, where=x > 0), lambda x: np.nonzero(x),
        lambda x: np.save("/dev/null", x),
    ],
)  # fmt: skip
def test_functions_that_are_refused(call: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        call(on_gpu(HOST))


@pytest.mark.parametrize(
    "convert",
    [np.asarray, np.array, np.ascontiguousarray, np.float64, lambda x: np.asarray([x, x]),
     lambda x: np.array(x, "f4", copy=False),
     lambda x: HOST.copy().__setitem__(0, x[0])],
)  # fmt: skip
def test_conversion_to_numpy_is_refused(convert: Any) -> None:
    """The error says what to do instead."""
    with pytest.raises(TypeError, match="pkg.asnumpy|Array|array"):
        convert(on_gpu(HOST))
    with pytest.raises(TypeError, match=r"on cuda:0 .*pkg\.asnumpy\(x\)"):
        np.asarray(on_gpu(HOST))


# ---- Dask ----


def test_dask() -> None:
    """Chunks stay on the GPU, whatever Dask does with them."""
    da = pytest.importorskip("dask.array")
    host = generators.moderate(np.dtype("f8"), 600).reshape(20, 30)
    x = da.from_array(on_gpu(host), chunks=(7, 11), asarray=False)
    y = da.from_array(on_gpu(host[::-1].copy()), chunks=(20, 10), asarray=False)

    def compute(lazy: Any) -> Any:
        return lazy.compute(scheduler="synchronous")

    assert_array(compute(x), host)
    assert_array(compute(x + y), host + host[::-1])
    assert_array(compute((x * 2 - y).T), (host * 2 - host[::-1]).T)
    assert_array(compute(da.sqrt(abs(x))), np.sqrt(abs(host)))
    assert_array(compute(pcd.add(x, 1)), host + 1)
    assert_array(compute(pcd.multiply(x, y)), host * host[::-1])
    assert_array(compute(da.concatenate([x, y], axis=1)), np.concatenate([host, host[::-1]], 1))
    assert_array(compute(da.stack([x, y])), np.stack([host, host[::-1]]))
    assert_array(compute(x[3:9, ::2]), host[3:9, ::2])
    assert_array(compute(da.where(x > 0, x, 0)), np.where(host > 0, host, 0))
    assert_array(compute(x.max(axis=0)), host.max(axis=0))
    assert_array(compute(x.min()), host.min())
    for lazy, wanted in (
        (x.sum(), host.sum()), (x.sum(axis=0), host.sum(0)), (x.prod(axis=1), host.prod(1)),
        (x.sum(axis=1, keepdims=True) / 30, host.mean(1, keepdims=True)),
    ):  # fmt: skip
        result = compute(lazy)
        assert isinstance(result, pcd.Array)
        np.testing.assert_allclose(pcd.asnumpy(result), wanted, rtol=1e-12)
    assert_array(compute(x.rechunk((10, 10)) + 1), host + 1)
    assert_array(compute(x.reshape(600)), host.reshape(600))
    assert_array(compute(x.astype("f4")), host.astype("f4"))


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("kind", ["f4", "f8", "i4", "c16"])
def test_dask_reductions(kind: str, axis: Any) -> None:
    """Along axes, with chunks of unequal sizes, made in both ways; counts stay on the GPU too."""
    da = pytest.importorskip("dask.array")
    host = np.random.default_rng(7).uniform(1, 3, (7, 9, 5)).astype(kind)
    host[0, :, 1] = 0
    chunks = (3, 4, 2)
    given = da.from_array(on_gpu(host), chunks=chunks, asarray=False)
    moved = da.from_array(host, chunks=chunks).map_blocks(pcd.asarray, device="cuda")
    names = ["sum", "mean", "std", "var", "any", "all"]
    for x in (given, moved):
        for name in names + (["min", "max", "prod"] if kind != "c16" else []):
            result = getattr(x, name)(axis=axis).compute(scheduler="synchronous")
            wanted = getattr(host, name)(axis=axis)
            assert isinstance(result, pcd.Array) and result.shape == np.shape(wanted), name
            np.testing.assert_allclose(pcd.asnumpy(result), wanted, 1e-4 if kind == "f4" else 1e-9)
    spread = da.std(given, axis=axis, ddof=1, keepdims=True).compute(scheduler="synchronous")
    np.testing.assert_allclose(
        pcd.asnumpy(spread), np.std(host, axis=axis, ddof=1, keepdims=True), 1e-3
    )


_DASK_LATER = """
import numpy as np, pkg as pcd
x = pcd.ones((6, 4), device="cuda") * 3
import dask.array as da
lazy = da.from_array(x, chunks=(4, 3), asarray=False)
print(lazy.mean(axis=0).compute(scheduler="synchronous"))
"""


def test_dask_may_be_imported_later(python: Callable[..., str]) -> None:
    pytest.importorskip("dask.array")
    assert python(_DASK_LATER).strip() == "[3. 3. 3. 3.]"


def test_dask_moves_chunks() -> None:
    da = pytest.importorskip("dask.array")
    host = generators.moderate(np.dtype("f4"), 100)
    x = da.from_array(host, chunks=30).map_blocks(pcd.asarray, device="cuda", meta=host[:0])
    result = (x + x).map_blocks(pcd.asnumpy, meta=host[:0]).compute(scheduler="synchronous")
    oracle.assert_same(result, host + host)


# ---- The array API ----


def test_missing_names_are_listed() -> None:
    """docs/array_api.md lists exactly the missing names."""
    strict = pytest.importorskip("array_api_strict")
    assert strict.__array_api_version__ >= "2024.12"
    page = (Path(__file__).resolve().parents[1] / "docs" / "array_api.md").read_text()
    listed = set(page.split("```text\n")[1].split("```")[0].split())
    own = re.compile(
        "ArrayAPIStrictFlags|Device|ModuleType|.*_array_api_strict_flags|_.*|fft|linalg"
    )
    standard = {name for name in dir(strict) if not own.fullmatch(name)}
    missing = {name for name in standard if not hasattr(pcd, name)}
    assert missing <= listed and not any(hasattr(pcd, name) for name in listed)
    if strict.__array_api_version__ >= "2025.12":
        assert missing == listed


def test_namespace() -> None:
    x = on_gpu(HOST)
    xp = x.__array_namespace__()
    assert xp is pcd and x.__array_namespace__(api_version="2023.12") is pcd
    with pytest.raises(ValueError, match="1999"):
        x.__array_namespace__(api_version="1999.12")
    assert x.__array_namespace__(api_version=xp.__array_api_version__) is pcd
    assert xp.__array_api_version__ >= getattr(np, "__array_api_version__", "2022.12") and hasattr(
        xp, "__version__"
    )
    assert_array(xp.sum(xp.concat([x, xp.ones_like(x)]), axis=0), HOST.sum(0) + 2)
    assert_array(xp.abs(x), abs(HOST))
    assert_array(xp.permute_dims(x, (1, 0)), HOST.T)
    assert xp.isdtype(x.dtype, "real floating") and not xp.isdtype(x.dtype, ("integral", "bool"))
    assert xp.isdtype(xp.int8, (xp.int8, "bool")) and xp.isdtype(xp.uint8, "unsigned integer")
    assert xp.result_type(x, xp.float32) == xp.float64
    assert xp.result_type(xp.int32, pcd.asarray(1, "i8", "cuda")) == xp.int64
    assert xp.can_cast(x, xp.float64) and not xp.can_cast(x, xp.float32)
    assert xp.finfo(xp.float32).bits == 32 and xp.iinfo(xp.int8).max == 127
    assert (xp.pi, xp.newaxis, xp.inf) == (np.pi, None, np.inf) and np.isnan(xp.nan)
    for name, dtype in pcd._namespace.DTYPES.items():
        assert getattr(xp, name) == dtype == xp.empty(1, name, "cuda").dtype


def test_namespace_info() -> None:
    info = pcd.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64,
    }  # fmt: skip
    assert info.devices() == ["cpu", *(f"cuda:{n}" for n in range(pcd.device_count()))]
    assert info.default_device() == "cpu"
    with pcd.default_device("cuda"):
        assert info.default_device() == "cuda:0"
        assert pcd.empty(3).device == "cuda:0"
    types = info.default_dtypes(device="cuda")
    assert pcd.asarray(1.5, device="cuda").dtype == types["real floating"]
    assert pcd.asarray(1, device="cuda").dtype == types["integral"]
    assert pcd.asarray(1j, device="cuda").dtype == types["complex floating"]
    # The standard wants none that it lacks: float16.
    wanted = {dtype.name for dtype in cases.DTYPES} | {"bool"}
    assert set(info.dtypes()) == set(np.__array_namespace_info__().dtypes()) == wanted - {"float16"}
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert info.dtypes(kind=()) == {}
    assert set(info.dtypes(kind="bool")) == {"bool"}
    assert set(info.dtypes(kind=("bool", "complex floating"))) == {
        "bool", "complex64", "complex128",
    }  # fmt: skip
    for device in ("cpu", "cuda", "cuda:0"):
        assert info.dtypes(device=device) == info.dtypes()
    with pytest.raises(ValueError):
        info.dtypes(device="gpu")
    with pytest.raises(ValueError, match="unknown kind 'float' of types; known are 'bool', "):
        pcd.isdtype("f8", "float")
    for kind in ("float", ("bool", "x"), ["bool"], 5):
        with pytest.raises(ValueError, match="unknown kind .* of types; known are 'bool', "):
            info.dtypes(kind=kind)


def test_generic_code() -> None:
    """A function that uses only the standard's names works on each device."""

    def normalized(x: Any) -> Any:
        xp = x.__array_namespace__()
        centred = x - xp.mean(x, axis=0, keepdims=True)
        scale = xp.sqrt(xp.mean(xp.square(centred), axis=0, keepdims=True))
        return xp.where(scale > 0, centred / scale, xp.zeros_like(x))

    result = pcd.asnumpy(normalized(on_gpu(HOST)))
    np.testing.assert_allclose(result, normalized(HOST), rtol=1e-12)


def test_operands_without_axes_in_the_other_byte_order() -> None:
    x = pcd.asarray(np.arange(4, dtype="i4"), device="cuda")
    for y in (np.array(3, ">i2"), np.array(2.5, ">f8"), np.array(3).view(np.memmap)):
        for ours, wanted in (
            (x + y, np.arange(4, dtype="i4") + y),
            (y / x, y / np.arange(4, dtype="i4")),
            (np.maximum(x, y), np.maximum(np.arange(4, dtype="i4"), y)),
            (pcd.power(x, y), np.power(np.arange(4, dtype="i4"), y)),
        ):
            oracle.assert_same(pcd.asnumpy(ours), wanted)


def test_the_error_for_what_is_no_number() -> None:
    x = pcd.ones((3,), device="cuda")
    for value in ("a", {}, None):
        with pytest.raises(TypeError, match="is neither an array of numbers nor a number"):
            x[...] = value
