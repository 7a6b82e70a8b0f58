# Every habit is a command; CI runs the same ones (.ci/run = make check test).
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV ?= .venv
BIN = $(VENV)/bin
READY = $(VENV)/.ready-dev
DEMO_READY = $(VENV)/.ready
LINT_READY = $(VENV)/.ready-lint
# One worker more than cores: tests of clusters wait more than they compute.
WORKERS ?= $(shell expr $$(nproc 2>/dev/null || echo 1) + 1)
# Half of hypothesis' examples: `make test-all` runs its tests again with all of them.
PYTEST = $(BIN)/python -m pytest -m "not compose and not long and not large" --hypothesis-profile=brief

# Tests start thousands of interpreters: without compiled files each compiles the project anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo pictures up test test-all check format docs coverage bench soak test-faults test-fuzz test-fleet test-compose test-gpu module-graph rights schemas clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(DEMO_READY)  ## one evaluation end to end on this machine; STAY=1 leaves its pages open
	$(BIN)/mlscope demo $(if $(STAY),--stay)

pictures: $(READY)  ## photograph every page into build/pictures, and the documentation's six anew
	$(BIN)/python -m tests.browser.gallery build/pictures --docs docs/images

up: $(DEMO_READY)  ## the local cluster, until Ctrl-C
	$(BIN)/mlscope up

# What failed beside other tests is tried once more alone, and said to be flaky: a shared, busy
# machine must not hide a change, nor a flaky test itself.
test: $(READY)  ## at least one test of every behaviour, on all cores
	$(PYTEST) -n $(WORKERS) --dist loadfile || { \
	  echo "== FLAKY or broken: the tests above, once more, alone"; \
	  $(PYTEST) --last-failed --last-failed-no-failures none; }

test-all: test  ## and what takes long: whole-catalog sweeps, more examples, large models (8 GiB of memory)
	$(BIN)/python -m pytest -m "large or long or hypothesis"

check: $(LINT_READY)  ## format, lint, types, import contracts; needs no framework
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(LINT_READY)  ## write the format that `check` wants
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)  ## build the documentation into build/docs; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs

coverage: $(READY)  ## which lines of the product the tests run; writes the share into the README
	$(PYTEST) -n $(WORKERS) --dist loadfile --cov --cov-report=term:skip-covered --cov-report=html:build/coverage
	$(BIN)/python -m tools.coverage_figure "$$($(BIN)/coverage report --format=total)"

# An interrupted run goes on with RESUME=1; SMALL=1 shows in a few minutes that all of it runs.
bench: $(READY)  ## every performance claim beside its budget and its peer; a table at the end (~40 minutes)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[bench]"
	$(BIN)/python -m benchmarks $(if $(SMALL),--small,--long) $(if $(RESUME),--resume)

soak: $(READY)  ## two hours of load (HOURS=): memory of each service within 5%, disk bounded
	$(BIN)/python -m benchmarks.soak --hours $(or $(HOURS),2) --figures build/soak.jsonl

test-fuzz: $(READY)  ## a million made-up messages from every key but the provisioner's; an interrupted run goes on
	$(BIN)/python -m tests.faults.fuzzing --messages $(or $(MESSAGES),1000000)

test-faults: $(READY)  ## 500 seeded faults of every kind (TRIALS=, SEED=, RESULTS=); goes on where it was ended
	$(BIN)/python -m tests.faults --trials $(or $(TRIALS),500) --seed $(or $(SEED),0) \
	  --results $(or $(RESULTS),build/faults.jsonl)

test-fleet: $(READY)  ## three machines in network namespaces, over TLS; needs root and iproute2
	$(BIN)/python -m pytest -ra tests/fleet

test-compose: $(READY)  ## the compose cluster in a real engine, on stand-in base images
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[compose]"
	$(BIN)/python -m pytest -m compose --timeout 3600 tests/compose

# On a machine with a GPU: collectors and an agent's sessions, its own PyTorch (GPU_PYTHON) beside,
# whose warnings are its own; MLSCOPE_GPU_BUNDLES=FOLDER keeps the sessions' bundles. Elsewhere its
# recordings are replayed alone. BUNDLES=FOLDER: kept bundles are imported into a cluster here and
# analysed.
test-gpu: $(if $(GPU_PYTHON),,$(READY))  ## on a GPU machine, and anywhere with BUNDLES=FOLDER
	BUNDLES="$(BUNDLES)" $(or $(GPU_PYTHON),$(BIN)/python) -m pytest -ra \
	  $(if $(GPU_PYTHON),-o filterwarnings=default -p no:cacheprovider) $(GPU_OPTIONS) \
	  $(if $(BUNDLES),-s tests/gpu/test_imports.py,$(or $(GPU_TESTS),tests/gpu))

module-graph: $(LINT_READY)  ## draw the imports of the pages' scripts into docs/images
	$(BIN)/python -m tools.javascript_modules

rights: $(READY)  ## try every key on every subject of a real server, and write docs/rights.md
	$(BIN)/python -m tests.cli.cluster.rights_matrix

schemas: $(LINT_READY)  ## write schemas/v1 from the messages
	$(BIN)/mlscope schemas --write

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(LINT_READY): pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[lint]"
	touch $@

$(DEMO_READY): pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[all]"
	touch $@

$(READY): pyproject.toml constraints.txt tests/catalog/packages.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	$(BIN)/pip install --quiet --no-deps --requirement tests/catalog/packages.txt
	touch $@ $(DEMO_READY) $(LINT_READY)

clean:  ## remove the environment and caches
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache
