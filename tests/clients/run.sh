#!/usr/bin/env bash
# The client matrix: real programs and libraries against a node in front of the faulty mock, and against the demo.
#
#     tests/clients/run.sh [CLIENT...]
#
# Without a name, all of them. Each Python client has an environment of its own, so that one can be tried alone and none
# holds another's packages back. PITON_BIN names a binary, else the debug build is brought up to date. MOCK names the
# mock's cargo project. Prints `ok NAME` or `FAIL NAME: why` for each check, `N passed, M failed` for each script, and a
# table with versions at the end. pin.sh moves the versions on.
set -euo pipefail
cd "$(dirname "$0")/../.."
mock=${MOCK:-../shared/bench/mock}
[ -f "$mock/Cargo.toml" ] || { echo "no mock at $mock: set MOCK to its cargo project" >&2; exit 1; }
sdks=(python node)
others=(litellm langchain pydantic_ai agents instructor llm aider vercel codex)
three="chat, responses, messages"
declare -A doors=([litellm]=$three [langchain]=$three [pydantic_ai]=$three [agents]="chat, responses" [instructor]=$three
    [llm]=chat [aider]="chat, messages" [vercel]=$three [codex]=responses)
[ $# -gt 0 ] || set -- "${sdks[@]}" "${others[@]}"
for client; do
    [[ " ${sdks[*]} ${others[*]} " == *" $client "* ]] || { echo "no client $client: ${sdks[*]} ${others[*]}" >&2; exit 2; }
done
. tests/clients/nodes.sh

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

# three NAME: a mock, which counts calls by model, with two nodes in front of it, and a node with the demo.
three() {
    local provider
    start_mock
    provider=("PITON_OPENAI_BASE_URL=$MOCK_URL/v1" OPENAI_API_KEY=dummy)
    serve "$1-narrow" "${provider[@]}" -- --config "$work/narrow.toml"
    NARROW_URL=$url NARROW_KEY=$(issue runner)
    serve "$1-mock" "${provider[@]}"
    MOCK_NODE_URL=$url MOCK_NODE_KEY=$(issue runner) READER_KEY=$(issue reader)
    serve "$1-demo" -- --demo
    CLIENT_URL=$url CLIENT_KEY=$(issue runner)
    export NARROW_URL NARROW_KEY MOCK_NODE_URL MOCK_NODE_KEY READER_KEY CLIENT_URL CLIENT_KEY
}

# sdk NAME COMMAND SUFFIX: the SDKs of one language, door by door.
sdk() {
    local target name
    three "$1"
    for target in mock demo messages responses; do
        name=$openai
        [ "$target" != messages ] || name=$anthropic
        if [ "$target" = mock ]; then
            CLIENT_URL=$MOCK_NODE_URL CLIENT_KEY=$MOCK_NODE_KEY one "$name" "$target" "$2" "tests/clients/$1/against_$target.$3"
        else
            one "$name" "$target" "$2" "tests/clients/$1/against_$target.$3"
        fi
    done
}

for client; do
    case $client in
    python)
        venv sdks
        openai=$(versions sdks) anthropic="${openai#*, } (Python)" openai="${openai%, *} (Python)"
        sdk python "$cache/sdks/bin/python" py
        ;;
    node)
        node_modules
        openai="$(packages openai) (Node)" anthropic="$(packages @anthropic-ai/sdk)"
        sdk node node mjs
        ;;
    *)
        # The others share theirs.
        [[ " ${nodes[*]} " == *" others-demo "* ]] || three others
        case $client in
        vercel)
            node_modules
            name=$(packages ai @ai-sdk/openai @ai-sdk/anthropic @ai-sdk/openai-compatible)
            one "$name" "${doors[vercel]}" node tests/clients/node/by_vercel.mjs
            ;;
        codex)
            node_modules
            one "$(packages @openai/codex)" "${doors[codex]}" python3 tests/clients/python/by_codex.py
            ;;
        *)
            venv "$client"
            one "$(versions "$client")" "${doors[$client]}" "$cache/$client/bin/python" "tests/clients/python/by_$client.py"
            ;;
        esac
        ;;
    esac
done
audit
table
clients
exit "$failed"
