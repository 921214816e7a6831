# Run `make` to see what there is. Everything uses the Python of the active virtual environment.
PYTHON ?= python

.DEFAULT_GOAL := help
.PHONY: help install check lint types test fuzz faults soak test-gpu bench bench-gpu accuracy rules-report samples pictures schema accept docs

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install:  ## Install the package for development, with CuPy where there is a GPU
	$(PYTHON) -m pip install -e ".[dev$$($(PYTHON) -m advisor.extras | tr "[]" ", ")]"

check: lint types test  ## Everything that must be clean before a commit

lint:  ## Style and formatting
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	@if command -v shellcheck >/dev/null; then shellcheck -x action/*.sh && shellcheck -S warning .ci/run .ci/nsys; fi
	@if command -v check-jsonschema >/dev/null; then \
		check-jsonschema --builtin-schema vendor.github-actions action.yml action/comment/action.yml; fi
	@if command -v actionlint >/dev/null; then $(PYTHON) -m pytest -q -n 0 tests/test_action.py -k actionlint; fi

types:  ## Static types, strict
	$(PYTHON) -m mypy

test:  ## All tests that need no GPU (layers, golden reports and browser among them)
	$(PYTHON) -m pytest

fuzz:  ## Damaged files, 100,000 of them; the other property tests with new examples each time
	ADVISOR_FUZZ=100000 ADVISOR_FUZZ_FIRST=$$(date +%s) $(PYTHON) -m pytest tests/test_fuzzed_files.py
	$(PYTHON) -m pytest --hypothesis-profile=fuzz $$(grep -l hypothesis tests/test_*.py)

faults:  ## The matrix of faults through the real command line, as a table
	$(PYTHON) -m tests.faults.matrix

soak:  ## 500 profiles in one folder; nothing may be left behind
	$(PYTHON) -m tests.soak 500

test-gpu:  ## The tests on a real CUDA GPU
	$(PYTHON) -m pytest -n 0 -m gpu tests/gpu tests/test_rules_snippets.py tests/test_docs.py

bench:  ## Benchmarks without a GPU, printed as ratios
	$(PYTHON) -m tests.benchmarks

bench-gpu:  ## Benchmarks on a CUDA GPU, printed as ratios
	$(PYTHON) -m tests.benchmarks --gpu

accuracy:  ## Compare the model with published figures and write the result (docs/accuracy.md, accuracy.json)
	$(PYTHON) -m tests.accuracy --write

rules-report:  ## Compare estimated gains with measured ones (docs/rules-report.md, from reports/h200)
	$(PYTHON) -m tests.rules_report --write

samples:  ## Regenerate the committed sample reports
	rm -f reports/no-gpu/vector_add/*.json reports/no-gpu/vector_add/report.html reports/no-gpu/vector_add/report.md
	$(PYTHON) -m advisor profile workloads/vector_add.py --no-gpu --out reports/no-gpu/vector_add
	$(PYTHON) -m tests.samples

pictures:  ## Take screenshots of the sample reports in Chromium
	$(PYTHON) -m tests.browser.pictures

docs:  ## Build the documentation as a site with search in site/
	$(PYTHON) -m mkdocs build --strict

schema:  ## Regenerate the published schema in docs/
	$(PYTHON) -m advisor.profiles.reading > docs/profile.schema.json

accept:  ## Accept the current reports as golden files
	$(PYTHON) -m pytest $$(grep -l "accepted: Accepted" tests/test_*.py) --accept
