"""Chooses which tests run, and sets up what they share: hypothesis, quiet arithmetic."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cases
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import pkg as pcd

# `ci` finds the same examples each time; HYPOTHESIS_PROFILE=thorough looks for new ones, at length.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}
settings.register_profile("ci", max_examples=25, derandomize=True, database=None, **_COMMON)
settings.register_profile("thorough", max_examples=2000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


# Background processes of a shell ignore Ctrl-C; processes started here must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Processes started here, in any folder, import the same package.
_FOLDERS = [str(Path(pcd.__file__).parents[1]), os.environ.get("PYTHONPATH")]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _FOLDERS))


def _gpus() -> list[str]:
    return [pcd.core.device_info(n)["name"] for n in range(pcd.core.device_count()[0])]


# ---- Which tests run ----

_SEED = pytest.StashKey[int]()
_LEFT_OUT = pytest.StashKey[dict[str, int]]()


def pytest_configure(config: pytest.Config) -> None:
    given = os.environ.get("MYLIB_TEST_SEED")
    # The processes of pytest-xdist take the seed of the one that starts them.
    inherited = getattr(config, "workerinput", {}).get("mylib_seed")
    config.stash[_SEED] = inherited or (int(given) if given else random.randrange(1, 10**9))
    config.stash[_LEFT_OUT] = {}


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["mylib_seed"] = node.config.stash[_SEED]


def pytest_report_header() -> str:
    return f"GPUs: {', '.join(_gpus()) or f'none ({pcd.core.device_count()[1]})'}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    count, reason = pcd.core.device_count()
    if count == 0 and os.environ.get("MYLIB_REQUIRE_GPU") != "1":
        are_for_gpus = {item for item in items if item.get_closest_marker("gpu")}
        why = textwrap.shorten(f"tests for GPUs: {reason}", 120, placeholder=" ...")
        _leave_out(config, items, are_for_gpus, why)
    if "exhaustive" not in config.option.markexpr:
        are_long = {item for item in items if item.get_closest_marker("exhaustive")}
        _leave_out(config, items, are_long, "tests of every argument: make test-exhaustive")
    if _is_sampled(config):
        seed = config.stash[_SEED]
        why = f"cases by sampling (MYLIB_TEST_SEED={seed} repeats it, MYLIB_TEST_ALL=1 runs all)"
        _leave_out(config, items, _not_in_sample(items, seed), why)
    if hasattr(config, "workerinput"):  # a process of pytest-xdist
        items.sort(key=lambda item: _rank(item.nodeid))
        config.workeroutput["mylib_left_out"] = config.stash[_LEFT_OUT]  # type: ignore[attr-defined]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Makes a test's gc.collect() skip the tests themselves: half a second each time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Makes gc.collect() skip the libraries that the tests of a file imported."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def _leave_out(
    config: pytest.Config, items: list[pytest.Item], left: set[pytest.Item], why: str
) -> None:
    if left:
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        config.stash[_LEFT_OUT][why] = len(left)
        items[:] = [item for item in items if item not in left]


def _is_sampled(config: pytest.Config) -> bool:
    """Runs everything with MYLIB_TEST_ALL=1 and, unless it is 0, the tests that one picks."""
    is_picked = bool(config.option.keyword) or any("::" in word for word in config.args)
    wanted = os.environ.get("MYLIB_TEST_ALL")
    return wanted == "0" or (wanted != "1" and not is_picked)


#: The most cases of one test in a sample, unless its parameters have more values.
_ENOUGH = 60


def _not_in_sample(items: list[pytest.Item], seed: int) -> set[pytest.Item]:
    """Finds the cases to leave out: all but one element type of each class, and those over _ENOUGH.

    The classes are those of `scalar_ops.h`: the types of a class have their meaning in common.
    """
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if hasattr(item, "callspec"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left = set()
    for test, its_items in tests.items():
        chance = random.Random(f"{seed} {test}")
        chance.shuffle(its_items)
        groups: dict[Any, pytest.Item] = {}
        for item in its_items:
            groups.setdefault(_features(item), item)
        met: set[Any] = set()
        chosen, others = [], []
        for features, item in groups.items():
            (others if met.issuperset(features) else chosen).append(item)
            met.update(features)
        chosen += others[: max(0, _ENOUGH - len(chosen))]
        left.update(set(its_items).difference(chosen))
    return left


def _features(item: pytest.Item) -> tuple[Any, ...]:
    """The values of the parameters, in which types stand for their class."""
    spec = item.callspec  # type: ignore[attr-defined]
    found: list[Any] = []
    for name, value in spec.params.items():
        if isinstance(value, cases.Case):
            found += [("name", value.name), ("device", value.device)]
            found += [("class", _type_class(value.dtype)), ("result", value.result_dtype.kind)]
        elif isinstance(value, np.dtype):
            found.append((name, _type_class(value)))
        else:
            text = repr(value)
            # Addresses change from run to run, and two expressions may have one text: these have
            # their place in the list of values.
            is_vague = " at 0x" in text or isinstance(value, pcd.Expression)
            found.append((name, spec.indices[name] if is_vague else text))
    return tuple(found)


def _type_class(dtype: np.dtype[Any]) -> str:
    return "half" if dtype == np.float16 else dtype.kind


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[_LEFT_OUT].update(getattr(node, "workeroutput", {}).get("mylib_left_out", {}))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for why, count in config.stash[_LEFT_OUT].items():
        terminalreporter.write_line(f"not run: {count:,} {why}")


# ---- Processes side by side ----


def _rank(nodeid: str) -> int:
    """Puts the longest tests first, so that processes side by side end together."""
    return 0 if nodeid.startswith("tests/packaging/") else 2 if nodeid.startswith("tests/") else 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Replaces `--dist loadscope` of pytest-xdist, which runs a scope in one process.

    The tests of a file share what they prepare, and those of packaging/ their wheels; each of the
    checks in scripts/ stands for itself, but those of the documentation share its pages.
    """
    if config.getoption("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            check = file if file.endswith("/test_documentation.py") else nodeid
            return ("tests/packaging", check, file)[_rank(nodeid)]

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
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, made the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def quiet() -> Iterator[None]:
    """For values that overflow and the like, in tests of other things than warnings."""
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(scope="session")
def python() -> Callable[..., str]:
    """python(code, *args, **variables): what a fresh interpreter prints; it must succeed."""

    def run(code: str, *args: str, timeout: float = 300, **variables: str) -> str:
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
