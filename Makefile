# make check is what CI runs, make test the tests alone. make check-long repeats with the race
# detector what the others bound there, vets for all systems, takes ten times the
# seeds, and runs each benchmark once: an hour or so.
.PHONY: check check-long test lint sim peers chaos fuzz bench bench-report microbench setup example example-laravel

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
# Tests mostly wait: half as many packages again at once as there are processors.
test: setup
	go test -race -timeout $(TIMEOUT) -p $$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2)) ./...

# A fleet in virtual time, with faults by seed: docs/proof.md.
SEEDS ?= 1000
sim:
	go test -count=1 -timeout 10h -run '^TestSeeds$$' -v ./internal/sim -sim.seeds=$(SEEDS)

lint:
	@./.ci/lint

fuzz:
	@for f in FuzzParsePayload FuzzEncodeJSON; do go test -run '^$$' -fuzz "^$$f$$" -fuzztime 20s ./internal/wirejson || exit 1; done
	go test -run '^$$' -fuzz '^FuzzDecodeArgs$$' -fuzztime 20s ./internal/args
	go test -run '^$$' -fuzz '^FuzzParseObject$$' -fuzztime 20s ./wire/laravel
	go test -run '^$$' -fuzz '^FuzzConfig$$' -fuzztime 20s ./config

# Daemons and Redis are killed, paused and cut off at random, and every job is
# accounted for: some 3 minutes, or ARGS="-chaos.duration 10m -chaos.jobs 100000
# -chaos.seed 7". PEER=asynq does the same to asynq and prints both.
CHAOS = -chaos.jobs 20000 -chaos.duration 150s -chaos.daemons 4 $(ARGS)
chaos: setup
ifdef PEER
	cd bench/internal/chaos && go test -count 1 -timeout 0 -run '^TestChaos$$' -chaos.beside $(CHAOS)
else
	cd internal/chaos && go test -count 1 -timeout 0 -run '^TestChaos$$' $(CHAOS)
endif

# Everything beside other job systems, some 20 minutes: make bench ARGS="drain cost"
# for a part, ARGS=-short for a look, ARGS=-h for the rest. The table is printed;
# bench-report writes it and the plots into docs/.
# The real go-workers and go-workers2 beside the daemon, a module of its own.
peers:
	cd wire/goworkers/peers && go vet ./... && go test -timeout $(TIMEOUT) ./...

bench:
	@./.ci/setup bench
	cd bench && go run . $(ARGS)

bench-report:
	cd bench && go run . report

microbench:
	go test -run '^$$' -bench . -benchmem ./...

# One worker of a Ruby app moves to Go and back: examples/rails-to-go.
example: setup
	@ruby examples/rails-to-go/walk.rb

# One job of a Laravel app moves to Go and back: examples/laravel-to-go.
example-laravel: setup
	@php examples/laravel-to-go/walk.php
