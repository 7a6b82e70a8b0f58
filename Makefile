# Every habit is a command; CI runs the same ones (.ci/run = make check test).
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV ?= .venv
BIN = $(VENV)/bin
READY = $(VENV)/.ready-dev
DEMO_READY = $(VENV)/.ready
WORKERS ?= 2
PYTEST = $(BIN)/python -m pytest -m "not compose and not long and not large"

.PHONY: demo up test test-all check format bench test-faults test-compose test-gpu schemas clean

demo: $(DEMO_READY)  ## one evaluation end to end on this machine
	$(BIN)/mlscope demo

up: $(DEMO_READY)  ## the local cluster, until Ctrl-C
	$(BIN)/mlscope up

# What failed beside other tests is tried once more alone, and said to be flaky: a shared, busy
# machine must not hide a change, nor a flaky test itself.
test: $(READY)  ## everything but compose and the long fault trials
	$(PYTEST) -n $(WORKERS) --dist loadgroup || { \
	  echo "== FLAKY or broken: the tests above, once more, alone"; \
	  $(PYTEST) --last-failed --last-failed-no-failures none; }

test-all: test  ## and what takes long: models of more than 300 million parameters (8 GiB of memory), …
	$(BIN)/python -m pytest -m "(large or long) and not faults"

check: $(READY)  ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## every performance claim, with its peer or floor in the same run (~25 minutes)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[bench]"
	$(BIN)/python -m benchmarks --long

test-faults: $(READY)  ## 50 seeded SIGKILL trials
	$(BIN)/python -m pytest -m "faults" --timeout 3600 tests/faults

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

schemas: $(READY)  ## write schemas/v1 from the messages
	$(BIN)/mlscope schemas --write

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(DEMO_READY): pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[all]"
	touch $@

$(READY): pyproject.toml constraints.txt tests/catalog/packages.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	$(BIN)/pip install --quiet --no-deps --requirement tests/catalog/packages.txt
	touch $@ $(DEMO_READY)

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
