"""Arrays of more than 2^31 elements on a GPU: no index is of 32 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pkg as pcd

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.whole_gpu,
    pytest.mark.no_emulated_gpu,
    pytest.mark.usefixtures("quiet"),
]

N = 2**31 + 5

ENDS = [0, 1, 2**31 - 2, 2**31 - 1, 2**31, 2**31 + 1, N - 2, N - 1]


@pytest.fixture
def x() -> Any:
    """Zeros, except for marks at both ends and around 2^31."""
    if pcd.memory_info().free < 24 * 2**30:
        pytest.skip("needs 24 GiB of free GPU memory")
    x = pcd.zeros(N, "i1", "cuda")
    for value, position in enumerate(ENDS, 1):
        x[position] = value
    yield x
    pcd.free_cached_memory()


def _at_ends(array: Any) -> list[Any]:
    return [array[position].item() for position in ENDS]


VALUES = np.arange(1, len(ENDS) + 1)


def test_contiguous(x: Any) -> None:
    assert _at_ends(x) == VALUES.tolist()
    y = x + x
    assert _at_ends(y) == (2 * VALUES).tolist() and y.sum().item() == 2 * VALUES.sum()
    y -= x
    assert _at_ends(y) == VALUES.tolist()
    assert _at_ends(x * 3 + 1) == (3 * VALUES + 1).tolist()
    assert _at_ends(x > 4) == (VALUES > 4).tolist()
    assert _at_ends(pcd.where(x > 4, x, -1)) == np.where(VALUES > 4, VALUES, -1).tolist()


def test_reductions(x: Any) -> None:
    assert x.sum().item() == VALUES.sum() and x.max().item() == len(ENDS)
    assert pcd.sum(x, dtype="i8").item() == VALUES.sum()
    assert pcd.ones(N, "i1", "cuda").sum().item() == N
    assert pcd.ones(N, bool, "cuda").sum().item() == N


def test_expressions(x: Any) -> None:
    assert _at_ends(pcd.evaluate("x * 2 - 1")) == (2 * VALUES - 1).tolist()
    given = {"x": x, "y": x.astype("f4")}
    assert pcd.evaluate("sum(y * y)", given).item() == np.sum(VALUES**2)
    assert pcd.evaluate("max(abs(y - 9))", given).item() == 9
    assert pcd.evaluate("min(y - y * 2)", given).item() == -len(ENDS)
    assert pcd.evaluate("sum(x * y)", given).item() == np.sum(VALUES**2)


def test_more_outputs_than_a_launch_has(x: Any) -> None:
    twice = pcd.broadcast_to(x[:, None], (N, 2))
    assert _at_ends(twice.max(axis=1)) == VALUES.tolist()


def test_strided(x: Any) -> None:
    y = x[::-1] + x[::-1]
    assert [y[N - 1 - position].item() for position in ENDS] == (2 * VALUES).tolist()
    view = x[1::2]
    odd = [value for value, position in zip(VALUES, ENDS, strict=True) if position % 2]
    assert (view + 0).sum().item() == sum(odd)
    x[::3] = 0
    kept = [value for value, position in zip(VALUES, ENDS, strict=True) if position % 3]
    assert x.sum().item() == sum(kept)


def test_two_dimensions(x: Any) -> None:
    rows, columns = 46_342, 46_342  # more than 2^31 elements
    y = pcd.zeros((rows, columns), "i1", "cuda")
    y[-1, -1], y[0, -1], y[-1, 0] = 1, 2, 3
    z = y + y.T
    assert [z[-1, -1].item(), z[0, -1].item(), z[-1, 0].item()] == [2, 5, 5]
    assert z.sum().item() == 12
    assert pcd.asnumpy(y.sum(axis=0))[[0, -1]].tolist() == [3, 3]
    assert pcd.asnumpy(y.sum(axis=1))[[0, -1]].tolist() == [2, 4]
    row = pcd.arange(columns, device="cuda").astype("i1")
    assert (y + row)[-1].tolist()[:3] == [3, 1, 2]


def test_conversions_and_copies(x: Any) -> None:
    y = x.astype("f4")
    assert y.dtype == np.float32 and _at_ends(y) == VALUES.tolist()
    del y
    assert _at_ends(x.copy()) == VALUES.tolist()
    joined = pcd.concatenate([x[: 2**31], x[2**31 :]])
    assert _at_ends(joined) == VALUES.tolist()
    del joined
    host = pcd.asnumpy(x)
    assert host[ENDS].tolist() == VALUES.tolist() and np.count_nonzero(host) == len(ENDS)
    assert _at_ends(pcd.asarray(host, device="cuda")) == VALUES.tolist()
