# Everything from python3, pip and make alone. `make setup` is a no-op the second time; Python compiles
# what it imports when it first does, which is a fraction of what is installed. It keeps that whatever the
# environment says: else every process compiles again what it imports, 3.5 s for all of eligrad.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TRAIN := $(VENV)/.train
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOWEST := .venv-lowest
ELSEWHERE := python3.13-newest python3.12-newest python3.11-lowest
WORKERS ?= 2
MINUTES ?= 8

.PHONY: setup demo divergence test lint types pytest docs test-minatar test-nightly test-slice test-lowest test-elsewhere $(ELSEWHERE) test-faults bench lock clean

setup: $(INSTALLED)

$(INSTALLED): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --no-compile --requirement requirements.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@ $(TRAIN)

# What training needs and no more, in the versions of the lock.
$(TRAIN): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --no-compile --constraint requirements.lock hatchling editables
	$(PIP) --no-compile --constraint requirements.lock --no-build-isolation --editable '.[train]'
	touch $@

# QRC(λ) learns Breakout: four seeds, about two minutes on two cores.
demo: $(TRAIN)
	$(BIN)/eligrad train qrc MinAtar/Breakout-v1 --steps 2.5e5 --seeds 4

# Where TD diverges and gradient TD does not, in about a minute.
divergence: $(TRAIN)
	$(BIN)/eligrad demo

test: lint types pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/basedpyright

pytest: setup
	$(BIN)/python -m pytest -m "not nightly and not faults" -n $(WORKERS) --dist loadfile

# The long proof: five games against the original, at least 20,000 transitions each.
test-minatar: setup
	$(BIN)/python -m pytest -m nightly -n $(WORKERS) tests/minatar

# All long proofs: the games, learning to a mark, coverage of intervals, sweeps that are killed.
test-nightly: setup
	$(BIN)/python -m pytest -m "nightly and not faults" -n $(WORKERS) --dist loadfile

# What can go wrong, done on purpose to real processes, files of others, and a long life: twenty minutes.
test-faults: setup
	$(BIN)/python -m pytest -m faults tests/faults -n $(WORKERS) --dist loadfile

# An eighth of both, chosen by the commit. After so many minutes it begins no
# more tests, and names those that are left. What fails is tried once more, alone: signals
# and full disks depend on what else the machine does at that moment.
test-slice: setup
	$(BIN)/python -m pytest -m "nightly or faults" -n $(WORKERS) --dist worksteal \
	  --slice $(shell git rev-parse --short=12 HEAD)/8 --minutes $(MINUTES) \
	  || $(BIN)/python -m pytest --last-failed --last-failed-no-failures none

# The parts that others build on, with the lowest versions that pyproject.toml allows.
test-lowest:
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python .ci/lowest.py train gymnasium mujoco minatar beartype hypothesis pytest pytest-xdist \
	  > $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	$(LOWEST)/bin/python -m pytest -m "not nightly" -n $(WORKERS) --dist loadfile tests/rules tests/problems \
	  tests/nets tests/optim tests/agents tests/envs tests/runs tests/engines tests/training tests/test_api.py tests/test_golden.py

# The wheel alone, in an empty environment of each supported Python that this machine has: the newest
# versions that pyproject.toml allows, and the lowest. All golden curves, or with CURVES="qrc ppo" some.
test-elsewhere: $(ELSEWHERE)

$(ELSEWHERE):
	.ci/elsewhere $(subst -, ,$@) $(CURVES)

# The documentation as a site, in site/; pytest builds it too.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Prints tables with ratios and writes them to benchmarks/measured.json.
bench: setup
	$(BIN)/python -m benchmarks.step_speed
	$(BIN)/python -m benchmarks.rules_cost
	$(BIN)/python -m benchmarks.minatar_speed
	$(BIN)/python -m benchmarks.streaming_engines
	$(BIN)/python -m benchmarks.mujoco_speed

# Writes down the versions that are installed, without saying where they came from.
lock: setup
	(echo "# Exact versions for development and CI; written by 'make lock'."; \
	 $(BIN)/python -m pip freeze --exclude-editable --exclude eligrad) > requirements.lock.new
	mv requirements.lock.new requirements.lock

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
