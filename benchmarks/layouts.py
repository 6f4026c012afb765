"""Layouts of real work on the GPU: stencils, images, odd offsets, every other element.

Each contender has a new result; "fused" and "compiled" are the peers' compiled kernels.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import pkg as pcd

from . import gpu_arrays
from .case import CEILING, OURS, Case, Environment, Goal, Prepared
from .expressions import COMPILED, FUSED
from .operands import check


@dataclass(frozen=True)
class ViewsCase(Case):
    """An expression over views of arrays that each library has on the GPU.

    `arrays` are of 1 to 99: name, type, shape; `views` are the expression's names and what they
    are of those.  `nbytes` are read and written by one call, each element counted once.
    """

    text: str = ""
    arrays: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
    views: tuple[tuple[str, str], ...] = ()
    nbytes: int = 0
    compiled: bool = False

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "expression": self.text, "views": dict(self.views)}

    def _views(self, arrays: dict[str, Any]) -> list[Any]:
        return [eval(view, {}, arrays) for _, view in self.views]

    def _functions(
        self, environment: Environment
    ) -> Iterator[tuple[str, gpu_arrays.Library, Callable[..., Any]]]:
        names = [name for name, _ in self.views]
        function = eval(f"lambda {', '.join(names)}: {self.text}")
        expression = pcd.Expression(self.text)
        places = [names.index(name) for name in expression.inputs]
        yield OURS, gpu_arrays.ours(), lambda *views: expression(*(views[k] for k in places))
        cupy = environment.gpu_peers.get("CuPy")
        if cupy is not None:
            library = gpu_arrays.cupy(cupy.api)
            yield FUSED, library, cupy.api.fuse(kernel_name="fused")(function)
            yield "CuPy", library, function
        torch = environment.gpu_peers.get("PyTorch")
        if torch is not None:
            library = gpu_arrays.torch(torch.api)
            yield "PyTorch", library, function
            if self.compiled:
                yield COMPILED, library, torch.api.compile(function)

    def prepare(self, environment: Environment) -> Prepared:
        prepared = Prepared(nbytes=self.nbytes)
        host = {
            name: np.resize(np.arange(1, 100).astype(type_), math.prod(shape)).reshape(shape)
            for name, type_, shape in self.arrays
        }
        views: dict[str, list[Any]] = {}
        for name, library, function in self._functions(environment):
            try:
                if library.name not in views:
                    there = {key: library.put(x) for key, x in host.items()}
                    views[library.name] = self._views(there)
                call = functools.partial(function, *views[library.name])
                result = call()
                if name == OURS:
                    got = pcd.asnumpy(result)
                    check("an expression", got, np.asarray(function(*self._views(host))), False)
                    del got
                del result
                timer = gpu_arrays.Burst(call, library.wait, gpu_arrays.BURST, False)
                prepared.timers[name] = timer
            except Exception as error:
                if name == OURS:
                    raise
                prepared.lacking[name] = (str(error).strip() or repr(error))[:200]
        gpu_arrays.add_ceiling(prepared, environment, self.nbytes)
        return prepared


_HEAT = "c + (u + d + l + r - 4 * c) * 0.1"
_SHIFTED = (
    ("c", "a[1:-1, 1:-1]"),
    ("u", "a[:-2, 1:-1]"),
    ("d", "a[2:, 1:-1]"),
    ("l", "a[1:-1, :-2]"),
    ("r", "a[1:-1, 2:]"),
)


def _view_cases(nbytes: int) -> Iterator[Case]:
    no_slower = tuple(Goal(reference=name, ratio=1) for name in ("CuPy", "PyTorch"))
    for type_ in ("f4", "f8"):
        size = np.dtype(type_).itemsize
        n = math.isqrt(nbytes // size)
        yield ViewsCase(
            "gpu layouts",
            f"heat step, five shifted views {type_}",
            9,
            (Goal(reference=FUSED, ratio=1), Goal(reference=COMPILED, ratio=0.8)),
            "cuda",
            text=_HEAT,
            arrays=(("a", type_, (n, n)),),
            views=_SHIFTED,
            nbytes=2 * (n - 2) * (n - 2) * size,
            compiled=True,
        )
    for type_ in ("f2", "f4", "f8", "u1", "i4", "i8", "c8", "c16"):
        size = np.dtype(type_).itemsize
        n = math.isqrt(nbytes // size)
        yield ViewsCase(
            "gpu layouts",
            f"a[1:-1, 1:-1] + b[1:-1, 1:-1] {type_}",
            9,
            (Goal(reference=CEILING, ratio=0.93), *no_slower),
            "cuda",
            text="a + b",
            arrays=(("x", type_, (n, n)), ("y", type_, (n, n))),
            views=(("a", "x[1:-1, 1:-1]"), ("b", "y[1:-1, 1:-1]")),
            nbytes=3 * (n - 2) * (n - 2) * size,
        )
        n = nbytes // size
        yield ViewsCase(
            "gpu layouts",
            f"a[::2] + b[::2] {type_}",
            9,
            no_slower,
            "cuda",
            text="a + b",
            arrays=(("x", type_, (n,)), ("y", type_, (n,))),
            views=(("a", "x[::2]"), ("b", "y[::2]")),
            # Memory is read in pieces of 32 bytes: what lies between is read as well.
            nbytes=2 * nbytes + nbytes // 2,
        )
    images = max(nbytes * 64 // 2**30, 1)
    shape = (images, 1080, 1920, 3) if nbytes >= 2**24 else (2, 27, 48, 3)
    pixels = math.prod(shape[:3])
    yield ViewsCase(
        "gpu layouts",
        "images u1: channel + channel",
        9,
        no_slower,
        "cuda",
        text="a + b",
        arrays=(("x", "u1", shape),),
        views=(("a", "x[..., 0]"), ("b", "x[..., 1]")),
        nbytes=4 * pixels,
    )
    yield ViewsCase(
        "gpu layouts",
        "images u1: (x - m) / s to f4",
        9,
        (Goal(reference="PyTorch", ratio=2), *no_slower),
        "cuda",
        text="(x - m) / s",
        arrays=(("p", "u1", shape), ("q", "f4", (3,)), ("t", "f4", (3,))),
        views=(("x", "p"), ("m", "q"), ("s", "t")),
        nbytes=15 * pixels,
    )
    for name, text, peer in (
        ("to planes", "xp.moveaxis(a, 3, 1)", "a.permute(0, 3, 1, 2).contiguous()"),
        ("from planes", "xp.moveaxis(a, 1, 3)", "a.permute(0, 2, 3, 1).contiguous()"),
    ):
        given = shape if name == "to planes" else (images, 3, *shape[1:3])
        axes = (3, 1) if name == "to planes" else (1, 3)
        yield gpu_arrays.GpuCase(
            "gpu layouts",
            f"images u1: {name}",
            9,
            no_slower,
            "cuda",
            statement=f"{text}.copy()",
            peers=(("PyTorch", peer), ("CuPy", f"xp.ascontiguousarray({text})")),
            arrays=(("a", "u1", given),),
            expected=lambda a, axes=axes: np.moveaxis(a, *axes),
            nbytes=6 * pixels,
        )
    rows = max(nbytes // (4 * 512 * 1024) // 2, 1)
    yield gpu_arrays.GpuCase(
        "gpu layouts",
        "x - mean(x, axis=-1) f4",
        9,
        no_slower,
        "cuda",
        statement="a - xp.mean(a, axis=-1, keepdims=True)",
        peers=(("PyTorch", "a - xp.mean(a, dim=-1, keepdim=True)"),),
        arrays=(("a", "f4", (rows, 512, 1024)),),
        nbytes=3 * rows * 512 * 1024 * 4,
    )


def list_cases(nbytes: int) -> list[Case]:
    """All cases of layouts; large arrays have `nbytes`."""
    return list(_view_cases(nbytes))
