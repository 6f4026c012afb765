"""Adds two float32 arrays by calling libmylib.so directly, without the package's Python functions.

The structures and numbers are those of mylib.h.  `python examples/ctypes_add.py [LIBRARY]`; without
an argument the library is the one of the installed package.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_void_p
from pathlib import Path

import numpy as np

MYLIB_OP_add = 0
MYLIB_F32 = 9
MYLIB_F64 = 10
MYLIB_CPU = 1


class Device(ctypes.Structure):
    """mylib_device"""

    _fields_ = [("kind", c_int32), ("index", c_int32)]


class Array(ctypes.Structure):
    """mylib_array"""

    _fields_ = [
        ("data", c_void_p),
        ("device", Device),
        ("type", c_int),
        ("ndim", c_int32),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
    ]


def load(path: Path) -> ctypes.CDLL:
    """The library, with the signatures of the functions that are used here."""
    mylib = ctypes.CDLL(str(path))
    array = POINTER(Array)
    mylib.mylib_version.restype = c_char_p
    mylib.mylib_status_name.argtypes = [c_int]
    mylib.mylib_status_name.restype = c_char_p
    mylib.mylib_last_message.restype = c_char_p
    mylib.mylib_map1.argtypes = [
        *(c_int, c_int, c_int64),  # operation, type, number of elements
        *(c_void_p, c_int64) * 3,  # out, a and b: a pointer and a stride in bytes
    ]
    mylib.mylib_map.argtypes = [c_int, Device, c_void_p, array, array]
    return mylib


def check(mylib: ctypes.CDLL, status: int) -> None:
    """RuntimeError with the library's message unless the status is MYLIB_OK."""
    if status != 0:
        name, message = mylib.mylib_status_name(status), mylib.mylib_last_message()
        raise RuntimeError(f"{name.decode()}: {message.decode()}")


def describe(x: np.ndarray, type_: int = MYLIB_F32) -> Array:
    """The array as mylib sees it; it points into `x`, which has to stay alive."""
    shape = ctypes.cast(x.ctypes.shape_as(c_int64), POINTER(c_int64))
    strides = ctypes.cast(x.ctypes.strides_as(c_int64), POINTER(c_int64))
    return Array(x.ctypes.data, Device(MYLIB_CPU, 0), type_, x.ndim, shape, strides)


def main() -> int:
    if len(sys.argv) > 1:
        path = Path(sys.argv[1])
    else:
        import pkg

        path = Path(pkg.get_library_dir(), "libmylib.so")
    mylib = load(path)
    print(f"{path.name} {mylib.mylib_version().decode()}")

    a = np.arange(1, 7, dtype=np.float32)
    b = np.full(6, 0.5, np.float32)
    out = np.empty_like(a)
    operands = [part for x in (out, a, b) for part in (x.ctypes.data, x.strides[0])]
    check(mylib, mylib.mylib_map1(MYLIB_OP_add, MYLIB_F32, a.size, *operands))
    print(f"mylib_map1: {a} + {b} = {out}")
    assert np.array_equal(out, a + b)

    # With shapes and strides: the columns of a transposed matrix, plus a row for each of them.
    matrix, row = a.reshape(2, 3).T, b[:2]
    sums = np.empty((3, 2), np.float32)
    inputs = (Array * 2)(describe(matrix), describe(row))
    cpu = Device(MYLIB_CPU, 0)
    check(mylib, mylib.mylib_map(MYLIB_OP_add, cpu, None, byref(describe(sums)), inputs))
    print(f"mylib_map: {matrix.tolist()} + {row.tolist()} = {sums.tolist()}")
    assert np.array_equal(sums, matrix + row)

    # The status and the message tell what goes wrong.
    wrong = (Array * 2)(describe(matrix), describe(row, MYLIB_F64))
    try:
        check(mylib, mylib.mylib_map(MYLIB_OP_add, cpu, None, byref(describe(sums)), wrong))
    except RuntimeError as error:
        print(f"two element types: {error}")
        return 0
    print("two element types: no error")
    return 1


if __name__ == "__main__":
    sys.exit(main())
