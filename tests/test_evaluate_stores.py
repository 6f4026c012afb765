"""``pkg eval`` over HDF5, Zarr and netCDF: the bits, and no array that only looks whole."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from generators import values
from shared import assert_bits, names

import pkg as pcd
from pkg import _cluster, _files, _stores
from pkg._files import main

KINDS = ("h5", "zarr", "zarr group", "nc")

MODULES = {"h5": "h5py", "zarr": "zarr", "nc": "h5netcdf"}


pytestmark = pytest.mark.usefixtures("folder")


def place(kind: str, name: str) -> str:
    """Returns the command's arguments for an array; skips without the file's library."""
    if kind != "npy":
        pytest.importorskip(MODULES[kind.split()[0]])
    return {
        "h5": f"{name}.h5:/deep/er/{name}",
        "zarr": f"{name}.zarr",
        "zarr group": f"group.zarr:/{name}",
        "nc": f"{name}.nc:{name}",
        "npy": f"{name}.npy",
    }[kind]


def save(kind: str, name: str, x: Any, chunks: Any = None) -> str:
    """Saves an array; returns the argument that names it."""
    if kind == "npy":
        np.save(f"{name}.npy", x)
    else:
        module = pytest.importorskip(MODULES[kind.split()[0]])
    if kind == "h5":
        with module.File(f"{name}.h5", "a") as file:
            file.create_dataset(f"deep/er/{name}", data=x, chunks=chunks)
    elif kind.startswith("zarr"):
        chunks = chunks or tuple(max(1, -(-n // 3)) for n in x.shape)
        if kind == "zarr":
            made = module.create_array(f"{name}.zarr", shape=x.shape, dtype=x.dtype, chunks=chunks)
        else:
            group = module.open_group("group.zarr", mode="a")
            made = group.create_array(name, shape=x.shape, dtype=x.dtype, chunks=chunks)
        with np.errstate(invalid="ignore"):  # zarr 3.4 compares complex NaNs
            made[...] = x
    elif kind == "nc":
        import xarray

        dims = [f"d{k}" for k in range(x.ndim)]
        coords = {"d0": np.arange(len(x)) * 10} if x.ndim else {}
        array = xarray.DataArray(x, coords, dims, name=name)
        encoding = {name: {"_FillValue": None, "chunksizes": chunks}}
        array.to_dataset().to_netcdf(f"{name}.nc", engine="h5netcdf", encoding=encoding)
    return f"{name}={place(kind, name)}"


def save_scene(zarr_format: int, is_consolidated: bool = True) -> np.ndarray[Any, Any]:
    """Saves a group of Zarr as xarray does, in scene.zarr; returns its array `a`."""
    pytest.importorskip("zarr", "3")
    xarray = pytest.importorskip("xarray")
    a = np.arange(12.0).reshape(3, 4)
    scene = xarray.Dataset({"a": (("y", "x"), a)}, {"y": [1, 2, 3]}, {"kind": "array"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Zarr 3, whose specification lacks such metadata
        scene.to_zarr("scene.zarr", zarr_format=zarr_format, consolidated=is_consolidated)
    return a


def load(kind: str, name: str = "out") -> Any:
    if kind == "npy":
        return np.load(f"{name}.npy")
    module = pytest.importorskip(MODULES[kind.split()[0]])
    if kind == "h5":
        with module.File(f"{name}.h5") as file:
            return file[f"deep/er/{name}"][...]
    if kind.startswith("zarr"):
        return (
            module.open_array(f"{name}.zarr") if kind == "zarr" else module.open("group.zarr")[name]
        )[...]
    import xarray

    with xarray.open_dataset(f"{name}.nc") as dataset:
        return dataset[name].values


# ---- Results ----


@pytest.mark.parametrize("chunk", ["1", "3K", "64M"])
@pytest.mark.parametrize("target", [*KINDS, "npy"])
@pytest.mark.parametrize("source", [*KINDS, "npy"])
def test_from_each_to_each(source: str, target: str, chunk: str) -> None:
    a, b = (np.arange(30 * 41.0).reshape(30, 41) + k for k in (1, 2))
    files = [save(source, "a", a), save(source, "b", b, (7, 9) if source != "npy" else None)]
    arguments = ["(a - b) / (a + b) * k", *files, "k=3", "-o", place(target, "out"), "--quiet"]
    assert main([*arguments, "--chunk", chunk]) == 0
    assert_bits(load(target), (a - b) / (a + b) * 3)
    assert not [name for name in names() if name.startswith(".pkg-eval")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["i1", "u8", "f4", "f8", "?", "f2", "c8", "c16"])
def test_types(kind: str, dtype: str) -> None:
    if kind == "nc" and dtype in ("?", "f2", "c8", "c16"):
        pytest.skip("netCDF has no such type")
    a = np.arange(1000) % 3 == 0 if dtype == "?" else values(np.dtype(dtype), 1000, 3)
    a = (np.nan_to_num(a) if kind == "nc" else a).reshape(10, 100)
    a[:4] = 0  # a whole chunk, for whose negatives Zarr took its fill value
    text, wanted = ("a", a) if dtype == "?" else ("(-a)", -a)
    assert main([text, save(kind, "a", a), "-o", place(kind, "out")]) == 0
    assert_bits(load(kind), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_broadcasting_and_orders(kind: str) -> None:
    a, b = np.arange(24.0).reshape(2, 3, 4), np.arange(4.0)
    np.save("c.npy", np.asfortranarray(np.arange(12.0).reshape(3, 4)))
    files = [save(kind, "a", a), save(kind, "b", b), "c=c.npy"]
    assert main(["a * b + c", *files, "-o", place(kind, "out"), "--chunk", "100"]) == 0
    assert_bits(load(kind), a * b + np.load("c.npy"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(0, 4), (1,)])
def test_shapes_with_little_in_them(kind: str, shape: tuple[int, ...]) -> None:
    a = np.ones(shape)
    assert main(["a + 1", save(kind, "a", a), "-o", place(kind, "out")]) == 0
    assert_bits(load(kind), a + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_reductions(
    kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reductions have the bits of the array in memory; the copy in a file is made in pieces."""
    monkeypatch.setattr(_stores, "_SPOOL_NBYTES", 1000)
    a = np.random.default_rng(5).normal(size=(77, 60)).astype("f4")
    file = save(kind, "a", a, (10, 20))
    assert main(["sum(a * a)", file]) == 0
    assert capsys.readouterr().out == str(pcd.sum(a * a)) + "\n"
    assert main(["sum(a * a, axis=0)", file, "-o", place(kind, "out")]) == 0
    assert_bits(load(kind), pcd.sum(a * a, axis=0))


def test_a_reduction_without_room_for_a_copy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The full disk holds none of the files that the user has named."""

    def refuse(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    argument = save("h5", "a", np.ones((300, 1000)))
    monkeypatch.setattr(os, "posix_fallocate", refuse)
    assert main(["sum(a)", argument]) == 1
    said = capsys.readouterr().err
    assert "cannot copy a.h5:/deep/er/a to a temporary file of 2.29 MiB: No space" in said
    assert "TMPDIR" in said


@pytest.mark.parametrize("target", [*KINDS, "npy"])
@pytest.mark.parametrize("length", [0, 3])
@pytest.mark.parametrize("source", KINDS)
def test_chunks_larger_than_the_array(source: str, length: int, target: str) -> None:
    """Only datasets that may grow have such chunks; HDF5 refuses them for others."""
    a = np.ones((length, 4))
    if source == "h5":
        h5py = pytest.importorskip("h5py")
        with h5py.File("a.h5", "w") as file:
            shape = {"maxshape": (None, 4), "chunks": (100, 4)}
            file.create_dataset("deep/er/a", data=a, **shape)
        file = "a=a.h5:/deep/er/a"
    elif source == "nc":
        pytest.importorskip("h5netcdf")
        xarray = pytest.importorskip("xarray")
        dataset = xarray.Dataset({"a": (("y", "x"), a)})
        encoding = {"a": {"chunksizes": (100, 4)}}
        dataset.to_netcdf("a.nc", engine="h5netcdf", unlimited_dims=["y"], encoding=encoding)
        file = "a=a.nc:a"
    else:
        file = save(source, "a", a, (100, 4))
    assert main(["a + 1", file, "-o", place(target, "out")]) == 0
    assert_bits(load(target), a + 1)
    assert main(["sum(a)", file, "-o", "sum.npy"]) == 0


def test_netcdf_keeps_coordinates_and_unpacks() -> None:
    pytest.importorskip("h5netcdf")
    import xarray

    packed = xarray.Dataset(
        {"t": (("y", "x"), [[1.0, 2], [3, np.nan]], {"units": "K"})}, {"y": [5, 6]}
    )
    packed["t"].encoding = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -9}
    packed.to_netcdf("t.nc", engine="h5netcdf")
    assert main(["t * 2", "t=t.nc:t", "-o", "out.nc:double"]) == 0
    with xarray.open_dataset("out.nc") as out:
        assert out["double"].dims == ("y", "x") and out["y"].values.tolist() == [5, 6]
        np.testing.assert_array_equal(out["double"].values, [[2, 4], [6, np.nan]])


def test_a_dataset_joins_a_file() -> None:
    """The whole file is rewritten: its contents stay, and so do links to it."""
    h5py = pytest.importorskip("h5py")
    with h5py.File("f.h5", "w") as file:
        file["a"] = np.arange(5.0)
        file["a"].attrs["unit"] = "m"
    os.chmod("f.h5", 0o640)
    assert main(["a + 1", "a=f.h5:/a", "-o", "f.h5:/b"]) == 0
    assert main(["a + 2", "a=f.h5:a", "-o", "f.h5:/b"]) == 1
    with h5py.File("f.h5") as file:
        assert sorted(file) == ["a", "b"] and file["a"].attrs["unit"] == "m"
        assert file["b"][...].tolist() == [1, 2, 3, 4, 5]
    assert main(["a + 2", "a=f.h5:/a", "-o", "f.h5:/b", "--overwrite"]) == 0
    with h5py.File("f.h5") as file:
        assert file["b"][...].tolist() == [2, 3, 4, 5, 6]
    assert os.stat("f.h5").st_mode & 0o777 == 0o640 and names() == ["f.h5"]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_dataset_joins_a_file_that_changes(
    is_there: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Data that another command adds meanwhile must not be lost."""
    h5py = pytest.importorskip("h5py")
    np.save("a.npy", np.arange(6.0))
    if is_there:
        save("h5", "old", np.arange(6.0))
        os.rename("old.h5", "both.h5")
    fill = _stores.HDF5Output.fill

    def work(self: Any, *args: Any) -> None:
        fill(self, *args)
        with h5py.File("both.h5", "a") as file:
            file["theirs"] = np.ones(3)

    with monkeypatch.context() as patch:
        patch.setattr(_stores.HDF5Output, "fill", work)
        assert main(["a + 1", "a=a.npy", "-o", "both.h5:/ours"]) == 1
    assert "both.h5 has changed since it was copied" in capsys.readouterr().err
    with h5py.File("both.h5", "r") as file:
        assert set(file) == ({"deep", "theirs"} if is_there else {"theirs"})
    assert main(["a + 1", "a=a.npy", "-o", "both.h5:/ours"]) == 0
    assert names() == ["a.npy", "both.h5"]


def test_a_dataset_that_appears_before_the_copy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The copy contains it, and a run without --overwrite must not replace it."""
    h5py = pytest.importorskip("h5py")
    np.save("a.npy", np.arange(6.0))
    save("h5", "old", np.arange(6.0))
    create = _stores.HDF5Output.create

    def create_late(self: Any, *args: Any) -> None:
        with h5py.File("old.h5", "a") as file:
            file["ours"] = np.ones(3)
        create(self, *args)

    monkeypatch.setattr(_stores.HDF5Output, "create", create_late)
    assert main(["a + 1", "a=a.npy", "-o", "old.h5:/ours"]) == 1
    assert "old.h5:/ours exists" in capsys.readouterr().err
    assert names() == ["a.npy", "old.h5"]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_array_joins_a_group(zarr_format: int) -> None:
    """The array has the group's format; parent groups are made; consolidated metadata name it."""
    zarr = pytest.importorskip("zarr", "3")
    group = zarr.open_group("g.zarr", mode="w", zarr_format=zarr_format)
    group.create_array("a", shape=(4,), dtype="f8")[...] = np.arange(4)
    if zarr_format == 2:
        zarr.consolidate_metadata("g.zarr")
    assert main(["a + 1", "a=g.zarr:/a", "-o", "g.zarr:/deep/er/b"]) == 0
    found = zarr.open_group("g.zarr", mode="r")
    assert found["deep/er/b"][...].tolist() == [1, 2, 3, 4]
    assert found["deep/er/b"].metadata.zarr_format == zarr_format
    assert main(["a + 2", "a=g.zarr:/a", "-o", "g.zarr:/deep/er/b", "--overwrite"]) == 0
    assert zarr.open_group("g.zarr", mode="r")["deep/er/b"][...].tolist() == [2, 3, 4, 5]
    assert names() == ["g.zarr"]


@pytest.mark.parametrize("is_consolidated", [True, False])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_array_joins_a_scene_of_xarray(
    zarr_format: int, is_consolidated: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """The scene's consolidated metadata hide arrays that they lack; the scene stays readable."""
    a = save_scene(zarr_format, is_consolidated)
    import xarray
    import zarr

    if is_consolidated:
        zarr.open_group("scene.zarr", mode="r+").create_group("deep")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for folder in ("scene.zarr/deep", "scene.zarr"):
                zarr.consolidate_metadata(folder)
    for name in ("b", "deep/b"):
        assert main(["a * 0", "a=scene.zarr:/a", "-o", f"scene.zarr:/{name}"]) == 0
    assert capsys.readouterr().err == ""
    root, deep = (zarr.open_group(f"scene.zarr{name}", mode="r") for name in ("", "/deep"))
    assert sorted(root) == ["a", "b", "deep", "y"] and sorted(deep) == ["b"]
    for group in (root, deep):
        found = getattr(group.metadata, "consolidated_metadata", None)
        assert (found is not None) == is_consolidated
    with xarray.open_zarr("scene.zarr", consolidated=is_consolidated) as scene:
        assert scene["b"].dims == ("y", "x") and scene["y"].values.tolist() == [1, 2, 3]
        assert_bits(scene["b"].values, a * 0)


def is_locked() -> bool:
    """Tells whether another run of the command would wait to change what the folder holds."""
    folder = os.open(".", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(folder)
    return False


def test_runs_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs wait while one writes consolidated metadata, or has checked an HDF5 file."""
    save_scene(3)
    pytest.importorskip("h5py")
    import zarr

    calls: list[bool] = []

    def watch(owner: Any, name: str) -> None:
        call = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *args: (calls.append(is_locked()), call(*args))[1])

    watch(zarr, "consolidate_metadata")
    watch(_stores.HDF5Output, "_check_again")
    for target in ("scene.zarr:/b", "f.h5:/b"):
        assert main(["a + 1", "a=scene.zarr:/a", "-o", target]) == 0
    assert calls == [True, True] and not is_locked()


def test_runs_that_wait() -> None:
    """A signal ends the wait; all arrays are in the consolidated metadata."""
    a = save_scene(3)
    import zarr

    folder = os.open(".", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    command = [sys.executable, "-m", "pkg", "eval", "a * k", "a=scene.zarr:/a"]
    runs = [subprocess.Popen([*command, f"k={k}", "-o", f"scene.zarr:/b{k}"]) for k in range(3)]
    try:
        while len(os.listdir()) < 1 + len(runs):  # the store, and temporary folders
            assert all(run.poll() is None for run in runs)
            time.sleep(0.01)
        time.sleep(0.2)
        runs[2].terminate()
        assert runs[2].wait(60) == 128 + signal.SIGTERM
        assert not any(os.path.exists(f"scene.zarr/b{k}") for k in range(3))
        os.close(folder)
        assert [run.wait(60) for run in runs[:2]] == [0, 0]
    finally:
        for run in runs:
            run.kill()
    scene = zarr.open_group("scene.zarr", mode="r")
    assert sorted(scene) == ["a", "b0", "b1", "y"] and names() == ["scene.zarr"]
    assert_bits(scene["b1"][...], a)


@pytest.mark.parametrize(
    ("theirs", "ours", "error"),
    [
        ("/b", "/c", ""),
        ("/deep/b", "/deep/er/c", ""),
        ("/deep/b", "/c", ""),
        ("/c", "/c", "exists"),
        ("", "/c", "is not a group"),
        ("/c/b", "/c", "is not an array"),
        (" of format 2", "/c", "another format"),
    ],
)
@pytest.mark.parametrize("is_overwriting", [True, False])
@pytest.mark.parametrize("moment", ["_check", "fill"])
def test_runs_that_make_one_store(
    theirs: str,
    ours: str,
    error: str,
    is_overwriting: bool,
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Groups that the second run wants to make appear meanwhile, with other arrays."""
    zarr = pytest.importorskip("zarr", "3")
    np.save("a.npy", np.arange(3.0))
    own = getattr(_stores.ZarrOutput, moment)

    def work(self: Any, *args: Any, **more: Any) -> None:
        monkeypatch.setattr(_stores.ZarrOutput, moment, own)
        if "format" in theirs:
            zarr.open_group("s.zarr", mode="w", zarr_format=2)
        else:
            target = f"s.zarr:{theirs}" if theirs else "s.zarr"
            assert main(["a * 2", "a=a.npy", "-o", target]) == 0
        own(self, *args, **more)

    monkeypatch.setattr(_stores.ZarrOutput, moment, work)
    options = ["--overwrite"] if is_overwriting else []
    done = main(["a + 1", "a=a.npy", "-o", f"s.zarr:{ours}", *options])
    said = capsys.readouterr().err
    if error == "exists" and is_overwriting:
        assert done == 0
    elif error:
        assert done == 1 and (error in said or "exists" in said)
    else:
        assert done == 0 and said == ""
        assert zarr.open(f"s.zarr{theirs}", mode="r")[...].tolist() == [0, 2, 4]
    if done == 0:
        assert zarr.open(f"s.zarr{ours}", mode="r")[...].tolist() == [1, 2, 3]
    elif "format" not in theirs:
        assert zarr.open(f"s.zarr{theirs}", mode="r")[...].tolist() == [0, 2, 4]
    assert names() == ["a.npy", "s.zarr"]


@pytest.mark.parametrize("is_consolidated", [True, False])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_group_of_zarr_is_never_replaced(
    zarr_format: int, is_consolidated: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even if the word "array" is in the description of its arrays and in an attribute."""
    a = save_scene(zarr_format, is_consolidated)
    assert main(["a + 1", "a=scene.zarr:/a", "-o", "scene.zarr", "--overwrite"]) == 1
    assert "it exists, and is not an array of Zarr" in capsys.readouterr().err
    assert main(["a", "a=scene.zarr:/a", "-o", "a.npy"]) == 0
    assert_bits(load("npy", "a"), a)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("zarr.json", '{"node_type": "array"'),
        ("zarr.json", '["node_type", "array"]'),
        ("zarr.json", '{"node_type": "group", "attributes": {"node_type": "array"}}'),
        ("zarr.json", "\xff"),
        (".zarray", ""),
        (".zarray", "{}"),
        (".zgroup", '{"zarr_format": 2}'),
    ],
)
def test_a_folder_that_is_no_array_is_never_replaced(
    name: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged description might belong to a group."""
    pytest.importorskip("zarr")
    file = save("npy", "a", np.ones(3))
    if name == ".zgroup":
        os.mkdir("out.zarr")
        Path("out.zarr", ".zarray").write_text('{"zarr_format": 2, "shape": [3]}')
    os.makedirs("out.zarr/precious")
    Path("out.zarr", name).write_text(text, encoding="latin-1")
    assert main(["a + 1", file, "-o", "out.zarr", "--overwrite"]) == 1
    assert "it exists, and is not an array of Zarr" in capsys.readouterr().err
    assert os.path.isdir("out.zarr/precious")


# ---- Errors ----


def test_a_link_that_leads_nowhere() -> None:
    """h5py lists such a name but cannot open it."""
    h5py = pytest.importorskip("h5py")
    with h5py.File("f.h5", "w") as file:
        file["a"] = h5py.SoftLink("/nothing")
    np.save("x.npy", np.ones(3))
    assert main(["x", "x=x.npy", "-o", "f.h5:/a"]) == 1
    assert main(["x", "x=x.npy", "-o", "f.h5:/a", "--overwrite"]) == 0
    with h5py.File("f.h5") as file:
        assert_bits(file["a"][...], np.ones(3))


def test_backslashes_in_names_of_zarr() -> None:
    """Zarr takes them for slashes, and would find no array."""
    zarr = pytest.importorskip("zarr")
    np.save("x.npy", np.ones(3))
    assert main(["x", "x=x.npy", "-o", "new.zarr:/a\\b"]) == 0
    assert_bits(zarr.open("new.zarr")["a/b"][...], np.ones(3))


def test_a_link_to_an_array_of_zarr_is_replaced() -> None:
    """The array behind the link stays, and nothing else."""
    zarr = pytest.importorskip("zarr", "3")
    np.save("a.npy", np.arange(3.0))
    save("zarr group", "x", np.ones(3))
    save("zarr", "y", np.ones(3))
    os.symlink("../y.zarr", "group.zarr/link")
    assert main(["a", "a=a.npy", "-o", "group.zarr:/link", "--overwrite"]) == 0
    assert zarr.open("group.zarr")["link"][...].tolist() == [0, 1, 2]
    assert zarr.open("y.zarr")[...].tolist() == [1, 1, 1]
    assert names() == ["a.npy", "group.zarr", "y.zarr"]


def test_folders_with_a_slash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shells add the slash; the result must not be a .npy file of that name."""
    zarr = pytest.importorskip("zarr")
    save("zarr", "a", np.arange(6.0))
    titles = []
    progress = _files.Progress
    monkeypatch.setattr(_files, "Progress", lambda *x: (titles.append(x[1]), progress(*x))[1])
    assert main(["a * 2", "a=a.zarr/", "-o", "out.zarr/"]) == 0
    assert titles == ["out.zarr"]
    assert np.array_equal(zarr.open_array("out.zarr", mode="r")[:], np.arange(6.0) * 2)


@pytest.mark.parametrize("kind", [*KINDS, "npy"])
def test_an_existing_output(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is replaced only on request, and completely."""
    file = save(kind, "a", np.arange(4.0))
    save(kind, "out", np.zeros(3))
    before = names()
    assert main(["a + 1", file, "-o", place(kind, "out")]) == 1
    assert "exists; --overwrite replaces it" in capsys.readouterr().err
    assert load(kind).tolist() == [0, 0, 0] and names() == before
    assert main(["a + 1", file, "-o", place(kind, "out"), "--overwrite"]) == 0
    assert load(kind).tolist() == [1, 2, 3, 4] and names() == before
    for same in (file[2:], file[2:].replace(":/", "://").replace("er/", "er//")):
        assert main(["a", file, "-o", same, "--overwrite"]) == 1
        assert "is the input a: name another" in capsys.readouterr().err


@pytest.mark.parametrize("target", [*KINDS, "npy"])
@pytest.mark.parametrize("source", [*KINDS, "npy"])
def test_each_replaces_each(source: str, target: str) -> None:
    """An input's file does not have the name that the command was given."""
    file = save(source, "a", np.arange(4.0))
    save(target, "out", np.zeros(3))
    assert main(["a + 1", file, "-o", place(target, "out"), "--overwrite"]) == 0
    assert load(target).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("inner", ["..", "../other.zarr", ".", "./a", "a/../b", "a/."])
@pytest.mark.parametrize("file", ["g.zarr", "f.h5", "f.nc"])
def test_parts_that_lead_elsewhere(
    file: str, inner: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Parts of a path must not lead out of the store, or to an input by another name."""
    np.save("a.npy", np.ones(3))
    os.mkdir("other.zarr")
    os.mkdir("g.zarr")
    for words in (["a=a.npy", "-o", f"{file}:/{inner}"], [f"a={file}:/{inner}"]):
        assert main(["a + 1", *words, "--overwrite"]) == 2
        said = capsys.readouterr().err
        assert f"{file}:/{inner}: " in said and "no parts . and .." in said
    assert names() == ["a.npy", "g.zarr", "other.zarr"] and not os.listdir("other.zarr")


@pytest.mark.parametrize("library", ["h5py", "zarr", "xarray", "dask.array"])
def test_a_library_that_is_missing(
    library: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save("a.npy", np.ones(3))
    target = {"h5py": "out.h5:/a", "zarr": "out.zarr"}.get(library, "out.nc:a")
    monkeypatch.setitem(sys.modules, library, None)
    assert main(["a", "a=a.npy", "-o", target]) == 1
    assert f"pip install {library.split('.')[0]}" in capsys.readouterr().err.replace("'", "")
    if library != "dask.array":
        assert main(["a", f"a={target}", "-o", "out.npy"]) == 1
        assert f"the package {library}" in capsys.readouterr().err
    if library == "h5py":  # which h5netcdf needs
        monkeypatch.setitem(sys.modules, "netCDF4", None)
        assert main(["a", "a=a.npy", "-o", "out.nc:a"]) == 1
    assert names() == ["a.npy"]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("no.h5:/a", "cannot read no.h5:/a: No such file"),
        ("no.zarr", "cannot read no.zarr: No such file"),
        ("no.nc:a", "cannot read no.nc:a: No such file"),
        ("f.h5:/b", "no array of that name; the arrays in the file: f.h5:/deep/a"),
        ("f.h5", "a group, not an array; the arrays in the file: f.h5:/deep/a"),
        ("f.h5:/deep", "a group, not an array"),
        ("f.h5:/text", "type object is none of"),
        ("f.h5:/texts", "type |S2 is none of"),
        ("f.h5:/records", "type [('x', '<i4')] is none of"),
        ("f.h5:/nothing", "cannot read f.h5:/nothing: it has no elements (a null dataspace)"),
        ("f.h5:/type", "a datatype, not an array; the arrays in the file: f.h5:/deep/a"),
        ("f.h5:/dangling", "cannot read f.h5:/dangling"),
        ("g.zarr", "a group, not an array; the arrays in the file: g.zarr:/a"),
        ("g.zarr:/b", "no array of that name"),
        ("x.nc:b", "it names no variable; those of x.nc, without its groups: x.nc:"),
        ("x.nc:/deep/b", "those of x.nc:deep, without its groups: x.nc:deep/a"),
        ("x.nc", "it names no variable"),
        ("x.nc:no/a", "group not found: no"),
        ("bad.h5:/a", "cannot read bad.h5:/a"),
        ("bad.nc:a", "cannot read bad.nc:a"),
    ],
)
def test_inputs_that_cannot_be_read(
    source: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    with h5py.File("f.h5", "w") as file:
        file["deep/a"], file["text"] = np.ones(3), "text"
        file["texts"], file["records"] = np.array([b"ab"]), np.zeros((), [("x", "i4")])
        file["nothing"], file["type"] = h5py.Empty("f8"), np.dtype("f8")
        file["dangling"], file["self"] = h5py.SoftLink("/nowhere"), h5py.SoftLink("/self")
        file["deep/up"] = h5py.SoftLink("/")
    zarr.open_group("g.zarr", mode="w").create_array("a", shape=(3,), dtype="f8")
    save("nc", "a", np.ones(3))
    os.rename("a.nc", "x.nc")
    deep = pytest.importorskip("xarray").Dataset({"a": ("x", np.ones(3))})
    deep.to_netcdf("x.nc", mode="a", group="deep", engine="h5netcdf")
    for name in ("bad.h5", "bad.nc"):
        Path(name).write_bytes(b"\x89HDF\r\n\x1a\n" + b"nothing" * 99)
    assert main(["a", f"a={source}", "-o", "out.npy"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("pkg eval: error: cannot read") and text in said
    assert said.count("\n") == 1 and not os.path.exists("out.npy")


@pytest.mark.parametrize("codec", ["BZ2", "GZip", "LZMA", "Zlib", "Zstd"])
def test_chunks_that_cannot_be_decoded(codec: str) -> None:
    """Decoders have exceptions of their own.

    Zarr abandons its other reads; whether asyncio complains while Python ends is chance.
    """
    zarr, numcodecs = pytest.importorskip("zarr"), pytest.importorskip("numcodecs")
    described = {"shape": (300,), "dtype": "f8", "chunks": (10,), "zarr_format": 2}
    array = zarr.create_array("a.zarr", compressors=getattr(numcodecs, codec)(), **described)
    array[:] = np.arange(300.0)
    for chunk in Path("a.zarr").glob("[0-9]*"):
        os.truncate(chunk, chunk.stat().st_size // 2)
    command = [sys.executable, "-m", "pkg", "eval", "sum(a)", "a=a.zarr"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 1 and run.stderr.startswith("pkg eval: error: cannot read a.zarr: ")


@pytest.mark.parametrize(
    ("target", "status", "text"),
    [
        ("out.h5", 2, "name the dataset, as in out.h5:/result"),
        ("out.nc", 2, "name the variable, as in out.nc:result"),
        ("no/out.h5:/a", 1, "no folder"),
        ("no/out.zarr", 1, "no folder"),
        ("no/out.nc:a", 1, "no folder"),
        ("f.h5:/deep", 1, "it is a group"),
        ("f.h5:/type", 1, "it is a datatype"),
        ("f.h5:/ext/a", 1, "ext is a link into another file: name that file"),
        ("f.h5:/soft/a", 1, "soft is a link into another file: name that file"),
        ("y.nc:d0", 1, "d0 is a coordinate of the result; give the variable another name"),
        ("g.zarr", 1, "it exists, and is not an array of Zarr"),
        ("g.zarr:/a/b", 1, "g.zarr/a is not a group of Zarr"),
        ("plain.zarr:/a", 1, "plain.zarr is not a group of Zarr"),
    ],
)
def test_outputs_that_cannot_be_written(
    target: str,
    status: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    with h5py.File("f.h5", "w") as file:
        file["deep/a"], file["type"] = np.ones(3), np.dtype("f8")
        file["ext"], file["soft"] = h5py.ExternalLink("g.h5", "/g"), h5py.SoftLink("/ext/inner")
    with h5py.File("g.h5", "w") as file:
        file["g/inner/a"] = np.ones(3)
    zarr.open_group("g.zarr", mode="w").create_array("a", shape=(3,), dtype="f8")
    os.mkdir("plain.zarr")
    source = save("nc", "x", np.ones(3))
    before = names()
    monkeypatch.setattr("pkg._outputs.WholeFile._open", lambda self: pytest.fail("it is too late"))
    assert main(["x", source, "-o", target, "--overwrite"]) == status
    said = capsys.readouterr().err
    assert text in said and said.count("\n") == 1
    assert names() == before


def test_disks_that_take_nothing() -> None:
    """A full disk, on which HDF5 crashed when it closed its file, and a read-only one."""
    pytest.importorskip("h5netcdf")
    np.save("a.npy", np.ones(1_000_000))
    os.mkdir("small")
    mount = ["unshare", "-rm", "sh", "-c"]
    small = "mount -t tmpfs -o size=1m small small"
    can = subprocess.run([*mount, f"{small} && mount -o remount,ro small"], capture_output=True)
    if can.returncode:
        pytest.skip(f"no disk can be mounted: {can.stderr.decode().strip()}")
    np.save("c.npy", np.ones(125_000))
    chunked = save("h5", "a", np.ones(100_000), (1000,))
    run = f"{sys.executable} -W ignore -m pkg eval"
    script = (
        f"{small}; {run} a+1 a=a.npy -o small/b.nc:b; echo $?; {run} a+1 a=a.npy -o small/b.h5:b;"
        f"echo $?; (ulimit -f 400; {run} a+1 {chunked} -o small/b.h5:b); echo $?;"
        f"head -c 40000 /dev/zero > small/c; {run} a+1 a=c.npy -o small/b.nc:b; echo $?;"
        f"mount -o remount,ro small; {run} a+1 a=a.npy -o small/b.npy; echo $?; ls -A small"
    )
    done = subprocess.run([*mount, script], capture_output=True, text=True, timeout=300)
    assert done.stdout == "1\n1\n1\n1\n1\nc\n", done.stderr
    full, full_midway, too_large, full_at_the_end, read_only = done.stderr.splitlines()
    assert "small/b.nc:b: No space left on device (7.69 MiB are needed, 1 MiB are free)" in full
    assert full_midway.endswith("small/b.h5:b: No space left on device")
    assert too_large.endswith("small/b.h5:b: File too large")
    assert "small/b.nc:b: No space left on device (1.02 MiB are needed" in full_at_the_end
    assert "cannot write small/b.npy: Read-only file system" in read_only


def test_errors_of_destructors_fail_the_run() -> None:
    """h5py may write the end of a netCDF file in a destructor, whose errors Python only prints."""

    class File:
        def __del__(self) -> None:
            raise OSError("as planned")

    with pytest.raises(OSError, match="as planned"), _stores._failing_destructors():
        File()


@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_in_the_middle_leaves_nothing(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The array that was to be replaced stays, too."""
    pytest.importorskip(MODULES[kind.split()[0]])
    monkeypatch.setattr(_stores, "_CHUNK_COUNT", 100)
    np.save("a.npy", np.arange(1000.0))
    for is_there in (False, True):
        if is_there:
            save(kind, "out", np.zeros(3))
        before = names()
        calls = 0

        def call(self: Any, *args: Any, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 5:
                raise MemoryError("as planned")
            return self(*args, **more)

        with monkeypatch.context() as patch:
            patch.setattr(
                "pkg._files.Evaluation._call",
                lambda s, part, **more: call(
                    s.expression,
                    *(part(x) if hasattr(x, "part") else x for x in s.operands),
                    **more,
                ),
            )
            arguments = ["a + 1", "a=a.npy", "-o", place(kind, "out"), "--chunk", "1K"]
            assert main([*arguments, "--overwrite"]) == 1
        assert "as planned" in capsys.readouterr().err
        assert names() == before
    assert load(kind).tolist() == [0, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(kind: str, number: signal.Signals) -> None:
    pytest.importorskip(MODULES[kind.split()[0]])
    a = np.lib.format.open_memmap("a.npy", mode="w+", dtype="f4", shape=(1 << 28,))
    a.flush()
    process = subprocess.Popen(
        [sys.executable, "-m", "pkg", "eval", "a + 1", "a=a.npy", "-o", place(kind, "out")]
        + ["--chunk", "4K"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while process.poll() is None and not any(name.startswith(".pkg-eval") for name in names()):
            pass
        process.send_signal(number)
        said = process.communicate(timeout=120)[1]
    finally:
        process.kill()
    assert process.returncode == 128 + number, said
    assert f"interrupted ({number.name})" in said
    assert names() == ["a.npy"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_the_expression(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An error of the expression is not reported as one of the output."""
    files = [save("npy", "a", np.arange(3)), save("npy", "b", np.array([1, 2, -1]))]
    assert main(["a ** b", *files, "-o", place(kind, "out")]) == 1
    assert capsys.readouterr().err.startswith("pkg eval: error: the exponent -1 is negative")


_PEAK = """
import resource, sys
from pkg._files import main
assert main(["a + 1", f"a={sys.argv[1]}", "-o", sys.argv[2], "--chunk", "1M"]) == 0
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.parametrize("kind", ["h5", "zarr", "nc"])
def test_memory_is_bounded(kind: str, python: Callable[..., str]) -> None:
    """Ten times as much data takes about as much memory."""
    peaks = []
    for n in (1 << 20, 20 << 20):
        for name in ("a", "out"):
            subprocess.run(["rm", "-rf", place(kind, name).split(":")[0]], check=True)
        source = save(kind, "a", np.zeros((n >> 10, 1 << 10), "f4"), (1 << 6, 1 << 10)).partition(
            "="
        )[2]
        peaks.append(int(python(_PEAK, source, place(kind, "out"))))
    assert peaks[1] < peaks[0] + 40_000, peaks  # in KiB; the data are 80 MiB


# ---- Workers of Dask ----


@pytest.fixture
def scheduler() -> Iterator[str]:
    """The address of a scheduler with two worker processes."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0
    ) as cluster:
        yield cluster.scheduler_address


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_workers_compute(
    scheduler: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("zarr")
    monkeypatch.setattr(_stores, "_CHUNK_COUNT", 100)
    a, b = np.arange(30 * 41.0).reshape(30, 41) + 1, np.arange(41.0)
    files = [save("npy", "a", np.asfortranarray(a)), save("h5", "b", b)]
    command = ["a / (b + k)", *files, "k=0.5", "--scheduler", scheduler, "--chunk", "2K"]
    for target in ("zarr", "zarr group"):
        assert main([*command, "-o", place(target, "out")]) == 0, capsys.readouterr().err
        assert_bits(load(target), a / (b + 0.5))
    assert main([*command, "-o", "out.zarr"]) == 1
    assert "exists; --overwrite" in capsys.readouterr().err
    # Warnings and errors of the workers are the command's, and nothing is left of the output.
    assert main(["1 / (a - a)", files[0], *command[4:], "-o", "inf.zarr"]) == 0
    said = capsys.readouterr().err
    assert said == "pkg eval: warning: divide by zero encountered in evaluate\n"
    bad = [save("npy", "e", np.full(4, -1)), "--scheduler", scheduler, "-o", "bad.zarr"]
    assert main(["2 ** e", *bad]) == 1
    assert "negative" in capsys.readouterr().err
    os.remove("b.h5")
    assert not [name for name in names() if "bad" in name or name.startswith(".pkg")]


def test_what_workers_do_not_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("zarr")
    file = save("npy", "a", np.ones(3))
    for arguments, status, text in (
        (["sum(a)", file], 2, "a reduction is computed in one call"),
        (["a + 1", file, "-o", "out.npy"], 2, "workers write chunks of Zarr"),
        (["a + 1", file], 2, "workers write chunks of Zarr"),
    ):
        assert main([*arguments, "--scheduler", "tcp://127.0.0.1:1"]) == status
        assert text in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "distributed", None)
    command = ["a + 1", file, "-o", "out.zarr", "--scheduler", "tcp://127.0.0.1:1"]
    assert main(command) == 1
    assert "pip install 'dask[distributed]'" in capsys.readouterr().err
    assert names() == ["a.npy"]


def test_a_scheduler_that_does_not_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed"), pytest.importorskip("zarr")
    monkeypatch.setattr(_cluster, "_PATIENCE", 1)
    file = save("npy", "a", np.ones(3))
    for address in ("tcp://127.0.0.1:1", "nonsense"):
        assert main(["a + 1", file, "-o", "out.zarr", "--scheduler", address]) == 1
        said = capsys.readouterr().err
        assert f"no scheduler of Dask answers at {address}" in said and "tcp://HOST:8786" in said
    assert names() == ["a.npy"]


# ---- The command ----


def test_the_script() -> None:
    """pyproject.toml installs ``pcd``, which names itself in messages."""
    code = "import sys; sys.argv = ['/usr/bin/pcd', *sys.argv[1:]]; from pkg.__main__ import script"
    run = [sys.executable, "-c", f"{code}; sys.exit(script())"]
    shown = subprocess.run([*run, "eval", "--help"], capture_output=True, text=True, check=True)
    assert "usage: pcd eval" in shown.stdout and 'pcd eval "sum(a * b)"' in shown.stdout
    for name in (*pcd.operations, *("where", "clip", "count_nonzero", "arcsinh", "logaddexp")):
        assert f" {name}" in shown.stdout or name in ("round",), name
    assert (
        "usage: pcd [-h]"
        in subprocess.run([*run, "--help"], capture_output=True, text=True, check=True).stdout
    )
    project = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text()
    assert 'pcd = "pkg.__main__:script"' in project
