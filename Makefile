# Everyday commands; `make help` lists them. The build itself is described in CMakeLists.txt.
PREFIX  ?= /usr/local
DESTDIR ?=
BUILD   ?= build
SECONDS ?= 600
JOBS    ?= $(shell nproc)
ZENITH   = $(BUILD)/cli/zenith

.PHONY: build demo check test install uninstall deb wheel fuzz nightly bench peers format clean help

build: ## the library and the program, in build/
	@scripts/deps.sh build
	@cmake -S . -B $(BUILD) -G Ninja $(CMAKE_ARGS) > /dev/null
	@cmake --build $(BUILD) -j $(JOBS)

demo: build ## encode and decode the bundled image, with times and quality
	@scripts/demo.sh $(ZENITH)

check: ## build, and the tests that take seconds: for daily work
	@scripts/deps.sh build check
	@cmake -S . -B $(BUILD) -G Ninja -DZENITH_TESTS=ON $(CMAKE_ARGS) > /dev/null
	@cmake --build $(BUILD) -j $(JOBS)
	@ctest --test-dir $(BUILD) -LE slow -j $(JOBS) --output-on-failure --no-tests=error

test: ## the full test suite (scripts/test.sh names the stages)
	@JOBS=$(JOBS) scripts/test.sh

install: build ## into PREFIX (/usr/local), below DESTDIR if given
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix $(PREFIX)

uninstall: ## remove what the last install put there, below DESTDIR if given
	@sed 's|^|$(DESTDIR)|' $(BUILD)/install_manifest.txt | tr '\n' '\0' | xargs -0 rm -f

deb: ## Debian packages in build/deb: zenith, libzenith0, libzenith-dev
	@JOBS=$(JOBS) scripts/deb.sh

wheel: build ## Python wheel in build/wheel that carries the library and the bundled weights
	@python/build_wheel.sh $(BUILD)

fuzz: ## fuzz every file reader, SECONDS=600 each
	@scripts/deps.sh build test
	@scripts/fuzz.sh $(SECONDS)

nightly: ## the long checks: fuzzing, sanitizers and thread checker on everything, valgrind, Debian packages
	@scripts/nightly.sh

bench: build ## time of every part and precision on this machine
	@bench/speed $(ZENITH)

peers: build ## the same network in other engines (downloads them; see bench/peers --help)
	@bench/peers

format: ## format every C file by .clang-format
	@scripts/format.sh

clean: ## remove everything that was built
	@rm -rf build build-*/

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 12
