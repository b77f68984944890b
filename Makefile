# Everything that one does with a checkout. Needs Python 3.11 or newer (with venv) and make.
#
#   make demo [UNGUARDED=1] [ROUNDS=2] [HOSTS=5]   the bug report's test plan, live
#   make demo-all [UNGUARDED=1] …                   the same, and unshelve, evacuation, a whole group
#   make test [TESTS=tests/promises]               all tests, or some
#   make storm [SECONDS=60] [SEED=1] [ENGINE=postgresql]
#                                                  every operation at once while everything fails
#   make bench [PART=a]                            how fast it is, as ratios and figures of one run
#   make lint                                      ruff and mypy
#   make lock                                      the lock file anew, from pyproject.toml
#   make clean                                     what was installed and made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := requirements.lock
INSTALLED := $(VENV)/installed
TESTS ?= tests
# Some tests wait: for leases to end, for processes to start.
WORKERS ?= $(shell $(PYTHON) -c "import os; print((os.cpu_count() or 1) + 1)")

DEMO_OPTIONS := $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(HOSTS),--hosts $(HOSTS)) $(if $(UNGUARDED),--unguarded)

# What is imported a hundred times is compiled once.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo demo-all test bench lint format lock clean
.DEFAULT_GOAL := install

install: $(INSTALLED)

$(INSTALLED): $(LOCK) pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Berthold needs Python 3.11 or newer (PYTHON=…)")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r $(LOCK)
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

demo: $(INSTALLED)
	$(BIN)/berthold demo $(DEMO_OPTIONS)

demo-all: $(INSTALLED)
	$(BIN)/berthold demo --all $(DEMO_OPTIONS)

test: $(INSTALLED)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(TESTS)

storm: $(INSTALLED)
	$(BIN)/python -m berthold.lab.storm $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(if $(ENGINE),--engine $(ENGINE))

bench: $(INSTALLED)
	$(BIN)/python -m bench $(PART)

lint: $(INSTALLED)
	$(BIN)/ruff check src tests bench
	$(BIN)/ruff format --check src tests bench
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix src tests bench
	$(BIN)/ruff format src tests bench

# Hashes of every version for every platform; names of packages only, no addresses.
lock:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 \
		--extra demo --extra build --extra test --generate-hashes --no-emit-index-url \
		--no-annotate --no-header --upgrade --quiet -o $(LOCK)

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
