"""The table of tests/bench/peers.sh: what each target of one run came to, and Piton's ratio to each peer."""

import json
import sys

rows = [json.loads(line) for line in open(sys.argv[1])]
by = {(row["name"], row["stream"], row["c"]): row for row in rows}
names = list(dict.fromkeys(row["name"] for row in rows))
failed = [row for row in rows if row["err"] or not row["ok"]]

print("| target | in flight | requests/s | p50 | first token p50 | CPU a request | errors |")
print("|---|---|---|---|---|---|---|")
for name in names:
    for c in (1, 16, 64):
        whole, stream = by[name, False, c], by[name, True, c]
        print(
            f"| {name} | {c} | {whole['rps']:.0f} | {whole['lat_us']['p50'] / 1000:.2f} ms "
            f"| {stream['ttft_us']['p50'] / 1000:.2f} ms | {whole['cpu_us_per_req']:.0f} us, "
            f"streamed {stream['cpu_us_per_req']:.0f} us | {whole['err'] + stream['err']} |"
        )
for peer in ("litellm", "portkey"):
    for c in (16, 64):
        ours, theirs = by["piton-chat", False, c], by[peer, False, c]
        print(
            f"piton-chat to {peer} at {c}: {ours['rps'] / theirs['rps']:.1f} x the requests/s, "
            f"{theirs['cpu_us_per_req'] / ours['cpu_us_per_req']:.1f} x less CPU a request"
        )
for name in names:
    if name.startswith("piton"):
        added = by[name, True, 1]["ttft_us"]["p50"] - by["direct", True, 1]["ttft_us"]["p50"]
        print(f"{name}: {added / 1000:.2f} ms added to the first token at 1 in flight")
if failed:
    sys.exit(f"{len(failed)} measurements had errors or nothing: {failed[0]}")
