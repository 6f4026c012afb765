"""Has the name that numexpr's tests import."""

from typing import Any


def ConstantNode(*args: Any) -> Any:
    raise AssertionError("pkg.numexpr has no nodes of numexpr's")
