"""Asserts the types that the public functions return: `mypy --strict` checks this file."""

from typing import Any

import numpy as np
from typing_extensions import assert_type

import pkg as pcd

Host = np.ndarray[Any, np.dtype[Any]]

x = pcd.zeros((2, 3), device="cuda")
h = pcd.ones((2, 3))
place: str = "cuda:1"

assert_type(x, pcd.Array)
assert_type(h, Host)
assert_type(pcd.empty(3, device="cpu"), Host)
assert_type(pcd.full(3, 7, device="cuda:1"), pcd.Array)
assert_type(pcd.asarray([1, 2]), Host)
assert_type(pcd.asarray([1, 2], device="cuda"), pcd.Array)
assert_type(pcd.asarray(x), pcd.Array)
assert_type(pcd.asarray([1, 2], device=place), Any)

assert_type(x + 1, pcd.Array)
assert_type(2 * x, pcd.Array)
assert_type(-x / x, pcd.Array)
assert_type(x < 1, pcd.Array)
assert_type(x.sum(), pcd.Array)
assert_type(x[0], pcd.Array)

assert_type(pcd.add(1, 2), int | float)
assert_type(pcd.add(1.5, 2), float)
assert_type(pcd.add(x, 1), pcd.Array)
assert_type(pcd.add(1, x), pcd.Array)
assert_type(pcd.add(x, x, out=x), pcd.Array)
assert_type(pcd.add(x, x, x), pcd.Array)
assert_type(pcd.sqrt(x, out=x), pcd.Array)
assert_type(pcd.add(h, h, out=h), Host)
assert_type(pcd.add(h, 1, out=(h,), where=h > 0), Host)
assert_type(pcd.evaluate("a + b", {"a": h, "b": 1}, out=h), Host)
assert_type(pcd.evaluate("a + b", {"a": x, "b": 1}, out=x), pcd.Array)
assert_type(pcd.int8, np.dtype[Any])
