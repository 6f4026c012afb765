"""Tools read the operations: signatures, modules, pickles."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
from typing import Any

import numpy as np
import pytest

import pkg as pcd
from pkg import core

EACH = pytest.mark.parametrize("operation", core.operations, ids=lambda x: x.__name__)


@pytest.mark.filterwarnings("ignore:divide by zero")  # of arctanh
@EACH
def test_signatures(operation: Any) -> None:
    signature = inspect.signature(operation)
    a = np.ones(3, "d" if any("d" in types for types in operation.types) else "i8")
    args = (a,) * operation.nin
    names = list(signature.parameters)
    assert names[operation.nin] == "out"
    assert [names.index(x) for x in ("where", "dtype", "casting", "order", "subok", "device")]
    # Each default is what leaving the argument away means.
    defaults = {
        name: parameter.default
        for name, parameter in signature.parameters.items()
        if parameter.default is not parameter.empty
    }
    assert np.array_equal(operation(*args, **defaults), operation(*args))
    out = np.empty(3, operation(*args).dtype)
    signature.bind(*args, out, device="cpu")
    assert operation(*args, out) is out
    with pytest.raises(TypeError):
        signature.bind(*args, out, 1)
    with pytest.raises(TypeError):
        signature.bind(*args, unknown=1)


@EACH
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles(operation: Any, protocol: int) -> None:
    assert pickle.loads(pickle.dumps(operation, protocol)) is operation
    kind = type(operation)
    assert pickle.loads(pickle.dumps(kind, protocol)) is kind
    assert pickle._loads(pickle._dumps(kind, protocol)) is kind  # type: ignore[attr-defined]
    assert copy.copy(operation) is operation
    assert copy.deepcopy(operation) is operation


@pytest.mark.parametrize(
    "kind",
    [type(pcd.add), core.ArrayBase, core.Memory, core.Stream, core.Program, core.ExpressionBase],
)
def test_the_types_of_the_extension(kind: type) -> None:
    assert kind.__module__ == "pkg.core"
    assert getattr(core, kind.__qualname__) is kind
    assert pickle.loads(pickle.dumps(kind)) is kind


@EACH
def test_names_and_texts(operation: Any) -> None:
    assert operation.__module__ == "pkg"
    assert operation.__name__ == operation.__qualname__
    assert getattr(pcd, operation.__name__) is operation
    assert operation.__name__ in operation.__doc__
    assert isinstance(type(operation).__doc__, str)
    assert operation.__name__ in pydoc.render_doc(operation)


@EACH
def test_operations_say_that_they_take_arrays_on_a_gpu(operation: Any) -> None:
    text = pydoc.plain(pydoc.render_doc(operation))
    assert "array_like or Array" in text and "ndarray or Array" in text


@pytest.mark.parametrize("name", ["reduce", "accumulate", "reduceat", "outer", "at"])
@pytest.mark.parametrize("operation", [pcd.add, pcd.logical_or], ids=lambda x: x.__name__)
def test_methods_of_the_ufunc_have_texts_of_their_own(operation: Any, name: str) -> None:
    """The ufunc's text would promise NumPy's order of sums."""
    method = getattr(operation, name)
    assert method.__doc__.startswith(f"{name}(") and method.__doc__ in pcd._docs.METHODS.values()
    assert method.__doc__ != getattr(np.add, name).__doc__
    assert method.__doc__.split("\n")[2] in pydoc.plain(pydoc.render_doc(method))
