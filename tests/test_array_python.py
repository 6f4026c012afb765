"""Python's protocols of an array on a GPU: numbers, iteration, text, pickles, copies."""

from __future__ import annotations

import copy
import gc
import operator
import pickle
import sys
import weakref

import cases
import generators
import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared import on_gpu

import pkg as pcd

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("quiet")]


# ---- Attributes ----


@cases.each_dtype(cases.WITH_BOOL)
def test_attributes(dtype: np.dtype) -> None:
    host = generators.moderate(dtype).reshape(3, 4)
    x = on_gpu(host)
    for a, b in ((x, host), (x.T, host.T), (x[::-1, ::2], host[::-1, ::2]), (x[1, 1], host[1, 1])):
        for name in ("shape", "strides", "dtype", "ndim", "size", "itemsize", "nbytes"):
            assert getattr(a, name) == getattr(b, name), name
        assert a.device == "cuda:0"
        if b.ndim:
            assert len(a) == len(b)
    with pytest.raises(TypeError, match="len"):
        len(x[0, 0])
    for name in ("shape", "dtype", "device", "T", "flags", "something"):
        with pytest.raises(AttributeError):
            setattr(x, name, None)


def test_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(pcd.ones(3, device="cuda"))


def test_size_in_memory() -> None:
    assert sys.getsizeof(pcd.ones(10_000, device="cuda")) > 80_000
    assert sys.getsizeof(pcd.ones(1, device="cuda")) < 1000


# ---- One number ----


@cases.each_dtype(cases.WITH_BOOL)
def test_numbers(dtype: np.dtype) -> None:
    for shape in ((), (1,), (1, 1)):
        for value in (0, 1, 3):
            host = np.full(shape, value, dtype)
            x = on_gpu(host)
            assert bool(x) is bool(host)
            if shape != ():
                for kind in (int, float, complex):
                    with pytest.raises(TypeError, match="without dimensions.*item()"):
                        kind(x)
                assert x.item() == host.item()
            elif dtype.kind != "c":
                assert int(x) == int(host.item()) and type(int(x)) is int
                assert float(x) == float(host.item()) and type(float(x)) is float
            else:
                with pytest.raises(TypeError):
                    float(x)
            if shape == ():
                assert complex(x) == complex(host.item())
            if dtype.kind in "iu" and shape == ():
                assert operator.index(x) == value and [10, 11, 12, 13][x] == 10 + value
                assert list(range(x)) == list(range(value))
            else:
                with pytest.raises(TypeError, match="index"):
                    operator.index(x)


@pytest.mark.parametrize("shape", [(2,), (0,), (2, 2)])
def test_several_numbers_are_not_one(shape: tuple[int, ...]) -> None:
    x = pcd.ones(shape, device="cuda")
    with pytest.raises(ValueError, match="ambiguous"):
        bool(x)
    for kind in (int, float, complex):
        with pytest.raises(TypeError, match=kind.__name__):
            kind(x)


def test_iteration() -> None:
    host = np.arange(6).reshape(3, 2)
    x = on_gpu(host)
    rows = list(x)
    assert all(isinstance(row, pcd.Array) for row in rows)
    assert [row.tolist() for row in rows] == host.tolist()
    rows[1][0] = 9  # they are views
    assert x.tolist() == [[0, 1], [9, 3], [4, 5]]
    a, b, c = x
    assert b.tolist() == [9, 3]
    assert list(pcd.ones((0, 3), device="cuda")) == []
    with pytest.raises(TypeError):
        iter(pcd.asarray(1, device="cuda"))
    assert [row.tolist() for row in reversed(x)] == [[4, 5], [9, 3], [0, 1]]


def test_contains() -> None:
    x = on_gpu(np.array([[1.5, 2], [np.nan, 4]]))
    assert 2 in x and 1.5 in x and 3 not in x and float("nan") not in x
    assert 2 not in pcd.ones(0, device="cuda")
    assert 1000 not in pcd.ones(3, "i1", "cuda") and 1 in pcd.ones(3, "i1", "cuda")
    assert x[1, 1] in x
    for other in (None, "a", object(), np.str_("a"), np.datetime64("2020"), {}):
        assert other not in x and other not in pcd.ones(0, device="cuda")
    with pytest.raises(TypeError):
        np.ones(2) in x  # noqa: B015


# ---- Text ----


def _numpys(host: np.ndarray, device: str = "cuda:0") -> str:
    """Returns NumPy's text with the device among the extras."""
    text = np.array_repr(host)
    return f"{text[:-1]}, device={device!r})"


@pytest.mark.parametrize(
    "host",
    [np.array([1, 2, 3]), np.array([1.5, -2.25]), np.array([1 + 2j]), np.array([True, False]),
     np.array([1, 2], "i2"), np.array([[1.5, 2], [3, 4]], "f4"), np.array(7), np.array(2.5, "f2"),
     np.array([]), np.array([], "i4"), np.array([np.nan, np.inf, -0.0]), np.array([1e-30, 1e30]),
     np.arange(24).reshape(2, 3, 4), np.array([[[]]]), np.array([[1e300]])],
    ids=lambda host: f"{host.dtype}{host.shape}",
)  # fmt: skip
def test_repr(host: np.ndarray) -> None:
    x = on_gpu(host)
    assert str(x) == str(host)
    assert " ".join(repr(x).split()) == " ".join(_numpys(host).split())
    assert f"{x}" == str(host)


def test_repr_of_many() -> None:
    """Only the edges are copied to the host; the text is NumPy's."""
    for host in (
        np.arange(5000), np.arange(5000.0).reshape(50, 100), np.arange(2000).reshape(2, -1),
        np.arange(8000, dtype="i2").reshape(20, 20, 20), np.ones((1001, 1)) / 3,
        np.arange(7**4).reshape(7, 7, 7, 7), np.zeros((2,) * 10), np.zeros((2,) * 11),
    ):  # fmt: skip
        x = on_gpu(host)
        assert str(x) == str(host)
        ours, numpys = " ".join(repr(x).split()), " ".join(_numpys(host).split())
        # NumPy from 2.2 on adds the shape of what it shortens
        numpys = numpys.replace(f", shape={host.shape}", "")
        assert ours.replace(f", shape={host.shape}", "") == numpys
    used = pcd.memory_info().used
    large = pcd.zeros((3000, 3000), "i1", "cuda")
    assert "..." in repr(large)
    assert pcd.memory_info().used <= used + large.nbytes + 100_000
    wide = pcd.broadcast_to(large[:1], (5000, 3000))  # read-only
    assert str(wide) == str(np.zeros((5000, 3000), "i1"))


def test_print_options() -> None:
    host = np.linspace(0, 1, 30)
    x = on_gpu(host)
    for options in ({"precision": 2}, {"threshold": 5, "edgeitems": 2}, {"linewidth": 30},
                    {"suppress": True}, {"sign": "+"}, {"threshold": 5, "edgeitems": 1},
                    {"floatmode": "fixed"}, {"formatter": {"float": "{:.1f}".format}}):  # fmt: skip
        with np.printoptions(**options):
            assert str(x) == str(host), options
            assert str(x.reshape(5, 6)) == str(host.reshape(5, 6)), options


@given(data=st.data())
def test_str_of_anything(data: st.DataObject) -> None:
    arrays, _ = data.draw(generators.operands(data.draw(st.sampled_from(cases.DTYPES)), 1))
    host = np.array(arrays[0])
    host = host.astype(host.dtype.newbyteorder("="))
    assert str(on_gpu(host)) == str(host)


def test_format() -> None:
    x = on_gpu(np.array(2.5))
    assert f"{x:.3f}" == "2.500" and f"{x}" == "2.5"
    for spec in (".3f", ".3", "20", "s"):  # which would cut or pad the text
        with pytest.raises(TypeError, match="unsupported format string"):
            format(pcd.ones(3, device="cuda"), spec)


# ---- Copies and pickles ----


@cases.each_dtype(cases.WITH_BOOL)
def test_pickle_and_copy(dtype: np.dtype) -> None:
    host = generators.moderate(dtype).reshape(3, 4)
    for x, wanted in (
        (on_gpu(host), host), (on_gpu(host).T, host.T), (on_gpu(host)[::2, 1], host[::2, 1]),
        (on_gpu(host)[:0], host[:0]), (on_gpu(host)[0, 0], host[0, 0, ...]),
    ):  # fmt: skip
        made = [pickle.loads(pickle.dumps(x, protocol)) for protocol in range(2, 6)]
        made += [copy.copy(x), copy.deepcopy(x), x.copy()]
        for other in made:
            assert type(other) is pcd.Array and other.device == x.device
            assert other._memory is not x._memory
            oracle.assert_same(pcd.asnumpy(other), np.asarray(wanted))


def test_deepcopy_keeps_identities() -> None:
    x = pcd.ones(3, device="cuda")
    a, b = copy.deepcopy([x, x])
    assert a is b and a is not x
    with pytest.raises(AttributeError, match="flag"):
        copy.copy(x.flags)


def test_weak_references() -> None:
    x = pcd.ones(3, device="cuda")
    reference = weakref.ref(x)
    assert reference() is x
    del x
    gc.collect()
    assert reference() is None


def test_subclasses() -> None:
    """A subclass cannot be made without memory."""

    class Own(pcd.Array):
        pass

    for call in (
        Own, pcd.Array, pcd.core.ArrayBase, lambda: pcd.core.ArrayBase.__new__(pcd.Array),
        lambda: object.__new__(pcd.Array),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            call()


def test_the_table_of_operators_is_left_to_the_type() -> None:
    x = pcd.ones(3, device="cuda")
    for name in ("__add__", "__radd__", "__iadd__", "__eq__", "__neg__", "__abs__", "__mod__"):
        assert hasattr(x, name)
    assert not hasattr(x, "__dict__") and not hasattr(x, "__matmul__")
