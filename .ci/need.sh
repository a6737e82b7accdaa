# Sourced by .ci/run and .ci/extended: puts the places of installed tools on PATH and installs by name what is missing.

user_base=$(python3 -m site --user-base 2>/dev/null || true)
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:${user_base:-$HOME/.local}/bin:$PATH"

# need TOOL COMMAND...: runs COMMAND when TOOL is absent, and fails when TOOL is absent still.
need() {
    local tool=$1
    shift
    command -v "$tool" >/dev/null && return
    echo "installing $tool: $*"
    "$@"
    hash -r
    command -v "$tool" >/dev/null || { echo "$tool was installed but is not on PATH ($PATH)" >&2; return 1; }
}

# The wheel takes a second; a machine without pip, or whose Python belongs to its distribution, builds it in minutes.
install_just() { python3 -m pip install --user rust-just || cargo install --locked just; }

# The NATS server of the stories, pinned by its hash: under .cache, which git ignores, and not on PATH.
need_nats() {
    local folder=.cache/nats
    [ -n "${PITON_TEST_NATS_SERVER:-}" ] && return
    [ -x "$folder/bin/nats-server" ] && cmp -s .ci/nats.txt "$folder/pinned.txt" && return
    echo "installing nats-server into $folder"
    rm -rf "$folder"
    python3 -m pip install --quiet --target "$folder" --require-hashes --only-binary=:all: --no-deps -r .ci/nats.txt
    [ -x "$folder/bin/nats-server" ] || { echo "the wheel of .ci/nats.txt brought no $folder/bin/nats-server" >&2; return 1; }
    cp .ci/nats.txt "$folder/pinned.txt"
}

# The client of the second example for programs outside, pinned likewise; pure Python.
need_nats_py() {
    local folder=.cache/nats-py
    [ -n "${PITON_TEST_NATS_PY:-}" ] && return
    [ -d "$folder/nats" ] && cmp -s .ci/nats-py.txt "$folder/pinned.txt" && return
    echo "installing nats-py into $folder"
    rm -rf "$folder"
    python3 -m pip install --quiet --target "$folder" --require-hashes --only-binary=:all: --no-deps -r .ci/nats-py.txt
    cp .ci/nats-py.txt "$folder/pinned.txt"
}

# The official JSON Schema test suite, pinned likewise: only the source archive of this package has it. pip checks the
# hash before it looks into the archive; nothing of it is installed.
need_json_schema_suite() {
    local folder=.cache/json-schema-suite archive
    [ -d "$folder/jsonschema-4.25.1/json/tests" ] && cmp -s .ci/json-schema-suite.txt "$folder/pinned.txt" && return
    echo "fetching the JSON Schema test suite into $folder"
    rm -rf "$folder"
    python3 -m pip download --quiet --dest "$folder" --require-hashes --no-binary=:all: --no-deps -r .ci/json-schema-suite.txt
    for archive in "$folder"/*.tar.gz; do tar -xzf "$archive" -C "$folder" --wildcards '*/json/*'; done
    rm -f "$folder"/*.tar.gz
    [ -d "$folder/jsonschema-4.25.1/json/tests" ] || { echo "the archive of .ci/json-schema-suite.txt has no json/tests" >&2; return 1; }
    cp .ci/json-schema-suite.txt "$folder/pinned.txt"
}
