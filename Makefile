# Every target installs what it needs. `make` lists them.
GO    ?= go
TOOL   = $(GO) tool -modfile=.ci/tools/go.mod
RACE   = ./engine/eval/... ./engine/mcts ./engine/arena ./engine/solver/... ./kernels/cpu/conv ./nn/net ./nn/train/... ./cmd/...
FUZZ  ?= 10s

.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/evald
	$(GO) build -o bin/evald ./cmd/evald

run: build ## evaluate a sample of positions
	./bin/evald eval cmd/evald/sample.txt --format table

test: ## run all tests, the concurrent packages also under the race detector
	$(GO) test ./...
	$(GO) test -race -short $(RACE)

fuzz: ## fuzz every parser for FUZZ (10s) each
	@for t in $$(grep -rlE '^func Fuzz' --include='*_test.go' .); do \
		for f in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' $$t); do \
			echo "$$f in $$t"; \
			$(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZ) -fuzzminimizetime 10x $$(dirname $$t) || exit 1; \
		done; \
	done

bench: build ## measure this machine, each figure beside its ceiling
	./bin/evald bench eval

lint: ## check formatting and run the static checks
	@unformatted=$$($(TOOL) gofumpt -l .); test -z "$$unformatted" || { echo "not formatted (gofumpt -w): $$unformatted"; exit 1; }
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	$(GO) mod tidy -diff

vuln: ## look for known vulnerabilities (needs vuln.go.dev)
	$(TOOL) govulncheck ./...

clean: ## remove what was built
	rm -rf bin

.PHONY: help build run test fuzz bench lint vuln clean
