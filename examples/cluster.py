"""A vegetation index over many machines, with the bits of one.

Two bands of a scene lie in a chunked Zarr store that is larger than a worker's memory.  Dask's
workers compute the index chunk by chunk with one Expression; a worker that finds a GPU uses it, and
each worker on this machine has a GPU of its own.  Then this process alone computes the same, piece
by piece; both results must have one fingerprint.

    python examples/cluster.py                      # worker processes on this machine
    python examples/cluster.py --kill               # one is killed in the middle
    python examples/cluster.py --scheduler tcp://HOST:8786 --folder /shared/by/all

Needs dask, distributed and zarr.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import pkg as pcd

try:
    import dask
    import dask.array as da
    import distributed
    import zarr
except ImportError as error:
    sys.exit(f"cluster: {error}; pip install 'dask[distributed]' zarr")

NDVI = pcd.Expression("(nir - red) / (nir + red)")

#: Rows and columns of a chunk: 4 MiB of float32.
CHUNK = 1024


class OneGpuEach(distributed.WorkerPlugin):
    """Gives each worker of this machine a GPU, in the order of their names, where there is one."""

    def setup(self, worker: Any) -> None:
        count = pcd.device_count()
        if count:
            number = worker.name if isinstance(worker.name, int) else 0
            pcd.set_default_device(f"cuda:{number % count}")


@contextlib.contextmanager
def cluster(workers: int, memory: str) -> Iterator[str]:
    """Starts worker processes, each of one thread; gives the address of their scheduler."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Port 0 means any free port: another cluster may run on this machine.
    with distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        memory_limit=memory,
        dashboard_address="127.0.0.1:0",
    ) as started:
        yield started.scheduler_address


def make_scene(folder: Path, rows: int, columns: int) -> Any:
    """Writes the bands, a row of chunks at a time."""
    scene = zarr.open_group(str(folder / "scene.zarr"), mode="w")
    east = np.linspace(0, 40, columns, dtype=np.float32)
    for name, seed in (("nir", 1), ("red", 2)):
        band = scene.create_array(
            name, shape=(rows, columns), chunks=(CHUNK, CHUNK), dtype="f4", compressors=None
        )
        for row in range(0, rows, CHUNK):
            north = np.arange(row, min(row + CHUNK, rows), dtype=np.float32)[:, None] / 700
            waves = "1 + seed + sin(east + seed) * cos(north) + sin(east * north)"
            names = {"seed": seed, "east": east, "north": north}
            band[row : row + CHUNK] = pcd.evaluate(waves, names)
    return scene


def new_array(folder: Path, name: str, like: Any) -> Any:
    """Makes an array of the shape and the chunks of a band."""
    return zarr.create_array(
        store=str(folder / name), shape=like.shape, chunks=like.chunks, dtype="f4", compressors=None
    )


def kill_one(client: Any, folder: Path, count: int) -> None:
    """Kills a worker when a part of the chunks is there."""
    pids = client.run(os.getpid)
    while sum(1 for path in folder.rglob("*") if path.is_file()) < count:
        time.sleep(0.02)
    address, pid = next(iter(pids.items()))
    os.kill(pid, signal.SIGKILL)
    print(f"killed worker {address} (process {pid}) in the middle", flush=True)


def compute(address: str, folder: Path, scene: Any, is_killing: bool) -> Any:
    """Computes the index on the workers; returns the array that they have written."""
    result = new_array(folder, "ndvi.zarr", scene["nir"])
    path = str(folder / "scene.zarr")
    bands = [da.from_zarr(path, component=name) for name in ("nir", "red")]
    index = da.map_blocks(NDVI, *bands, dtype="f4", meta=np.empty((0, 0), "f4"))
    with distributed.Client(address) as client:
        client.register_plugin(OneGpuEach())
        devices = client.run(pcd.get_default_device)
        print(f"{len(devices)} workers, on {', '.join(sorted(devices.values()))}", flush=True)
        begin = time.perf_counter()
        future = client.compute(da.store(index, result, lock=False, compute=False))
        if is_killing:
            kill_one(client, folder / "ndvi.zarr", index.npartitions // 4)
        if sys.stdout.isatty():
            distributed.progress(future)
        future.result()
        print(f"computed by the workers in {time.perf_counter() - begin:.1f} s", flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scheduler", help="the address of a scheduler; default: start workers")
    parser.add_argument(
        "--workers", type=int, help="how many to start; default: as many as GPUs, or 2"
    )
    parser.add_argument("--memory", default="512MiB", help="of each worker that is started")
    parser.add_argument(
        "--folder", type=Path, help="where the stores go, for all workers; default: temporary"
    )
    parser.add_argument("--rows", type=int, default=10240)
    parser.add_argument("--columns", type=int, default=8192)
    parser.add_argument("--kill", action="store_true", help="kill a worker in the middle")
    options = parser.parse_args()
    if options.scheduler and options.kill:
        parser.error("--kill is for workers that are started here")
    if options.scheduler and not options.folder:
        parser.error("--scheduler needs --folder, which all its workers see")
    workers = options.workers or pcd.device_count() or 2

    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        scene = make_scene(folder, options.rows, options.columns)
        nbytes = 2 * scene["nir"].size * 4
        print(f"two bands of {options.rows} x {options.columns}: {nbytes / 2**20:.0f} MiB")
        limit = dask.utils.parse_bytes(options.memory)
        if not options.scheduler:
            comparison = "more than" if nbytes > limit else "no more than"
            print(f"{comparison} a worker's memory, {limit / 2**20:.0f} MiB")
        address = options.scheduler or stack.enter_context(cluster(workers, options.memory))
        result = compute(address, folder, scene, options.kill)

        alone = new_array(folder, "alone.zarr", result)
        NDVI(nir=scene["nir"], red=scene["red"], out=alone)
        many, one = pcd.fingerprint(result), pcd.fingerprint(alone)
        print(f"by the workers {many}\nby one process {one}")
        if many != one:
            sys.exit("cluster: the bits differ")
        print("the same bits")


if __name__ == "__main__":
    main()
