# Sourced by run.sh and model.sh, from the root of the repository: installs the clients, starts nodes, and ends what it
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
rows=()
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

# venv GROUP: the Python packages of pins/GROUP.txt, each at one version and known by its hash, in an environment of their
# own under .cache. Made anew when the pins have changed.
venv() {
    local folder=$cache/$1 pins=tests/clients/pins/$1.txt
    cmp --silent "$pins" "$folder/pins.txt" && return
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --require-hashes --no-deps --only-binary=:all: -r "$pins"
    cp "$pins" "$folder/pins.txt"
}

# node_modules: the Node packages of node/package-lock.json, under .cache.
node_modules() {
    local lock=tests/clients/node/package-lock.json
    cmp --silent "$lock" "$cache/node_modules/lock.json" && return
    mkdir -p "$cache"
    cp tests/clients/node/package.json "$lock" "$cache/"
    npm ci --prefix "$cache" --silent --no-fund --no-audit
    cp "$lock" "$cache/node_modules/lock.json"
}

# versions GROUP: the clients that a group's first line names, with the versions that are pinned.
versions() {
    python3 - "tests/clients/pins/$1.txt" <<'PY'
import re, sys
lines = open(sys.argv[1]).read().splitlines()
pinned = {name.lower(): version for name, version in re.findall(r"^([^=#\s]+)==(\S+)", "\n".join(lines), re.MULTILINE)}
names = [re.sub(r"\[.*", "", name) for name in lines[0].removeprefix("# ").split()]
print(", ".join(f"{name} {pinned[name]}" for name in names), end="")
PY
}

# packages NAME...: Node packages with the versions that are locked.
packages() {
    python3 - "$@" <<'PY'
import json, sys
locked = json.load(open("tests/clients/node/package-lock.json"))["packages"]
print(", ".join(f"{name} {locked['node_modules/' + name]['version']}" for name in sys.argv[1:]), end="")
PY
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

# one CLIENT SCRIPT COMMAND...: a client's script, and a row for the table; a failure is remembered, and the rest goes on.
one() {
    local client=$1 script=$2 code=0
    shift 2
    echo "== $client: $script"
    TMPDIR=$work timeout --kill-after 10 "$script_max" "$@" >"$work/said.txt" 2>"$work/err.txt" || code=$?
    cat "$work/said.txt"
    if [ "$code" -ne 0 ]; then
        tail -n 20 "$work/err.txt" >&2
        echo "($script of $client ended with $code)"
        failed=1
    fi
    rows+=("$client|$script|$(tail -n 1 "$work/said.txt" | grep -E '^[0-9]+ passed, [0-9]+ failed$' || echo "ended with $code")")
}

# table: a row for each client's script: who it was, where, and how many checks passed.
table() {
    local row client script counts
    echo
    echo "| client | checks | result |"
    echo "|---|---|---|"
    for row in "${rows[@]}"; do
        IFS='|' read -r client script counts <<<"$row"
        echo "| $client | $script | $counts |"
    done
    echo
}

# clients: the same in one line, for the row of the lane.
clients() {
    local row client script counts line=
    for row in "${rows[@]}"; do
        IFS='|' read -r client script counts <<<"$row"
        line+="${line:+; }$client ($script): ${counts%, 0 failed}"
    done
    echo "clients: $line"
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
