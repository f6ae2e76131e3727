# One command for each thing one does here; `make` lists them. Everything is built in the one release
# profile, so that the query engine is compiled once, and into $CARGO_TARGET_DIR when that is set.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export CARGO_TARGET_DIR ?= $(CURDIR)/target
export PATH := $(PATH):$(HOME)/.cargo/bin
VENV := $(CURDIR)/.venv
PY := $(VENV)/bin/python
BIN := $(CARGO_TARGET_DIR)/release
export PYTHONPATH := $(CURDIR)/python
# What the demo and the tests call `swingdb` is what was built here.
export SWINGDB_BIN := $(BIN)/swingdb

ROWS ?= 20000000
DEMO_OUT ?= $(CURDIR)/demo-output
KILLS ?= 300
MINUTES ?= 10
# Nodes of the clusters that SQL files run on, and how tables are cut.
SHARDS ?= 2 4
CUT ?= hash
# Which tests run with debug assertions: all, or with BRIEF=1 those inside the crates, those against
# models, and those with failures. Kills at each system call, and whole programs, are left out then.
BRIEF ?=
ASSERTED := $(if $(BRIEF),--lib --test model --test tracked_model --test malloc_model --test lifecycle --test tracked --test areas \
	--test faults --test crash)
# Crates with models of what their threads compete for.
MODELLED := swing swing-malloc swing-tier swing-heap
PREFIX ?= $(HOME)/.local
# For packages: comes before PREFIX where files go, and nowhere else.
export DESTDIR ?=

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ---- what everything needs -------------------------------------------------------------------------

.PHONY: tools
tools: $(VENV)/.ready ## Rust by rustup when missing, Python packages into .venv
	@tools/ensure_rust.sh

$(VENV)/.ready: requirements/build.txt requirements/site.txt requirements/test.txt tools/make_venv.sh
	tools/make_venv.sh $(VENV)
	touch $@

.PHONY: build
build: tools ## Everything: command line, Python package, examples
	cargo build --release --workspace --locked
	tools/place_extension.sh $(BIN)

# ---- checks and tests ------------------------------------------------------------------------------

.PHONY: check
check: ## Formatting, layers, style
	cargo fmt --all --check
	cargo fmt --check --manifest-path tests/slt/Cargo.toml
	cargo fmt --check --manifest-path cluster/Cargo.toml -p swingdb-cluster -p swingdb-flight -p swingdb-listen
	cargo fmt --check --manifest-path remote/Cargo.toml
	python3 tools/check_layers.py
	python3 tools/check_style.py
	python3 tools/check_english.py

.PHONY: lint
lint: ## Clippy for every crate, warnings are errors
	cargo clippy --release --locked --workspace --all-targets -- -D warnings

.PHONY: lint-memory
lint-memory: ## Clippy for the memory layers alone, in seconds
	cargo clippy --release --locked -p swing -p swing-malloc -p swing-tier -p swing-heap -p swing-calls -p swing-capi -p libswing -p swing-preload --all-targets -- -D warnings

.PHONY: test
test: build ## All tests: Rust, documentation, Python, across processes
	tools/with_memory.sh cargo test --release --workspace --locked
	tools/with_memory.sh $(PY) -m pytest -q tests/tools tests/capi tests/python tests/docs
	$(MAKE) --no-print-directory test-server
	$(MAKE) --no-print-directory test-slt

.PHONY: test-assertions
test-assertions: tools ## The memory layers with debug assertions, which also compare all their tables; BRIEF=1
	RUSTFLAGS="-C debug-assertions=on" CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/assertions \
		tools/with_memory.sh cargo test --release --locked --config profile.release.opt-level=1 \
		-p swing -p swing-malloc -p swing-tier -p swing-heap -p swing-calls -p swing-capi $(ASSERTED)

.PHONY: test-concurrency
test-concurrency: tools ## Gates, sessions, words of extents and objects, a log: every order of threads' steps
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/concurrency \
		cargo test --release --locked $(MODELLED:%=--config profile.release.package.%.opt-level=1) \
		$(MODELLED:%=-p %) --lib --test models models::

.PHONY: test-miri
test-miri: ## What makes no system call, in Miri: undefined behaviour (needs a nightly toolchain)
	tools/miri.sh

# Fewer: make test-switches WITHOUT="copy-ahead affinity,notifier all"
WITHOUT ?=

.PHONY: test-switches
test-switches: tools ## Areas without each of the choices that only buy speed, and without all of them
	tools/with_memory.sh tools/test_switches.sh $(WITHOUT)

.PHONY: test-kill
test-kill: build ## Kill processes for longer: make test-kill KILLS=5000
	SWINGDB_KILLS=$(KILLS) tools/with_memory.sh cargo test --release --workspace --locked \
		--test kill_writer --test kill_reader -- --nocapture

.PHONY: test-each-step
test-each-step: tools ## A kill before, and a failure of, every system call, not of a part of them (10 to 15 minutes)
	SWING_EACH_STEP=1 tools/with_memory.sh cargo test --release --locked -p swing --test each_step -- --nocapture

.PHONY: test-server
test-server: build ## The server with psql and psycopg as its clients, the page of swingdb ui in a browser
	tools/with_memory.sh $(PY) -m pytest -q tests/server

# A workspace of its own: see cluster/Cargo.toml.
.PHONY: cluster
cluster: tools ## The programs of a cluster: swingdb-node, swingdb-cluster (docs/cluster.md)
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/cluster cargo build --release --locked --manifest-path cluster/Cargo.toml

# In the workspace of the cluster, with which it shares what it is made of.
.PHONY: flight
flight: tools ## The server for Arrow Flight SQL clients (docs/flight.md): swingdb-flight
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/cluster cargo build --release --locked \
		--manifest-path cluster/Cargo.toml -p swingdb-flight

.PHONY: test-flight
test-flight: tools ## The server for Flight SQL, with Rust's client, and that of ADBC where it is installed
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/cluster tools/with_memory.sh cargo test --locked \
		--manifest-path cluster/Cargo.toml -p swingdb-flight -p swingdb-listen -- --test-threads=2
	SWINGDB_FLIGHT=$(CARGO_TARGET_DIR)/cluster/debug/swingdb-flight $(PY) -m pytest -q tests/flight

# A workspace of its own: see remote/Cargo.toml.
.PHONY: remote
remote: tools ## The program that fetches s3://, gs:// and https:// (docs/import-export.md): swingdb-remote
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/remote cargo build --release --locked --manifest-path remote/Cargo.toml

.PHONY: test-remote
test-remote: build remote ## Files of object stores and the web, from servers of this machine (needs moto_server for S3)
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/remote cargo test --release --locked --manifest-path remote/Cargo.toml
	$(PY) -m pytest -q tests/python/test_remote.py

.PHONY: test-cluster
test-cluster: build ## A cluster's tests, with nodes as processes of this machine that are killed
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/cluster tools/with_memory.sh \
		cargo test --locked --manifest-path cluster/Cargo.toml -- --test-threads=2
	SWINGDB_CLUSTER_PROGRAMS=$(CARGO_TARGET_DIR)/cluster/debug $(PY) -m pytest -q tests/python/test_cluster.py

# The tests make a network of their own inside of the namespace. What they need from elsewhere is built before.
.PHONY: test-cluster-network
test-cluster-network: tools ## Nodes whose network is slow, loses packets, or is cut off (root; netem where the kernel has it)
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/cluster cargo test --no-run --locked --manifest-path cluster/Cargo.toml -p swingdb-cluster
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/cluster SWINGDB_TEST_NETWORK=own tools/with_memory.sh unshare --net \
		cargo test --locked --offline --manifest-path cluster/Cargo.toml -p swingdb-cluster --test network -- --test-threads=1 --nocapture

.PHONY: test-slt
test-slt: build ## SQL files of tests/sql, or others: make test-slt SUITE=dir KNOWN=tests/sql/known/duckdb.txt STRICT=1
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/slt cargo build --locked --manifest-path tests/slt/Cargo.toml
	$(CARGO_TARGET_DIR)/slt/debug/swingdb-slt --session "$(PY) $(CURDIR)/tests/slt/session.py" \
		--label swingdb --jobs $$(nproc) $(if $(KNOWN),--known $(KNOWN)) $(if $(REPORT),--report $(REPORT)) \
		$(if $(STRICT),--known-files run --unused-known fail) $(if $(SUITE),$(SUITE),--folder tests/sql tests/sql)

.PHONY: test-slt-duckdb
test-slt-duckdb: tools ## SQL files of tests/sql on DuckDB: are their expectations also its answers?
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/slt cargo build --locked --manifest-path tests/slt/Cargo.toml
	$(CARGO_TARGET_DIR)/slt/debug/swingdb-slt --session "$(PY) $(CURDIR)/tests/slt/session.py --engine duckdb" \
		--label duckdb --errors any --jobs $$(nproc) --folder tests/sql tests/sql

# Refusals, and what SQL leaves open, are in the list of known differences.
.PHONY: test-slt-cluster
test-slt-cluster: build ## SQL files of tests/sql on clusters of 2 and 4 nodes: SHARDS=2 CUT=as_it_lies SUITE=dir
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/cluster cargo build --locked --manifest-path cluster/Cargo.toml -p swingdb-cluster
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/slt cargo build --locked --manifest-path tests/slt/Cargo.toml
	for shards in $(SHARDS); do \
		$(CARGO_TARGET_DIR)/slt/debug/swingdb-slt --session "$(PY) $(CURDIR)/tests/slt/cluster.py --shards $$shards --cut $(CUT) --programs $(CARGO_TARGET_DIR)/cluster/debug" \
		--label swingdb --label cluster --errors any --order any --jobs $$(nproc) --known tests/sql/known/cluster.txt \
		$(if $(REPORT),--report $(REPORT)) $(if $(SUITE),$(SUITE),--folder tests/sql tests/sql) || exit; done

.PHONY: test-soak
test-soak: build ## Kill writers, readers, hookers at random for a while: make test-soak MINUTES=60
	tools/with_memory.sh $(PY) tests/soak/soak.py --seconds $$(($(MINUTES) * 60))

.PHONY: test-random
test-random: build ## Random queries beside DuckDB for longer: make test-random MINUTES=60
	$(PY) tests/oracle/random_rows.py --minutes $(MINUTES) --go-on

.PHONY: reference
reference: build ## The reference pages in docs: functions, settings, commands, Python calls
	$(PY) tools/reference.py

.PHONY: site
site: tools ## The documents as a site of HTML pages, in site/
	$(PY) tools/site.py $(CURDIR)/site

# ---- to look at ------------------------------------------------------------------------------------

# What the demo runs; the same features as the whole workspace has, so that `make build` adds to it.
.PHONY: build-demo
build-demo: tools
	cargo build --release --locked -p swingdb-cli -p swingdb-python -p swingdb-pipeline
	tools/place_extension.sh $(BIN)

.PHONY: demo
demo: build-demo ## Five real programs hand 20 M taxi positions to each other: make demo ROWS=170000000
	$(PY) examples/pipeline/run.py --rows $(ROWS) --out $(DEMO_OUT) --bin $(BIN)

.PHONY: tour
tour: build ## Run the README's five-minute tour and compare what it prints
	$(PY) -m pytest -q tests/docs

# ---- benchmarks ------------------------------------------------------------------------------------

.PHONY: bench
bench: bench-database bench-memory bench-disk ## All benchmarks, for hours; results under bench/results

OF_DATABASE := handover snapshot share first-scan readers tpch per-query import dml sessions many-cores export \
	readers-writer private-copy footprint fig15 fig17 fig18 sql-suites
OF_MEMORY := live extents fig8 fig9 fig10 malloc
OF_DISK := probe scan cold commits checkpoint open-store mapped-random mapped-scan bulk

.PHONY: bench-database
bench-database: $(OF_DATABASE:%=bench-%) ## All benchmarks of the database
	$(PY) bench/report.py
	$(PY) bench/comparison.py

.PHONY: comparison
comparison: tools ## docs/comparison.md, from the results that are there
	$(PY) bench/comparison.py

.PHONY: bench-memory
bench-memory: $(OF_MEMORY:%=bench-%) ## All benchmarks of the memory layer

.PHONY: bench-disk
bench-disk: $(OF_DISK:%=bench-%) ## All benchmarks of the disk

.PHONY: bench-handover
bench-handover: build ## Handing a table to another process, against files and pipes
	$(PY) bench/handover.py --bin $(BIN)

# Shorter: make bench-readers-writer JOB="--rounds 2 --seconds 2"; the programs list their flags by --help.
JOB ?=

.PHONY: bench-readers-writer
bench-readers-writer: build ## Readers while one process writes, against DuckDB, LMDB, SQLite
	$(PY) bench/readers_writer.py $(JOB)

.PHONY: bench-private-copy
bench-private-copy: build ## A private copy of a table with 1 % of its rows changed, against copies, fork, files
	$(PY) bench/private_copy.py $(JOB)

.PHONY: bench-footprint
bench-footprint: build ## Memory that the same rows take: DuckDB, Polars, pandas, Arrow
	$(PY) bench/footprint.py $(JOB)

.PHONY: bench-installed
bench-installed: wheel ## From pip install to the first answer, and what is installed; needs the network
	$(PY) bench/installed.py $(JOB)

# DuckDB's extension, which generates them, is there for older versions of it only.
FOLDER ?= $(CARGO_TARGET_DIR)/tpcds
.PHONY: tpcds-files
tpcds-files: tools ## TPC-DS' tables and queries for bench-sql-suites: make tpcds-files FOLDER=dir; needs the network
	python3 -m venv $(CARGO_TARGET_DIR)/tpcds-tools
	$(CARGO_TARGET_DIR)/tpcds-tools/bin/pip install --quiet duckdb==1.5.5 duckdb-extension-tpcds==1.5.5
	$(CARGO_TARGET_DIR)/tpcds-tools/bin/python bench/tpcds_files.py $(FOLDER) $(JOB)

.PHONY: bench-sql-suites
bench-sql-suites: build ## TPC-H, TPC-DS, db-benchmark, ClickBench's queries: DuckDB, Polars, DataFusion alone
	$(PY) bench/sql_suites.py --bin $(BIN) $(JOB)

.PHONY: bench-snapshot
bench-snapshot: build ## Taking a snapshot at 1 MB, 1 GB, 8 GB; Rust and Python
	$(PY) bench/snapshot.py --bin $(BIN)

.PHONY: bench-share
bench-share: build ## share() after a one-row change of an 8 GB database
	$(PY) bench/share.py --bin $(BIN)

.PHONY: bench-first-scan
bench-first-scan: build ## Sum of a column in a fresh process against the writer's process
	$(PY) bench/first_scan.py --bin $(BIN)

.PHONY: bench-readers
bench-readers: build ## Proportional set size of eight readers of one database
	$(PY) bench/readers.py --bin $(BIN)

.PHONY: bench-aggregates
bench-aggregates: build ## Aggregates of few and of many groups against DuckDB
	$(PY) bench/aggregates.py

.PHONY: bench-tpch
bench-tpch: build ## TPC-H at scale 1, 22 queries, values compared, against DuckDB
	$(PY) bench/tpch.py --bin $(BIN)

.PHONY: bench-cluster
bench-cluster: build cluster ## TPC-H on clusters of 1, 2, 4 and 8 shards: CPU, bytes over the network (root)
	$(PY) bench/cluster.py --bin $(BIN) --programs $(CARGO_TARGET_DIR)/cluster/release $(JOB)

.PHONY: bench-per-query
bench-per-query: build ## A fresh process per query: swingdb sql, duckdb, polars
	$(PY) bench/per_query.py --bin $(BIN)

.PHONY: bench-import
bench-import: build ## Import of Parquet and CSV against DuckDB
	$(PY) bench/import.py --bin $(BIN)

.PHONY: bench-export
bench-export: build ## A table as an Arrow stream through a pipe, against Arrow's own writer
	$(PY) bench/export.py
	$(PY) bench/bulk_report.py

.PHONY: bench-dml
bench-dml: build ## UPDATE, DELETE, INSERT, MERGE of many rows against DuckDB
	$(PY) bench/dml.py --bin $(BIN)

.PHONY: bench-short
bench-short: build ## Short statements one after another, by text, parameter and EXECUTE, against DuckDB
	$(PY) bench/short.py --bin $(BIN)

.PHONY: bench-sessions
bench-sessions: build ## Many sessions at once: fairness, short queries and commits beside long ones, against DuckDB
	$(PY) bench/sessions.py --bin $(BIN)

.PHONY: bench-server
bench-server: build ## The server: starting a session, fetching rows, against DuckDB's fetch in its process
	$(PY) bench/server.py --bin $(BIN)

.PHONY: bench-many-cores
bench-many-cores: build ## Import, CREATE TABLE AS and TPC-H by number of cores: make bench-many-cores SCALE=10
	$(PY) bench/many_cores.py --bin $(BIN) --scale $(or $(SCALE),1)

.PHONY: bench-gpu
bench-gpu: build ## Another process's table and area to a GPU, against pinned memory (needs PyTorch and a GPU)
	$(PY) bench/gpu.py --bin $(BIN)

.PHONY: bench-malloc
bench-malloc: tools ## The allocator against glibc, jemalloc, mimalloc, tcmalloc
	$(PY) bench/malloc.py --bin $(BIN)
	$(PY) bench/malloc_report.py

.PHONY: bench-record-malloc
bench-record-malloc: build ## Record what imports allocate, for the traces of bench-malloc
	$(PY) bench/record_malloc.py --bin $(BIN)

.PHONY: bench-fig8
bench-fig8: tools ## Handing 1-8 GB to another process: hook, FIFO, pipe, socket, shared memory
	$(PY) bench/fig8.py --bin $(BIN)
	$(PY) bench/experiments.py fig8

.PHONY: bench-fig9
bench-fig9: tools ## Throughput of a storing process under snapshots: live hooks against fork
	$(PY) bench/fig9.py
	$(PY) bench/experiments.py fig9

# Peers that take part where they are installed: DuckDB and Arrow Flight always do. Others by
# `make peers`; PostgreSQL and Redis by the system's packages (postgresql, redis-server).
.PHONY: peers
peers: tools ## Packages that only some benchmarks compare with, into .venv
	$(PY) -m pip install --quiet -r requirements/peers.txt

# The paper's sizes: make bench-fig15 FIG15="--rows 170000000", bench-fig18 FIG18="--rows 500000000"
FIG15 ?=
FIG17 ?=
FIG18 ?=

.PHONY: bench-fig15
bench-fig15: build ## Figures 15, 16: K-means over taxi positions in a process that is not the database's
	$(PY) bench/paper.py fig15 $(FIG15)
	$(PY) bench/paper_report.py fig15

.PHONY: bench-fig17
bench-fig17: build ## Figure 17: average speed in a region for every 15 seconds of 1 to 7 days
	$(PY) bench/paper.py fig17 $(FIG17)
	$(PY) bench/paper_report.py fig17

.PHONY: bench-fig18
bench-fig18: build ## Figures 18, 19: standard deviation of phone bills by selectivity; query, transfer, analysis
	$(PY) bench/paper.py fig18 $(FIG18)
	$(PY) bench/paper_report.py fig18

.PHONY: bench-live
bench-live: tools ## Time of a live hook of an 8 GB owner, and the stalls of its stores
	$(PY) bench/live.py
	$(PY) bench/experiments.py live

.PHONY: bench-extents
bench-extents: tools ## What the size of extents trades; the tables of docs/extents.md
	$(PY) bench/extents.py

.PHONY: bench-scan
bench-scan: tools ## Scan and aggregation of TPC-C's customer table in parallel, against fio and one block at a time
	cargo build --release --locked -p swing-tier --example scan-bench
	$(PY) bench/scan.py --bin $(BIN)
	$(PY) bench/scan_report.py

.PHONY: bench-probe
bench-probe: tools ## Curves of a probe of this disk, and of models of the paper's three disks
	cargo build --release --locked -p swing-tier --example probe_curves
	$(PY) bench/probe.py --bin $(BIN)
	$(PY) bench/disk.py probe

.PHONY: bench-cold
bench-cold: build ## The first query of a fresh process on a database on a disk, against DuckDB's file
	$(PY) bench/cold.py --bin $(BIN)

.PHONY: bench-commits
bench-commits: build ## Durable commits of one row by 1, 4 and 16 threads, against SQLite
	$(PY) bench/commits.py --bin $(BIN)

# Smaller: make bench-checkpoint JOB="--mb 200 --scale 0.1"; larger: make bench-open-store JOB="--gb 10".
.PHONY: bench-checkpoint
bench-checkpoint: build ## Checkpoints against the disk's sequential write, and of small changes
	$(PY) bench/checkpoint.py --bin $(BIN) $(JOB)

.PHONY: bench-open-store
bench-open-store: build ## From nothing in memory to the first answer of a database on a disk
	$(PY) bench/open_store.py --bin $(BIN) $(JOB)

.PHONY: bench-mapped-random
bench-mapped-random: tools ## Random reads of files larger than memory: mmap, pread, io_uring, fio; root
	cargo build --release --locked -p swing-tier --example read_ways
	$(PY) bench/mapped.py random --bin $(BIN)
	$(PY) bench/disk.py mapped-random

.PHONY: bench-mapped-scan
bench-mapped-scan: tools ## Scans of files larger than memory: mmap, pread, io_uring, fio; root
	cargo build --release --locked -p swing-tier --example read_ways
	$(PY) bench/mapped.py scan --bin $(BIN)
	$(PY) bench/disk.py mapped-scan

# Smaller, or other parts: make bench-bulk BULK="--mb 256 --parts files,memory"
BULK ?=

.PHONY: bench-bulk
bench-bulk: tools ## A 1.4 GB file through two processes into another file: pipes, splice, shared memory, areas
	cargo build --release --locked -p swing-bulk
	$(PY) bench/bulk.py --bin $(BIN) $(BULK)
	$(PY) bench/bulk_report.py

# The paper's four, or others: make bench-heap-workloads WORKLOADS=btree HEAP="--size 64M:10G --runs 1"
WORKLOADS ?=
# What bench/heap/workloads.py is given besides: 1 GB of objects of 1 KiB in 64 MB by itself. Mixes and
# random lengths: HEAP="--writes 0 20 50 --sizes 512 1024 2048 ~1024".
HEAP ?=

.PHONY: bench-heap-workloads
bench-heap-workloads: tools ## The object heap against Linux swap and a mapped file: the paper's four; root
	cargo build --release --locked -p swing-heap --example workloads
	$(PY) bench/heap/workloads.py $(WORKLOADS) --program $(BIN)/examples/workloads --folder /var/tmp $(HEAP)

.PHONY: bench-heap-store
bench-heap-store: tools ## The object heap against swap and foyer: YCSB A-F, a walk through a graph; root
	cargo build --release --locked -p swing-heap --example workloads
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/foyer cargo build --release --locked --manifest-path bench/foyer/Cargo.toml
	$(PY) bench/heap/workloads.py $(if $(WORKLOADS),$(WORKLOADS),graph ycsb-a ycsb-b ycsb-c ycsb-d ycsb-e ycsb-f) \
		--sides heap lists malloc foyer --foyer $(CARGO_TARGET_DIR)/foyer/release/swing-bench-foyer \
		--program $(BIN)/examples/workloads --folder /var/tmp --name heap-store $(HEAP)

.PHONY: bench-heap-policies
bench-heap-policies: tools ## Hit rates of the object heap's policies on traces, beside LRU and the best possible
	cargo build --release --locked -p swing-heap --example policies
	$(PY) bench/heap/policies.py --program $(BIN)/examples/policies

.PHONY: bench-heap-guards
bench-heap-guards: ## What a guard costs on an object in memory, beside a plain load; many threads
	cargo run --release --locked -p swing-heap --example guards

# Not those of heaps in areas, whose addresses ThreadSanitizer cannot follow (loom's models have their gates),
# nor atomic instructions at plain pointers, which would fault inside of its own locks.
RACED := model objects replaced persistent faults garbage policy fuzzed pointers \
	engines lifecycle scan aggregate crash kill

.PHONY: test-heap-races
test-heap-races: ## The log and the object heap under ThreadSanitizer (needs a nightly toolchain with rust-src)
	RUSTFLAGS="-Zsanitizer=thread --cfg rustix_use_libc" CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/races \
		TSAN_OPTIONS="report_signal_unsafe=0 die_after_fork=0 handle_sigbus=0 suppressions=$(CURDIR)/tools/tsan.suppressions" \
		cargo +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu --release --locked \
		-p swing-tier -p swing-heap $(RACED:%=--test %) -- --test-threads=1 --skip threads_store_to_one_object

# Damaged files of a heap, for longer: make test-heap-fuzz ROUNDS=5000
ROUNDS ?= 1000

.PHONY: test-heap-fuzz
test-heap-fuzz: ## Files of a persistent heap, damaged at random
	SWING_FUZZ=$(ROUNDS) cargo test --release --locked -p swing-heap --test fuzzed -- --nocapture

.PHONY: test-power-cuts
test-power-cuts: ## Power cuts after every write; as root also of a mounted ext4 file system
	test "$$(id -u)" != 0 || export SWING_SHUTDOWN=1; SWING_EVERY_PREFIX=1 \
		cargo test --release --locked -p swing-tier --test crash --test shutdown -- --nocapture

# Fuzz targets: make fuzz TARGET=tier SECONDS=60, or all of them, in turn. Without a nightly compiler
# the same entry points run on random bytes in the ordinary tests.
MEMORY_TARGETS := malloc area tier pack profile journal heap objects
DATABASE_TARGETS := session manifest csv files sql
TARGET ?= $(MEMORY_TARGETS) records $(DATABASE_TARGETS)
SECONDS ?= 60

.PHONY: fuzz
fuzz: ## Fuzz targets under libFuzzer: make fuzz TARGET=tier SECONDS=60 (needs nightly and cargo-fuzz)
	@cargo fuzz --version >/dev/null 2>&1 || { echo "cargo-fuzz is missing: cargo install cargo-fuzz"; exit 1; }
	@set -e; for target in $(TARGET); do \
		case " $(MEMORY_TARGETS) " in *" $$target "*) folder=fuzz/memory;; *) folder=fuzz;; esac; \
		test $$target != records || folder=fuzz/store; \
		cargo +nightly fuzz run --fuzz-dir $$folder $$target -- -max_total_time=$(SECONDS); \
	done

.PHONY: bench-fig10
bench-fig10: tools ## YCSB on Redis whose heap is hooked, against BGSAVE, FIFO, shared memory
	cargo build --release --locked -p swing-preload --lib --examples
	$(PY) bench/fig10.py --bin $(BIN)
	$(PY) bench/experiments.py fig10

# As bench-live: make bench-switches JOB="--jobs live-huge,live-small --mib 8192 --interval 1000 --hooks 20"
.PHONY: bench-switches
bench-switches: tools ## What each choice of the memory layer buys that only buys speed, by turns (10 minutes)
	cargo build --release --locked -p swing-preload --lib --examples
	$(PY) bench/switches.py --bin $(BIN) $(JOB)

# ---- to use it -------------------------------------------------------------------------------------

.PHONY: install
install: build ## Command line, libswing with headers and pkg-config files, preload library, into PREFIX
	install -D -m 755 "$(BIN)/swingdb" "$(DESTDIR)$(PREFIX)/bin/swingdb"
	install -D -m 755 "$(BIN)/swingdb-server" "$(DESTDIR)$(PREFIX)/bin/swingdb-server"
	if [ -e "$(CARGO_TARGET_DIR)/remote/release/swingdb-remote" ]; then install -D -m 755 "$(CARGO_TARGET_DIR)/remote/release/swingdb-remote" "$(DESTDIR)$(PREFIX)/bin/swingdb-remote"; fi
	install -D -m 755 "$(BIN)/libswingmalloc_preload.so" "$(DESTDIR)$(PREFIX)/lib/libswingmalloc_preload.so"
	tools/install_c.sh "$(BIN)" "$(PREFIX)"

.PHONY: install-c
install-c: ## libswing with headers and pkg-config files, and the preload library, into PREFIX; no query engine
	@tools/ensure_rust.sh
	cargo build --release --locked -p libswing -p swing-preload --lib
	install -D -m 755 "$(BIN)/libswingmalloc_preload.so" "$(DESTDIR)$(PREFIX)/lib/libswingmalloc_preload.so"
	tools/install_c.sh "$(BIN)" "$(PREFIX)"

.PHONY: uninstall
uninstall: ## Take away from PREFIX what install put there
	rm -f "$(DESTDIR)$(PREFIX)/bin/swingdb" "$(DESTDIR)$(PREFIX)/bin/swingdb-server" "$(DESTDIR)$(PREFIX)/bin/swingdb-remote" "$(DESTDIR)$(PREFIX)/lib/libswingmalloc_preload.so"
	tools/install_c.sh "$(BIN)" "$(PREFIX)" --remove

.PHONY: wheel
wheel: tools ## The Python package as a wheel in dist/
	$(VENV)/bin/maturin build --release --locked --out dist

.PHONY: doc
doc: ## The Rust documentation
	cargo doc --release --locked --no-deps --workspace

.PHONY: clean
clean: ## What was built (not the Python packages)
	cargo clean
	rm -rf $(DEMO_OUT) dist python/swingdb/_internal*.so
