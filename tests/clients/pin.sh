#!/usr/bin/env bash
# Writes the pins of the matrix anew: for each named group (else all), the newest versions of its clients and all that
# they need, each with the hash of the one wheel that this platform takes. A group's first line names its clients.
set -euo pipefail
cd "$(dirname "$0")/pins"
[ $# -gt 0 ] || set -- *.txt
for file; do
    file=${file%.txt}.txt
    clients=$(sed -n '1s/^# //p' "$file")
    echo "$file: $clients" >&2
    # shellcheck disable=SC2086 # several names
    python3 -m pip install --quiet --dry-run --ignore-installed --only-binary=:all: --report - $clients |
        python3 -c '
import json, sys
print("#", sys.argv[1])
for one in sorted(json.load(sys.stdin)["install"], key=lambda one: one["metadata"]["name"].lower()):
    about, hashes = one["metadata"], one["download_info"]["archive_info"]["hashes"]
    print(f"{about['"'name'"']}=={about['"'version'"']} --hash=sha256:{hashes['"'sha256'"']}")' "$clients" >"$file.new"
    mv "$file.new" "$file"
done
