# make check is what CI runs; make test is the tests alone.
.PHONY: check test lint fuzz bench setup

check: lint test

# Real parts: on Debian the missing ones are installed; elsewhere the tests that
# need them say so and are skipped, unless TROUPE_NO_SKIP is set.
setup:
	@./.ci/setup

test: setup
	go test -race -timeout 20m ./...

lint:
	@./.ci/lint

fuzz:
	@for f in FuzzParsePayload FuzzDecodeArgs FuzzEncodeJSON; do go test -run '^$$' -fuzz "^$$f$$" -fuzztime 20s . || exit 1; done
	go test -run '^$$' -fuzz '^FuzzConfig$$' -fuzztime 20s ./config

bench:
	go test -run '^$$' -bench . -benchmem ./...
