"""The runner of the benchmarks: it covers the table, and times nothing that is wrong."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pkg as pcd

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import __main__ as runner  # noqa: E402
from benchmarks import cases, contenders, expressions, measuring, operands, report  # noqa: E402

ENVIRONMENT = cases.Environment({}, {}, None, 1, {cases.CEILING: "not built for this test"})


@functools.cache
def all_cases() -> list[cases.Case]:
    return cases.list_cases({"cpu", "cuda"}, cases.Sizes.quick(), threads=2)


def rows_of_the_table() -> dict[str, str]:
    """The operations of ops.h and the sets of their types."""
    table = (ROOT / "libcalc" / "src" / "ops.h").read_text()
    rows = re.findall(
        r"ROW\(\s*(?:UNARY|BINARY|UNARY_REAL|COMPARE|REVERSED|TEST|LOGIC),\s*(\w+),\s*(\w+)\)",
        table,
    )
    return dict(rows)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_row_of_the_table_has_a_case(device: str) -> None:
    covered = {
        (case.op, case.type)
        for case in all_cases()
        if isinstance(case, cases.ArrayCase)
        and case.group == "operations"
        and case.device == device
    }
    table = rows_of_the_table()
    assert len(table) >= 12
    assert {op for op, _ in covered} == set(table)
    for op, types in table.items():
        has = {type_ for of, type_ in covered if of == op}
        kinds = {"ALL": "iufc", "REAL": "iuf", "INEXACT": "fc", "INT": "iu", "FLOAT": "f"}[types]
        assert has == {name for name in report.TYPES if name[0] in kinds}


@pytest.mark.parametrize("op", pcd.operations)
def test_every_operation_has_an_oracle_and_a_case_of_every_layout(op: str) -> None:
    assert callable(operands.oracle(op))
    layouts = {c.layout for c in all_cases() if isinstance(c, cases.ArrayCase) and c.op == op}
    missing = set(operands.LAYOUTS) - layouts
    expected = set() if getattr(pcd, op).nin == 2 else set(operands.TWO_OPERANDS)
    assert missing == expected | (set() if op in cases.REPEATABLE else {"in place"})


def test_quick_run(tmp_path: Path) -> None:
    results = tmp_path / "results" / "quick.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--device", "cpu", "--peers", "numpy"]
        + ["--json", str(results), "--only", "^(numbers|operations|bandwidth|installation|sizes):"],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    data = json.loads(results.read_text())
    assert data["machine"]["version"] == pcd.__version__
    assert data["peers"] == {"NumPy": np.__version__}
    rows = data["rows"]
    measured = {(r["op"], r["type"]) for r in rows if r["group"] == "operations"}
    assert {op for op, _ in measured} == set(pcd.operations)
    for row in rows:
        assert not row["error"], row
        assert row["values"] or row["times"]["pkg"]["median"] > 0
    add = next(row for row in rows if row["name"] == "add(1, 2)")
    times = add["times"]
    assert add["ratios"]["NumPy"] == times["NumPy"]["median"] / times["pkg"]["median"]
    assert "add(1, 2)" in done.stdout
    end = done.stdout.partition(" cases in ")[2].splitlines()
    assert 2 <= len(end) <= 10 and any(line.startswith("numbers:") for line in end)


@pytest.mark.parametrize("layout", [name for name in operands.LAYOUTS if name != "contiguous"])
def test_layouts_give_numpys_results(layout: str) -> None:
    chosen = cases.select(all_cases(), f"^layouts: \\w+ (i32|f64|c64) {layout} n=")
    assert chosen
    for case in chosen:
        row = runner.run_case(case, ENVIRONMENT, repeats=1, quick=True)
        assert not row.error, (case.name, row.error)


def expression_cases(device: str) -> list[cases.Case]:
    chosen = expressions.list_cases({device}, cases.Sizes.quick())
    assert {case.device for case in chosen} == {device}
    return chosen


@pytest.mark.gpu
def test_all_gpus_are_compared_with_one() -> None:
    """With one GPU the case says why nothing is compared."""
    (case,) = cases.select(all_cases(), "^transfer: .* cuda:all$")
    row = runner.run_case(case, ENVIRONMENT, repeats=1, quick=True)
    assert not row.error and cases.OURS in row.times
    assert (cases.ONE_GPU in row.times) == (pcd.device_count() > 1)
    assert (cases.ONE_GPU in row.lacking) == (pcd.device_count() == 1)


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)], ids=["cpu", "cuda"]
)
def test_expressions_give_numpys_results(device: str) -> None:
    """Every expression case runs, and is compared with NumPy before it is timed."""
    numpy, absent = contenders.load((contenders.NumPy,), None)
    assert not absent
    environment = cases.Environment(numpy, numpy, None, 1)
    for case in expression_cases(device):
        row = runner.run_case(case, environment, repeats=1, quick=True)
        assert not row.error, (case.name, row.error)
        assert set(row.lacking) <= {cases.CEILING, expressions.BUS}
        if isinstance(case, expressions.DifferenceCase):
            assert row.values[cases.OURS] == 0
        elif isinstance(case, expressions.FirstCallCase):
            assert abs(row.values[cases.OURS]) < 60
        else:
            assert row.times[cases.OURS].median > 0
            assert device == "cuda" or "NumPy" in row.times


def test_expressions_cover_the_lengths_of_chains() -> None:
    """Each has as many operations as it says, so that the plot's axis is true."""
    for operations in expressions.CHAINS:
        text = expressions.chain(operations).text
        assert sum(text.count(sign) for sign in "*+") == operations
    for device in ("cpu", "cuda"):
        counted = {
            case.facts()["operations"]
            for case in expression_cases(device)
            if case.group == "chains"
        }
        assert counted == set(expressions.CHAINS)


def test_an_expression_with_a_wrong_result_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(c for c in expression_cases("cpu") if isinstance(c, expressions.ExpressionCase))
    assert runner.run_case(case, ENVIRONMENT, quick=True).times["pkg"].median > 0

    class OffByABit(pcd.Expression):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            result = super().__call__(*args, **kwargs)
            result[-1] = np.nextafter(result[-1], np.inf)
            return result

    monkeypatch.setattr(pcd, "Expression", OffByABit)
    row = runner.run_case(case, ENVIRONMENT, quick=True)
    assert row.times == {} and row.error.startswith("WrongResult: 1 of ")
    (difference,) = (
        c
        for c in expression_cases("cpu")
        if isinstance(c, expressions.DifferenceCase) and c.program is expressions.F4
    )
    row = runner.run_case(difference, ENVIRONMENT, quick=True)
    assert 0 < row.values["pkg"] < 100 and row.missed()


# ---- Wrong results ----


def case_of(op: str, variant: str) -> cases.Case:
    pattern = f"^operations: {op} f64 contiguous n=\\d+ {variant}$"
    (case,) = cases.select(cases.list_cases({"cpu"}, cases.Sizes.quick(), 1), pattern)
    return case


def off_by_a_bit(*args: Any, out: Any = None) -> Any:
    result = pcd.add.ufunc(*args, out=out)
    result[-1] = np.nextafter(result[-1], np.inf)
    return result


def idle(*args: Any, out: Any = None) -> Any:
    return np.zeros_like(args[0]) if out is None else out


def of_another_type(*args: Any, out: Any = None) -> Any:
    return pcd.add.ufunc(*args).astype(np.float32)


def crashing(*args: Any, out: Any = None) -> Any:
    raise MemoryError("no memory")


@pytest.mark.parametrize("variant", ["new", "out"])
@pytest.mark.parametrize("wrong", [off_by_a_bit, idle, of_another_type, crashing])
def test_a_wrong_result_is_not_timed(
    wrong: Any, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of("add", variant)
    assert runner.run_case(case, ENVIRONMENT, quick=True).times["pkg"].median > 0

    real = contenders.ours

    def ours(operation: Any, *args: Any) -> contenders.Statement:
        statement = real(operation, *args)
        return contenders.Statement(statement.text, **{**statement.names, "f": wrong})

    monkeypatch.setattr(contenders, "ours", ours)
    row = runner.run_case(case, ENVIRONMENT, quick=True)
    assert row.times == {}
    assert row.error.startswith("MemoryError" if wrong is crashing else "WrongResult")


def test_a_wrong_result_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(operands.ORACLES, "add", lambda a, b: np.add(a, b) + 1)
    arguments = ["--quick", "--device", "cpu", "--peers", "numpy", "--only", "^operations: .* f64 "]
    assert runner.main(arguments) == 1
    shown = capsys.readouterr().out
    assert "FAILED: 2" in shown
    assert re.search(r"^subtract .*\d\.\d\d", shown, re.M), "the other cases still run"


def test_check_knows_bits() -> None:
    want = np.array([0.0, np.nan, 1.0])
    operands.check("add", np.array([0.0, -np.nan, 1.0]), want, False)
    for wrong in ([-0.0, np.nan, 1.0], [0.0, np.nan, np.nextafter(1.0, 2)], [0.0, 1.0, 1.0]):
        with pytest.raises(operands.WrongResult):
            operands.check("add", np.array(wrong), want, False)
    z = np.array([1 + 2j])
    operands.check("multiply", z * (1 + 1e-15), z, True)
    for op, wrong_z in (
        ("multiply", z * (1 + 1e-13)),
        ("add", z * (1 + 1e-15)),
        ("sqrt", z * np.nan),
    ):
        with pytest.raises(operands.WrongResult):
            operands.check(op, wrong_z, z, True)


# ---- Measuring ----


class Scripted:
    """A timer whose calls take given seconds each, the last one for ever."""

    def __init__(self, *seconds: float) -> None:
        self.seconds = list(seconds)

    def timeit(self, number: int) -> float:
        each = self.seconds[0] if len(self.seconds) == 1 else self.seconds.pop(0)
        return number * each


def test_measure_takes_the_median() -> None:
    # One call to warm up; then samples of one call each, as they are long.
    times = measuring.measure({"a": Scripted(7.0, 5.0, 1.0, 9.0, 2.0, 3.0)}, 5)["a"]
    assert (times.median, times.best, times.low, times.high) == (3.0, 1.0, 2.0, 5.0)
    assert (times.samples, times.number, times.spread) == (5, 1, 0.5)


def test_measure_repeats_short_calls() -> None:
    times = measuring.measure({"a": Scripted(1e-6)}, 3, sample_seconds=1e-3)["a"]
    assert times.number == pytest.approx(1000, abs=1)
    assert times.median == pytest.approx(1e-6)


@pytest.mark.parametrize("arguments", [["--size", "0"], ["--size", "x"], ["--repeats", "0"]])
def test_bad_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        runner.main(arguments)
    assert stopped.value.code == 2
    assert "expected" in capsys.readouterr().err


def test_sizes_may_be_powers() -> None:
    assert (runner.size("1000"), runner.size("2^20")) == (1000, 2**20)
