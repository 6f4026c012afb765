"""fingerprint(): equal arrays that differ by it, or different ones that do not."""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path
from typing import Any

import generators
import numpy as np
import pytest

import pkg as pcd
from pkg import _fingerprint, fingerprint
from pkg._table import DTYPES

pytestmark = pytest.mark.usefixtures("quiet")


def _values(dtype: Any, n: int, seed: int) -> np.ndarray[Any, Any]:
    if np.dtype(dtype) == np.bool_:
        return generators.values(np.dtype("i1"), n, seed) % 2 == 1
    return generators.values(dtype, n, seed)


# ---- The definition, element by element ----

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def _f(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _MASK
    return x ^ x >> 31


def _seed(lane: int, axis: int, place: int) -> int:
    return _f(((axis * 2 + lane) * 2 + place + 1) * _GOLDEN & _MASK)


def _key(lane: int, indices: tuple[int, ...]) -> int:
    digits = [(axis, k, i >> 14 * k & 16383) for axis, i in enumerate(indices) for k in (0, 1)]
    return sum(_f(i * _GOLDEN + _seed(lane, axis, k) & _MASK) for axis, k, i in digits) & _MASK


def _reference(x: np.ndarray[Any, Any]) -> str:
    real = x[..., np.newaxis] if x.dtype.kind == "c" else x
    if x.dtype.kind == "c":
        real = np.concatenate([real.real, real.imag], -1)
    real = real.astype(real.dtype.newbyteorder("="))
    lanes = []
    for lane in (0, 1):
        total = 0
        for index in np.ndindex(real.shape):
            bits = int.from_bytes(real[index].tobytes(), "little")
            if real.dtype.kind == "f" and np.isnan(real[index]):
                bits = {2: 0x7C01, 4: 0x7F800001, 8: 0x7FF0000000000001}[real.itemsize]
            total += _f(bits ^ _key(lane, index))
        for n in (ord(x.dtype.kind) << 8 | x.itemsize, x.ndim, *x.shape):
            total = _f((total ^ n) + _seed(lane, 64, 0) & _MASK)
        lanes.append(total)
    return f"{lanes[0]:016x}{lanes[1]:016x}"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 1, 5), (2, 0, 3), (1, 4)], ids=str)
def test_as_it_is_defined(dtype: Any, shape: tuple[int, ...]) -> None:
    x = _values(dtype, int(np.prod(shape)), 1).reshape(shape)
    assert fingerprint(x) == _reference(x)


@pytest.mark.parametrize("shape", [(16383,), (16384,), (16385,), (40000,), (40000, 1), (2, 16390)])
def test_indices_of_two_digits(shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape), dtype="u2").reshape(shape)
    assert fingerprint(x) == _reference(x)


def test_it_stays_what_it_is() -> None:
    """Fingerprints are kept beside data, so they change with major versions only."""
    assert fingerprint(np.arange(3.0)) == "bebd358d2ff2d87c5b94799586d495e9"


# ---- Equal arrays ----


def _layouts(x: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    wide = np.repeat(x, 2, -1)
    packed = np.zeros(x.shape, np.dtype([("a", "i1"), ("x", x.dtype)]))
    packed["x"] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    return {
        "Fortran": np.asfortranarray(x),
        "strided": wide[..., ::2],
        "reversed": x[::-1].copy()[::-1],
        "transposed": np.ascontiguousarray(x.T).T,
        "other byte order": x.astype(x.dtype.newbyteorder()),
        "unaligned": packed["x"],
        "read-only": frozen,
    }


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layouts(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = _values(dtype, 4 * 5 * 6, 2).reshape(4, 5, 6)
    wanted = fingerprint(x)
    for limit in (_fingerprint._CPU_COUNT, 7, 1):
        monkeypatch.setattr(_fingerprint, "_CPU_COUNT", limit)
        for name, same in _layouts(x).items():
            assert fingerprint(same) == wanted, (name, limit)
    assert fingerprint(x.tolist()) == wanted or dtype not in (np.float64, np.int64, np.bool_)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_on_a_gpu(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only numbers are copied to the host."""
    x = _values(dtype, 4 * 5 * 6, 2).reshape(4, 5, 6)
    wanted = fingerprint(x)
    y = pcd.asarray(x, device="cuda")
    turned = pcd.asarray(np.ascontiguousarray(x.T), device="cuda").T
    wide = pcd.asarray(np.repeat(x, 2, -1), device="cuda")[::-1][::-1, :, ::2]
    for limit in (_fingerprint._GPU_COUNT, 7):
        monkeypatch.setattr(_fingerprint, "_GPU_COUNT", limit)
        for same in (y, turned, wide):
            assert fingerprint(same) == wanted
    with pcd.default_device("cuda"):
        assert fingerprint(x) == fingerprint(y) == wanted
    with pcd.default_device("cpu"):
        assert fingerprint(y) == wanted
    assert fingerprint(pcd.asarray(x.reshape(-1)[3], device="cuda")) == fingerprint(
        x.reshape(-1)[3]
    )


@pytest.mark.gpu
def test_large_on_a_gpu() -> None:
    x = np.arange(100_000).reshape(5, -1)
    assert fingerprint(pcd.asarray(x, device="cuda")) == fingerprint(x)


def test_threads_and_levels_change_nothing() -> None:
    x = _values(np.dtype("f4"), 300_000, 3)
    wanted = fingerprint(x)
    before = pcd.get_num_threads()
    try:
        pcd.set_num_threads(1)
        pcd.core.set_cpu_level("generic")
        assert fingerprint(x) == wanted
    finally:
        pcd.set_num_threads(before)
        pcd.core.set_cpu_level(None)


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "c8", "c16"])
def test_nans_are_one(kind: str) -> None:
    x = np.ones(4, kind)
    x[2] = np.nan
    y = x.copy()
    y.view(f"u{y.real.itemsize}")[2 * (1 + (kind[0] == "c"))] |= 5  # the payload
    z = np.copysign(y, -1) if kind[0] == "f" else y
    z[[0, 1, 3]] = 1
    assert not np.array_equal(x.view("u1"), z.view("u1"))
    assert fingerprint(x) == fingerprint(y) == fingerprint(z)


@pytest.mark.parametrize("library", ["h5py", "zarr"])
def test_datasets(library: str, tmp_path: Path) -> None:
    module = pytest.importorskip(library)
    x = _values(np.dtype("f4"), 60 * 70, 4).reshape(60, 70)
    options = {"shape": x.shape, "dtype": x.dtype, "chunks": (16, 32)}
    if library == "h5py":
        with module.File(tmp_path / "x.h5", "w") as file:
            data = file.create_dataset("x", **options)
            data[...] = x
            assert fingerprint(data) == fingerprint(x)
    else:
        data = module.create_array(store=tmp_path / "x.zarr", **options)
        data[...] = x
        assert fingerprint(data) == fingerprint(x)


# ---- Different arrays ----


def test_values_types_shapes_and_places_count() -> None:
    x = np.arange(12.0)
    different = [
        x, x[::-1], x + 1, np.roll(x, 1), x.astype("f4"), x.astype("i8"), x.astype("c16"),
        x.view("i8"), x.view("u8"), x.reshape(3, 4), x.reshape(4, 3), x.reshape(1, 12),
        x.reshape(12, 1), x.reshape(3, 4).T, x[:11], np.append(x, 0), np.zeros(12), -np.zeros(12),
        np.zeros(0), np.zeros(0, "f4"), np.zeros((0, 3)), np.zeros((3, 0)), np.zeros(()),
        np.array(0), np.array(False), np.array(0j), np.array([0j, 1]), np.array([0j, 1j]),
    ]  # fmt: skip
    assert len({fingerprint(y) for y in different}) == len(different)


@pytest.mark.parametrize("dtype", ["u1", "f2", "i4", "f8"])
def test_one_or_two_changes_show(dtype: str) -> None:
    """Each changed bit and each exchange of two elements shows in both halves of the digits."""
    x = np.arange(40).astype(dtype)
    found = [fingerprint(x)]
    bits = x.view(f"u{x.itemsize}")
    for i, bit in itertools.product(range(x.size), range(8 * x.itemsize)):
        bits[i] ^= 1 << bit
        if not (dtype[0] == "f" and np.isnan(x[i])):
            found.append(fingerprint(x))
        bits[i] ^= 1 << bit
    for i, j in itertools.combinations(range(x.size), 2):
        x[[i, j]] = x[[j, i]]
        found.append(fingerprint(x))
        x[[i, j]] = x[[j, i]]
    for half in (slice(0, 16), slice(16, 32)):
        assert len({text[half] for text in found}) == len(found)


def test_every_bit_of_the_result_depends_on_a_bit() -> None:
    """Half of the bits change, as for random numbers: 2,000 trials, six deviations."""
    x = np.zeros(2000, "u8")
    before = int(fingerprint(x), 16)
    counts = np.zeros(128)
    for i in range(x.size):
        x[i] ^= np.uint64(1 << i % 64)
        after = int(fingerprint(x), 16)
        counts += [(before ^ after) >> k & 1 for k in range(128)]
        before = after
    assert abs(counts - 1000).max() < 6 * np.sqrt(500)


def test_short_prefixes_collide_as_random_numbers() -> None:
    """Of 20,000 arrays that differ little, 16 to 80 pairs share 22 bits; 48 are expected."""
    texts = [fingerprint(np.array([i % 7, i // 7, 3], "i4")) for i in range(20_000)]
    for bits in ([int(t, 16) >> 106 for t in texts], [int(t, 16) & 2**22 - 1 for t in texts]):
        pairs = sum(n * (n - 1) // 2 for n in np.unique(bits, return_counts=True)[1].tolist())
        assert 16 <= pairs <= 80, pairs


# ---- Memory and errors ----


def test_memory_is_bounded() -> None:
    """Other layouts and byte orders are copied in pieces."""
    x = np.ones((1 << 12, 1 << 12), ">f4")
    fingerprint(x[:2])
    for y in (x, x.T, x[:, ::-2], np.broadcast_to(np.float64(1), (1 << 12, 1 << 13))):
        tracemalloc.start()
        fingerprint(y)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 3 * 8 * _fingerprint._CPU_COUNT


def test_what_has_no_fingerprint() -> None:
    for x, text in (
        (np.array(["a"]), "<U1"),
        (np.array([None]), "object"),
        (np.array(1, "M8[s]"), "datetime64"),
        (np.ones(2, "g"), "longdouble|float128"),
        ("text", "str"),
        (None, "NoneType"),
    ):
        with pytest.raises(TypeError, match=text) as info:
            fingerprint(x)
        assert "fingerprint() takes arrays of bool, int8" in str(info.value)
    with pytest.raises(TypeError, match="operand of fingerprint.*MaskedArray.*rules of its own"):
        fingerprint(np.ma.array([1.0]))
