"""A web server for tests: ranges, validators, redirects, and the faults that real ones have."""

import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class Site:
    """What the server has and how it misbehaves; `asked` are the requests' headers so far."""

    files: dict[str, bytes] = field(default_factory=dict)
    etags: dict[str, str] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    #: the connection is cut after so many bytes of an answer, once for each number
    cuts: list[int] = field(default_factory=list)
    #: answered before anything else, once for each status
    statuses: list[int] = field(default_factory=list)
    takes_ranges: bool = True
    minds_if_range: bool = True
    #: a redirect announces a body of so many bytes, of which none comes
    redirect_bytes: int = 0
    #: waits so long in the middle of an answer
    rest_s: float = 0.0
    url: str = ""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def put(self, path: str, body: bytes, etag: str = "") -> str:
        """Have a file and return its URL."""
        self.files[path], self.etags[path] = body, etag
        return f"{self.url}{path}"


def _range(site: Site, path: str, headers: dict[str, str]) -> int:
    found = re.fullmatch(r"bytes=(\d+)-", headers.get("Range", ""))
    if not site.takes_ranges or found is None:
        return 0
    validator = headers.get("If-Range")
    is_other = validator is not None and validator != site.etags[path]
    return 0 if is_other and site.minds_if_range else int(found[1])


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def do_GET(self) -> None:
        headers = dict(self.headers.items())
        self.site.asked.append((self.path, headers))
        self.close_connection = True
        if self.site.statuses:
            self._say(self.site.statuses.pop(0))
        elif self.path in self.site.redirects:
            self.send_response(302)
            self.send_header("Location", self.site.redirects[self.path])
            self.send_header("Content-Length", str(self.site.redirect_bytes))
            self.end_headers()
        elif self.path not in self.site.files:
            self._say(404)
        elif (
            headers.get("If-None-Match") and self.site.etags[self.path] == headers["If-None-Match"]
        ):
            self._say(304)
        else:
            self._send(headers)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _send(self, headers: dict[str, str]) -> None:
        body = self.site.files[self.path]
        start = _range(self.site, self.path, headers)
        said = {"ETag": self.site.etags[self.path]} if self.site.etags[self.path] else {}
        if start >= len(body) and start:
            said["Content-Range"] = f"bytes */{len(body)}"
            self._say(416, said, b"no such range", 99)
            return
        if start:
            said["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        rest = body[start:]
        most = self.site.cuts.pop(0) if self.site.cuts else len(rest)
        self._say(206 if start else 200, said, rest, most)

    def _say(
        self, status: int, headers: dict[str, str] | None = None, body: bytes = b"", most: int = 0
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        half = most // 2 if self.site.rest_s else most
        self.wfile.write(body[:half])
        if self.site.rest_s:
            self.wfile.flush()
            time.sleep(self.site.rest_s)
            self.wfile.write(body[half:most])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep quiet."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Take no notice of clients that hang up."""


def certificate_in(folder: Path) -> tuple[Path, Path] | None:
    """Make a certificate for loopback and its key; None where openssl is missing."""
    if shutil.which("openssl") is None:
        return None
    pem, key = folder / "server.pem", folder / "server.key"
    making = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["-keyout", str(key), "-out", str(pem)]
    subprocess.run([*making, *made, *subject], check=True, capture_output=True)
    return pem, key


@contextmanager
def serving(
    certificate: tuple[Path, Path] | None = None, bound: socket.socket | None = None
) -> Iterator[Site]:
    """Run a server on loopback, with a certificate and its key over TLS.

    It listens on a socket that is `bound` already, by default on any port.
    """
    site = Site()
    answering = type("Answering", (_Answering,), {"site": site})
    with _Server(("127.0.0.1", 0), answering, bind_and_activate=bound is None) as server:
        if bound is not None:
            server.socket.close()
            server.socket, server.server_address = bound, bound.getsockname()
            server.server_activate()
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "http" if certificate is None else "https"
        site.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()
