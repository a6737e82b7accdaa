#!/usr/bin/env python3
"""Follows Piton's public events with nats-py (pip install nats-py), which also comes back after an outage.

    PITON_NATS_PASSWORD=… PITON_API_KEY=… with_nats_py.py --nats nats://HOST:4222 --user reader --gateway http://HOST:7486

Prints each event as a line of JSON, every stream's in order and without a hole. A key of the role `reader` is enough."""

import argparse
import asyncio
import json
import os
import ssl
import sys

import nats

from in_order import InOrder


async def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--nats", default="nats://127.0.0.1:4222", help="several with commas between them")
    arguments.add_argument("--user", help="its password is PITON_NATS_PASSWORD")
    arguments.add_argument("--ca", help="a PEM file of authorities for tls://")
    arguments.add_argument("--namespace", default="piton")
    arguments.add_argument("--project", default="*")
    arguments.add_argument("--gateway", default="http://127.0.0.1:7486", help="its key is PITON_API_KEY")
    asked = arguments.parse_args()
    options = {"servers": asked.nats.split(","), "max_reconnect_attempts": -1}
    if asked.user:
        options |= {"user": asked.user, "password": os.environ.get("PITON_NATS_PASSWORD", "")}
    if asked.ca:
        options["tls"] = ssl.create_default_context(cafile=asked.ca)
    # The one inbox that a reader may listen to.
    client = await nats.connect(inbox_prefix=b"_INBOX_reader", **options)
    subscription = await client.subscribe(f"piton.{asked.namespace}.evt.{asked.project}.>")
    await client.flush()
    print("listening", file=sys.stderr, flush=True)
    in_order = InOrder(asked.gateway, os.environ.get("PITON_API_KEY", ""))
    async for message in subscription.messages:
        # Filling a gap waits for the gateway; what comes meanwhile waits in the subscription.
        for event in await asyncio.to_thread(lambda: list(in_order.take(message.headers or {}, message.data))):
            print(json.dumps(event), flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
