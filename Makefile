# Two commands: `make demo` runs the main job on an example, `make test` runs every check.
# Both work in a private environment (.venv) and need Linux x86-64, Python 3.11 to 3.13 and g++; no GPU, no toolkit.

# the first Python of a version that will do
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch==2.13.0
# what the simulator needs of CUDA where no toolkit is installed: headers, 5 MB
HEADERS := 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-cccl==13.0.*'
EXAMPLE := examples/gated_norm.py

.PHONY: demo test lint format clean

demo: $(VENV)/.judge
	$(BIN)/warpsmith optimize $(EXAMPLE) --device auto

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/.made:
	@test -n '$(PYTHON)' || { echo 'Python 3.11, 3.12 or 3.13 is needed; give it with make PYTHON=...' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

# torch first and pinned, so that the extras settle on the version that was tested
$(VENV)/.judge: $(VENV)/.made pyproject.toml Makefile
	$(BIN)/python -m pip install --quiet '$(TORCH)'
	$(BIN)/python -m pip install --quiet $(HEADERS) -e '.[judge]'
	touch $@

$(VENV)/.dev: $(VENV)/.judge
	$(BIN)/python -m pip install --quiet -e '.[judge,llm,hf,dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
