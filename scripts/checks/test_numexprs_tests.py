"""numexpr's own tests, with `pkg.numexpr` in the place of numexpr.

Each test that fails is listed here, with a reason from docs/numexpr.md.  A failure that is not
listed is an unknown difference; a listed test that passes must be removed.
"""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from commands import ROOT
from others_tests import compare, outcomes

from pkg import Expression

#: The lists below are those of this version: others have other tests.
TESTED = "2.14.2"

#: Reason -> tests that fail for it, each in the class `test_...`.
LISTED = {
    "strings, and `contains`": """
        numexpr::test_str_contains_basic0 numexpr2::test_str_contains_basic0
        numexpr::test_str_contains_basic1 numexpr2::test_str_contains_basic1
        numexpr::test_str_contains_basic2 numexpr2::test_str_contains_basic2
        numexpr::test_str_contains_basic3 numexpr2::test_str_contains_basic3
        numexpr::test_str_contains_basic4 numexpr2::test_str_contains_basic4
        numexpr::test_str_contains_basic5 numexpr2::test_str_contains_basic5
        numexpr::test_str_contains_listproduct numexpr2::test_str_contains_listproduct
        numexpr::test_str_contains_long_needle numexpr2::test_str_contains_long_needle
        numexpr::test_str_contains_withemptystr1 numexpr2::test_str_contains_withemptystr1
        numexpr::test_str_contains_withemptystr2 numexpr2::test_str_contains_withemptystr2
        evaluate::test_sanitize
        strings::test_add_numeric_array strings::test_add_string_array
        strings::test_compare_array strings::test_compare_constant
        strings::test_compare_copy strings::test_compare_prefix
        strings::test_compare_variable strings::test_empty_string1
        strings::test_empty_string2 strings::test_null_chars
    """,
    "no programs of numexpr's opcodes: `disassemble`, constants, nodes, uses of VML": """
        numexpr::test_r0_reuse numexpr2::test_r0_reuse
        numexpr::test_reductions numexpr2::test_reductions
        evaluate::test_disassemble evaluate::test_ex_uses_vml evaluate::test_f32_constant
        evaluate::test_nan_constant
    """,
    "no expressions made with `E`": """
        numexpr::test_rational_expr numexpr2::test_rational_expr
        numexpr::test_simple numexpr2::test_simple
        numexpr::test_simple_expr numexpr2::test_simple_expr
        numexpr::test_simple_expr_small_array numexpr2::test_simple_expr_small_array
    """,
    "negative axes count from the end": """
        numexpr::test_axis numexpr2::test_axis
    """,
    "types are NumPy's: int64 for an int, uint32 for uint32": """
        int32_int64::test_small_int uint32_int64::test_small_uint32
    """,
    "`and` is a SyntaxError, not a TypeError": """
        evaluate::test_boolean_operator
    """,
    "numexpr's own settings: its environment variables, maximum of threads, VML": """
        threading_config::test_max_threads_set threading_config::test_max_threads_unset
        threading_config::test_numexpr_max_threads_empty_string
        threading_config::test_numexpr_num_threads threading_config::test_omp_num_threads
        threading_config::test_omp_num_threads_empty_string
        threading_config::test_vml_threads_round_trip
    """,
}

#: Needs of other tests: an expression, and the type of its inputs.  They fail, as do tests of
#: single expressions, exactly if expressions lack a function, or have none for the type.
NEEDS = {
    "evaluate::test_bool_funcs": ("isnan(a) & isfinite(a) & isinf(a) & signbit(a.real)", "c16"),
    "evaluate::test_complex_expr": ("sin(complex(a, b)).real", "f8"),
    "evaluate::test_complex_tan": ("tan(a) + tanh(a)", "c16"),
    "evaluate::test_recarray_strides": ("log10(a)", "f4"),
    "evaluate::test_sign_round": ("sign(a) + round(a)", "c16"),
}


def _is_missing(text: str, code: str, **codes: str) -> bool:
    try:
        expression = Expression(text)
        expression.dtype_for(*(np.dtype(codes.get(name, code)) for name in expression.inputs))
    except (SyntaxError, TypeError):
        return True
    except ValueError:  # a negative power of integers, which NumPy refuses too
        return False
    return False


def _missing_of(test: str) -> bool:
    """Tells whether a test of a single expression needs a function that is missing."""
    found = re.fullmatch(r".*::test_expressions\[(.*)-\d-(\w+)-\w+-\w+-\w+\]", test)
    codes = {"int": "i8", "float32": "f4", "float64": "f8", "complex": "c16"}
    if found is None:
        return False
    a = {"a": "f8"} if found[2] == "complex" else {}  # it is real in all of them
    return _is_missing(found[1], codes[found[2]], **a)


def test_numexprs_tests(tmp_path: Path) -> None:
    try:
        installed = metadata.distribution("numexpr")
    except metadata.PackageNotFoundError:
        pytest.skip("numexpr is not installed")
    if installed.version != TESTED:
        pytest.skip(f"the lists are those of numexpr {TESTED}, and this is {installed.version}")
    folder = Path(str(installed.locate_file("numexpr")))
    file = folder / "tests" / "test_numexpr.py"
    if not file.exists():
        pytest.skip(f"numexpr is installed without its tests ({file})")
    standins = ROOT / "scripts" / "checks" / "standins"
    passed, output = outcomes(
        [file], "-p", "numexpr", cwd=tmp_path, path=standins, NUMEXPR_FOLDER=str(folder)
    )
    assert len(passed) > 6000, f"only {len(passed)} tests ran\n{output}"
    print(f"{sum(passed.values())} of {len(passed)} of numexpr's tests pass")
    listed = {f"{file.name}::test_{test}" for tests in LISTED.values() for test in tests.split()}
    listed |= {f"{file.name}::test_{x}" for x, need in NEEDS.items() if _is_missing(*need)}
    listed |= {x for x in passed if _missing_of(x)}
    compare(passed, listed, output)
