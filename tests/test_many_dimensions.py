"""Arrays of 33 to 64 dimensions, where some of NumPy's own functions end at 32."""

from __future__ import annotations

from typing import Any

import cases
import hypothesis.extra.numpy as hnp
import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared import fetched, how, in_place

import pkg as pcd
from pkg._operands import broadcast_shapes

DIMENSIONS = pytest.mark.parametrize("ndim", [31, 32, 33, 64])


def _data(ndim: int, dtype: str = "f8") -> np.ndarray:
    """An array of 24 elements, in an order that is not C's."""
    shape = (2, 3, *(1,) * (ndim - 3), 4)
    return (np.arange(24) - 7).astype(dtype).reshape(shape[::-1]).transpose()


@given(hnp.mutually_broadcastable_shapes(num_shapes=4, min_side=0, max_dims=5))
def test_shapes_broadcast_as_numpy_says(shapes: Any) -> None:
    assert broadcast_shapes(*shapes.input_shapes) == np.broadcast_shapes(*shapes.input_shapes)


@given(st.lists(st.lists(st.integers(0, 2), max_size=3).map(tuple), max_size=3))
def test_shapes_that_may_not_broadcast(shapes: list[tuple[int, ...]]) -> None:
    try:
        wanted = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(ValueError, match="could not be broadcast together"):
            broadcast_shapes(*shapes)
    else:
        assert broadcast_shapes(*shapes) == wanted


@cases.each_place()
@DIMENSIONS
def test_operations(ndim: int, place: str) -> None:
    host = _data(ndim)
    a, small = in_place(place, host), in_place(place, host[0])
    oracle.assert_same(fetched(pcd.add(a, small, **how(place))), host + host[0])
    out = in_place(place, np.zeros(host.shape, "c16"))
    assert pcd.multiply(a, a, out=out, **how(place)) is out
    oracle.assert_same(fetched(out), (host * host).astype("c16"))


@cases.each_place()
@DIMENSIONS
def test_where_of_operations(ndim: int, place: str) -> None:
    host = _data(ndim)
    mask = host[:, :1] > 0
    a, where, out = (
        in_place(place, host),
        in_place(place, mask),
        in_place(place, np.full(host.shape, 7.0, "f4")),
    )
    assert pcd.add(a, a, where=where, out=out, **how(place)) is out
    wanted = np.add(host, host, where=mask, out=np.full(host.shape, 7.0, "f4"))
    oracle.assert_same(fetched(out), wanted)
    result = fetched(pcd.add(a, a, where=where, out=None, **how(place)))
    assert result.shape == host.shape
    selected = np.broadcast_to(mask, host.shape)
    assert (result[selected] == (2 * host)[selected]).all()


@cases.each_place()
@DIMENSIONS
def test_expressions(ndim: int, place: str) -> None:
    host = _data(ndim)
    names = {"a": in_place(place, host), "b": in_place(place, host[:, :1])}
    result = pcd.evaluate("a * b + 1", names, **how(place))
    oracle.assert_same(fetched(result), host * host[:, :1] + 1)
    out = in_place(place, np.zeros(host.shape, "c16"))
    pcd.evaluate("a * b + 1", names, out=out, **how(place))
    oracle.assert_same(fetched(out), (host * host[:, :1] + 1).astype("c16"))
    total = fetched(pcd.evaluate("sum(a * b, axis=1)", names, **how(place)))
    oracle.assert_same(total, (host * host[:, :1]).sum(1))


@cases.each_place()
@DIMENSIONS
@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "mean"])
def test_reductions(name: str, ndim: int, place: str) -> None:
    host = _data(ndim)
    a = in_place(place, host)
    for axis in (None, 0, -1, (0, ndim - 1), (1, 5, 7), tuple(range(ndim))):
        for keepdims in (False, True):
            function, wanted = getattr(pcd, name), getattr(np, name)
            expected = np.asarray(wanted(host, axis=axis, keepdims=keepdims))
            result = function(a, axis=axis, keepdims=keepdims, **how(place))
            oracle.assert_same(np.asarray(fetched(result)), expected)
            # The sign of a complex product's zero depends on the order.
            out = in_place(place, np.zeros(expected.shape, "f4" if name == "prod" else "c16"))
            assert function(a, axis=axis, keepdims=keepdims, out=out, **how(place)) is out
            wanted(host, axis=axis, keepdims=keepdims, out=(same := np.empty_like(fetched(out))))
            oracle.assert_same(fetched(out), same)


@pytest.mark.parametrize("place", ["cpu", pytest.param("array", marks=pytest.mark.gpu)])
@DIMENSIONS
def test_where(ndim: int, place: str) -> None:
    host = _data(ndim)
    mask = host[:, :1] > 0
    result = pcd.where(in_place(place, mask), in_place(place, host), in_place(place, host[0]))
    oracle.assert_same(fetched(result), np.where(mask, host, host[0]))


@pytest.mark.gpu
def test_stack_to_65() -> None:
    with pytest.raises(ValueError, match="more than 64 dimensions"):
        pcd.stack([in_place("array", _data(64))])
