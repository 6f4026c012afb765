"""A fused function is the function: the same bits, in one pass; what cannot be fused says so."""

from __future__ import annotations

import functools
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import cases
import generators
import numpy as np
import oracle
import pytest

import pkg as pcd
from pkg import Expression, fuse


@fuse
def ndvi(nir: Any, red: Any, scale: float = 1, *, offset: Any = 0) -> Any:
    """The vegetation index."""
    return (nir - red) / (nir + red) * scale + offset


# NumPy's functions, ours, operators: what a function may use.
FUNCTIONS: list[Callable[..., Any]] = [
    lambda a, b: a + b - a * b / (b + 3),
    lambda a, b: 1 + a - 2 * b + (3 - a) * (1 / b),
    lambda a, b: a // b + a % b + 7 // b + 7 % b,
    lambda a, b: -abs(a) + +b,
    lambda a, b: a**2 + b**3 - a**0 + b**-1,
    lambda a, b: np.sqrt(np.absolute(a)) + np.square(b) + np.abs(a),
    lambda a, b: pcd.sqrt(pcd.absolute(a)) + pcd.square(b) + pcd.abs(a),
    lambda a, b: np.minimum(a, b) + np.maximum(a, 1) + pcd.minimum(2, b) + pcd.maximum(a, b),
    lambda a, b: np.add(a, b) + np.subtract(1, a) * np.multiply(b, 2) + np.negative(a),
    lambda a, b: np.divide(a, b) + np.true_divide(b, 2) + np.floor_divide(a, b) + np.positive(a),
    lambda a, b: np.remainder(a, b) + np.mod(b, 3) + np.power(a, 2),
    lambda a, b: np.where(a > b, a, b) + pcd.where(a <= 2, 1, b) + np.where(np.less(a, b), a, 0),
    lambda a, b: (a == b) * 1 + (a != b) * 2 + (a < 1) * a + (1 >= b) * b,
    lambda a, b: np.equal(a, b) + np.greater(a, 1.5) * np.float32(2) + pcd.less_equal(a, b) * 3,
    lambda a, b: divmod(a, b)[0] - divmod(a, 2)[1] * divmod(7, b)[1],
    lambda a, b: a * np.float32(0.1) + b * np.int8(3) + np.array(2.5) * a,
    lambda a, b: sum_of_powers(a, 4) + sum_of_powers(b, 3),
]


def sum_of_powers(x: Any, n: int) -> Any:
    """Loops and helper functions are unrolled by the trace."""
    total = 0
    for k in range(1, n):
        total = total + x * k
    return total


@cases.each_place()
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
@pytest.mark.parametrize("k", range(len(FUNCTIONS)))
def test_functions(k: int, dtype: str, place: str) -> None:
    """Each fused function gives the result of the plain function of NumPy arrays."""
    function = FUNCTIONS[k]
    if dtype == "i4" and k == 4:
        pytest.skip("integers have no negative powers")
    a, b = (generators.moderate(np.dtype(dtype), 500, seed) for seed in (1, 2))
    fused = fuse(function)
    with np.errstate(all="ignore"):
        wanted = function(a, b)
        if place == "array":
            actual = cases.on_arrays(fused, a, b)
        else:
            actual = fused(a, b, device=None if place == "cpu" else place)
    if k == 4:  # the third power is a product here
        np.testing.assert_allclose(actual, wanted, rtol=1e-5)
    else:
        oracle.assert_same(actual, wanted)


@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "mean", "any", "all"])
def test_reductions(name: str) -> None:
    """Reduces by the package's functions, NumPy's and methods, as the outermost call only."""
    a, b = np.arange(1.0, 7.0).reshape(2, 3), np.full((2, 3), 0.5)
    wanted = getattr(pcd, name)(a * b, axis=1)
    for reduce in (
        lambda x: getattr(pcd, name)(x, axis=1),
        lambda x: getattr(np, name)(x, axis=1),
        lambda x: getattr(x, name)(axis=-1),
    ):
        fused = fuse(_reducing(reduce))
        for _ in range(2):  # by Python, then by `core`
            oracle.assert_same(fused(a, b), wanted)
    everything = fuse(lambda a, b: getattr(pcd, name)(a * b))
    oracle.assert_same(everything(a, b), getattr(pcd, name)(a * b))
    kept = fuse(lambda a, b: getattr(np, name)(a * b, axis=(0, 1), keepdims=True))
    assert kept(a, b).shape == kept(a, b).shape == (1, 1)
    with pytest.raises(TypeError, match=rf"{name}\(\) can only be the result"):
        fuse(lambda a: getattr(pcd, name)(a) + 1)
    with pytest.raises(TypeError, match="takes no dtype"):
        fuse(lambda a: pcd.sum(a, dtype="f4"))


def _reducing(reduce: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: reduce(a * b)


def test_reductions_of_ufuncs() -> None:
    a = np.arange(6.0).reshape(2, 3)
    oracle.assert_same(fuse(lambda a: np.add.reduce(a * 2))(a), np.add.reduce(a * 2))
    oracle.assert_same(fuse(lambda a: np.maximum.reduce(a, axis=1))(a), a.max(1))
    with pytest.raises(TypeError, match=r"subtract\.reduce cannot be fused"):
        fuse(lambda a: np.subtract.reduce(a))


SHIFTED = fuse(lambda y, k=2: y * y + k)
WEIGHTED = Expression("sum(x * w, axis=0)")
X = np.arange(-3.0, 3.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: SHIFTED(x) * 2, (X * X + 2) * 2),
        (lambda x: SHIFTED(SHIFTED(x), k=x), (X * X + 2) ** 2 + X),
        (lambda x: Expression("a - b * 3")(x, b=2), X - 6),
        (lambda x: pcd.evaluate("x * 2 + 1") - x, X + 1),
        (lambda x: WEIGHTED(x, x + 1), (X * (X + 1)).sum(0)),
    ],
)
def test_fused_functions_in_fused_functions(function: Any, wanted: Any) -> None:
    """They were taken for operations on foreign arrays, and the error advised plain arrays."""
    oracle.assert_same(fuse(function)(X), wanted)


def test_options_of_inner_functions() -> None:
    """An inner function has no result of its own to write, and a reduction is no operand."""
    for function, message in [
        (lambda x: SHIFTED(x, out=np.ones(3)), r"takes no out in a fused function"),
        (lambda x: pcd.evaluate("x + 1", order="F"), "takes no order in a fused function"),
        (lambda x: SHIFTED(x, np.ones(3)), "arrays have to be arguments"),
        (lambda x: WEIGHTED(x, x) + 1, r"sum\(\) can only be the result"),
    ]:
        with pytest.raises(TypeError, match=message):
            fuse(function)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sum(a=x, axis=0),
        lambda x: np.sum(x, np.int64(1)),
        lambda x: np.max(x, 0, None, True),
        lambda x: np.mean(x, axis=(0, 1), keepdims=1),
        lambda x: np.count_nonzero(x, keepdims=True),
        lambda x: np.real(x) + np.imag(x),
        lambda x: np.round(x, 0) - np.round(x, decimals=0),
        lambda x: np.clip(x, 0, None),
        lambda x: np.clip(x, None, a_max=1) + np.clip(a=x, a_min=-1, a_max=1),
        lambda x: np.clip(1, x, 2),
    ],
)
def test_arguments_of_numpys_functions(function: Any) -> None:
    """They were counted, not bound: `np.max(x, 0, None, True)` lost its `keepdims`."""
    oracle.assert_same(fuse(function)(X), function(X))


@pytest.mark.parametrize("place", ["fused", pytest.param("array", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    "args, limits", [((0, 2), {"min": 1}), ((0, 2), {"max": 1}), ((0,), {}), ((0,), {"max": 1})]
)
def test_limits_of_clip_twice_or_halfway(place: str, args: Any, limits: Any) -> None:
    """`np.clip(x, 0, 2, min=1)` ignored `min`, and `np.clip(x, 0)` had no upper limit."""
    error = ValueError if len(args) == 2 else TypeError
    if "min" not in inspect.signature(np.clip).parameters:
        pytest.skip("NumPy before 2.1")
    with pytest.raises(error, match="a_max"):
        if place == "fused":
            fuse(lambda x: np.clip(x, *args, **limits))(X)
        else:
            np.clip(pcd.asarray(X, device="cuda"), *args, **limits)


@pytest.mark.parametrize("limits", [{"min": 0}, {"max": 1}, {"min": 0, "max": 1}])
def test_limits_by_name(limits: Any) -> None:
    """Limits by name, in the package's function and, since 2.1, in NumPy's."""
    oracle.assert_same(fuse(lambda x: pcd.clip(x, **limits))(X), pcd.clip(X, **limits))
    if "min" in inspect.signature(np.clip).parameters:
        oracle.assert_same(fuse(lambda x: np.clip(x, **limits))(X), np.clip(X, **limits))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(axis=0.7),
        lambda x: x.sum(axis="0"),
        lambda x: x.sum(axis=True),
        lambda x: x.sum(keepdims="no"),
        lambda x: np.any(x, keepdims=None),
        lambda x: np.round(x, 0.0),
    ],
)
def test_wrong_arguments(function: Any) -> None:
    """What NumPy refuses was taken for something else: 0.7 for axis 0, "no" for True."""
    for call in (lambda: function(X), lambda: fuse(function)):
        with pytest.raises(TypeError, match="int"):
            call()


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: np.sum(x, initial=2), "initial"),
        (lambda x: np.round(x, 2), "decimals"),
        (lambda x: np.ones_like(x, dtype="f4"), "dtype"),
        (lambda x: x.max(out=X), "out"),
    ],
)
def test_arguments_that_no_expression_has(function: Any, name: str) -> None:
    with pytest.raises(TypeError, match=rf"\(\) takes no {name} in a fused function"):
        fuse(function)


@pytest.mark.parametrize("add", [np.add, pcd.add, pcd.add.ufunc])
def test_defaults_of_ufuncs(add: Any) -> None:
    """Keywords with their default values change nothing, in fused functions either."""
    defaults = {"where": True, "dtype": None, "casting": "same_kind", "order": "K", "subok": True}
    assert fuse(lambda x: add(x, 1, out=None, **defaults)).expression.text == "x + 1"


def test_arguments() -> None:
    """Calls take the arguments as the function does; defaults count."""
    a, b = np.array([3.0, 1.0]), np.array([1.0, 1.0])
    wanted = (a - b) / (a + b)
    oracle.assert_same(ndvi(a, b), wanted * 1 + 0)
    oracle.assert_same(ndvi(a, red=b, scale=2), wanted * 2 + 0)
    oracle.assert_same(ndvi(red=b, nir=a, offset=0.5), wanted * 1 + 0.5)
    out = np.empty(2)
    assert ndvi(a, b, out=out) is out
    oracle.assert_same(out, wanted * 1 + 0)
    assert str(inspect.signature(ndvi)).startswith("(nir: 'Any', red: 'Any', scale: 'float' = 1")
    for args, kwargs in [((a,), {}), ((a, b, 1, 2), {}), ((a, b), {"wrong": 1})]:
        with pytest.raises(TypeError):
            ndvi(*args, **kwargs)


def test_names() -> None:
    """A fused function keeps its name and docstring, and pickles by name."""
    assert ndvi.__name__ == "ndvi" and ndvi.__doc__ == "The vegetation index."
    assert pickle.loads(pickle.dumps(ndvi)) is ndvi
    expression = ndvi.expression  # type: ignore[attr-defined]
    assert isinstance(expression, Expression)
    assert expression.inputs == ("nir", "red", "scale", "offset")
    assert expression.text == "(((nir - red) / (nir + red)) * scale) + offset"
    again = pickle.loads(pickle.dumps(expression))
    assert again == expression and again == Expression(expression.text)
    assert again(3.0, 1.0, 2, 0) == 1


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "number",
    [
        *(INF, -INF, NAN, complex(INF, NAN), complex(1, -INF), complex(-0.0, 1), complex(1, -0.0)),
        *(-2j, complex(-1, 2), np.float32(INF), np.float64(-INF), np.complex64(complex(0, INF))),
    ],
)
def test_texts_of_numbers(number: Any) -> None:
    """The text of a fused function is an expression, also where a number of it has no literal."""
    expression = fuse(lambda x: x * number).expression  # type: ignore[attr-defined]
    again = Expression(expression.text)
    if isinstance(number, np.generic):
        expression = fuse(lambda x: x * number.item()).expression  # type: ignore[attr-defined]
    assert again == expression, expression.text


def test_inputs_that_are_not_used() -> None:
    """They are arguments, but not part of the expression."""
    fused = fuse(lambda a, b, c: c * 2 + a)
    assert fused.expression.inputs == ("a", "c")  # type: ignore[attr-defined]
    assert fused(1, object(), 3) == 7


def test_exponents_are_arguments() -> None:
    """A number that comes with the call may be an exponent."""
    fused = fuse(lambda x, n: x**n)
    a = np.array([2.0, 3.0])
    for n in (2, 1, 0.5, -1):
        oracle.assert_same(fused(a, n), a**n)


def test_it_is_traced_once() -> None:
    """A function is traced where it is defined; no call runs it again."""
    calls = []

    @fuse
    def function(a: Any) -> Any:
        calls.append(1)
        return a + 1

    for dtype in ("f8", "i4"):
        function(np.ones(3, dtype))
    assert len(calls) == 1


def test_common_parts() -> None:
    """A value used twice is computed once, however deep: 2**40 terms here."""

    def doubled(a: Any) -> Any:
        for _ in range(40):
            a = a + a
        return a

    fused = fuse(doubled)
    oracle.assert_same(fused(np.ones(3)), np.full(3, 2.0**40))
    assert len(fused.expression.text) < 5000  # type: ignore[attr-defined]


REFUSED: list[Any] = [
    (lambda a: a if a > 0 else -a, r"condition cannot be tested.*use where\(condition"),
    (lambda a: max(a, 1), "condition cannot be tested"),
    (lambda a: 0 < a < 1, "condition cannot be tested"),
    (lambda a: a and 1, "condition cannot be tested"),
    (lambda a: sum(a), r"nothing to iterate over.*pkg\.sum"),
    (lambda a: len(a), r"len\(\) is not known"),
    (lambda a: a[0], "indexing is not possible"),
    (lambda a: a.__setitem__(0, 1), "assignment to elements is not possible"),
    (lambda a: float(a), "there is no number"),
    (lambda a: int(a), "there is no number"),
    (lambda a: range(a), "there is no number"),
    (lambda a: round(a), r"round\(\) is not possible.*use pkg\.round"),
    (lambda a: np.add.accumulate(a), r"add\.accumulate cannot be fused"),
    (lambda a: np.asarray(a), "function of arrays is not possible"),
    (lambda a: pcd.trace(a), "trace cannot be fused"),
    (lambda a: a @ a, "operator @ is not possible"),
    (lambda a: np.float_power(a, 2), "float_power cannot be fused"),
    (lambda a: np.concatenate([a, a]), "concatenate cannot be fused"),
    (lambda a: np.add(a, 1, dtype="f4"), r"add\(\) takes no dtype"),
    (lambda a: a * np.ones(3), "arrays have to be arguments"),
    (lambda a: np.ones(3) * a, "arrays have to be arguments"),
    (lambda a: a + "text", "an operand is a str"),
    (lambda a: a + None, "an operand is a NoneType"),
    (lambda a: (a, a), "returned a tuple"),
    (lambda a: 1, "returned a int"),
    (lambda a: None, "returned a NoneType"),
    (functools.partial(lambda a, b: 1, b=1), r"partial\(\) returned a int"),
    pytest.param(
        lambda a: pcd.add(a, 1, device="cuda"),
        r"add\(\) takes no device in a fused function",
        marks=pytest.mark.gpu,
    ),
    pytest.param(
        lambda a: pcd.sum(a, device="cuda"),
        "name the device where you call the fused function",
        marks=pytest.mark.gpu,
    ),
    (np.add, "must be a Python function with a signature, not a ufunc"),
    (pcd.add, "must be a Python function with a signature, not a Operation"),
    (lambda *a: a[0], "named arguments only"),
    (lambda **a: a["b"], "named arguments only"),
]


@pytest.mark.parametrize(("function", "message"), REFUSED)
def test_refused(function: Callable[..., Any], message: str) -> None:
    """A function that depends on values is refused where it is defined; the error says why."""
    with pytest.raises(TypeError, match=message):
        fuse(function)


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda", "cuda:all"])
def test_functions_are_traced_alike_under_any_default_device(device: str) -> None:
    """The operations of a GPU took the stand-ins for foreign arrays."""

    def function(a: Any, b: Any) -> Any:
        return pcd.sum(pcd.clip(pcd.add(a, b), 1, 9) * pcd.exp(pcd.real(a)) + pcd.round(b))

    wanted = fuse(function)
    with pcd.default_device(device):
        found = fuse(function)
    assert found.expression == wanted.expression  # type: ignore[attr-defined]
    oracle.assert_same(found(X, X + 1), wanted(X, X + 1))


def test_attributes_that_are_not_known() -> None:
    for function in (lambda a: a.shape, lambda a: a.T + 1):
        with pytest.raises(AttributeError, match="is not known while a function is fused"):
            fuse(function)


def test_values_of_two_functions() -> None:
    """A value that escaped from one trace is no operand of another."""
    kept = []
    fuse(lambda a: kept.append(a) or a + 1)
    with pytest.raises(TypeError, match="another function"):
        fuse(lambda a: a + kept[0])
    with pytest.raises(TypeError, match="returned a Traced"):
        fuse(lambda a: kept[0])


@pytest.mark.gpu
def test_captured_arrays_on_a_gpu() -> None:
    x = pcd.ones((3,), device="cuda")
    for function in (lambda a: a * x, lambda a: x * a, lambda a: pcd.add(x, a)):
        with pytest.raises(TypeError, match="arguments of a fused function|not defined"):
            fuse(function)


def test_three_arguments_of_pow() -> None:
    for function in (lambda x: pow(x, 2, 3), lambda x: pow(2, x, 3), lambda x: pow(2, 3, x)):
        with pytest.raises(TypeError, match=r"pow\(\)"):
            pcd.fuse(function)
