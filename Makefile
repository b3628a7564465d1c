# Every target says what it does: `make help`.

LINT    := .tools/bin/golangci-lint
# The NVML binding compiles the whole of a header, the deprecated parts too.
export CGO_CFLAGS ?= -g -O2 -Wno-deprecated-declarations
# What is compiled has no path of this clone in it: another clone with the same code finds it in Go's cache.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
# Built and not `go run`: it is make's own child then, and ends the tests when make is killed.
PROGRESS := .tools/bin/progress
BUILD_PROGRESS = go build -o $(PROGRESS) ./tools/progress
SCRIPTS  = $(shell grep -rlE '^\#!.*\b(ba)?sh$$' .ci scripts examples 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help demo quick test examples probes soak attacks mutants lint check bench tools build deb fmt clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## start a small cluster with simulated devices on this machine and rescale a job on it
	scripts/setup demo
	scripts/demo

quick: ## run the tests of the packages that only decide, and the rules of tools/arch: about a minute
	$(BUILD_PROGRESS)
	$(PROGRESS) quick

test: ## run every test: Go with the race detector, real processes included, the Python module and the examples
	scripts/setup test
	$(BUILD_PROGRESS)
	$(PROGRESS) test

examples: ## verify that the examples for torch, FSDP2, Lightning, accelerate, Hugging Face, DeepSpeed and JAX train the same when rescaled
	scripts/setup test
	scripts/setup examples
	$(MAKE) --no-print-directory build
	scripts/examples

probes: ## compare cold with warm starts by 162 scripts of one property each, on small clusters: about an hour
	scripts/setup test
	$(MAKE) --no-print-directory build
	python3 e2e/probes/run.py

soak: ## run tests for hours: 3,000 storms of each kind, everything three times with the race detector, the mutants
	scripts/setup test
	$(BUILD_PROGRESS)
	$(PROGRESS) soak

attacks: ## try what a hostile user could: the tests that docs/security.md lists (as root, they act as several users)
	scripts/setup test
	scripts/attacks

mutants: ## take each safety rule and each misfortune of the storms out and run the tests that must notice (about an hour)
	go run ./tools/mutants

lint: ## check the Go code, its formatting and the shell scripts
	scripts/setup lint
	shellcheck $(SCRIPTS)
	$(LINT) run

check: lint test ## all that a change has to pass

bench: ## measure what the README reports
	scripts/bench

tools: ## install the pinned linter into .tools/bin
	scripts/setup lint

build: ## build bin/bellows, the one program of a cluster, and bin/bellows-lab
	go build -buildvcs=auto -o bin/ ./cmd/bellows ./cmd/bellows-lab

deb: ## make a Debian package in dist/
	scripts/setup deb
	$(MAKE) --no-print-directory build
	scripts/deb

fmt: ## rewrite the Go code as lint wants it
	scripts/setup lint
	$(LINT) fmt

clean: ## remove what make built or linked here
	rm -rf bin dist .tools
