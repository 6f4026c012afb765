"""Layouts of real work on the GPU: stencils, images, odd offsets, every other element.

Each contender has a new result; "fused" and "compiled" are the peers' compiled kernels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import gpu_arrays
from .case import CEILING, Case, Environment, Goal, Prepared
from .expressions import COMPILED, FUSED, add_bursts, on_gpu
from .gpu_arrays import Arrays, GpuCase, vectors


@dataclass(frozen=True)
class ViewsCase(Case):
    """An expression over views of arrays that each library has on the GPU.

    `arrays` are of 1 to 99: name, type, shape; `views` maps the expression's names to views of
    them.  One call reads and writes `nbytes`; each element counts once.
    """

    device: str = "cuda"
    text: str = ""
    arrays: Arrays = ()
    views: tuple[tuple[str, str], ...] = ()
    nbytes: int = 0
    compiled: bool = False

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "expression": self.text, "views": dict(self.views)}

    def _views(self, arrays: dict[str, Any]) -> list[Any]:
        return [eval(view, {}, arrays) for _, view in self.views]

    def prepare(self, environment: Environment) -> Prepared:
        prepared = Prepared(nbytes=self.nbytes)
        host = {
            name: np.resize(np.arange(1, 100).astype(type_), math.prod(shape)).reshape(shape)
            for name, type_, shape in self.arrays
        }
        names = [name for name, _ in self.views]
        function = eval(f"lambda {', '.join(names)}: {self.text}")
        add_bursts(
            prepared,
            on_gpu(self.text, names, environment, self.compiled),
            lambda library: self._views({key: library.put(x) for key, x in host.items()}),
            function(*self._views(host)),
        )
        gpu_arrays.add_ceiling(prepared, environment)
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
    no_slower = (Goal("CuPy", 1), Goal("PyTorch", 1))
    for type_ in ("f4", "f8"):
        size = np.dtype(type_).itemsize
        n = math.isqrt(nbytes // size)
        yield ViewsCase(
            "gpu layouts",
            f"heat step, five shifted views {type_}",
            goals=(Goal(FUSED, 1), Goal(COMPILED, 0.8)),
            text=_HEAT,
            arrays=vectors("a", type_, n, n),
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
            goals=(Goal(CEILING, 0.93), *no_slower),
            text="a + b",
            arrays=vectors("xy", type_, n, n),
            views=(("a", "x[1:-1, 1:-1]"), ("b", "y[1:-1, 1:-1]")),
            nbytes=3 * (n - 2) * (n - 2) * size,
        )
        yield ViewsCase(
            "gpu layouts",
            f"a[::2] + b[::2] {type_}",
            goals=no_slower,
            text="a + b",
            arrays=vectors("xy", type_, nbytes // size),
            views=(("a", "x[::2]"), ("b", "y[::2]")),
            # Memory is read in pieces of 32 bytes, so skipped elements are read too.
            nbytes=2 * nbytes + nbytes // 2,
        )
    images = max(nbytes * 64 // 2**30, 1)
    shape = (images, 1080, 1920, 3) if nbytes >= 2**24 else (2, 27, 48, 3)
    pixels = math.prod(shape[:3])
    yield ViewsCase(
        "gpu layouts",
        "images u1: channel + channel",
        goals=no_slower,
        text="a + b",
        arrays=vectors("x", "u1", *shape),
        views=(("a", "x[..., 0]"), ("b", "x[..., 1]")),
        nbytes=4 * pixels,
    )
    yield ViewsCase(
        "gpu layouts",
        "images u1: (x - m) / s to f4",
        goals=(Goal("PyTorch", 2), *no_slower),
        text="(x - m) / s",
        arrays=vectors("p", "u1", *shape) + vectors("qt", "f4", 3),
        views=(("x", "p"), ("m", "q"), ("s", "t")),
        nbytes=15 * pixels,
    )
    scaled, named = "(a + b) / c * 0.5 + 1", "local_dict=dict(a=a, b=b, c=c)"
    yield GpuCase(
        "gpu layouts",
        "images u1: (x + m) / s * 0.5 + 1 to u1",
        goals=no_slower,
        statement=f"xp.evaluate('{scaled}', out=out, casting='unsafe', {named})",
        peers=(("PyTorch", f"({scaled}).to(xp.uint8)"), ("CuPy", f"({scaled}).astype('u1')")),
        arrays=vectors("a", "u1", *shape) + vectors("bc", "f4", 3),
        expected=lambda a, b, c: ((a + b) / c * np.float32(0.5) + 1).astype("u1"),
    )
    for terms, type_ in itertools.product((3, 24), ("f4", "f8", "i8", "c8")):
        n = math.isqrt(nbytes // np.dtype(type_).itemsize // terms)
        yield GpuCase(
            "gpu layouts",
            f"sum of {terms} terms, a[:, 1:-1, 1:-1] along axis 0 {type_}",
            goals=no_slower,
            statement="xp.sum(a[:, 1:-1, 1:-1], axis=0)",
            arrays=vectors("a", type_, terms, n, n),
            tolerance=1e-6,
        )
    for type_, tolerance in (("f4", 1e-4), ("f8", 1e-12)):
        n = math.isqrt(nbytes // np.dtype(type_).itemsize // 3)
        yield GpuCase(
            "gpu layouts",
            f"mean of 3 terms along axis 0 {type_}",
            goals=no_slower,
            statement="xp.mean(a, axis=0)",
            arrays=vectors("a", type_, 3, n, n),
            tolerance=1e-6,
        )
        n = math.isqrt(nbytes // np.dtype(type_).itemsize)
        for rows in (n, n - n // 3):
            yield GpuCase(
                "gpu layouts",
                f"sum of a transposed matrix, {rows} rows {type_}",
                goals=no_slower,
                statement="xp.sum(a.T)",
                arrays=vectors("a", type_, rows, n),
                tolerance=tolerance,
            )
    for type_ in ("u1", "f2", "f4", "f8", "c8"):
        size = np.dtype(type_).itemsize
        count = max(nbytes // size // (17 * 16) // 4, 1)
        yield ViewsCase(
            "gpu layouts",
            f"a + b.mT, planes of 17 x 16 {type_}",
            goals=no_slower,
            text="a + b",
            arrays=(("x", type_, (count, 17, 16)), ("y", type_, (count, 16, 17))),
            views=(("a", "x"), ("b", "y.mT")),
            nbytes=3 * count * 17 * 16 * size,
        )
        count = max(nbytes // size // 10_000, 1)
        yield ViewsCase(
            "gpu layouts",
            f"a[:, 1:-1, 1:-1] + b, planes of 100 x 100 {type_}",
            goals=no_slower,
            text="a + b",
            arrays=(("x", type_, (count, 100, 100)), ("b", type_, (count, 98, 98))),
            views=(("a", "x[:, 1:-1, 1:-1]"), ("b", "b")),
            nbytes=3 * count * 98 * 98 * size,
        )
    for type_, tolerance in (
        ("u1", 0),
        ("i2", 0),
        ("f2", 1e-2),
        ("f4", 1e-4),
        ("i8", 0),
        ("f8", 1e-12),
        ("c8", 1e-4),
    ):
        # Pictures without their edges, and planes of which few columns are an output each.
        for name, view, shape, axes in (
            ("windows of 26 x 26", "[:, 1:-1, 1:-1]", (28, 28), (1, 2)),
            ("(n, 300, 6) along axis 1", "", (300, 6), 1),
            ("(n, 33, 3, 4) along axes 1, 3", "", (33, 3, 4), (1, 3)),
        ):
            count = max(nbytes // 4 // np.dtype(type_).itemsize // math.prod(shape), 1)
            yield GpuCase(
                "gpu layouts",
                f"sum of {name} {type_}",
                goals=no_slower,
                statement=f"xp.sum(a{view}, axis={axes})",
                arrays=vectors("a", type_, count, *shape),
                tolerance=tolerance,
            )
    for type_ in ("u1", "f2", "i4", "f8"):
        yield GpuCase(
            "gpu layouts",
            f"any {type_}",
            goals=no_slower,
            statement="xp.any(a)",
            arrays=vectors("a", type_, nbytes // np.dtype(type_).itemsize),
        )
    planes = (images, 3, *shape[1:3])
    for name, given, text, permuted in (
        ("to planes", shape, "xp.moveaxis(a, 3, 1)", "a.permute(0, 3, 1, 2)"),
        ("from planes", planes, "xp.moveaxis(a, 1, 3)", "a.permute(0, 2, 3, 1)"),
    ):
        yield GpuCase(
            "gpu layouts",
            f"images u1: {name}",
            goals=no_slower,
            statement=f"{text}.copy()",
            peers=(
                ("PyTorch", f"{permuted}.contiguous()"),
                ("CuPy", f"xp.ascontiguousarray({text})"),
            ),
            arrays=vectors("a", "u1", *given),
        )
    rows = max(nbytes // (4 * 512 * 1024) // 2, 1)
    yield GpuCase(
        "gpu layouts",
        "x - mean(x, axis=-1) f4",
        goals=no_slower,
        statement="a - xp.mean(a, axis=-1, keepdims=True)",
        peers=(("PyTorch", "a - xp.mean(a, dim=-1, keepdim=True)"),),
        arrays=vectors("a", "f4", rows, 512, 1024),
        is_checked=False,
        nbytes=3 * rows * 512 * 1024 * 4,
    )


def list_cases(nbytes: int) -> list[Case]:
    """All cases of layouts; large arrays have `nbytes`."""
    return list(_view_cases(nbytes))
