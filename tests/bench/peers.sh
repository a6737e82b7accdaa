#!/usr/bin/env bash
# Piton's three front doors beside LiteLLM and Portkey, before the same provider (the mock of ../shared/bench), in one run:
# first token, requests a second and CPU a request at 1, 16 and 64 in flight, journal on and durable. Everything shares the
# machine, so only ratios of one run say anything. JSON lines, then a table. PITON_BIN names the node's binary;
# PITON_BENCH_SECONDS the length of each measurement. What is installed stays in .cache/peers.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec </dev/null
from=$PWD/../shared/bench folder=$PWD/.cache/peers seconds=${PITON_BENCH_SECONDS:-4}
node=${PITON_BIN:-$PWD/target/release/piton}
[ -x "$node" ] || { echo "no node at $node: cargo build --release -p gateway, or set PITON_BIN" >&2; exit 1; }
[ -d "$from" ] || { echo "no $from: the mock and the peers' scripts come from there" >&2; exit 1; }

install() {
    mkdir -p "$folder/logs" "$folder/npm"
    cp -r --update=none "$from"/. "$folder"/
    chmod -R u+w "$folder"
    # Streams of the other two front doors end in their own words.
    sed -i 's/if find(&d, b"\[DONE\]") {/if find(\&d, b"[DONE]") || find(\&d, b"message_stop") || find(\&d, b"response.completed") {/' \
        "$folder/mock/src/bin/gwload.rs"
    cargo build --quiet --release --manifest-path "$folder/mock/Cargo.toml"
    [ -x "$folder/venv-litellm/bin/litellm" ] || {
        python3 -m venv "$folder/venv-litellm"
        "$folder/venv-litellm/bin/pip" install --quiet 'litellm[proxy]==1.106.12'
    }
    [ -d "$folder/npm/node_modules/@portkey-ai/gateway" ] || {
        (cd "$folder/npm" && npm init -y >logs.txt && npm install --silent @portkey-ai/gateway@1.15.2)
    }
}

# until URL: what listens there answers.
until_up() {
    for _ in $(seq 300); do
        curl --silent --output /dev/null --max-time 2 "$1" && return 0
        sleep 0.2
    done
    echo "nothing answers at $1" >&2
    return 1
}

# measure NAME URL PID BODY-OR-EMPTY HEADER…
measure() {
    local name=$1 url=$2 pid=$3 body=$4 words=()
    shift 4
    for header in "$@"; do words+=(-H "$header"); done
    if [ -z "$body" ]; then
        (cd "$folder" && ./bench.sh "$name" "$url" "$pid" "$seconds" "${words[@]}") >/dev/null
        return
    fi
    # The two forms of one body: whole, and streamed.
    echo "$body" >"$folder/whole.json"
    echo "${body%\}},\"stream\":true}" >"$folder/streamed.json"
    (cd "$folder" && CS="1 16 64" bash -c '
        sed "s|for S in \"\" \"-s\"; do|for S in \"-b whole.json\" \"-s -b streamed.json\"; do|" bench.sh >bench-body.sh
        chmod +x bench-body.sh
        exec ./bench-body.sh "$@"' _ "$name" "$url" "$pid" "$seconds" "${words[@]}") >/dev/null
}

install
mock="" litellm="" portkey="" piton="" data=$(mktemp -d)
stop() {
    for pid in $piton $litellm $portkey $mock; do kill "$pid" 2>/dev/null || true; done
    rm -rf "$data"
}
trap stop EXIT

rm -f "$folder/results.jsonl"
mock=$(cd "$folder" && ./start-mock.sh)
litellm=$(cd "$folder" && ./start-litellm.sh 1)
portkey=$(cd "$folder" && SHIM=1 ./start-portkey.sh)
env -i PATH="$PATH" HOME="$data" OPENAI_API_KEY=sk-A PITON_OPENAI_BASE_URL=http://127.0.0.1:9100/v1 \
    PITON_API_KEY=bench-admin-key-0123456789 PITON_LIMITS_MAX_CONCURRENT_RUNS=256 \
    "$node" serve --bind 127.0.0.1:7499 --data-dir "$data/piton" >"$folder/logs/piton.log" 2>&1 &
piton=$!
until_up http://127.0.0.1:9100/v1/models
until_up http://127.0.0.1:7499/health/ready
until_up http://127.0.0.1:4000/health/liveliness
until_up http://127.0.0.1:8787/

say='"Say something about foxes and dogs in forty words."' model=openai:gpt-4o-mini
key="authorization: Bearer bench-admin-key-0123456789"
measure direct http://127.0.0.1:9100/v1/chat/completions "$mock" ""
measure piton-chat http://127.0.0.1:7499/v1/chat/completions "$piton" \
    "{\"model\":\"$model\",\"max_tokens\":64,\"messages\":[{\"role\":\"user\",\"content\":$say}]}" "$key"
measure piton-messages http://127.0.0.1:7499/v1/messages "$piton" \
    "{\"model\":\"$model\",\"max_tokens\":64,\"messages\":[{\"role\":\"user\",\"content\":$say}]}" "$key"
measure piton-responses http://127.0.0.1:7499/v1/responses "$piton" \
    "{\"model\":\"$model\",\"max_output_tokens\":64,\"input\":$say}" "$key"
measure portkey http://127.0.0.1:8787/v1/chat/completions "$portkey" "" "x-portkey-provider: openai" \
    "x-portkey-custom-host: http://127.0.0.1:9100/v1" "authorization: Bearer sk-A"
measure litellm http://127.0.0.1:4000/v1/chat/completions "$litellm" "" \
    "authorization: Bearer $(sed -n 's/^export LITELLM_MASTER_KEY=\([^ ]*\).*/\1/p' "$folder/start-litellm.sh")"

python3 tests/bench/peers.py "$folder/results.jsonl"
