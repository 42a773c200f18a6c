# `make train` and `make test` do all the set-up they need: a virtual environment and everything inside it.
# An active virtual environment is used; otherwise .venv is made. Needs python3 (3.11 or later) and make.

PYTHON ?= python3
VENV ?= $(if $(VIRTUAL_ENV),$(VIRTUAL_ENV),.venv)
BIN := $(VENV)/bin

# Stamps inside the environment: installing happens again only when pyproject.toml changes.
INSTALLED := $(VENV)/.actfirst-installed
DEV_INSTALLED := $(VENV)/.actfirst-dev-installed

.DEFAULT_GOAL := help
FUZZ_INPUTS ?= 1000000
FUZZ_SEED ?= 0

.PHONY: help train test test-slow fuzz check format clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

train: $(INSTALLED) ## install what is missing and run the main job: train the pocket student
	$(BIN)/actfirst train pocket

test: $(DEV_INSTALLED) ## install what is missing and run the tests
	$(BIN)/python -m pytest

test-slow: $(DEV_INSTALLED) ## run the tests that take minutes
	$(BIN)/python -m pytest -m slow

fuzz: $(DEV_INSTALLED) ## bad inputs for every parser and file format; counts what was tried (FUZZ_INPUTS, FUZZ_SEED)
	FUZZ_INPUTS=$(FUZZ_INPUTS) FUZZ_SEED=$(FUZZ_SEED) $(BIN)/python -m pytest -m slow tests/fuzz

check: $(DEV_INSTALLED) ## formatter, linter, strict types, import directions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV_INSTALLED) ## format the code and fix what the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove caches and build output (never runs/ or the virtual environment)
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: actfirst needs Python 3.11 or later; name one with: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --editable .
	@touch $@

$(DEV_INSTALLED): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --editable '.[dev]'
	@touch $(INSTALLED) $@
