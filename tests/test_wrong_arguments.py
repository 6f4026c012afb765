"""Arguments of the wrong kind: the error names the function, the argument and what was passed."""

from __future__ import annotations

import inspect
import pickle
import re
from typing import Any

import cases
import numpy as np
import pytest

import pkg as pcd

#: A call, what it expects, and what it got.
CALLS: list[tuple[Any, str, str]] = [
    (lambda x: pcd.broadcast_to(x, "abc"), r"broadcast_to\(\): shape .* tuple of ints", "str"),
    (lambda x: pcd.broadcast_to(x, 1.5), r"broadcast_to\(\): shape .* tuple of ints", "float"),
    (lambda x: pcd.reshape(x, (1.5, 2)), r"reshape\(\): shape .* tuple of ints", "tuple of float"),
    (lambda x: pcd.reshape(x, None), r"reshape\(\): shape .* tuple of ints", "None"),
    (lambda x: pcd.empty(object()), r"empty\(\): shape .* tuple of ints", "object"),
    (lambda x: pcd.zeros({}), r"zeros\(\): shape .* tuple of ints", "dict"),
    (lambda x: pcd.ones(np.ones(2)), r"ones\(\): shape .* tuple of ints", "float64"),
    (lambda x: pcd.full(1j, 0), r"full\(\): shape .* tuple of ints", "complex"),
    (lambda x: pcd.empty_like(x, shape="3"), r"empty_like\(\): shape .* tuple of ints", "str"),
    (lambda x: pcd.concat([x, x], axis="y"), r"concatenate\(\): axis .* int", "str"),
    (lambda x: pcd.concat(3), r"concatenate\(\): arrays .* sequence of arrays", "int"),
    (lambda x: pcd.stack([x, x], axis=(0,)), r"stack\(\): axis .* int", "tuple of int"),
    (lambda x: pcd.flip(x, axis=0.0), r"flip\(\): axis .* tuple of ints", "float"),
    (lambda x: pcd.squeeze(x, axis="x"), r"squeeze\(\): axis .* tuple of ints", "str"),
    (lambda x: pcd.expand_dims(x, axis=None), r"expand_dims\(\): axis .* tuple of ints", "None"),
    (lambda x: pcd.moveaxis(x, "x", 0), r"moveaxis\(\): source .* tuple of ints", "str"),
    (lambda x: pcd.transpose(x, "xy"), r"transpose\(\): axes .* tuple of ints", "str"),
    (lambda x: pcd.permute_dims(x, 1.0), r"permute_dims\(\): axes .* tuple of ints", "float"),
    (lambda x: pcd.sum(x, axis=1.5), r"sum\(\): axis .* tuple of ints", "float"),
    (lambda x: pcd.mean(x, axis="x"), r"mean\(\): axis .* tuple of ints", "str"),
    (lambda x: pcd.sum(x, axis=[0]), r"sum\(\): axis .* tuple of ints", "list of int"),
    (lambda x: pcd.any(x, axis=np.array([0])), r"any\(\): axis .* tuple of ints", "int64"),
    (lambda x: pcd.mean(x, axis=(True,)), r"mean\(\): axis .* tuple of ints", "tuple of bool"),
    (lambda x: pcd.min(x, axis=range(1)), r"min\(\): axis .* tuple of ints", "range"),
    (lambda x: pcd.squeeze(x, axis=[0]), r"squeeze\(\): axis .* tuple of ints", "list of int"),
    (lambda x: pcd.fuse(lambda a: pcd.sum(a, [0]))(x), r"sum\(\): axis .* ints", "list of int"),
    (lambda x: pcd.sum(x, keepdims="no"), r"sum\(\): keepdims must be a bool", "str"),
    (lambda x: pcd.all(x, keepdims=None), r"all\(\): keepdims must be a bool", "None"),
    (lambda x: pcd.mean(x, keepdims=1.0), r"mean\(\): keepdims must be a bool", "float"),
    (lambda x: pcd.trace(x, offset=1.5), r"trace\(\): offset .* int", "float"),
    (lambda x: pcd.asnumpy(x, out=[0.0]), r"asnumpy\(\): out must be a NumPy array", "list"),
    (lambda x: pcd.arange([1]), r"arange\(\): start must be a number", "list of int"),
    (lambda x: pcd.linspace(0, 1, 2.0), r"linspace\(\): num must be an int", "float"),
    (lambda x: pcd.fib(1.5), r"fib\(\): n must be an int", "float"),
    (lambda x: pcd.set_num_threads("2"), r"set_num_threads\(\): threads must be an int", "str"),
    (lambda x: pcd.set_memory_limit("1 GB"), r"set_memory_limit\(\): nbytes must be an", "str"),
    (lambda x: pcd.from_dlpack([1]), r"from_dlpack\(\): x must have __dlpack__", "list"),
    (lambda x: pcd.fuse("a + 1"), r"fuse\(\): function must be a Python function", "str"),
    (lambda x: pcd.evaluate("a", (1, "a"), {}), "local_dict is a mapping", "tuple"),
    (lambda x: pcd.evaluate(1), "is a str or an Expression", "int"),
    (lambda x: pcd.linspace("a", 1), r"linspace\(\): start must be a number", "str"),
    (lambda x: pcd.linspace(0, None), r"linspace\(\): stop must be a number", "None"),
    (lambda x: pcd.linspace(0, np.array("a")), r"linspace\(\): stop must be a number", "<U1"),
    (lambda x: pcd.linspace(0, 1, dtype="nosuch"), r"linspace\(\): dtype must be an", "'nosuch'"),
    (lambda x: pcd.zeros(3, "nosuch"), r"zeros\(\): dtype must be an element type", "'nosuch'"),
    (lambda x: pcd.asarray([1], "nosuch"), r"asarray\(\): dtype must be an", "'nosuch'"),
    (lambda x: pcd.arange(3, dtype="nosuch"), r"arange\(\): dtype must be an", "'nosuch'"),
    (lambda x: pcd.sum(x, dtype="nosuch"), r"sum\(\): dtype must be an", "'nosuch'"),
    (lambda x: pcd.sum(x, dtype=object), r"sum\(\): elements of object are not supported", "bool"),
    (lambda x: pcd.mean(x, dtype="S3"), r"mean\(\): elements of \|S3 are not supported", "bool"),
    (lambda x: pcd.add(x, 1, dtype=object), r"add\(\): dtype must be one of bool, int8", "float64"),
    (lambda x: pcd.add(x, 1, dtype="S3"), r"add\(\): dtype must be one of bool, int8", "float64"),
]

HUGE = 2**70

#: A call with a number that no array has, and what it is called.
NUMBERS: list[tuple[Any, str]] = [
    (lambda x: pcd.sum(x, HUGE), r"sum\(\): axis is"),
    (lambda x: pcd.mean(x, -HUGE), r"mean\(\): axis is"),
    (lambda x: pcd.flip(x, HUGE), r"flip\(\): axis is"),
    (lambda x: pcd.squeeze(x, HUGE), r"squeeze\(\): axis is"),
    (lambda x: pcd.expand_dims(x, HUGE), r"expand_dims\(\): axis is"),
    (lambda x: pcd.moveaxis(x, 0, HUGE), r"moveaxis\(\): destination is"),
    (lambda x: pcd.transpose(x, (0, HUGE)), r"transpose\(\): axes is"),
    (lambda x: pcd.concat([x, x], HUGE), r"concatenate\(\): axis is"),
    (lambda x: pcd.stack([x, x], -HUGE), r"stack\(\): axis is"),
    (lambda x: pcd.zeros(HUGE), r"zeros\(\): shape is"),
    (lambda x: pcd.empty((2, -3)), r"empty\(\): shape is"),
    (lambda x: pcd.full(-1, 0), r"full\(\): shape is"),
    (lambda x: pcd.ones_like(x, shape=-1), r"ones_like\(\): shape is"),
    (lambda x: pcd.broadcast_to(x, (-1, 3)), r"broadcast_to\(\): shape is"),
    (lambda x: pcd.broadcast_to(x, (HUGE, 2, 3)), r"broadcast_to\(\): shape is"),
    (lambda x: pcd.linspace(0, 1, HUGE), r"linspace\(\): num is"),
    (lambda x: pcd.linspace(0, 1, -1), r"linspace\(\): num is"),
]


@cases.each_device()
@pytest.mark.parametrize(("call", "expected", "passed"), CALLS)
def test_wrong_kinds_of_arguments(call: Any, expected: str, passed: str, device: str) -> None:
    x = pcd.asarray(np.arange(6.0).reshape(2, 3), device=device)
    with pytest.raises(TypeError) as info, pcd.default_device(device):
        call(x)
    assert re.search(f"{expected}.*{re.escape(passed)}", str(info.value)), info.value


@cases.each_device()
@pytest.mark.parametrize(("call", "expected"), NUMBERS)
def test_numbers_that_no_array_has(call: Any, expected: str, device: str) -> None:
    x = pcd.asarray(np.arange(6.0).reshape(2, 3), device=device)
    with pytest.raises(ValueError) as info, pcd.default_device(device):
        call(x)
    assert re.search(rf"{expected} .*, but", str(info.value)), info.value


def test_texts_name_public_things() -> None:
    """Error texts do not name private modules."""
    for x in (pcd.Expression, pcd.Array, pcd.Stream, pcd.zeros, pcd.sum, pcd.evaluate, pcd.fuse):
        assert x.__module__ == "pkg"
        assert pickle.loads(pickle.dumps(x)) is x


def test_divide_has_its_own_name() -> None:
    """Errors say divide, not the name of its ufunc."""
    a = np.ones(3, "i4")
    for kwargs in ({"out": np.ones(3, "i2"), "casting": "safe"}, {"dtype": "f4", "casting": "no"}):
        with pytest.raises(TypeError) as info:
            pcd.divide(a, a, **kwargs)
        assert "divide" in str(info.value) and "trunc_divide" not in str(info.value)


def test_the_class_of_expressions_has_a_signature() -> None:
    assert list(inspect.signature(pcd.Expression).parameters) == ["text"]
    assert "a" in inspect.signature(pcd.Expression("a + 1")).parameters


@cases.each_device()
def test_options_of_expressions_without_out(device: str) -> None:
    """They are checked even if they change nothing."""
    x = np.arange(3.0)
    for keywords, message in (
        ({"casting": "loose"}, r"evaluate\(\): casting must be one of 'no', .*, not 'loose'"),
        ({"order": "Z"}, r"evaluate\(\): order must be .*, not 'Z'"),
    ):
        with pytest.raises(ValueError, match=message):
            pcd.evaluate("x + 1", device=device, **keywords)
        with pytest.raises(ValueError, match=message):
            pcd.Expression("x + 1")(x, device=device, **keywords)
