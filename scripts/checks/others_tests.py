"""Runs the tests of other projects with this package in the place of theirs.

As a plugin of pytest it writes the outcome of each test to the file that TESTS_RESULT names.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from commands import ROOT, execute

#: Whether each test that was not skipped passed, by its name with parameters.
_outcomes: dict[str, bool] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    is_expected_to_fail = hasattr(report, "wasxfail")
    if report.failed or (report.when == "call" and report.passed and not is_expected_to_fail):
        test = report.nodeid.rpartition("tests/")[2].encode("ascii", "backslashreplace").decode()
        _outcomes[test] = report.passed and _outcomes.get(test, True)


def pytest_sessionfinish() -> None:
    Path(os.environ["TESTS_RESULT"]).write_text(json.dumps(_outcomes))


def outcomes(
    files: Iterable[Path], *options: str, cwd: Path, path: Path = ROOT, **variables: str
) -> tuple[dict[str, bool], str]:
    """Runs tests in the folder `cwd`; returns whether each passed, and what pytest says.

    `path` goes before the checks and this package on Python's path.
    """
    result = cwd / "outcomes.json"
    done = execute(
        *(sys.executable, "-m", "pytest", "-p", "others_tests", "-p", "no:cacheprovider"),
        *("-q", "-W", "ignore", "--tb=line", *options, *files),
        cwd=cwd,
        TESTS_RESULT=str(result),
        PYTHONPATH=os.pathsep.join(map(str, (path, ROOT / "scripts" / "checks", ROOT))),
        **variables,
    )
    output = done.stdout[-10000:]
    assert result.exists(), output
    passed: dict[str, bool] = json.loads(result.read_text())
    return passed, output


def compare(passed: dict[str, bool], listed: set[str], output: str) -> None:
    """Fails unless exactly the listed tests failed; a name without parameters lists all of them."""
    unlisted, needless = [], []
    for test, has_passed in passed.items():
        is_listed = test in listed or test.partition("[")[0] in listed
        if not has_passed and not is_listed:
            unlisted.append(test)
        elif has_passed and is_listed:
            needless.append(test)
    missing = listed - set(passed) - {test.partition("[")[0] for test in passed}
    assert not (unlisted or needless or missing), "\n".join(
        [
            f"{len(unlisted)} tests fail that are not listed:", *unlisted,
            f"{len(needless)} listed tests pass:", *needless,
            f"{len(missing)} listed tests did not run:", *sorted(missing),
            output,
        ]
    )  # fmt: skip
