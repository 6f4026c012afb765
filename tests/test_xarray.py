"""pkg.xarray: dimensions, coordinates and laziness that get lost; an import that nobody wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pkg as pcd

xr = pytest.importorskip("xarray")

import pkg.xarray  # noqa: E402

NDVI = "(nir - red) / (nir + red)"


@pytest.fixture
def scene() -> Any:
    rng = np.random.default_rng(1)
    return xr.Dataset(
        {
            "nir": (("y", "x"), rng.random((20, 30), "f4"), {"unit": "W"}),
            "red": (("x", "y"), rng.random((30, 20), "f4")),
            "row": ("x", rng.random(30)),
            "mask": (("y", "x"), rng.random((20, 30)) > 0.5),
        },
        {"x": np.arange(30) * 10, "y": np.arange(20.0)},
    )


def assert_same(got: Any, want: Any) -> None:
    xr.testing.assert_identical(got.drop_attrs().rename(None), want.drop_attrs().rename(None))
    assert got.dtype == want.dtype and got.values.tobytes() == want.values.tobytes()


def wanted(scene: Any) -> Any:
    return (scene.nir - scene.red) / (scene.nir + scene.red)


def test_evaluate_on_a_dataset(scene: Any) -> None:
    assert_same(scene.pcd.evaluate(NDVI), wanted(scene))
    assert_same(scene.pcd.evaluate("nir + row * k", k=2), scene.nir + scene.row * 2)
    assert_same(scene.pcd.evaluate("x + nir"), scene.x + scene.nir)
    assert_same(scene.pcd.evaluate(pcd.Expression("nir * z"), z=scene.row), scene.nir * scene.row)
    assert_same(scene.pcd.evaluate("where(mask, nir, 0)"), scene.nir.where(scene["mask"], 0))
    with pytest.raises(KeyError, match="the expression uses blue, green; the Dataset has nir, red"):
        scene.pcd.evaluate("blue + green + nir")


def test_evaluate_on_a_dataarray(scene: Any) -> None:
    assert_same(scene.nir.pcd.evaluate("x * 2 + 1"), scene.nir * 2 + 1)
    got = scene.nir.pcd.evaluate("(x - low) / (high - low)", low=0.5, high=scene.row)
    assert_same(got, (scene.nir - 0.5) / (scene.row - 0.5))
    for text, more in (("x + y", {}), ("x + 1", {"x": 2})):
        with pytest.raises(TypeError, match="one name of the expression must stand for the Data"):
            scene.nir.pcd.evaluate(text, **more)


def test_apply(scene: Any) -> None:
    """Applies to DataArrays by position and name, and to each variable of Datasets."""
    ndvi = pcd.Expression(NDVI)
    assert_same(pkg.xarray.apply(ndvi, scene.nir, scene.red), wanted(scene))
    assert_same(pkg.xarray.apply(NDVI, red=scene.red, nir=scene.nir), wanted(scene))
    double = pkg.xarray.apply(pcd.fuse(lambda v: v * 2), scene[["nir", "row"]])
    xr.testing.assert_identical(double.drop_attrs(), (scene[["nir", "row"]] * 2).drop_attrs())
    assert double.nir.dtype == "f4" and double.row.dtype == "f8"
    assert pkg.xarray.apply("a + 1", 2) == 3
    scaled = pcd.fuse(lambda unused, nir, scale=2: nir * scale)
    for got in (
        pkg.xarray.apply(scaled, 0, scene.nir),
        scene.nir.pcd.evaluate(scaled),
        scene.pcd.evaluate(scaled),
    ):
        assert_same(got, scene.nir * 2)
    assert_same(scene.pcd.evaluate(scaled, scale=scene.row), scene.nir * scene.row)
    kept = pkg.xarray.apply("a * 2", scene.nir, keep_attrs=True)
    assert kept.attrs == {"unit": "W"}
    for operands, named in (((1,), {}), ((1, 2, 3), {}), ((1, 2), {"red": 3}), ((1, 2), {"k": 3})):
        with pytest.raises(TypeError, match="the inputs of the expression are nir, red: "):
            pkg.xarray.apply(ndvi, *operands, **named)
    with pytest.raises(TypeError, match="takes an Expression or its text, not int"):
        pkg.xarray.apply(3)  # type: ignore[arg-type]


def test_coordinates_that_differ_are_an_error(scene: Any) -> None:
    moved = scene.red.assign_coords(x=scene.x + 10)
    with pytest.raises(ValueError, match="exact|not equal"):
        pkg.xarray.apply(NDVI, scene.nir, moved)
    got = pkg.xarray.apply(NDVI, scene.nir, moved, join="inner")
    with xr.set_options(arithmetic_join="inner"):
        assert_same(got, (scene.nir - moved) / (scene.nir + moved))


def test_reductions_have_names_of_dimensions(scene: Any) -> None:
    with pytest.raises(TypeError, match=r"ends in sum\(\).*\.pcd\.sum\(dim\)"):
        scene.pcd.evaluate("sum(nir * red)")
    nir = scene.nir
    for name in ("sum", "prod", "min", "max", "mean"):
        for dim, axis in (("x", 1), (None, None), (["y", "x"], (0, 1))):
            got = getattr(nir.pcd, name)(dim)
            want = getattr(pcd, name)(nir.values, axis=axis)
            assert got.values.tobytes() == want.tobytes(), (name, dim)
        assert getattr(nir.pcd, name)("x", keepdims=True).shape == (20, 1)
    assert scene[["nir", "row"]].pcd.sum("x").nir.dims == ("y",)


def test_reductions_leave_out_text() -> None:
    """As in xarray: text without a reduced dimension stays, and a DataArray of text is an error."""
    scene = xr.Dataset(
        {
            "a": ("x", [1.5, 2.0]),
            "station": ("x", ["u", "v"]),
            "note": ("x", np.array(["p", None], object)),
            "sensor": ("y", ["near", "far"]),
            "title": ((), "scene"),
            "mask": ("x", [True, False]),
        }
    )
    plain = scene.drop_vars(["station", "note", "title"])
    for name in ("sum", "prod", "min", "max", "mean"):
        got = getattr(scene.pcd, name)("x")
        assert got.title == "scene" and got.sensor.values.tolist() == ["near", "far"]
        assert got.drop_vars("title").identical(getattr(plain, name)("x")), name
        assert list(getattr(scene.pcd, name)()) == ["a", "title", "mask"]
        assert getattr(scene.pcd, name)("x", keepdims=True).a.shape == (1,)
        with pytest.raises(TypeError, match="<U1"):
            getattr(scene.station.pcd, name)("x")
    when = scene.assign(when=("x", np.array([1, 2], "M8[s]")))
    with pytest.raises(TypeError, match="datetime64"):
        when.pcd.min("x")


def test_chunks_stay_lazy(scene: Any) -> None:
    pytest.importorskip("dask.array")
    lazy = scene.chunk({"x": 7, "y": 6})
    got = lazy.pcd.evaluate(NDVI)
    assert got.chunks is not None and got.dtype == "f4"
    assert_same(got.compute(), wanted(scene))
    assert_same(lazy.pcd.evaluate("nir + row").compute(), scene.nir + scene.row)
    both = pkg.xarray.apply("v + 1", lazy[["nir", "row"]])
    assert (both.nir.dtype, both.row.dtype) == ("f4", "f8")
    assert_same(both.row.compute(), scene.row + 1)
    assert lazy.nir.pcd.sum("x").chunks is not None
    with pytest.raises(TypeError, match="fingerprint.*dask"):
        lazy.nir.pcd.fingerprint()
    assert got.compute().pcd.fingerprint() == wanted(scene).pcd.fingerprint()


@pytest.mark.parametrize("chunks", [{"x": 5, "y": 4}, {"x": 30}, None])
def test_chunks_are_aligned(scene: Any, chunks: Any) -> None:
    """Chunks of one operand meet other chunks of the other, or an array without chunks."""
    pytest.importorskip("dask.array")
    nir, red = scene.nir.chunk({"x": 7, "y": 6}), scene.red
    red = red if chunks is None else red.chunk(chunks)
    both = pkg.xarray.apply(NDVI, nir=nir, red=red)
    assert both.chunks is not None and both.dtype == "f4"
    assert_same(both.compute(), wanted(scene))
    got = pkg.xarray.apply("a - b * c", nir, red.isel(x=0, drop=True), np.float32(2))
    assert_same(got.compute(), scene.nir - scene.red.isel(x=0, drop=True) * 2)
    total = pkg.xarray.apply("a - b", nir.sum(), red.sum())
    assert total.compute() == nir.sum().compute() - red.sum().compute()


@pytest.mark.gpu
def test_on_a_gpu(scene: Any) -> None:
    there = scene.pcd.to_device("cuda")
    assert isinstance(there.nir.data, pcd.Array) and there.nir.attrs == {"unit": "W"}
    got = there[["nir", "row"]].pcd.evaluate("nir * 2 + row")
    assert isinstance(got.data, pcd.Array)
    assert_same(got.pcd.to_device("cpu"), scene.nir * 2 + scene.row)
    assert got.pcd.fingerprint() == (scene.nir * 2 + scene.row).pcd.fingerprint()
    plain = pcd.evaluate("nir * 2 + row", there[["nir", "row"]])
    assert isinstance(plain, pcd.Array) and plain.tolist() == got.data.tolist()
    named = scene.assign(title="scene").pcd.to_device("cuda")
    assert isinstance(named.nir.data, pcd.Array) and named.title == "scene"
    total = there.nir.pcd.sum("x")
    assert isinstance(total.data, pcd.Array)
    assert pcd.asnumpy(total.data).tobytes() == pcd.sum(scene.nir.values, axis=1).tobytes()


def test_elements_stay_where_they_are(scene: Any) -> None:
    """Nothing moves unless a device is named; elements already there are not copied."""
    with pytest.raises(TypeError, match=r"to_device\(\): device must be .*, not None"):
        scene.pcd.to_device(None)
    assert np.shares_memory(scene.nir.pcd.to_device("cpu").data, scene.nir.data)


def test_nothing_imports_xarray_unasked(python: Callable[..., str]) -> None:
    python("import sys, pkg; assert 'xarray' not in sys.modules and not hasattr(pkg, 'xarray')")
    python("import xarray, pkg; assert not hasattr(xarray.DataArray, 'pcd')")
    python("import pkg.xarray, xarray; assert hasattr(xarray.DataArray, 'pcd')")


@pytest.mark.parametrize("keep", ["default", True, False])
def test_attributes_are_kept_as_xarrays_arithmetic_keeps_them(scene: Any, keep: Any) -> None:
    scene.nir.attrs.update(sensor="a", name="nir")
    scene.red.attrs.update(sensor="a", name="red")
    with xr.set_options(keep_attrs=keep):
        want = (scene.nir + scene.red).attrs
        assert scene.pcd.evaluate("nir + red").attrs == want
        assert pkg.xarray.apply("a + b", scene.nir, scene.red).attrs == want
        assert scene.nir.pcd.evaluate("x * 2").attrs == (scene.nir * 2).attrs
        assert scene.nir.pcd.sum().attrs == scene.nir.sum().attrs
