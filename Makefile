# Every target sets up what it needs, is safe to run twice, and leaves no process behind.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready

.PHONY: setup demo test lint bench chaos clean

setup: $(STAMP)

$(STAMP): deploy/locks/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Finality needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another with: make PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || { echo "the venv module is missing: install it (Debian: python3-venv)"; exit 1; }
	@echo "installing packages into .venv (about 60 MB the first time)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r deploy/locks/dev.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

demo: $(STAMP)
	@$(BIN)/finality demo $(if $(JSON),--json "$(JSON)")

test: $(STAMP)
	@$(BIN)/python tests/run.py fast

lint: $(STAMP)
	@$(BIN)/ruff check services tests
	@$(BIN)/ruff format --check services tests
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/pytest tests/unit/tidy

bench: $(STAMP)
	@$(BIN)/python tests/bench/run.py

chaos: $(STAMP)
	@$(BIN)/python tests/run.py chaos

clean:
	@test ! -x $(BIN)/finality || $(BIN)/finality stack down || true
	@rm -rf .venv .finality .mypy_cache .ruff_cache .pytest_cache .hypothesis build
