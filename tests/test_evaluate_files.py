"""``python -m pkg eval``: NumPy's bits in the output, or a clear error and nothing left behind."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import math
import os
import pty
import resource
import shlex
import signal
import stat
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cases
import numpy as np
import pytest
from generators import values
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib import format as npy
from shared import assert_bits, names

import pkg as pcd
from pkg import _files
from pkg._files import main
from pkg._outputs import runs
from pkg._pieces import piece_shape, pieces

NDVI = "(nir - red) / (nir + red)"


pytestmark = pytest.mark.usefixtures("folder")


def heed_signals() -> None:
    """Undoes what ``nohup`` and shells pass on: the command leaves ignored signals ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def started(*arguments: str, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """Starts the command in a process of its own, and ends it afterwards."""
    with subprocess.Popen(
        [sys.executable, "-m", "pkg", "eval", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **{"preexec_fn": heed_signals, **more},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run(*arguments: str, **more: Any) -> tuple[int, str, str]:
    """Runs the command in a process of its own; returns exit status, output and errors."""
    with started(*arguments, **more) as process:
        shown, said = process.communicate(timeout=300)
    return process.returncode, shown, said


def save(**arrays: Any) -> list[str]:
    """Saves each as NAME.npy; returns the arguments that name them."""
    for name, x in arrays.items():
        np.save(f"{name}.npy", x)
    return [f"{name}={name}.npy" for name in arrays]


def assert_same_bits(path: str, want: Any) -> np.ndarray[Any, Any]:
    got = np.load(path)
    assert_bits(got, np.asarray(want))
    return got


def failing(number: int) -> Callable[..., Any]:
    """Returns a function that fails as one of the system does, with an error number."""

    def fail(*args: Any, **more: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def sparse(path: str, shape: tuple[int, ...], dtype: str, **more: Any) -> None:
    """A file of zeros that takes no room on the disk."""
    npy.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=shape, **more).flush()


# ---- Results ----


def test_the_current_folder_is_gone(tmp_path: Path, python: Any) -> None:
    code = """
import os, sys
from pkg._files import main
sys.stderr = sys.stdout
os.mkdir("gone")
there = os.path.abspath("b.npy")
os.chdir("gone")
os.rmdir("../gone")
for name in ("b.npy", "b.zarr", "b.h5:/b", "b.nc:b", there):
    print(main(["a + 1", "a=" + sys.argv[1], "-o", name]))
"""
    np.save(tmp_path / "a.npy", np.ones(3))
    told = python(f"import os; os.chdir({str(tmp_path)!r})" + code, str(tmp_path / "a.npy"))
    assert told.count(": no current folder: ") == 4 and told.split()[-1] == "0"


def test_a_run() -> None:
    """Runs the README's command: the output is NumPy's, and no other file appears."""
    nir, red = (values(np.dtype("f4"), 50_000, seed).reshape(200, 250) for seed in (1, 2))
    files = save(nir=nir, red=red)
    status, shown, said = run(NDVI, *files, "-o", "ndvi.npy", "--quiet")
    assert (status, shown, said) == (0, "", "")
    with np.errstate(all="ignore"):
        assert_same_bits("ndvi.npy", (nir - red) / (nir + red))
    assert names() == ["ndvi.npy", "nir.npy", "red.npy"]


def arrays(*shapes: tuple[int, ...], dtype: str = "f8") -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(len(shapes))
    return [rng.uniform(-9, 9, shape).astype(dtype) for shape in shapes]


def fortran(*shapes: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    return [np.asfortranarray(x) for x in arrays(*shapes)]


LAYOUTS: dict[str, Callable[[], list[np.ndarray[Any, Any]]]] = {
    "one dimension": lambda: arrays((1001,), (1001,)),
    "no dimensions": lambda: arrays((), ()),
    "one of no dimensions": lambda: arrays((33, 7), ()),
    "no elements": lambda: arrays((0, 7), (7,)),
    "row": lambda: arrays((33, 70), (70,)),
    "column": lambda: arrays((33, 70), (33, 1)),
    "outer": lambda: arrays((33, 1), (70,)),
    "three dimensions": lambda: arrays((5, 1, 70), (33, 70)),
    "Fortran": lambda: fortran((33, 70), (33, 70)),
    "Fortran and row": lambda: [*fortran((33, 70)), *arrays((70,))],
    "Fortran, three dimensions": lambda: fortran((5, 33, 7), (33, 7)),
    "mixed": lambda: [*arrays((33, 70)), *fortran((33, 70))],
    "mixed, three dimensions": lambda: [*arrays((5, 33, 7)), *fortran((5, 33, 7))],
    "mixed, one of fewer dimensions": lambda: [*arrays((5, 33, 7)), *fortran((33, 7))],
    "long columns": lambda: fortran((3, 2001), (3, 2001)),
}


@cases.each_device()
@pytest.mark.parametrize("chunk", ["1", "100", "5000", "64M"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, chunk: str, device: str) -> None:
    """The risk: pieces in the wrong place, of the wrong operand, or in the wrong order."""
    a, b = LAYOUTS[layout]()
    words = ["a * 2 - b", *save(a=a, b=b), "-o", "c.npy", "--chunk", chunk, "--device", device]
    assert main(words) == 0
    got = assert_same_bits("c.npy", a * 2 - b)
    if layout.startswith("Fortran") or layout == "long columns":
        assert got.flags.f_contiguous and not got.flags.c_contiguous


@cases.each_dtype([*cases.DTYPES, np.dtype(bool)])
def test_types(dtype: np.dtype[Any]) -> None:
    """The risk: bytes written wrongly, or a header that describes the type wrongly."""
    a, b = (np.arange(k, k + 99).astype(dtype) for k in (1, 3))
    files = save(a=a, b=b)
    assert (
        main(["where(a < b, a, b)" if dtype.kind != "c" else "a + b", *files, "-o", "c.npy"]) == 0
    )
    assert_same_bits("c.npy", np.where(a < b, a, b) if dtype.kind != "c" else a + b)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions_of_the_format(version: tuple[int, int]) -> None:
    a = np.arange(30.0).reshape(5, 6)
    with open("a.npy", "wb") as file:
        npy.write_array(file, a, version=version)
    assert main(["a + 1", "a=a.npy", "-o", "b.npy"]) == 0
    assert_same_bits("b.npy", a + 1)


def test_bytes_in_the_other_order() -> None:
    """Files from other machines; the output has this machine's order."""
    a, b = arrays((100, 5), (5,))
    assert main(["a - b", *save(a=a.astype(">f8"), b=b.astype(">f4")), "-o", "c.npy"]) == 0
    assert_same_bits("c.npy", a - b.astype("f4"))


@pytest.mark.parametrize("number", ["3", "2.5", "-1e3", "2j", "inf"])
def test_numbers(number: str) -> None:
    """A Python number takes the array's type, as in Python."""
    (a,) = arrays((40,), dtype="f4")
    assert main(["a * k", *save(a=a), f"k={number}", "-o", "c.npy"]) == 0
    assert_same_bits("c.npy", a * complex(number) if "j" in number else a * float(number))


def test_a_file_named_like_a_number() -> None:
    save(a=np.arange(3.0))
    os.rename("a.npy", "7")
    assert main(["a + 1", "a=./7", "-o", "c.npy"]) == 0
    assert_same_bits("c.npy", np.arange(3.0) + 1)


def test_the_type_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """--dtype converts as NumPy would, and only as far as --casting goes."""
    (a,) = arrays((40,))
    files = save(a=a)
    assert main(["a * 2", *files, "-o", "b.npy", "--dtype", "f4"]) == 0
    assert_same_bits("b.npy", (a * 2).astype("f4"))
    assert main(["a * 2", *files, "-o", "c.npy", "--dtype", "i2"]) == 1
    said = capsys.readouterr().err
    assert "float64" in said and "int16" in said and "--casting" in said
    assert main(["a * 2", *files, "-o", "c.npy", "--dtype", "i2", "--casting", "unsafe"]) == 0
    assert_same_bits("c.npy", (a * 2).astype("i2"))


@cases.each_device()
@pytest.mark.parametrize("layout", ["row", "Fortran", "mixed"])
def test_reductions(layout: str, device: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Pieces must not change the order in which a sum is made."""
    a, b = LAYOUTS[layout]()
    words = ["sum(a * b)", *save(a=a, b=b), "--chunk", "100", "--device", device]
    want = pcd.sum(a * b)
    assert main(words) == 0
    assert capsys.readouterr().out == f"{want}\n"
    assert main([*words, "-o", "c.npy"]) == 0
    assert_same_bits("c.npy", want)


def test_reductions_along_an_axis(capsys: pytest.CaptureFixture[str]) -> None:
    """The result is an array, which is not printed."""
    (a,) = arrays((40, 50))
    words = ["mean(a * 2, axis=0)", *save(a=a)]
    assert main(words) == 2
    assert "-o OUTPUT" in capsys.readouterr().err
    assert main([*words, "-o", "b.npy"]) == 0
    assert_same_bits("b.npy", pcd.mean(a * 2, axis=0))


def test_a_result_without_dimensions_is_printed() -> None:
    assert run("2 * x", *save(x=np.float32(0.1)))[:2] == (0, "0.2\n")


@pytest.mark.parametrize("text", ["-x", "-x+y", "-x + y", "-(x+y)", "-2*x", "-sin(x)"])
def test_an_expression_that_begins_with_a_minus_sign(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It looks like an option, except after --."""
    names = [f"{name}={value}" for name, value in (("x", 3.0), ("y", 0.5)) if name in text]
    wanted = eval(text, {"x": 3.0, "y": 0.5, "sin": pcd.sin})
    for words in ([text, *names], ["-q", text, *names], ["-q", "--", text, *names]):
        assert main(words) == 0
        assert float(capsys.readouterr().out) == wanted


def test_numbers_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """The type does not depend on the values; the printed value is exact."""
    for text, shown in (("n * n", 16 * 10**18), ("n ** 4", 256 * 10**36), ("n > 0.5", True)):
        assert main([text, "n=4_000_000_000"]) == 0
        assert capsys.readouterr().out == f"{shown}\n"
    for words in (["n * n", "--dtype", "f4"], ["n * n", "-o", "y.npy"], ["sum(n * n)"]):
        assert main([*words, "n=4_000_000_000"]) == 1
        assert "int too large" in capsys.readouterr().err
    assert main(["n * n", "n=3", "-o", "y.npy"]) == 0
    assert_same_bits("y.npy", np.array(9))


@pytest.mark.parametrize(
    "text",
    [
        "2 ** (x - 5)",
        "sum(2 ** (x - 5))",
        "max(2 ** (x - 5), axis=0, keepdims=True)",
        "mean(2 ** (x - 5), axis=(0, 1))",
        "any(2 ** (x - 5) > 6, axis=-1)",
        "1 // (x - 1)",
        "x % (x - 1) + (x << (x - 1))",
        "1 / (n - 5) + x",
        "min(x // (x - 1))",
    ],
)
def test_values_that_are_not_in_the_files(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Finding the result's type computes with no made-up value, such as a negative exponent."""
    x = np.arange(5, 17).reshape(3, 4)
    words = [text, *save(x=x), *(["n=7"] if "n -" in text else []), "-o", "y.npy"]
    assert main(words) == 0
    assert capsys.readouterr().err == ""
    assert_same_bits("y.npy", pcd.evaluate(text, {"x": x, "n": 7}))


@given(
    shape=st.lists(st.integers(0, 9), max_size=4).map(tuple),
    limit=st.integers(0, 300),
    is_mixed=st.booleans(),
)
def test_pieces_cover_everything_once(shape: tuple[int, ...], limit: int, is_mixed: bool) -> None:
    step = piece_shape(shape, limit, is_mixed)
    written = np.zeros(math.prod(shape), int)
    for begin, piece in pieces(shape, step):
        assert math.prod(piece) <= max(limit, 1)
        flat = np.arange(written.size).reshape(shape)
        part = flat[tuple(slice(i, i + n) for i, n in zip(begin, piece, strict=True))]
        spans = [range(at, at + count) for at, count in runs(shape, begin, piece)]
        assert [i for span in spans for i in span] == part.reshape(-1).tolist()
        written[part] += 1
        if not is_mixed:
            assert len(spans) == 1
    assert (written == 1).all()


# ---- Files that are as they should be ----


def test_an_output_that_appears_meanwhile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = save(a=np.arange(5.0))
    create = _files.Output.create

    def create_late(self: Any, *args: Any) -> None:
        create(self, *args)
        Path("b.npy").write_text("precious")

    monkeypatch.setattr(_files.Output, "create", create_late)
    assert main(["a * 2", *files, "-o", "b.npy"]) == 1
    assert "b.npy exists" in capsys.readouterr().err
    assert names() == ["a.npy", "b.npy"] and Path("b.npy").read_text() == "precious"


@pytest.mark.parametrize("has_links", [True, False])
def test_an_output_that_appears_at_the_last_moment(
    has_links: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file appears between the last check and the renaming, which therefore has to refuse."""
    files = save(a=np.arange(5.0))
    if not has_links:  # on the file system
        monkeypatch.setattr(os, "link", failing(errno.EPERM))
    assert main(["a * 2", *files, "-o", "c.npy"]) == 0
    assert_same_bits("c.npy", np.arange(5.0) * 2)
    Path("b.npy").write_text("precious")
    monkeypatch.setattr(os.path, "lexists", lambda path: False)
    assert main(["a * 2", *files, "-o", "b.npy"]) == 1
    assert "b.npy exists; --overwrite" in capsys.readouterr().err
    assert names() == ["a.npy", "b.npy", "c.npy"] and Path("b.npy").read_text() == "precious"


def test_a_renaming_that_fails_without_links_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = save(a=np.arange(5.0))
    for name in ("link", "replace"):
        monkeypatch.setattr(os, name, failing(errno.EPERM))
    assert main(["a * 2", *files, "-o", "b.npy"]) == 1
    assert "cannot write b.npy: Operation not permitted" in capsys.readouterr().err
    assert names() == ["a.npy"]


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
@pytest.mark.parametrize("is_quiet", [True, False])
def test_a_folder_that_is_not_synchronized(
    is_quiet: bool,
    overwrite: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The output exists by then: a warning says that it may not be on the disk yet."""
    files = save(a=np.arange(5.0))
    real = os.fsync

    def fsync(file: int) -> None:
        (failing(errno.EIO) if stat.S_ISDIR(os.fstat(file).st_mode) else real)(file)

    monkeypatch.setattr(os, "fsync", fsync)
    words = ["a * 2", *files, "-o", "b.npy", *overwrite, *(["--quiet"] if is_quiet else [])]
    assert main(words) == 0
    said = capsys.readouterr().err
    if is_quiet:
        assert said == ""
    else:
        assert said.startswith("pkg eval: warning: b.npy is complete, but its name may not be")
        assert "Input/output error" in said and said.count("\n") == 1
    assert names() == ["a.npy", "b.npy"]
    assert_same_bits("b.npy", np.arange(5.0) * 2)


@pytest.mark.parametrize("through_link", [False, True])
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755, 0o444])
def test_a_replaced_file_hands_on_its_mode_and_owner(
    mode: int, through_link: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else can read the file while it is written."""
    files = save(a=np.arange(5.0))
    os.mkdir("elsewhere")
    output = "b.npy"
    if through_link:
        output = "elsewhere/b.npy"
        os.symlink(output, "b.npy")
    Path(output).write_text("old")
    owner = (12345, 54321) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(output, *owner)
    os.chmod(output, mode)
    modes = []
    real = os.posix_fallocate

    def fallocate(file: int, *more: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(file).st_mode))
        real(file, *more)

    monkeypatch.setattr(os, "posix_fallocate", fallocate)
    assert main(["a * 2", *files, "-o", "b.npy", "--overwrite"]) == 0
    found = os.stat(output)
    assert (found.st_uid, found.st_gid) == owner and stat.S_IMODE(found.st_mode) == mode
    assert modes == [mode] and os.path.islink("b.npy") == through_link
    assert_same_bits(output, np.arange(5.0) * 2)


def test_an_owner_that_cannot_be_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error comes before anything is computed."""
    files = save(a=np.arange(5.0))
    Path("b.npy").write_text("precious")
    real = os.stat

    def another_owner(path: Any, **more: Any) -> os.stat_result:
        found = real(path, **more)
        if str(path).endswith("b.npy"):
            return os.stat_result([*found[:4], 12345, 54321, *found[6:]])
        return found

    monkeypatch.setattr(os, "stat", another_owner)
    monkeypatch.setattr(os, "fchown", failing(errno.EPERM))
    assert main(["a * 2", *files, "-o", "b.npy", "--overwrite"]) == 1
    said = capsys.readouterr().err
    assert "b.npy: it belongs to user 12345 and group 54321" in said and "not permitted" in said
    assert names() == ["a.npy", "b.npy"] and Path("b.npy").read_text() == "precious"


def test_a_link_stays_a_link() -> None:
    files = save(a=np.arange(5.0))
    os.mkdir("elsewhere")
    os.symlink("elsewhere/b.npy", "b.npy")
    assert main(["a * 2", *files, "-o", "b.npy"]) == 0
    assert os.path.islink("b.npy")
    assert_same_bits("elsewhere/b.npy", np.arange(5.0) * 2)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o000, 0o666)])
def test_the_mode_is_the_umasks(umask: int, mode: int) -> None:
    """Temporary files are often private; the output must not be."""
    files = save(a=np.arange(5.0))
    before = os.umask(umask)
    try:
        assert main(["a * 2", *files, "-o", "b.npy"]) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat("b.npy").st_mode) == mode


# ---- Errors ----


#: Arguments, of which the expression has no spaces; the exit status; texts of the error.
FAILURES: dict[str, tuple[str, int, list[str]]] = {
    "no expression": ("", 2, ["EXPRESSION"]),
    "syntax": ("(a+b a=a.npy b=b.npy -o c.npy", 2, ["    (a+b\n", "^"]),
    "forbidden": ("a.shape a=a.npy -o c.npy", 2, ["a.shape", "^"]),
    "missing name": ("a+b a=a.npy -o c.npy", 2, ["uses b", "b=FILE"]),
    "superfluous name": (
        "a+b a=a.npy b=b.npy x=a.npy -o c.npy",
        2,
        ["x: not in the expression", "a, b"],
    ),
    "a name twice": ("a+1 a=a.npy a=b.npy -o c.npy", 2, ["a is given twice"]),
    "no name": ("a+1 a.npy -o c.npy", 2, ["'a.npy'", "NAME=FILE"]),
    "no output": ("a+1 a=a.npy", 2, ["-o OUTPUT"]),
    "chunk": ("a+1 a=a.npy --chunk much", 2, ["'much'", "64M"]),
    "chunk, too large": (f"a+1 a=a.npy --chunk {'9' * 400}", 2, ["less than 2^63"]),
    "type": ("a+1 a=a.npy --dtype M8[s]", 2, ["'M8[s]'", "complex128"]),
    "unknown device": ("a+1 a=a.npy --device gpu", 2, ["'gpu'", '"cuda:N"']),
    "option": ("a+1 a=a.npy --what", 2, ["--what"]),
    "short option": ("a+1 a=a.npy -w", 2, ["-w", "begins with - in parentheses"]),
    "option alone": ("--what", 2, ["unrecognized arguments: --what"]),
    "empty output": ("a+1 a=a.npy -o ''", 2, ["-o/--output: it is empty"]),
    "missing file": ("a+1 a=none.npy -o c.npy", 1, ["none.npy", "No such file"]),
    "folder": ("a+1 a=. -o c.npy", 1, [".: it is a folder", "STORE.zarr:/NAME"]),
    "text": ("a+1 a=text.npy -o c.npy", 1, ["text.npy", "not a .npy file"]),
    "empty file": ("a+1 a=empty.npy -o c.npy", 1, ["empty.npy", "not a .npy file"]),
    "archive": ("a+1 a=many.npz -o c.npy", 1, ["many.npz", "archive"]),
    "truncated": ("a+1 a=short.npy -o c.npy", 1, ["short.npy", "ends before"]),
    "objects": ("a+1 a=objects.npy -o c.npy", 1, ["objects.npy", "its type object"]),
    "times": ("a+1 a=times.npy -o c.npy", 1, ["times.npy", "datetime64[s]"]),
    "records": ("a+1 a=records.npy -o c.npy", 1, ["records.npy", "('x', '<i4')"]),
    "shapes": ("a+b*r a=a.npy b=b.npy r=row.npy -o c.npy", 1, ["a (4, 5)", "b (4, 5)", "r (6,)"]),
    "number too large": ("a+300 a=bytes.npy -o c.npy", 1, ["300"]),
    "output is input": ("a+1 a=a.npy -o a.npy --overwrite", 1, ["input a"]),
    "output is input by link": (
        "a+b a=a.npy b=link.npy -o b.npy --force",
        1,
        ["b.npy is the input b"],
    ),
    "output is a folder": ("a+1 a=a.npy -o . --force", 1, ["not a regular file"]),
    "output is no folder": ("a+1 a=a.npy -o c/", 1, ["c/: it names a folder"]),
    "output is an archive": ("a+1 a=a.npy -o c.npz", 2, ["c.npz", "name a .npy file"]),
    "output is text": ("a+1 a=a.npy -o c.csv", 2, ["c.csv", ".csv", "name a .npy file"]),
    "output is a device": ("a+1 a=a.npy -o /dev/null", 1, ["not a regular file"]),
    "no folder": ("a+1 a=a.npy -o none/c.npy", 1, ["none/c.npy", "no folder"]),
    "beneath a file": ("a+1 a=a.npy -o a.npy/c.npy", 1, ["a.npy/c.npy"]),
    "folder that takes no files": ("a+1 a=a.npy -o /proc/c.npy", 1, ["/proc/c.npy"]),
}


@pytest.fixture
def files() -> list[str]:
    """Makes the files that the failures are about, and returns their names."""
    save(a=np.ones((4, 5)), b=np.ones((4, 5)), row=np.ones(6), bytes=np.ones(3, "u1"))
    save(times=np.zeros(3, "M8[s]"), records=np.zeros(3, [("x", "i4")]))
    np.save("objects.npy", np.array([1, "a"], object), allow_pickle=True)
    np.savez("many.npz", a=np.ones(3))
    Path("text.npy").write_text("not an array, but long enough to be read as one's beginning")
    Path("empty.npy").touch()
    Path("short.npy").write_bytes(Path("a.npy").read_bytes()[:-8])
    os.symlink("b.npy", "link.npy")
    return names()


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        (b"False", b"(alse"),
        (b"False", b"Fa\nse"),
        (b"}", b"+"),
        (b"{", b"\n"),
        (b"(4, 5)", b"(4,*5)"),
        (b"(4, 5)", b"(4,-5)"),
        (b"(4, 5), ", b"(2**70,)"),
        (b"'descr'", b"b'decr'"),
        (b"'<f8'", b"{'a'}"),
    ],
)
def test_damaged_headers(part: bytes, instead: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the file, whatever Python's parser says of the header."""
    save(a=np.ones((4, 5)))
    whole = Path("a.npy").read_bytes()
    assert part in whole
    Path("a.npy").write_bytes(whole.replace(part, instead, 1))
    assert main(["sum(a)", "a=a.npy"]) == 1
    assert capsys.readouterr().err.startswith("pkg eval: error: cannot read a.npy: it is not a")


@pytest.mark.parametrize("name", FAILURES)
def test_failures(name: str, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Each failure names what is wrong and has its exit status; no file appears or changes."""
    words, expected, texts = FAILURES[name]
    try:
        status = main(shlex.split(words))
    except SystemExit as stopped:  # argparse's
        status = stopped.code
    shown = capsys.readouterr()
    assert (status, shown.out) == (expected, "")
    assert "pkg eval: error: " in shown.err
    for text in texts:
        assert text in shown.err
    assert names() == files and np.array_equal(np.load("a.npy"), np.ones((4, 5)))


@pytest.mark.parametrize("name", ["syntax", "missing file", "shapes", "option"])
def test_failures_of_the_process(name: str, files: list[str]) -> None:
    """A real process shows the same error, without a traceback."""
    words, expected, texts = FAILURES[name]
    status, shown, said = run(*shlex.split(words))
    assert (status, shown) == (expected, "") and "Traceback" not in said
    assert all(text in said for text in texts)


@pytest.mark.parametrize(
    ("text", "caret"), [("a + b.size", "    ^^^^^^"), ("(a + b", "^"), ("a +", "   ^")]
)
def test_the_caret_is_below_the_place(
    text: str, caret: str, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([text, "a=a.npy", "b=b.npy"]) == 2
    assert capsys.readouterr().err.splitlines()[1:] == [f"    {text}", f"    {caret}"]


def test_pipes_do_not_block(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe")
    assert main(["a + 1", "a=pipe", "-o", "c.npy"]) == 1
    assert "pipe: it is not a regular file" in capsys.readouterr().err


@pytest.fixture
def nobody() -> Iterator[None]:
    """Accesses files as another user, because root may read and write everything."""
    libc = ctypes.CDLL(None)
    if os.geteuid() == 0:
        libc.setfsuid(65534)
    yield
    if os.geteuid() == 0:
        libc.setfsuid(0)


def test_files_that_may_not_be_read(
    files: list[str], nobody: None, capsys: pytest.CaptureFixture[str]
) -> None:
    if os.geteuid():
        os.chmod("a.npy", 0)
    assert main(["a + 1", f"a={os.path.abspath('a.npy')}", "-o", "c.npy"]) == 1
    assert "a.npy: Permission denied" in capsys.readouterr().err


def test_a_device_that_is_not_there(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing falls back in silence."""
    assert main(["a + 1", "a=a.npy", "-o", "c.npy", "--device", "cuda:99"]) == 1
    assert "pkg eval: error: " in capsys.readouterr().err and names() == files


def limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


def test_a_file_too_large_for_its_limit() -> None:
    """The limit is checked before the computation; the process is not killed (SIGXFSZ)."""
    files = save(a=np.ones(100_000))
    status, _, said = run("a + 1", *files, "-o", "b.npy", preexec_fn=limit_files)
    assert status == 1 and "b.npy: File too large (781 KiB" in said and "Traceback" not in said
    assert names() == ["a.npy"]


def test_names_as_python_reads_them() -> None:
    """The keyboard's micro sign is the Greek letter to Python's parser."""
    save(a=np.ones(3))
    assert main(["\u00b5 + 1", "\u00b5=a.npy", "-o", "b.npy"]) == 0
    assert np.load("b.npy").tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("redirection", "status", "text"),
    [
        (">/dev/full", 1, "cannot write to standard output: No space left on device"),
        (">&-", 1, "standard output is closed"),
        ("2>&-", 0, ""),
        ("<&- >&- 2>&- -o b.npy", 0, ""),
    ],
)
def test_standard_files_that_take_nothing(redirection: str, status: int, text: str) -> None:
    """A value is never lost silently, and no output gets the number of standard error."""
    save(a=np.ones(3))
    command = f"unset PYTHONUNBUFFERED; {sys.executable} -m pkg eval 'sum(a)' a=a.npy {redirection}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=300)
    assert done.returncode == status
    assert done.stderr == (f"pkg eval: error: {text}\n" if text else "")
    if "-o" in redirection:
        assert np.load("b.npy") == 3


def test_a_full_disk() -> None:
    """Uses a real disk of 1 MiB, if it may be mounted."""
    files = save(a=np.ones(1_000_000))
    os.mkdir("small")
    command = 'mount -t tmpfs -o size=1m small small && exec "$@"'
    can = subprocess.run(["unshare", "-rm", "sh", "-c", command, "sh", "true"], capture_output=True)
    if can.returncode:
        pytest.skip(f"no disk can be mounted: {can.stderr.decode().strip()}")
    script = '"$@"; echo status $? and; ls -A small'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", command, "sh", "sh", "-c", script, "sh"]
        + [sys.executable, "-m", "pkg", "eval", "a + 1", *files, "-o", "small/b.npy"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "status 1 and\n", "no file is left"
    assert (
        "small/b.npy: No space left on device (7.63 MiB are needed, 1 MiB are free)" in done.stderr
    )


@pytest.mark.parametrize("function", ["pwrite", "fsync", "replace"])
def test_a_disk_that_fails_late(
    function: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """File systems without preallocation fail in the middle, others at the end."""
    files = save(a=np.ones(10_000))
    Path("b.npy").write_text("precious")
    real: Any = getattr(os, function)
    calls = 0

    def fail_late(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        is_late = calls == (7 if function == "pwrite" else 1)
        return (failing(errno.ENOSPC) if is_late else real)(*args)

    monkeypatch.setattr(os, "posix_fallocate", failing(errno.EOPNOTSUPP))
    monkeypatch.setattr(os, function, fail_late)
    assert main(["a + 1", *files, "-o", "b.npy", "--overwrite", "--chunk", "4K"]) == 1
    assert calls > 0 and "b.npy: No space left on device" in capsys.readouterr().err
    assert names() == ["a.npy", "b.npy"] and Path("b.npy").read_text() == "precious"


def test_short_writes_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux writes at most 2 GiB at once, and may write less."""
    files = save(a=np.arange(1000.0))
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: real(file, data[:100], at))
    assert main(["a + 1", *files, "-o", "b.npy"]) == 0
    assert_same_bits("b.npy", np.arange(1000.0) + 1)


@pytest.mark.parametrize("order", ["C", "F", "mixed", "bytes"])
def test_an_input_truncated_meanwhile(
    order: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No signal ends the process with the temporary file left behind."""
    a = np.ones((100, 100), ">f8" if order == "bytes" else "f8", "F" if order == "F" else "C")
    b = np.asfortranarray(a) if order == "mixed" else a
    files = save(a=a, b=b)
    real = _files.Output._write

    def write(self: Any, *args: Any) -> None:
        real(self, *args)
        os.truncate("b.npy", 8192)

    monkeypatch.setattr(_files.Output, "_write", write)
    assert main(["a + b", *files, "-o", "c.npy", "--chunk", "9K"]) == 1
    assert "cannot read b.npy: it was truncated while it was read" in capsys.readouterr().err
    assert names() == ["a.npy", "b.npy"]


TRUNCATED = """
import os, sys
from pkg import _files
real = _files.Evaluation._WHEN
def truncate(*args, **more):
    os.truncate("b.npy", 8192)
    return real(*args, **more)
_files.Evaluation._WHEN = truncate
sys.exit(_files.main(sys.argv[1:]))
"""


@cases.each_device()
@pytest.mark.parametrize("output", [[], ["-o", "c.npy"]])
@pytest.mark.parametrize("dtype", ["f8", ">f8"])
def test_an_input_of_a_reduction_truncated_meanwhile(
    dtype: str, output: list[str], device: str
) -> None:
    """Before it is mapped, or after: any thread, for all of which it is large enough, reads it."""
    code = TRUNCATED.replace("_WHEN", "_call" if output else "_whole")
    files = save(a=np.ones(2**20, dtype), b=np.ones(2**20, dtype))
    done = subprocess.run(
        [sys.executable, "-c", code, "sum(a * b)", *files, *output, "--device", device],
        capture_output=True,
        text=True,
        timeout=300,
    )
    wanted = "pkg eval: error: cannot read b.npy: it was truncated while it was read\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", wanted)
    assert names() == ["a.npy", "b.npy"]


def test_a_disk_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = save(a=np.ones(1000))
    monkeypatch.setattr(os, "preadv", failing(errno.EIO))
    assert main(["a + 1", *files, "-o", "b.npy"]) == 1
    assert "cannot read a.npy: Input/output error" in capsys.readouterr().err
    assert names() == ["a.npy"]


def test_short_reads_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    files = save(a=np.arange(1000.0))
    real = os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, rooms, at: real(file, [rooms[0][:100]], at))
    assert main(["a + 1", *files, "-o", "b.npy"]) == 0
    assert_same_bits("b.npy", np.arange(1000.0) + 1)


def test_warnings() -> None:
    """Warns once for all pieces, without a line of our code; never with --quiet."""
    words = ["a / b", *save(a=np.ones(9999), b=np.zeros(9999)), "--overwrite", "--chunk", "1K"]
    status, _, said = run(*words, "-o", "c.npy")
    assert status == 0 and said.startswith("pkg eval: warning: divide by zero")
    assert said.count("\n") == 1 and ".py" not in said
    assert run(*words, "-o", "c.npy", "--quiet") == (0, "", "")


# ---- Interruption ----


def wait_for(condition: Callable[[], Any], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_leaves_nothing(number: signal.Signals) -> None:
    """The run is stopped in the middle of millions of tiny pieces; the old output stays."""
    sparse("a.npy", (2**26,), "u1")
    Path("b.npy").write_text("precious")
    words = ["a + 1", "a=a.npy", "-o", "b.npy", "--overwrite", "--chunk", "2"]
    with started(*words) as process:
        wait_for(lambda: len(names()) > 2, process)
        assert Path("b.npy").read_text() == "precious"
        process.send_signal(number)
        _, said = process.communicate(timeout=300)
    assert process.returncode == 128 + number
    assert said == f"pkg eval: interrupted ({number.name})\n"
    assert names() == ["a.npy", "b.npy"] and Path("b.npy").read_text() == "precious"


def test_what_an_interruption_leaves_half_made_is_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """h5netcdf and asyncio have destructors that fail then."""

    class HalfMade:
        def __del__(self) -> None:
            raise AttributeError("_closed")

    def run(self: Any) -> None:
        half_made = HalfMade()
        os.kill(os.getpid(), signal.SIGTERM)
        pytest.fail(f"not reached: {half_made}")

    monkeypatch.setattr(_files.Evaluation, "run", run)
    assert main(["1"]) == 143
    assert capsys.readouterr().err == "pkg eval: interrupted (SIGTERM)\n"


def test_an_interrupted_reduction() -> None:
    """One long call ends as quickly."""
    files = save(a=np.ones((2**17, 1, 1), "f4"), b=np.ones((2**18, 1), "f4"), c=np.ones(2**8))

    def user_seconds() -> float:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) / os.sysconf("SC_CLK_TCK")

    def has_begun() -> bool:
        return user_seconds() > 1.5  # starting takes 0.2 s

    with started("sum(a * b * c)", *files, "-o", "d.npy") as process:
        wait_for(has_begun, process)
        # Not by the clock: others may be busy on the machine.
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime + user_seconds()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
        after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    assert process.returncode in (128 + signal.SIGINT, -signal.SIGINT)
    assert after - before < 3 * (os.cpu_count() or 1)
    assert names() == ["a.npy", "b.npy", "c.npy"]


def test_a_second_signal_does_not_stop_the_cleaning_up(monkeypatch: pytest.MonkeyPatch) -> None:
    files = save(a=np.ones(1000))
    unlink = Path.unlink

    def interrupted_unlink(self: Path, missing_ok: bool = False) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        unlink(self, missing_ok)

    def interrupted_fsync(file: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Path, "unlink", interrupted_unlink)
    monkeypatch.setattr(os, "fsync", interrupted_fsync)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert main(["a + 1", *files, "-o", "b.npy"]) == 130
    assert names() == ["a.npy"]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_a_signal_while_the_output_gets_its_name(
    overwrite: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output exists, and no message says otherwise."""
    files = save(a=np.ones(1000))
    name = "replace" if overwrite else "link"
    real = getattr(os, name)

    def interrupted(*args: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        real(*args)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(os, name, interrupted)
    assert main(["a + 1", *files, "-o", "b.npy", *overwrite]) == 0
    assert names() == ["a.npy", "b.npy"]
    assert_same_bits("b.npy", np.ones(1000) + 1)


# ---- Memory ----


PEAK = """
import resource, sys
from pkg._files import core, main
core.set_num_threads(1)  # whose stacks are memory, too
with open("/proc/self/statm") as memory:
    limit = int(memory.read().split()[0]) * resource.getpagesize() + (90 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
status = main(sys.argv[1:])
print(status, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.parametrize("order", ["C", "mixed"])
def test_memory_is_bounded(order: str, python: Callable[..., str]) -> None:
    """Computes 300 MB of files in pieces of 4 MiB, with 90 MiB of address space."""
    shape = (5000, 5000)
    sparse("a.npy", shape, "f4")
    sparse("b.npy", shape, "f4", fortran_order=order == "mixed")
    save(small=np.ones((5, 5), "f4"))

    def peak(a: str, b: str) -> int:
        words = ["a * b + 1", f"a={a}", f"b={b}", "-o", "c.npy", "--overwrite", "--chunk", "4M"]
        status, nbytes = python(PEAK, *words).split()
        assert status == "0"
        return int(nbytes)

    small = peak("small.npy", "small.npy")
    assert peak("a.npy", "b.npy") - small < 64 * 2**20
    assert (np.load("c.npy", mmap_mode="r")[::999] == 1).all()


# ---- Progress ----


def on_terminal(words: Sequence[str], **variables: str) -> tuple[int, str]:
    """Returns the exit status, and what a terminal shows."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "pkg", "eval", *words],
            stderr=slave,
            env={**os.environ, **variables},
        )
        os.close(slave)
        shown = b""
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:  # the other side is closed
                break
            if not data:
                break
            shown += data
        return process.wait(timeout=300), shown.decode()
    finally:
        os.close(master)


def words_for_progress() -> list[str]:
    sparse("a.npy", (1000, 1000), "f8")
    return ["a + 1", "a=a.npy", "-o", "b.npy", "--chunk", "100K"]


def test_progress_on_a_terminal() -> None:
    """Progress is one line, which disappears at the end."""
    os.mkdir("without")
    Path("without", "tqdm.py").write_text("raise ImportError('not here')")
    path = os.pathsep.join(filter(None, ["without", os.environ.get("PYTHONPATH")]))
    status, shown = on_terminal(words_for_progress(), PYTHONPATH=path)
    assert status == 0
    lines = shown.split("\r")
    assert "b.npy: 50 % of 15.3 MiB" in lines and "b.npy: 100 % of 15.3 MiB" in lines
    assert "\n" not in shown and lines[-2].strip() == lines[-1] == ""


def test_progress_with_tqdm() -> None:
    pytest.importorskip("tqdm")
    status, shown = on_terminal(words_for_progress())
    assert status == 0 and "b.npy:   0%|" in shown and "\n" not in shown


def test_no_progress_where_it_is_not_wanted() -> None:
    words = words_for_progress()
    assert on_terminal([*words, "--quiet"]) == (0, "")
    assert run(*words, "--overwrite") == (0, "", "")


# ---- python -m pkg ----


def module(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pkg", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return done.stdout


def test_help() -> None:
    """The help is complete, and python -m pkg still prints the configuration."""
    assert "eval" in module("--help")
    shown = module("eval", "--help")
    for text in (NDVI, "--chunk", "--device", "--overwrite", "--quiet", "exit status", "-o"):
        assert text in shown
    assert pcd.__version__ in module("--version")
    assert "CPU:" in module()
