"""Views by basic indexing, and assignment through them, as NumPy's; other indices are refused."""

from __future__ import annotations

from typing import Any

import cases
import generators
import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared import assert_array, pair

import pkg as pcd

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("quiet")]


@st.composite
def _indexed(draw: Any) -> tuple[tuple[int, ...], Any]:
    """A shape and a basic index for it, or one that is out of bounds."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=6))
    index = draw(hnp.basic_indices(shape, max_dims=8, allow_newaxis=True, allow_ellipsis=True))
    return shape, index


@given(shape_and_index=_indexed())
def test_any_index(shape_and_index: Any) -> None:
    """An index gives NumPy's elements, as the same view of the memory."""
    shape, index = shape_and_index
    host, x = pair(shape)
    view, wanted = x[index], host[index]
    assert_array(view, wanted)
    if np.size(wanted) and isinstance(wanted, np.ndarray):
        assert cases.steps(view) == cases.steps(wanted)
    assert view._memory is x._memory
    if isinstance(wanted, np.ndarray) and wanted.size:  # one number is a NumPy scalar there
        offset = wanted.__array_interface__["data"][0] - host.__array_interface__["data"][0]
        assert view._pointer - x._pointer == offset


@given(shape_and_index=_indexed(), seed=generators.seeds)
def test_any_assignment(shape_and_index: Any, seed: int) -> None:
    """Assigns through a view, from a broadcast array and from a number; nothing else changes."""
    shape, index = shape_and_index
    host, x = pair(shape)
    selected = host[index].shape if isinstance(host[index], np.ndarray) else ()
    rng = np.random.default_rng(seed)
    given_shape = tuple(n if rng.integers(3) else 1 for n in selected)
    given_shape = given_shape[rng.integers(len(given_shape) + 1) :]
    values = rng.uniform(-9, 9, given_shape).astype("f4")
    host[index] = values
    x[index] = pcd.asarray(values, device="cuda")
    assert_array(x, host)
    host[index] = 7
    x[index] = 7
    assert_array(x, host)


@st.composite
def _wrong_index(draw: Any) -> tuple[tuple[int, ...], Any]:
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=4))
    keys = [draw(st.integers(-9, 9)) for _ in range(draw(st.integers(1, 4)))]
    return shape, tuple(keys)


@given(shape_and_index=_wrong_index())
def test_bounds(shape_and_index: Any) -> None:
    shape, index = shape_and_index
    host, x = pair(shape)
    try:
        wanted = host[index]
    except IndexError:
        with pytest.raises(IndexError):
            x[index]
        with pytest.raises(IndexError):
            x[index] = 1
    else:
        assert_array(x[index], wanted)


@pytest.mark.parametrize(
    "index",
    [[0, 1], np.array([0, 1]), np.array([True, False, True, False]), True, False, np.True_, 1.0,
     "a", (0, [1]), (slice(None), True), {}, slice(1.5)],
    ids=repr,
)  # fmt: skip
def test_other_indices_are_refused(index: Any) -> None:
    _, x = pair()
    error = TypeError if isinstance(index, slice) else IndexError
    with pytest.raises(error):
        x[index]
    with pytest.raises(error):
        x[index] = 0


def test_arrays_as_indices() -> None:
    """A 0-d array of integers is an integer; other arrays are refused."""
    host, x = pair()
    two = pcd.asarray(2, device="cuda")
    for index in (two, np.int8(2), np.array(2), pcd.asarray(-1, device="cuda")):
        assert_array(x[index], host[int(index)])
        assert_array(x[:, 1:index], host[:, 1 : int(index)])
    for index in (x, x > 3, pcd.asarray([1, 2], device="cuda"), pcd.asarray(True, device="cuda")):
        with pytest.raises(IndexError, match="not by Array"):
            x[index]


def test_several_ellipses() -> None:
    _, x = pair()
    with pytest.raises(IndexError, match="ellipsis"):
        x[..., 0, ...]
    with pytest.raises(IndexError, match="too many indices"):
        x[0, 0, 0, 0]
    with pytest.raises(ValueError, match="zero"):
        x[::0]


def test_huge_steps() -> None:
    host, x = pair((5,))
    big = 2**70
    for index in (np.s_[::big], np.s_[::-big], np.s_[big:], np.s_[-big:big], np.s_[:-big]):
        assert_array(x[index], host[index])
    with pytest.raises(IndexError):
        x[big]


def test_views_share_memory() -> None:
    host, x = pair()
    view, wanted = x[1:3, ::-2, ..., None], host[1:3, ::-2, ..., None]
    view += 100
    wanted += 100
    assert_array(x, host)
    x[:] = 5
    assert (pcd.asnumpy(view) == 5).all()
    kept = x[2, 3]
    del x, view
    assert pcd.asnumpy(kept).tolist() == [5] * 6


# ---- Assignment ----

OVERLAPS = [
    (np.s_[1:], np.s_[:-1]), (np.s_[:-1], np.s_[1:]), (np.s_[::-1], np.s_[:]),
    (np.s_[:], np.s_[::-1]), (np.s_[::2], np.s_[:10]), (np.s_[5:15], np.s_[::2]),
    (np.s_[:], np.s_[3]), (np.s_[:], np.s_[3:4]), (np.s_[:], np.s_[:]),
]  # fmt: skip


@pytest.mark.parametrize("to, source", OVERLAPS, ids=str)
@pytest.mark.parametrize("ndim", [1, 2])
def test_overlapping_assignment(to: Any, source: Any, ndim: int) -> None:
    """The values are read before anything is written."""
    for dtype in ("i1", "f4", "c16"):
        host, x = pair((20,) if ndim == 1 else (20, 3), dtype)
        x[to] = x[source]
        host[to] = host[source].copy()
        assert_array(x, host)


def test_assigning_the_transpose() -> None:
    host, x = pair((30, 30))
    x[...] = x.T
    host[...] = host.T.copy()
    assert_array(x, host)


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "f8", "c8"])
def test_types_of_values(dtype: str) -> None:
    """Values are converted as by astype(); Python's ints must fit."""
    for value in (1, 2.5, True, np.float64(3.7), np.int16(-2), np.array(3, "i8"), 0):
        host, x = pair((3,), dtype)
        if np.dtype(dtype).kind == "u" and np.asarray(value) < 0:
            continue  # undefined in C
        host[1:] = value
        x[1:] = value
        assert_array(x, host)
    for values in ([1.5, 2.5], [True, False]):
        host, x = pair((3,), dtype)
        host[1:] = np.array(values)
        x[1:] = pcd.asarray(values, device="cuda")
        assert_array(x, host)
    if dtype in ("i1", "u8"):
        host, x = pair((3,), dtype)
        for value in (-129, 2**64):
            with pytest.raises(OverflowError):
                x[0] = value
        for value in (np.int16(-129), np.uint64(300)):  # NumPy lets only unsigned ones wrap
            try:
                host[0] = value
            except OverflowError:
                with pytest.raises(OverflowError):
                    x[0] = value
            else:
                x[0] = value
                assert_array(x, host)
        with pytest.raises(TypeError):
            x[0] = 1j
    if dtype == "f4":
        with pytest.warns(np.exceptions.ComplexWarning):
            x[0] = np.complex64(1 + 1j)
        assert x[0].item() == 1
        with pytest.warns(np.exceptions.ComplexWarning):
            x[:] = pcd.asarray([1j, 2, 3], device="cuda")


def test_assignment_that_fails() -> None:
    host, x = pair()
    for values in (pcd.ones(5, device="cuda"), pcd.ones((2, 4, 5, 6), device="cuda")):
        with pytest.raises(ValueError, match="could not broadcast"):
            x[...] = values
    with pytest.raises(ValueError, match="could not broadcast"):
        x[0, 0, 0] = pcd.ones(2, device="cuda")
    x[0, 0] = pcd.ones((1, 1, 6), device="cuda")  # as NumPy drops leading dimensions of size 1
    host[0, 0] = np.ones((1, 1, 6))
    for values in (host, [1, 2], host.tolist()):
        with pytest.raises(TypeError, match=r"host memory.*asarray\(x, device='cuda:0'\)"):
            x[...] = values
    for values in ("text", None, object()):
        with pytest.raises(TypeError):
            x[...] = values
    read_only = pcd.broadcast_to(x, (2, 4, 5, 6))
    with pytest.raises(ValueError, match="read-only"):
        read_only[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        read_only[0][1:] = 1
    with pytest.raises(ValueError, match="cannot delete"):
        del x[0]
    assert_array(x, host)


def test_fill() -> None:
    host, x = pair()
    x[:, 1].fill(3)
    host[:, 1].fill(3)
    assert_array(x, host)
    with pytest.raises(OverflowError):
        pcd.zeros(3, "i1", "cuda").fill(1000)


# ---- Masks ----


@pytest.mark.parametrize("dtype", ["f4", "i8", "c16", "?"])
def test_assignment_through_a_mask(dtype: str) -> None:
    host = (np.arange(24).reshape(4, 6) % 7).astype(dtype)
    mask = np.arange(24).reshape(4, 6) % 3 == 0
    for value in (True, np.float32(5), np.array(3)):
        for part in (np.s_[:], np.s_[::2, 1:]):
            x, want = pcd.asarray(host, device="cuda"), host.copy()
            x[part][pcd.asarray(mask[part], device="cuda")] = value
            want[part][mask[part]] = value
            assert np.array_equal(pcd.asnumpy(x), want)
    x = pcd.asarray(host, device="cuda")
    x[x == 0] = pcd.asarray(1, device="cuda")
    assert np.array_equal(pcd.asnumpy(x), np.where(host == 0, 1, host))
    small = pcd.zeros(1, "i1", "cuda")
    small[small == 0] = np.int64(300)  # wraps, as in NumPy
    assert small.tolist() == [44]
    scalar = pcd.asarray(2.5, device="cuda")
    scalar[scalar > 2] = 1
    assert scalar.item() == 1


@pytest.mark.parametrize("dtype", ["f4", "i8", "?"])
def test_numbers_in_the_other_byte_order(dtype: str) -> None:
    """0-d arrays in the other byte order are assigned as numbers."""
    number = np.array(2.0, ">f8")
    host, x = pair((3,), dtype)
    x[0] = host[0] = number
    assert_array(x, host)
    x[x > 1], host[host > 1] = number, number
    assert_array(x, host)
    np.copyto(x, number, casting="unsafe")
    np.copyto(host, number, casting="unsafe")
    assert_array(x, host)
    x.fill(np.array(1, ">i2"))
    assert_array(x, np.ones_like(host))


@pytest.mark.parametrize("to, source", OVERLAPS[:6], ids=str)
def test_masks_that_share_memory_with_what_they_write(to: Any, source: Any) -> None:
    """The mask is read before anything is written."""
    host = np.arange(20) % 3 == 0
    for where in (to, source):
        x, want = pcd.asarray(host, device="cuda"), host.copy()
        x[to][x[source]] = False
        want[to][want[source].copy()] = False
        assert_array(x, want)
        x, want = pcd.asarray(host, device="cuda"), host.copy()
        np.logical_not(x[to], out=x[source], where=x[where])
        np.logical_not(want[to], out=want[source], where=want[where])
        assert_array(x, want)


def test_masks_that_do_not_fit() -> None:
    x = pcd.zeros((2, 3), device="cuda")
    mask = x == 0
    with pytest.raises(IndexError, match=r"the mask has the shape \(3,\) and the array \(2, 3\)"):
        x[mask[0]] = 1
    with pytest.raises(TypeError, match="set to one number, not to an array: use pkg.where"):
        x[mask] = x
    with pytest.raises(TypeError, match="neither an array of numbers nor a number"):
        x[mask] = "text"
    with pytest.raises(OverflowError):
        pcd.zeros(2, "i1", device="cuda")[pcd.ones(2, "?", device="cuda")] = 1000
    with pytest.raises(IndexError, match="not by Array"):
        x[mask]
    with pytest.raises(ValueError, match="read-only"):
        pcd.broadcast_to(x, (2, 2, 3))[pcd.broadcast_to(mask, (2, 2, 3))] = 1
    assert pcd.asnumpy(x).tolist() == [[0] * 3] * 2
