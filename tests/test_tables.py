"""The tables that `pkg.core` exports, for Python to import, agree with what computes."""

from __future__ import annotations

import numpy as np
import pytest

import pkg as pcd
from pkg import _table, core


def test_type_characters_are_those_that_are_computed_with() -> None:
    assert len(set(core.type_chars)) == len(core.type_chars)
    for char in np.typecodes["All"]:
        if np.dtype(char).char in core.type_chars:
            assert core.Program([char], [], [(core.STEP_CONVERT, char, (0,))], "f").dtype == char
        else:
            with pytest.raises(TypeError, match="elements of"):
                core.Program([char], [], [(core.STEP_CONVERT, char, (0,))], "f")


def test_type_characters_are_those_of_the_ufuncs() -> None:
    named = {char for operation in core.operations for types in operation.types for char in types}
    sizes = {np.dtype(char) for char in core.type_chars}
    assert {np.dtype(char) for char in named if char not in "->"} == sizes


def test_supported_types_are_named_in_messages() -> None:
    with pytest.raises(TypeError, match=core.supported_types):
        core.Program(["M8[s]"], [], [], "f")
    first, last = np.dtype("int8"), np.dtype("complex128")
    assert str(first) in core.supported_types and str(last) in core.supported_types


@pytest.mark.parametrize("operation", core.operations, ids=lambda op: op.__name__)
def test_operations_tell_their_class(operation: core.Operation) -> None:
    ones = [np.ones(2, np.int32)] * operation.nin
    with np.errstate(divide="ignore"):  # of arctanh
        result = operation(*ones)
    assert (operation.__name__ in _table.PREDICATES) == (result.dtype == np.bool_)
    assert operation.takes_ints == any(types[0] == "i" for types in operation.types)


def test_reductions_repeat_operations() -> None:
    assert [name for name, _ in core.reductions] == ["sum", "prod", "min", "max"]
    terms = np.array([3, 5, 2])
    for number, (name, operation) in enumerate(core.reductions):
        assert core.reduce_any(number, terms, None, False, None, None, None) == getattr(pcd, name)(
            terms
        )
        assert operation.ufunc.reduce(terms) == getattr(pcd, name)(terms)
