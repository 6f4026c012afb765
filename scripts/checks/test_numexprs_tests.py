"""numexpr's own tests, with `pkg.numexpr` in the place of numexpr.

Each test that fails is listed here, with a reason from docs/numexpr.md.  A failure that is not
listed is a difference that nobody knows of; a listed test that passes no longer belongs here.
"""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest
from commands import ROOT
from others_tests import compare, outcomes

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
        evaluate::test_constant_deduplication evaluate::test_disassemble
        evaluate::test_ex_uses_vml evaluate::test_f32_constant evaluate::test_nan_constant
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
    "functions, logic and powers that expressions do not have yet": """
        evaluate::test_addmult_booleans evaluate::test_bitwise_operators
        evaluate::test_bool_funcs evaluate::test_complex_expr evaluate::test_complex_tan
        evaluate::test_left_shift evaluate::test_recarray_strides evaluate::test_right_shift
        evaluate::test_shift_out_of_range evaluate::test_sign_round
    """,
}

#: The expressions of which each test fails because their functions are missing.
_MISSING = re.compile(
    r"\b(copy|ones_like|a?r?c?(sin|cos|tan)h?2?|log\w*|expm?1?|conj|ceil|floor|round|trunc|sign|"
    r"fmod|hypot|nextafter|copysign)\(|\.real|\*\* ?(\(|-0\.5|-?[12]\.[1-9])"
)


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
    listed |= {x for x in passed if "::test_expressions[" in x and _MISSING.search(x)}
    compare(passed, listed, output)
