# make train   see it work (some 6 minutes on 2 cores, with installing): train on the demo corpus, score, show a note before and after
# make test    run all tests
# make fuzz    attack it for a minute; for two hours, on other input: make fuzz FUZZ_SECONDS=7200 FUZZ_SEED=1
# All make .venv first and need nothing but Python 3.11 or newer (PYTHON=python3.12 names another one).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODEL := model
NOTE := 103-03
OUT := out
FUZZ_SECONDS := 60
FUZZ_SEED := 0

.PHONY: train test fuzz lint types notebooks clean

train: $(VENV)/installed
	@echo "From here on it takes about 6 minutes on 2 cores; a bar shows the time left."
	$(BIN)/ensemble-deid train demo --dev demo:dev --out $(MODEL) --folds 3 --set crf.max_iterations=40 --set neural.epochs=12
	@echo; echo "== Scores on notes of other patients =="
	$(BIN)/ensemble-deid evaluate demo:test $(MODEL)
	@echo; echo "== A note =="
	$(BIN)/ensemble-deid corpus convert data/demo/dev/$(NOTE).xml --out $(OUT)/before --format plain
	@echo; cat $(OUT)/before/$(NOTE).txt
	@echo; echo "== The same note with surrogates where PHI was =="
	$(BIN)/ensemble-deid deidentify $(MODEL) data/demo/dev/$(NOTE).xml --out $(OUT)/after --style surrogate
	@echo; cat $(OUT)/after/$(NOTE).txt

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest

fuzz: $(VENV)/installed-dev
	FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=$(FUZZ_SEED) $(BIN)/python -m pytest -m fuzz tests/fuzz

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/mypy

# Run the notebooks and keep what they print.
notebooks: $(VENV)/installed-dev
	$(BIN)/python notebooks/execute.py

clean:
	rm -rf $(VENV) $(MODEL) $(OUT) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Files, so that what is installed is not installed again, unless the requirements changed.
$(VENV)/installed: setup.cfg setup.py pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV); how long this takes depends on the connection."
	$(BIN)/pip install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/installed-dev: setup.cfg setup.py pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV); how long this takes depends on the connection."
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/installed
