"""``python -m pkg eval``: an expression over ``.npy`` files, which may be larger than memory.

The command reads the inputs in pieces, computes each piece of the result in memory and writes it to
a temporary file beside the output.  This file takes the output's name when it is on the disk.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import functools
import io
import math
import os
import re
import secrets
import shutil
import signal
import stat
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import numpy as np
from numpy.lib import format as npy

from . import core
from ._convert import convert
from ._operands import broadcast_shapes
from ._pieces import piece_shape, pieces
from ._table import ELEMENTS, ELEMENTS_TEXT
from .expressions import Expression

#: Bytes read and written of a piece: many times what a call costs, little beside the memory.
_CHUNK = "64M"

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_EPILOG = """\
The expression is Python's, of arithmetic, comparisons and functions, as in pkg.evaluate; files
are broadcast against each other and promoted as NumPy does it, and the bits are NumPy's.  Quote
it for the shell, and put it in parentheses if it begins with a minus sign.

A reduction at the top, as in "sum(a * b)", has its value printed where there is no -o.  It is
computed in one call over the memory maps, and shows no progress; files in the other byte order
are converted in memory for it.

OUTPUT appears when it is complete.  A run that fails or is interrupted leaves nothing behind.
A file that is replaced hands on its mode and its owner.  The inputs must not change meanwhile.

exit status: 0; 1 when something failed; 2 for invalid arguments; 130, 143 and 129 after
SIGINT (Ctrl-C), SIGTERM and SIGHUP.

examples:
  python -m pkg eval "(nir - red) / (nir + red)" nir=nir.npy red=red.npy -o ndvi.npy
  python -m pkg eval "where(x > limit, limit, x)" x=x.npy limit=2.5 -o clipped.npy --dtype f4
  python -m pkg eval "sum(a * b)" a=a.npy b=b.npy
"""


class Failure(Exception):
    """An error message for the user, and the exit status."""

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.status = status


def _usage(text: str) -> Failure:
    return Failure(text, 2)


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def _size_text(nbytes: float) -> str:
    units = ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while nbytes >= 1000 and len(units) > 1:
        nbytes /= 1024
        del units[0]
    return f"{nbytes:.3g} {units[0]}"


# ---- Signals -------------------------------------------------------------------------------------


class Interrupted(BaseException):
    """Raised when a signal ends the run."""


class Signals:
    """Makes the signals that end a run raise Interrupted, once, within a `with` block.

    So a second signal does not interrupt the cleanup after the first.
    """

    def __init__(self) -> None:
        self.received = 0
        self._previous: list[tuple[signal.Signals, Any]] = []

    def __enter__(self) -> Signals:
        for number in _SIGNALS:
            # Signals that nohup and the like ignore stay ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._previous.append((number, signal.signal(number, self._receive)))
        return self

    def __exit__(self, *exc_info: object) -> None:
        for number, handler in self._previous:
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if not self.received:
            self.received = number
            raise Interrupted

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Ignores signals during work that must not be left half done."""
        for number, _ in self._previous:
            signal.signal(number, lambda number, frame: None)
        try:
            yield
        finally:
            for number, _ in self._previous:
                signal.signal(number, self._receive)

    def check(self) -> None:
        """Raises Interrupted if the first one was swallowed, as in a destructor."""
        if self.received:
            raise Interrupted

    @contextlib.contextmanager
    def ending_at_once(self) -> Iterator[None]:
        """Lets a signal end the process, during a long call with nothing to clean up."""
        for number, _ in self._previous:
            signal.signal(number, signal.SIG_DFL)
        try:
            yield
        finally:
            for number, _ in self._previous:
                signal.signal(number, self._receive)


# ---- Progress ------------------------------------------------------------------------------------


class Progress:
    """Shows the bytes done, on a terminal: with tqdm if it is installed, else on one line."""

    def __init__(self, total: int, title: str, is_quiet: bool) -> None:
        self._bar: Any = None
        self._line = self._title = ""
        self._done, self._total = 0, total
        if is_quiet or not sys.stderr.isatty():
            return
        self._title = title
        try:
            from tqdm import tqdm  # type: ignore[import-untyped]
        except ImportError:
            self.advance(0)
        else:
            self._bar = tqdm(
                total=total, desc=title, unit="B", unit_scale=True, unit_divisor=1024, leave=False
            )

    def advance(self, nbytes: int) -> None:
        self._done += nbytes
        if self._bar is not None:
            self._bar.update(nbytes)
        elif self._title:
            percent = 100 * self._done // self._total if self._total else 100
            line = f"{self._title}: {percent} % of {_size_text(self._total)}"
            if line != self._line:
                self._line = line
                print(f"\r{line}", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._line:
            print(f"\r{' ' * len(self._line)}\r", end="", file=sys.stderr, flush=True)


# ---- Inputs --------------------------------------------------------------------------------------


def _number(text: str) -> int | float | complex | None:
    """Returns the Python number in `text`, or None."""
    for kind in (int, float, complex):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def _open(path: str) -> np.memmap[Any, Any]:
    """Maps the array of a ``.npy`` file into memory, read-only; Failure says what is wrong."""
    try:
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
        raise Failure(f"cannot read {path}: {_reason(error)}") from None
    except (ValueError, EOFError) as error:
        if "mmap length" in str(error):
            text = "it ends before the array does that its header describes"
        elif "Python objects" in str(error):
            text = f"it holds Python objects (pickles), which are not read, only {ELEMENTS_TEXT}"
        else:
            text = f"it is not a .npy file of numbers ({error})"
        raise Failure(f"cannot read {path}: {text}") from None
    if array.dtype.char not in ELEMENTS:
        raise Failure(f"cannot read {path}: its type {array.dtype} is none of {ELEMENTS_TEXT}")
    return array


class Input:
    """The array in a file: a memory map for reductions, and reads of parts for the rest."""

    def __init__(self, path: str) -> None:
        self.path = path
        memory = _open(path)
        #: Where the array begins in the file, and where it ends.
        self._start = memory.offset
        self._end = memory.offset + memory.nbytes
        self.array = np.asarray(memory)
        self._file = open(path, "rb", buffering=0)
        self._buffer = np.empty(0, np.uint8)

    def close(self) -> None:
        self._file.close()

    def arrange(self, ndim: int, is_transposed: bool) -> None:
        """Gives the array `ndim` dimensions, the new ones first; then reverses them if asked."""
        array = self.array.reshape((1,) * (ndim - self.array.ndim) + self.array.shape)
        self.array = array.T if is_transposed else array

    def read_in_runs(self) -> None:
        """Tells the system not to read ahead of `part`."""
        os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)

    def part(self, begin: tuple[int, ...], piece: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Reads the part for a piece of the result; the next call overwrites it."""
        shape = self.array.shape
        begin = tuple(0 if n == 1 else i for i, n in zip(begin, shape, strict=True))
        piece = tuple(1 if n == 1 else k for k, n in zip(piece, shape, strict=True))
        dtype = self.array.dtype
        nbytes = math.prod(piece) * dtype.itemsize
        if self._buffer.nbytes < nbytes:
            self._buffer = np.empty(nbytes, np.uint8)
        turn = 1 if self.array.flags.c_contiguous else -1
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
                raise Failure(f"cannot read {self.path}: {_reason(error)}") from None
            if count == 0:
                raise self.truncation()
            room, offset = room[count:], offset + count

    def is_truncated(self) -> bool:
        """Tells whether the file has become shorter than its array."""
        return os.fstat(self._file.fileno()).st_size < self._end

    def truncation(self) -> Failure:
        return Failure(f"cannot read {self.path}: it was truncated while it was read")


@contextlib.contextmanager
def guarded_maps(files: Sequence[Input]) -> Iterator[None]:
    """Ends the process with a message and status 1 if it cannot read a memory map.

    The system sends SIGBUS to the thread that reads beyond the end of a truncated file, or from a
    disk that fails.  Such a read cannot be abandoned, so the process has to end.
    """

    first = threading.Lock()

    def end(number: int) -> None:
        first.acquire()  # another thread that comes here waits for the end
        failures = [file.truncation() for file in files if file.is_truncated()]
        names = ", ".join(file.path for file in files)
        _say(f"error: {failures[0] if failures else f'cannot read {names}: the disk failed'}")
        os._exit(1)

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(end)
    libc = ctypes.CDLL(None)
    libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    previous = libc.signal(signal.SIGBUS, ctypes.cast(handler, ctypes.c_void_p))
    try:
        yield
    finally:
        libc.signal(signal.SIGBUS, previous)


def _operands(expression: Expression, definitions: Sequence[str]) -> dict[str, Any]:
    """Returns a number or the path of a file for each name of the expression, in its order."""
    given: dict[str, int | float | complex | str] = {}
    for definition in definitions:
        name, equals, value = definition.partition("=")
        if not equals or not name.isidentifier() or not value:
            raise _usage(f"{definition!r}: expected NAME=FILE or NAME=NUMBER")
        if name in given:
            raise _usage(f"{name} is given twice")
        number = _number(value)
        given[name] = value if number is None else number
    names = expression.inputs
    missing = [name for name in names if name not in given]
    if missing:
        wanted = " ".join(f"{name}=FILE" for name in missing)
        raise _usage(f"the expression uses {', '.join(missing)}: add {wanted} (or a number)")
    superfluous = [name for name in given if name not in names]
    if superfluous:
        used = f"only {', '.join(names)}" if names else "no names"
        raise _usage(f"{', '.join(superfluous)}: not in the expression, which uses {used}")
    return {name: given[name] for name in names}


# ---- The output ----------------------------------------------------------------------------------


class Output:
    """A ``.npy`` file that gets its name when `commit` is called, and not before."""

    def __init__(self, path: str, is_overwriting: bool, inputs: dict[str, Input]) -> None:
        self.path, self.is_overwriting = path, is_overwriting
        # A link stays one, and what it points to is replaced.
        self._target = Path(os.path.realpath(path))
        self._temporary = self._target.parent / f".pkg-eval-{secrets.token_hex(8)}.tmp"
        self._file = -1
        self._check(inputs)

    def _check(self, inputs: dict[str, Input]) -> None:
        """Checks what can be checked before the computation."""
        try:
            if self._target.exists():
                for name, file in inputs.items():
                    if os.path.samefile(file.path, self._target):
                        raise Failure(f"the output {self.path} is the input {name}: name another")
                if not self._target.is_file():
                    raise Failure(f"cannot write {self.path}: it is not a regular file")
            elif not self._target.parent.is_dir():
                raise Failure(f"cannot write {self.path}: no folder {self._target.parent}")
        except OSError as error:
            raise self._failure(error) from None
        if not self.is_overwriting and os.path.lexists(self._target):
            raise self._existing()

    def _existing(self) -> Failure:
        return Failure(f"{self.path} exists; --overwrite replaces it")

    def _failure(self, error: OSError, nbytes: int = 0) -> Failure:
        text = f"cannot write {self.path}: {_reason(error)}"
        if error.errno == errno.ENOSPC and nbytes:
            free = shutil.disk_usage(self._target.parent).free
            text += f" ({_size_text(nbytes)} are needed, {_size_text(free)} are free)"
        elif error.errno == errno.EFBIG and nbytes:
            text += f" ({_size_text(nbytes)}; see ulimit -f, and the file system's limit)"
        return Failure(text)

    def create(self, shape: tuple[int, ...], dtype: np.dtype[Any], is_fortran: bool) -> None:
        """Reserves disk space for the array, before the computation starts."""
        header = io.BytesIO()
        described = {
            "descr": npy.dtype_to_descr(dtype),
            "fortran_order": is_fortran,
            "shape": shape,
        }
        npy.write_array_header_1_0(header, described)
        self._start = len(header.getvalue())
        self._nbytes = self._start + math.prod(shape) * dtype.itemsize
        try:
            replaced = os.stat(self._target) if self._target.exists() else None
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._file = os.open(self._temporary, flags, 0o600 if replaced else 0o666)
            if replaced:
                self._inherit(replaced)
            try:
                os.posix_fallocate(self._file, 0, self._nbytes)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                    raise
        except OSError as error:
            raise self._failure(error, self._nbytes) from None
        self._write(memoryview(header.getvalue()), 0)

    def _inherit(self, replaced: os.stat_result) -> None:
        """Gives the temporary file the owner and the mode of the file that it replaces."""
        own = os.fstat(self._file)
        if (own.st_uid, own.st_gid) != (replaced.st_uid, replaced.st_gid):
            try:
                os.fchown(self._file, replaced.st_uid, replaced.st_gid)
            except OSError as error:
                raise Failure(
                    f"cannot write {self.path}: it belongs to user {replaced.st_uid} and group"
                    f" {replaced.st_gid}, which could not be kept ({_reason(error)}); remove it, or"
                    " name another output"
                ) from None
        os.fchmod(self._file, stat.S_IMODE(replaced.st_mode))

    def write(self, data: memoryview, offset: int) -> None:
        """Writes bytes at an offset in the array."""
        self._write(data, self._start + offset)

    def _write(self, data: memoryview, offset: int) -> None:
        try:
            while data:
                count = os.pwrite(self._file, data, offset)
                data, offset = data[count:], offset + count
        except OSError as error:
            raise self._failure(error, self._nbytes) from None

    def commit(self, signals: Signals) -> None:
        """Waits until the file is on the disk, and gives it its name."""
        try:
            os.fsync(self._file)
            with signals.held():
                if self.is_overwriting:
                    os.replace(self._temporary, self._target)
                else:
                    rename_new(self._temporary, self._target)
                self._temporary = self._target  # nothing is left to remove
        except FileExistsError:
            raise self._existing() from None
        except OSError as error:
            raise self._failure(error, self._nbytes) from None
        # From here on the output is there, whatever happens.
        with signals.held():
            try:
                folder = os.open(self._target.parent, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
            except OSError as error:
                warnings.warn(
                    f"{self.path} is complete, but its name may not be on the disk yet:"
                    f" {self._target.parent} could not be synchronized ({_reason(error)})",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def __enter__(self) -> Output:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._temporary != self._target:
            self._temporary.unlink(missing_ok=True)
        if self._file >= 0:
            os.close(self._file)


def rename_new(source: Path, target: Path) -> None:
    """Renames a file; raises FileExistsError if the target exists, even since a moment ago.

    A second link to the file refuses that.  On file systems without links an empty file takes the
    name first; between that and the renaming, others see the empty file.
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


# ---- Pieces --------------------------------------------------------------------------------------


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


# ---- Evaluation ----------------------------------------------------------------------------------


class Evaluation:
    """One run of the command."""

    def __init__(
        self, options: argparse.Namespace, signals: Signals, files: contextlib.ExitStack
    ) -> None:
        self.options, self.signals = options, signals
        ordinal = core.parse_device(options.device)
        if ordinal >= 0:
            core.check_device(ordinal)
        self.expression = Expression(options.words[0].strip())
        given = _operands(self.expression, options.words[1:])
        self.files = {
            name: files.enter_context(contextlib.closing(Input(x)))
            for name, x in given.items()
            if isinstance(x, str)
        }
        #: Files and numbers, in the expression's order.
        self.operands = [self.files.get(name, x) for name, x in given.items()]
        self.shape = self._broadcast()
        self.is_reduction = self.expression._graph.reduction is not None
        sample = self._sample()
        self.dtype: np.dtype[Any] = options.dtype or sample.dtype
        if not np.can_cast(sample.dtype, self.dtype, options.casting):
            raise Failure(
                f"the result is of type {sample.dtype}, which casting {options.casting!r} does not"
                f" convert to {self.dtype}; see --casting"
            )
        if options.output is None and (sample.ndim if self.is_reduction else self.shape):
            raise _usage("the result is an array: add -o OUTPUT")

    def _broadcast(self) -> tuple[int, ...]:
        arrays = {name: file.array.shape for name, file in self.files.items()}
        try:
            return broadcast_shapes(*arrays.values())
        except ValueError:
            shapes = ", ".join(f"{name} {shape}" for name, shape in arrays.items())
            raise Failure(f"the shapes of the files do not agree: {shapes}") from None

    def _call(self, part: Callable[[Input], Any], **more: Any) -> Any:
        """Calls the expression with the numbers and, for each file, the result of `part`."""
        return self.expression(
            *(part(x) if isinstance(x, Input) else x for x in self.operands), **more
        )

    def _sample(self) -> np.ndarray[Any, Any]:
        """Returns the result for one element of each file, which shows its type and dimensions."""

        def one(file: Input) -> np.ndarray[Any, Any]:
            return np.ones((1,) * file.array.ndim, file.array.dtype.newbyteorder("="))

        with np.errstate(all="ignore"):
            return np.asarray(self._call(one))

    def run(self) -> None:
        if self.options.output is None:
            print(self._whole()[()])
            return
        with Output(self.options.output, self.options.overwrite, self.files) as output:
            if self.is_reduction:
                self._store(self._whole(), output)
            else:
                self._map(output)
            output.commit(self.signals)

    def _whole(self) -> np.ndarray[Any, Any]:
        """Returns the result of one call, for reductions; only ending the process stops it."""
        with self.signals.ending_at_once(), guarded_maps([*self.files.values()]):
            result = np.asarray(self._call(lambda file: file.array, device=self.options.device))
        converted: np.ndarray[Any, Any] = convert(result, self.dtype, copy=False)
        return converted

    def _store(self, result: np.ndarray[Any, Any], output: Output) -> None:
        output.create(result.shape, result.dtype, False)
        data = np.ascontiguousarray(result).reshape(-1).view(np.uint8)
        output.write(data.data, 0)

    def _map(self, output: Output) -> None:
        """Computes piece by piece, in C order; files in Fortran order are transposed first."""
        files, options = list(self.files.values()), self.options
        is_fortran = self._is_fortran()
        shape = self.shape[::-1] if is_fortran else self.shape
        for file in files:
            file.arrange(len(shape), is_fortran)
        is_mixed = not all(file.array.flags.c_contiguous for file in files)
        width = self.dtype.itemsize + sum(file.array.itemsize for file in files)
        step = piece_shape(shape, options.chunk // width, is_mixed)
        if is_mixed:
            for file in files:
                file.read_in_runs()

        output.create(self.shape, self.dtype, is_fortran)
        room = np.empty(math.prod(step) * self.dtype.itemsize, np.uint8)
        title = os.path.basename(output.path)
        with Progress(math.prod(shape) * width, title, options.quiet) as progress:
            for begin, piece in pieces(shape, step):
                self.signals.check()
                nbytes = math.prod(piece) * self.dtype.itemsize
                self._call(
                    functools.partial(Input.part, begin=begin, piece=piece),
                    out=room[:nbytes].view(self.dtype).reshape(piece),
                    casting=options.casting,
                    device=options.device,
                )
                at = 0
                for offset, length in runs(shape, begin, piece):
                    count = length * self.dtype.itemsize
                    output.write(room.data[at : at + count], offset * self.dtype.itemsize)
                    at += count
                progress.advance(math.prod(piece) * width)

    def _is_fortran(self) -> bool:
        """Tells whether the files that have all dimensions are all in Fortran order."""
        full = [file.array for file in self.files.values() if file.array.ndim == len(self.shape)]
        return (
            bool(full)
            and all(x.flags.f_contiguous for x in full)
            and not all(x.flags.c_contiguous for x in full)
        )


# ---- The command ---------------------------------------------------------------------------------


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a size, such as 500K, 64M or 2G")
    power = " kmgt".index(found[2] or " ")
    nbytes = int(float(found[1]) * 1024**power)
    if nbytes < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected at least 1 byte")
    return nbytes


def _dtype(text: str) -> np.dtype[Any]:
    try:
        dtype = np.dtype(text)
    except TypeError:
        dtype = None
    if dtype is None or dtype.char not in ELEMENTS or not dtype.isnative:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected one of {ELEMENTS_TEXT} (or f4 and the like)"
        )
    return dtype


def _device(text: str) -> str:
    try:
        core.parse_device(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pkg eval",
        usage="python -m pkg eval [options] EXPRESSION [NAME=FILE | NAME=NUMBER ...] [-o OUTPUT]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description='Evaluates EXPRESSION, such as "(a * b + c) / 2", over .npy files, which may\n'
        "be larger than memory, in one pass.  Each of its names stands for a file or a number:\n"
        "NAME=FILE or NAME=NUMBER (./1 is a file).",
        epilog=_EPILOG,
    )
    # EXPRESSION and the names, which may stand between the options.
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", metavar="OUTPUT", help="the .npy file to write")
    parser.add_argument(
        "--overwrite", "--force", action="store_true", help="replace an OUTPUT that exists"
    )
    parser.add_argument(
        "--dtype", type=_dtype, metavar="TYPE", help="element type of OUTPUT, such as float32 or f4"
    )
    parser.add_argument(
        "--casting",
        choices=["no", "equiv", "safe", "same_kind", "unsafe"],
        default="same_kind",
        help="what --dtype may do, as in NumPy; default: same_kind",
    )
    parser.add_argument(
        "--device", type=_device, default="cpu", help="cpu (default), cuda or cuda:N"
    )
    parser.add_argument(
        "--chunk",
        type=_bytes,
        default=_CHUNK,
        metavar="SIZE",
        help="how much to read and write in one piece, such as 500K, 2G (of 1024); default: 64M",
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="show neither progress nor warnings"
    )
    return parser


def _say(text: object) -> None:
    print(f"pkg eval: {text}", file=sys.stderr, flush=True)


def _syntax_text(error: SyntaxError) -> str:
    """Returns the message, and the expression with the place marked."""
    text = f"error: {error.msg}"
    if error.text:
        line = error.text.rstrip("\n")
        begin = error.offset or len(line) + 1  # Python has none where the text ends too early
        width = 1
        if error.end_offset and error.end_lineno == error.lineno:
            width = max(error.end_offset - begin, 1)
        text += f"\n    {line}\n    {' ' * (begin - 1)}{'^' * width}"
    return text


def _run_guarded(action: Callable[[], None]) -> int:
    """Runs an action and tells the user what goes wrong; returns the exit status."""
    try:
        action()
    except Failure as error:
        _say(f"error: {error}")
        return error.status
    except SyntaxError as error:
        _say(_syntax_text(error))
        return 2
    except MemoryError as error:
        _say(f"error: not enough memory; a smaller --chunk takes less ({error})")
        return 1
    except (core.CudaError, ValueError, TypeError, ArithmeticError) as error:
        _say(f"error: {error}")
        return 1
    except OSError as error:
        _say(f"error: {error}")
        return 1
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Arguments after -- are no options, whatever they begin with.
    end = given.index("--") if "--" in given else len(given)
    parser = _parser()
    options = parser.parse_intermixed_args(given[:end])
    options.words += given[end + 1 :]
    if not options.words:
        parser.error("an EXPRESSION is needed")
    told: dict[str, None] = {}  # each warning once, whatever the number of pieces

    def tell(message: Warning | str, *where: Any, **more: Any) -> None:
        told[str(message)] = None

    with warnings.catch_warnings(), np.errstate(all="warn", under="ignore"):
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = tell
        try:
            with Signals() as signals, contextlib.ExitStack() as files:
                status = _run_guarded(lambda: Evaluation(options, signals, files).run())
        except Interrupted:
            _say(f"interrupted ({signal.Signals(signals.received).name})")
            return 128 + signals.received
    if not options.quiet:
        for text in told:
            _say(f"warning: {text}")
    return status
