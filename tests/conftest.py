"""What the tests share: the marker gpu, the profiles of hypothesis, quiet arithmetic."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import pkg as pcd

# `ci` finds the same examples each time; HYPOTHESIS_PROFILE=thorough looks for new ones, at length.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}
settings.register_profile("ci", max_examples=25, derandomize=True, database=None, **_COMMON)
settings.register_profile("thorough", max_examples=2000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


# A shell lets what it starts in the background ignore Ctrl-C; processes started here must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _gpus() -> list[str]:
    return [pcd.core.device_info(n)["name"] for n in range(pcd.core.device_count()[0])]


def pytest_report_header() -> str:
    return f"GPUs: {', '.join(_gpus()) or f'none ({pcd.core.device_count()[1]})'}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if pcd.core.device_count()[0] == 0 and os.environ.get("MYLIB_REQUIRE_GPU") != "1":
        _deselect_gpu_tests(config, items)
    if hasattr(config, "workerinput"):  # a process of pytest-xdist
        items.sort(key=lambda item: _rank(item.nodeid))


def _deselect_gpu_tests(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a GPU leaves one test for a GPU in each file, which is skipped and says why.

    To skip twenty thousand takes half a minute.
    """
    kept, left = [], []
    files = set()
    for item in items:
        needs_gpu = item.get_closest_marker("gpu") is not None
        (left if needs_gpu and item.path in files else kept).append(item)
        if needs_gpu:
            files.add(item.path)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def _rank(nodeid: str) -> int:
    """What takes longest comes first, so that processes side by side end together."""
    return 0 if nodeid.startswith("tests/packaging/") else 2 if nodeid.startswith("tests/") else 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Replaces `--dist loadscope` of pytest-xdist, which runs a scope in one process.

    The tests of a file share what they prepare, and those of packaging/ their wheels; each of the
    checks in scripts/ stands for itself.
    """
    if config.getoption("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            scopes = "tests/packaging", nodeid, nodeid.partition("::")[0]
            return scopes[_rank(nodeid)]

    return Scheduling(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("no_emulated_gpu") and "emulated GPU" in _gpus():
        pytest.skip("the GPUs are emulated")
    if item.get_closest_marker("gpu") is None:
        return
    count, reason = pcd.core.device_count()
    if count == 0:
        if os.environ.get("MYLIB_REQUIRE_GPU") == "1":
            pytest.fail(f"MYLIB_REQUIRE_GPU=1, and {reason}", pytrace=False)
        pytest.skip(reason)


@pytest.fixture
def quiet() -> Iterator[None]:
    """For values that overflow and the like, where the warnings are not the subject."""
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(scope="session")
def python() -> Callable[..., str]:
    """python(code, *args, **variables): what a fresh interpreter prints; it must succeed."""

    def run(code: str, *args: str, timeout: float = 120, **variables: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code, *args],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run
