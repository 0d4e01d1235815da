# Hookladder's tasks. `make help` lists them.

GO          ?= go
# Tests run as a release is compiled, and the linter reads packages that way, so each package
# is compiled once for them and for the programs that tests start. The linter also does the
# work of vet. Linking without debug tables (-w) saves a third of the linker's time. Tests and the
# linter live for minutes, so they collect garbage more rarely than a server (GOGC), which
# saves them a sixth of their time.
MORE_MEMORY  = GOGC=400
TEST         = CGO_ENABLED=0 $(MORE_MEMORY) $(GO) test -trimpath -count=1 -vet=off -ldflags=-w
# One version for everybody: a newer linter finds new things, and that should happen in a
# commit of its own.
GOLANGCI    ?= github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.12.0
LINT         = CGO_ENABLED=0 $(GO) run -trimpath -ldflags=-w -exec 'env $(MORE_MEMORY) "GOFLAGS=$(strip $(GOFLAGS_NOW) -trimpath)"' $(GOLANGCI) run
GOFLAGS_NOW  = $(shell $(GO) env GOFLAGS)
# The linter keeps its findings with the full path of each file, but finds them again by content
# alone: a cache for all checkouts would name files of another one, and rules for paths miss them.
export GOLANGCI_LINT_CACHE = $(CURDIR)/.cache/golangci-lint
# The parts of make test besides the linter. They run beside each other, because many tests wait.
PARTS        = test-plain test-unraced test-raced
# The folders of the modules that deploy/go.work lists.
MODULES      = ./... ./deploy/browser/... ./deploy/chaos/... ./deploy/interop/... ./deploy/release/...
# More flags for the tests, such as -v or -run Name.
TESTFLAGS   ?=
# Runs all tests with the race detector, and not only those of RACED: RACE_ALL=1.
RACE_ALL    ?=
# When a package's tests are taken to hang: they need two minutes, on a busy
# machine many times that.
TESTTIMEOUT ?= 45m
# The packages whose tests `make cover` runs.
COVER       ?= work
# How long each fuzz target runs.
FUZZTIME    ?= 30s
# How long `make chaos` breaks things, on which store (single or cluster), and by
# which seed (0: another one each time).
CHAOS       ?= 10m
CHAOS_STORE ?= single
CHAOS_SEED  ?= 0
CHAOS_FLAGS ?= -chaos.rate 200 -chaos.fsync either -chaos.archive either -chaos.owners 3 -chaos.empty -chaos.log -chaos.dns -chaos.outbox -chaos.rights
# How many mutants `make mutants` tries, and more flags for it, such as -seed 7,
# -files 'lua/settle' or -score 0.8.
MUTANTS     ?= 40
MUTANTFLAGS ?=
# More flags for `make bench`, such as -only drain, -json figures.json or -binary old/hookladder.
BENCHFLAGS  ?=

# The tests of the console that make bench-pages runs in a large outage. They are in make test, too, in a small one.
AT_NIGHT     = Night|AllThatWaitsInALane|OutcomesOfAJob

# The program that makes releases. Later versions need a module that not every proxy has.
GORELEASER_VERSION ?= v2.16.0
# Compiled once for all checkouts: it takes minutes.
GORELEASER  ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/hookladder/goreleaser-$(GORELEASER_VERSION)
# Skips the part of a release for which goreleaser would have to be compiled first.
SHORT       ?=

# Tests whose libraries the program does not need are in modules of their own, which
# deploy/go.work lists. With it, "work" is all packages of all modules. The program
# itself is built without it.
fuzz lint test $(PARTS) test-short cover docs-check bench-queue bench-pages bench-instructions chaos chaos-queue release-snapshot release-check image-check strangers-check: export GOWORK = $(CURDIR)/deploy/go.work

.DEFAULT_GOAL := help
.PHONY: help build test $(PARTS) test-short cover lint redis needs docs-check bench bench-quick bench-queue bench-pages bench-instructions chaos chaos-queue fuzz mutants ship-check release-check release-snapshot image-check chart-check stack-check strangers-check licences clean

help: ## list the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the one binary, static, to bin/hookladder
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o bin/hookladder ./cmd/hookladder

# The packages with goroutines that share memory: their tests run with the race detector. It makes
# tests several times slower, and needs a second compilation of all packages below them.
RACED := $(addprefix ./dispatcher/,client queue queue/queuetest internal/callers internal/endpoints internal/metrics)
# The same for packages of which some tests do without it.
HALF_RACED := $(addprefix ./dispatcher/,internal/engine internal/redisq internal/redisq/conn app internal/egress)
# Files of HALF_RACED whose tests do, because with it they take as long as all others. A case of the
# queue, a page and a query have one goroutine, scripts are read with regular expressions, which the
# detector makes some twenty times slower, and the rules of the engine run in the same goroutines as
# those of the other files. .ci/nightly runs all tests with the detector, and chaos on a whole program
# with it.
UNRACED_FILES := $(patsubst %,dispatcher/internal/engine/%_test.go, \
		clock deaths delete deliver endpoint failing fan finish gone headers held_headers idle kind newcomers news observe \
		outage own_network own_shortage pause poll route secret suspects tenants unverified) \
	$(patsubst %,dispatcher/internal/redisq/%_test.go, \
		bodies bounds broken_values cancel dead durable ended errors fault list names plain queue quick reap retention \
		scripts settle_reply shares spread start traps_size conn/script_needs conn/script_prune conn/script_shadow) \
	$(patsubst %,dispatcher/app/%_test.go, \
		absence clock console_link console_rights console_shown console_signin \
		console_system console cursors data descriptors disk docs health hostile link_reach links lookup same scripts torn)
$(foreach file,$(filter-out $(wildcard $(UNRACED_FILES)),$(UNRACED_FILES)),$(error UNRACED_FILES of the Makefile names $(file), which is not there))
# The same for single tests of other files, which go on for long.
UNRACED := AnOutcomeThatIsRefusedHoldsUpNoOthers ASettleThatAFailoverForgetsIsFoundWithinAMinute \
	AStageThatGoesOnFailingIsNotToldOfAgainAndAgain ClaimingStopsWhenTooManyOutcomesWait ThatFinishedWorkMadeRoomIsTold \
	StrangersThatHoldAllPlacesShutNobodyOut CompressedBodyIsItsText
none :=
UNRACED_TESTS = ^($(subst $(none) $(none),|,$(strip $(addprefix Test,$(UNRACED)) $(shell grep -ho '^func Test[A-Za-z0-9_]*' $(UNRACED_FILES) | cut -c 6-))))$$
# The other packages that need most time start first.
FIRST := ./deploy/browser ./deploy/e2e ./cmd/hookladder ./deploy/interop/openapi
# The tests that break everything for as long as they are told: make chaos and make chaos-queue run them.
CHAOS_TESTS = ^TestChaos
# The interpreter of Lua, which only runs scripts of one caller at a time, is compiled without the
# detector, which would make it several times slower. That is only possible for a package without
# generic code: the linker may take its copy of sync.Map's for all packages, and then the detector
# sees races that are none.
RACE  := -race -trimpath -gcflags=github.com/yuin/gopher-lua/...=-race=false
# A program with the race detector waits a second at its end for reports of other threads. These
# tests wait for all their goroutines, so they do without.
RACETEST = GORACE=atexit_sleep_ms=0 $(MORE_MEMORY) $(GO) test $(RACE) -count=1 -vet=off -ldflags=-w
# Many packages mostly wait for time to pass, so several run at once on any machine, beside the
# linter. All need the same compiled packages, for some with the detector, which are made before,
# because go's processes do not wait for each other. Each part's output comes as a whole.
test $(PARTS): WHOLE = -timeout $(TESTTIMEOUT) $(TESTFLAGS)
test: needs ## golangci-lint and all tests but chaos, most of those of packages with goroutines with the race detector; installs redis-server, postgres, curl, jq, chromium and node if missing
ifneq ($(RACE_ALL),)
	$(MAKE) lint
	$(RACETEST) -p 4 -skip '$(CHAOS_TESTS)' $(WHOLE) $(HALF_RACED) $(FIRST) work
else
	CGO_ENABLED=0 $(GO) list -trimpath -export -f '{{""}}' work
	$(GO) list $(RACE) -export -f '{{""}}' $(RACED) $(HALF_RACED)
	$(MAKE) --keep-going --jobs --output-sync=line lint $(PARTS)
endif

test-plain:
	$(TEST) -p 3 -skip '$(CHAOS_TESTS)' $(WHOLE) $(FIRST) $$($(GO) list work | grep -vxF "$$($(GO) list $(RACED) $(HALF_RACED))")
# The names of the tests would fill some pages, so these two tell what they run in short.
test-unraced:
	@echo '$(TEST) -p 1 -run UNRACED_TESTS $(WHOLE) $(HALF_RACED)'
	@$(TEST) -p 1 -run '$(UNRACED_TESTS)' $(WHOLE) $(HALF_RACED)
test-raced:
	@echo '$(RACETEST) -p 2 -skip UNRACED_TESTS $(WHOLE) $(HALF_RACED), then $(RACED)'
	@$(RACETEST) -p 2 -skip '$(UNRACED_TESTS)' $(WHOLE) $(HALF_RACED) || failed=yes; \
	$(RACETEST) -p 2 $(WHOLE) $(RACED) && [ -z "$$failed" ]

test-short: ## the same in a minute: no race detector, no clusters, no whole program; .ci/run decides
	$(TEST) -short -p 4 -parallel 8 $(TESTFLAGS) work

cover: needs ## statements that the tests execute, in the program too; fails below 90 % of the code that deletes or restores data
	TESTFLAGS="-timeout $(TESTTIMEOUT) $(TESTFLAGS)" GO="$(GO)" .ci/cover $(COVER)

lint: ## golangci-lint, with the rules of .golangci.yaml
	$(LINT) $(MODULES)

docs-check: ## lint the OpenAPI document by Redocly's strict rules, use a TypeScript client that is generated from it, and run every block of every page, the receivers in Node, PHP, Ruby, Java and C# too
	@.ci/needs redis-server postgres curl jq node npm python3 php ruby javac mcs
	$(TEST) -tags node $(TESTFLAGS) -run 'Linter|TypeScript' ./deploy/interop/openapi
	$(TEST) -tags node $(TESTFLAGS) -run EachBlock ./deploy/docs

# The modules of deploy/ship have large libraries, so make test leaves them out.
stack-check chart-check: export GOWORK = off
# The checks of a release compile as a release does, so they share its compiled packages.
release-check image-check release-snapshot strangers-check: export CGO_ENABLED = 0
stack-check: ## start the stack of deploy/compose.yaml from Debian's packages, break it under load, and check its alerts and each panel (three minutes)
	@.ci/needs redis-server postgres prometheus nginx curl
	cd deploy/ship/stack && $(LINT) ./...
	cd deploy/ship/stack && $(TEST) -v -timeout 10m $(TESTFLAGS) ./...

redis: ## install redis-server on Debian and Ubuntu, if it is missing
	@.ci/needs redis-server

needs: ## the same, PostgreSQL, PgBouncer, curl and jq for the documents' examples, a browser for the console, Node and Python for the examples, and shells, nginx and Caddy where they can be had
	@.ci/needs redis-server postgres pgbouncer curl jq chromium node python3 promtool systemd-analyze bash-completion
	@.ci/needs zsh fish || echo "Completion is tested with the shells that are here." >&2
	@.ci/needs nginx || echo "A roll-out is tested behind nginx where it is here." >&2
	@.ci/needs caddy || echo "A roll-out is tested behind Caddy where it is here." >&2

bench: redis ## measure how fast it is here, against the machine's limit (10 to 15 minutes)
	$(GO) run -trimpath ./deploy/bench $(BENCHFLAGS)

bench-quick: redis ## the same in a minute: it shows that all works, its figures are rough
	$(GO) run -trimpath ./deploy/bench -quick -runs 1 $(BENCHFLAGS)

bench-queue: ## hold queues in Go against asynq, River and BullMQ by turns, on one core (five minutes)
	@.ci/needs redis-server postgres node npm
	cd deploy/interop/queues && npm ci --silent
	$(GO) test -count=1 -run '^$$' -bench '^BenchmarkRatio$$' -benchtime 1x ./deploy/interop/queues $(BENCHFLAGS)

bench-pages: ## walk through an outage with 200,000 waiting in a browser, then open each page of the console in it, and fail above 100 ms or 120 KB (ten minutes)
	@.ci/needs redis-server chromium
	$(GO) test -trimpath -count=1 -v -timeout $(TESTTIMEOUT) -parallel 1 -run '$(AT_NIGHT)' -bench '^BenchmarkPagesAtNight$$' -benchtime 1x $(TESTFLAGS) ./deploy/browser -night.waiting 200000

bench-instructions: ## count the instructions of Redis' scripts with callgrind, and fail where one is 5 % over its budget
	@.ci/needs redis-server valgrind
	$(GO) test -count=1 -tags callgrind -run '^$$' -bench '^BenchmarkInstructions$$' -benchtime 1x ./dispatcher/internal/redisq

chaos: ## break everything under load for CHAOS (default 10m), CHAOS_STORE=single or cluster
	@.ci/needs redis-server postgres pgbouncer
	@case "$(CHAOS_STORE)" in single|cluster) ;; *) echo "CHAOS_STORE is single or cluster" >&2; exit 2;; esac
	$(GO) test $(RACE) -count=1 -v -timeout 0 -run '^TestChaos$(if $(filter cluster,$(CHAOS_STORE)),InACluster)$$' ./deploy/chaos \
		-chaos.for $(CHAOS) -chaos.seed $(CHAOS_SEED) $(CHAOS_FLAGS)

chaos-queue: redis ## kill Go programs with queues, and their Redis, for CHAOS (default 10m)
	$(GO) test $(RACE) -count=1 -v -timeout 0 -run '^TestChaosOfQueues$$' ./deploy/chaos -chaos.for $(CHAOS) -chaos.seed $(CHAOS_SEED)

fuzz: ## run every fuzz target for FUZZTIME (default 30s), and the model of the queue 300 times
	TESTFLAGS="-timeout $(TESTTIMEOUT) $(TESTFLAGS)" GO="$(GO)" .ci/fuzz $(FUZZTIME)

mutants: redis ## change MUTANTS places (default 40, all: every one, which takes a night) of the scripts and of the code around them, one at a time, and see a test fail for each
	$(GO) run ./deploy/mutants $(if $(filter-out all,$(MUTANTS)),-sample $(MUTANTS)) $(MUTANTFLAGS)

# Helm's libraries take long to compile, so this module is not in deploy/go.work.
chart-check: ## render the Helm chart for several sets of values, and check each object against its type of Kubernetes
	cd deploy/ship/chart && $(LINT) . && $(TEST) $(TESTFLAGS) .

# Each of these checks needs no other one.
ship-check: SHORT = yes
ship-check: release-check image-check chart-check stack-check strangers-check ## check a release, the images, the chart, the stack and what the pages promise to a stranger in half an hour; needs root

release-check: ## the files of a release, the deb in a bare Debian, and go install; with ship-check only what needs no goreleaser, until it is compiled
	@.ci/needs redis-server mmdebstrap rpm
	@if [ -z "$(SHORT)" ] || [ -x "$(GORELEASER)" ]; then $(MAKE) release-snapshot; \
	else echo "goreleaser is not compiled here, so only the packages of this machine are checked, made by nfpm. make release-check compiles it, and checks all files."; fi
	$(GO) test -trimpath -count=1 -tags ship -timeout $(TESTTIMEOUT) $(TESTFLAGS) -run 'Packages|Debian|GoInstall' ./deploy/release

release-snapshot: ## make all files of a release in bin/dist, and check them
	@git ls-remote --get-url >/dev/null 2>&1 || { echo "goreleaser reads the commit only in a repository with a remote: git remote add origin URL" >&2; exit 1; }
	@[ -x "$(GORELEASER)" ] || { mkdir -p "$(dir $(GORELEASER)).new" && GOWORK=off GOBIN="$(abspath $(dir $(GORELEASER)).new)" $(GO) install -ldflags=-w github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION) && \
		mv "$(dir $(GORELEASER)).new/goreleaser" "$(GORELEASER)"; }
	GOWORK=off "$(GORELEASER)" check
	GOWORK=off SNAPSHOT=$$(sed -n 's/^const development = "\(.*\)"$$/\1/p' cmd/hookladder/main.go) "$(GORELEASER)" release --snapshot --clean
	$(GO) test -trimpath -count=1 -tags ship $(TESTFLAGS) -run Snapshot ./deploy/release

image-check: ## build both images with buildah from a bare Debian, and run them without rights
	@.ci/needs redis-server mmdebstrap buildah
	$(GO) test -trimpath -count=1 -tags ship -timeout $(TESTTIMEOUT) $(TESTFLAGS) -run Images ./deploy/release

strangers-check: ## three strangers do their job in bare Debians by what the pages show: a first webhook, three instances, a move from other systems; needs root
	@.ci/needs redis-server mmdebstrap
	$(GO) test -trimpath -count=1 -tags ship -timeout $(TESTTIMEOUT) -v $(TESTFLAGS) -run Stranger ./deploy/release

licences: ## collect the licence texts of what is in the binary, to bin/licences
	.ci/licences bin/licences

clean: ## remove what was built
	rm -rf bin .cache
