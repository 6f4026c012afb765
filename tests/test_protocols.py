"""Other kinds of arrays come back as their own kind; overrides; pickles and copies."""

from __future__ import annotations

import copy
import functools
import pickle
from typing import Any

import cases
import generators
import numpy as np
import oracle
import pytest
from shared import library

import pkg as pcd

OPERATIONS = pytest.mark.parametrize("operation", cases.OF_FLOATS, ids=lambda op: op.__name__)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _within(operation: Any, data: np.ndarray) -> np.ndarray:
    """Moves positive numbers into the domain of a function."""
    if operation.__name__ in ("arcsin", "arccos", "arctanh"):
        return data / (2 + 2 * data)
    return 1 + data if operation.__name__ == "arccosh" else data


# ---- pandas ----


@OPERATIONS
def test_pandas_series(operation: Any, device: str) -> None:
    pd = library("pandas")
    data = [_within(operation, np.array(x)) for x in ([1.5, 2.0, 9.0], [2.0, 4.0, 5.0])]
    data = data[: operation.nin]
    args = [pd.Series(x, index=list("abc"), name="x") for x in data]
    result = operation(*args, device=device)
    assert type(result) is pd.Series and list(result.index) == list("abc")
    wanted = oracle.expected(operation.__name__, *data)
    oracle.assert_same(result.to_numpy(), wanted, name=operation.__name__)


def test_pandas_aligns_and_keeps_names(device: str) -> None:
    pd = library("pandas")
    a = pd.Series([1, 2, 3], index=list("abc"), name="x")
    b = pd.Series([10, 20, 30], index=list("cba"), name="x")
    result = pcd.add(a, b, device=device)
    assert result.name == "x" and result.to_dict() == {"a": 31, "b": 22, "c": 13}
    assert pcd.add(a, 1, device=device).tolist() == [2, 3, 4]
    assert pcd.subtract(10, a, device=device).tolist() == [9, 8, 7]


def test_pandas_divides_as_c_does(device: str) -> None:
    """pandas would replace a ufunc of the name divide by its own true division."""
    pd = library("pandas")
    result = pcd.divide(pd.Series([7, -7, 9]), pd.Series([2, 2, -4]), device=device)
    assert result.dtype == np.int64 and result.tolist() == [3, -3, -2]
    frame = pcd.divide(pd.DataFrame({"x": [7, -7]}), 2, device=device)
    assert frame["x"].tolist() == [3, -3]


def test_pandas_frames_and_indexes(device: str) -> None:
    pd = library("pandas")
    frame = pd.DataFrame({"x": [1.0, 4.0], "y": [9.0, 16.0]}, index=["r", "s"])
    result = pcd.sqrt(frame, device=device)
    assert type(result) is pd.DataFrame and list(result.columns) == ["x", "y"]
    assert result.to_numpy().tolist() == [[1, 3], [2, 4]]
    assert pcd.add(frame, frame, device=device).to_numpy().tolist() == [[2, 18], [8, 32]]
    index = pcd.multiply(pd.Index([1, 2, 3]), 2, device=device)
    assert isinstance(index, pd.Index) and index.tolist() == [2, 4, 6]
    assert pcd.add.reduce(frame).tolist() == [5.0, 25.0]


# ---- xarray ----


@OPERATIONS
def test_xarray(operation: Any, device: str) -> None:
    xr = library("xarray")
    data = _within(operation, np.arange(1.0, 7.0).reshape(2, 3))
    a = xr.DataArray(data, dims=("y", "x"), coords={"x": [10, 20, 30]})
    result = operation(*[a, a + 1][: operation.nin], device=device)
    assert type(result) is xr.DataArray and result.dims == ("y", "x")
    assert result.coords["x"].values.tolist() == [10, 20, 30]
    wanted = oracle.expected(operation.__name__, *[data, data + 1][: operation.nin])
    oracle.assert_same(result.values, wanted, name=operation.__name__)
    dataset = operation(*[xr.Dataset({"v": a})] * operation.nin, device=device)
    assert type(dataset) is xr.Dataset


def test_xarray_broadcasts_by_name(device: str) -> None:
    xr = library("xarray")
    a, b = xr.DataArray([1, 2], dims="x"), xr.DataArray([10, 20, 30], dims="y")
    result = pcd.add(a, b, device=device)
    assert result.dims == ("x", "y") and result.values.tolist() == [[11, 21, 31], [12, 22, 32]]


# ---- Dask ----


@OPERATIONS
def test_dask(operation: Any, device: str) -> None:
    da = library("dask.array")
    data = generators.moderate(np.dtype("f8"), 100).reshape(10, 10)
    data = _within(operation, np.abs(data))
    a = da.from_array(data, chunks=(4, 3))
    lazy = operation(*[a, a[::-1]][: operation.nin], device=device)
    wanted = oracle.expected(operation.__name__, *[data, data[::-1]][: operation.nin])
    assert isinstance(lazy, da.Array) and lazy.dtype == wanted.dtype
    for scheduler in ("synchronous", "threads"):
        result = lazy.compute(scheduler=scheduler)
        oracle.assert_same(result, wanted, name=operation.__name__)


def test_dask_needs_no_gpu_to_build_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask calls functions on tiny host arrays while it builds one."""
    da = library("dask.array")
    monkeypatch.setattr(pcd.core, "check_device", lambda ordinal: None)
    a = da.from_array(np.arange(10), chunks=4)
    lazy = pcd.multiply(a, 3, device="cuda")
    assert isinstance(lazy, da.Array) and lazy.shape == (10,) and lazy.dtype == np.int64


def test_dask_pickles_its_graph(device: str) -> None:
    da = library("dask.array")
    lazy = pcd.divide(da.from_array(np.array([7, -7, 9]), chunks=2), 2, device=device)
    again = pickle.loads(pickle.dumps(lazy))
    assert again.compute(scheduler="synchronous").tolist() == [3, -3, 4]


def test_dask_dataframe() -> None:
    pd = library("pandas")
    dd = library("dask.dataframe")
    frame = dd.from_pandas(pd.DataFrame({"x": [1.0, 4.0, 9.0]}), npartitions=2)
    assert pcd.sqrt(frame).compute(scheduler="synchronous")["x"].tolist() == [1, 2, 3]


# ---- NumPy's own kinds ----


def test_masked_arrays(device: str) -> None:
    a = np.ma.array([1, 2, 3], mask=[False, True, False])
    b = np.ma.array([10, 20, 30], mask=[False, False, True])
    result = pcd.add(a, b, device=device)
    assert isinstance(result, np.ma.MaskedArray)
    assert result.mask.tolist() == [False, True, True] and result[0] == 11
    assert pcd.negative(a, device=device).tolist() == [-1, None, -3]


def test_memmap(tmp_path: Any, device: str) -> None:
    mapped = np.memmap(tmp_path / "m", np.float32, "w+", shape=(1000,))
    mapped[:] = np.arange(1000)
    result = pcd.add(mapped, mapped, device=device)
    oracle.assert_same(np.asarray(result), np.add(np.asarray(mapped), np.asarray(mapped)))
    for dtype in ("f4", "f8"):
        out = np.memmap(tmp_path / "o", dtype, "w+", shape=(1000,))
        assert pcd.add(mapped, 1, out=out, dtype="f4", device=device) is out
        out.flush()
        assert np.fromfile(tmp_path / "o", dtype).tolist() == list(range(1, 1001))


class Unit(np.ndarray):
    """A subclass with an attribute that __array_finalize__ passes on."""

    unit: str

    def __array_finalize__(self, other: Any) -> None:
        self.unit = getattr(other, "unit", "none")


@pytest.mark.parametrize("n", [5, 100_000])
def test_subclasses(n: int, device: str) -> None:
    a = np.arange(float(n)).view(Unit)
    a.unit = "metre"
    for result in (
        pcd.add(a, a, device=device),
        pcd.add(a, 1, device=device),
        pcd.sqrt(a, device=device),
    ):
        assert type(result) is Unit and result.unit == "metre"
    assert type(pcd.add(np.arange(float(n)), a, device=device)) is Unit
    oracle.assert_same(np.asarray(pcd.add(a, a, device=device)), 2 * np.arange(float(n)))
    out = np.zeros(n).view(Unit)
    assert pcd.add(a, a, out=out, device=device) is out


class Wraps(np.ndarray):
    """A subclass that hears of the ufunc through __array_wrap__."""

    heard: Any = None

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        result = array.view(Wraps)
        result.heard = context
        return result


def test_array_wrap(device: str) -> None:
    a = np.arange(3.0).view(Wraps)
    result = pcd.multiply(a, 2, device=device)
    ufunc, args, index = result.heard
    assert isinstance(ufunc, np.ufunc) and ufunc.__name__.startswith("multiply")
    assert args[0] is a and index == 0


class Override:
    """Implements ufuncs itself."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return ufunc, method, inputs, kwargs


def test_array_ufunc(device: str) -> None:
    own, a = Override(), np.arange(3)
    for args in ((own, a), (a, own), (own, own), (own, 2)):
        ufunc, method, inputs, kwargs = pcd.divide(*args, device=device)
        assert method == "__call__" and all(x is y for x, y in zip(inputs, args, strict=True))
        assert ufunc.__name__.startswith("trunc_divide") and kwargs == {}
    ufunc, method, inputs, kwargs = pcd.add(a, a, out=own, device=device)
    assert kwargs == {"out": (own,)}
    ufunc, method, _, kwargs = pcd.add(own, a, where=a > 1, dtype="f4", device=device)
    assert kwargs.keys() == {"where", "dtype"}
    assert pcd.add.reduce(own)[1] == "reduce" and pcd.add.outer(own, a)[1] == "outer"


def test_array_ufunc_none(device: str) -> None:
    class No:
        __array_ufunc__ = None

    with pytest.raises(TypeError, match="does not support ufuncs"):
        pcd.add(No(), np.arange(3), device=device)


def test_an_override_that_declines(device: str) -> None:
    class Declines:
        def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
            return NotImplemented

    with pytest.raises(TypeError, match="returned NotImplemented"):
        pcd.add(Declines(), np.arange(3), device=device)


def test_numpys_functions_take_the_ufunc() -> None:
    """Ours is a ufunc for functions that expect one."""
    a = np.arange(6).reshape(2, 3)
    assert np.apply_along_axis(pcd.add.ufunc.reduce, 1, a).tolist() == [3, 12]
    vectors = [np.arange(3), np.arange(3) * 10]
    assert functools.reduce(pcd.add, vectors).tolist() == [0, 11, 22]
    assert list(map(pcd.add, [1, 2], [3, 4])) == [4, 6]


# ---- Pickles and copies ----


@OPERATIONS
def test_pickle_and_copy(operation: Any) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(operation, protocol)) is operation
        assert pickle.loads(pickle.dumps(operation.ufunc, protocol)) is operation.ufunc
    for again in (copy.copy(operation), copy.deepcopy(operation), copy.deepcopy([operation])[0]):
        assert again is operation
    assert copy.deepcopy(operation.ufunc) is operation.ufunc


def test_a_pickle_opens_in_another_process(python: Any) -> None:
    data = pickle.dumps([pcd.add, pcd.divide.ufunc, pcd.sqrt])
    code = """if True:
        import pickle, sys
        made = pickle.loads(bytes.fromhex(sys.argv[1]))
        print(made[0](1, 2), made[1](9, 2), made)
    """
    shown = python(code, data.hex())
    assert shown.startswith("3 4 [<operation pkg.add>, <ufunc 'trunc_divide'>")


def test_ufuncs_for_gpus_pickle() -> None:
    """They are made on demand, also by unpickling; making one touches no GPU."""
    ufunc = pcd.ufuncs.add_cuda1
    assert isinstance(ufunc, np.ufunc) and pcd.ufuncs.add_cuda1 is ufunc
    assert pickle.loads(pickle.dumps(ufunc)) is ufunc


@OPERATIONS
def test_names(operation: Any) -> None:
    name = operation.__name__
    assert operation.__module__ == "pkg" and operation.__qualname__ == name
    assert repr(operation) == f"<operation pkg.{name}>"
    assert getattr(pcd.ufuncs, operation.ufunc.__name__) is operation.ufunc
    own = {"divide": "trunc_divide", "power": "elementwise_power"}
    assert operation.ufunc.__name__ == own.get(name, name)
    assert callable(operation) and hash(operation) == hash(getattr(pcd, name))


def test_weak_references() -> None:
    import weakref

    assert weakref.ref(pcd.add)() is pcd.add


@cases.each_dtype([dtype for dtype in cases.DTYPES if dtype.char in "bhilBHILfd"])
def test_buffers_of_other_owners(dtype: np.dtype) -> None:
    """array.array and memoryview are array-like."""
    import array

    a = array.array(dtype.char, [1, 2, 3])
    result = pcd.add(a, memoryview(a))
    assert result.dtype == dtype and result.tolist() == [2, 4, 6]


@pytest.mark.parametrize("name", [op.__name__ for op in pcd.core.operations if op.compares])
def test_methods_of_comparisons(name: str) -> None:
    """reduce and accumulate use loops of bool."""
    numbers, flags = np.array([[0, 1, 1], [2, 0, 2]]), np.array([[True, False], [True, True]])
    ours, theirs = getattr(pcd, name), getattr(np, name)
    for call in (
        lambda f: f.accumulate(numbers, dtype=bool),
        lambda f: f.accumulate(flags, axis=1),
        lambda f: f.reduce(numbers, dtype=bool),
        lambda f: f.reduce(flags, axis=1),
        lambda f: f.reduceat(flags[0], [0, 1]),
        lambda f: f.outer(flags, flags),
        lambda f: f(flags, flags[::-1], where=flags, out=np.zeros((2, 2), bool)),
        lambda f: f.resolve_dtypes((np.dtype(bool), np.dtype(bool), None)),
    ):
        try:
            wanted = call(theirs)
        except TypeError:
            with pytest.raises(TypeError):
                call(ours)
            continue
        np.testing.assert_array_equal(call(ours), wanted, strict=True)
