"""Reference cycles through arrays are collected, and their memory is given back."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import pkg as pcd
from pkg import core

pytestmark = pytest.mark.gpu


class Owner:
    """A foreign array that keeps the Array over its memory."""

    def __init__(self) -> None:
        self.source = pcd.ones(4, device="cuda")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.source.__cuda_array_interface__


def _by_its_array(owner: Any) -> None:
    owner.array = pcd.from_dlpack(owner)


def _by_a_view(owner: Any) -> None:
    owner.array = pcd.from_dlpack(owner)[1:][::2]


def _by_two(owner: Any) -> None:
    other = Owner()
    owner.array, other.array = pcd.from_dlpack(other), pcd.from_dlpack(owner)  # type: ignore


def _by_a_stream(owner: Any) -> None:
    owner.handle = pcd.Stream()
    owner.stream = core.Stream(0, handle=owner.handle.handle, owner=owner)
    with pcd.stream(owner.stream):
        owner.result = owner.source + 1


def _by_a_user(owner: Any) -> None:
    owner.handle = pcd.Stream()
    owner.stream = core.Stream(0, handle=owner.handle.handle, owner=owner)
    with pcd.stream(owner.stream):
        owner.source += 1


def _by_a_subclass(owner: Any) -> None:
    array: Any = pcd.from_dlpack(owner)
    owner.closure = lambda: array


@pytest.mark.parametrize(
    "make", [_by_its_array, _by_a_view, _by_two, _by_a_stream, _by_a_user, _by_a_subclass]
)
def test_an_owner_that_keeps_its_array(make: Callable[[Any], None]) -> None:
    gc.collect()
    before = pcd.memory_info("cuda").used
    owner = Owner()
    make(owner)
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None
    assert pcd.memory_info("cuda").used == before
