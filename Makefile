# The front door. A machine with Python >= 3.11 needs two commands: `make run` and `make test`.
# The stages and their budgets stand in scripts/ci.py; the targets here only name them.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup run test quick lint types arch docs docs-serve bench cluster chaos fmt pins clean

BASE = $$(scripts/find-python)
VENV = .venv/bin

help: ## print this list
	@echo "make TARGET, where TARGET is"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv with the pinned requirements (again: nothing to do, at once)
	@python=$(BASE) && "$$python" scripts/environment.py

run: setup ## the main job: the example order process, to its end, with its timeline
	@$(VENV)/python examples/order/main.py

test: ## everything that CI runs, stage by stage, with the seconds used
	@python=$(BASE) && "$$python" scripts/ci.py

quick: setup ## unit tests, property tests and layer contracts, in under a minute
	@$(VENV)/python scripts/ci.py quick

lint: setup ## style, format, dependencies, layers, house rules
	@$(VENV)/python scripts/ci.py lint

types: setup ## mypy, strict
	@$(VENV)/python scripts/ci.py types

arch: setup ## layer contracts and house rules only
	@$(VENV)/python scripts/ci.py arch

docs: setup ## the docs site, built and checked, in build/docs/site
	@$(VENV)/python scripts/ci.py docs

docs-serve: setup ## the docs site at localhost:8000, until Ctrl-C
	@$(VENV)/python scripts/docs.py --serve

bench: setup ## measure; prints figures and their ratio to plain commits
	@$(VENV)/python bench/run.py

cluster: setup ## 1,000 orders on a whole cluster on this machine, and what ran where
	@$(VENV)/python scripts/cluster.py

chaos: setup ## accidents of all kinds under 2,000 runs, an auditor, and how long recovery takes
	@$(VENV)/python scripts/chaos.py

fmt: setup ## format, and fix what can be fixed
	@$(VENV)/ruff check --fix --quiet || true
	@$(VENV)/ruff format

pins: setup ## write requirements/*.txt anew from pyproject.toml (needs uv)
	@$(VENV)/python scripts/pin.py

clean: ## remove the environments and what tools leave behind
	@rm -rf .venv .venv-newest .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  .import_linter_cache .coverage .coverage.* build dist
	@find src tests scripts bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
