# Every target makes the environment it needs: a fresh machine needs `python3`, `make` and a
# package index, nothing else. Installed packages are pinned by hash in requirements/*.txt.

PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
UV := $(VENV)/bin/uv
# uv must not fetch another Python; and like pip it trusts the certificates of the system, so that
# an index behind a company's proxy works too.
export UV_PYTHON_DOWNLOADS := never
export UV_SYSTEM_CERTS := 1
# Tests, demo and benchmarks start hundreds of Python processes: without compiled modules on disk
# each of them takes twice as long to start.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(UV) pip install --quiet --python $(PY)

# Spark needs a Java; a machine without one gets it as a package (docs/adr/0017).
HAS_JAVA := $(PY) -c "from lazydelta.spark.java import java_home; java_home()"

# One process for each core. The tests of a file stay together, for what they share takes time to
# start (Spark, emulators). In the order that tests/conftest.py gives: the slow files first.
SIDE_BY_SIDE := --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# More arguments for pytest, for instance: make test ARGS="tests/unit/log -x"
ARGS ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help env demo emulators dotnet capi native test test-long test-lowest test-spark35 test-spark40 test-spark41 golden check format bench bench-writes bench-dml bench-maintenance bench-serve bench-stores bench-spark requirements upgrade clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

env: $(VENV)/.dev ## Make .venv with everything a contributor needs

demo: $(VENV)/.run ## Build a sample table, scan it and show what happened
	$(PY) examples/demo.py

native: $(VENV)/.native ## Build and install the native decoder, an option (needs Rust; minutes)

emulators: $(VENV)/.test ## Build the object store emulators that are written in Go (minutes)
	$(PY) -m tests.emulators.programs

dotnet: $(VENV)/.dotnet ## Install the .NET SDK that compiles the C# client in the tests (Linux, npm)

capi: $(VENV)/.run ## Build liblazydelta, the C library, in capi/build (needs a C compiler)
	$(MAKE) --directory capi PYTHON=$(abspath $(PY))

test: $(VENV)/.test $(VENV)/.emulators $(VENV)/.dotnet ## Run the whole test suite (minutes)
	$(PY) -m pytest $(SIDE_BY_SIDE) $(ARGS)

test-long: $(VENV)/.test $(VENV)/.emulators $(VENV)/.dotnet ## Run it with the tests marked long, and many more random examples
	HYPOTHESIS_PROFILE=long $(PY) -m pytest $(SIDE_BY_SIDE) -m "not bench" --timeout 3600 $(ARGS)

test-lowest: ## Run it with the oldest dependencies that pyproject.toml allows (needs Python 3.11)
	$(MAKE) VENV=.venv-lowest .venv-lowest/.test
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest/bin/python \
		--require-hashes --requirement requirements/lowest.txt
	.venv-lowest/bin/python -m pytest $(SIDE_BY_SIDE) $(ARGS)

test-spark35: ## Run the tests of Spark on PySpark 3.5 (needs Python 3.11)
test-spark40: ## The same on PySpark 4.0
test-spark41: ## The same on PySpark 4.1
test-spark35 test-spark40 test-spark41: test-%:
	$(MAKE) VENV=.venv-$* .venv-$*/.$*
	.venv-$*/bin/python -m pytest $(SIDE_BY_SIDE) tests/spark $(ARGS)

golden: $(VENV)/.test ## Run the acceptance tests on the golden tables only
	$(PY) -m pytest tests/acceptance $(ARGS)

check: $(VENV)/.dev ## Static checks: format, lint, types, architecture, spelling
	@failed=""; \
	run() { echo "== $$*"; $(VENV)/bin/"$$@" || failed="$$failed $$1"; }; \
	run ruff format --check .; \
	run ruff check --output-format concise .; \
	run mypy; \
	run lint-imports --no-logo; \
	run codespell; \
	if command -v cargo > /dev/null; then echo "== cargo fmt"; \
		cargo fmt --check --manifest-path native/Cargo.toml || failed="$$failed cargo-fmt"; fi; \
	if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi

format: $(VENV)/.dev ## Format the code and apply the safe fixes of the linter
	$(VENV)/bin/ruff check --fix-only .
	$(VENV)/bin/ruff format .

bench: $(VENV)/.bench ## Measure against the peers; prints tables (ARGS=--quick for a short run)
	@$(MAKE) native || echo "the native decoder could not be built: views are measured without it"
	$(PY) -m benchmarks $(ARGS)
	$(PY) -m benchmarks.startup $(ARGS)
	$(PY) -m benchmarks.writes $(ARGS)

bench-writes: $(VENV)/.bench ## The part of it about writing: appends, races, checkpoints
	@$(MAKE) native || echo "the native decoder could not be built: checkpoints are measured without it"
	$(PY) -m benchmarks.writes $(ARGS)

bench-dml: $(VENV)/.bench ## Measure DELETE and MERGE against deltalake (ARGS=--quick for a short run)
	$(PY) -m benchmarks.dml $(ARGS)

bench-maintenance: $(VENV)/.bench $(VENV)/.emulators ## Measure OPTIMIZE and VACUUM against deltalake (ARGS=--quick for a short run)
	$(PY) -m benchmarks.optimize $(ARGS)
	$(PY) -m benchmarks.vacuum $(ARGS)

bench-stores: $(VENV)/.bench $(VENV)/.emulators ## Measure on an emulated object store with latency (ARGS=--quick)
	$(PY) -m benchmarks.stores $(ARGS)

bench-spark: $(VENV)/.bench ## Measure on Spark against delta-spark (ARGS=--quick for a short run)
	$(PY) -m benchmarks.spark $(ARGS)

bench-serve: $(VENV)/.bench $(VENV)/.dotnet ## Measure the servers against one process (ARGS=--quick for a short run)
	$(PY) -m benchmarks.serve $(ARGS)

# --- environment: a stamp per set of packages, renewed when its requirement file changes ---------

$(UV): requirements/uv.txt scripts/bootstrap.py
	$(PYTHON) scripts/bootstrap.py $(VENV) requirements/uv.txt
	@touch $(UV)

SPARK_SETS := $(VENV)/.spark35 $(VENV)/.spark40 $(VENV)/.spark41

$(VENV)/.run $(VENV)/.bench $(VENV)/.test $(VENV)/.dev $(SPARK_SETS): $(VENV)/.%: requirements/%.txt pyproject.toml $(UV)
	$(INSTALL) --require-hashes --requirement requirements/$*.txt
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@$(HAS_JAVA) 2>/dev/null || $(INSTALL) --require-hashes --requirement requirements/java.txt || \
		echo "no Java 17 or newer, and none could be installed: what needs Spark will say so"
	@touch $@

# Without Go, or where a program cannot be built, their tests are skipped with the reason.
$(VENV)/.emulators: tests/emulators/programs.py | $(VENV)/.test
	@command -v go > /dev/null || exit 0; $(PY) -m tests.emulators.programs
	@touch $@

# Without npm, or where the SDK cannot be had, the tests of the C# client are skipped with the reason.
$(VENV)/.dotnet: tests/csharp/sdk.py | $(VENV)/.test
	@$(PY) -m tests.csharp.sdk
	@touch $@

# Cargo's own lock file names the package index; scripts/crates.py says how ours does not.
$(VENV)/.native: requirements/native.txt native/Cargo.toml native/pyproject.toml native/crates.lock $(wildcard native/src/*.rs) $(UV)
	$(INSTALL) --require-hashes --requirement requirements/native.txt
	$(PY) scripts/crates.py restore
	$(INSTALL) --no-deps --no-build-isolation --reinstall ./native
	@touch $@

# --- requirement files ---------------------------------------------------------------------------
# `dev` is solved first and constrains the others, so that one environment can hold them all. The
# files name no package index: whichever one is configured serves them, and the hashes decide.

COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links \
	--custom-compile-command "make requirements"
RUN := pyproject.toml --extra cli --extra serve --extra spark requirements/spark.in requirements/build.in
BOUND := --constraint requirements/dev.txt
SPARK_TEST := pyproject.toml --extra cli requirements/spark-test.in requirements/build.in

requirements: $(UV) ## Write requirements/*.txt anew from *.in and pyproject.toml
	$(COMPILE) $(UPGRADE) -o requirements/dev.txt $(RUN) requirements/bench.in requirements/test.in requirements/dev.in
	$(COMPILE) $(BOUND) -o requirements/test.txt $(RUN) requirements/bench.in requirements/test.in
	$(COMPILE) $(BOUND) -o requirements/bench.txt $(RUN) requirements/bench.in
	$(COMPILE) $(BOUND) -o requirements/run.txt $(RUN)
	$(COMPILE) --resolution lowest-direct -o requirements/lowest.txt pyproject.toml --extra cli --extra serve --extra spark
	for spark in spark35 spark40 spark41; do \
		$(COMPILE) $(UPGRADE) -o requirements/$$spark.txt $(SPARK_TEST) requirements/$$spark.in || exit 1; done
	$(COMPILE) $(UPGRADE) -o requirements/java.txt requirements/java.in
	$(COMPILE) $(UPGRADE) -o requirements/native.txt requirements/native.in
	$(COMPILE) $(UPGRADE) -o requirements/uv.txt requirements/uv.in

upgrade: ## The same, moving every pin to the newest release
	$(MAKE) requirements UPGRADE=--upgrade
	$(PY) scripts/crates.py keep

clean: ## Remove what the other targets made (the environment, caches, benchmark tables)
	rm -rf $(VENV) .venv-lowest .venv-spark35 .venv-spark40 .venv-spark41 .bench .cache capi/build .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist native/target native/Cargo.lock
	find src tests benchmarks examples scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
