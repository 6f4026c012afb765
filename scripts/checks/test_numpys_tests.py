"""NumPy's own tests of its ufuncs, with this package's operations in the place of NumPy's.

Each test that fails is listed here, with a reason from the README's table of differences or from
what an operation is.  A failure that is not listed is an unknown difference; a listed test that
passes must be removed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from others_tests import compare, outcomes

#: The lists below are those of this version: others have other tests.
TESTED = "2.4.6"

FILES = ("test_umath.py", "test_ufunc.py", "test_umath_complex.py")

#: It counts the references that the process has to a number, some of which other tests leave to the
#: garbage collector when they fail.
LEFT_OUT = "test_reduce_casterrors"

#: Reason -> tests that fail for it; without parameters, all that have the name.
OF_BOTH = {
    "object, longdouble, times, strings and user-defined types are a TypeError that names the "
    "supported types, and the ufuncs have no loops for them": """
        test_ufunc.py::TestLowlevelAPIAccess::test_weird_dtypes
        test_ufunc.py::TestUfunc::test_at_negative_indexes[add-g]
        test_ufunc.py::TestUfunc::test_at_negative_indexes[maximum-g]
        test_ufunc.py::TestUfunc::test_at_negative_indexes[minimum-g]
        test_ufunc.py::TestUfunc::test_at_negative_indexes[subtract-g]
        test_ufunc.py::TestUfunc::test_at_no_loop_for_op
        test_ufunc.py::TestUfunc::test_cast_safety_scalar
        test_ufunc.py::TestUfunc::test_forced_dtype_times
        test_ufunc.py::TestUfunc::test_initial_reduction
        test_ufunc.py::TestUfunc::test_invalid_args
        test_ufunc.py::TestUfunc::test_logical_ufuncs_object_signatures
        test_ufunc.py::TestUfunc::test_logical_ufuncs_support_anything
        test_ufunc.py::TestUfunc::test_logical_ufuncs_supports_string
        test_ufunc.py::TestUfunc::test_object_array_accumulate_failure
        test_ufunc.py::TestUfunc::test_object_array_accumulate_inplace
        test_ufunc.py::TestUfunc::test_object_array_reduceat_failure
        test_ufunc.py::TestUfunc::test_object_array_reduceat_inplace
        test_ufunc.py::TestUfunc::test_object_comparison
        test_ufunc.py::TestUfunc::test_object_logical
        test_ufunc.py::TestUfunc::test_reduce_identity_depends_on_loop
        test_ufunc.py::TestUfunc::test_signature_dtype_instances_allowed
        test_ufunc.py::TestUfunc::test_sum
        test_ufunc.py::TestUfunc::test_true_divide
        test_ufunc.py::TestUfunc::test_ufunc_at_basic[a1]
        test_ufunc.py::TestUfunc::test_ufunc_at_inner_loops[add-g]
        test_ufunc.py::TestUfunc::test_ufunc_at_inner_loops[floor_divide-g]
        test_ufunc.py::TestUfunc::test_ufunc_at_inner_loops[fmax-g]
        test_ufunc.py::TestUfunc::test_ufunc_at_inner_loops[fmin-g]
        test_ufunc.py::TestUfunc::test_ufunc_at_inner_loops[maximum-g]
        test_ufunc.py::TestUfunc::test_ufunc_at_inner_loops[minimum-g]
        test_ufunc.py::TestUfunc::test_ufunc_at_inner_loops[multiply-g]
        test_ufunc.py::TestUfunc::test_ufunc_at_inner_loops[subtract-g]
        test_ufunc.py::TestUfunc::test_ufunc_at_inner_loops_complex[add-G]
        test_ufunc.py::TestUfunc::test_ufunc_at_inner_loops_complex[multiply-G]
        test_ufunc.py::TestUfunc::test_ufunc_at_inner_loops_complex[subtract-G]
        test_ufunc.py::TestUfuncGenericLoops::test_binary_PyUFunc_OO_O
        test_ufunc.py::TestUfuncGenericLoops::test_binary_PyUFunc_OO_O_method
        test_ufunc.py::TestUfuncGenericLoops::test_binary_PyUFunc_On_Om_method
        test_ufunc.py::TestUfuncGenericLoops::test_python_complex_conjugate
        test_ufunc.py::TestUfuncGenericLoops::test_unary_PyUFunc[clongdouble-clongdouble]
        test_ufunc.py::TestUfuncGenericLoops::test_unary_PyUFunc[longdouble-longdouble]
        test_ufunc.py::TestUfuncGenericLoops::test_unary_PyUFunc_O_O
        test_ufunc.py::TestUfuncGenericLoops::test_unary_PyUFunc_O_O_method_simple
        test_ufunc.py::test_addition_negative_zero[G]
        test_ufunc.py::test_addition_negative_zero[g]
        test_ufunc.py::test_addition_reduce_negative_zero[True-G]
        test_ufunc.py::test_addition_reduce_negative_zero[True-g]
        test_ufunc.py::test_addition_string_types
        test_ufunc.py::test_ufunc_out_casterrors
        test_umath.py::TestAVXUfuncs::test_avx_based_ufunc
        test_umath.py::TestAttributes::test_attributes
        test_umath.py::TestBitwiseUFuncs::test_reduction
        test_umath.py::TestBitwiseUFuncs::test_types
        test_umath.py::TestBitwiseUFuncs::test_values
        test_umath.py::TestBool::test_truth_table_logical
        test_umath.py::TestComparisons::test_comparison_functions[eq-equal-longdouble]
        test_umath.py::TestComparisons::test_comparison_functions[ge-greater_equal-longdouble]
        test_umath.py::TestComparisons::test_comparison_functions[gt-greater-longdouble]
        test_umath.py::TestComparisons::test_comparison_functions[le-less_equal-longdouble]
        test_umath.py::TestComparisons::test_comparison_functions[lt-less-longdouble]
        test_umath.py::TestComparisons::test_comparison_functions[ne-not_equal-longdouble]
        test_umath.py::TestComparisons::test_ignore_object_identity_in_equal
        test_umath.py::TestComparisons::test_ignore_object_identity_in_not_equal
        test_umath.py::TestComparisons::test_object_dtype
        test_umath.py::TestComplexFunctions::test_loss_of_precision[clongdouble]
        test_umath.py::TestComplexFunctions::test_precisions_consistent
        test_umath.py::TestDivision::test_floor_division_corner_cases[g]
        test_umath.py::TestDivision::test_floor_division_errors[g]
        test_umath.py::TestExp2::test_exp2_values
        test_umath.py::TestExp::test_exp_values
        test_umath.py::TestFmax::test_precision
        test_umath.py::TestFmax::test_reduce
        test_umath.py::TestFmin::test_precision
        test_umath.py::TestFmin::test_reduce
        test_umath.py::TestLog2::test_log2_values[g]
        test_umath.py::TestLog::test_log_values
        test_umath.py::TestLog::test_log_values_maxofdtype
        test_umath.py::TestLogAddExp2::test_logaddexp2_values
        test_umath.py::TestLogAddExp::test_inf
        test_umath.py::TestLogAddExp::test_logaddexp_range
        test_umath.py::TestLogAddExp::test_logaddexp_values
        test_umath.py::TestMaximum::test_object_array
        test_umath.py::TestMaximum::test_object_nans
        test_umath.py::TestMaximum::test_precision
        test_umath.py::TestMaximum::test_reduce
        test_umath.py::TestMinimum::test_object_array
        test_umath.py::TestMinimum::test_object_nans
        test_umath.py::TestMinimum::test_precision
        test_umath.py::TestMinimum::test_reduce
        test_umath.py::TestPositive::test_valid
        test_umath.py::TestRemainder::test_float_divmod_corner_cases
        test_umath.py::TestRemainder::test_float_remainder_corner_cases
        test_umath.py::TestRemainder::test_float_remainder_errors[fmod-g]
        test_umath.py::TestRemainder::test_float_remainder_errors[remainder-g]
        test_umath.py::TestRemainder::test_float_remainder_exact
        test_umath.py::TestRemainder::test_float_remainder_roundoff
        test_umath.py::TestRemainder::test_remainder_basic
        test_umath.py::TestRoundingFunctions::test_fraction
        test_umath.py::TestRoundingFunctions::test_object_direct
        test_umath.py::TestRoundingFunctions::test_object_indirect
        test_umath.py::TestSign::test_sign_dtype_object
        test_umath.py::TestSpecialFloats::test_abs_values
        test_umath.py::TestSpecialFloats::test_exp_values
        test_umath.py::TestSpecialFloats::test_log_values
        test_umath.py::TestSpecialFloats::test_reciprocal_values
        test_umath.py::TestSpecialFloats::test_sincos_values[g]
        test_umath.py::TestSpecialFloats::test_sqrt_values[g]
        test_umath.py::TestSpecialFloats::test_square_values
        test_umath.py::test_nextafter_0
        test_umath.py::test_nextafterl
        test_umath.py::test_spacingl
    """,
    "names and documentation are this package's": """
        test_ufunc.py::TestUfunc::test_pickle_withstring
        test_umath.py::TestSpecialMethods::test_ufunc_docstring
    """,
    "functions warn of no underflow": """
        test_umath.py::TestSpecialFloats::test_exp2
        test_umath.py::TestSpecialFloats::test_exp_exceptions
    """,
    "a complex infinity has its powers, where NumPy's products are NaN": """
        test_umath_complex.py::TestCpow::test_simple
    """,
    "exp2 is not defined for complex numbers": """
        test_umath.py::TestComplexFunctions::test_it
    """,
}

OF_OPERATIONS = {
    "Python numbers have Python's results and errors": """
        test_umath.py::TestLog1p::test_special
        test_umath.py::TestLog2::test_log2_special
        test_umath.py::TestPositive::test_invalid
        test_umath.py::test_copysign
    """,
    "longdouble, as above": """
        test_ufunc.py::TestUfunc::test_at_negative_indexes[divide-g]
    """,
    "floats become integers without a warning": """
        test_ufunc.py::test_ufunc_input_floatingpoint_error
    """,
    "an operation is no ufunc but has one, which classes with rules of their own are given": """
        test_umath.py::TestSpecialMethods::test_ufunc_override
        test_umath.py::TestSpecialMethods::test_ufunc_override_methods
        test_umath.py::TestSpecialMethods::test_wrap
    """,
    "an operation has what is public of a ufunc": """
        test_ufunc.py::TestLowlevelAPIAccess::test__get_strided_loop_errors_bad_call_info
        test_ufunc.py::TestLowlevelAPIAccess::test__get_strided_loop_errors_bad_strides
        test_ufunc.py::TestLowlevelAPIAccess::test_loop_access
        test_umath.py::TestAdd_newdoc_ufunc::test_ufunc_arg
    """,
    "documentation and signature are this package's": """
        test_ufunc.py::TestUFuncInspectSignature::test_params_common_ufunc[add]
        test_ufunc.py::TestUFuncInspectSignature::test_params_common_ufunc[sin]
        test_umath.py::TestHypotErrorMessages::test_hypot_error_message_multiple_args
        test_umath.py::TestAttributes::test_doc
    """,
}

OF_UFUNCS = {
    "longdouble, as above": """
        test_ufunc.py::TestUfunc::test_at_negative_indexes[trunc_divide-g]
    """,
    "the operations answer comparisons with Python ints beyond a type, not their ufuncs": """
        test_ufunc.py::TestUfunc::test_cast_safety_scalar_special
        test_umath.py::TestRationalFunctions::test_huge_integers
        test_umath.py::TestComparisons::test_unsigned_signed_direct_comparison
    """,
}

# Many of NumPy's tests are repeated for each ufunc that they find, and an operation is none.
LEAST = {"operations": 2400, "ufuncs": 6000}
LISTED = {"operations": OF_BOTH | OF_OPERATIONS, "ufuncs": OF_BOTH | OF_UFUNCS}
for _lists in (OF_OPERATIONS, OF_UFUNCS):
    assert not set(_lists) & set(OF_BOTH)


def _folder() -> Path:
    """The folder of NumPy's tests; skips where there is none, or none that is known here."""
    if np.__version__ != TESTED:
        pytest.skip(f"the lists are those of NumPy {TESTED}, and this is {np.__version__}")
    folder = Path(np.__file__).parent / "_core" / "tests"
    if not all((folder / name).exists() for name in FILES):
        pytest.skip(f"NumPy is installed without its tests ({folder})")
    pytest.importorskip("hypothesis", reason="NumPy's tests need hypothesis")
    return folder


@pytest.mark.parametrize("what", LISTED)
def test_numpys_tests(what: str, tmp_path: Path) -> None:
    folder = _folder()
    passed, output = outcomes(
        [folder / name for name in FILES],
        *("-p", "numpys_tests", "-k", f"not {LEFT_OUT}"),
        cwd=tmp_path,
        NUMPYS_TESTS_OF=what,
    )
    assert len(passed) > LEAST[what], f"only {len(passed)} tests ran\n{output}"
    compare(passed, {test for tests in LISTED[what].values() for test in tests.split()}, output)
