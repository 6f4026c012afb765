"""``python -m pkg``, or ``pcd``: the configuration, and the commands."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from . import _files
from ._devices import show_config
from .core import __version__


def main(arguments: Sequence[str]) -> int:
    # A command has its own parser, which accepts operands and options in any order.
    if arguments[:1] == ["eval"]:
        return _files.main(arguments[1:])
    parser = argparse.ArgumentParser(
        prog="pkg",
        usage=f"{_files.program()} [-h] [--version] [eval ...]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Without arguments: the version, how the package was built, the CPU and the\n"
        "GPUs, and why there is none if so.",
    )
    parser.add_argument("--version", action="version", version=f"pipcudemo {__version__}")
    parser.add_argument(
        "command",
        nargs="?",
        choices=["eval"],
        metavar="eval",
        help=f"evaluates an expression over arrays in files; see {_files.program()} eval --help",
    )
    parser.parse_args(arguments)
    show_config()
    return 0


def _open_standard_files() -> None:
    """Puts /dev/null in the place of closed standard files; an output would take their numbers."""
    while (file := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(file)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")


def script() -> int:
    """Runs the command ``pcd``."""
    _open_standard_files()
    # If a read fails, Zarr abandons the concurrent ones, and asyncio would log each of them.
    logging.getLogger("asyncio").addHandler(logging.NullHandler())
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(script())
