# Each target sets up all it needs on a Debian 12 machine (root, or sudo).

.PHONY: quickstart test build lint bench clean

quickstart: ## The main job on real data: three ways to train, one table.
	@packaging/setup.sh
	@.venv/bin/python examples/quickstart/quickstart.py

test: ## Everything: linters, builds, sanitizers, fuzzers, unit and end-to-end tests.
	@tools/test.sh

build: ## A development build in build/dev.
	@packaging/setup.sh --tools
	@cmake --preset dev >/dev/null && cmake --build --preset dev

lint: ## Formats, layers, types.
	@packaging/setup.sh --tools
	@tools/lint.sh

bench: ## Measures against peers and writes bench/results/.
	@packaging/setup.sh
	@bench/run.sh

clean:
	rm -rf build .venv
