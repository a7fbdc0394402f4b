# Everything here is a shorthand: with nothing but Go, `go run ./cmd/millrace`
# starts the server and `go test ./...` runs the quick tier of the tests. docs/testing.md
# says what make test adds.

GO       ?= go
BIN      := $(CURDIR)/bin
comma    := ,
LINT     := $(BIN)/golangci-lint
LINT_VER := v2.14.0
SBOM     := $(BIN)/cyclonedx-gomod
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT   ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null)
LDFLAGS  := -s -w -X millrace/internal/cli.version=$(VERSION) -X millrace/internal/cli.commit=$(COMMIT)

# What the race detector watches: everything that starts goroutines.
RACE := ./internal/... ./cmd/...

# What the inner loop runs: all that is quick, without the simulation, the nodes of a cluster and real processes.
QUICK := ./internal/auth ./internal/commitlog/... ./internal/config ./internal/dialect/... ./internal/engine/... \
	./internal/job ./internal/metrics ./internal/record ./internal/replica ./internal/store ./internal/store/memstore \
	./internal/tidy ./internal/web

SEED  ?=
RUNS  ?=
T     ?= 10m
HOLD  ?= 4s
KILLS ?= 200
JOBS  ?= 10000000
BENCH ?=
PEERS ?=

.DEFAULT_GOAL := help
.PHONY: help build deb release quick test installed clients browser examples otlp kubernetes docs site screenshots race lint fmt sim plants fuzz hostile bystander system torture soak soak-cluster bench results bench-peers bench-cluster bench-keyed profile scale cover tools check clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## the static binary, bin/millrace
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/millrace ./cmd/millrace

deb: ## the Debian package, into dist; needs dpkg-deb
	packaging/debian/build.sh dist

release: $(SBOM) ## archives and packages for all platforms, SBOMs and checksums, into dist/release; docs/releasing.md
	GO=$(GO) SBOM=$(SBOM) packaging/release.sh dist/release

quick: ## the tests of the inner loop, half a minute
	$(GO) test $(QUICK)

test: installed ## all tests, long ones whole: also the real binary under kill -9, clients, browser, documents
	TEST_TIER=full $(GO) test ./...
	$(MAKE) --jobs=2 --output-sync=target clients browser examples kubernetes otlp

# One after the other, because only one can use apt-get. Called a second time, each finds everything there.
installed:
	test/monitoring/install.sh
	test/clients/install.sh
	test/browser/install.sh
	test/docs/install.sh

clients: ## other people's client libraries against the real binary; installs what they need
	test/clients/install.sh
	cd test/clients && $(GO) test -count=1 -parallel 8 ./...

browser: ## the web UI in a real browser against the real binary; installs what that needs
	test/browser/install.sh
	cd test/browser && $(GO) test -count=1 ./...

examples: ## every shell example of the documents against the real binary; installs what they need
	test/docs/install.sh
	cd test/docs && $(GO) test -count=1 ./...

otlp: ## spans of the real binary in a real OpenTelemetry collector
	cd test/otlp && $(GO) test -count=1 ./...

kubernetes: ## the manifests of packaging/kubernetes by the types of the Kubernetes API
	cd test/kubernetes && $(GO) test -count=1 ./...

docs: ## write the generated references again: configuration, example file, commands, the OpenAPI document
	$(GO) test ./internal/config ./internal/cli ./internal/api/openapi -count=1 -run '^(TestExampleFile|TestReference)$$' -args -update

site: ## the documents as a site with search and navigation, into dist/site; needs mkdocs
	packaging/site/build.sh dist/site

screenshots: build ## pictures of the main pages of a demo, into docs/screenshots
	test/browser/install.sh
	mkdir -p docs/screenshots
	cd test/browser && node screenshots.mjs $(BIN)/millrace ../../docs/screenshots

race: ## the same under the race detector, without the tests of the binary
	TEST_TIER=full $(GO) test -race -timeout 30m $(RACE)

lint: $(LINT) ## golangci-lint with .golangci.yml
	$(LINT) run ./...
	cd test/clients && $(LINT) run ./...
	cd test/browser && $(LINT) run ./...
	cd test/docs && $(LINT) run ./...
	cd test/kubernetes && $(LINT) run ./...
	cd test/peers && $(LINT) run ./...

fmt: $(LINT) ## format every file
	$(LINT) fmt ./...

sim: ## simulate whole lifetimes against the naive model; SEED= repeats one, RUNS= says how many
	TEST_TIER=full $(GO) test ./internal/sim/... -count=1 -timeout 0 -run '^TestSim' -v -args $(if $(SEED),-sim.seed=$(SEED) -sim.runs=$(or $(RUNS),1),$(if $(RUNS),-sim.runs=$(RUNS)))

plants: ## plant every bug of internal/plant, one at a time: the test that is named for it must fail
	TEST_TIER=full $(GO) test ./test/plants -count=1 -timeout 0 -v -args -plants.all

fuzz: ## every fuzz target for T=10m
	GO=$(GO) test/fuzz.sh $(T)

hostile: build ## hostile clients on every listener: ROUNDS=5 of HOLD=4s for each kind of attack; writes docs/lab/reliability.md
	TEST_TIER=full $(GO) test ./test/hostile -count=1 -timeout 0 -v -args -hostile.bin=$(BIN)/millrace -hostile.time=$(HOLD) \
		-hostile.rounds=$(or $(ROUNDS),5) -hostile.floor=0 -hostile.report=$(CURDIR)/docs/lab/reliability.md

bystander: build ## what others feel of commands on much that is stored: SCALE=1,10 times the sizes; writes docs/lab/reliability.md
	TEST_TIER=full $(GO) test ./test/hostile -count=1 -timeout 0 -v -run TestBystanders -args -hostile.bin=$(BIN)/millrace \
		-bystander.scale=$(or $(SCALE),1$(comma)10) -bystander.report=$(CURDIR)/docs/lab/reliability.md

system: ## the black-box tests with KILLS=200 crashes
	TEST_TIER=full $(GO) test ./test/system -count=1 -timeout 0 -v -args -kills=$(KILLS)

torture: KILLS = 1000
torture: build ## KILLS=1000 crashes under clients of all protocols, histories, batches, FAULTS=500 of a cluster (writes docs/lab/reliability.md), then spoilt disks
	TEST_TIER=full $(GO) test ./test/torture -count=1 -timeout 0 -v -run 'TestKill|TestLinearizable|TestBonds' -args \
		-bin=$(BIN)/millrace -kills=$(KILLS) -after=5s -rounds=$(or $(ROUNDS),100) -bondkills=$(or $(BONDKILLS),200) -report=$(CURDIR)/docs/lab/reliability.md $(if $(SEED),-seed=$(SEED))
	TEST_TIER=full $(GO) test ./test/torture -count=1 -timeout 0 -v -run 'TestCluster' -args -bin=$(BIN)/millrace -clusterfaults=$(or $(FAULTS),500) \
		-clusterrounds=$(or $(ROUNDS),100) -report=$(CURDIR)/docs/lab/reliability.md $(if $(SEED),-seed=$(SEED))
	TEST_TIER=full $(GO) test ./test/faults -count=1 -timeout 0 -v -args -faults.seed=$(or $(SEED),1) \
		-faults.flips=10000 -faults.tears=5000 -faults.errors=40 -faults.power=900 -faults.backups=10

soak: T = 1h
soak: build ## T=1h of mixed load with a kill every minute: memory, latency and disk stay flat; writes docs/lab/reliability.md
	TEST_TIER=full $(GO) test ./test/torture -count=1 -timeout 0 -v -run TestSoak -args -bin=$(BIN)/millrace -soak=$(T) -report=$(CURDIR)/docs/lab/reliability.md

soak-cluster: T = 1h
soak-cluster: build ## T=1h of load on three nodes with a fault every minute: memory, log and disk stay flat; writes docs/lab/reliability.md
	TEST_TIER=full $(GO) test ./test/torture -count=1 -timeout 0 -v -run TestClusterSoak -args -bin=$(BIN)/millrace -soak=$(T) -report=$(CURDIR)/docs/lab/reliability.md

bench: ## figures of all protocols as ratios to a server that does nothing, in one run of half an hour; BENCH='-protocols workq' does a part
	$(GO) test ./internal/engine/machine -run '^$$' -bench . -benchmem
	$(GO) run ./test/bench all -duration 500ms $(BENCH)

results: ## measure this commit on this machine, alone for half an hour: docs/lab/results.json, and the tables made from it; RESULTS='-short -out= -publish=' is a trial
	test/peers/install.sh $(BIN)/peers
	$(GO) run ./test/bench results -bin $(BIN)/peers -out docs/lab/results.json -publish $(CURDIR) $(RESULTS)

bench-peers: ## the same work on other servers, next to Millrace; installs what that needs; PEERS='-peers faktory -sizes 100,4096' does a part
	test/peers/install.sh $(BIN)/peers
	$(GO) run ./test/bench peers -bin $(BIN)/peers $(PEERS)

bench-cluster: ## three nodes next to a single one, 100 kills of the leader; CLUSTER='-kills 3' does less
	$(GO) run ./test/bench cluster $(CLUSTER)

bench-keyed: ## pushes per second around the death of a leader that has JOBS=10000000 jobs with keys
	$(GO) run ./test/bench keyed -jobs=$(JOBS) $(KEYED)

profile: ## measure anew what the compiler optimises for, cmd/millrace/default.pgo: all protocols, three minutes
	rm -rf $(BIN)/profiles
	$(GO) run ./test/bench wire -modes fsync,interval -conns 32 -rounds 1 -duration 3s -special '' -profiles $(BIN)/profiles
	$(GO) tool pprof -proto $(BIN)/profiles/*.prof > cmd/millrace/default.pgo

scale: ## JOBS=10000000 jobs, 100,000 queues, 10,000 connections: memory, order, restart, disk
	$(GO) run ./test/bench scale -jobs=$(JOBS)
	TEST_TIER=full $(GO) test ./test/system -count=1 -timeout 0 -v -run TestIdle -args -conns=10000

cover: ## coverage by package and in total
	TEST_TIER=full $(GO) test -coverpkg=./internal/... -coverprofile=coverage.out ./internal/...
	$(GO) tool cover -func=coverage.out | tail -1

tools: $(LINT) ## the pinned tools, into bin

$(LINT): $(BIN)/.golangci-lint-$(LINT_VER)
$(BIN)/.golangci-lint-$(LINT_VER):
	GOBIN=$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VER)
	@touch $@

$(SBOM): packaging/sbom/go.mod packaging/sbom/go.sum
	cd packaging/sbom && $(GO) build -o $@ github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

check: fmt lint race test ## what must be green before a commit lands

clean: ## remove what these targets made
	rm -rf $(BIN) dist coverage.out test/clients/node/node_modules test/browser/node_modules
