# signpost: what a person types. `make help` lists the targets.

GO        ?= go
FUZZTIME  ?= 10s
BENCH     ?= .
BENCHTIME ?= 1s
COUNT     ?= 1
PACKETS   ?= 10000000
LINT      := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS   := -X main.version=$(VERSION)

.DEFAULT_GOAL := help
.PHONY: build run test check lint fmt fuzz flood integration integration-ipvs integration-kube bench bench-dns lab lab-exec lab-down clean help

build: ## build bin/signpost and bin/echo (the examples' backend)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

run: build ## try it: Services on loopback from examples/quickstart, no root, no cluster
	@examples/quickstart/run.sh

test: ## run every test, with the race detector (some need root and say so)
	$(GO) test -race -shuffle=on -count=$(COUNT) ./...

check: lint ## format, vet and lint; changes nothing
	$(GO) mod tidy -diff
	$(GO) vet ./...

lint:
	$(LINT) run ./...

fmt: ## format the code
	$(LINT) fmt ./...

fuzz: ## run every fuzz target for FUZZTIME (10s) each, and name those that failed at the end
	@failed=; for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "fuzzing $$pkg $$target for $(FUZZTIME)"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5x $$pkg || failed="$$failed $$pkg.$$target"; \
		done; \
	done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi

flood: build ## send PACKETS (10 million) random, malformed and valid datagrams to signpost, a few minutes of load
	FLOOD=$(PACKETS) SIGNPOST='$(CURDIR)/bin/signpost' $(GO) test -count=1 -v -timeout 15m ./integration/flood

integration: build ## run the tests of the built binary and of real kernels; needs root, skips nothing
	REQUIRE_KERNEL=1 $(GO) test -count=$(COUNT) -v ./integration/... ./vip/...

integration-ipvs: ## run the tests of IPVS in a guest kernel that has it; builds that the first time (10 minutes)
	GO='$(GO)' COUNT=$(COUNT) integration/guest/test.sh

integration-kube: build ## run the tests against a real API server; builds that the first time (5 minutes); needs root
	KUBEAPI=$$(GO='$(GO)' integration/kubeapi/build.sh) && KUBEAPI=$$KUBEAPI REQUIRE_KUBE=1 SIGNPOST='$(CURDIR)/bin/signpost' $(GO) test -count=$(COUNT) -v -timeout 10m ./integration/kube

bench: ## run the benchmarks BENCH (.) for BENCHTIME (1s) each, COUNT times, for benchstat
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem -count=$(COUNT) ./...

bench-dns: build ## compare with CoreDNS and with a bare loop, BENCHDNS=-short for a minute of it; needs dnsperf
	$(GO) run ./integration/bench-dns $(BENCHDNS)

lab: build ## start a small cluster out of network namespaces and say what to try; needs root
	$(GO) run ./integration/lab/cmd/lab up $(LABFLAGS)

lab-exec: ## run a command in a lab host: make lab-exec HOST=pod-a CMD='curl -s 10.96.0.80'
	@$(GO) run ./integration/lab/cmd/lab exec $(HOST) -- $(CMD)

lab-down: ## stop the lab and remove its namespaces
	$(GO) run ./integration/lab/cmd/lab down

clean: ## remove what was built and what `make run` keeps
	rm -rf bin .run

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'
