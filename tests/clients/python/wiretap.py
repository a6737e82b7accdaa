"""Stands between a node and a model's server on 127.0.0.1, hands every byte on as it comes, and tells at `/__asked` which
paths were asked and with which body at last.

    python3 wiretap.py PORT SERVER_PORT
"""

import collections
import http.client
import http.server
import json
import sys

ASKED = collections.Counter()
BODIES = {}
# Seconds without a byte: longer than a small model on a busy machine needs to read its prompt.
PATIENCE = 300
# What belongs to one connection and is not handed on.
HOPS = {"connection", "transfer-encoding", "content-length", "keep-alive", "host"}


class Tap(http.server.BaseHTTPRequestHandler):
    """Hands one request on. An answer ends with its connection, so that it needs no length."""

    def do_GET(self):
        if self.path == "/__asked":
            body = json.dumps({"asked": ASKED, "bodies": BODIES}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        else:
            self._hand_on(None)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        ASKED[self.path] += 1
        BODIES[self.path] = body.decode()
        self._hand_on(body)

    def _hand_on(self, body):
        server = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]), timeout=PATIENCE)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOPS}
        server.request(self.command, self.path, body, headers)
        answer = server.getresponse()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOPS:
                self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        while piece := answer.read1():
            self.wfile.write(piece)
        self.close_connection = True
        server.close()

    def log_message(self, *_):
        """Says nothing: what was asked is told at `/__asked`."""


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Tap).serve_forever()
