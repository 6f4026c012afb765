# Each target prepares all it needs in build/, without root.
#
#   make demo       elevations of a real landscape, computed and compared with NumPy; then a race
#   make test       the C tests (ctest) and a sample of the Python tests (pytest), in minutes
#   make test-all   all of them, and those that build and install the package
#   make test-exhaustive   every float32 argument of the elementary functions: about a minute each
#   make coverage   lines and branches of the Python package that `make test` runs; fails below a floor
#   make test-gpu   all that needs a GPU; fails without one.  LONG=1: more cases, for minutes more
#   make docs       the documentation, in build/docs
#   make bench      against NumPy and what else is installed
#   make lint       formatting, static analysis, types
#   make check      lint, sanitizers, other builds, vectorization: what CI runs besides the tests
#   make clean      removes build/ and what was built into pkg/
#
# PYTHON=python3.12       which Python to use
# OFFLINE=1               install nothing: take what that Python has
# CMAKE_ARGS, CUDA_HOME, MYLIB_CUDA and the like are the same as for pip; after changing them: make clean
# PYTEST_ARGS, BENCH_ARGS, DEMO_ARGS, RACE_ARGS    further arguments
# JOBS=12                 so many tests at a time on the GPU; more than one needs pytest-xdist

PYTHON ?= python3
MYLIB_CUDA ?= AUTO
PYTEST_ARGS ?=
BENCH_ARGS ?=
DEMO_ARGS ?=
RACE_ARGS ?=
JOBS ?= 1

# Found now: in a recipe the environment's own python comes first.
base_python := $(shell command -v $(PYTHON))
# Relative, as the name of this folder may have a space.
venv := build/venv
python := $(venv)/bin/python
cbuild := build/c
prefix := build/prefix
stamps := build/stamps
export PATH := $(CURDIR)/$(venv)/bin:$(PATH)
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc 2>/dev/null || echo 2)

ifdef OFFLINE
# The packages of $(PYTHON), which may be of a virtual environment itself.
venv_flags := --system-site-packages --without-pip
inherit = $(base_python) -c "import sysconfig; print(sysconfig.get_path('purelib'))" \
    > "$$($(python) -c "import sysconfig; print(sysconfig.get_path('purelib'))")/inherited.pth"
install = @: not installing $(1)
else
inherit = @:
install = $(python) -m pip install --quiet --disable-pip-version-check $(1)
endif

sources := $(shell find libcalc pkg -name '*.c' -o -name '*.h' -o -name '*.cu') \
    $(wildcard libcalc/cmake/*) CMakeLists.txt libcalc/CMakeLists.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-c test-py test-exhaustive coverage test-gpu docs bench lint check \
    prepare clean
.DELETE_ON_ERROR:

help:
	@sed -n '/^#/!q;s/^# \{0,1\}//p' Makefile

# ---- Environment -------------------------------------------------------------------------------

$(stamps)/venv: pyproject.toml setup.py
	mkdir -p $(stamps)
	$(base_python) -m venv $(venv_flags) $(venv)
	$(inherit)
	@# pip before 25.1 knows no dependency groups.
	$(call install,"pip>=25.1" "setuptools>=77" "numpy>=2.0")
	@# Tools that the build needs and this machine lacks (CMake, Ninja), as the build itself says.
	$(call install,"numpy>=2.0" $$($(python) -c \
	    "import logging; logging.disable(); from setuptools.build_meta import \
	        get_requires_for_build_editable as f; print(); print(*f())" | tail -1))
	touch $@

# ---- The library and the package ---------------------------------------------------------------

$(cbuild)/CMakeCache.txt: $(stamps)/venv
	cmake -S . -B $(cbuild) $$(command -v ninja >/dev/null && echo -GNinja) \
	    -DMYLIB_CUDA=$(MYLIB_CUDA) $(CMAKE_ARGS)

# The extension uses the library built above, so that the CUDA code is compiled once.
$(stamps)/package: $(cbuild)/CMakeCache.txt $(sources)
	cmake --build $(cbuild) --target mylib
	cmake --install $(cbuild) --prefix $(prefix) --strip
	PYTHONWARNINGS="ignore:Editable installation" MYLIB_ROOT="$(CURDIR)/$(prefix)" \
	    $(python) -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	touch $@

# The dependency groups of pyproject.toml.
$(stamps)/%-deps: pyproject.toml | $(stamps)/package
	$(call install,--group $*)
	touch $@

# ---- What people ask for -----------------------------------------------------------------------

demo: $(stamps)/package $(stamps)/demo-deps
	$(python) examples/demo.py $(DEMO_ARGS)
	$(python) examples/race.py $(RACE_ARGS)

test: test-c test-py

# The sample prints its seed: MYLIB_TEST_SEED repeats it.
test-all: export MYLIB_TEST_ALL := 1
test-all: export MYLIB_TEST_LONG := 1
test-all: test-c $(stamps)/package $(stamps)/test-deps
	$(python) -m pytest $(PYTEST_ARGS)

test-c: $(cbuild)/CMakeCache.txt
	cmake --build $(cbuild)
	ctest --test-dir $(cbuild) --output-on-failure --no-tests=error --parallel $(CMAKE_BUILD_PARALLEL_LEVEL)

test-py: $(stamps)/package $(stamps)/test-deps
	$(python) -m pytest -m "not packaging" $(PYTEST_ARGS)

test-exhaustive: export MYLIB_TEST_ALL := 1
test-exhaustive: $(stamps)/package $(stamps)/test-deps
	$(python) -m pytest -m exhaustive $(PYTEST_ARGS)

coverage: export COVERAGE_FILE := build/coverage
coverage: $(stamps)/package $(stamps)/test-deps
	@# Without a GPU the sample runs 77 per cent of lines and branches; with one more.
	$(python) -m pytest -m "not packaging" --cov=pkg --cov-branch \
	    --cov-report=term-missing --cov-fail-under=75 $(PYTEST_ARGS)

test-gpu: export MYLIB_TEST_ALL := 1
test-gpu: $(stamps)/package $(stamps)/test-deps
	cmake --build $(cbuild)
	$(cbuild)/libcalc/tests/test_mylib --device cuda
	MYLIB_REQUIRE_GPU=1 MYLIB_TEST_LONG=$(LONG) ctest --test-dir $(cbuild) --output-on-failure --no-tests=error -L gpu -j $(JOBS)
	@# pytest-benchmark, where it is installed, warns when tests run side by side.
	MYLIB_REQUIRE_GPU=1 $(python) -m pytest -m "gpu and not whole_gpu" -p no:benchmark \
	    $(if $(filter-out 1,$(JOBS)),-n $(JOBS)) $(PYTEST_ARGS)
	MYLIB_REQUIRE_GPU=1 $(python) -m pytest -m "gpu and whole_gpu" $(PYTEST_ARGS)
	MYLIB_REQUIRE_GPU=1 $(python) -m pytest -m "gpu and exhaustive" $(PYTEST_ARGS)
	$(python) scripts/compute_sanitizer.py $(cbuild) --jobs $(JOBS)

docs: $(stamps)/package $(stamps)/docs-deps
	$(python) -m sphinx --quiet --fail-on-warning --keep-going --jobs auto -d build/doctrees docs build/docs
	@echo "build/docs/index.html"

bench: $(stamps)/package $(stamps)/bench-deps
	$(python) -m benchmarks $(BENCH_ARGS)

lint: prepare
	$(python) -m pytest scripts/checks/test_lint.py $(PYTEST_ARGS)

check: export MYLIB_TEST_ALL := 1
check: prepare $(stamps)/docs-deps
	$(python) -m pytest scripts/checks $(PYTEST_ARGS)

# All that a run of pytest over everything needs.
prepare: $(stamps)/package $(stamps)/test-deps $(stamps)/lint-deps

clean:
	rm -rf build dist *.egg-info pkg/include pkg/lib pkg/*.so
