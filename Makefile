# skillcomp: every target makes the environment it needs. `make help` lists them.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
DATA   ?= data/pilot
OUT    ?= report
# a test starts dozens of programs: without compiled files each compiles the whole package anew
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help lab report test tests quick units lint bare outputs slow size check notebooks bench validate fuzz docs programs clean

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "skillcomp needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run-ready: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -e '.[all]'
	@touch $@

# cffconvert is taken without what it asks for: only its copy of the CITATION.cff schema is used,
# and it would hold jsonschema at a version that JupyterLab cannot live with.
$(VENV)/.dev-ready: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -e '.[all,docs,dev]'
	$(PIP) --no-deps cffconvert
	@touch $@ $(VENV)/.run-ready

report: $(VENV)/.run-ready  ## build report/index.html from the recorded study: no key, no network
	$(BIN)/skillcomp report --data $(DATA) --out $(OUT)

quick:  ## a first answer in three minutes: lint, types, layers, unit tests
	$(MAKE) --no-print-directory -j 2 lint units

units: $(VENV)/.dev-ready
	$(PYTEST) -q -m "not slow and not integration"

test:  ## lint, types, layers and all tests but the slow simulations
	$(MAKE) --no-print-directory -j 2 lint tests

tests: $(VENV)/.dev-ready
	$(PYTEST) -m "not slow"

# the files with tests that skip if bubblewrap, Chromium, claude, codex, node or git is missing,
# and those of the code that looks for a program
BARE := $(addprefix tests/test_,$(addsuffix .py,live_probe live_task_graders live_evaluate \
	live_programs live_cli_agent live_process case_pages cli package))
TOOLS := awk basename bash cat chmod cp cut date dirname echo env false find grep head id kill ln \
	ls mkdir mktemp mv nice nohup printf pwd rm rmdir sed sh sleep sort tail tee test timeout touch \
	tr true uname uniq wc xargs

bare: $(VENV)/.dev-ready  ## tests on a machine that has only Python and the tools of the shell
	rm -rf $(VENV)/tools && mkdir $(VENV)/tools
	for tool in $(TOOLS); do for folder in /bin /usr/bin; do \
		if [ -x $$folder/$$tool ]; then ln -sf $$folder/$$tool $(VENV)/tools/; fi; done; done
	PATH=$(CURDIR)/$(VENV)/tools:$(CURDIR)/$(BIN) SKILLCOMP_PROGRAMS= $(PYTEST) -q -m "not slow" $(BARE)

lint: $(VENV)/.dev-ready  ## lint, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check skillcomp tests benchmarks tools
	$(BIN)/mypy
	$(BIN)/lint-imports

# Not needed by any target: where npm is missing, the tests that drive the real programs say so.
programs: $(VENV)/.programs-ready  ## the real claude and codex of npm, for the tests that drive them

$(VENV)/.programs-ready: tests/programs/package.json | $(BIN)/python
	mkdir -p $(VENV)/programs && cp tests/programs/package.json $(VENV)/programs/
	npm install --prefix $(VENV)/programs --no-audit --no-fund --no-package-lock --loglevel=error
	@touch $@

outputs: $(VENV)/.dev-ready  ## chapters give their stored outputs; site, wheel, installs, JupyterLab
	$(BIN)/python -m pytest -q -n 2 --dist load -m slow \
		-k "a_new_run or test_docs or test_explore_jupyter or in_a_shell or half_the_price \
		or memory_of_a_worker or test_wheel or test_install" \
		tests/test_notebooks.py tests/test_docs.py tests/test_explore_jupyter.py \
		tests/test_live_inspect_task.py tests/test_howto_dask.py tests/test_wheel.py \
		tests/test_install.py

slow: $(VENV)/.dev-ready  ## the long simulations that `make test` leaves out
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow --timeout 3600

size: $(VENV)/.run-ready  ## tokens, lines, files and public names of the package
	@$(BIN)/python tools/size.py

check: $(VENV)/.run-ready  ## validate the recorded skills and suites
	$(BIN)/skillcomp check $(DATA)

lab: $(VENV)/.run-ready  ## open the notebooks in JupyterLab
	$(BIN)/jupyter lab notebooks

notebooks: $(VENV)/.run-ready  ## run every notebook from top to bottom and write its outputs
	$(BIN)/python tools/write_notebooks.py

bench: $(VENV)/.dev-ready  ## time skillcomp against its peers in the same run
	$(BIN)/python -m benchmarks

validate: $(VENV)/.dev-ready  ## coverage and error rates of every interval (QUICK=1: minutes)
	$(BIN)/python -m benchmarks.validity $(if $(QUICK),--quick,)

fuzz: $(VENV)/.dev-ready  ## long runs of the fuzzers that `make test` runs for a minute
	SKILLCOMP_FUZZ=long $(BIN)/python -m pytest -q -n 2 --dist worksteal --timeout 3600 tests/fuzz

docs: $(VENV)/.dev-ready  ## build site/html from the papers, the notebooks as stored and the docstrings
	rm -rf site docs/api
	$(BIN)/python -m sphinx -q -W --keep-going -c docs . site/html

clean:  ## remove what the targets made; what `make validate` worked out stays (CELLS=remove)
	rm -rf $(VENV) build site docs/api *.egg-info
ifeq ($(CELLS),remove)
	rm -rf $(OUT)
else
	@if [ -d $(OUT) ]; then find $(OUT) -type f -not -path '*/validity/cells/*' -delete; \
		find $(OUT) -depth -type d -empty -delete; fi
	@if [ -d $(OUT) ]; then echo "Kept: $(OUT)/validity/cells, hours of work; CELLS=remove takes them too."; fi
endif
