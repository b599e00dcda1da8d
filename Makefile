# Every target sets up what it needs by itself, in .venv, from a bare python3 and make.

PYTHON ?= python3
JOBS ?= 2
LAKE ?=
PART ?=
ARGS ?=
PORT ?= 8181
SEEDS ?= 20
FIRST ?= 0
ONLY ?=
FOLDER ?=
TARGET ?= sql
RUNS ?= 100000
SECONDS ?= 300
STORE ?= local
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CHECKED := src tests $(wildcard benchmarks/*.py benchmarks/iceberg_clients/*.py benchmarks/peers/*.py benchmarks/peers/*/*.py docs/*.py examples/*.py examples/demo/*.py proto/*.py)
PYTEST := $(BIN)/pytest -q -rs --durations=5 --durations-min=1

# An environment knows the folder it was made for; in a moved or copied checkout it is made again.
ifneq ($(shell cat $(READY) 2>/dev/null),$(CURDIR))
.PHONY: $(READY)
endif

# Where bytecode is not written, each test process would rewrite the assertions of all test modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-fast test-slow test-docs check format docs simulate mutants bench bench-quick bench-peers serve lock clean test-peers soak fuzz iceberg-clients compatibility-kit pyiceberg-tests

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1	\2/p' Makefile | expand -t 12

setup: $(READY) ## only the environment

$(READY): requirements.lock pyproject.toml .ci/setup
	@.ci/setup $(PYTHON) $(VENV)

demo: $(READY) ## the guided tour, in about two minutes
	@$(BIN)/python examples/demo .build/demo --replace

test: test-fast test-slow test-docs ## everything that runs as a test

test-fast: $(READY) ## the quick suite: no network, no Java
	$(PYTEST) -n $(JOBS) --dist worksteal -m "not slow and not interop"

test-slow: $(READY) ## the suites that take long or talk to a real peer
	$(PYTEST) -n $(JOBS) --dist loadgroup -m "slow or interop"

test-docs: $(READY) ## the examples in docstrings
	$(PYTEST) --doctest-modules src

test-peers: $(READY) ## install what other tests are skipped without, run them and list what is still skipped: make test-peers ARGS='--only Trino'
	@$(BIN)/python -m tests.peers --jobs $(JOBS) $(ARGS)

compatibility-kit: $(READY) ## Iceberg's REST Compatibility Kit, which is installed first: make compatibility-kit ARGS="testAppend"
	@$(BIN)/python -m tests.peers.compatibility_kit $(ARGS)

pyiceberg-tests: $(READY) ## PyIceberg's tests of REST catalogs from a checkout: make pyiceberg-tests FOLDER=../iceberg-python
	@$(BIN)/python -m tests.peers.pyiceberg_tests $(FOLDER) $(ARGS)

check: $(READY) ## format, lint, import contracts, generated files, types; what fails fastest comes first
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/python docs/map.py --check
	$(BIN)/python docs/reference.py --check
	$(BIN)/lint-imports --no-logo > $(VENV)/imports.txt || { cat $(VENV)/imports.txt; exit 1; }
	$(BIN)/mypy $(CHECKED)

format: $(READY) ## rewrite the code the way `check` wants it
	$(BIN)/ruff format --quiet .
	$(BIN)/ruff check --quiet --fix .

docs: $(READY) ## regenerate the map and the reference, and build the site in .build/site
	$(BIN)/python docs/map.py
	$(BIN)/python docs/reference.py
	$(BIN)/zensical build --strict

simulate: $(READY) ## writers, crashes, lost answers and wrong clocks, decided by a seed: make simulate SEEDS=200 FIRST=0
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) --first $(FIRST) --jobs $(JOBS)

soak: $(READY) ## processes that write, maintain and read one lakehouse, killed and stopped: make soak SECONDS=300 STORE=s3
	@$(BIN)/python -m tests.soak --seconds $(SECONDS) --store $(STORE)

fuzz: $(READY) ## coverage-guided fuzzing of a decoder: make fuzz TARGET=sql RUNS=100000
	@$(BIN)/python -m tests.fuzz $(TARGET) $(RUNS)

mutants: $(READY) ## one-line changes of the commit protocol, each of which must fail its named test: make mutants ONLY=vacuum
	@$(BIN)/python -m tests.mutants --only "$(ONLY)" --jobs $(JOBS)

bench: $(READY) ## every script of benchmarks/, and Spark at one size
	@for script in $(sort $(wildcard benchmarks/*.py)) benchmarks/spark; do echo "── $$script"; PYTHONPATH=. $(BIN)/python $$script || exit 1; done

bench-peers: $(READY) ## Mangrove beside comparable systems, which are installed first: make bench-peers PART="local small" ARGS="--rounds 3"
	@$(BIN)/python -m benchmarks.peers $(PART) $(ARGS)

iceberg-clients: $(READY) ## which Iceberg clients do what, in docs/comparison.md; the clients are installed first
	@$(BIN)/python -m benchmarks.iceberg_clients $(ARGS) --write

bench-quick: $(READY) ## what a lakehouse costs on this disk: times and requests, in seconds
	@$(BIN)/python benchmarks/quick.py .build

serve: $(READY) ## the explorer of a lakehouse: make serve LAKE=s3://bucket/lake; without LAKE a small sample
	@$(if $(LAKE),,mkdir -p .build && $(BIN)/python examples/sample_lakehouse.py .build/sample)
	@$(BIN)/mangrove serve $(if $(LAKE),"$(LAKE)",.build/sample) --port $(PORT)

lock: $(READY) ## pin every version again
	$(BIN)/uv pip compile pyproject.toml --universal --all-extras --group dev --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet --output-file requirements.lock

clean: ## remove everything that these targets made
	rm -rf $(VENV) .build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks docs examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
