"""The ``.npy`` files that ``pkg eval`` writes; how a file appears when it is complete."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import math
import os
import secrets
import shutil
import stat
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from ._pieces import pieces

#: A context manager in which no signal ends the work.
Held = Callable[[], contextlib.AbstractContextManager[None]]


class Failure(Exception):
    """An error message for the user, and the exit status."""

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.status = status


def usage(text: str) -> Failure:
    return Failure(text, 2)


def reason(error: OSError) -> str:
    text = error.strerror if isinstance(error.strerror, str) else ""  # xarray puts a KeyError there
    return text or str(error) or type(error).__name__


def size_text(nbytes: float) -> str:
    units = ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while nbytes >= 1000 and len(units) > 1:
        nbytes /= 1024
        del units[0]
    return f"{nbytes:.3g} {units[0]}"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds a folder's lock, if it can have one: runs change its content one after the other."""
    file = -1
    try:
        with contextlib.suppress(OSError):
            file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        if file >= 0:
            os.close(file)


def synchronize(path: Path) -> None:
    """Waits until a file or a folder is on the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


# ---- Whole files ----


class Target:
    """A file or folder that gets its name when `commit` is called."""

    def __init__(self, path: str, is_overwriting: bool, target: Path, folder: Path) -> None:
        self.path, self.is_overwriting = path, is_overwriting
        self._target = target
        self._temporary = folder / f".pkg-eval-{secrets.token_hex(8)}.tmp"

    def unwritable(self, why: object) -> Failure:
        return Failure(f"cannot write {self.path}: {why}")

    def _existing(self) -> Failure:
        return Failure(f"{self.path} exists; --overwrite replaces it")

    def _is_input(self, name: str) -> Failure:
        return Failure(f"the output {self.path} is the input {name}: name another")

    def _synchronize_name(self) -> None:
        """Waits until the name is on the disk; from here on the output exists."""
        try:
            synchronize(self._target.parent)
        except OSError as error:
            warnings.warn(
                f"{self.path} is complete, but its name may not be on the disk yet:"
                f" {self._target.parent} could not be synchronized ({reason(error)})",
                RuntimeWarning,
                stacklevel=2,
            )

    def __enter__(self) -> Any:
        return self


class WholeFile(Target):
    """A file; `taken` has those of the inputs, by name."""

    def __init__(self, path: str, is_overwriting: bool, taken: Mapping[str, str]) -> None:
        target = Path(os.path.realpath(path))  # a link stays; its target is replaced
        super().__init__(path, is_overwriting, target, target.parent)
        self._file = -1
        self._nbytes = 0
        self._check(taken)

    def _check(self, taken: Mapping[str, str]) -> None:
        if self.path.endswith("/"):
            raise self.unwritable("it names a folder")
        try:
            if self._target.exists():
                for name, path in taken.items():
                    if os.path.samefile(path, self._target):
                        raise self._is_input(name)
                if not self._target.is_file():
                    raise self.unwritable("it is not a regular file")
            elif not self._target.parent.is_dir():
                raise self.unwritable(f"no folder {self._target.parent}")
        except OSError as error:
            raise self._failure(error) from None
        if not self.is_overwriting and os.path.lexists(self._target):
            raise self._existing()

    def _failure(self, error: OSError, nbytes: int = 0) -> Failure:
        text = reason(error)
        if error.errno == errno.ENOSPC and nbytes:
            free = shutil.disk_usage(self._target.parent).free
            text += f" ({size_text(nbytes)} are needed, {size_text(free)} are free)"
        elif error.errno == errno.EFBIG and nbytes:
            text += f" ({size_text(nbytes)}; see ulimit -f, and the file system's limit)"
        return self.unwritable(text)

    def _open(self) -> None:
        replaced = os.stat(self._target) if self._target.exists() else None
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(self._temporary, flags, 0o600 if replaced else 0o666)
        if replaced:
            self._inherit(replaced)

    def _reserve(self) -> None:
        try:
            os.posix_fallocate(self._file, 0, self._nbytes)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise

    def _inherit(self, replaced: os.stat_result) -> None:
        """Gives the temporary file the owner and mode of the file that it replaces."""
        own = os.fstat(self._file)
        if (own.st_uid, own.st_gid) != (replaced.st_uid, replaced.st_gid):
            try:
                os.fchown(self._file, replaced.st_uid, replaced.st_gid)
            except OSError as error:
                raise self.unwritable(
                    f"it belongs to user {replaced.st_uid} and group {replaced.st_gid}, which could"
                    f" not be kept ({reason(error)}); remove it, or name another output"
                ) from None
        os.fchmod(self._file, stat.S_IMODE(replaced.st_mode))

    def _check_again(self) -> None:
        """Checks what others may have changed during the computation."""

    def commit(self, held: Held) -> None:
        """Waits until the file is on the disk, and gives it its name."""
        try:
            os.fsync(self._file)
            with held():
                self._check_again()
                if self.is_overwriting:
                    os.replace(self._temporary, self._target)
                else:
                    rename_new(self._temporary, self._target)
                self._temporary = self._target  # nothing is left to remove
        except FileExistsError:
            raise self._existing() from None
        except OSError as error:
            raise self._failure(error, self._nbytes) from None
        with held():
            self._synchronize_name()

    def __exit__(self, *exc_info: object) -> None:
        if self._temporary != self._target:
            with contextlib.suppress(OSError):  # of a file that could not be made
                self._temporary.unlink()
        if self._file >= 0:
            os.close(self._file)


def rename_new(source: Path, target: Path) -> None:
    """Renames a file; raises FileExistsError if the target exists, even since a moment ago.

    Linking checks that; on file systems without links an empty file takes the name first.
    """
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            os.replace(source, target)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
    else:
        source.unlink()


# ---- Pieces ----


def runs(
    shape: tuple[int, ...], begin: tuple[int, ...], piece: tuple[int, ...]
) -> Iterator[tuple[int, int]]:
    """Yields offset and length, in elements, of each contiguous run of a piece in C order."""
    inner = len(shape)
    while inner > 0 and piece[inner - 1] == shape[inner - 1]:
        inner -= 1
    inner = max(inner - 1, 0)
    steps = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    first = sum(i * step for i, step in zip(begin, steps, strict=True))
    length = math.prod(piece[inner:])
    for index in np.ndindex(*piece[:inner]):
        # The product is of the leading dimensions only.
        yield first + sum(i * step for i, step in zip(index, steps, strict=False)), length


# ---- NumPy's files ----


class Output(WholeFile):
    """A ``.npy`` file."""

    def _check(self, taken: Mapping[str, str]) -> None:
        super()._check(taken)
        ending = Path(self.path).suffix
        if ending.lower() not in ("", ".npy"):
            raise usage(
                f"{self.path}: {ending} files are not written; name a .npy file, or an array in a"
                " .h5, .zarr or .nc file"
            )

    def create(self, shape: tuple[int, ...], dtype: np.dtype[Any], is_fortran: bool | None) -> None:
        """Reserves disk space for the array, before the computation starts."""
        self._shape = shape[::-1] if is_fortran else shape
        header = io.BytesIO()
        described = {
            "descr": npy.dtype_to_descr(dtype),
            "fortran_order": bool(is_fortran),
            "shape": shape,
        }
        npy.write_array_header_1_0(header, described)
        self._start = len(header.getvalue())
        self._nbytes = self._start + math.prod(shape) * dtype.itemsize
        try:
            self._open()
            self._reserve()
        except OSError as error:
            raise self._failure(error, self._nbytes) from None
        self._write(memoryview(header.getvalue()), 0)

    def fill(
        self,
        step: tuple[int, ...],
        compute: Callable[[tuple[int, ...], tuple[int, ...]], np.ndarray[Any, Any]],
    ) -> None:
        """Computes and writes the array, piece by piece in the order of the file."""
        for begin, piece in pieces(self._shape, step):
            part = compute(begin, piece)
            data = part.reshape(-1).view(np.uint8).data
            at = 0
            for offset, length in runs(self._shape, begin, piece):
                count = length * part.itemsize
                self._write(data[at : at + count], self._start + offset * part.itemsize)
                at += count

    def _write(self, data: memoryview, offset: int) -> None:
        try:
            while data:
                count = os.pwrite(self._file, data, offset)
                data, offset = data[count:], offset + count
        except OSError as error:
            raise self._failure(error, self._nbytes) from None
