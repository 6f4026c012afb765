"""A plugin of pytest: lets NumPy's own tests, and only them, see other functions as NumPy's.

The modules of tests are imported while `numpy` and `numpy._core.umath` are copies that hold this
package's operations (or with NUMPYS_TESTS_OF=ufuncs their ufuncs) under NumPy's names.  NumPy
itself, and what compares the results, keeps its own.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from pathlib import Path
from typing import Any

import numpy
import numpy._core._operand_flag_tests
import numpy._core._rational_tests
import numpy._core._umath_tests
import numpy.linalg._umath_linalg
import numpy.testing

import pkg as pcd

MODULES = ("test_umath", "test_ufunc", "test_umath_complex")


class _Copy(types.ModuleType):
    """A module with some names of its own."""

    def __init__(self, original: types.ModuleType, own: dict[str, Any]) -> None:
        super().__init__(original.__name__)
        self.__dict__.update(vars(original))
        self.__dict__.update(own)


def _import_all() -> None:
    uses_ufuncs = os.environ["NUMPYS_TESTS_OF"] == "ufuncs"
    ours = {x.__name__: x.ufunc if uses_ufuncs else x for x in pcd.core.operations}
    ours |= {"abs": ours["absolute"], "mod": ours["remainder"]}
    for name in dir(numpy):
        getattr(numpy, name, None)  # what is imported when it is first asked for, by NumPy itself
    umath = _Copy(numpy._core.umath, ours)
    core = _Copy(numpy._core, {"umath": umath})
    copies = {
        "numpy": _Copy(numpy, {"_core": core, **ours}),
        "numpy._core": core,
        "numpy._core.umath": umath,
    }
    originals = {name: sys.modules[name] for name in copies}
    sys.modules.update(copies)
    try:
        for name in MODULES:
            path = Path(numpy.__file__).parent / "_core" / "tests" / f"{name}.py"
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None and spec.loader is not None
            # pytest finds it here.
            sys.modules[name] = importlib.util.module_from_spec(spec)
            # On its way this one takes log(-0.0 + 0j), which of Python numbers is an error here.
            copies["numpy"].__dict__["log"] = numpy.log if name.endswith("x") else ours["log"]
            spec.loader.exec_module(sys.modules[name])
        copies["numpy"].__dict__["log"] = ours["log"]
    finally:
        sys.modules.update(originals)


_import_all()
