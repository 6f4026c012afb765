"""device=, the default device, and what is said where there is no GPU; import touches no GPU."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator

import cases
import generators
import numpy as np
import oracle
import pytest
from cases import Case

import pkg as pcd

Python = Callable[..., str]


def _current() -> int:
    """The ordinal of the default device; -1 is the CPU."""
    return pcd.core.parse_device(None)


@pytest.fixture
def any_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """default_device() takes any GPU, there or not: for tests that compute nothing."""
    monkeypatch.setattr(pcd.core, "check_device", lambda ordinal: None)


def test_parsing() -> None:
    parse = pcd.core.parse_device
    names = (None, "cpu", "cuda", "cuda:0", "cuda:1", "cuda:15")
    assert [parse(name) for name in names] == [-1, -1, 0, 0, 1, 15]


@pytest.mark.parametrize("name", ["cuda:1\0", "cuda\0", "cpu\0", "\0", "\ud800", "cuda:\udc80", ""])
def test_names_that_no_text_of_c_is(name: str) -> None:
    with pytest.raises(ValueError, match="unknown device") as caught:
        pcd.core.parse_device(name)
    assert type(caught.value) is ValueError and repr(name) in str(caught.value)


@cases.each(cuda=False)
@pytest.mark.usefixtures("quiet")
def test_cpu_by_name(case: Case) -> None:
    inputs = [generators.values(case.dtype, 100, seed) for seed in range(case.nin)]
    for device in ("cpu", None):
        oracle.check(case, case.operation(*inputs, device=device), inputs)
        out = generators.poisoned(100, case.result_dtype)
        assert case.operation(*inputs, out=out, device=device) is out
        oracle.check(case, out, inputs)


# ---- The default device ----


def test_default_device_nests(any_gpu: None) -> None:
    assert _current() == -1
    with pcd.default_device("cuda:2") as name:
        assert (name, _current()) == ("cuda:2", 2)
        with pcd.default_device("cpu") as name:
            assert (name, _current()) == ("cpu", -1)
        with pcd.default_device("cuda"):
            assert _current() == 0
        assert _current() == 2
    assert _current() == -1
    with pytest.raises(KeyError), pcd.default_device("cuda:1"):
        raise KeyError
    assert _current() == -1
    device = pcd.default_device("cuda:3")
    for _ in range(2):
        with device, device:
            assert _current() == 3
        assert _current() == -1


def test_default_device_needs_a_device() -> None:
    with pytest.raises(TypeError):
        pcd.default_device(None)
    with pytest.raises(TypeError):
        pcd.default_device()


def test_default_device_is_the_threads_own(any_gpu: None) -> None:
    seen = []
    with pcd.default_device("cuda:1"):
        # A context of its own: from Python 3.14 on a thread may inherit its parent's.
        thread = threading.Thread(
            target=contextvars.Context().run, args=(lambda: seen.append(_current()),)
        )
        thread.start()
        thread.join()
    assert seen == [-1]


def test_default_device_is_the_tasks_own(any_gpu: None) -> None:
    async def work(name: str, wanted: int) -> bool:
        with pcd.default_device(name):
            same = _current() == wanted
            await asyncio.sleep(0)
            same = same and _current() == wanted
            await asyncio.sleep(0)
            return same and _current() == wanted

    async def main() -> list[bool]:
        return await asyncio.gather(work("cuda:1", 1), work("cuda:2", 2), work("cpu", -1))

    assert asyncio.run(main()) == [True] * 3
    assert _current() == -1


def test_device_wins_over_the_default(any_gpu: None) -> None:
    a = np.arange(3)
    with pcd.default_device("cuda:7"):
        assert pcd.add(a, a, device="cpu").tolist() == [0, 2, 4]
        assert pcd.add(1, 2, device="cpu") == 3
        assert pcd.vector_add_cpu(a, a).tolist() == [0, 2, 4]
        assert pcd.trace(np.eye(3), device="cpu") == 3
        with pcd.default_device("cpu"):
            assert pcd.add(a, a).tolist() == [0, 2, 4]


@pytest.mark.parametrize("method", ["reduce", "accumulate", "reduceat", "outer", "at"])
def test_methods_are_the_cpus(method: str, any_gpu: None) -> None:
    """The methods raise an error if the default device is a GPU; nothing falls back silently."""
    assert callable(getattr(pcd.add, method))
    with pcd.default_device("cuda"):
        with pytest.raises(
            NotImplementedError, match=f'add.{method} computes on the CPU.*default_device."cpu"'
        ):
            getattr(pcd.add, method)
        with pcd.default_device("cpu"):
            assert callable(getattr(pcd.add, method))
        assert pcd.add.types == pcd.add.ufunc.types


# ---- The device of the process ----


@pytest.fixture
def process_device() -> Iterator[None]:
    """Undoes what a test sets."""
    yield
    pcd.set_default_device(None)


@pytest.mark.usefixtures("process_device")
def test_default_of_the_process(any_gpu: None) -> None:
    assert pcd.get_default_device() == "cpu"
    pcd.set_default_device("cuda:2")
    assert (_current(), pcd.get_default_device()) == (2, "cuda:2")
    with pcd.default_device("cpu"):  # a block wins
        assert pcd.add(1, 2) == 3 and pcd.get_default_device() == "cpu"
        pcd.set_default_device("cuda:4")
        assert pcd.get_default_device() == "cpu"
    assert pcd.get_default_device() == "cuda:4"
    assert pcd.add(np.arange(3), 1, device="cpu").tolist() == [1, 2, 3]
    with pytest.raises(NotImplementedError, match="default device is a GPU"):
        pcd.add.reduce  # noqa: B018
    pcd.set_default_device("cpu")
    assert pcd.get_default_device() == "cpu" and pcd.add(1, 2) == 3
    pcd.set_default_device(None)
    assert pcd.get_default_device() == "cpu"


@pytest.mark.usefixtures("process_device")
def test_default_of_the_process_is_every_threads(any_gpu: None) -> None:
    seen: list[str] = []
    asked, set_ = threading.Event(), threading.Event()

    def look() -> None:
        seen.append(pcd.get_default_device())
        asked.set()
        assert set_.wait(10)
        seen.append(pcd.get_default_device())

    early = threading.Thread(target=look)
    early.start()
    assert asked.wait(10)
    pcd.set_default_device("cuda:3")
    set_.set()
    late = threading.Thread(target=look)
    with pcd.default_device("cpu"):
        late.start()
        for thread in (early, late):
            thread.join()
    # Threads may inherit the block from Python 3.14 on.
    assert seen[:2] == ["cpu", "cuda:3"] and set(seen[2:]) <= {"cuda:3", "cpu"}


@pytest.mark.usefixtures("process_device")
def test_wrong_devices_of_the_process_change_nothing(any_gpu: None) -> None:
    pcd.set_default_device("cuda:1")
    for device, kind in (("gpu", ValueError), ("", ValueError), (1, TypeError)):
        with pytest.raises(kind, match="expected|must be a string"):
            pcd.set_default_device(device)  # type: ignore[arg-type]
    assert pcd.get_default_device() == "cuda:1"


@pytest.mark.usefixtures("process_device")
def test_a_missing_gpu_is_no_default_of_the_process() -> None:
    with pytest.raises(pcd.CudaError):
        pcd.set_default_device("cuda:9999")
    assert pcd.get_default_device() == "cpu"


_ENVIRONMENT = """
import threading
import numpy as np
import pkg as pcd

a = np.arange(4.0)
seen = []

def tell(call):
    try:
        print(call())
    except (ValueError, NotImplementedError, pcd.CudaError) as error:
        print(type(error).__name__, error)

for call in (pcd.get_default_device, lambda: pcd.add(1, 2), lambda: pcd.add(a, a).tolist(),
             lambda: pcd.sum(a), lambda: pcd.evaluate("a + 1").tolist(), lambda: repr(pcd.zeros(2)),
             lambda: pcd.add.reduce(a)):
    tell(call)
thread = threading.Thread(target=tell, args=(pcd.get_default_device,))
thread.start()
thread.join()
assert pcd.add(1, 2, device="cpu") == 3
with pcd.default_device("cpu"):
    assert pcd.add(1, 2) == 3
pcd.set_default_device("cpu")
assert pcd.add(1, 2) == 3 and pcd.get_default_device() == "cpu"
pcd.set_default_device(None)
tell(pcd.get_default_device)
"""


@pytest.mark.parametrize("text", ["gpu", "cuda:", "CUDA", "cpu ", "cuda:-1"])
def test_a_bad_name_in_the_environment(text: str, python: Python) -> None:
    """Import succeeds; each call that needs the device names the variable and its value."""
    lines = python(_ENVIRONMENT, MYLIB_DEFAULT_DEVICE=text).splitlines()
    assert len(lines) == 9
    for line in lines:
        assert line.startswith("ValueError")
        assert f"MYLIB_DEFAULT_DEVICE is {text!r}" in line and '"cuda:N"' in line, line


def test_a_missing_gpu_in_the_environment(python: Python) -> None:
    lines = python(_ENVIRONMENT, MYLIB_DEFAULT_DEVICE="cuda:9999").splitlines()
    assert len(lines) == 9
    for line in lines:
        assert line.startswith("CudaError") and "MYLIB_DEFAULT_DEVICE is 'cuda:9999'" in line, line


@pytest.mark.parametrize("text", ["cpu", ""])
def test_the_cpu_in_the_environment(text: str, python: Python) -> None:
    lines = python(_ENVIRONMENT, MYLIB_DEFAULT_DEVICE=text).splitlines()
    assert [lines[0], lines[1], lines[-2], lines[-1]] == ["cpu", "3", "cpu", "cpu"]


@pytest.mark.gpu
def test_a_gpu_in_the_environment(python: Python) -> None:
    lines = python(_ENVIRONMENT, MYLIB_DEFAULT_DEVICE="cuda").splitlines()
    assert [lines[0], lines[1], lines[-2], lines[-1]] == ["cuda:0", "3", "cuda:0", "cuda:0"]
    assert "device='cuda:0'" in lines[5]


# ---- Without a GPU ----

_WITHOUT_GPU = """
import numpy as np
import pkg as pcd

a = np.ones(3)
assert pcd.device_count() == 0 and pcd.cuda_is_available() is False
count, reason = pcd.core.device_count()
config = pcd.config()
assert config["cuda_available"] is False and config["cuda_reason"] == reason
assert config["gpus"] == []
for call in (
    lambda: pcd.add(1, 2, device="cuda"),
    lambda: pcd.add(1.5, 2, device="cuda:1"),
    lambda: pcd.add(1j, 2, device="cuda"),
    lambda: pcd.add(a, a, device="cuda"),
    lambda: pcd.add(a[:0], a[:0], device="cuda"),
    lambda: pcd.add([1], [2], device="cuda:3"),
    lambda: pcd.sqrt(a, out=a, device="cuda"),
    lambda: pcd.trace(np.eye(2), device="cuda"),
    lambda: pcd.vector_add_cuda(a, a),
    lambda: pcd.vector_divide(a, a, device="cuda"),
    lambda: pcd.default_device("cuda"),
    lambda: pcd.core.device_info(0),
    lambda: pcd.ufuncs.add_cuda0(a, a),
    lambda: pcd.add(1, 2, device="cuda:all"),
    lambda: pcd.add(a, a, device="cuda:all"),
    lambda: pcd.sum(a, device="cuda:all"),
    lambda: pcd.sum(a[:, None][:, :0], axis=0, device="cuda:all"),
    lambda: pcd.evaluate("a + a + 1", device="cuda:all"),
    lambda: pcd.default_device("cuda:all"),
    lambda: pcd.ufuncs.add_cudaall(a, a),
):
    try:
        call()
    except pcd.CudaError as error:
        assert isinstance(error, RuntimeError)
        print(error)
    else:
        raise AssertionError("computed without a GPU")
assert pcd.add(a, a).tolist() == [2, 2, 2] and pcd.add(1, 2) == 3
"""


@pytest.mark.no_emulated_gpu
def test_without_a_gpu(python: Python) -> None:
    """CudaError says whether the build or the machine lacks CUDA; the CPU still computes."""
    lines = python(_WITHOUT_GPU, CUDA_VISIBLE_DEVICES="").splitlines()
    assert len(lines) == 20
    for line in lines:
        if pcd.config()["has_cuda"]:
            assert "GPU" in line and ("driver" in line or "CUDA_VISIBLE_DEVICES" in line), line
        else:
            assert "without CUDA" in line and f"./pipcudemo-{pcd.__version__}.tar.gz" in line, line


@pytest.mark.gpu
def test_a_gpu_that_is_not_there() -> None:
    count = pcd.device_count()
    with pytest.raises(pcd.CudaError, match=rf"cuda:{count}\b|{count}"):
        pcd.add(1, 2, device=f"cuda:{count}")
    with pytest.raises(pcd.CudaError):
        pcd.default_device("cuda:9999")


# ---- Import ----

_IMPORT = """
import os, sys
import numpy

def threads():
    return len(os.listdir("/proc/self/task"))

def nvidia():
    maps = open("/proc/self/maps").read()
    files = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            files.append(os.readlink("/proc/self/fd/" + fd))
        except OSError:
            pass
    libraries = [x for x in ("libcuda.so", "libnvidia") if x in maps]
    return libraries + [f for f in files if "nvidia" in f]

before = threads()
modules = set(sys.modules)
import pkg
further = {name for name in set(sys.modules) - modules if name.partition(".")[0] != "pkg"}
assert len(further) < 8 and further <= sys.stdlib_module_names, further
assert threads() == before, f"{threads() - before} threads were started"
assert not nvidia(), nvidia()
a = numpy.ones(10)
pkg.add(a, a), pkg.add(1, 2), pkg.trace(numpy.eye(2)), pkg.fib(10)
pkg.get_include(), pkg.default_device("cpu"), pkg.set_default_device("cpu")
assert not nvidia(), nvidia()
assert threads() == before, "small arrays need no threads"
heavy = {"pandas", "dask", "xarray", "matplotlib", "subprocess", "asyncio"}
heavy &= set(sys.modules) - modules
assert not heavy, heavy
"""


def test_import_is_light(python: Python) -> None:
    """Importing touches no GPU, starts no thread, and adds few modules to NumPy's."""
    python(_IMPORT)


def test_core_alone_says_what_to_do(python: Python) -> None:
    """The package's __init__ always runs first, so its registrations exist."""
    assert python("import pkg.core as c; print(c.operations[0]([1], [2]))").strip() == "[3]"


@pytest.mark.parametrize("function", ["check_device", "device_info", "memory_info"])
def test_numbers_beyond_an_int_name_no_gpu(function: str) -> None:
    for ordinal in (2**32, -(2**32), 2**31):
        with pytest.raises(pcd.CudaError):
            getattr(pcd.core, function)(ordinal)
