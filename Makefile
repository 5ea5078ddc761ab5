# `make demo` and `make test` set up everything themselves: Python 3.11+ and make are all that has to be there.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

# Where the environment goes. `make test VENV=~/my-venv` uses (and completes) another one.
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.tpu-port-installed
# porter/constraints.txt was measured with 3.11; a Python without venv or ensurepip (some distributions split them off) is passed over.
PYTHONS ?= python3.11 python3.12 python3.13 python3
USABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))

# Commands and tests start many processes, each of which would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint format types tests long fast docs examples bench tpu buckets fuzz growth foreign wheel sbom hashes clean

demo: $(INSTALLED)
	mkdir -p demo
	$(BIN)/tpu-port examples/sft_lora_qwen3.py -o demo/sft_lora_qwen3_tunix.py --force
	$(BIN)/tpu-port validate examples/sft_lora_qwen3.py demo/sft_lora_qwen3_tunix.py --html demo/validate.html

test: lint types tests

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(INSTALLED)
	$(BIN)/mypy

tests: $(INSTALLED)
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m "not long"

# What make test leaves out: whole trainings in other styles, with other losses, on more meshes, with more mistakes, for more steps.
long: $(INSTALLED)
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m long

# Without the tests that train: seconds instead of minutes.
fast: $(INSTALLED)
	$(BIN)/python -m pytest -q -m "not real"

# The pages that are generated from the rules and tables.
docs: $(INSTALLED)
	$(BIN)/python -m porter.report.pages

# The ports that stand beside the examples.
examples: $(INSTALLED)
	$(BIN)/tpu-port examples/sft_lora_qwen3.py -o examples/sft_lora_qwen3_tunix.py --force
	$(BIN)/tpu-port examples/sft_lora_gemma3.py --launch-config examples/fsdp.yaml -o examples/sft_lora_gemma3_tunix.py --force
	$(BIN)/tpu-port examples/dpo_lora_qwen3.py -o examples/dpo_lora_qwen3_tunix.py --force
	rm -f examples/*.recipe.json

bench: $(INSTALLED)
	$(BIN)/python bench/port.py

# The proving ground on scripts of our own, one of each generation: each is ported and validated in its own releases.
truth: $(INSTALLED)
	$(BIN)/python bench/truth.py bench/generations --again --results /dev/null

# A small model of each family under the real TPU compiler: libtpu (about 200 MB) is part of the environment.
tpu: $(INSTALLED)
	$(BIN)/python -m pytest -q tests/tpu tests/real/test_tpu_compile.py

# Checkpoints in a bucket, behind a server of this machine: gcsfs and what it needs (80 MB) come into a folder beside.
buckets: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --target $(VENV)/gcsfs gcsfs
	PYTHONPATH=$(VENV)/gcsfs $(BIN)/python -m pytest -q tests/real/test_buckets.py

# Mutated scripts and broken files, drawn anew, for an hour at most; `make fuzz FUZZ=1000` for a shorter look.
FUZZ ?= 20000
fuzz: $(INSTALLED)
	$(BIN)/python bench/fuzz.py --examples $(FUZZ)

# Porting time against the length of a script; fails where it grows with more than N to the 1.5, or 100 kB take over 10 s.
growth: $(INSTALLED)
	$(BIN)/python bench/growth.py

# 300 files of other projects, by lot from the environment: unchanged, and none over a second (of an idle machine).
foreign: $(INSTALLED)
	$(BIN)/python bench/foreign.py

# The wheel, tried in an empty environment: it ports a script, its own rules pass, and it holds nothing else.
wheel: $(INSTALLED)
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(BIN)/python bench/wheel.py dist/*.whl

# What the tool is tested with, as CycloneDX: dist/sbom.cdx.json.
sbom: $(INSTALLED)
	$(BIN)/python bench/sbom.py dist/sbom.cdx.json

# The hashes of all files of porter/constraints.txt's pins, after these changed.
hashes: $(INSTALLED)
	head -2 constraints-hashes.txt > constraints-hashes.txt.new
	$(BIN)/uv pip compile porter/constraints.txt --quiet --generate-hashes --no-deps --no-annotate --no-header --python-version 3.11 >> constraints-hashes.txt.new
	mv constraints-hashes.txt.new constraints-hashes.txt

clean:
	rm -rf demo dist .mypy_cache .ruff_cache .pytest_cache

$(INSTALLED): pyproject.toml porter/constraints.txt
	@if [ ! -x $(BIN)/python ]; then \
	  for python in $(PYTHONS); do \
	    if "$$python" -c '$(USABLE)' >/dev/null 2>&1; then found="$$python"; break; fi; \
	  done; \
	  if [ -z "$${found:-}" ]; then \
	    echo "make: no Python 3.11 or newer with venv and ensurepip among: $(PYTHONS)" >&2; \
	    echo "      install one (Debian, Ubuntu: apt install python3 python3-venv), or: make PYTHONS=/path/to/python3" >&2; \
	    exit 1; \
	  fi; \
	  echo "$$found -m venv $(VENV)"; \
	  "$$found" -m venv $(VENV); \
	fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c porter/constraints.txt torch==2.13.0 -e '.[validate,dev,tpu-compile]'
	touch $@
