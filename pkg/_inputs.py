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


def _open(path: str) -> np.memmap[Any, Any]:
    """Maps the array of a ``.npy`` file into memory, read-only; Failure says what is wrong."""
    try:
        if os.path.isdir(path):
            raise Failure(
                f"cannot read {path}: it is a folder; an array of Zarr is STORE.zarr:/NAME"
            )
        # A pipe would block, and cannot be mapped.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise Failure(f"cannot read {path}: it is not a regular file")
        with open(path, "rb") as file:
            if file.read(4) == b"PK\x03\x04":
                raise Failure(
                    f"cannot read {path}: it is an archive (.npz); unpack it, and name one of its"
                    " .npy files"
                )
        array = npy.open_memmap(path, mode="r")
    except OSError as error:
        raise Failure(f"cannot read {path}: {reason(error)}") from None
    except (Failure, MemoryError):
        raise
    except Exception as error:  # a damaged header may raise any error of Python's parser
        if "mmap length" in str(error):
            text = "it ends before the array does that its header describes"
        elif "Python objects" in str(error):
            text = f"it holds Python objects (pickles), which are not read, only {ELEMENTS_TEXT}"
        else:
            text = f"it is not a .npy file of numbers ({error})".replace("\n", " ")
        raise Failure(f"cannot read {path}: {text}") from None
    if array.dtype.char not in ELEMENTS:
        raise Failure(f"cannot read {path}: its type {array.dtype} is none of {ELEMENTS_TEXT}")
    return array


class Input:
    """The array in a file: a memory map for reductions, and reads of parts for the rest."""

    chunks = None

    def __init__(self, path: str) -> None:
        self.path = path
        memory = _open(path)
        #: The beginning and the end of the array in the file.
        self._start = memory.offset
        self._end = memory.offset + memory.nbytes
        self._set(np.asarray(memory))
        self._file = open(path, "rb", buffering=0)
        self._buffer = np.empty(0, np.uint8)

    def _set(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        self.shape: tuple[int, ...] = array.shape
        self.dtype: np.dtype[Any] = array.dtype
        self.is_c_contiguous = array.flags.c_contiguous
        self.is_f_contiguous = array.flags.f_contiguous

    def whole(self) -> np.ndarray[Any, Any]:
        """Returns all of the array, as a memory map."""
        return self.array

    def close(self) -> None:
        self._file.close()

    def arrange(self, ndim: int, is_transposed: bool) -> None:
        """Gives the array `ndim` dimensions, the new ones first; then reverses them if asked."""
        array = self.array.reshape((1,) * (ndim - self.array.ndim) + self.array.shape)
        self._set(array.T if is_transposed else array)

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
        """Fills `room` with bytes from an offset of the file on."""
        while room:
            try:
                count = os.preadv(self._file.fileno(), [room], offset)
            except OSError as error:
                raise Failure(f"cannot read {self.path}: {reason(error)}") from None
            if count == 0:
                raise self.truncation()
            room, offset = room[count:], offset + count

    def is_truncated(self) -> bool:
        """Tells whether the file has become shorter than its array."""
        return os.fstat(self._file.fileno()).st_size < self._end

    def truncation(self) -> Failure:
        return Failure(f"cannot read {self.path}: it was truncated while it was read")


#: An input of any format.
AnyInput = Input | StoreInput


def open_input(path: str) -> AnyInput:
    """Opens a file of any format."""
    place = None if os.path.isfile(path) and path.endswith(".npy") else place_of(path)
    return Input(path) if place is None else StoreInput(path, place)
