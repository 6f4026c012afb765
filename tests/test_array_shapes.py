"""Shapes: what is a view and what a copy, as NumPy's; joining, choosing, repeating."""

from __future__ import annotations

import copy
import enum
import itertools
from collections.abc import Callable
from typing import Any

import cases
import generators
import hypothesis.extra.numpy as hnp
import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared import assert_array, pair

import pkg as pcd

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("quiet")]


def _same(array: Any, wanted: Any, source: Any = None, host: Any = None) -> None:
    """Asserts equality and, given the sources, a view of one exactly if NumPy gives a view."""
    assert_array(array, wanted)
    if source is not None and wanted.size:
        is_view = np.may_share_memory(wanted, host)
        assert (array._memory is source._memory) == is_view, f"NumPy makes a view: {is_view}"
        if is_view:
            assert cases.steps(array) == cases.steps(wanted)


#: Views of various layouts of an array of shape (4, 5, 6).
VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x,
    "transposed": lambda x: x.T,
    "permuted": lambda x: x.transpose(1, 0, 2),
    "reversed": lambda x: x[::-1],
    "strided": lambda x: x[..., ::2],
    "window": lambda x: x[1:3, 1:],
    "column": lambda x: x[:, :, 2],
    "row": lambda x: x[1, 2],
    "one": lambda x: x[1:2, :, 3:4],
    "number": lambda x: x[1, 2, 3, ...],
    "empty": lambda x: x[:, :0],
    "new axes": lambda x: x[None, :, None, 2],
}


def _shapes(size: int) -> list[tuple[int, ...]]:
    """All shapes of up to three dimensions with so many elements, and some with sizes of 1."""
    if size == 0:
        return [(0,), (0, 3), (3, 0), (2, 0, 5)]
    found: list[tuple[int, ...]] = [(size,)]
    divisors = [n for n in range(1, size + 1) if size % n == 0]
    for a in divisors:
        found.append((a, size // a))
        found += [(a, b, size // a // b) for b in divisors if size // a % b == 0]
    return [*found, (1, size, 1), *([()] if size == 1 else [])]


@pytest.mark.parametrize("view", VIEWS)
def test_reshape(view: str) -> None:
    host, x = pair()
    a, b = VIEWS[view](x), np.asarray(VIEWS[view](host))
    for shape in _shapes(b.size):
        wanted = b.reshape(shape)
        _same(a.reshape(shape), wanted, x, host)
        _same(a.reshape(*shape) if shape else a.reshape(()), wanted, x, host)
        _same(pcd.reshape(a, shape), wanted, x, host)
        copied = a.reshape(shape, copy=True)
        _same(copied, wanted)
        assert copied._memory is not x._memory and copied.flags["C_CONTIGUOUS"]
        if np.may_share_memory(wanted, host) or not b.size:
            _same(a.reshape(shape, copy=False), wanted)
        else:
            with pytest.raises(ValueError, match="copy"):
                a.reshape(shape, copy=False)
    _same(a.ravel(), b.ravel())
    _same(a.flatten(), b.flatten())
    assert a.flatten()._memory is not x._memory


def test_reshape_to_an_unknown_size() -> None:
    host, x = pair()
    for shape in (-1, (-1,), (4, -1), (-1, 6), (2, -1, 3), (120, -1), (1, -1, 1)):
        _same(x.reshape(shape), host.reshape(shape), x, host)
    _same(x[:0].reshape(-1), host[:0].reshape(-1))
    _same(x.reshape(np.int64(120)), host.reshape(120))
    for shape in ((7, -1), (-1, -1), (3, 5), (-2, 60), (0, -1), 119, (2.5, 48), "a"):
        with pytest.raises((ValueError, TypeError)):
            x.reshape(shape)
    with pytest.raises(ValueError):
        x[:0].reshape(0, -1)


@given(data=st.data())
def test_any_reshape(data: st.DataObject) -> None:
    """Reshapes any view to any shape with as many elements."""
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=6))
    host, x = pair(shape)
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=True))
    if isinstance(host[index], np.generic):  # not a view
        index = (*index, ...) if isinstance(index, tuple) else (index, ...)
    axes = data.draw(st.permutations(range(host[index].ndim)))
    a, b = x[index].transpose(axes), np.transpose(host[index], axes)
    new = data.draw(st.sampled_from(_shapes(b.size)))
    _same(a.reshape(new), b.reshape(new), x, host)


@pytest.mark.parametrize("view", VIEWS)
def test_axes(view: str) -> None:
    host, x = pair()
    a, b = VIEWS[view](x), np.asarray(VIEWS[view](host))
    _same(a.T, b.T, x, host)
    _same(pcd.transpose(a), np.transpose(b), x, host)
    _same(pcd.permute_dims(a, None), np.transpose(b), x, host)
    assert a.real is a  # as in NumPy
    for axes in itertools.permutations(range(b.ndim)):
        negative = tuple(d - b.ndim for d in axes)
        for given_axes in (axes, negative, list(axes)):
            _same(a.transpose(given_axes), b.transpose(axes), x, host)
        if axes:
            _same(a.transpose(*axes), b.transpose(*axes), x, host)
            _same(pcd.permute_dims(a, axes), b.transpose(axes), x, host)
    for source, target in itertools.product(range(-b.ndim, b.ndim), repeat=2):
        _same(pcd.moveaxis(a, source, target), np.moveaxis(b, source, target), x, host)
    if b.ndim >= 2:
        _same(a.mT, b.mT, x, host)
        _same(pcd.matrix_transpose(a), b.mT, x, host)
        _same(pcd.moveaxis(a, (0, 1), (-1, 0)), np.moveaxis(b, (0, 1), (-1, 0)), x, host)
    else:
        with pytest.raises(ValueError):
            _ = a.mT
    for axis in range(-b.ndim - 1, b.ndim + 1):
        _same(pcd.expand_dims(a, axis), np.expand_dims(b, axis), x, host)
    _same(pcd.expand_dims(a, (0, -1)), np.expand_dims(b, (0, -1)), x, host)
    _same(pcd.flip(a), np.flip(b))
    for axis in (*range(-b.ndim, b.ndim), *([tuple(range(b.ndim))] if b.ndim else [])):
        _same(pcd.flip(a, axis), np.flip(b, axis), x, host)
    _same(a.squeeze(), b.squeeze(), x, host)
    for axis in range(-b.ndim, b.ndim):
        if b.shape[axis] == 1:
            _same(pcd.squeeze(a, axis), np.squeeze(b, axis), x, host)
            _same(a.squeeze((axis,)), np.squeeze(b, axis), x, host)
        else:
            with pytest.raises(ValueError, match="squeeze"):
                a.squeeze(axis)


def test_axes_that_are_not_there() -> None:
    _, x = pair()
    for call in (
        lambda: x.transpose(0, 1), lambda: x.transpose(0, 1, 1), lambda: x.transpose(0, 1, 3),
        lambda: pcd.moveaxis(x, 3, 0), lambda: pcd.moveaxis(x, (0, 1), 0), lambda: pcd.flip(x, 3),
        lambda: pcd.expand_dims(x, 5), lambda: x.squeeze(3), lambda: pcd.expand_dims(x, (0, 0)),
    ):  # fmt: skip
        with pytest.raises((ValueError, np.exceptions.AxisError)):
            call()


def test_broadcast_to() -> None:
    host, x = pair((3, 1))
    for shape in ((3, 1), (3, 4), (2, 3, 4), (1, 3, 1), (0, 3, 4)):
        wide = pcd.broadcast_to(x, shape)
        _same(wide, np.broadcast_to(host, shape), x, host)
        assert not wide.flags["WRITEABLE"]
        _same(wide + 1, np.broadcast_to(host, shape) + np.float32(1))
    _same(pcd.broadcast_to(x[0], 5), np.broadcast_to(host[0], 5))
    for shape in ((4, 4), (3,), (), (3, 0, 2)):
        with pytest.raises(ValueError, match="broadcast"):
            pcd.broadcast_to(x, shape)
    for shape in ((2**32, 2**32), (2**31, 2**31), (2**62, 0, 2**62)):  # the size would wrap
        with pytest.raises(ValueError, match=r"2\^63 bytes"):
            pcd.broadcast_to(pcd.ones((), device="cuda"), shape)


def test_a_view_that_is_none() -> None:
    """A function that copies NumPy's array copies ours."""
    _, x = pair()
    for function in (lambda host: np.ones(3), lambda host: 1):
        with pytest.raises(TypeError, match="no view"):
            pcd.core.view(x, function)


# ---- Copies ----


@pytest.mark.parametrize("view", VIEWS)
def test_ravel(view: str) -> None:
    """Writing to a copy must not change what NumPy's copy leaves alone."""
    host, x = pair()
    _same(VIEWS[view](x).ravel(), np.ravel(VIEWS[view](host)), x, host)
    _same(np.ravel(VIEWS[view](x)), np.ravel(VIEWS[view](host)), x, host)
    _same(x[1, 2, ::-1].ravel(), host[1, 2, ::-1].ravel(), x, host)


@pytest.mark.parametrize("view", VIEWS)
def test_copy(view: str) -> None:
    host, x = pair()
    a, b = VIEWS[view](x), np.asarray(VIEWS[view](host))
    for order in "CFAK":
        copied, wanted = a.copy(order), b.copy(order)
        _same(copied, wanted)
        assert copied._memory is not x._memory
        if b.size:
            assert cases.steps(copied) == cases.steps(wanted), order
    for copied, wanted in (
        (copy.copy(a), copy.copy(b)), (copy.deepcopy(a), copy.deepcopy(b)),
        (a.astype("i8"), b.astype("i8")), (pcd.asarray(b, device="cuda"), b.copy("K")),
        (pcd.asarray(pcd.asnumpy(a), device="cuda"), b.copy("K")),
    ):  # fmt: skip
        _same(copied, wanted)
        if b.size:
            assert cases.steps(copied) == cases.steps(wanted)
    with pytest.raises(ValueError, match="order"):
        a.copy("Z")


def test_flags() -> None:
    host, x = pair()
    for view in VIEWS.values():
        a, b = view(x), np.asarray(view(host))
        if b.size:
            for name in ("c_contiguous", "f_contiguous", "fnc", "forc", "carray", "farray"):
                assert getattr(a.flags, name) is getattr(b.flags, name), name
                assert a.flags[name.upper()] is b.flags[name.upper()], name
            for key in ("C", "F", "W", "A", "B", "X", "CA", "CONTIGUOUS", "FORTRAN"):
                assert a.flags[key] is b.flags[key], key
            assert np.isfortran(a) is np.isfortran(b)
        assert a.flags.writeable and a.flags.behaved and not a.flags.owndata
    for name in ("w", "something"):
        with pytest.raises(AttributeError, match=f"'{name}'; it has .*c_contiguous"):
            getattr(x.flags, name)
    for key in ("c_contiguous", "something"):
        with pytest.raises(KeyError):
            x.flags[key]
    assert "  WRITEABLE : True" in repr(x.flags).splitlines()


def test_setting_flags() -> None:
    """An assignment to a flag did nothing, and the array could still be written."""
    _, x = pair()
    before, x.flags.writeable = x.T, True
    for name, error in (("c_contiguous", AttributeError), ("something", AttributeError)):
        with pytest.raises(error):
            setattr(x.flags, name, False)
    for key, flag_error in (("C", ValueError), ("ALIGNED", ValueError), ("something", KeyError)):
        with pytest.raises(flag_error):
            x.flags[key] = False
    for name in ("WRITEABLE", "W"):
        view = x[:]
        view.flags[name] = False
        assert not view.flags.writeable and not view.T.flags.writeable and x.flags.writeable
    x.flags.writeable = False
    assert before.flags.writeable and not x.T.flags.writeable
    for write in (lambda: x.fill(0), lambda: pcd.add(x, 1, out=x), lambda: x.__iadd__(1)):
        with pytest.raises(ValueError, match="read-only"):
            write()
    with pytest.raises(ValueError, match="cannot set"):
        x.flags.writeable = True


def test_round_and_clip_as_methods() -> None:
    host, x = pair()
    for view in VIEWS.values():
        assert_array(view(x).round(1), view(host).round(1))
        assert_array(view(x).clip(2, 5), view(host).clip(2, 5))
        assert_array(view(x).clip(max=3), view(host).clip(max=3))
    out = pcd.empty(x.shape, x.dtype, device="cuda")
    assert x.clip(2, 5, out) is out
    with pytest.raises(TypeError, match="asnumpy.*tobytes"):
        bytes(x)


def test_astype_copies_or_not() -> None:
    _, x = pair()
    assert x.astype("f4", copy=False) is x and pcd.astype(x, "f4", copy=False) is x
    assert x.astype("f4")._memory is not x._memory
    assert x.T.astype("f8").strides == np.empty((4, 5, 6)).T.strides
    with pytest.raises(TypeError, match="cannot cast"):
        x.astype("i4", casting="safe")
    with pytest.raises(TypeError, match="arrays on a GPU have elements of"):
        x.astype("S3")
    moved = pcd.astype(x, "f8", device="cpu")
    assert type(moved) is np.ndarray and moved.dtype == np.float64


# ---- Joining and choosing ----


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3, None])
def test_concatenate(axis: int | None) -> None:
    pairs = []
    for n, view in enumerate((np.s_[:], np.s_[::-1], np.s_[..., ::-1])):
        shape = [4, 5, 6]
        if axis is not None:
            shape[axis] = n + 1
        host, x = pair(shape)
        pairs.append((host[view], x[view]))
    hosts, arrays = zip(*pairs, strict=True)
    for function in (pcd.concatenate, pcd.concat):
        _same(function(arrays, axis=axis), np.concatenate(hosts, axis))
    _same(pcd.concatenate(arrays[:1], axis=axis), np.concatenate(hosts[:1], axis))


@pytest.mark.parametrize("code", ["?", "i2", "f4", "f8", "c16"])
def test_joining_many(code: str) -> None:
    """More arrays than a launch joins, small and large, of all layouts."""
    views = (np.s_[:], np.s_[::-1], np.s_[1:], np.s_[::2], np.s_[..., ::-1])
    for shape in ((5,), (0,), (3, 7), (2, 3, 4), (200, 300)):
        hosts = [np.arange(np.prod(shape)).reshape(shape).astype(code) for _ in range(61)]
        for view in views[: 1 if len(shape) == 2 and shape[0] == 200 else None]:
            parts = [host[view] for host in hosts]
            arrays = [pcd.asarray(host, device="cuda")[view] for host in hosts]
            for axis in range(len(shape)):
                for name in ("concatenate", "stack"):
                    joined = getattr(pcd, name)(arrays, axis=axis)
                    _same(joined, getattr(np, name)(parts, axis))


def test_concatenate_promotes() -> None:
    for a, b in itertools.product([np.dtype(bool), *cases.DTYPES], repeat=2):
        hosts = [np.ones(3, a), np.zeros(2, b)]
        arrays = [pcd.asarray(host, device="cuda") for host in hosts]
        _same(pcd.concatenate(arrays), np.concatenate(hosts))
        _same(pcd.stack([arrays[0][:2], arrays[1]]), np.stack([hosts[0][:2], hosts[1]]))
    _same(pcd.concatenate(arrays, dtype="c16"), np.concatenate(hosts, dtype="c16"))


@pytest.mark.parametrize("name", ["concatenate", "stack"])
def test_joining_casts_only_by_the_rule(name: str) -> None:
    host, x = pair((2, 3))
    for ours, numpys in itertools.product((pcd, np), repeat=2):
        one, two = getattr(ours, name), getattr(numpys, name)
        with pytest.raises(TypeError, match=r"(?i)cannot cast.*float32.*int32.*same_kind"):
            one([x, x], dtype="i4")
        with pytest.raises(TypeError, match=r"(?i)cannot cast.*float64.*float32.*no"):
            one([x, x.astype("f8")], casting="no", dtype="f4")
        _same(
            one([x, x], dtype="i4", casting="unsafe"),
            two([host, host], dtype="i4", casting="unsafe"),
        )
        _same(one([x], casting="no"), two([host], casting="no"))


def test_concatenate_that_fails() -> None:
    _, x = pair((2, 3))
    for arrays, axis in (
        ([x, x[0]], 0), ([x, x.T], 0), ([x[0, 0]], 0), ([x], 2), ([x, x[:, :2]], 0),
    ):  # fmt: skip
        with pytest.raises((ValueError, np.exceptions.AxisError)):
            pcd.concatenate(arrays, axis=axis)
    with pytest.raises(ValueError):
        pcd.concatenate([])
    with pytest.raises(TypeError, match="host memory"):
        pcd.concatenate([x, np.ones((2, 3))])
    for number in (1.5, np.float32(1), np.array(1)):
        with pytest.raises(TypeError, match="host memory"):
            pcd.concatenate([x[0], number])
        with pytest.raises(TypeError, match="host memory"):
            pcd.stack([x[0, 0], number])
    with pytest.raises(ValueError, match="must be equal"):
        pcd.stack([x, x.T])


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
def test_results_keep_the_order_of_axes(axes: tuple[int, ...]) -> None:
    """Results have NumPy's memory order, so later calls have operands of one order."""
    host, x = pair()
    host, x = host.transpose(axes), x.transpose(axes)
    for function in (
        lambda m, x: m.where(x > 3, x, -x), lambda m, x: m.where(x > 3, x, 0),
        lambda m, x: m.concatenate([x, x]), lambda m, x: m.concatenate([x, x], axis=1),
        lambda m, x: m.concatenate([x, -x], axis=2, dtype="f8"),
        *(lambda m, x, axis=axis: m.stack([x, x], axis=axis) for axis in range(4)),
        lambda m, x: m.concatenate([m.broadcast_to(x, (2, *x.shape))] * 2, axis=-1),
        lambda m, x: m.concatenate([x, x.T.copy("C").T], axis=0),
    ):  # fmt: skip
        result, wanted = function(pcd, x), function(np, host)
        _same(result, wanted)
        assert result.strides == wanted.strides


def test_joining_arrays_that_are_read_only() -> None:
    """Only the result is written."""
    host, x = pair((2, 3))
    wide, wide_host = pcd.broadcast_to(x, (2, 2, 3)), np.broadcast_to(host, (2, 2, 3))
    for axis in (0, 1, -1):
        _same(pcd.concatenate([wide, wide], axis), np.concatenate([wide_host] * 2, axis))
        _same(pcd.stack([wide, wide], axis), np.stack([wide_host] * 2, axis))
    _same(pcd.concatenate([wide, wide], dtype="f8"), np.concatenate([wide_host] * 2, dtype="f8"))


@st.composite
def _layouts(draw: st.DrawFn) -> tuple[Any, Any]:
    """An array of few axes, permuted and broadcast, and the Array of the same layout."""
    shape = draw(st.lists(st.sampled_from([0, 1, 1, 2, 3]), max_size=3))
    host, x = pair(tuple(shape))
    axes = draw(st.permutations(range(len(shape))))
    host, x = host.transpose(axes), x.transpose(axes)
    if draw(st.booleans()):
        sizes = [draw(st.sampled_from([0, 1, 2])) if n == 1 else n for n in host.shape]
        sizes = draw(st.lists(st.sampled_from([0, 1, 2]), max_size=2)) + sizes
        host, x = np.broadcast_to(host, sizes), pcd.broadcast_to(x, sizes)
    return host, x


_AXIS = st.integers(-4, 4)
_AXES = _AXIS | st.lists(_AXIS, max_size=3).map(tuple)

#: The other arguments of the functions that change shapes, and of those that join.
_ARGUMENTS: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "reshape": st.tuples(st.lists(st.integers(-1, 4), max_size=4)),
    "transpose": st.tuples() | st.tuples(_AXES),
    "permute_dims": st.tuples(_AXES),
    "matrix_transpose": st.tuples(),
    "moveaxis": st.tuples(_AXES, _AXES),
    "expand_dims": st.tuples(_AXES),
    "squeeze": st.tuples() | st.tuples(_AXES),
    "flip": st.tuples() | st.tuples(_AXES),
    "broadcast_to": st.tuples(st.lists(st.integers(0, 3), max_size=4)),
    "concatenate": st.tuples() | st.tuples(_AXIS | st.none()),
    "stack": st.tuples() | st.tuples(_AXIS),
}


@settings(deadline=None, max_examples=400)
@given(data=st.data(), name=st.sampled_from(sorted(_ARGUMENTS)))
def test_functions_of_any_layout(data: st.DataObject, name: str) -> None:
    """Handles arrays without dimensions or elements, and repeated elements, as NumPy does."""
    host, x = data.draw(_layouts())
    more = data.draw(_ARGUMENTS[name])
    function, numpys = getattr(pcd, name), getattr(np, name)
    joins = name in ("concatenate", "stack")
    try:
        wanted = numpys([host, host] if joins else host, *more)
    except (ValueError, TypeError) as error:
        kind = TypeError if type(error) is TypeError else ValueError
        for one in (x, host):
            with pytest.raises(kind):
                function([one, one] if joins else one, *more)
        return
    result = function([x, x] if joins else x, *more)
    _same(result, wanted)
    assert result.shape == wanted.shape
    if wanted.size:
        assert cases.steps(result) == cases.steps(wanted)
    oracle.assert_same(function([host, host] if joins else host, *more), wanted)


@pytest.mark.parametrize("axis", [0, -1, np.int64(0), (), None])
def test_squeeze_without_dimensions(axis: Any) -> None:
    """NumPy lets 0 and -1 name an absent axis, but not in a tuple."""
    host, x = pair(())
    _same(pcd.squeeze(x, axis), np.squeeze(host, axis))
    _same(x.squeeze(axis), host.squeeze(axis))
    assert pcd.squeeze(host, axis).shape == ()
    for one in (host, x):
        with pytest.raises(np.exceptions.AxisError):
            pcd.squeeze(one, (0,))


@given(a=_layouts(), b=_layouts(), c=_layouts())
def test_where_of_any_layout(a: Any, b: Any, c: Any) -> None:
    try:
        wanted = np.where(a[0], b[0], c[0])
    except ValueError:
        with pytest.raises(ValueError):
            pcd.where(a[1], b[1], c[1])
        return
    result = pcd.where(a[1], b[1], c[1])
    _same(result, wanted)
    assert result.shape == wanted.shape


@settings(deadline=None, max_examples=60)
@given(layout=_layouts(), dtype=st.sampled_from(["f4", "f8"]))
def test_conversions_of_any_layout(layout: Any, dtype: str) -> None:
    host, x = layout
    for ours, numpys in (
        (x.astype(dtype), host.astype(dtype)),
        (pcd.add(x, 1, dtype=dtype), np.add(host, 1, dtype=dtype)),
        (pcd.add(x, x, dtype=dtype), np.add(host, host, dtype=dtype)),
        (pcd.sqrt(x, casting="unsafe"), np.sqrt(host, casting="unsafe")),
    ):
        _same(ours, numpys)
        if host.size:
            assert cases.steps(ours) == cases.steps(np.asarray(numpys))


@pytest.mark.parametrize("name", ["concatenate", "stack"])
def test_joining_more_than_a_size_can_say(name: str) -> None:
    x = pcd.broadcast_to(pcd.ones((), "i1", "cuda"), 2**62)
    for namespace in (pcd, np):
        with pytest.raises(ValueError, match="2\\^63"):
            getattr(namespace, name)([x, x])


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_stack(axis: int) -> None:
    host, x = pair((3, 4))
    _same(pcd.stack([x, x[::-1], x], axis=axis), np.stack([host, host[::-1], host], axis))


class _Number(enum.IntEnum):
    ONE = 1


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "f8", "c8", "c16"])
def test_where(dtype: str) -> None:
    data = generators.values(np.dtype("f4"), 20).reshape(4, 5)
    host = data.astype(dtype)
    x = pcd.asarray(host, device="cuda")
    mask = data > 0
    m = pcd.asarray(mask, device="cuda")
    other = np.array([1, 2, 3, 4, 5], "i4")
    o = pcd.asarray(other, device="cuda")
    for ours, numpys in (
        ((m, x, x[::-1]), (mask, host, host[::-1])),
        ((m, x, o), (mask, host, other)),
        ((m, o, x), (mask, other, host)),
        ((m, x, 1), (mask, host, 1)),
        ((m, 0, x), (mask, 0, host)),
        ((m[:, :1], x, o), (mask[:, :1], host, other)),
        ((m.T[:4], x[:, :4], 1), (mask.T[:4], host[:, :4], 1)),
        ((x, m, 1), (host, mask, 1)),
        ((True, x, o), (True, host, other)),
        ((m, np.float64(1), x), (mask, np.float64(1), host)),
    ):
        _same(pcd.where(*ours), np.where(*numpys))
    _same(pcd.where(m, 1, 2), np.where(mask, 1, 2))
    _same(pcd.where(m, 1.5, 2), np.where(mask, 1.5, 2))


def test_where_that_fails() -> None:
    _, x = pair((4, 5))
    with pytest.raises(ValueError):
        pcd.where(x, x, x.T)
    with pytest.raises(TypeError, match="host memory"):
        pcd.where(x, x, np.ones((4, 5)))
    with pytest.raises(TypeError, match="host memory"):
        pcd.where(np.ones((4, 5), bool), x, x)
    for device in ("cuda", "cpu"):
        for number in (128, 1000, -129, 2**70):
            mask, values = pcd.ones(5, "?", device), pcd.zeros(5, "i1", device)
            for operands in ((values, number), (number, values)):
                with pytest.raises(OverflowError) as caught:
                    pcd.where(mask, *operands)
                assert caught.type is OverflowError
        for operands in ((2**63, 1), (-1, 2**63), (True, 2**64 - 1), (2**63, _Number.ONE)):
            with pytest.raises(OverflowError):
                pcd.where(mask, *operands)
        assert pcd.where(mask, 2**63, 1.5).tolist() == [2.0**63] * 5


# ---- NumPy arrays through the same functions ----


def test_on_the_host() -> None:
    host, _ = pair()
    for result, wanted in (
        (pcd.reshape(host, (20, 6)), host.reshape(20, 6)),
        (pcd.transpose(host), host.T), (pcd.permute_dims(host, (1, 0, 2)), host.swapaxes(0, 1)),
        (pcd.permute_dims(host, None), host.T),
        (pcd.matrix_transpose(host), host.mT), (pcd.moveaxis(host, 0, 2), np.moveaxis(host, 0, 2)),
        (pcd.expand_dims(host, 1), host[:, None]), (pcd.squeeze(host[:1]), host[0]),
        (pcd.flip(host, 1), host[:, ::-1]), (pcd.broadcast_to(host[0], (2, 5, 6)), host[[0, 0]]),
        (pcd.concatenate([host, host]), np.concatenate([host, host])),
        (pcd.stack([host, host]), np.stack([host, host])),
        (pcd.where(host > 3, host, 0), np.where(host > 3, host, 0)),
        (pcd.astype(host, "f8"), host.astype("f8")),
    ):  # fmt: skip
        assert type(result) is np.ndarray
        oracle.assert_same(result, wanted)
    assert pcd.reshape(host, (120,), copy=False).base is not None
    assert pcd.reshape(host[:0].T, (0, 2), copy=False).shape == (0, 2)  # nothing to copy
    with pytest.raises(ValueError, match="copy"):
        pcd.reshape(host.T, (120,), copy=False)
    assert not np.may_share_memory(pcd.reshape(host, (120,), copy=True), host)
