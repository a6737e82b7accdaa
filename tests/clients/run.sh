#!/usr/bin/env bash
# The client matrix: OpenAI's and Anthropic's Python and Node SDKs against a node in front of the mock, and against the demo.
#
# PITON_BIN names a binary, else the debug build is brought up to date. MOCK names the mock's cargo project.
# Prints `ok NAME` or `FAIL NAME: why` for each check and `N passed, M failed` for each script.
set -euo pipefail
cd "$(dirname "$0")/../.."
mock=${MOCK:-../shared/bench/mock}
[ -f "$mock/Cargo.toml" ] || { echo "no mock at $mock: set MOCK to its cargo project" >&2; exit 1; }
. tests/clients/nodes.sh

install_sdks
find_piton
cargo build --quiet --locked --manifest-path "$mock/Cargo.toml" --target-dir "$PWD/target/mock" --bin mock

# A little between two deltas, so that a stream is one.
start_mock() {
    local port
    port=$(free_port)
    PORT=$port CHUNK_DELAY_US=1000 target/mock/debug/mock >"$work/mock.txt" 2>&1 &
    started+=($!)
    export MOCK_URL=http://127.0.0.1:$port
    wait_until "the mock" "$work/mock.txt" curl -fsS -m 5 "$MOCK_URL/__stats"
}

# One run at a time and short pauses, so that 429 is met both ways: from the node and from the provider.
cat >"$work/narrow.toml" <<'TOML'
[limits]
max_concurrent_runs = 1
[retry]
retry_base_ms = 100
retry_cap_ms = 1000
TOML

# Each SDK has a mock and nodes of its own, since the mock counts calls by model.
for sdk in python node; do
    start_mock
    provider=("PITON_OPENAI_BASE_URL=$MOCK_URL/v1" OPENAI_API_KEY=dummy)
    serve "$sdk-narrow" "${provider[@]}" -- --config "$work/narrow.toml"
    NARROW_URL=$url NARROW_KEY=$(issue runner)
    serve "$sdk-mock" "${provider[@]}"
    CLIENT_URL=$url CLIENT_KEY=$(issue runner) READER_KEY=$(issue reader)
    export NARROW_URL NARROW_KEY CLIENT_URL CLIENT_KEY READER_KEY
    one "$sdk" mock
    export MOCK_NODE_URL=$CLIENT_URL MOCK_NODE_KEY=$CLIENT_KEY
    serve "$sdk-demo" -- --demo
    CLIENT_URL=$url CLIENT_KEY=$(issue runner)
    one "$sdk" demo
    one "$sdk" messages
    one "$sdk" responses
done
audit
exit "$failed"
