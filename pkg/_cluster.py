"""``pkg eval --scheduler``: Dask workers compute the pieces of a Zarr array and write them."""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._inputs import AnyInput, open_input
from ._outputs import Failure
from ._pieces import region
from ._stores import Shape, open_array
from .expressions.expression import of_text

#: Seconds to wait for a scheduler's answer, and for running tasks after an interruption.
_PATIENCE = 30


@dataclass(frozen=True)
class Work:
    """What a worker needs for a piece: small values, and files by name."""

    text: str
    #: Numbers, and the absolute paths of files, in the order of the expression.
    operands: list[Any]
    ndim: int
    #: The folder of the Zarr array, and its path inside.
    output: tuple[str, str]
    casting: str
    device: str | None


def compute_piece(work: Work, begin: Shape, piece: Shape) -> set[str]:
    """Computes and writes one piece, on a worker; may be repeated.

    Returns the kinds of its floating-point warnings: workers' threads share Python's warnings.
    """
    heard: set[str] = set()
    with contextlib.ExitStack() as files:
        operands: list[Any] = []
        for x in work.operands:
            if isinstance(x, str):
                file: AnyInput = files.enter_context(contextlib.closing(open_input(x)))
                file.arrange(work.ndim, False)
                operands.append(file.part(begin, piece))
            else:
                operands.append(x)
        output = open_array(*work.output)
        out = np.empty(piece, output.dtype)
        with np.errstate(all="call", under="ignore", call=lambda kind, _: heard.add(kind)):
            of_text(work.text)(*operands, out=out, casting=work.casting, device=work.device)
        output[region(begin, piece)] = out
    return heard


def _connect(address: str) -> tuple[Any, Any]:
    try:
        distributed = importlib.import_module("distributed")
    except ImportError as error:
        raise Failure(
            f"--scheduler needs the package distributed, which cannot be imported ({error});"
            " pip install 'dask[distributed]'"
        ) from None
    try:
        return distributed, distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise Failure(
            f"no scheduler of Dask answers at {address} ({error}); expected an address such as"
            " tcp://HOST:8786, which `dask scheduler` shows"
        ) from None


def _stop(client: Any, futures: list[Any]) -> None:
    """Cancels tasks, and waits for running ones: the folder that they write to will be deleted."""
    client.cancel(futures)
    end = time.monotonic() + _PATIENCE
    while any(client.processing().values()) and time.monotonic() < end:
        time.sleep(0.05)


def run_on_workers(
    address: str, work: Work, pieces: Iterable[tuple[Shape, Shape]], is_quiet: bool
) -> None:
    """Computes all pieces on a scheduler's workers; it repeats the pieces of lost workers."""
    distributed, client = _connect(address)
    with client:
        cut = list(pieces)
        if not cut:
            return
        if not client.scheduler_info()["workers"]:
            raise Failure(f"the scheduler at {address} has no workers: start some (dask worker)")
        works = [work] * len(cut)
        futures = client.map(compute_piece, works, *zip(*cut, strict=True), pure=False)
        try:
            if not is_quiet and sys.stderr.isatty():
                distributed.progress(futures)
            for kind in sorted(set().union(*client.gather(futures))):
                warnings.warn(f"{kind} encountered in evaluate", RuntimeWarning, stacklevel=2)
        except BaseException as error:
            _stop(client, futures)
            name = type(error).__name__
            if name in ("KilledWorker", "FutureCancelledError", "CommClosedError"):
                raise Failure(f"the workers at {address} have failed: {name}: {error}") from None
            raise
