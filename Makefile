# Every target sets up what it needs by itself, in .venv, from a bare python3 and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup lock check test clean

setup: $(READY)

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv==$$(sed -n 's/^uv==\([^ ]*\).*/\1/p' requirements.lock)"
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --requirements requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $(READY)

clean:
	rm -rf $(VENV)

lock: $(READY)
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet --output-file requirements.lock
