# Everything a developer or a CI does, in one word each. `make` alone lists them.
#
#   VENV=dir      another virtual environment (default .venv)
#   PYTHON=path   the Python (3.11 or newer) that makes it
#   ARGS=...      passed on to demo, bench, accept and to pytest

VENV   ?= .venv
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
            $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
ARGS   ?=
IMAGES := node etcd zookeeper kafka-4.1 dledger-0.2.2

BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet
HASHED := --require-hashes --only-binary :all:
LOCKED := $(PIP) $(HASHED) -r .ci/requirements-build.lock && \
          $(PIP) $(HASHED) --no-binary pyspark --no-build-isolation -r .ci/requirements.lock && \
          $(PIP) --no-deps --no-build-isolation --editable .
UNLOCKED := $(PIP) --upgrade 'pip>=25.1' && $(PIP) --editable '.[spark]' --group dev
STAMP  := $(VENV)/.dethrone-setup

.DEFAULT_GOAL := help
.PHONY: help setup lock sbom engine images images-all java tools demo check quick test test-all system bench bench-checkers accept soak clean

help:
	@echo 'make setup    a virtual environment with dethrone and the development tools'
	@echo 'make lock     resolve the dependencies again and write them down with hashes (needs uv)'
	@echo 'make sbom     what is installed and put into images, as CycloneDX JSON'
	@echo 'make demo     start a cluster, break it, catch a planted bug, open the report (needs Docker)'
	@echo 'make check    ruff, formatting, mypy, import layers'
	@echo 'make quick    check, then the tests that only compute and are not slow (3 minutes)'
	@echo 'make test     check, then all that CI runs: real clusters on every backend, too (20 minutes; needs Docker)'
	@echo 'make test-all check, then every test (needs Docker)'
	@echo 'make system   only the tests against real third-party systems (needs Docker)'
	@echo 'make bench    the benchmarks, with their figures (needs Docker)'
	@echo 'make bench-checkers   linearizability beside Porcupine, cell by cell (beside it only where there is Go)'
	@echo 'make accept   planted bugs must be found, honest builds must pass (needs Docker)'
	@echo 'make soak     random runs beside a load, with harm done to the harness itself (needs Docker)'
	@echo 'make clean    remove the virtual environment and caches'

setup: $(STAMP)

# Only files with the hashes of the lock are installed. Where they do not fit (another Python, a machine with its own
# packages) it is said, and pyproject.toml decides; in CI that is an error.
$(STAMP): pyproject.toml .ci/requirements.lock .ci/requirements-build.lock
	@test -n '$(PYTHON)' || { echo 'setup: no Python 3.11 or newer found. Debian, Ubuntu: apt-get install python3 python3-venv (or name one: make PYTHON=/path/to/python3.11)' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo 'setup: $(PYTHON) cannot make virtual environments. Debian, Ubuntu: apt-get install python3-venv' >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(LOCKED) || { test -z "$$CI" && echo 'setup: the locked packages cannot be installed here; taking what pyproject.toml allows, unchecked' >&2 && $(UNLOCKED); }
	@touch $@

lock:
	@.ci/lock

sbom: $(STAMP)
	@$(BIN)/python tests/sbom.py > sbom.cdx.json
	@echo 'sbom.cdx.json: CycloneDX 1.5'

engine: $(STAMP)
	@$(BIN)/python .ci/engine.py

images: engine
	@$(BIN)/python -m dethrone.clusters.docker.image $(IMAGES)

images-all: IMAGES += etcd-3.5 etcd-rolling kafka-rolling
images-all: images

java: $(STAMP)
	@$(BIN)/python tests/java_runtime.py

tools: $(STAMP)
	@$(BIN)/python tests/host_tools.py

demo: engine
	@$(BIN)/dethrone demo $(ARGS)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

quick: $(STAMP)
	$(BIN)/python tests/run_all.py quick $(ARGS)

test: $(STAMP)
	$(BIN)/python tests/run_all.py test $(ARGS)

test-all: $(STAMP)
	DETHRONE_TEST_PYTHONS="$$($(BIN)/python tests/other_pythons.py $(VENV)-others)" $(BIN)/python tests/run_all.py all $(ARGS)

system: images-all
	$(BIN)/python -m pytest -m system $(ARGS)

bench: images java
	$(BIN)/python -m tests.benchmarks.run $(ARGS)

bench-checkers: $(STAMP)
	@command -v go >/dev/null && (cd tests/benchmarks/porcupine && go build -o '$(abspath $(BIN))/porcupine-bench' .) || echo 'no Go: ours alone'
	@if command -v go >/dev/null; then $(BIN)/python -m tests.benchmarks.porcupine_logs; fi
	$(BIN)/python -m tests.benchmarks.bench_linear $$(test -x $(BIN)/porcupine-bench && echo --porcupine $(BIN)/porcupine-bench) $(ARGS)

soak: images
	$(BIN)/python tests/soak/run.py $(ARGS)

accept: images
	$(BIN)/python tests/accept.py $(ARGS)

clean:
	rm -rf $(VENV) $(VENV)-others .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
