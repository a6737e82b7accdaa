# `just verify` is the gate; `.ci/run` runs it after installing what is missing.

set shell := ["bash", "-euo", "pipefail", "-c"]

# List the recipes.
list:
    @just --list --unsorted

# Everything the gate asks, in its order.
verify: check-fmt build test doctest clippy doc end-to-end

# Everything that needs no test run: format, clippy, documentation.
check: check-fmt clippy doc

# Report files that rustfmt would change.
check-fmt:
    cargo fmt --all --check

# Build everything, tests and benches included. Always the whole workspace: one feature set, one build.
build:
    cargo build --locked --workspace --all-targets

# Run the tests of one crate, or of all.
test crate="":
    cargo nextest run --locked --no-fail-fast {{ if crate == "" { "--workspace" } else { "--package " + crate } }}

# Run the examples in the documentation, which nextest does not.
doctest:
    cargo test --locked --workspace --doc

# Lint every target; a warning is an error.
clippy:
    cargo clippy --locked --workspace --all-targets -- -D warnings

# Build the documentation; a broken link is an error.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps

# Start the debug binary with the demo model, kill it with SIGKILL, restart it, verify the journal.
end-to-end:
    tests/end-to-end.sh

# Start three NATS servers and three nodes on loopback, and say how to use them. Ctrl-C stops all of it.
cluster:
    deploy/cluster.sh

# Measure the figures; JSON, ratios within one run.
bench:
    cargo bench --locked -p tests

# Accept the golden bytes of new events; read the diff before committing it.
bless:
    PITON_BLESS=1 cargo test --locked -p events --lib the_bytes_of

# Take a run's decisions again from the journal of the running node, and compare.
replay run:
    cargo run --locked --quiet -p gateway -- run replay --check {{ run }}

# Run a lane that is too long for the gate; without a name, list the lanes.
extended lane="":
    .ci/extended {{ lane }}
