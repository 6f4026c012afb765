"""Tensors of PyTorch, computed by pipcudemo without a copy.

`Exact` is a tensor whose products have NumPy's bits, on the GPU as on the CPU.  It shows the three
steps: tensors are passed as they are, the result is an Array, and PyTorch uses its memory.  On the
CPU, and for operands that pipcudemo does not take, PyTorch computes.

    python examples/torch_tensors.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import pkg as pcd


class Exact(torch.Tensor):
    """A tensor that is multiplied by pipcudemo when it is on a GPU."""

    def __mul__(self, other: Any) -> Any:
        if not self.is_cuda:
            return super().__mul__(other)
        # Computes on PyTorch's current stream, so nobody has to wait.
        return torch.from_dlpack(pcd.multiply(self, other)).as_subclass(type(self))

    __rmul__ = __mul__

    def __imul__(self, other: Any) -> Any:
        return pcd.multiply(self, other, out=self) if self.is_cuda else super().__imul__(other)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() and pcd.cuda_is_available() else "cpu"
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 1000)) + 1j * rng.standard_normal((2, 1000))
    x, y = (torch.from_numpy(values).to(device).as_subclass(Exact) for values in (a, b))

    product = x * y
    assert type(product) is Exact and product.device == x.device
    if device == "cuda":
        wanted = pcd.multiply(a, b)  # on the CPU: the same bits
        assert np.array_equal(product.cpu().numpy(), wanted)
        memory = x.data_ptr()
        x *= y
        assert x.data_ptr() == memory and np.array_equal(x.cpu().numpy(), wanted)
        # Any function of the package takes tensors, and writes into them.
        out = torch.empty_like(y)
        assert pcd.add(y, 2.5, out=out) is out
    print(f"{product.numel()} products of type {type(product).__name__} on {product.device}")


if __name__ == "__main__":
    main()
