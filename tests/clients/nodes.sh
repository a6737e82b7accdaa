# Sourced by run.sh and model.sh, from the root of the repository: installs the SDKs, starts nodes, and ends what it
# started. Everything listens on 127.0.0.1 on a port that the system gives; nothing of the caller's shell reaches a node.

cache=$PWD/.cache/clients
work=$(mktemp -d)
admin=clients-admin-key-0123456789
# Seconds that something started may take until it answers. The local model is unpacked in that time.
patience=120
# Seconds after which a script that hangs is ended.
script_max=600
started=()
nodes=()
failed=0
bin=${PITON_BIN:-}

# Proxies, keys and settings of the caller's shell would send a test to somebody else.
export NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost NO_COLOR=1 PYTHONDONTWRITEBYTECODE=1
unset "${!PITON_@}" "${!OPENAI_@}" "${!ANTHROPIC_@}"
export PITON_API_KEY=$admin CLIENT_ADMIN_KEY=$admin CLIENT_MODULES=$cache

stop() {
    local code=$?
    trap - EXIT
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${started[@]}"; do wait "$pid" 2>/dev/null || true; done
    if [ "$code" -eq 0 ]; then rm -rf "$work"; else echo "the logs are in $work" >&2; fi
    exit "$code"
}
trap stop EXIT
trap 'exit 130' INT TERM

# free_port: one that nobody listens on now.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# wait_until WHAT LOG COMMAND...: until the command succeeds; fails when the newest process ends or the patience does.
wait_until() {
    local what=$1 log=$2 pid=${started[-1]} deadline=$((SECONDS + patience))
    shift 2
    until "$@" >/dev/null 2>&1; do
        if ! kill -0 "$pid" 2>/dev/null || [ "$SECONDS" -ge "$deadline" ]; then
            echo "$what does not answer; its log ends:" >&2
            tail -n 20 "$log" >&2
            return 1
        fi
        sleep 0.1
    done
}

# install_sdks: OpenAI's and Anthropic's Python and Node SDKs by name, once, into .cache; says which versions are used.
install_sdks() {
    local python=$cache/venv/bin/python
    mkdir -p "$cache"
    [ -x "$python" ] || python3 -m venv "$cache/venv"
    "$python" -c 'import openai, anthropic' 2>/dev/null || "$cache/venv/bin/pip" install --quiet openai anthropic
    [ -d "$cache/node_modules/openai" ] && [ -d "$cache/node_modules/@anthropic-ai/sdk" ] ||
        npm install --prefix "$cache" --silent --no-fund --no-audit openai @anthropic-ai/sdk
    "$python" -c 'import openai, anthropic, sys; print("openai", openai.__version__, "and anthropic", anthropic.__version__, "on Python", sys.version.split()[0])'
    node -p "'openai ' + require('$cache/node_modules/openai/package.json').version + ' and @anthropic-ai/sdk ' +
        require('$cache/node_modules/@anthropic-ai/sdk/package.json').version + ' on Node ' + process.versions.node"
}

# find_piton: PITON_BIN as it was set, else a fresh debug build.
find_piton() {
    if [ -z "$bin" ]; then
        cargo build --locked -p gateway
        bin=${CARGO_TARGET_DIR:-$PWD/target}/debug/piton
    fi
    "$bin" --version
}

# serve NAME [VARIABLE=VALUE...] [-- ARGUMENT...]: starts a node and sets url.
serve() {
    local data=$work/$1 name=$1 variables=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do variables+=("$1"); shift; done
    [ $# -eq 0 ] || shift
    mkdir -p "$data"
    env -i HOME="$data" PATH="$PATH" PITON_ADMIN_KEY="$admin" "${variables[@]}" \
        "$bin" serve --bind 127.0.0.1:0 --data-dir "$data" "$@" >"$data/out.txt" 2>"$data/log.txt" &
    started+=($!)
    nodes+=("$name")
    wait_until "node $name" "$data/log.txt" is_ready "$data"
    url=$(address "$data")
}

address() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1] + "/node.json"))["url"])' "$1"; }
is_ready() { [ -s "$1/node.json" ] && curl -fsS -m 5 "$(address "$1")/health/ready"; }

# issue ROLE: prints a new key of the newest node.
issue() {
    "$bin" keys issue --url "$url" --role "$1" --name "clients-$1" --json |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["key"])'
}

# one SDK TARGET: the checks of python or node against TARGET; a failure is remembered, and the rest goes on.
one() {
    local command=(node "tests/clients/node/against_$2.mjs")
    [ "$1" = node ] || command=("$cache/venv/bin/python" "tests/clients/python/against_$2.py")
    echo "== $1 against $2"
    timeout --kill-after 10 "$script_max" "${command[@]}" || {
        echo "($1 against $2 ended with $?)"
        failed=1
    }
}

# audit: decides again every run of every node, and verifies each journal, beside the running node.
audit() {
    local name data found run before=$failed
    echo "== audit"
    failed=0
    for name in "${nodes[@]}"; do
        data=$work/$name
        found=$(runs "$data") && [ -n "$found" ] || fail "no run is listed on node $name"
        for run in $found; do
            "$bin" run replay --check "$run" --url "$(address "$data")" --quiet >"$work/said.txt" 2>&1 ||
                fail "replay --check of $run on node $name: $(cat "$work/said.txt")"
        done
        "$bin" journal verify --data-dir "$data" --quiet >"$work/said.txt" 2>&1 ||
            fail "journal verify on node $name: $(cat "$work/said.txt")"
        echo "audited $(wc -w <<<"$found") runs on node $name"
    done
    [ "$failed" -ne 0 ] || { echo "ok every run replays and every journal verifies"; failed=$before; }
}

fail() {
    echo "FAIL $1"
    failed=1
}

# runs DATA: the ids of every run of a node that has ended.
runs() {
    python3 - "$(address "$1")" <<'PY'
import json, os, sys, urllib.request
after = ""
while after is not None:
    address = f"{sys.argv[1]}/v1/runs?limit=200" + (f"&after={after}" if after else "")
    request = urllib.request.Request(address, headers={"authorization": f"Bearer {os.environ['CLIENT_ADMIN_KEY']}"})
    page = json.load(urllib.request.urlopen(request, timeout=30))
    print(*(run["id"] for run in page["data"] if run["outcome"]), sep="\n")
    after = page["next"] if page["data"] else None
PY
}
