"""Explains why the extension ``pkg.core`` could not be imported, and what to do about it."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from sys import implementation, version_info

_FOLDER = Path(__file__).resolve().parent


def explain(error: ImportError) -> ImportError:
    """Returns the error to raise: `error` itself if the extension was loaded and raised it."""
    built = any((_FOLDER / f"core{suffix}").exists() for suffix in EXTENSION_SUFFIXES)
    # Only errors of the dynamic linker have the path of an extension.
    if built and error.path is None:
        return error
    python = f"{implementation.name} {version_info.major}.{version_info.minor}"
    others = sorted(path.name for path in _FOLDER.glob("core.*.so"))
    if built and not (_FOLDER / "libmylib.so").exists():
        reason = "libmylib.so is missing beside the extension"
    elif built:
        reason = f"the dynamic linker says: {error}"
    elif others:
        reason = f"the extension is there for another Python only ({', '.join(others)})"
    else:
        reason = "the extension is missing"
    if (_FOLDER.parent / "setup.py").exists():
        text = (
            f"{_FOLDER} is a source tree that has not been built for {python}: {reason}. Run "
            f"'pip install .' in {_FOLDER.parent}, and then start Python in another folder, where "
            "the sources do not hide the installed package. Or build the tree itself: "
            "'pip install --editable .', or 'make test'"
        )
    else:
        text = (
            f"the package in {_FOLDER} cannot be used by {python}: {reason}. Install it again from "
            "its source distribution: pip install --force-reinstall --no-cache-dir "
            "./pipcudemo-VERSION.tar.gz"
        )
    return ImportError(text, name=error.name, path=error.path)
