#!/usr/bin/env python3
"""Follows Piton's public events over the plain protocol of NATS: a socket and Python's own library, nothing else.

    PITON_NATS_PASSWORD=… PITON_API_KEY=… plain.py --nats nats://HOST:4222 --user reader --gateway http://HOST:7486

Prints each event as a line of JSON, every stream's in order and without a hole. A key of the role `reader` is enough."""

import argparse
import json
import os
import socket
import ssl
import sys
from urllib.parse import urlsplit

from in_order import InOrder


class Nats:
    """As much of a client as a reader needs: it connects, subscribes, answers PING and hands out messages."""

    def __init__(self, url, user, password, ca):
        parts = urlsplit(url)
        where = (parts.hostname, parts.port or 4222)
        self.socket = socket.create_connection(where, timeout=60)
        self.lines = self.socket.makefile("rb")
        info = json.loads(self.line().removeprefix("INFO "))
        if parts.scheme == "tls" or info.get("tls_required"):
            context = ssl.create_default_context(cafile=ca)
            self.socket = context.wrap_socket(self.socket, server_hostname=parts.hostname)
            self.lines = self.socket.makefile("rb")
        options = {"verbose": False, "pedantic": False, "headers": True, "lang": "python", "version": "1"}
        if user:
            options |= {"user": user, "pass": password}
        self.send(f"CONNECT {json.dumps(options)}\r\nPING\r\n")

    def send(self, text):
        self.socket.sendall(text.encode())

    def line(self):
        line = self.lines.readline()
        if not line:
            raise ConnectionError("the server has closed the connection")
        return line.decode().strip()

    def subscribe(self, subject):
        self.send(f"SUB {subject} 1\r\nPING\r\n")

    def messages(self):
        """Each message as (headers, body). A server sends PING when it has been quiet for a while."""
        answers = 0
        while True:
            try:
                words = self.line().split(" ")
            except TimeoutError:
                self.send("PING\r\n")
                continue
            if words[0] == "PING":
                self.send("PONG\r\n")
            elif words[0] == "-ERR":
                raise ConnectionError(" ".join(words[1:]))
            elif words[0] == "PONG":
                # The first answers CONNECT, the second one SUB: from now on every event is heard.
                answers += 1
                if answers == 2:
                    print("listening", file=sys.stderr, flush=True)
            elif words[0] == "HMSG":
                head, whole = int(words[-2]), int(words[-1])
                data = self.lines.read(whole + 2)[:whole]
                fields = data[:head].decode().split("\r\n")[1:]
                headers = dict(field.split(": ", 1) for field in fields if ": " in field)
                yield headers, data[head:]
            elif words[0] == "MSG":
                self.lines.read(int(words[-1]) + 2)  # Without headers it is no event of Piton.


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--nats", default="nats://127.0.0.1:4222")
    arguments.add_argument("--user", help="its password is PITON_NATS_PASSWORD")
    arguments.add_argument("--ca", help="a PEM file of authorities for tls://")
    arguments.add_argument("--namespace", default="piton")
    arguments.add_argument("--project", default="*")
    arguments.add_argument("--gateway", default="http://127.0.0.1:7486", help="its key is PITON_API_KEY")
    asked = arguments.parse_args()
    nats = Nats(asked.nats, asked.user, os.environ.get("PITON_NATS_PASSWORD", ""), asked.ca)
    nats.subscribe(f"piton.{asked.namespace}.evt.{asked.project}.>")
    in_order = InOrder(asked.gateway, os.environ.get("PITON_API_KEY", ""))
    for headers, body in nats.messages():
        for event in in_order.take(headers, body):
            print(json.dumps(event), flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
