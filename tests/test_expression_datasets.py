"""`out=` into arrays of h5py and Zarr, which may be larger than memory: no part is left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pkg as pcd
from pkg import Expression, evaluate
from pkg.expressions import datasets

Make = Callable[..., Any]


@pytest.fixture(params=["h5py", "zarr", "zarr shards"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Makes arrays in a file: ``make(name, shape, dtype, chunks)``."""
    library = request.param.split()[0]
    module = pytest.importorskip(library)
    if library == "h5py":
        with module.File(tmp_path / "file.h5", "w") as file:
            yield lambda name, shape, dtype, chunks=None: file.create_dataset(
                name, shape, dtype, chunks=chunks
            )
        return
    group = module.open_group(tmp_path / "store", mode="w")

    def create(name: str, shape: Any, dtype: Any, chunks: Any = "auto") -> Any:
        if request.param == "zarr shards" and chunks != "auto":
            shards = tuple(2 * k for k in chunks)
            return group.create_array(name, shape=shape, dtype=dtype, chunks=chunks, shards=shards)
        return group.create_array(name, shape=shape, dtype=dtype, chunks=chunks)

    yield create


@pytest.mark.parametrize("nbytes", [8, 1000, 1 << 25])
@pytest.mark.parametrize(
    ("shape", "chunks"),
    [((7, 11), (3, 4)), ((7, 11), None), ((23,), (5,)), ((3, 1, 9), (2, 1, 2)), ((), None)],
)
def test_pieces(
    nbytes: int, shape: Any, chunks: Any, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs in files and in memory, broadcast, with any pieces and chunks."""
    monkeypatch.setattr(datasets, "_PIECE_NBYTES", nbytes)
    rng = np.random.default_rng(3)
    a, b, row = rng.random(shape), rng.random(shape), rng.random(shape[-1:])
    of_chunks = () if chunks is None else (chunks,)
    stored = make("a", shape, "f8", *of_chunks)
    stored[...] = a
    out = make("out", shape, "f8", *of_chunks)
    assert evaluate("(x * b + row) / k", {"x": stored, "b": b, "row": row, "k": 3}, out=out) is out
    assert np.array_equal(out[...], (a * b + row) / 3)
    # In place.
    evaluate("x + x", {"x": out}, out=out)
    assert np.array_equal(out[...], 2 * ((a * b + row) / 3))


def test_pieces_are_small(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """No piece exceeds the limit, except a single chunk, and each has whole chunks."""
    monkeypatch.setattr(datasets, "_PIECE_NBYTES", 100 * 8)
    seen: list[Any] = []

    class Recorded:
        def __init__(self, of: Any) -> None:
            self._of = of

        shape = property(lambda self: self._of.shape)
        dtype = property(lambda self: self._of.dtype)
        chunks = property(lambda self: self._of.chunks)
        shards = property(lambda self: getattr(self._of, "shards", None))

        def __getitem__(self, part: Any) -> Any:
            return self._of[part]

        def __setitem__(self, part: Any, x: Any) -> None:
            seen.append((part, x.size))
            self._of[part] = x

    out = Recorded(make("out", (40, 30), "f8", (2, 5)))
    evaluate("x + 1", {"x": np.zeros((40, 30))}, out=out)
    assert len(seen) > 10 and max(size for _, size in seen) <= 100
    assert sum(size for _, size in seen) == 1200
    assert all(
        part.start % k == 0 for parts, _ in seen for part, k in zip(parts, (2, 5), strict=True)
    )


def test_a_refused_element_writes_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative exponent in the last piece is found before the first is written."""
    monkeypatch.setattr(datasets, "_PIECE_NBYTES", 80)
    exponents = make("n", (100,), "i4", (10,))
    exponents[...] = np.arange(100) % 5
    out = make("out", (100,), "i8", (10,))
    out[...] = 77
    given = {"x": np.arange(100), "n": exponents, "k": np.int8(3)}
    assert evaluate("x ** n + k", given, out=out) is out
    assert np.array_equal(out[...], np.arange(100) ** (np.arange(100) % 5) + 3)
    out[...] = 77
    exponents[99] = -1
    for text in ("x ** n", "k ** n", "x + 2 ** n", "where(x > 0, x, k) ** n"):
        with pytest.raises(ValueError, match="exponent -1 is negative"):
            evaluate(text, given, out=out)
        assert (out[...] == 77).all()
    evaluate("k ** m", {"k": 2, "m": 5}, out=out)
    assert (out[...] == 32).all()
    heard: list[str] = []
    with np.errstate(divide="call", call=lambda kind, _: heard.append(kind)):
        evaluate("x ** x + 1 / (x - 9)", {"x": np.arange(10)}, out=make("f", (10,), "f8", (10,)))
    assert len(heard) == 1  # not as the exponents are looked through


def scaled(x: Any) -> Any:
    return x * 2


def test_types_and_shapes(make: Make) -> None:
    x = np.arange(6.0).reshape(2, 3)
    out = make("out", (2, 3), "f4")
    with pytest.raises(TypeError, match="cannot cast the result from float64 to out's float32"):
        evaluate("x * 2", out=out)
    evaluate("x * 2", out=out, casting="same_kind")
    assert np.array_equal(out[...], x * 2)
    with pytest.raises(ValueError, match=r"out has shape \(2, 3\), but the result has \(3, 2\)"):
        evaluate("y * 2", {"y": x.T}, out=out, casting="same_kind")
    with pytest.raises(ValueError, match=r"inputs do not broadcast: x \(2, 3\), y \(3, 2\)"):
        evaluate("x * y", {"x": out, "y": x.T}, out=out)
    with pytest.raises(ValueError, match=r"^scaled\(\): out has shape \(2, 3\)"):
        pcd.fuse(scaled)(x.T, out=out)
    wide = make("wide", (4, 2, 3), "f8")
    Expression("x + 1")(x, out=(wide,))
    assert np.array_equal(wide[...], np.broadcast_to(x + 1, (4, 2, 3)))
    row = make("row", (3,), "f8")
    evaluate("sum(x, axis=0)", out=row)
    assert np.array_equal(row[...], x.sum(axis=0))
    evaluate("1 + 2", out=row)
    assert np.array_equal(row[...], [3, 3, 3])
    none = make("none", (0, 3), "f8")
    assert evaluate("x + 1", {"x": np.zeros((0, 3))}, out=none) is none
    with pytest.raises(TypeError, match="cannot cast"):
        evaluate("x + 1j", {"x": np.zeros((0, 3))}, out=none)


@pytest.mark.gpu
def test_device(make: Make) -> None:
    x = np.arange(60.0).reshape(6, 10)
    out = make("out", (6, 10), "f8")
    evaluate("x * x + 1", out=out, device="cuda")
    assert np.array_equal(out[...], x * x + 1)
    with pytest.raises(TypeError, match="out must be an array where the operands are"):
        evaluate("x + 1", {"x": pcd.asarray(x, device="cuda")}, out=out)


def test_a_null_dataspace_is_no_output(tmp_path: Path) -> None:
    """It is a dataset without a shape."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "file.h5", "w") as file:
        file["none"] = h5py.Empty("f8")
        with pytest.raises(TypeError, match=r"out of evaluate\(\).*\(a null dataspace\)"):
            evaluate("1 + 2", out=file["none"])


def test_a_null_dataspace_is_no_input(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "file.h5", "w") as file:
        file["none"] = h5py.Empty("f8")
        for call in (
            pcd.fingerprint,
            pcd.Expression("x + 1"),
            pcd.Expression("sum(x)"),
            lambda x: pcd.add(x, 1),
            pcd.sum,
            pcd.asarray,
        ):
            with pytest.raises(TypeError, match=r"no elements \(a null dataspace\)"):
                call(file["none"])
