# Warren's tasks. `make help` lists them. A task that needs programs, images or packages gets them by itself; what
# outlives a checkout is kept in a cache outside it (WARREN_CACHE).

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# VERSION of the program.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# IMAGE that `make image` names its archive after; the tag is the one that the chart asks for.
IMAGE ?= warren-mq/warren:$(shell sed -n 's/^appVersion: //p' charts/warren/Chart.yaml)
# NODES of the local Kubernetes, for demo and e2e.
NODES ?=
# CLUSTER that demo and e2e run on: local (made by hack/local), kind, or current (the current kubeconfig context).
CLUSTER ?=
export NODES CLUSTER
# RACE=-race runs all unit tests with the race detector, which compiles Kubernetes' libraries a second time. Without it
# only the broker packages and the client's modules have it, if there is the C compiler that it needs: they are where
# goroutines meet.
RACE ?=
DETECTOR := $(if $(shell command -v cc),-race)
RACED := $(if $(RACE),,$(if $(DETECTOR),./internal/broker/...))
# ARGS are further arguments of go test.
ARGS ?=

LOCAL := go run ./hack/local
TOOL = $$($(LOCAL) tools --path $(1))
# MODULES that have unit tests of their own: the program, the client library, and what adapts it to other libraries.
CLIENT_MODULES := $(patsubst %/go.mod,%,$(wildcard client/go.mod client/*/go.mod))
MODULES := . $(CLIENT_MODULES)
TAGS := api browser broker e2e
OUT := out

##@ Build

.PHONY: build
build: ## Build the static program bin/warren
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$(VERSION)" -o bin/warren .

.PHONY: image
image: build ## Write the image of bin/warren to out/warren.tar (docker-archive)
	@mkdir -p $(OUT)
	$(LOCAL) image --binary bin/warren --tag $(IMAGE) -o $(OUT)/warren.tar

.PHONY: generate
generate: ## Generate deep copies, CRDs, RBAC, and their copies in the chart
	$(call TOOL,controller-gen) object:headerFile=hack/boilerplate.go.txt paths=./api/...
	$(call TOOL,controller-gen) crd:allowDangerousTypes=true paths=./api/... output:crd:dir=config/crd
	$(call TOOL,controller-gen) rbac:roleName=warren paths=./controllers/... output:rbac:dir=config/rbac
	charts/sync

.PHONY: clean
clean: ## Remove what was built in this checkout; caches outside it stay
	rm -rf bin $(OUT)

##@ Check

.PHONY: verify
verify: verify-generate verify-tidy verify-text vet lint verify-rules verify-chart verify-manifests ## Check all that needs no cluster: generated files, format, lint, chart, samples
	@echo "verify: all is well"

.PHONY: lint
lint: ## Run golangci-lint
	@linter=$(call TOOL,golangci-lint); for module in $(MODULES); do \
		echo "golangci-lint run ./... ($$module)"; (cd $$module && $$linter run ./...) || failed=1; \
	done; [ -z "$$failed" ]

.PHONY: vet
vet: ## Check the format, and run go vet without and with the tests' build tags
	@unformatted=$$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi
	@for module in $(MODULES); do for tag in none $(TAGS); do \
		echo "go vet -tags $$tag ./... ($$module)"; (cd $$module && go vet -tags $$tag ./...); \
	done; done

.PHONY: verify-generate
verify-generate: ## See that generated files are up to date
	@hack/verify/generated

.PHONY: verify-tidy
verify-tidy: ## See that go.mod and go.sum are tidy
	@for module in $(MODULES); do echo "go mod tidy -diff ($$module)"; (cd $$module && go mod tidy -diff); done

.PHONY: verify-text
verify-text: ## See that no file holds a path of a machine, a private address or an unfinished note
	@hack/verify/text

.PHONY: verify-rules
verify-rules: ## Plant a violation of each house rule and see that the linter finds it
	go run ./hack/verify/rules --linter $(call TOOL,golangci-lint)

.PHONY: verify-chart
verify-chart: ## Lint the chart and render it with many values
	@HELM=$(call TOOL,helm) hack/verify/chart

.PHONY: verify-manifests
verify-manifests: ## Have a real API server check the samples, the kustomize default and the chart's output
	@export KUBEBUILDER_ASSETS=$$($(LOCAL) assets) HELM=$(call TOOL,helm); go run ./hack/verify/manifests

##@ Test

.PHONY: test
test: ## Run every test: unit, browser, API server, broker, end to end
	@hack/verify/suites test-unit test-browser test-api test-broker e2e

.PHONY: test-unit
test-unit: ## Run the tests that need nothing
	@mkdir -p $(OUT)
	@(go test $(RACE) $(ARGS) ./... || failed=1; \
	for module in $(CLIENT_MODULES); do (cd $$module && go test $(or $(RACE),$(DETECTOR)) $(ARGS) ./...) || failed=1; done; \
	if [ -n "$(RACED)" ]; then go test -race $(ARGS) $(RACED) || failed=1; fi; [ -z "$$failed" ]) 2>&1 | tee $(OUT)/test-unit.log

.PHONY: test-browser
test-browser: ## Look at reports of benchmarks in a headless browser (ARGS=-screenshots writes out/report/*.png)
	@mkdir -p $(OUT)
	@export WARREN_BROWSER=$$($(LOCAL) browser); go test -tags browser -count 1 ./test/report/... $(ARGS) 2>&1 | tee $(OUT)/test-browser.log

.PHONY: test-api
test-api: ## Run the tests against a real etcd and kube-apiserver
	@mkdir -p $(OUT)
	@export KUBEBUILDER_ASSETS=$$($(LOCAL) assets); go test -tags api -timeout 25m -count 1 $(ARGS) ./controllers/... 2>&1 | tee $(OUT)/test-api.log

.PHONY: test-broker
test-broker: ## Run the tests against real RabbitMQ 3.10 and 4.3
	@mkdir -p $(OUT)
	@$(LOCAL) images
	@export KUBEBUILDER_ASSETS=$$($(LOCAL) assets); \
	(go test -tags broker -timeout 20m -count 1 $(ARGS) ./test/broker/... ./test/client/... ./test/load/... ./test/policy/... || failed=1; \
	(cd client && go test -tags broker -timeout 20m -count 1 $(ARGS) ./clienttest/...) || failed=1; [ -z "$$failed" ]) 2>&1 | tee $(OUT)/test-broker.log

.PHONY: faults-client
faults-client: ## Publish and consume more than a million messages through every fault (ARGS="-messages 1200000 -rounds 1")
	@mkdir -p $(OUT)
	@$(LOCAL) images
	@go test $(DETECTOR) -tags broker -timeout 60m -count 1 ./test/client -long -report $(CURDIR)/$(OUT)/faults-client.json $(ARGS) 2>&1 | tee $(OUT)/faults-client.log

.PHONY: load-long
load-long: ## Run every built-in scenario, 5,000 connections and the counter-experiments on real brokers (ARGS="-run TestTheMatrix")
	@mkdir -p $(OUT)
	@$(LOCAL) images
	@go test -v -tags broker -timeout 60m -count 1 ./test/load -long -run 'TestTheMatrix|TestConnectionStorm|TestVerdict|TestOverTLS' $(ARGS) 2>&1 | tee $(OUT)/load-long.log

.PHONY: policy-long
policy-long: ## Stage mirrors of 300 queues under load, grow quorum queues, account for dead letters, on real clusters (ARGS="-run Mirrored")
	@mkdir -p $(OUT)
	@$(LOCAL) images
	@export KUBEBUILDER_ASSETS=$$($(LOCAL) assets); \
	go test -v -tags broker -timeout 60m -count 1 ./test/policy -long -report $(CURDIR)/$(OUT)/policy-long.json $(ARGS) 2>&1 | tee $(OUT)/policy-long.log

.PHONY: e2e
e2e: ## Run the end-to-end tests on a real Kubernetes (NODES=3, CLUSTER=kind|current)
	@mkdir -p $(OUT)
	@go test -v -tags e2e -timeout 30m -parallel 4 -count 1 $(ARGS) ./test/e2e/... 2>&1 | tee $(OUT)/test-e2e.log

.PHONY: faults-cluster
faults-cluster: ## Under clients: five nodes and back; a host drained, cut off, without power (a local Kubernetes of 3 nodes; about 25 minutes)
	@mkdir -p $(OUT)
	@NODES=3 PURPOSE=faults go test -v -tags e2e -timeout 60m -count 1 ./test/e2e -long -run 'TestHostsComeAndGo|TestNodesComeAndLeave' $(ARGS) 2>&1 | tee $(OUT)/faults-cluster.log

.PHONY: bench-client
bench-client: ## Measure the client library against amqp091-go on a real RabbitMQ (ARGS="--help")
	@go run ./test/bench/client $(ARGS)

.PHONY: bench-generator
bench-generator: ## Measure the load generator itself, on a null broker and a real RabbitMQ (ARGS="--help")
	@$(LOCAL) images
	@go run ./test/bench/generator --out $(OUT)/bench/bench-generator.json $(ARGS)

.PHONY: bench-kind
bench-kind: ## Run all scenarios by the Kind Benchmark, and measure schedulers, mirrors and prefetch, on a Kubernetes (ARGS="--help")
	@go run ./test/bench/kind $(ARGS)

.PHONY: bench-policy
bench-policy: ## Measure the operator with 10,000 QueuePolicies on an API server, and with a real RabbitMQ (ARGS="--help")
	@$(LOCAL) images
	@export KUBEBUILDER_ASSETS=$$($(LOCAL) assets); go run ./test/bench/policy --out $(OUT)/bench/bench-policy.json $(ARGS)

##@ Demo

.PHONY: demo
demo: ## Start a Kubernetes, install Warren with its chart, apply samples, show what is true (NODES=3, CLUSTER=kind|current)
	@go run ./hack/demo up

.PHONY: demo-down
demo-down: ## Remove all of the demo
	@go run ./hack/demo down

##@ Help

.PHONY: help
help: ## Show this
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "Variables: NODES, CLUSTER (demo, e2e), ARGS (of go test, as ARGS='-run TestPlan -v'), RACE, VERSION, IMAGE."
