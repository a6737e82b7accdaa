#!/usr/bin/env bash
# A whole cluster on this machine: three NATS servers and three nodes with the demo model, on loopback, on ports that are
# free, in a temporary folder. Prints how to use it, runs until Ctrl-C, then stops everything and keeps nothing.
# `deploy/cluster.sh servers` starts the servers only.
#
# Needs python3, and cargo unless PITON_BIN names a built piton. The servers' binary is PITON_TEST_NATS_SERVER, else the
# pinned one of .ci/nats.txt under .cache/nats, which is installed when it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/need.sh
need_nats
server=${PITON_TEST_NATS_SERVER:-.cache/nats/bin/nats-server}
bin=${PITON_BIN:-target/debug/piton}
[ -n "${PITON_BIN:-}" ] || [ "${1:-}" = servers ] || cargo build --locked -p gateway

data=$(mktemp -d)
servers=() nodes=()
# Starts a process in a group of its own, its pid in $!: Ctrl-C then reaches this script only, which stops them in order.
apart() {
    local log=$1
    shift
    set -m
    "$@" >"$log" 2>&1 </dev/null &
    set +m
    disown
}
# finish TENTHS PID...: asks them to end, waits that long for all, and kills what is left: nothing of it is kept anyway.
finish() {
    local tenths=$1
    shift
    kill "$@" 2>/dev/null || true
    while [ $((tenths--)) -gt 0 ] && kill -0 "$@" 2>/dev/null; do sleep 0.1; done
    kill -9 "$@" 2>/dev/null || true
}
# Nodes first, so that they still have their servers.
stop() {
    trap - EXIT
    # Also when the terminal has gone, and nobody reads what is said here.
    trap '' INT TERM HUP PIPE
    echo "stopping" || true
    finish 50 "${nodes[@]}"
    finish 30 "${servers[@]}"
    rm -rf "$data"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

secret() { printf 'n%s' "$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"; }
# Nine ports that were free a moment ago; all are held until the last is known.
read -r -a ports < <(python3 -c '
import socket
held = [socket.socket() for _ in range(9)]
for one in held: one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in held))')
client=("${ports[@]:0:3}") monitor=("${ports[@]:3:3}") route=("${ports[@]:6:3}")
joined() { local IFS=,; echo "$*"; }
urls=$(joined "${client[@]/#/nats://127.0.0.1:}")
monitors=$(joined "${monitor[@]/#/http://127.0.0.1:}")
routes=$(joined "${route[@]/#/nats://127.0.0.1:}")

password=$(secret) reader=$(secret) system=$(secret)
for nth in 0 1 2; do
    name=n$((nth + 1))
    NATS_NAME=$name NATS_STORE=$data/$name NATS_NODE_PASSWORD=$password NATS_READER_PASSWORD=$reader NATS_SYSTEM_PASSWORD=$system \
        apart "$data/$name.log" "$server" -c deploy/nats/three.conf -a 127.0.0.1 -p "${client[nth]}" -m "${monitor[nth]}" \
        --cluster_listen "nats://127.0.0.1:${route[nth]}" --routes "$routes"
    servers+=($!)
done

# until_true WHAT LOG PID COMMAND...: waits for it as long as the process lives, a minute at most.
until_true() {
    local what=$1 log=$2 pid=$3
    shift 3
    for _ in $(seq 600); do
        "$@" >/dev/null 2>&1 && return
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    echo "$what did not come up:" >&2
    tail -n 20 "$log" >&2
    exit 1
}
healthy() {
    python3 -c 'import sys, urllib.request as r; r.build_opener(r.ProxyHandler({})).open(sys.argv[1], timeout=2)' "$1"
}
for nth in 0 1 2; do
    until_true "server n$((nth + 1))" "$data/n$((nth + 1)).log" "${servers[nth]}" healthy "http://127.0.0.1:${monitor[nth]}/healthz"
done
echo "three NATS servers: $urls"
if [ "${1:-}" = servers ]; then
    echo "stop: Ctrl-C"
    while sleep 1; do :; done
fi

unset PITON_BIN
key=$(secret)
url_of() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["url"])' "$data/node$1/node.json"; }
ready() { healthy "$(url_of "$1")/health/ready"; }
for nth in 1 2 3; do
    mkdir "$data/node$nth"
    PITON_DATA_DIR=$data/node$nth PITON_ADMIN_KEY=$key PITON_NATS_USER=node PITON_NATS_PASSWORD=$password \
        PITON_NATS_REPLICAS=3 PITON_NATS_SHARD_BYTES_MAX=134217728 apart "$data/node$nth/log.txt" "$bin" serve --demo \
        --bind 127.0.0.1:0 --nats "$urls" --nats-monitor "$monitors" --node "n$nth"
    nodes+=($!)
    until_true "node n$nth" "$data/node$nth/log.txt" "${nodes[nth - 1]}" ready "$nth"
done

cat <<EOF
three nodes:        $(url_of 1) (pid ${nodes[0]})
                    $(url_of 2) (pid ${nodes[1]})
                    $(url_of 3) (pid ${nodes[2]})
logs and data:      $data

In another shell:

  export PITON_API_KEY=$key
  curl -sN $(url_of 1)/v1/chat/completions -H "authorization: Bearer \$PITON_API_KEY" \\
    -d '{"model":"demo","stream":true,"messages":[{"role":"user","content":"hello"}]}'
  PITON_URL=$(url_of 2) $bin run start "both: hello"
  PITON_URL=$(url_of 3) $bin run ls

Kill a node, and the others take its work over:    kill -9 ${nodes[0]}
Kill a server, and the other two go on:            kill -9 ${servers[0]}
Stop everything:                                   Ctrl-C
EOF
while sleep 1; do :; done
