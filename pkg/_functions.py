"""Functions of vectors, and others that are not element-wise."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import core
from ._operands import check_vectors, has_own_rules, integer, own_rules, refusal
from ._table import OPERATIONS


def _vector(name: str, a: Any, b: Any, device: str | None) -> Any:
    vectors = [core.as_array(a), core.as_array(b)]
    for k, (given, x) in enumerate(zip("ab", vectors, strict=True)):
        if not has_own_rules(x):
            vectors[k] = x if isinstance(x, core.ArrayBase) else np.asarray(x)
        elif own_rules(x) is not x or not hasattr(x, "ndim"):
            raise refusal(f"vector_{name}: {given}", x)
    check_vectors(f"vector_{name}", *vectors)
    return OPERATIONS[name](*vectors, device=device)


def vector_add(a: Any, b: Any, device: str | None = None) -> Any:
    """Adds two vectors; raises ValueError unless each has one dimension and the lengths are equal.

    >>> vector_add([1, 2, 3], [10, 20, 30])
    array([11, 22, 33])
    """
    return _vector("add", a, b, device)


def vector_subtract(a: Any, b: Any, device: str | None = None) -> Any:
    """Subtracts two vectors; as strict as `vector_add`.

    >>> vector_subtract([1, 2, 3], [3, 2, 1])
    array([-2,  0,  2])
    """
    return _vector("subtract", a, b, device)


def vector_multiply(a: Any, b: Any, device: str | None = None) -> Any:
    """Multiplies two vectors element by element; as strict as `vector_add`.

    >>> vector_multiply([1, 2, 3], [3, 2, 1])
    array([3, 4, 3])
    """
    return _vector("multiply", a, b, device)


def vector_divide(a: Any, b: Any, device: str | None = None) -> Any:
    """Divides two vectors element by element; as strict as `vector_add`.  Integers divide as in C.

    >>> vector_divide([7, -7], [2, 2])
    array([ 3, -3])
    """
    return _vector("divide", a, b, device)


def vector_add_cpu(a: Any, b: Any) -> Any:
    """Does what `vector_add` does, on the CPU whatever the default device."""
    return vector_add(a, b, device="cpu")


def vector_add_cuda(a: Any, b: Any) -> Any:
    """Does what `vector_add` does, on the first GPU; raises CudaError without one."""
    return vector_add(a, b, device="cuda")


def fib(n: int) -> int:
    """Returns the Fibonacci number F(n), exact for every n >= 0; F(0) = 0 and F(1) = 1.

    Raises TypeError if `n` is not an integer, ValueError if it is negative.

    >>> fib(10)
    55
    >>> len(str(fib(10_000)))
    2090
    """
    if has_own_rules(n):
        raise refusal("the operand of fib()", n)
    n = integer("fib", "n", n)
    if n < 0:
        raise ValueError(f"fib: n must be 0 or more, not {n}")
    if n <= 93:
        return core.fib(n)
    # Fast doubling, from the highest bit of n down: F(2k), F(2k + 1) from a = F(k), b = F(k + 1).
    # The library computes the six highest bits.
    shift = max(n.bit_length() - 6, 0)
    a, b = core.fib(n >> shift), core.fib((n >> shift) + 1)
    for bit in range(shift - 1, -1, -1):
        a, b = a * (2 * b - a), a * a + b * b
        if n >> bit & 1:
            a, b = b, a + b
    return a


def helloworld() -> None:
    """Prints a greeting.  Python prints it, so that notebooks show it.

    >>> helloworld()
    Hello World
    """
    print("Hello World")
