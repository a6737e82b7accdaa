#!/usr/bin/env bash
# The main job, quickly, with the shipped binary's debug build: serve, chat, a run, kill -9, restart, verify.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${PITON_BIN:-target/debug/piton}
[ -x "$bin" ] || cargo build --locked -p gateway
data=$(mktemp -d)
trap 'kill -9 "$pid" 2>/dev/null || true; rm -rf "$data"' EXIT
export PITON_DATA_DIR=$data PITON_ADMIN_KEY=end-to-end-admin-key NO_COLOR=1

serve() {
  rm -f "$data/node.json"
  "$bin" serve --demo --bind 127.0.0.1:0 >"$data/out.txt" 2>"$data/err.txt" &
  pid=$!
  for _ in $(seq 600); do
    [ -s "$data/node.json" ] && "$bin" run ls --json >/dev/null 2>&1 && return
    kill -0 "$pid" 2>/dev/null || { cat "$data/err.txt"; exit 1; }
    sleep 0.05
  done
  echo "the node is not ready"; cat "$data/err.txt"; exit 1
}

serve
echo "1. a chat completion, streamed"
url=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["url"])' "$data/node.json")
curl -sSN --fail "$url/v1/chat/completions" -H "authorization: Bearer $PITON_ADMIN_KEY" \
  -d '{"model":"demo","stream":true,"messages":[{"role":"user","content":"hello from the end-to-end test"}]}' >"$data/stream.txt"
grep -q 'data: \[DONE\]' "$data/stream.txt"

echo "2. a run with tools, tailed to its end"
run=$("$bin" run start --json "both: hello" | python3 -c 'import json,sys; print(json.load(sys.stdin)["run_id"])')
"$bin" run wait "$run" >/dev/null
[ "$(wc -l <"$data/notes.txt")" = 1 ]

echo "3. kill -9 while a run is at work"
slow=$("$bin" run start --json "slow 100" | python3 -c 'import json,sys; print(json.load(sys.stdin)["run_id"])')
kill -9 "$pid"; wait "$pid" 2>/dev/null || true

echo "4. restart without a command: the run ends"
serve
"$bin" run wait "$slow" >/dev/null
"$bin" run events "$slow" --json | grep -q 'model.unknown'

echo "5. replay and verify"
"$bin" run replay "$run" --check >/dev/null
"$bin" run replay "$slow" --check >/dev/null
"$bin" journal verify >/dev/null
kill "$pid"; wait "$pid" || true
"$bin" journal verify >/dev/null
echo "end-to-end: passed"
