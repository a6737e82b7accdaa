#!/usr/bin/env bash
# The SDKs against a node in front of a genuine llama.cpp server with a small model, from packages alone; then each of the
# server's three wires behind each of the node's three doors.
#
# The model has 270 million parameters: the wire is judged, not the words. PITON_BIN names a binary, else the debug
# build is brought up to date. LLM_SERVE names the script that serves the model.
set -euo pipefail
cd "$(dirname "$0")/../.."
llm=${LLM_SERVE:-../shared/peers/llm/serve.py}
[ -f "$llm" ] || { echo "no model server at $llm: set LLM_SERVE to its script" >&2; exit 1; }
. tests/clients/nodes.sh

venv sdks
node_modules
venv model
find_piton

port=$(free_port)
"$cache/model/bin/python" "$llm" "$port" "$cache/gemma.gguf" >"$work/llm.txt" 2>&1 &
started+=($!)
wait_until "the model" "$work/llm.txt" curl -fsS -m 5 "http://127.0.0.1:$port/health"

# It wants no key, so it is asked under its own name.
serve model "PITON_LLAMACPP_BASE_URL=http://127.0.0.1:$port/v1"
CLIENT_URL=$url CLIENT_KEY=$(issue runner)
export CLIENT_URL CLIENT_KEY
openai=$(versions sdks)
one "${openai%, *} (Python)" "llama.cpp, chat" "$cache/sdks/bin/python" tests/clients/python/against_model.py
one "$(packages openai) (Node)" "llama.cpp, chat" node tests/clients/node/against_model.mjs

# The other two wires of the same server go by the names of providers that need no key either.
tap=$(free_port)
python3 tests/clients/python/wiretap.py "$tap" "$port" >"$work/tap.txt" 2>&1 &
started+=($!)
export TAP_URL=http://127.0.0.1:$tap
wait_until "the wiretap" "$work/tap.txt" curl -fsS -m 5 "$TAP_URL/__asked"
cat >"$work/wires.toml" <<TOML
[providers.llamacpp]
base_url = "$TAP_URL/v1"
[providers.vllm]
family = "anthropic_messages"
base_url = "$TAP_URL"
[providers.lmstudio]
family = "openai_responses"
base_url = "$TAP_URL/v1"
TOML
serve wires -- --config "$work/wires.toml"
CLIENT_URL=$url CLIENT_KEY=$(issue runner)
one "$openai (Python)" "llama.cpp by three wires, three doors" "$cache/sdks/bin/python" tests/clients/python/against_wires.py
audit
table
clients
exit "$failed"
