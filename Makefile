# Everything a person or CI runs here. Each target first makes .venv, from constraints.txt (pinned and hashed).
# Needs Python 3.11 or newer, make and git; PYTHON=python3.12 chooses the interpreter that .venv is made with.

PYTHON ?=
ARGS ?=
# Many tests wait for processes that they start. A file is one process's, so that what its tests share is made once; in their
# order, since the files of the fewest tests are among the longest.
PARALLEL := -n 3 --dist loadfile --no-loadscope-reorder
UV := 0.13.9
VENV := .venv/bin/python
INSTALLED := .venv/.installed
CLIENTS := build/clients
MODEL_SERVER := build/model-server
NODE_MODULES := tests/clients/node_modules/.package-lock.json

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help:  ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## */\t/' | expand -t 16

.PHONY: demo
demo: $(INSTALLED)  ## the proxy, an upstream that replays saved answers, and a few calls, all on this machine
	@.venv/bin/demur demo $(ARGS)

.PHONY: test
test: $(INSTALLED)  ## the tests, in three processes (ARGS="-k sse" for some of them, "-n 0" for one process)
	@$(VENV) -m pytest $(PARALLEL) $(ARGS)

.PHONY: test-node
test-node: $(INSTALLED) $(NODE_MODULES)  ## the tests with clients in Node (needs node 20 and npm)
	@$(VENV) -m pytest tests/clients/test_node.py tests/clients/test_node_docs.py tests/clients/test_docs.py -k node $(ARGS)

.PHONY: test-clients
test-clients: $(CLIENTS)/.installed $(NODE_MODULES) $(MODEL_SERVER)/.installed  ## every client and server, one of them compiled
	@$(CLIENTS)/bin/python -m pytest -W default tests/clients $(ARGS)  # what clients warn of is not ours

.PHONY: check
check: $(INSTALLED)  ## lint, format, types, import contracts
	$(VENV) -m ruff check
	$(VENV) -m ruff format --check
	$(VENV) -m mypy
	.venv/bin/lint-imports

.PHONY: format
format: $(INSTALLED)  ## repairs what the linter and the formatter can
	$(VENV) -m ruff check --fix
	$(VENV) -m ruff format

.PHONY: bench
bench: $(INSTALLED)  ## the proxy beside a bare pass-through and nginx, in one run
	@$(VENV) tests/bench/run.py $(ARGS)

.PHONY: fuzz
fuzz: $(INSTALLED)  ## bytes that nobody thought of, new ones each time (FUZZ_EXAMPLES=5000 of each kind)
	@FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-2000} $(VENV) -m pytest tests/wire/test_fuzz.py $(ARGS)

.PHONY: soak
soak: $(INSTALLED)  ## ten thousand mixed exchanges, cut at random at both ends: nothing may be left over
	@PYTHONPATH=tests $(VENV) -m wire.soak $(ARGS)

.PHONY: fit
fit: $(INSTALLED)  ## the classifier's numbers anew, from labelled JSON Lines: make fit ARGS="one.jsonl two.jsonl"
	@$(VENV) -m demur.audit.fit $(ARGS) --own tests/data/languages tests/data/wordings

.PHONY: wheel
wheel: $(INSTALLED)  ## the wheel, in dist/
	@rm -rf build/lib build/bdist.* dist
	@$(VENV) -m pip wheel -q --disable-pip-version-check --no-index --no-deps --no-build-isolation -w dist .
	@echo dist/*.whl

.PHONY: constraints
constraints: $(INSTALLED)  ## all pins anew from pyproject.toml and tests/clients/*.in (ARGS=--upgrade for the newest versions)
	@test -x build/uv/bin/uv || { $(VENV) -m venv build/uv && build/uv/bin/python -m pip install -q uv==$(UV); }
	$(COMPILE) pyproject.toml --all-extras --group dev -o constraints.txt $(ARGS)
	$(COMPILE) pyproject.toml --extra proxy tests/clients/requirements.in -o tests/clients/constraints.txt $(ARGS)
	$(COMPILE) tests/clients/model_server.in -o tests/clients/model_server.txt $(ARGS)
COMPILE = build/uv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -q

.PHONY: clean
clean:  ## removes what the other targets made
	rm -rf .venv build dist tests/clients/node_modules *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# The first of these names that is a Python 3.11 or newer. A name may exist and not run (a shim of a version manager).
PYTHONS := $(or $(PYTHON),python3 python3.13 python3.12 python3.11)
FIND_PYTHON = for python in $(PYTHONS); do \
	if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then break; fi; python=; done; \
	if [ -z "$$python" ]; then \
		echo "demur needs Python 3.11 or newer; none of these is one: $(PYTHONS). Name yours: make PYTHON=/path/to/python3" >&2; \
		exit 1; \
	fi

$(INSTALLED): pyproject.toml constraints.txt
	@$(FIND_PYTHON); \
	test -x $(VENV) || "$$python" -m venv .venv || { \
		echo "$$python can't make a virtual environment (on Debian: apt-get install python3-venv)" >&2; rm -rf .venv; exit 1; }
	@echo "installing into .venv (once)"
	@$(VENV) -m pip install -q --disable-pip-version-check --require-hashes -r constraints.txt
	@$(VENV) -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# What only `make test-clients` and `make test-node` need.

PIP_INSTALL := -m pip install -q --disable-pip-version-check

$(CLIENTS)/.installed: pyproject.toml tests/clients/constraints.txt
	@$(FIND_PYTHON); test -x $(CLIENTS)/bin/python || "$$python" -m venv $(CLIENTS)
	@echo "installing clients into $(CLIENTS) (once)"
	@$(CLIENTS)/bin/python $(PIP_INSTALL) --require-hashes -r tests/clients/constraints.txt
	@$(CLIENTS)/bin/python $(PIP_INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(MODEL_SERVER)/.installed: tests/clients/model_server.txt
	@$(FIND_PYTHON); test -x $(MODEL_SERVER)/bin/python || "$$python" -m venv $(MODEL_SERVER)
	@echo "compiling llama.cpp into $(MODEL_SERVER) (once; some minutes)"
	@CMAKE_ARGS="$(LLAMA_CPP)" $(MODEL_SERVER)/bin/python $(PIP_INSTALL) --require-hashes -r tests/clients/model_server.txt
	@touch $@

# Plain code for any CPU, without what reads images.
LLAMA_CPP := -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF

$(NODE_MODULES): tests/clients/package.json tests/clients/package-lock.json
	@command -v npm >/dev/null || { echo "clients in Node need node 20 or newer, with npm" >&2; exit 1; }
	@echo "installing clients into tests/clients/node_modules (once)"
	@cd tests/clients && npm ci --silent
	@touch $@
