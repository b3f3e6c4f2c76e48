# The habits of this project, each one line: make quickstart · test · torture · lint · docs · results · bench · clean
PYTHON ?= python3
BIN := .venv/bin

.PHONY: quickstart test torture lint docs results bench clean

quickstart: .venv/quickstart.ready  ## the paper's network, Max-Min beside Softmax, on 4,000 digits, with a report
	@$(BIN)/maxmincaps quickstart

test: .venv/dev.ready lint  ## lint, types, import layers and all tests
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest  # two processes side by side, a thread each

torture: .venv/dev.ready  ## the long version of the fault tests; its figures go into docs/reliability.md
	@MAXMINCAPS_TORTURE=1 $(BIN)/python -m pytest tests/faults

lint: .venv/dev.ready
	@$(BIN)/ruff check && $(BIN)/ruff format --check && $(BIN)/pyrefly check && $(BIN)/lint-imports

docs: .venv/dev.ready  ## the documentation, into site/; a warning is an error
	@$(BIN)/zensical build --clean --strict

results: .venv/dev.ready  ## the report of the committed records, and its tables and figures in the pages
	@rm -rf results/report
	@$(BIN)/maxmincaps report results --out results/report
	@$(BIN)/python docs/fill.py

bench: .venv/dev.ready  ## our step beside a textbook's, each in its own process
	@$(BIN)/maxmincaps bench

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis dist site

.venv/quickstart.ready: EXTRAS := data,report,app
.venv/dev.ready: EXTRAS := dev
.venv/%.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "maxmincaps needs Python 3.11 or newer; try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing maxmincaps[$(EXTRAS)] into .venv (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@
