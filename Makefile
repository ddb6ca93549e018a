# Limpet. `make` or `make help` explains every target.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SEED   ?=
CONTACT?=
PLACE  := $(firstword $(subst /, ,$(patsubst http://%,%,$(patsubst https://%,%,$(firstword $(SEED))))))
HOST   := $(lastword $(subst @, ,$(PLACE)))
INTO   ?= $(if $(HOST),crawls/$(subst :,-,$(HOST)),crawl)
SERVERS?= .servers
FORM   ?=
WHICH  ?=

.DEFAULT_GOAL := help
.PHONY: help install crawl test test-slow test-rehearsals test-servers test-cluster test-cluster-three lint bench servers-fetch servers-up servers-status servers-down clean

help: ## show what each target does
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

install: $(BIN)/limpet ## make .venv with the `limpet` command

$(BIN)/limpet: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Limpet needs Python 3.11 or newer: make PYTHON=python3.12 install"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) 2>/dev/null || { echo "cannot make a virtual environment: on Debian or Ubuntu, apt-get install python3-venv"; exit 2; }
	@$(BIN)/pip install --quiet --disable-pip-version-check -e .
	@$(BIN)/python -m compileall -q services shared schemas # as pip does for a wheel: every process starts sooner
	@touch $(BIN)/limpet

$(VENV)/.test: pyproject.toml $(BIN)/limpet
	@$(BIN)/pip install --quiet --disable-pip-version-check "pip>=25.1"
	@$(BIN)/pip install --quiet --disable-pip-version-check --group test --group lint
	@touch $@

crawl: install ## crawl the small web that ships with Limpet into crawl/; SEED=https://… CONTACT=… a real site into crawls/HOST; INTO=folder
ifeq ($(SEED),)
	@PYTHONPATH=loadtest $(BIN)/python -m scenarios.demo --into $(INTO)
else
	@$(BIN)/limpet crawl $(foreach url,$(SEED),'$(url)') --into '$(INTO)' $(if $(CONTACT),--contact '$(CONTACT)')
endif

test: $(VENV)/.test ## the default suite, under 5 minutes on two cores
	@# the rehearsals count what they walked, which takes one process: it goes beside the others
	@log=$$(mktemp); $(BIN)/python -m pytest tests/crash tests/properties > $$log 2>&1 & crash=$$!; \
	trap 'kill $$crash' INT TERM; \
	$(BIN)/python -m pytest -n 4 --dist loadfile --ignore tests/crash --ignore tests/properties tests; code=$$?; \
	wait $$crash || code=1; cat $$log; rm -f $$log; exit $$code

test-slow: $(VENV)/.test ## the long proofs: real kills, real documentation, validators, large simulations
	@$(BIN)/python -m pytest -m slow --ignore tests/crash tests

test-rehearsals: $(VENV)/.test ## every death in every mode, nested, in every world: longer than CI has time for
	@$(BIN)/python -m pytest -m slow tests/crash

test-servers: $(VENV)/.test ## the cluster adapters on real servers, which it starts and kills: needs Java, Maven and 2 GB
	@$(BIN)/python -m pytest -m "servers and not slow" tests

test-cluster: $(VENV)/.test ## a crawl by all roles on real servers while everything dies, smoke and siege: Java, Maven, 6 GB
	@$(BIN)/python -m pytest -m servers --ignore tests/e2e/cluster/test_cluster_three.py tests/e2e/cluster

test-cluster-three: $(VENV)/.test ## the same with three brokers and three Cassandra nodes, each in turn killed: 8 GB
	@$(BIN)/python -m pytest -m servers tests/e2e/cluster/test_cluster_three.py

lint: $(VENV)/.test ## style, types, import contracts
	@$(BIN)/ruff check services shared schemas loadtest tests infra
	@$(BIN)/ruff format --check services shared schemas loadtest tests infra
	@$(BIN)/mypy
	@$(BIN)/lint-imports --config pyproject.toml

bench: $(VENV)/.test ## CPU per page, memory, start and resume times, each with its command; BENCH=--quick for a try
	@PYTHONPATH=loadtest $(BIN)/python -m scenarios.bench $(BENCH)

SERVE = @PYTHONPATH=infra/local $(BIN)/python -m servers
SERVE_WHAT = --folder $(SERVERS) $(if $(WHICH),--which $(WHICH))

servers-fetch: $(VENV)/.test ## fetch what servers-up starts, and start nothing: Java, Maven
	$(SERVE) fetch $(SERVE_WHAT)

servers-up: $(VENV)/.test ## real servers on loopback without containers; WHICH=kafka,… FORM=single|three SERVERS=folder
	$(SERVE) up $(SERVE_WHAT) $(if $(FORM),--form $(FORM))

servers-status: $(VENV)/.test ## which of them serve, on which ports
	$(SERVE) status $(SERVE_WHAT)

servers-down: $(VENV)/.test ## end them; their data stays in the folder
	$(SERVE) down $(SERVE_WHAT)

clean: ## remove what the targets above made, servers included
	@test ! -d $(SERVERS) || PYTHONPATH=infra/local $(PYTHON) -m servers down --folder $(SERVERS)
	@rm -rf $(SERVERS)
	@rm -rf $(VENV) $(INTO) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
