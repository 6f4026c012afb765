"""The package and its peers: the statement that each one runs for a case."""

from __future__ import annotations

import importlib
import os
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

from .operands import nearest


class Lacking(Exception):
    """A peer has no such operation, type or layout."""


class Statement(timeit.Timer):
    """A statement with the names it uses."""

    def __init__(self, text: str, **names: Any) -> None:
        super().__init__(text, globals=names)
        self.text, self.names = text, names

    def value(self) -> Any:
        return eval(self.text, self.names)

    def tried(self) -> Statement:
        """Runs it once: a peer that cannot do this raises."""
        self.value()
        return self


def _call(function: Any, inputs: list[Any], out: Any, **more: Any) -> Statement:
    names = {f"x{k}": x for k, x in enumerate(inputs)}
    keywords = {} if out is None else {"out": out}
    keywords.update(more)
    arguments = ", ".join([*names, *(f"{key}={key}" for key in keywords)])
    return Statement(f"f({arguments})", f=function, **names, **keywords)


def ours(operation: Any, device: str, inputs: list[Any], out: Any) -> Statement:
    """A call of the package."""
    return _call(operation, inputs, out, **({} if device == "cpu" else {"device": device}))


class Peer:
    """Something to compare with."""

    name = ""
    module = ""

    def __init__(self) -> None:
        self.api = importlib.import_module(self.module)
        self.version = str(self.api.__version__)

    def statement(self, op: str, char: str, inputs: list[Any], out: Any) -> Statement:
        """The same computation by this peer; `out` is None for a new output."""
        raise NotImplementedError


class NumPy(Peer):
    name, module = "NumPy", "numpy"

    def statement(self, op: str, char: str, inputs: list[Any], out: Any) -> Statement:
        return _call(nearest(op, char), inputs, out)


class NumExpr(Peer):
    name, module = "numexpr", "numexpr"

    EXPRESSIONS = {
        "add": "a + b",
        "subtract": "a - b",
        "multiply": "a * b",
        "divide": "a / b",
        "negative": "-a",
        "absolute": "abs(a)",
        "square": "a * a",
        "sqrt": "sqrt(a)",
    }

    def __init__(self) -> None:
        threads = len(os.sched_getaffinity(0))
        os.environ.setdefault("NUMEXPR_MAX_THREADS", str(threads))
        super().__init__()
        self.api.set_num_threads(threads)

    def statement(self, op: str, char: str, inputs: list[Any], out: Any) -> Statement:
        if op not in self.EXPRESSIONS or char not in ("dfil" if op != "divide" else "df"):
            raise Lacking(f"no {op} of {char}")
        operands = dict(zip("ab", inputs, strict=False))
        text = (
            "f(expression, operands, {})" if out is None else "f(expression, operands, {}, out=out)"
        )
        names = {} if out is None else {"out": out}
        return Statement(
            text, f=self.api.evaluate, expression=self.EXPRESSIONS[op], operands=operands, **names
        )


def _torch_function(torch: Any, op: str, char: str) -> Callable[..., Any]:
    if op == "divide" and np.dtype(char).kind in "iu":
        # The rounding mode is a keyword; the rest of the call is the others'.
        return lambda *args, **keywords: torch.divide(*args, rounding_mode="trunc", **keywords)
    function = getattr(torch, op, None)
    if function is None:
        raise Lacking(f"no {op}")
    return function  # type: ignore[no-any-return]


class Torch(Peer):
    name, module = "PyTorch", "torch"

    def statement(self, op: str, char: str, inputs: list[Any], out: Any) -> Statement:
        torch = self.api
        tensors = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in inputs]
        return _call(
            _torch_function(torch, op, char),
            tensors,
            None if out is None else torch.from_numpy(out),
        )


class TorchCuda(Torch):
    """There and back: host arrays in, a host array out."""

    name = "PyTorch"

    def __init__(self) -> None:
        super().__init__()
        if not self.api.cuda.is_available():
            raise ImportError("torch.cuda.is_available() is false")

    def statement(self, op: str, char: str, inputs: list[Any], out: Any) -> Statement:
        torch = self.api
        function = _torch_function(torch, op, char)
        tensors = {
            f"x{k}": torch.from_numpy(x) if isinstance(x, np.ndarray) else x
            for k, x in enumerate(inputs)
        }
        moved = [
            f"{key}.cuda()" if isinstance(x, torch.Tensor) else key for key, x in tensors.items()
        ]
        text = f"f({', '.join(moved)})"
        if out is None:
            return Statement(f"{text}.cpu()", f=function, **tensors)
        return Statement(f"out.copy_({text})", f=function, out=torch.from_numpy(out), **tensors)


class CuPy(Peer):
    """There and back: host arrays in, a host array out."""

    name, module = "CuPy", "cupy"

    def __init__(self) -> None:
        super().__init__()
        if self.api.cuda.runtime.getDeviceCount() < 1:
            raise ImportError("no GPU")

    def statement(self, op: str, char: str, inputs: list[Any], out: Any) -> Statement:
        cp = self.api
        name = "floor_divide" if op == "divide" and np.dtype(char).kind in "iu" else op
        function = getattr(cp, name, None)
        if function is None:
            raise Lacking(f"no {op}")
        names = {f"x{k}": x for k, x in enumerate(inputs)}
        moved = [f"put({key})" if isinstance(x, np.ndarray) else key for key, x in names.items()]
        text = f"get(f({', '.join(moved)}){'' if out is None else ', out=out'})"
        more = {} if out is None else {"out": out}
        return Statement(text, f=function, put=cp.asarray, get=cp.asnumpy, **names, **more)


ON_CPU: tuple[type[Peer], ...] = (NumPy, NumExpr, Torch)
ON_GPU: tuple[type[Peer], ...] = (NumPy, CuPy, TorchCuda)


def load(
    kinds: tuple[type[Peer], ...], wanted: set[str] | None
) -> tuple[dict[str, Peer], dict[str, str]]:
    """The peers that are here, and why the others are not."""
    present, absent = {}, {}
    for kind in kinds:
        if wanted is not None and kind.name.lower() not in wanted:
            continue
        try:
            present[kind.name] = kind()
        except Exception as error:  # a broken installation of a peer is no reason to stop
            text = str(error).strip()
            absent[kind.name] = text.splitlines()[0] if text else type(error).__name__
    return present, absent
