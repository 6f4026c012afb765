"""Every float32 argument: results that differ between the CPU and the GPU for a few of all 2^32."""

from __future__ import annotations

import numpy as np
import pytest

import pkg as pcd

#: Arguments at a time; 2^32 is a multiple.
CHUNK = 1 << 24

FUNCTIONS = [one.__name__ for one in pcd.core.operations if one.nin == 1 and "f->f" in one.types]


@pytest.mark.exhaustive
@pytest.mark.gpu
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_float32_is_the_same_on_the_gpu(name: str) -> None:
    function = getattr(pcd, name)
    with np.errstate(all="ignore"):
        for first in range(0, 1 << 32, CHUNK):
            x = np.arange(first, first + CHUNK, dtype=np.uint32).view(np.float32)
            on_cpu, on_gpu = function(x), pcd.asnumpy(function(pcd.asarray(x, device="cuda")))
            differ = (on_cpu.view(np.uint32) != on_gpu.view(np.uint32)) & ~np.isnan(on_cpu)
            assert not differ.any(), f"{name}({x[differ][0]!r})"
            assert (np.isnan(on_cpu) == np.isnan(on_gpu)).all()
