"""A small server of the Open Inference Protocol, whose models answer with twice what came."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Doubling(BaseHTTPRequestHandler):
    """A server whose models answer with twice what came."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Tell of the server and its models."""
        place = {"datatype": "FP32", "shape": [7 if "fixed" in self.path else -1, 3]}
        told = {
            "/v2": {"name": "doubler", "version": "2.1"},
            **{f"/v2/models/{m}/ready": {} for m in ("double", "fixed", "broken", "odd")},
            **{
                f"/v2/models/{m}": {
                    "platform": "numpy",
                    "inputs": [{"name": "x", **place}],
                    "outputs": [{"name": "y", **place}],
                }
                for m in ("double", "fixed", "broken")
            },
            "/v2/models/odd": {"inputs": 5},
        }
        self._answer(told.get(self.path))

    def do_POST(self) -> None:
        """Double the input, or hang up where that is negative."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        (given,) = body["inputs"]
        if "broken" in self.path or given["shape"][1] != 3:
            return self._answer(None)
        if min(given["data"]) < -100:
            self.close_connection = True
            return None
        doubled = [2 * each for each in given["data"]]
        return self._answer({"outputs": [{**given, "name": "y", "data": doubled}]})

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def _answer(self, told: Any) -> None:
        body = json.dumps({"error": "no such luck"} if told is None else told).encode()
        self.send_response(400 if told is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def doubling() -> Iterator[str]:
    """Run the server until the block ends; lends its URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Doubling) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
