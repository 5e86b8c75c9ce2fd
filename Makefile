# make check is what CI runs, make test the tests alone. make check-long repeats with the race
# detector what the others bound there, vets for all systems, takes ten times the
# seeds, and runs each benchmark once: an hour or so.
.PHONY: check check-long test test-race test-plain lint sim peers chaos fuzz browser screenshots bench bench-report microbench setup dist example example-laravel

check: lint test sim peers

check-long: export TROUPE_LONG = 1
check-long: TIMEOUT = 2h
check-long: SEEDS = 10000
check-long: export SYSTEMS = windows darwin freebsd
check-long: lint test sim peers
	go test -timeout 30m -run '^$$' -bench . -benchtime 1x ./... >/dev/null # benchmarks must keep running

# Real parts: on Debian the missing ones are installed; elsewhere the tests that
# need them say so and are skipped, unless TROUPE_NO_SKIP is set.
setup:
	@./.ci/setup

TIMEOUT = 20m
# Tests mostly wait: half as many packages again at once as there are processors. Lint vets.
TEST = go test -vet=off -timeout $(TIMEOUT) -p $$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2))
# The interpreter that runs Redis's scripts in virtual time has one goroutine each: to look
# for its races takes a fifth of the time, and finds none of ours.
RACE = CGO_ENABLED=1 $(TEST) -race -gcflags=github.com/yuin/gopher-lua/...=-race=false
# These start programs, compile, compare texts, or have few or no goroutines of their own: without the race detector, but
# in check-long, and beside those with it. What they compile is compiled as a release is: once.
PLAIN = CGO_ENABLED=0 GOFLAGS=-trimpath $(TEST)
PLAINLY = (troupehq/troupe|/troupe/(cmd/troupe|deploy|event|handler|inspect|retry|sched|supervisor/internal/only64|examples/.*|internal/(args|config|console/.*|errchain|flight|jitter|keys|periodic|proof/(claimmodel|conformance|docblocks|e2e|scaletest)|rights|scores|script|tool/.*|wirejson|words)|testkit/script|web|web/internal/(draw|proxies)|wire/.*))$$
test: setup
ifdef TROUPE_LONG
	$(RACE) ./...
else
	@$(MAKE) --no-print-directory -k -j2 test-race test-plain
endif
# What takes longest starts first, so that nothing long is left when all else is done.
FIRST_RACE = ./actors ./testkit ./fetch ./internal/proof/sim ./internal/proof/chaos
FIRST_PLAIN = ./cmd/troupe ./internal/proof/conformance ./web ./internal/proof/docblocks
test-race:
	$(RACE) $(FIRST_RACE) $$(go list ./... | grep -vE '$(PLAINLY)')
test-plain:
	$(PLAIN) $(FIRST_PLAIN) $$(go list ./... | grep -E '$(PLAINLY)')

# A fleet in virtual time, with faults by seed: docs/proof.md.
SEEDS ?= 1000
sim:
	go test -count=1 -timeout 10h -run '^TestSeeds$$' -v ./internal/proof/sim -sim.seeds=$(SEEDS)

lint:
	@./.ci/lint

fuzz:
	@for f in FuzzParsePayload FuzzEncodeJSON; do go test -run '^$$' -fuzz "^$$f$$" -fuzztime 20s ./internal/wirejson || exit 1; done
	go test -run '^$$' -fuzz '^FuzzDecodeArgs$$' -fuzztime 20s ./internal/args
	go test -run '^$$' -fuzz '^FuzzParseObject$$' -fuzztime 20s ./wire/laravel
	go test -run '^$$' -fuzz '^FuzzConfig$$' -fuzztime 20s ./internal/config

# Daemons and Redis are killed, paused and cut off at random, and every job is
# accounted for: some 3 minutes, or ARGS="-chaos.duration 10m -chaos.jobs 100000
# -chaos.seed 7". PEER=asynq does the same to asynq and prints both.
CHAOS = -chaos.jobs 20000 -chaos.duration 150s -chaos.daemons 4 $(ARGS)
chaos: setup
ifdef PEER
	cd bench/internal/chaos && go test -count 1 -timeout 0 -run '^TestChaos$$' -chaos.beside $(CHAOS)
else
	cd internal/proof/chaos && go test -count 1 -timeout 0 -run '^TestChaos$$' $(CHAOS)
endif

# The real go-workers and go-workers2 beside the daemon, a module of its own.
peers:
	cd wire/goworkers/peers && go vet ./... && go test -timeout $(TIMEOUT) ./...

# The dashboard in real Chromium, a module of its own.
browser: setup
	@./.ci/setup browser
	cd web/browser && go vet -tags screenshots ./... && go test -count=1 -timeout $(TIMEOUT) ./...

# A picture of each of its pages, light, dark and as on a phone, into docs/img: some 15
# minutes, in which its charts get their numbers; make screenshots ARGS="-before 30s tree" for a part.
screenshots:
	@./.ci/setup browser
	cd web/browser && go test -count=1 -timeout 0 -tags screenshots -run '^TestScreenshots$$' -v . $(if $(ARGS),-args $(ARGS))

# Everything beside other job systems, some 20 minutes: make bench ARGS="drain cost"
# for a part, ARGS=-short for a look, ARGS=-h for the rest. The table is printed;
# bench-report writes it and the plots into docs/.
bench:
	@./.ci/setup bench
	cd bench && go run . $(ARGS)

bench-report:
	cd bench && go run . report

microbench:
	go test -run '^$$' -bench . -benchmem ./...

# A release of the commit that is checked out, into dist/: docs/deployment.md.
dist:
	go run ./internal/tool/dist $(ARGS)

# One worker of a Ruby app moves to Go and back: examples/rails-to-go.
example: setup
	@ruby examples/rails-to-go/walk.rb

# One job of a Laravel app moves to Go and back: examples/laravel-to-go.
example-laravel: setup
	@php examples/laravel-to-go/walk.php
