"""``python -m pkg eval``: an expression over arrays in files, which may be larger than memory.

It computes each piece of the result in memory and writes it to a temporary file beside the output,
whose name this file takes when it is on the disk.  `_stores` handles formats other than ``.npy``.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import math
import os
import re
import signal
import sys
import textwrap
import threading
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import Any

import numpy as np

from . import core
from ._cluster import Work, run_on_workers
from ._convert import convert
from ._devices import usable_ordinal
from ._inputs import AnyInput, Input, open_input
from ._operands import is_number
from ._outputs import Failure, Output, reason, size_text, usage
from ._pieces import piece_shape, pieces, whole_chunks
from ._reductions import reduce_slowly
from ._stores import ZarrOutput, open_output, place_of
from ._table import ELEMENTS, ELEMENTS_TEXT
from .expressions import Expression
from .expressions.expression import CASTINGS, broadcast_inputs, of_graph
from .expressions.graph import REDUCTIONS
from .expressions.parsing import FUNCTIONS

#: Bytes read and written for a piece: large beside the cost of a call, small beside memory.
_CHUNK = "64M"

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_EPILOG = """\
A file is a .npy file, or one of

  file.h5:/group/name          a dataset in an HDF5 file (.h5, .hdf5, .he5); needs h5py
  store.zarr, store.zarr:/name an array of Zarr in a folder; needs zarr
  file.nc:name                 a variable in a netCDF file (.nc, .nc4, .cdf); needs xarray, and
                               one of the packages with which it reads netCDF; dask for OUTPUT

and formats may mix.  A dataset is added to an HDF5 file that exists by writing all of the file
anew; a netCDF file is written with OUTPUT alone, and with the coordinates of an input that has
the shape of the result.  xarray unpacks variables as their attributes say.

The expression is Python's, of arithmetic, comparisons and functions, as in pkg.evaluate; files
are broadcast against each other and promoted as NumPy does it, and the bits are NumPy's.  Quote
it for the shell, and put it in parentheses if it begins with a minus sign.

functions:
{functions}

reductions, outermost, with axis= and keepdims=:
{reductions}

The value of a reduction is printed where there is no -o.  It is computed in one call over memory
maps, and shows no progress; .npy files in the other byte order are converted in memory for it,
and other files are copied to a temporary one.

OUTPUT appears when it is complete.  A run that fails or is interrupted leaves nothing behind.
A file that is replaced hands on its mode and its owner.  The inputs must not change meanwhile.

exit status: 0; 1 when something failed; 2 for invalid arguments; 130, 143 and 129 after
SIGINT (Ctrl-C), SIGTERM and SIGHUP.

examples:
  {prog} "(nir - red) / (nir + red)" nir=nir.npy red=red.npy -o ndvi.npy
  {prog} "(nir - red) / (nir + red)" nir=scene.h5:/nir red=scene.h5:/red -o ndvi.zarr
  {prog} "where(x > limit, limit, x)" x=x.npy limit=2.5 -o clipped.npy --dtype f4
  {prog} "sum(a * b)" a=a.npy b=b.npy
"""


# ---- Signals ----


class Interrupted(BaseException):
    """Raised when a signal ends the run."""


class Signals:
    """Makes the first signal that ends a run raise Interrupted; others let the cleanup go on."""

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
            # Destructors of a library's half-made objects fail, and Python would print that.
            sys.unraisablehook = lambda told: None
            raise Interrupted

    @contextlib.contextmanager
    def _handled(self, handler: Any) -> Iterator[None]:
        for number, _ in self._previous:
            signal.signal(number, handler)
        try:
            yield
        finally:
            for number, _ in self._previous:
                signal.signal(number, self._receive)

    def held(self) -> contextlib.AbstractContextManager[None]:
        """Ignores signals during work that must not be left half done."""
        return self._handled(lambda number, frame: None)

    def ending_at_once(self) -> contextlib.AbstractContextManager[None]:
        """Lets a signal end the process, during a long call with nothing to clean up."""
        return self._handled(signal.SIG_DFL)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """A signal that comes during work ends the run after it."""

        def note(number: int, frame: FrameType | None) -> None:
            self.received = self.received or number

        with self._handled(note):
            yield
        self.check()

    def check(self) -> None:
        """Raises Interrupted if the first one was swallowed, as in a destructor."""
        if self.received:
            raise Interrupted


# ---- Progress ----


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
            line = f"{self._title}: {percent} % of {size_text(self._total)}"
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


# ---- Inputs ----


def _number(text: str) -> int | float | complex | None:
    for kind in (int, float, complex):
        with contextlib.suppress(ValueError):
            return kind(text)
    return None


@contextlib.contextmanager
def guarded_maps(files: Sequence[AnyInput]) -> Iterator[None]:
    """Ends the process with a message and status 1 if it cannot read a memory map.

    The system sends SIGBUS to a thread that reads beyond the end of a truncated file, or from a
    disk that fails.  Such a read cannot be abandoned.
    """

    first = threading.Lock()

    def end(number: int) -> None:
        first.acquire()  # another thread that comes here waits for the end
        inputs = (file for file in files if isinstance(file, Input))
        failures = [file.truncation() for file in inputs if file.is_truncated()]
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
    """Returns a number or the path of a file for each name, in the expression's order."""
    given: dict[str, int | float | complex | str] = {}
    for definition in definitions:
        name, equals, value = definition.partition("=")
        name = unicodedata.normalize("NFKC", name)  # as Python's parser does
        if not equals or not name.isidentifier() or not value:
            raise usage(f"{definition!r}: expected NAME=FILE or NAME=NUMBER")
        if name in given:
            raise usage(f"{name} is given twice")
        number = _number(value)
        given[name] = value if number is None else number
    names = expression.inputs
    missing = [name for name in names if name not in given]
    if missing:
        wanted = " ".join(f"{name}=FILE" for name in missing)
        raise usage(f"the expression uses {', '.join(missing)}: add {wanted} (or a number)")
    superfluous = [name for name in given if name not in names]
    if superfluous:
        used = f"only {', '.join(names)}" if names else "no names"
        raise usage(f"{', '.join(superfluous)}: not in the expression, which uses {used}")
    return {name: given[name] for name in names}


# ---- Evaluation ----


class Evaluation:
    def __init__(
        self, options: argparse.Namespace, signals: Signals, files: contextlib.ExitStack
    ) -> None:
        self.options, self.signals = options, signals
        usable_ordinal(options.device)
        self.expression = Expression(options.words[0].strip())
        given = _operands(self.expression, options.words[1:])
        self.files = {
            name: files.enter_context(contextlib.closing(open_input(x)))
            for name, x in given.items()
            if isinstance(x, str)
        }
        #: Files and numbers, in the expression's order.
        self.operands = [self.files.get(name, x) for name, x in given.items()]
        self.shape = broadcast_inputs([*self.files], [*self.files.values()])
        self.is_reduction = self.expression._graph.reduction is not None
        dtype, ndim = self._describe()
        self.dtype: np.dtype[Any] = options.dtype or dtype
        if not np.can_cast(dtype, self.dtype, options.casting):
            raise Failure(
                f"the result is of type {dtype}, which casting {options.casting!r} does not"
                f" convert to {self.dtype}; see --casting"
            )
        self._check_scheduler()
        if options.output is None and ndim:
            raise usage("the result is an array: add -o OUTPUT")

    def _check_scheduler(self) -> None:
        if self.options.scheduler is None:
            return
        place = place_of(self.options.output or "")
        if self.is_reduction:
            raise usage(
                "--scheduler: a reduction is computed in one call, without workers: leave it out"
            )
        if place is None or place.kind != "Zarr":
            raise usage("--scheduler: workers write chunks of Zarr: add -o OUTPUT.zarr")

    def _call(self, part: Callable[[Any], Any], **more: Any) -> Any:
        return self.expression(*self._parts(part), **more)

    def _parts(self, part: Callable[[Any], Any]) -> list[Any]:
        return [part(x) if isinstance(x, AnyInput) else x for x in self.operands]

    def _describe(self) -> tuple[np.dtype[Any], int]:
        """Returns the result's type and number of dimensions, from empty arrays: none warns."""
        graph = self.expression._graph
        elements = of_graph(graph._replace(reduction=None))
        empty = self._parts(lambda file: np.empty(0, file.dtype.newbyteorder("=")))
        value = elements(*empty)
        dtype = np.dtype(type(value)) if is_number(value) else value.dtype
        if graph.reduction is None:
            return dtype, len(self.shape)
        name, axis, keepdims = graph.reduction
        ones = np.ones((1,) * len(self.shape), dtype)  # a minimum needs an element
        result = reduce_slowly(name, ones, axis, keepdims=keepdims)
        return result.dtype, result.ndim

    def run(self) -> None:
        if self.options.output is None:
            _show(self._whole()[()])
            return
        path, is_overwriting = self.options.output, self.options.overwrite
        output = open_output(path, is_overwriting, self.files, self.signals.deferred)
        with output:
            if self.is_reduction:
                self._store(self._whole(), output)
            elif self.options.scheduler is not None:
                self._map_on_workers(output)
            else:
                self._map(output)
            output.commit(self.signals.held)

    def _whole(self) -> np.ndarray[Any, Any]:
        """Returns the result of one call, for reductions; only ending the process stops it."""
        arrays = {file: file.whole() for file in self.files.values()}
        with self.signals.ending_at_once(), guarded_maps([*arrays]):
            result = self._call(arrays.__getitem__, device=self.options.device)
        if is_number(result) and self.options.dtype is None:
            return np.asarray(result, object)  # an int of any size
        own = np.asarray(result, type(result) if is_number(result) else None)
        converted: np.ndarray[Any, Any] = convert(own, self.dtype, copy=False)
        return converted

    def _store(self, result: np.ndarray[Any, Any], output: Any) -> None:
        data = np.ascontiguousarray(result).reshape(result.shape)
        output.create(data.shape, data.dtype, None)
        output.fill(data.shape, lambda begin, piece: data)

    def _width(self) -> int:
        return self.dtype.itemsize + sum(file.dtype.itemsize for file in self.files.values())

    def _chunks(self) -> tuple[int, ...] | None:
        for file in self.files.values():
            if file.chunks and file.shape == self.shape:
                return file.chunks
        return None

    def _map(self, output: Any) -> None:
        """Computes pieces; transposes files in Fortran order first, and the result."""
        is_npy = isinstance(output, Output)
        is_fortran = is_npy and self._is_fortran()
        shape = self.shape[::-1] if is_fortran else self.shape
        is_mixed = self._arrange(is_fortran)
        chunks = self._chunks()
        output.create(self.shape, self.dtype, is_fortran if is_npy else chunks)
        chunks = getattr(output, "chunks", chunks)
        limit = self.options.chunk // self._width()
        if chunks is None:
            step = piece_shape(shape, limit, is_mixed and is_npy)
        else:
            step = whole_chunks(shape, chunks, limit)
        with self._computing(shape, step, output.path) as compute:
            output.fill(step, compute)

    def _map_on_workers(self, output: ZarrOutput) -> None:
        output.create(self.shape, self.dtype, self._chunks())
        step = whole_chunks(self.shape, output.chunks, self.options.chunk // self._width())
        work = Work(
            text=self.options.words[0].strip(),
            operands=[
                os.path.abspath(x.path) if isinstance(x, AnyInput) else x for x in self.operands
            ],
            ndim=len(self.shape),
            output=output.location(),
            casting=self.options.casting,
            device=self.options.device,
        )
        run_on_workers(self.options.scheduler, work, pieces(self.shape, step), self.options.quiet)

    def _arrange(self, is_fortran: bool) -> bool:
        """Gives the files the dimensions of the result; tells whether their orders are mixed."""
        files = list(self.files.values())
        for file in files:
            file.arrange(len(self.shape), is_fortran)
        is_mixed = not all(file.is_c_contiguous for file in files)
        if is_mixed:
            for file in files:
                if isinstance(file, Input):
                    file.read_in_runs()
        return is_mixed

    @contextlib.contextmanager
    def _computing(
        self, shape: tuple[int, ...], step: tuple[int, ...], path: str
    ) -> Iterator[Callable[[tuple[int, ...], tuple[int, ...]], np.ndarray[Any, Any]]]:
        """Yields a function that computes a piece, in memory that its next call overwrites."""
        width, options = self._width(), self.options
        room = np.empty(math.prod(step) * self.dtype.itemsize, np.uint8)
        title = os.path.basename(path.rstrip("/"))
        with Progress(math.prod(shape) * width, title, options.quiet) as progress:

            def compute(begin: tuple[int, ...], piece: tuple[int, ...]) -> np.ndarray[Any, Any]:
                self.signals.check()
                nbytes = math.prod(piece) * self.dtype.itemsize
                out = room[:nbytes].view(self.dtype).reshape(piece)
                self._call(
                    lambda file: file.part(begin=begin, piece=piece),
                    out=out,
                    casting=options.casting,
                    device=options.device,
                )
                progress.advance(math.prod(piece) * width)
                return out

            yield compute

    def _is_fortran(self) -> bool:
        full = [file for file in self.files.values() if len(file.shape) == len(self.shape)]
        return (
            bool(full)
            and all(x.is_f_contiguous for x in full)
            and not all(x.is_c_contiguous for x in full)
            and all(isinstance(x, Input) for x in self.files.values())
        )


# ---- The command ----


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a size, such as 500K, 64M or 2G")
    power = " kmgt".index(found[2] or " ")
    nbytes = float(found[1]) * 1024.0**power
    if not 1 <= nbytes < 2**63:
        raise argparse.ArgumentTypeError(f"{text!r}: expected at least 1 byte, less than 2^63")
    return int(nbytes)


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


def _path(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("it is empty: expected the name of a file")
    return text


def program() -> str:
    return "pcd" if os.path.basename(sys.argv[0]) == "pcd" else "python -m pkg"


def _columns(names: Iterable[str]) -> str:
    return textwrap.fill(" ".join(names), 96, initial_indent="  ", subsequent_indent="  ")


def _parser() -> argparse.ArgumentParser:
    prog = f"{program()} eval"
    epilog = _EPILOG.format(
        prog=prog, functions=_columns(sorted(FUNCTIONS)), reductions=_columns(REDUCTIONS)
    )
    parser = argparse.ArgumentParser(
        prog="pkg eval",
        usage=f"{prog} [options] EXPRESSION [NAME=FILE | NAME=NUMBER ...] [-o OUTPUT]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description='Evaluates EXPRESSION, such as "(a * b + c) / 2", over arrays in files, which\n'
        "may be larger than memory, in one pass.  Each of its names stands for a file or a\n"
        "number: NAME=FILE or NAME=NUMBER (./1 is a file).",
        epilog=epilog,
    )
    # EXPRESSION and the names, which may stand between the options.
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=_path, metavar="OUTPUT", help="the file to write")
    parser.add_argument(
        "--overwrite", "--force", action="store_true", help="replace an OUTPUT that exists"
    )
    parser.add_argument(
        "--dtype", type=_dtype, metavar="TYPE", help="element type of OUTPUT, such as float32 or f4"
    )
    parser.add_argument(
        "--casting",
        choices=CASTINGS,
        default="same_kind",
        help="what --dtype may do, as in NumPy; default: same_kind",
    )
    parser.add_argument(
        "--device",
        type=_device,
        help="cpu, cuda, cuda:N, cuda:all; default: MYLIB_DEFAULT_DEVICE, or cpu",
    )
    parser.add_argument(
        "--chunk",
        type=_bytes,
        default=_CHUNK,
        metavar="SIZE",
        help="how much to read and write in one piece, such as 500K, 2G (of 1024); default: 64M",
    )
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="let the workers of a Dask scheduler compute, as tcp://HOST:8786; OUTPUT is of Zarr, "
        "and the workers see the files by the same names",
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="show neither progress nor warnings"
    )
    return parser


def _say(text: object) -> None:
    with contextlib.suppress(OSError):  # of a full disk: the exit status still tells
        print(f"pkg eval: {text}", file=sys.stderr, flush=True)


def _show(value: object) -> None:
    if sys.stdout is None:
        raise Failure("standard output is closed")
    try:
        print(value, flush=True)
    except OSError as error:
        sys.stdout = None  # else Python would try again at its end, and exit with 120
        raise Failure(f"cannot write to standard output: {reason(error)}") from None


def _syntax_text(error: SyntaxError) -> str:
    text = f"error: {error.msg}"
    if error.text:
        line = error.text.rstrip("\n")
        begin = error.offset or len(line) + 1  # Python has none if the text ends too early
        width = 1
        if error.end_offset and error.end_lineno == error.lineno:
            width = max(error.end_offset - begin, 1)
        text += f"\n    {line}\n    {' ' * (begin - 1)}{'^' * width}"
    return text


def _run_guarded(action: Callable[[], None]) -> int:
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
    except (core.CudaError, ValueError, TypeError, ArithmeticError, OSError) as error:
        _say(f"error: {error}")
        return 1
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Arguments after -- are not options, whatever they begin with.
    end = given.index("--") if "--" in given else len(given)
    parser = _parser()
    options, unknown = parser.parse_known_intermixed_args(given[:end])
    options.words += given[end + 1 :]
    is_missing = all("=" in word for word in options.words)
    if is_missing and len(unknown) == 1 and not unknown[0].startswith("--"):
        options.words[:0] = unknown  # an expression such as -a+b, which looks like an option
    elif unknown:
        parser.error(
            f"unrecognized arguments: {' '.join(unknown)} (put an EXPRESSION that begins with - in "
            "parentheses)"
        )
    if not options.words:
        parser.error("an EXPRESSION is needed")
    told: dict[str, None] = {}  # each warning once, whatever the number of pieces

    def tell(message: Warning | str, *where: Any, **more: Any) -> None:
        told[str(message)] = None

    with warnings.catch_warnings(), np.errstate(all="warn", under="ignore"):
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = tell
        unraisable = sys.unraisablehook
        try:
            with Signals() as signals, contextlib.ExitStack() as files:
                status = _run_guarded(lambda: Evaluation(options, signals, files).run())
        except Interrupted:
            _say(f"interrupted ({signal.Signals(signals.received).name})")
            return 128 + signals.received
        finally:
            sys.unraisablehook = unraisable
    if not options.quiet:
        for text in told:
            _say(f"warning: {text}")
    return status
