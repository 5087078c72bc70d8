# Every developer command, one line each; `make` alone lists them.
PYTHON ?= $(firstword $(foreach p,python3.13 python3.12 python3.11 python3,$(if $(shell $(p) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo yes),$(p))))
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := $(shell find python native rust ci -type f \( -name '*.py' -o -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.h' -o -name '*.rs' -o -name '*.toml' \) 2>/dev/null) pyproject.toml Cargo.toml Cargo.lock
PYTEST := $(BIN)/python -m pytest
INSTALLED_GROUPS ?= test
# Tests of processes mostly wait, so that more of them run at a time than there are cores.
WORKERS ?= 4
SELECTED = $(if $(filter all,$(TESTS)),,-m 'not slow')

# With it, as in many containers, each process would compile the modules that it imports anew: tests
# start thousands of processes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help build run shake test test-all test-python test-durations test-rust test-pythons test-yarn test-zones proof soak chaos coverage fuzz conformance lint docs figures screenshots fmt develop cython record-pyflink compare-pyflink compare-pyflink-suite bench bench-smoke bench-network bench-backpressure bench-checkpoints bench-sorting bench-connectors bench-recovery bench-workers bench-control-plane bench-dashboard bench-nexmark bench-patterns bench-sql bench-word-count bench-workloads bench-pages wheels tutorial containers chart licenses clean prerequisites

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

prerequisites:
	@PYTHON='$(PYTHON)' sh ci/prerequisites.sh

$(BIN)/python: | prerequisites
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'

$(STAMP): $(BIN)/python $(SOURCES) | prerequisites
	sh ci/install.sh $(BIN) $(INSTALLED_GROUPS)
	@touch $@

build: $(STAMP)  ## penstock and what its tests need, in .venv

run: $(STAMP)  ## build, install, and count the words of the standard library on Spark local[2]
	$(BIN)/python examples/main_job.py

test: $(STAMP) build/kafka/jars  ## every mechanism, in both languages (TESTS=all: every test)
	sh ci/test.sh $(PYTEST) -n $(WORKERS) --max-flaky=3 $(SELECTED)

test-all:  ## every test, with the variants, long runs and Spark clusters that `make test` leaves out
	$(MAKE) test TESTS=all

test-python: $(STAMP) build/kafka/jars  ## only the Python tests of `make test`
	$(PYTEST) -n $(WORKERS) --max-flaky=3 $(SELECTED)

test-zones: $(STAMP) build/kafka/jars  ## the tests of formats and connectors in two time zones; `make test` runs each file in one
	set -e; zoned=$$(PYTHONPATH=tests $(BIN)/python -c 'import support.zones as z; print(*(f"tests/{n}" for n in z.OF_OTHER_ZONES))'); \
	for zone in America/New_York Asia/Kolkata; do $(PYTEST) -n $(WORKERS) -m 'not slow' --zone $$zone $$zoned; done

test-durations: $(STAMP) build/kafka/jars  ## wall time, CPU time and processes of each test, as tables (TESTS=…)
	rm -rf build/costs
	-$(PYTEST) -n $(WORKERS) --costs=build/costs $(TESTS)
	PYTHONPATH=tests $(BIN)/python -m support.costs build/costs

build/kafka/jars:
	sh ci/jars.sh kafka

test-yarn: $(STAMP) build/yarn/jars  ## jobs on a YARN of one node, which Maven fetches, with killed application attempts
	$(PYTEST) tests/e2e/test_yarn.py

build/yarn/jars:
	sh ci/jars.sh yarn

test-rust: | prerequisites  ## only the Rust tests, and the models within bounds
	cargo test --quiet --locked -p penstock-memory -p penstock-network -p penstock-profile
	LOOM_MAX_PREEMPTIONS=2 sh ci/proof.sh models

proof: | prerequisites  ## models, Miri, sanitizers and valgrind over the Rust code (PARTS='models miri …')
	sh ci/proof.sh $(PARTS)

soak: $(STAMP)  ## ten minutes of full load between two processes: nothing grows, nothing is lost
	$(BIN)/python benchmarks/soak.py

chaos: $(STAMP)  ## kill workers of twelve jobs 840 times, then processes of sessions and of jobs on Spark; state must stay exact (SEED=… KILLS=… FAULTS=…)
	set -e; run() { runtime=$$1; mode=$$2; shift 2; \
	  PYTHONPATH=tests PENSTOCK_RUNTIME=$$runtime $(BIN)/python -m recovery.chaos --mode $$mode \
	    --kills $(or $(KILLS),70) --seed $(or $(SEED),1) --kind "$$@"; }; \
	for runtime in native pure; do for mode in EXACTLY_ONCE AT_LEAST_ONCE; do run $$runtime $$mode; done; done; \
	run native EXACTLY_ONCE rocksdb; \
	run native AT_LEAST_ONCE rocksdb incremental; \
	run pure EXACTLY_ONCE rocksdb incremental; \
	run native EXACTLY_ONCE unaligned rocksdb incremental; \
	run pure EXACTLY_ONCE alternating incremental local-recovery; \
	run native EXACTLY_ONCE s3 incremental; \
	run pure EXACTLY_ONCE changelog; \
	run native EXACTLY_ONCE changelog rocksdb
	set -e; for runtime in native pure; do \
	  for jobs in 'counts rocksdb' 'sessions broadcast' 'async files'; do \
	    PYTHONPATH=tests PENSTOCK_RUNTIME=$$runtime $(BIN)/python -m recovery.nemesis \
	      --faults $(or $(FAULTS),40) --seed $(or $(SEED),1) --jobs $$jobs; done; done
	set -e; for kind in adaptive nemesis "nemesis rocksdb incremental"; do \
	  folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	  PYTHONPATH=tests $(BIN)/python tests/e2e/recovering.py 'local-cluster[2,1,1024]' $$folder $$kind; \
	  rm -rf "$$folder"; done

coverage: $(STAMP)  ## lines and branches that tests run, in build/coverage (PARTS='python rust' TESTS=…)
	TESTS='$(TESTS)' sh ci/coverage.sh $(BIN) $(PARTS)

fuzz: $(STAMP)  ## generated functions in operators and in plain Python (SEED=… CASES=…, or CASE=…)
	PYTHONPATH=tests $(BIN)/python -m support.evaluation $(if $(SEED),--seed $(SEED)) $(if $(CASES),--cases $(CASES)) $(if $(CASE),--case $(CASE))

shake: $(STAMP) build/kafka/jars  ## tests of processes that are stopped at random for up to 1.4 s each (SEED=… TESTS=…)
	$(PYTEST) -n $(WORKERS) -m process --shake=$(or $(SEED),1) $(TESTS)

lint: $(STAMP)  ## formatters, linters, type checkers and the import rules
	sh ci/lint.sh $(BIN)

docs: $(BIN)/python  ## the guide and the reference as a site, in build/docs, without compiling anything
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
	  | $(BIN)/python -m pip install --quiet --group docs --requirement /dev/stdin
	PYTHONPATH=python PENSTOCK_RUNTIME=pure \
	  $(BIN)/python -m sphinx --builder html --quiet --fail-on-warning --keep-going docs build/docs

figures: $(STAMP) build/kafka/jars  ## the gallery's figures, from the results of its programs
	PENSTOCK_FIGURES=write $(PYTEST) -q tests/integration/test_examples.py \
	  tests/integration/kafka/test_kafka_source.py::test_the_example_that_writes_a_table

screenshots: docs  ## the pictures of tutorial, gallery and dashboard in docs/images, by Chromium
	PYTHONPATH=tests $(BIN)/python ci/screenshots.py

fmt: $(STAMP)  ## format Rust and Python
	cargo fmt --all
	$(BIN)/python -m pip install --quiet --group lint
	$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

develop: $(BIN)/python  ## the incremental loop: Rust by cargo, Cython in place, Python from the tree
	sh ci/develop.sh $(BIN)

cython: $(BIN)/python  ## compile the Cython modules in place
	$(BIN)/python ci/build_backend.py

record-pyflink: | prerequisites  ## record the behaviour of the real PyFlink again (Python 3.11, Java, an hour)
	test -x build/pyflink/bin/python || python3.11 -m venv build/pyflink
	build/pyflink/bin/python -m pip install --quiet apache-flink==2.3.0
	cd tests/pyflink_comparison && PATH=$(CURDIR)/build/pyflink/bin:$$PATH python -m pyflink_oracle.run record
	cd tests/pyflink_comparison && $(CURDIR)/build/pyflink/bin/python pyflink_oracle/formats.py record
	cd tests/pyflink_comparison && $(CURDIR)/build/pyflink/bin/python pyflink_oracle/settings.py record

compare-pyflink: $(STAMP)  ## compare penstock with every recorded answer of PyFlink
	cd tests/pyflink_comparison && $(CURDIR)/$(BIN)/python -W ignore -m pyflink_oracle.run compare --all

compare-pyflink-suite: $(STAMP)  ## PyFlink's own tests of the DataStream API, from SUITE=flink-python of Flink's source
	$(BIN)/python -m pip install --quiet avro
	cd tests/pyflink_comparison && $(CURDIR)/$(BIN)/python -W ignore -m pyflink_suite.run $(abspath $(SUITE))

bench-smoke: $(STAMP)  ## every micro benchmark once, small
	$(PYTEST) benchmarks/micro --benchmark-enable --benchmark-min-rounds=1 --benchmark-max-time=0.05 --benchmark-warmup=off -q
	$(BIN)/python benchmarks/network.py --smoke
	$(BIN)/python benchmarks/package_exchange.py --smoke
	$(BIN)/python benchmarks/checkpoints.py --smoke
	$(BIN)/python benchmarks/sorting.py --smoke
	$(BIN)/python benchmarks/nexmark/run.py --smoke

bench: $(STAMP)  ## the micro benchmarks, measured
	$(PYTEST) benchmarks/micro --benchmark-enable

bench-network: $(STAMP)  ## the data plane beside the machine's limits, the pure twin, Flink, queues and Arrow Flight
	$(BIN)/python benchmarks/network.py
	$(BIN)/python benchmarks/package_exchange.py

bench-checkpoints: $(STAMP)  ## the cost of checkpoints for a keyed sum with two million keys
	$(BIN)/python benchmarks/checkpoints.py

bench-sorting: $(STAMP)  ## the sorting of keyed BATCH inputs and of stored outputs: CPU time and peak memory, native and pure
	$(BIN)/python benchmarks/sorting.py

bench-connectors: $(STAMP) build/kafka/jars  ## rates of connectors: Kafka, Parquet, CSV
	$(BIN)/python benchmarks/connectors.py

bench-workloads: $(STAMP)  ## the workloads beside the peers that are installed
	$(BIN)/python benchmarks/workloads/all_workloads.py

bench-nexmark: $(STAMP) build/kafka/jars  ## Nexmark beside a Python loop and other engines (EVENTS=… FORM=json|kafka)
	$(BIN)/python benchmarks/nexmark/run.py --events $(or $(EVENTS),1000000) --form $(or $(FORM),parquet)

bench-patterns: $(STAMP)  ## patterns beside Flink's CEP in Java (FLINK=folder of its jars)
	$(BIN)/python benchmarks/patterns.py $(if $(FLINK),--flink $(FLINK))
	$(BIN)/python benchmarks/pattern_memory.py $(if $(FLINK),--flink $(FLINK))

bench-sql: $(STAMP)  ## costs of SQL besides the rates of Nexmark, beside PyFlink if it is installed
	$(BIN)/python benchmarks/sql.py

bench-word-count: $(STAMP)  ## word count on Spark and locally, beside the peers that are installed
	$(BIN)/python benchmarks/workloads/word_count.py

bench-recovery: $(STAMP)  ## the pause of a job after a failure, and the time of an empty checkpoint
	$(BIN)/python benchmarks/recovery.py

bench-workers: $(STAMP)  ## two hundred workers on this machine: start, CPU time and memory of each
	$(BIN)/python benchmarks/workers.py

bench-control-plane: $(STAMP)  ## the scheduler and checkpoints of 10,000 subtasks, without workers
	$(BIN)/python benchmarks/control_plane.py

bench-dashboard: $(STAMP)  ## the cost of the dashboard for a job of 400 subtasks, and for W2
	$(BIN)/python benchmarks/dashboard.py

bench-backpressure: $(STAMP)  ## checkpoints of a job with a slow sink
	$(BIN)/python benchmarks/backpressure.py

bench-pages: $(BIN)/python  ## write docs/benchmarks from benchmarks/results
	$(BIN)/python benchmarks/pages.py

wheels: | prerequisites  ## a source distribution and manylinux wheels for each CPython found, in dist/
	sh ci/wheels.sh

containers:  ## build the image, start compose.yaml, and wait for the example's result (needs Docker)
	sh ci/containers.sh

tutorial:  ## both forms of the tutorial in empty environments with the wheel alone (after make wheels; PYTHON=…)
	$(PYTHON) tests/e2e/tutorial.py "$$(echo dist/*-cp$$($(PYTHON) -c 'import sys; print("%d%d" % sys.version_info[:2])')-*_$$(uname -m).whl)"

licenses: $(BIN)/python | prerequisites  ## write THIRD_PARTY_LICENSES from the crates that Cargo.lock links
	$(BIN)/python ci/licenses.py

chart: build/chart  ## lint the Helm chart, write deploy/kubernetes from it, and validate the manifests
	$(PYTHON) ci/chart.py

build/chart:
	PYTHON=$(PYTHON) sh ci/chart_tools.sh

test-pythons: $(STAMP)  ## a short set of tests on the other installed versions of CPython
	sh ci/pythons.sh

clean:  ## remove everything that was built
	rm -rf $(VENV) build dist target python/penstock/_core*.so python/penstock/_native/*/*.so
