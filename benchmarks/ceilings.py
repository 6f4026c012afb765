"""Limits of the machine, measured in the same run as everything else."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np


class CeilingError(RuntimeError):
    """A ceiling cannot be measured here; the text says why."""


def _flags() -> list[str]:
    if platform.machine() in ("x86_64", "AMD64"):
        try:
            known = Path("/proc/cpuinfo").read_text()
        except OSError:
            known = ""
        return ["-mavx512f"] if " avx512f" in known else ["-mavx2"] if " avx2" in known else []
    return []


def compile_ceilings() -> ctypes.CDLL:
    """Builds ceilings.c with the C compiler (``CC``, else cc) and loads it."""
    source = Path(__file__).with_name("ceilings.c")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "ceilings.so")
        command = [os.environ.get("CC", "cc"), "-O3", *_flags(), "-fopenmp", "-fPIC", "-shared"]
        try:
            subprocess.run(
                [*command, str(source), "-o", str(library), "-ldl"],
                check=True,
                capture_output=True,
                text=True,
            )
        except OSError as error:
            raise CeilingError(f"no C compiler: {error}") from None
        except subprocess.CalledProcessError as error:
            raise CeilingError(f"the C compiler failed: {error.stderr.strip()[:300]}") from None
        # OpenMP reads this when it is loaded.  By default its threads spin after a call, on the
        # processors that the next contender needs.
        is_set = "OMP_WAIT_POLICY" in os.environ
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        loaded = ctypes.CDLL(str(library))
        if not is_set:
            del os.environ["OMP_WAIT_POLICY"]
    pointer = ctypes.c_void_p
    number = ctypes.c_int
    loaded.ceiling_add.argtypes = [ctypes.c_int64, pointer, pointer, number, number]
    loaded.ceiling_add.restype = None
    loaded.ceiling_launch.argtypes = [ctypes.c_int64]
    loaded.ceiling_launch.restype = ctypes.c_double
    return loaded


class LaunchTimer:
    """Launching an empty kernel and waiting for it; CeilingError if that fails."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.timeit(1)

    def timeit(self, number: int) -> float:
        seconds: float = self.library.ceiling_launch(number)
        if seconds < 0:
            raise CeilingError(f"the CUDA driver failed (step {-seconds:.0f} of ceiling_launch)")
        return seconds * number


class PipelinedAdd:
    """out = a + b for pinned host arrays through the GPU: copies both ways beside the kernel."""

    STREAMS = 3
    CHUNKS = (8 << 20, 16 << 20, 32 << 20)  # bytes; the fastest is taken

    def __init__(self, cp: Any, a: np.ndarray, b: np.ndarray) -> None:
        self.cp = cp
        self.host = [self._pinned(x) for x in (a, b, np.zeros_like(a))]
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(self.STREAMS)]
        seconds = {}
        for chunk in self.CHUNKS:
            self._set_chunk(chunk)
            seconds[chunk] = min(self.timeit(1) for _ in range(3))
        self._set_chunk(min(seconds, key=lambda chunk: seconds[chunk]))
        self.host[2][...] = 0
        self.run()
        if not np.array_equal(self.host[2], a + b):
            raise CeilingError("the pipelined add computes something else")

    def _pinned(self, x: np.ndarray) -> np.ndarray:
        memory = self.cp.cuda.alloc_pinned_memory(x.nbytes)
        array = np.frombuffer(memory, x.dtype, x.size)
        array[...] = x
        return array

    def _set_chunk(self, nbytes: int) -> None:
        dtype = self.host[0].dtype
        self.chunk = nbytes // dtype.itemsize
        self.device = [[self.cp.empty(self.chunk, dtype) for _ in range(3)] for _ in self.streams]
        self.cp.cuda.Device().synchronize()

    def run(self) -> None:
        copy = self.cp.cuda.runtime.memcpyAsync
        to_device = self.cp.cuda.runtime.memcpyHostToDevice
        to_host = self.cp.cuda.runtime.memcpyDeviceToHost
        size, itemsize = self.host[0].size, self.host[0].itemsize
        addresses = [x.ctypes.data for x in self.host]
        for i, begin in enumerate(range(0, size, self.chunk)):
            # A stream works in order: it may reuse its buffers when it reaches them.
            stream, arrays = self.streams[i % self.STREAMS], self.device[i % self.STREAMS]
            count = min(self.chunk, size - begin)
            nbytes, offset = count * itemsize, begin * itemsize
            for k in range(2):
                copy(arrays[k].data.ptr, addresses[k] + offset, nbytes, to_device, stream.ptr)
            with stream:
                self.cp.add(arrays[0][:count], arrays[1][:count], out=arrays[2][:count])
            copy(addresses[2] + offset, arrays[2].data.ptr, nbytes, to_host, stream.ptr)
        for stream in self.streams:
            stream.synchronize()

    def timeit(self, number: int) -> float:
        start = time.perf_counter()
        for _ in range(number):
            self.run()
        return time.perf_counter() - start
