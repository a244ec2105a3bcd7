# Needs Python 3.10 or later and make; everything else goes into .venv. A particular Python: make env PYTHON=python3.12
# A smaller PyTorch on Linux without a GPU: make env PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
PYTHON ?= python3
BIN := .venv/bin
# Hundreds of tests start nmtkit: without bytecode files each would compile it again, which takes half a second.
export PYTHONDONTWRITEBYTECODE :=
# One thread per worker, and no more workers than the suite keeps busy. A worker begins with neighbouring tests, which
# share fixtures, and takes others' when it has done its own.
WORKERS = $(shell $(BIN)/python -c \
  'from nmtkit.machine.processes import available_cores; print(min(4, available_cores()))')
PYTEST = OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal --durations 20 --durations-min 1

.DELETE_ON_ERROR:
.PHONY: help env demo test lint check slow browser gpu clean

help:
	@echo 'make demo    the quickstart: prepare, train, translate and score, in minutes'
	@echo 'make test    the tests'
	@echo 'make check   linter, types, then the tests: what a change must pass'
	@echo 'make slow    the tests that take long'
	@echo 'make browser the tests of the page of nmtkit serve in Chromium, which is installed unless it is there'
	@echo 'make gpu     the tests that need an NVIDIA GPU'
	@echo 'make env     only create .venv and install nmtkit in it'
	@echo 'make clean   remove .venv and everything else that was made here'

env: .venv/installed

# The stamp lies inside .venv, so that removing .venv is enough to start again. Only modules that are imported are
# compiled to bytecode, when they are: compiling all takes half a minute.
.venv/installed: pyproject.toml setup.py constraints.txt $(wildcard nmtkit/kernels/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo 'nmtkit needs Python 3.10 or later, and "$(PYTHON)" is not; name one: make env PYTHON=python3.12' >&2; exit 1; }
	@test -x .venv/bin/pip || $(PYTHON) -m venv .venv || { \
	  echo '"$(PYTHON) -m venv" failed; on Debian and Ubuntu: apt install python3-venv' >&2; exit 1; }
	@echo 'installing nmtkit and what it needs into .venv; the first time takes minutes'
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: env
	PATH="$(CURDIR)/$(BIN):$$PATH" recipes/quickstart/run.sh

# Number format and kernels depend on the processor. Every machine therefore tests training in bfloat16 on all that its
# processor has, then training in float32 and, if it has AVX512, what multiplies once more as on a processor with AVX2
# alone. AVX2 has no tiles; torch.compile, random numbers and terms do not depend on it. The tests for a GPU run on a
# simulated one.
AVX2 := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 PRECISION=float32
MULTIPLY := tests/kernels tests/ops tests/layers tests/models/test_for_search.py tests/search \
  $(addprefix --ignore tests/,kernels/test_compiled.py kernels/test_tiles.py ops/test_pointwise.py \
  search/test_constraints.py)
TRAIN := $(addprefix tests/training/test_,gradient.py optimizers.py made_by_0_1.py \
  loop.py::test_a_run_in_pieces_equals_a_run_in_one_go)

test: env
	PRECISION=bfloat16 $(PYTEST)
	$(AVX2) $(PYTEST) $(TRAIN) $(if $(shell grep -sm 1 avx512 /proc/cpuinfo),$(MULTIPLY))
	DEVICE=simulated $(PYTEST) -m 'gpu and not slow' tests/gpu

lint: env
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --num-workers auto

check: lint test

slow: env
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[notebook]'
	$(PYTEST) -m 'slow and not gpu'
	DEVICE=simulated $(PYTEST) -m 'gpu and slow' tests/gpu

# The system's Chromium or Chrome if there is one, else playwright's own, which goes into the user's cache.
browser: env
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[browser]'
	@command -v chromium || command -v chromium-browser || command -v google-chrome || $(BIN)/playwright install chromium
	OMP_NUM_THREADS=1 $(BIN)/pytest -m browser tests/browser

gpu: env
	$(BIN)/pytest -m gpu tests/gpu

clean:
	rm -rf .venv work build dist *.egg-info nmtkit/kernels/_compiled*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
