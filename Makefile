# `make train` and `make test` do all the set-up they need: a virtual environment and everything inside it.
# An active virtual environment is used; otherwise .venv is made. Needs python3 (3.11 or later) and make.
# TORCH=cpu installs the build of torch without CUDA, which is much smaller.

PYTHON ?= python3
VENV ?= $(if $(VIRTUAL_ENV),$(VIRTUAL_ENV),.venv)
BIN := $(VENV)/bin
LOG := $(VENV)/install.log
TORCH ?=
TORCH_CPU := https://download.pytorch.org/whl/cpu
# Exactly these files and nothing that they ask for; what is not in a lock (torch) is installed after it.
LOCKED := --no-deps --require-hashes --requirement

# Stamps inside the environment: installing happens again only when pyproject.toml or a lock changes.
INSTALLED := $(VENV)/.actfirst-installed
DEV_INSTALLED := $(VENV)/.actfirst-dev-installed
DOCS_INSTALLED := $(VENV)/.actfirst-docs-installed

.DEFAULT_GOAL := help
FUZZ_INPUTS ?= 1000000
FUZZ_SEED ?= 0

.PHONY: help train test test-slow test-browser viewer docs fuzz gpu-smoke check lock audit format clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

train: $(INSTALLED) ## install what is missing and run the main job: train the pocket student
	@echo "training the pocket student: a small model that learns household tasks from a larger one, in a few minutes"
	@$(BIN)/actfirst train pocket

test: $(DEV_INSTALLED) ## install what is missing and run the tests
	$(BIN)/python -m pytest

test-slow: $(DEV_INSTALLED) ## run the tests that take minutes
	$(BIN)/python -m pytest -m slow

viewer: viewer/node_modules ## build and test the pages of `actfirst view` (needs Node.js 20)
	cd viewer && npm run build && npm test

# CHROMIUM names a browser. Where there is none, Debian's package is installed, or else Playwright's own build.
# The pictures in docs/images are of a real run.
CHROMIUM ?= $(or $(shell command -v chromium || command -v chromium-browser || command -v google-chrome),/usr/bin/chromium)
test-browser: $(DEV_INSTALLED) viewer ## test the viewer in Chromium and make its pictures in docs/images
	test -x $(CHROMIUM) || (apt-get update && apt-get install --yes chromium) || (cd viewer && npx playwright-core install chromium)
	cd viewer && PYTHON=$(abspath $(BIN))/python CHROMIUM=$(CHROMIUM) npm run browser
	rm -rf build/pictures && $(BIN)/actfirst train pocket run.updates=30 run.keep_alternatives=3 evaluation.tasks_per_split=8 --run build/pictures/actfirst
	$(BIN)/actfirst train pocket run.updates=30 evaluation.tasks_per_split=8 rollout.method=vanilla --run build/pictures/vanilla
	cd viewer && PYTHON=$(abspath $(BIN))/python CHROMIUM=$(CHROMIUM) node browser/pictures.mjs $(abspath build/pictures/actfirst build/pictures/vanilla)

# `npm ci` would refuse a lock file that lacks packages of other systems, which not every registry has.
viewer/node_modules: viewer/package-lock.json
	cd viewer && npm install --no-save --no-audit --no-fund
	@touch $@

docs: $(DOCS_INSTALLED) ## build the documentation as a site in build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "open build/site/index.html"

fuzz: $(DEV_INSTALLED) ## bad inputs for every parser and file format; counts what was tried (FUZZ_INPUTS, FUZZ_SEED)
	FUZZ_INPUTS=$(FUZZ_INPUTS) FUZZ_SEED=$(FUZZ_SEED) $(BIN)/python -m pytest -m slow tests/fuzz

# Every part once; one that fails does not stop the others. Without a GPU: make gpu-smoke SMOKE_MODEL=tiny SMOKE_GPU=
SMOKE_MODEL ?= Qwen3-0.6B
SMOKE_RECIPE ?= paper/alfworld-0.6b
SMOKE_GPU ?= runtime.engine_gpus=1 runtime.learner_gpus=1 runtime.weight_sync=collective
gpu-smoke: $(INSTALLED) ## every part once on this machine, beside what is predicted: send build/gpu-smoke.txt back
	@mkdir -p build && rm -rf build/gpu-smoke
	@{ set -x; nvidia-smi; \
	$(BIN)/actfirst doctor $(SMOKE_RECIPE); \
	$(BIN)/actfirst bench learner $(SMOKE_MODEL); \
	$(BIN)/actfirst bench checkpoint --sizes 1 --repeats 2; \
	$(BIN)/actfirst bench sync --sizes 2 --repeats 2; \
	$(BIN)/actfirst bench sync --sizes 2 --repeats 2 --engine vllm; \
	$(BIN)/actfirst bench sync --sizes 2 --repeats 2 --under-way 0 --runtime ray $(SMOKE_GPU); \
	$(BIN)/actfirst bench sync --sizes 1 --repeats 2 --under-way 0 --engine vllm --runtime ray $(SMOKE_GPU); \
	$(BIN)/actfirst bench driver --repeats 2; \
	$(BIN)/actfirst bench turns --repeats 2; \
	$(BIN)/actfirst plan $(SMOKE_RECIPE); \
	$(BIN)/actfirst train pocket run.updates=3 evaluation.tasks_per_split=2 --run build/gpu-smoke; \
	} 2>&1 | tee build/gpu-smoke.txt

check: $(DEV_INSTALLED) ## formatter, linter, strict types, import directions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

lock: $(DEV_INSTALLED) ## write the versions of this environment, with the hashes of their files, to the locks
	$(BIN)/python .ci/lock.py

audit: $(DEV_INSTALLED) ## ask a public database for known faults of what the locks name (needs the network)
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/python -m pip_audit --no-deps --require-hashes --requirement requirements-dev.lock

format: $(DEV_INSTALLED) ## format the code and fix what the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove caches and build output (never runs/ or the virtual environment)
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# One line on the terminal for each step; what the step says goes to the log.
define quietly
	@echo "$(1)"
	@$(2) >> $(LOG) 2>&1 || { tail -n 15 $(LOG) >&2; echo "error: this failed; all that it said is in $(LOG)" >&2; exit 1; }
endef

# Where pip would take CUDA along although there is no GPU, say so while there is time to stop it.
define torch_first
	@if [ "$(TORCH)" != cpu ] && [ "$$(uname -s)-$$(uname -m)" = Linux-x86_64 ] && ! command -v nvidia-smi > /dev/null \
	  && ! $(BIN)/python -c 'import torch' 2> /dev/null; then \
	  echo "note: no GPU is found here, and torch's usual build for Linux brings CUDA along (several GB)."; \
	  echo "      For the small build stop this with Ctrl-C and run: make $(MAKECMDGOALS) TORCH=cpu"; fi
	@if [ "$(TORCH)" = cpu ]; then echo "installing torch without CUDA from $(TORCH_CPU)"; \
	  $(BIN)/python -m pip install --index-url $(TORCH_CPU) "$$(sed -n 's/.*"\(torch==[^"]*\)".*/\1/p' pyproject.toml)" \
	    >> $(LOG) 2>&1 || { tail -n 15 $(LOG) >&2; echo "error: this failed; all that it said is in $(LOG)" >&2; exit 1; }; fi
endef

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: actfirst needs Python 3.11 or later; name one with: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	@echo "making a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(INSTALLED): pyproject.toml requirements.lock | $(BIN)/python
	$(torch_first)
	$(call quietly,installing actfirst and what it needs (minutes the first time; log: $(LOG)),{ $(BIN)/python -m pip install $(LOCKED) requirements.lock && $(BIN)/python -m pip install --editable .; })
	@touch $@

$(DEV_INSTALLED): pyproject.toml requirements-dev.lock | $(BIN)/python
	$(torch_first)
	$(call quietly,installing actfirst and the tools that test it (minutes the first time; log: $(LOG)),{ $(BIN)/python -m pip install $(LOCKED) requirements-dev.lock && $(BIN)/python -m pip install --editable '.[dev]'; })
	@touch $(INSTALLED) $@

$(DOCS_INSTALLED): pyproject.toml | $(BIN)/python
	$(torch_first)
	$(call quietly,installing actfirst and what makes its documentation (log: $(LOG)),$(BIN)/python -m pip install --editable '.[docs]')
	@touch $(INSTALLED) $@
