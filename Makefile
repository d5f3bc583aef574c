# Walras. `make help` lists the targets; `make demo` and `make test` are the two that matter.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory
# Another project's environment must not be written into.
unexport VIRTUAL_ENV UV_PROJECT_ENVIRONMENT
# A run starts hundreds of processes; each of them would compile again all that it imports.
unexport PYTHONDONTWRITEBYTECODE

HOURS ?= 24
SEED ?= 1
OUT ?= out/demo
PYTEST_ARGS ?=
JUNIT_DIR ?=
BENCH_ARGS ?=
SECONDS ?= 300
EVENTS ?= 200000
DISTURBANCES ?= 48
DRAINS ?= 200
KILLS ?= 40
FUZZ_ARGS ?=

UV_VERSION := 0.13.9
PYTHON := $(shell command -v python3.11 || command -v python3 || echo python3)
# The uv of that version on PATH, else one of our own.
UV := $(shell [ "$$(uv --version 2>/dev/null | cut -d' ' -f2)" = "$(UV_VERSION)" ] && echo uv || echo .tools/bin/uv)
RUN := $(UV) run --no-sync
CACHE := $(or $(WALRAS_CACHE_DIR),.cache)

# Each stamp lies in what it vouches for, so that removing that removes the stamp.
UV_STAMP := $(if $(filter uv,$(UV)),,.tools/.uv-$(UV_VERSION))
ENVIRONMENT := .venv/.walras-environment
BROKER := $(CACHE)/.walras-broker

MANIFESTS := pyproject.toml uv.lock $(wildcard libs/*/pyproject.toml services/*/pyproject.toml) \
             deploy/launcher/pyproject.toml cli/pyproject.toml
CLEARING := libs/clearing/src/walras_clearing
KERNEL := libs/clearing/setup.py $(wildcard $(CLEARING)/*.pyx $(CLEARING)/*.pxd $(CLEARING)/*.h)
MODULES := $(basename $(notdir $(wildcard $(CLEARING)/*.pyx)))
LAUNCHER := $(wildcard deploy/launcher/src/walras_launcher/data/*) deploy/launcher/src/walras_launcher/versions.py \
            deploy/launcher/src/walras_launcher/preparation.py
TYPED := libs services deploy/launcher cli tests
# Sources of all members, and what pytest's `pythonpath` adds: mypy must name modules as imports do.
space := $(subst ,, )
TYPE_PATH := $(subst $(space),:,$(strip $(wildcard libs/*/src services/*/src) cli/src deploy/launcher/src))
GENERATED := schemas docs/dataflow.md README.md

.PHONY: help setup demo demo-nodes test test-long chaos-billing chaos-drains verify fmt lint types imports generated tidy generate bench bench-billing bench-placement compare-policies bench-clearing fuzz asan cov-pyx up down doctor clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- what everything else needs -------------------------------------------------------------------

setup: $(ENVIRONMENT) $(BROKER) ## uv, the Python environment, the kernel, the broker's jars; nothing where it is all there
	@:

.tools/.uv-$(UV_VERSION):
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "setup: Walras needs Python 3.11; '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1 || true)." >&2; \
	  echo "       Install python3.11 (with its venv module) and try again." >&2; exit 1; }
	@echo "setup: installing uv $(UV_VERSION) into .tools (a few seconds, once)"
	@"$(PYTHON)" -m venv .tools
	@.tools/bin/python -m pip install --quiet --disable-pip-version-check "uv==$(UV_VERSION)"
	@rm -f .tools/.uv-*
	@touch $@

# The stamp vouches for the compiled modules too, which lie elsewhere.
ifneq ($(strip $(foreach module,$(MODULES),$(if $(wildcard $(CLEARING)/$(module).cpython-311-*.so),,missing))),)
.PHONY: $(ENVIRONMENT)
endif

$(ENVIRONMENT): $(MANIFESTS) $(KERNEL) | $(UV_STAMP)
	@echo "setup: making the Python environment and compiling the clearing kernel (about half a minute the first time)"
	@$(UV) sync --all-packages --locked
	@if ! $(RUN) python -c 'import walras_clearing' >/dev/null 2>&1; then \
	  echo "setup: the kernel is not there or stale; compiling it again"; \
	  $(UV) sync --all-packages --locked --reinstall-package walras-clearing; \
	  $(RUN) python -c 'import walras_clearing'; \
	fi
	@touch $@

$(BROKER): $(LAUNCHER) | $(ENVIRONMENT)
	@if [ -n "$${WALRAS_KAFKA_BOOTSTRAP:-}" ]; then \
	  echo "setup: WALRAS_KAFKA_BOOTSTRAP names a broker; none is prepared here"; \
	else \
	  echo "setup: getting Apache Kafka ready (about 20 s, once)"; \
	  if $(RUN) python -m walras_launcher prepare; then mkdir -p $(CACHE) && touch $@; \
	  elif docker info >/dev/null 2>&1; then echo "setup: going on with the Docker engine that answers"; \
	  else echo "setup: no broker can run here; 'make doctor' says what is missing and how to get it" >&2; exit 1; fi; \
	fi

# --- the two commands -----------------------------------------------------------------------------

demo: setup ## replay a real cluster trace through the market: HOURS=24 SEED=1 OUT=out/demo
	@$(RUN) walras demo --hours $(HOURS) --seed $(SEED) --out $(OUT)

demo-nodes: OUT = out/demo-nodes
demo-nodes: setup ## three agents, real training processes, a price spike, a drain: OUT=out/demo-nodes
	@$(RUN) walras demo-nodes --out $(OUT)

# Both phases of a test target, files spread over two processes, or three where they wait for brokers; $(1) narrows
# the two selections. A phase in which PYTEST_ARGS selects nothing is passed over, but not both. JUNIT_DIR is a folder
# for one JUnit report a phase.
define two_phases
@ran=0; \
phase() { \
  local status=0; \
  echo "$@: $$1"; \
  $(RUN) python -m pytest -n $$4 --dist loadfile -m "$$2" $(if $(JUNIT_DIR),--junitxml=$(JUNIT_DIR)/$$3.xml) $(PYTEST_ARGS) || status=$$?; \
  if [ $$status -eq 0 ]; then ran=1; \
  elif [ $$status -eq $(if $(strip $(PYTEST_ARGS)),5,0) ]; then echo "$@: nothing is selected here"; \
  else exit $$status; fi; \
}; \
phase "1 of 2, what needs no broker" "not broker$(1)" without-broker 2; \
phase "2 of 2, on real Kafkas and Redis" "broker$(1)" with-broker 3; \
if [ $$ran -eq 0 ]; then echo "$@: PYTEST_ARGS selects no test at all" >&2; exit 5; fi
endef

test: setup ## all tests but the slow ones, on a real Kafka and Redis
	$(call two_phases, and not slow)

test-long: export WALRAS_HYPOTHESIS_PROFILE := $(or $(WALRAS_HYPOTHESIS_PROFILE),long)
# Forty times as many examples as usual: a test without a bound of its own may take an hour.
test-long: export PYTEST_TIMEOUT := $(or $(PYTEST_TIMEOUT),3600)
test-long: setup ## all tests, the exhaustive and the chaos runs too
	@echo "test-long: the slow ones too; this takes about forty minutes"
	$(call two_phases)

chaos-billing: setup ## billing on a real Kafka while everything around it breaks: SEED=1 EVENTS=200000 DISTURBANCES=48
	@$(RUN) python -m tests.chaos --seed $(SEED) --events $(EVENTS) --disturbances $(DISTURBANCES)

chaos-drains: setup ## drains of real processes while agents, services and the broker are killed: SEED=1 DRAINS=200 KILLS=40
	@$(RUN) python -m tests.chaos_drains --seed $(SEED) --drains $(DRAINS) --kills $(KILLS)

# --- checks ---------------------------------------------------------------------------------------

verify: lint types imports generated tidy ## format, lint, types, import rules, generated files, rules of the tree
	@echo "verify: all good"

fmt: $(ENVIRONMENT) ## format the code and repair what ruff can repair
	@$(RUN) ruff format .
	@$(RUN) ruff check --fix .

lint: $(ENVIRONMENT) ## ruff (format and rules) and cython-lint
	@echo "verify: formatting and lint"
	@$(RUN) ruff format --check .
	@$(RUN) ruff check .
	@$(RUN) cython-lint --max-line-length 100 libs/clearing/src

types: $(ENVIRONMENT) ## mypy --strict over all packages and tests
	@echo "verify: types (about a minute from cold)"
	@MYPYPATH=$(TYPE_PATH) $(RUN) mypy --strict --exclude '(^|/)build/' $(TYPED)
	@$(RUN) mypy --strict conftest.py

imports: $(ENVIRONMENT) ## who may import whom (.importlinter)
	@echo "verify: import rules"
	@$(RUN) lint-imports --no-logo

generated: $(ENVIRONMENT) ## whether schemas and drawings are what the models and topics.toml say
	@echo "verify: generated files"
	@$(RUN) python -m walras_contracts.generate --check
	@if [ "$${CI:-}" = true ] && [ -e .git ] && [ -n "$$(git status --porcelain -- $(GENERATED))" ]; then \
	  echo "verify: generated files are not committed:" >&2; git status --short -- $(GENERATED) >&2; exit 1; fi

tidy: $(ENVIRONMENT) ## the rules of the tree (tests/tidy)
	@echo "verify: rules of the tree"
	@$(RUN) python -m pytest -q tests/tidy

generate: $(ENVIRONMENT) ## write schemas, tables and drawings from the models and topics.toml
	@$(RUN) python -m walras_contracts.generate

bench: setup ## events per second and barrier-to-quota times, with this machine's description
	@$(RUN) python -m tests.performance.bench $(BENCH_ARGS)

bench-billing: setup ## billing against its bounds and rivals, about twenty minutes
	@$(RUN) python -m tests.performance.billing_bench $(BENCH_ARGS)

bench-placement: setup ## plans of a fleet, drains of real jobs, what an agent costs; about eight minutes
	@$(RUN) python -m tests.performance.placement_bench $(BENCH_ARGS)

compare-policies: OUT = out/policies
compare-policies: setup ## the trace under each rounding policy, with and without retention: HOURS=24 SEED=1 OUT=out/policies
	@$(RUN) python -m tests.performance.policy_compare --hours $(HOURS) --seed $(SEED) --out $(OUT)

# --- the clearing core ----------------------------------------------------------------------------

bench-clearing: $(ENVIRONMENT) ## the clearing core against its bounds and rivals, about ten minutes
	@$(RUN) python -m libs.clearing.benchmarks $(BENCH_ARGS)

fuzz: $(ENVIRONMENT) ## mutated instances into `walras clear`, for SECONDS=300
	@$(RUN) python -m libs.clearing.fuzz --seconds $(SECONDS) $(FUZZ_ARGS)

asan: $(ENVIRONMENT) ## the compiled tests of the clearing core under address and undefined-behaviour sanitizers
	@$(RUN) python -m libs.clearing.fuzz.sanitized

cov-pyx: $(ENVIRONMENT) ## which lines of the compiled sources the tests run
	@$(RUN) python -m libs.clearing.fuzz.line_coverage

# --- servers --------------------------------------------------------------------------------------

up: setup ## Kafka and Redis in the foreground until Ctrl-C (or `make down` from elsewhere)
	@mkdir -p $(CACHE)
	@echo $$$$ > $(CACHE)/up.pid; exec .venv/bin/python -m walras_launcher up

down: ## stop the servers that `make up` started
	@pid=$$(cat $(CACHE)/up.pid 2>/dev/null || true); \
	if [ -n "$$pid" ] && tr '\0' ' ' < "/proc/$$pid/cmdline" 2>/dev/null | grep -q 'walras_launcher up'; then \
	  kill "$$pid"; echo "down: stopped"; else echo "down: nothing is up"; fi; rm -f $(CACHE)/up.pid

doctor: $(ENVIRONMENT) ## what this machine has, what is missing, how to get it
	@$(RUN) walras doctor

clean: ## remove what builds, checks and runs left; keeps the environment and the broker's jars
	@rm -rf out build libs/clearing/build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find libs services deploy cli tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove the environment, uv and the broker's jars as well
	@rm -rf .venv .tools .cache
