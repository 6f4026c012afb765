"""vector_*, trace, fib, helloworld, and what describes the installation."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import cases
import generators
import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pkg as pcd

VECTORS = {
    "add": pcd.vector_add,
    "subtract": pcd.vector_subtract,
    "multiply": pcd.vector_multiply,
    "divide": pcd.vector_divide,
}

# ---- vector_* ----


@cases.each_device()
@cases.each_dtype(cases.DTYPES)
@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.usefixtures("quiet")
def test_vectors(name: str, dtype: np.dtype, device: str) -> None:
    for n in (0, 1, 7, 1000):
        a, b = generators.values(dtype, n), generators.values(dtype, n, 1)
        oracle.assert_same(
            VECTORS[name](a, b, device=device), oracle.expected(name, a, b), name, [a, b]
        )
        oracle.assert_same(VECTORS[name](a[::-1], b, device), oracle.expected(name, a[::-1], b))


@cases.each_device()
@pytest.mark.parametrize("name", VECTORS)
def test_vectors_are_strict(name: str, device: str) -> None:
    function = VECTORS[name]
    with pytest.raises(ValueError, match=rf"vector_{name}.*a has 3 .*b has 4:.*equal"):
        function([1, 2, 3], [1, 2, 3, 4], device=device)
    with pytest.raises(ValueError, match="a has 3 .*b has 1:"):
        function([1, 2, 3], [1], device=device)
    with pytest.raises(ValueError, match=r"one dimension.*\(3,\) and \(1, 3\)"):
        function([1, 2, 3], [[1, 2, 3]], device=device)
    with pytest.raises(ValueError, match="must have one dimension"):
        function(1, [1], device=device)
    with pytest.raises(TypeError):
        function(["a"], ["b"], device=device)
    with pytest.raises(TypeError):
        function([1])


def test_vectors_by_the_names_of_the_tutorials() -> None:
    assert pcd.vector_add_cpu([1, 2], [3, 4]).tolist() == [4, 6]
    with pytest.raises(ValueError, match="must be equal"):
        pcd.vector_add_cpu([1, 2], [3])


@pytest.mark.gpu
def test_vector_add_cuda() -> None:
    assert pcd.vector_add_cuda([1, 2], [3, 4]).tolist() == [4, 6]
    with pytest.raises(ValueError, match="must be equal"):
        pcd.vector_add_cuda([1, 2], [3])


# ---- trace ----

SHAPES = [(0, 0), (0, 3), (1, 1), (3, 0), (2, 5), (5, 2), (33, 33), (300, 257), (1, 300)]


def _check_trace(matrix: np.ndarray, offset: int, device: str, note: str) -> None:
    """Checks integers exactly, other types to the bit in the order of mylib.h, and accuracy."""
    result = pcd.trace(matrix, offset, device=device)
    rows, columns = matrix.shape
    diagonal = np.array(
        [matrix[i, i + offset] for i in range(rows) if 0 <= i + offset < columns], matrix.dtype
    )
    diagonal = diagonal.astype(diagonal.dtype.newbyteorder("="))
    if diagonal.dtype.kind in "iu":
        wide = np.int64 if diagonal.dtype.kind == "i" else np.uint64
        wanted = np.add.reduce(diagonal, dtype=wide)
    else:
        wanted = diagonal.dtype.type(oracle.ordered_sum(diagonal))
        if np.isfinite(diagonal).all():
            size = np.abs(diagonal.astype(np.complex128)).sum()
            bound = 22 * np.finfo(diagonal.dtype).eps * size
            assert abs(result.item() - oracle.exact_sum(diagonal)) <= bound, note
    assert type(result) is type(wanted), note
    oracle.assert_same(result, wanted, "trace", [matrix], f"offset {offset}, {note}")


@cases.each_device()
@cases.each_dtype(cases.DTYPES)
@pytest.mark.parametrize("layout", generators.INPUT_LAYOUTS)
@pytest.mark.usefixtures("quiet")
def test_trace(dtype: np.dtype, layout: str, device: str) -> None:
    for shape in SHAPES:
        data = generators.moderate(dtype, int(np.prod(shape))).reshape(shape)
        matrix = generators.laid_out(data, layout)
        for offset in (0, 1, -1, 3, -250, 1000):
            _check_trace(matrix, offset, device, f"{shape}, {layout}")


@cases.each_device()
@cases.each_dtype(cases.DTYPES)
@pytest.mark.usefixtures("quiet")
def test_long_trace(dtype: np.dtype, device: str) -> None:
    """Tries lengths around the blocks of a sum; the matrix is a view that needs little memory."""
    for n in (255, 256, 257, 511, 2047, 2048, 2049, 4096, 6145, 100_003):
        for data in (generators.moderate(dtype, 2 * n), generators.values(dtype, 2 * n)):
            if dtype == np.float16:
                data = data / 8
            matrix = np.lib.stride_tricks.as_strided(data, (n, n), (dtype.itemsize,) * 2)
            result, diagonal = pcd.trace(matrix, device=device), data[::2][:n]
            if dtype.kind in "iu":
                wanted = np.add.reduce(diagonal, dtype=np.dtype(f"{dtype.kind}8"))
            else:
                wanted = dtype.type(oracle.ordered_sum(diagonal))
            oracle.assert_same(result, wanted, f"trace-{dtype}-{device}", [diagonal], f"n = {n}")


@cases.each_device()
def test_trace_of_integers_wraps_as_numpys(device: str) -> None:
    matrix = np.diag(np.array([2**63 - 1, 5, 7]))
    assert pcd.trace(matrix, device=device) == np.trace(matrix)
    assert pcd.trace(np.eye(300, dtype="u1") * 200, device=device) == 60_000
    assert pcd.trace(np.eye(300, dtype=bool), device=device) == 300
    assert pcd.trace([[1, 2], [3, 4]], device=device) == 5


def test_trace_reports_overflow_as_sum_does() -> None:
    with pytest.warns(RuntimeWarning, match="overflow encountered in reduce"):
        assert pcd.trace(np.array([[1e308, 0], [0, 1e308]]), device="cpu") == np.inf


@cases.each_device()
def test_trace_of_what_it_cannot(device: str) -> None:
    for shape in ((), (3,), (2, 2, 2)):
        with pytest.raises(ValueError, match=rf"two dimensions, not {len(shape)}"):
            pcd.trace(np.ones(shape), device=device)
    for dtype in ("S3", "M8[s]", np.longdouble, object):
        with pytest.raises(TypeError, match="supported are bool, int8"):
            pcd.trace(np.zeros((2, 2), dtype), device=device)
    with pytest.raises(TypeError):
        pcd.trace(np.eye(2), 1.5, device=device)
    with pytest.raises(ValueError):
        pcd.trace([[1, 2], [3]], device=device)


# ---- fib ----


def test_fib_is_the_recurrence() -> None:
    a, b = 0, 1
    for n in range(600):
        assert pcd.fib(n) == a and type(pcd.fib(n)) is int, n
        a, b = b, a + b


@given(st.integers(0, 20_000))
def test_fib_doubles(n: int) -> None:
    """Identities of their own: F(2n) and F(2n + 1)."""
    a, b = pcd.fib(n), pcd.fib(n + 1)
    assert pcd.fib(2 * n) == a * (2 * b - a)
    assert pcd.fib(2 * n + 1) == a * a + b * b


def test_fib_of_a_million_is_quick() -> None:
    start = time.process_time()
    result = pcd.fib(1_000_000)
    seconds = time.process_time() - start
    assert result % 10**10 == 8_242_546_875 and result.bit_length() == 694_241
    assert seconds < 0.5, f"{seconds:.2f} s"


def test_fib_of_what_it_cannot() -> None:
    for n in (-1, -(10**30)):
        with pytest.raises(ValueError, match=f"not {n}"):
            pcd.fib(n)
    for n in (1.0, "1", None, [1]):
        with pytest.raises(TypeError):
            pcd.fib(n)
    assert pcd.fib(np.int64(10)) == 55 and pcd.fib(True) == 1


# ---- The installation ----


def test_helloworld(capsys: pytest.CaptureFixture[str]) -> None:
    assert pcd.helloworld() is None
    assert capsys.readouterr() == ("Hello World\n", "")


def test_version_is_the_headers() -> None:
    header = (Path(pcd.get_include()) / "mylib.h").read_text()
    numbers = [
        re.search(rf"#define MYLIB_VERSION_{part} (\d+)", header)[1]
        for part in ("MAJOR", "MINOR", "PATCH")
    ]
    assert pcd.__version__ == ".".join(numbers) == pcd.config()["version"]


def test_folders() -> None:
    assert (Path(pcd.get_include()) / "mylib.h").is_file()
    libraries = list(Path(pcd.get_library_dir()).glob("libmylib.*"))
    assert [path.suffix for path in libraries] == [".so"]


def test_config() -> None:
    config = pcd.config()
    assert config["numpy"] == np.__version__ and config["threads"] >= 1
    assert config["cuda_available"] == pcd.cuda_is_available() == (pcd.device_count() > 0)
    assert len(config["gpus"]) == pcd.device_count()
    assert bool(config["cuda_reason"]) != config["cuda_available"]
    assert bool(config["cuda_version"]) == config["has_cuda"]
    assert config["has_cuda"] or config["cuda_searched"]


def _check_shown(text: str) -> None:
    config = pcd.config()
    wanted = [
        pcd.__version__,
        config["cpu_level"],
        np.__version__,
        config["compiler"],
        pcd.get_library_dir(),
    ]
    wanted += (
        [config["cuda_reason"]]
        if not config["cuda_available"]
        else [gpu["name"] for gpu in config["gpus"]]
    )
    wanted += [config["cuda_version"] if config["has_cuda"] else config["cuda_searched"]]
    for part in wanted:
        assert part in text, f"{part!r} is not in {text!r}"


def test_show_config(capsys: pytest.CaptureFixture[str]) -> None:
    assert pcd.show_config() is None
    out, err = capsys.readouterr()
    _check_shown(out)
    assert err == ""


def test_python_m_pkg() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pkg"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0 and done.stderr == ""
    _check_shown(done.stdout)


@pytest.mark.gpu
def test_gpus_are_described() -> None:
    for gpu in pcd.config()["gpus"]:
        assert gpu["name"] and re.fullmatch(r"\d+\.\d+", gpu["compute_capability"])
        assert gpu["total_nbytes"] >= gpu["free_nbytes"] > 0 and gpu["multiprocessors"] > 0


def test_all_public_names_are_there() -> None:
    assert len(set(pcd.__all__)) == len(pcd.__all__)
    for name in pcd.__all__:
        value: Any = getattr(pcd, name)
        if callable(value):
            assert value.__doc__, f"{name} has no docstring"
