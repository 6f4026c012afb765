"""Arrays in HDF5, Zarr and netCDF files, for ``pkg eval``: read in parts, written as a whole."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import math
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ._outputs import (
    Failure,
    Held,
    Output,
    Target,
    WholeFile,
    locked,
    reason,
    size_text,
    synchronize,
    usage,
)
from ._pieces import piece_shape, pieces, region, whole_chunks
from ._table import ELEMENTS, ELEMENTS_TEXT
from .expressions.datasets import chunk_of, part_of

Shape = tuple[int, ...]

_NAMED = re.compile(r"(.*?\.(h5|hdf5|he5|zarr|nc|nc4|cdf))(?::/?(.*))?", re.DOTALL)

_KINDS = {"zarr": "Zarr", "nc": "netCDF", "nc4": "netCDF", "cdf": "netCDF"}

_LIBRARIES = {"HDF5": "h5py", "Zarr": "zarr", "netCDF": "xarray"}

#: The exceptions of the libraries for files that are damaged, missing, full or of another format.
_ERRORS = (OSError, ValueError, KeyError, RuntimeError, TypeError, ImportError)

#: The system's own words in an error of HDF5.
_SYSTEM_ERROR = re.compile(r"errno = \d+, error message = '([^']*)'")

#: Bytes of a netCDF file besides variable and coordinates, at most.
_NETCDF_NBYTES = 1 << 16

#: A flag of `fallocate`.
_KEEP_SIZE = 1

#: Zarr leaves out chunks that equal the fill value 0, as complex -0 does.
_ALL_CHUNKS = {"array.write_empty_chunks": True}

#: Elements of a chunk of a new array of Zarr.
_CHUNK_COUNT = 1 << 20

#: Bytes copied at once, of an array that a reduction needs in one piece.
_SPOOL_NBYTES = 1 << 26


class Place(NamedTuple):
    """The place of an array: ``FILE:/INNER``."""

    kind: str
    file: str
    inner: str


def place_of(path: str) -> Place | None:
    """Returns the place that a path names, or None for a ``.npy`` file."""
    found = _NAMED.fullmatch(path.rstrip("/"))  # shells complete names of folders with a slash
    if not found:
        return None
    kind, inner = _KINDS.get(found[2], "HDF5"), found[3] or ""
    if kind == "Zarr":
        inner = inner.replace("\\", "/")  # as Zarr itself does
    parts = [part for part in inner.split("/") if part]
    if "." in parts or ".." in parts:
        raise usage(f"{path}: the name of an array in a file has no parts . and ..")
    return Place(kind, found[1], "/".join(parts))


def _library(what: str, path: str, place: Place) -> Any:
    name = _LIBRARIES[place.kind]
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Failure(
            f"cannot {what} {path}: {place.kind} needs the package {name}, which cannot be"
            f" imported ({error}); pip install {name}"
        ) from None


def _text(error: BaseException) -> str:
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    found = _SYSTEM_ERROR.search(text)  # beside addresses and the name of the temporary file
    if found:
        return found[1]
    return " ".join(text.split()) or type(error).__name__


# ---- Inputs ----


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    """Raises Failure for any error of a library that reads: decoders have their own."""
    try:
        yield
    except (Failure, MemoryError):
        raise
    except Exception as error:
        text = reason(error) if isinstance(error, OSError) else _text(error)
        raise Failure(f"cannot read {path}: {' '.join(text.split())}") from None


def _names_in(file: Any, prefix: str = "", parents: tuple[Any, ...] = ()) -> Iterator[str]:
    for name in sorted(file):
        x = None  # for a link that leads nowhere
        with contextlib.suppress(*_ERRORS):  # of links to themselves
            x = file.get(name)
        if hasattr(x, "shape"):
            yield f"{prefix}{name}"
        elif hasattr(x, "keys") and x not in parents:  # links of HDF5 may lead back
            yield from _names_in(x, f"{prefix}{name}/", (*parents, x))


def _array_in(path: str, place: Place, group: Any) -> Any:
    x: Any = group
    if place.inner:
        x = group[place.inner] if place.inner in group else None
    if not hasattr(x, "shape"):
        found = (f"{place.file}:/{name}" for name in _names_in(group, "", (group,)))
        names = ", ".join(found) or "none"
        what = "no array of that name" if x is None else f"a {_kind_of(x)}, not an array"
        raise Failure(f"cannot read {path}: it is {what}; the arrays in the file: {names}")
    if x.shape is None:
        raise Failure(f"cannot read {path}: it has no elements (a null dataspace)")
    return x


def _kind_of(x: Any) -> str:
    return "group" if hasattr(x, "keys") else type(x).__name__.lower()


class _Lazy:
    """A variable of xarray as an array that can be read in parts."""

    def __init__(self, variable: Any) -> None:
        self.variable = variable
        self.shape, self.dtype = variable.shape, variable.dtype
        self.chunks = variable.encoding.get("chunksizes")

    def __getitem__(self, key: Any) -> Any:
        return self.variable[key].values

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("a variable that is read only")


def _open(path: str, place: Place, closing: contextlib.ExitStack) -> Any:
    library = _library("read", path, place)
    os.stat(place.file)
    if place.kind == "HDF5":
        return _array_in(path, place, closing.enter_context(library.File(place.file, "r")))
    if place.kind == "Zarr":
        return _array_in(path, place, library.open(place.file, mode="r"))
    group, _, name = place.inner.rpartition("/")
    dataset = library.open_dataset(place.file, group=group or None, cache=False)
    closing.enter_context(dataset)
    if name not in dataset.variables:
        where = f"{place.file}:{group}{'/' if group else ''}"
        names = ", ".join(f"{where}{one}" for one in dataset.variables) or "none"
        raise Failure(
            f"cannot read {path}: it names no variable; those of {where[:-1]}, without its groups:"
            f" {names}"
        )
    return _Lazy(dataset[name])


class StoreInput:
    def __init__(self, path: str, place: Place) -> None:
        self.path, self.place = path, place
        self._missing = 0
        with _reading(path), contextlib.ExitStack() as opened:
            self.data = _open(path, place, opened)
            self._closing = opened.pop_all()
        self.shape: Shape = tuple(self.data.shape)
        self.dtype = np.dtype(self.data.dtype)
        # Chunks of an array that may grow can be larger than it is.
        chunk: Shape | None = chunk_of(self.data)
        self.chunks = chunk and tuple(max(1, n) for n in map(min, chunk, self.shape))
        self.is_c_contiguous, self.is_f_contiguous = True, False
        if self.dtype.char not in ELEMENTS:
            self.close()
            raise Failure(f"cannot read {path}: its type {self.dtype} is none of {ELEMENTS_TEXT}")

    def close(self) -> None:
        self._closing.close()

    def arrange(self, ndim: int, is_transposed: bool) -> None:
        """Gives the array `ndim` dimensions, the new ones first."""
        self._missing = ndim - len(self.shape)

    def part(self, begin: Sequence[int], piece: Sequence[int]) -> np.ndarray[Any, Any]:
        """Reads the part for a piece of the result."""
        with _reading(self.path):
            part = np.asarray(part_of(self.data, begin, piece))
        return part.reshape((1,) * self._missing + part.shape)

    def whole(self) -> np.ndarray[Any, Any]:
        """Returns all of the array, from a temporary file that needs no name."""
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        nbytes = math.prod(self.shape) * self.dtype.itemsize
        try:
            with tempfile.TemporaryFile() as file:
                os.posix_fallocate(file.fileno(), 0, nbytes)
                result = np.memmap(file, self.dtype, "r+", shape=self.shape)
        except OSError as error:
            raise Failure(
                f"cannot copy {self.path} to a temporary file of {size_text(nbytes)}:"
                f" {reason(error)}; the variable TMPDIR names the folder for it"
            ) from None
        limit = _SPOOL_NBYTES // self.dtype.itemsize
        step = whole_chunks(self.shape, self.chunks, limit)
        for begin, piece in pieces(self.shape, step):
            result[region(begin, piece)] = self.part(begin, piece)
        return np.asarray(result)


def file_of(x: Any) -> str:
    return str(x.place.file) if isinstance(x, StoreInput) else str(x.path)


# ---- Outputs ----


def _like(kind: str, inputs: Mapping[str, Any], shape: Shape) -> Any:
    """Returns the array of the first input of a kind that has the shape of the result, or None."""
    for x in inputs.values():
        if isinstance(x, StoreInput) and x.place.kind == kind and x.shape == shape:
            return x.data
    return None


def _fill(
    output: Target,
    data: Any,
    step: Shape,
    compute: Callable[[Shape, Shape], Any],
    writing: Callable[[], contextlib.AbstractContextManager[Any]],
) -> None:
    """Computes and writes an array piece by piece, each in a new context of `writing`."""
    for begin, piece in pieces(data.shape, step):
        part = compute(begin, piece)
        try:
            with writing():
                data[region(begin, part.shape)] = part
        except _ERRORS as error:
            raise output.unwritable(_text(error)) from None


def _version(path: Path) -> tuple[int, ...] | None:
    """Returns values that change if a file is written or replaced; None without a file."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class HDF5Output(WholeFile):
    """A dataset in a new HDF5 file, or in a copy of one that then takes its place."""

    def __init__(
        self, path: str, place: Place, is_overwriting: bool, inputs: Mapping[str, Any]
    ) -> None:
        self._library = _library("write", path, place)
        if not place.inner:
            raise usage(f"{path}: name the dataset, as in {place.file}:/result")
        self.place = place
        self._h5: Any = None
        self._is_replacing = is_overwriting
        taken = {
            name: file_of(x)
            for name, x in inputs.items()
            if not isinstance(x, StoreInput) or x.place.kind != "HDF5"
        }
        for name, x in inputs.items():
            if isinstance(x, StoreInput) and x.place.inner == place.inner:
                if os.path.exists(place.file) and os.path.samefile(x.place.file, place.file):
                    self.path = path
                    raise self._is_input(name)
        # A dataset may be added to a file; `_check_inner` knows whether it is there.
        super().__init__(place.file, True, taken)
        self.path = path
        self.is_overwriting = self._target.exists()
        if self.is_overwriting:
            self._check_inner(self._target)

    def _check_inner(self, path: Path) -> None:
        try:
            with self._library.File(path, "r") as file:
                self._check_groups(file)
                if self.place.inner in file:
                    found = file.get(self.place.inner)  # None for a link that leads nowhere
                    if found is not None and not hasattr(found, "shape"):
                        raise self.unwritable(f"it is a {_kind_of(found)}")
                    if not self._is_replacing:
                        raise self._existing()
        except _ERRORS as error:
            raise self.unwritable(_text(error)) from None

    def _check_groups(self, group: Any) -> None:
        """Refuses a group that lies in another file, which is not copied."""
        own = group.filename
        for name in self.place.inner.split("/")[:-1]:
            is_link = isinstance(group.get(name, getlink=True), self._library.ExternalLink)
            group = group.get(name)
            if is_link or (group is not None and group.file.filename != own):
                raise self.unwritable(f"{name} is a link into another file: name that file")
            if not hasattr(group, "get"):
                return  # `create` makes it, or says why not

    def create(self, shape: Shape, dtype: np.dtype[Any], chunks: Shape | None) -> None:
        try:
            self._copied = _version(self._target)
            self._open()
            if self.is_overwriting:
                with open(self._target, "rb") as old, open(self._temporary, "wb") as new:
                    shutil.copyfileobj(old, new, 1 << 24)
                self._check_inner(self._temporary)  # others may have written since
            self._h5 = self._library.File(self._temporary, "r+" if self.is_overwriting else "w")
            if self.place.inner in self._h5:
                del self._h5[self.place.inner]
            if 0 in shape:
                chunks = None  # HDF5 has none of this shape
            self._data = self._h5.create_dataset(self.place.inner, shape, dtype, chunks=chunks)
        except _ERRORS as error:
            raise self.unwritable(_text(error)) from None

    def fill(self, step: Shape, compute: Callable[[Shape, Shape], Any]) -> None:
        """Computes and writes the array, piece by piece."""
        _fill(self, self._data, step, compute, contextlib.nullcontext)

    def _check_again(self) -> None:
        if _version(self._target) != self._copied:
            raise self.unwritable(
                f"{self.place.file} has changed since it was copied; run the command again"
            )

    def commit(self, held: Held) -> None:
        try:
            self._h5.flush()  # if `close` fails, the file is in no state
            self._h5.close()
        except _ERRORS as error:
            raise self.unwritable(_text(error)) from None
        with locked(self._target.parent):  # nobody replaces the file after `_check_again`
            super().commit(held)

    def __exit__(self, *exc_info: object) -> None:
        if self._h5:  # not yet closed: the run has failed
            with contextlib.suppress(*_ERRORS):
                # HDF5 crashes if it cannot write its remaining data, as on a full disk.
                nowhere = os.open(os.devnull, os.O_RDWR)
                os.dup2(nowhere, self._h5.id.get_vfd_handle(), inheritable=False)
                os.close(nowhere)
                self._h5.close()
        super().__exit__(*exc_info)


class _Computed:
    """An array for Dask: each part is computed when it is asked for."""

    def __init__(
        self,
        shape: Shape,
        dtype: np.dtype[Any],
        compute: Callable[[Shape, Shape], Any],
        begin: Callable[[], None],
    ) -> None:
        self.shape, self.dtype, self.ndim = shape, dtype, len(shape)
        self._compute, self._begin = compute, begin
        #: The error of a part.
        self.error: Exception | None = None

    def __getitem__(self, key: tuple[slice, ...]) -> Any:
        self._begin()
        begin = tuple(one.start for one in key)
        try:
            return self._compute(begin, tuple(one.stop - one.start for one in key)).copy()
        except Exception as error:
            self.error = error
            raise


class NetcdfOutput(WholeFile):
    """A netCDF file of one variable, which xarray writes."""

    def __init__(
        self, path: str, place: Place, is_overwriting: bool, inputs: Mapping[str, Any]
    ) -> None:
        self._library = _library("write", path, place)
        if not place.inner or "/" in place.inner:
            raise usage(f"{path}: name the variable, as in {place.file}:result")
        try:
            importlib.import_module("dask.array")
        except ImportError:
            raise Failure(
                f"cannot write {path}: xarray writes netCDF files in pieces with the package dask,"
                " which cannot be imported; pip install 'dask[array]'"
            ) from None
        super().__init__(place.file, is_overwriting, {k: file_of(x) for k, x in inputs.items()})
        self.path, self.place, self._inputs = path, place, inputs

    def create(self, shape: Shape, dtype: np.dtype[Any], chunks: Shape | None) -> None:
        self._shape, self._dtype = shape, dtype
        self._like = _like("netCDF", self._inputs, shape)
        if self._like is not None and self.place.inner in self._like.variable.coords:
            raise self.unwritable(
                f"{self.place.inner} is a coordinate of the result; give the variable another name"
            )
        self._nbytes = math.prod(shape) * dtype.itemsize + _NETCDF_NBYTES
        if self._like is not None:
            self._nbytes += sum(x.nbytes for x in self._like.variable.coords.values())
        try:
            self._open()
            self._reserve()
            os.truncate(self._file, 0)
        except OSError as error:
            raise self._failure(error, self._nbytes) from None

    def _reserve_again(self) -> None:
        """Reserves the disk space again: the library emptied the file when it opened it.

        HDF5 can neither write nor close its file on a full disk.
        """
        nbytes = ctypes.c_int64(self._nbytes)
        ctypes.CDLL(None).fallocate(self._file, _KEEP_SIZE, ctypes.c_int64(0), nbytes)

    def _variable(self, data: Any) -> Any:
        if self._like is None:
            return self._library.DataArray(data)
        like = self._like.variable
        return self._library.DataArray(data, like.coords, like.dims)

    def fill(self, step: Shape, compute: Callable[[Shape, Shape], Any]) -> None:
        """Computes and writes the variable, piece by piece in this thread."""
        import dask
        import dask.array

        computed = _Computed(self._shape, self._dtype, compute, self._reserve_again)
        meta = np.empty((0,) * len(self._shape), self._dtype)
        from_array: Any = dask.array.from_array
        lazy = from_array(computed, step, asarray=False, name=False, meta=meta)
        dataset = self._variable(lazy).to_dataset(name=self.place.inner)
        encoding = {name: {"_FillValue": None} for name in dataset.variables}
        try:
            with dask.config.set(scheduler="synchronous"), _failing_destructors():
                dataset.to_netcdf(self._temporary, mode="w", encoding=encoding)
            os.ftruncate(self._file, os.fstat(self._file).st_size)  # frees what was not needed
        except _ERRORS as error:
            if error is computed.error:
                raise
            raise self.unwritable(_text(error)) from None


@contextlib.contextmanager
def _failing_destructors() -> Iterator[None]:
    """Raises the first error of a destructor: h5py closes files there too, and only warns."""
    errors: list[BaseException] = []

    def note(told: Any) -> None:
        if isinstance(told.exc_value, _ERRORS):
            errors.append(told.exc_value)

    previous, sys.unraisablehook = sys.unraisablehook, note
    try:
        yield
    finally:
        if sys.unraisablehook is note:  # no signal has come
            sys.unraisablehook = previous
    if errors:
        raise errors[0]


def _is_array_of_zarr(folder: Path) -> bool:
    """Tells whether a folder is an array and nothing else: only such a folder may be replaced."""
    if (folder / ".zgroup").exists():
        return False
    for name, key, value in (("zarr.json", "node_type", "array"), (".zarray", "zarr_format", 2)):
        if (folder / name).exists():
            try:
                described = json.loads((folder / name).read_bytes())
            except (OSError, ValueError):
                return False
            return isinstance(described, dict) and described.get(key) == value
    return False


def _named_dimensions(zarr_format: int, like: Any) -> dict[str, Any]:
    """Returns arguments that name dimensions as those of `like`; xarray wants names."""
    if like is None:
        return {}
    names = getattr(like.metadata, "dimension_names", None) or like.attrs.get("_ARRAY_DIMENSIONS")
    if not names:
        return {}
    if zarr_format == 2:  # whose fill value xarray reads as NaN
        return {"attributes": {"_ARRAY_DIMENSIONS": list(names)}, "fill_value": None}
    return {"dimension_names": names}


class ZarrOutput(Target):
    """An array of Zarr: a folder, or in new groups the outermost of them."""

    def __init__(
        self,
        path: str,
        place: Place,
        is_overwriting: bool,
        inputs: Mapping[str, Any],
        deferred: Held,
    ) -> None:
        self._library = _library("write", path, place)
        self._deferred, self._inputs = deferred, inputs
        self._store = Path(os.path.realpath(place.file))
        parts = [part for part in place.inner.split("/") if part]
        folders = [self._store.joinpath(*parts[:k]) for k in range(len(parts) + 1)]
        missing = [k for k, folder in enumerate(folders) if not os.path.lexists(folder)]
        level = missing[0] if missing else len(parts)
        super().__init__(path, is_overwriting, folders[level], self._store.parent)
        self._rest = parts[level:]
        self._check(folders[:level], is_new=bool(missing))

    def _check(self, parents: list[Path], is_new: bool) -> None:
        if not self._store.parent.is_dir():
            raise self.unwritable(f"no folder {self._store.parent}")
        if not hasattr(self._library, "config"):
            raise self.unwritable(f"zarr 3 is needed, not {self._library.__version__}")
        self._format = self._library.config.get("default_zarr_format")
        for folder in parents:
            self._format = self._format_of(folder)
        if is_new:  # or was: `_rename` sees what other runs have made since
            return
        for name, x in self._inputs.items():
            inner = x.place.inner if isinstance(x, StoreInput) else ""
            if Path(os.path.realpath(Path(file_of(x), inner))) == self._target:
                raise self._is_input(name)
        if not self.is_overwriting:
            raise self._existing()
        self._check_replaced()

    def _check_replaced(self) -> None:
        if not self._target.is_dir() or not _is_array_of_zarr(self._target):
            raise self.unwritable("it exists, and is not an array of Zarr")

    def _format_of(self, group: Path) -> int:
        try:
            zarr_format: int = self._library.open_group(str(group), mode="r").metadata.zarr_format
        except _ERRORS as error:
            raise self.unwritable(f"{group} is not a group of Zarr ({_text(error)})") from None
        return zarr_format

    def create(self, shape: Shape, dtype: np.dtype[Any], chunks: Shape | None) -> None:
        self.chunks = chunk = chunks or tuple(
            max(1, n) for n in piece_shape(shape, _CHUNK_COUNT, False)
        )
        described = {"shape": shape, "dtype": dtype, "chunks": chunk}
        described |= _named_dimensions(self._format, _like("Zarr", self._inputs, shape))
        try:
            kept = _ALL_CHUNKS if dtype.kind == "c" else {}
            with self._deferred(), self._library.config.set(kept):  # as in `fill`
                self._array = self._create(described)
        except _ERRORS as error:
            raise self.unwritable(_text(error)) from None

    def _create(self, described: dict[str, Any]) -> Any:
        folder = str(self._temporary)
        if not self._rest:
            return self._library.create_array(store=folder, zarr_format=self._format, **described)
        group = self._library.open_group(folder, mode="w", zarr_format=self._format)
        return group.create_array("/".join(self._rest), **described)

    def location(self) -> tuple[str, str]:
        """Returns the folder in which the array is being written, and its path in there."""
        return str(self._temporary), "/".join(self._rest)

    def fill(self, step: Shape, compute: Callable[[Shape, Shape], Any]) -> None:
        """Computes and writes the array, piece by piece."""
        # Zarr's own threads go on writing when a signal ends the call.
        _fill(self, self._array, step, compute, self._deferred)

    def commit(self, held: Held) -> None:
        """Waits until the files are on the disk, and gives the folder its name."""
        try:
            for folder, _, names in os.walk(self._temporary):
                for name in [*names, "."]:
                    synchronize(Path(folder, name))
            # Two runs at once would each write consolidated metadata without the other's array.
            with locked(self._store.parent), held():
                self._rename()
                self._synchronize_name()
        except FileExistsError:
            raise self._existing() from None
        except OSError as error:
            raise self.unwritable(_text(error)) from None

    def _rename(self) -> None:
        """Moves the folder to its name; a folder without anything in it may be there."""
        source, rest = self._temporary, self._rest
        while rest and self._target.is_dir():  # another run has made this group since `_check`
            if self._format_of(self._target) != self._format:
                text = f"{self._target} is now a group of Zarr of another format"
                raise self.unwritable(f"{text}; run the command again")
            source, self._target, rest = source / rest[0], self._target / rest[0], rest[1:]
        old = self._temporary.with_suffix(".old.tmp")
        is_replacing = self.is_overwriting and self._target.is_dir()
        if is_replacing:
            self._check_replaced()
            os.rename(self._target, old)
        try:
            os.rename(source, self._target)
        except OSError:
            if is_replacing:
                os.rename(old, self._target)
            elif os.path.lexists(self._target):
                raise FileExistsError(str(self._target)) from None
            raise
        if old.is_symlink():  # the array that it names stays
            old.unlink()
        shutil.rmtree(old, ignore_errors=True)
        self._consolidate()

    def _consolidate(self) -> None:
        """Renews the consolidated metadata of the groups above: readers take these for complete."""
        folder = self._target
        while folder != self._store:
            folder = folder.parent
            group = self._library.open_group(str(folder), mode="r")
            if group.metadata.consolidated_metadata is not None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of Zarr 3, whose specification lacks them
                    self._library.consolidate_metadata(str(folder))

    def __exit__(self, *exc_info: object) -> None:
        shutil.rmtree(self._temporary, ignore_errors=True)


def open_array(folder: str, inner: str) -> Any:
    zarr = importlib.import_module("zarr")
    with zarr.config.set(_ALL_CHUNKS):
        array = zarr.open(folder, mode="r+")
        return array[inner] if inner else array


def open_output(path: str, is_overwriting: bool, inputs: Mapping[str, Any], deferred: Held) -> Any:
    """Returns the output that a path names; signals wait within `deferred`."""
    try:
        os.path.abspath(path)
    except OSError as error:
        raise Failure(f"cannot write {path}: no current folder: {reason(error)}") from None
    place = place_of(path)
    if place is None:
        return Output(path, is_overwriting, {name: file_of(x) for name, x in inputs.items()})
    if place.kind == "Zarr":
        return ZarrOutput(path, place, is_overwriting, inputs, deferred)
    kind = HDF5Output if place.kind == "HDF5" else NetcdfOutput
    return kind(path, place, is_overwriting, inputs)
