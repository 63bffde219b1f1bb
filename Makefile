# make demo    what optsched does, on bundled instances
# make test    the test suite
# make check   ruff, mypy, import contracts
# Everything is installed into .venv on first use; only Python 3.11+ and make are needed.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check clean

demo: .venv/core
	$(BIN)/optsched bound --scheduler sarathi
	$(BIN)/optsched solve instances/paper/I4.json

test: .venv/dev
	$(BIN)/python -m pytest -n auto

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "optsched needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/core: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/dev: .venv/core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
