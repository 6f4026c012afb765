"""``python -m pkg``: the configuration, and the commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from . import _files
from ._devices import show_config
from .core import __version__


def main(arguments: Sequence[str]) -> int:
    # A command has its own parser, which takes operands and options in any order.
    if arguments[:1] == ["eval"]:
        return _files.main(arguments[1:])
    parser = argparse.ArgumentParser(
        prog="pkg",
        usage="python -m pkg [-h] [--version] [eval ...]",
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
        help="evaluates an expression over .npy files; see python -m pkg eval --help",
    )
    parser.parse_args(arguments)
    show_config()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
