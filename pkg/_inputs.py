"""The ``.npy`` files that ``pkg eval`` reads."""

from __future__ import annotations

import math
import os
import stat
from typing import Any

import numpy as np
from numpy.lib import format as npy

from ._outputs import Failure, reason, runs
from ._stores import StoreInput, place_of
from ._table import ELEMENTS, ELEMENTS_TEXT


class Input:
    """The array in a file: a memory map for reductions alone, and reads of parts for the rest."""

    chunks = None
    shape: tuple[int, ...]

    def __init__(self, path: str) -> None:
        self.path = path
        self._buffer = np.empty(0, np.uint8)
        try:
            if os.path.isdir(path):
                raise self._failure("it is a folder; an array of Zarr is STORE.zarr:/NAME")
            # A pipe would block, and cannot be mapped.
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise self._failure("it is not a regular file")
            with open(path, "rb") as file:
                self._read_header(file)
            self._file = open(path, "rb", buffering=0)
        except OSError as error:
            raise self._failure(reason(error)) from None
        except (Failure, MemoryError):
            raise
        except Exception as error:  # a damaged header may raise any error of Python's parser
            text = f"it is not a .npy file of numbers ({error})".replace("\n", " ")
            raise self._failure(text) from None

    def _failure(self, why: str) -> Failure:
        return Failure(f"cannot read {self.path}: {why}")

    def _read_header(self, file: Any) -> None:
        if file.read(4) == b"PK\x03\x04":
            raise self._failure("it is an archive (.npz): unpack it, name one of its .npy files")
        file.seek(0)
        is_first = npy.read_magic(file) == (1, 0)  # 3.0 is 2.0 in UTF-8
        read = npy.read_array_header_1_0 if is_first else npy.read_array_header_2_0
        self.shape, is_fortran, self.dtype = read(file)
        np.broadcast_shapes(self.shape)  # or ValueError
        if self.dtype.char not in ELEMENTS:
            raise self._failure(f"its type {self.dtype} is none of {ELEMENTS_TEXT}")
        #: The beginning and the end of the array in the file.
        self._start = file.tell()
        self._end: int = self._start + math.prod(self.shape) * self.dtype.itemsize
        if os.fstat(file.fileno()).st_size < self._end:
            raise self._failure("it ends before its array does")
        is_both = sum(n > 1 for n in self.shape) < 2
        self.is_c_contiguous = is_both or not is_fortran
        self.is_f_contiguous = is_both or is_fortran

    def whole(self) -> np.ndarray[Any, Any]:
        """Returns all of the array, as a memory map."""
        try:
            return np.asarray(npy.open_memmap(self.path, mode="r"))
        except ValueError:  # the file is shorter
            raise self.truncation() from None
        except OSError as error:
            raise self._failure(reason(error)) from None

    def close(self) -> None:
        self._file.close()

    def arrange(self, ndim: int, is_transposed: bool) -> None:
        """Gives the array `ndim` dimensions, the new ones first; then reverses them if asked."""
        self.shape = (1,) * (ndim - len(self.shape)) + self.shape
        if is_transposed:
            self.shape, self.is_c_contiguous = self.shape[::-1], self.is_f_contiguous

    def read_in_runs(self) -> None:
        """Tells the system not to read ahead of `part`."""
        os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)

    def part(self, begin: tuple[int, ...], piece: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Reads the part for a piece of the result; the next call overwrites it."""
        shape, dtype = self.shape, self.dtype
        begin = tuple(0 if n == 1 else i for i, n in zip(begin, shape, strict=True))
        piece = tuple(1 if n == 1 else k for k, n in zip(piece, shape, strict=True))
        nbytes = math.prod(piece) * dtype.itemsize
        if self._buffer.nbytes < nbytes:
            self._buffer = np.empty(nbytes, np.uint8)
        turn = 1 if self.is_c_contiguous else -1
        at = 0
        for offset, length in runs(shape[::turn], begin[::turn], piece[::turn]):
            end = at + length * dtype.itemsize
            self._read(self._buffer.data[at:end], self._start + offset * dtype.itemsize)
            at = end
        part = self._buffer[:nbytes].view(dtype).reshape(piece[::turn])
        return part if turn == 1 else part.T

    def _read(self, room: memoryview, offset: int) -> None:
        while room:
            try:
                count = os.preadv(self._file.fileno(), [room], offset)
            except OSError as error:
                raise self._failure(reason(error)) from None
            if count == 0:
                raise self.truncation()
            room, offset = room[count:], offset + count

    def is_truncated(self) -> bool:
        return os.fstat(self._file.fileno()).st_size < self._end

    def truncation(self) -> Failure:
        return self._failure("it was truncated while it was read")


#: An input of any format.
AnyInput = Input | StoreInput


def open_input(path: str) -> AnyInput:
    """Opens a file of any format."""
    place = None if os.path.isfile(path) and path.endswith(".npy") else place_of(path)
    return Input(path) if place is None else StoreInput(path, place)
