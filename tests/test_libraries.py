"""PyTorch, CuPy, Numba and JAX on a GPU: no copies, the right values, the order of streams."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pkg as pcd

pytestmark = pytest.mark.gpu

#: Clock cycles that a GPU is kept busy before the values are there: about 0.1 s.
LONG = 200_000_000

DTYPES = "?bhilBefdFD"


def _real_gpu() -> None:
    if pcd.config()["gpus"][0]["name"] == "emulated GPU":
        pytest.skip("the GPUs are emulated; other libraries need real ones")


@pytest.fixture
def torch() -> Any:
    torch = pytest.importorskip("torch")
    _real_gpu()
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no GPU")
    return torch


@pytest.fixture
def cupy() -> Any:
    _real_gpu()
    return pytest.importorskip("cupy")


@pytest.fixture
def busy(torch: Any) -> Any:
    """busy(stream) gives the stream long work to do before anything later."""

    def keep(stream: Any) -> None:
        with torch.cuda.stream(stream):
            torch.cuda._sleep(LONG)

    return keep


def _pointer(array: Any) -> int:
    return array.__cuda_array_interface__["data"][0]


# ---- PyTorch ----


@pytest.mark.parametrize("code", DTYPES)
def test_torch_round_trip(torch: Any, code: str) -> None:
    values = np.arange(24).reshape(4, 6).astype(code)
    tensor = torch.from_numpy(values).cuda()
    for part in (tensor, tensor.T, tensor[1:, ::2], tensor[2:3], tensor[2, 3], tensor[:0]):
        for array in (pcd.from_dlpack(part), pcd.asarray(part)):
            assert isinstance(array, pcd.Array) and array.dtype == values.dtype
            assert part.numel() == 0 or _pointer(array) == part.data_ptr()
            assert np.array_equal(pcd.asnumpy(array), part.cpu().numpy())
            again = torch.from_dlpack(array)
            assert again.dtype == part.dtype and again.shape == part.shape
            assert part.numel() == 0 or again.data_ptr() == part.data_ptr()
            assert torch.equal(again, part)
    array = pcd.asarray(values, device="cuda")
    taken = torch.as_tensor(array, device="cuda")  # the CUDA array interface
    assert taken.data_ptr() == _pointer(array)
    assert np.array_equal(torch.from_dlpack(array).cpu().numpy(), values)
    assert np.array_equal(np.from_dlpack(array, device="cpu"), values)


_CAPTURE = """
import pkg as pcd, torch
array, stream = pcd.arange(4, device="cuda"), torch.cuda.Stream()
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream, capture_error_mode="thread_local"):
        with pcd.stream(stream):
            try:
                int(array[3])
            except pcd.CudaError as error:
                print("CaptureUnsupported" in str(error))
except RuntimeError:
    print(int(array[3]))
"""


@pytest.mark.usefixtures("torch")
def test_torch_captures_no_result(python: Callable[..., str]) -> None:
    """A number that the host waits for cannot come from a graph that is being captured."""
    assert python(_CAPTURE).split() == ["True", "3"]


def test_torch_memory_outlives_its_first_owner(torch: Any) -> None:
    array = pcd.from_dlpack(torch.full((1000,), 3.0, device="cuda"))
    for _ in range(10):
        torch.full((1000,), 5.0, device="cuda")
    assert (pcd.asnumpy(array) == 3).all()
    tensor = torch.from_dlpack(pcd.full((1000,), 4.0, device="cuda"))
    for _ in range(10):
        pcd.full((1000,), 5.0, device="cuda")
    assert (tensor == 4).all().item()


def test_torch_operations(torch: Any) -> None:
    values = np.random.default_rng(0).standard_normal((2, 1000)).astype("f4")
    a, b = torch.from_numpy(values).cuda()
    out = torch.empty_like(a)
    assert pcd.divide(a, b, out=out) is out
    assert np.array_equal(out.cpu().numpy(), values[0] / values[1])
    result = pcd.multiply(a, b)
    assert isinstance(result, pcd.Array)
    assert np.array_equal(pcd.asnumpy(result), values[0] * values[1])
    assert np.array_equal(pcd.asnumpy(pcd.add(a, 2.5)), values[0] + np.float32(2.5))
    assert np.array_equal(pcd.asnumpy(pcd.asarray(a) + b), values[0] + values[1])
    cpu = a.cpu()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of PyTorch's __array_wrap__
        assert np.array_equal(pcd.add(cpu, cpu), 2 * values[0])
    with pytest.raises((TypeError, ValueError)):
        pcd.add(a, cpu)
    with pytest.raises(BufferError):
        pcd.add(torch.ones(3, device="cuda", requires_grad=True), 1)
    lazy = torch.ones(3, dtype=torch.complex64, device="cuda").conj()
    with pytest.raises(BufferError):
        pcd.add(lazy, 1)
    with pytest.raises(BufferError):
        pcd.add(lazy.imag, 1)
    with pytest.raises(BufferError):
        pcd.from_dlpack(torch.ones(3, dtype=torch.bfloat16, device="cuda"))


def test_torch_work_on_a_side_stream_is_waited_for(torch: Any, busy: Any) -> None:
    side = torch.cuda.Stream()
    tensor = torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    busy(side)
    with torch.cuda.stream(side):
        tensor.fill_(7)
        array = pcd.from_dlpack(tensor)
    assert (pcd.asnumpy(array + 0) == 7).all()

    busy(side)
    with torch.cuda.stream(side):
        tensor.fill_(8)
        result = pcd.add(tensor, 1)  # an Array, for use on our stream
    assert (pcd.asnumpy(result + 0) == 9).all()


def test_our_work_on_a_side_stream_is_waited_for(torch: Any, busy: Any) -> None:
    ours = pcd.Stream()
    with pcd.stream(ours):
        array = pcd.full((1000,), 1.0, device="cuda")
    busy(torch.cuda.ExternalStream(ours.handle))
    with pcd.stream(ours):
        array.fill(7.0)
    assert (torch.from_dlpack(array) == 7).all().item()

    busy(torch.cuda.ExternalStream(ours.handle))
    with pcd.stream(ours):
        array.fill(8.0)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        assert (torch.from_dlpack(array) == 8).all().item()


def test_operations_run_on_torchs_current_stream(torch: Any, busy: Any) -> None:
    side = torch.cuda.Stream()
    a, b, out = (torch.zeros(1000, device="cuda") for _ in range(3))
    torch.cuda.synchronize()
    busy(side)
    with torch.cuda.stream(side):
        a.fill_(1)
        b.fill_(2)
        assert pcd.add(a, b, out=out) is out
        assert not side.query()  # nobody has waited
        seen = out.clone()
    side.synchronize()
    assert (seen == 3).all().item()


def test_operations_on_our_stream_are_ordered_with_torch(torch: Any, busy: Any) -> None:
    side, ours = torch.cuda.Stream(), pcd.Stream()
    a, b, out = (torch.zeros(1000, device="cuda") for _ in range(3))
    torch.cuda.synchronize()
    busy(side)
    with torch.cuda.stream(side), pcd.stream(ours):
        a.fill_(1)
        b.fill_(2)
        pcd.add(a, b, out=out)
        busy(torch.cuda.ExternalStream(ours.handle))
        pcd.add(out, 1, out=out)
        seen = out.clone()
    side.synchronize()
    assert (seen == 4).all().item()


def test_memory_is_not_reused_while_torch_reads_it(torch: Any, busy: Any) -> None:
    """The freeing stream waits for the stream on which the memory was handed over."""
    side = torch.cuda.Stream()
    array = pcd.full((1_000_000,), 3.0, device="cuda")
    pcd.synchronize()
    with torch.cuda.stream(side):
        tensor = torch.from_dlpack(array)
        torch.cuda._sleep(LONG)
        seen = tensor.clone()
        del tensor
    del array
    others = [pcd.full((1_000_000,), 5.0, device="cuda") for _ in range(3)]
    side.synchronize()
    assert (seen == 3).all().item() and len(others) == 3


def test_torch_streams_are_streams(torch: Any) -> None:
    side = torch.cuda.Stream()
    with pcd.stream(side) as s:
        assert s.handle == side.cuda_stream and s.device == "cuda:0"
        assert float((pcd.ones(10, device="cuda") + 1)[3]) == 2
    s.wait(torch.cuda.current_stream())
    ours = pcd.Stream()
    external = torch.cuda.ExternalStream(ours.handle)
    with torch.cuda.stream(external), pcd.stream(torch.cuda.current_stream()) as s:
        assert s == ours


def test_a_tensor_class_of_ones_own(torch: Any) -> None:
    """The example: a subclass whose product is ours on a GPU, and PyTorch's on the CPU."""
    path = Path(__file__).resolve().parents[1] / "examples" / "torch_tensors.py"
    spec = importlib.util.spec_from_file_location("torch_tensors", path)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    for device in ("cuda", "cpu"):
        x = torch.arange(5.0, device=device).as_subclass(example.Exact)
        for product in (x * x, x * 2.0, 2.0 * x, x * torch.arange(5.0, device=device)):
            assert type(product) is example.Exact and product.device == x.device
        assert (x * x).tolist() == [0, 1, 4, 9, 16]
        x *= 3.0
        assert x.tolist() == [0, 3, 6, 9, 12] and type(x) is example.Exact


def test_torch_memory_is_given_back(torch: Any) -> None:
    tensor = torch.ones(1000, device="cuda")
    out = torch.empty_like(tensor)
    pcd.add(tensor, tensor, out=out)
    torch.cuda.synchronize()
    ours, theirs = pcd.memory_info().used, torch.cuda.memory_allocated()
    for _ in range(1000):
        pcd.add(tensor, tensor, out=out)
        torch.from_dlpack(pcd.add(tensor, tensor))
        pcd.from_dlpack(tensor.clone())
    torch.cuda.synchronize()
    pcd.synchronize()
    assert (pcd.memory_info().used, torch.cuda.memory_allocated()) == (ours, theirs)


# ---- CuPy ----


@pytest.mark.parametrize("code", DTYPES)
def test_cupy_round_trip(cupy: Any, code: str) -> None:
    values = np.arange(24).reshape(4, 6).astype(code)
    theirs = cupy.asarray(values)
    for part in (theirs, theirs.T, theirs[1:, ::2], theirs[::-1], theirs[2, 3]):
        array = pcd.from_dlpack(part)
        assert _pointer(array) == part.data.ptr
        assert np.array_equal(pcd.asnumpy(array), part.get())
        for again in (cupy.from_dlpack(array), cupy.asarray(array)):
            assert again.data.ptr == part.data.ptr
            assert np.array_equal(again.get(), part.get())


def test_cupy_operations_and_streams(cupy: Any) -> None:
    a, b = cupy.arange(1000.0), cupy.ones(1000)
    out = cupy.empty_like(a)
    assert pcd.add(a, b, out=out) is out and (out == a + 1).all()
    side = cupy.cuda.Stream(non_blocking=True)
    with side:
        x = cupy.full(1000, 3.0)
        assert pcd.multiply(x, x, out=x) is x
        seen = x.copy()
        result = pcd.add(x, 1)
    side.synchronize()
    assert (seen == 9).all() and (pcd.asnumpy(result) == 10).all()
    with pcd.stream(side) as s:
        assert s.handle == side.ptr
        assert (pcd.asnumpy(pcd.ones(10, device="cuda") + 1) == 2).all()
    with pcd.stream(pcd.Stream()):
        assert (pcd.asnumpy(pcd.add(a, b)) == np.arange(1, 1001)).all()


# ---- Numba, JAX ----


def test_numba(torch: Any) -> None:
    cuda = pytest.importorskip("numba.cuda")
    values = np.arange(24.0).reshape(4, 6)
    theirs = cuda.to_device(values)
    array = pcd.asarray(theirs)
    assert _pointer(array) == theirs.__cuda_array_interface__["data"][0]
    assert np.array_equal(pcd.asnumpy(array), values)
    out = cuda.device_array_like(theirs)
    assert pcd.add(theirs, 1, out=out) is out
    assert np.array_equal(out.copy_to_host(), values + 1)
    assert np.array_equal(cuda.as_cuda_array(pcd.square(array)).copy_to_host(), values**2)


def test_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    _real_gpu()
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX has no GPU")
    theirs = jax.numpy.arange(12, dtype="float32").reshape(3, 4)
    array = pcd.from_dlpack(theirs)
    assert np.array_equal(pcd.asnumpy(array + 1), np.asarray(theirs) + 1)
    assert np.array_equal(pcd.asnumpy(pcd.multiply(theirs, theirs)), np.asarray(theirs) ** 2)
    back = jax.dlpack.from_dlpack(pcd.square(array))
    assert np.array_equal(np.asarray(back), np.asarray(theirs) ** 2)
