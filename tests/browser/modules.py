"""The gateway's JavaScript modules, tested in the browser that runs them.

A file `js/**/NAME_test.js` exports functions whose names begin with `test`; they import modules
from `/static/` and assert with `/js/check.js`. A function that throws has failed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Page

TESTS = Path(__file__).with_name("js")
STATIC = Path(__file__).parents[2] / "services" / "gateway" / "static"
_ROOTS = {"static": STATIC, "js": TESTS}
_EMPTY = b"""<!doctype html><html lang=en><title>Tests of modules</title>
<link rel=icon href=/static/icon.svg><body></body>"""
_RUN = """async (address) => {
  const module = await import(address);
  const names = Object.keys(module).filter((name) => name.startsWith("test"));
  const failures = [];
  for (const name of names) {
    document.body.replaceChildren();
    try { await module[name](); } catch (error) { failures.push(`${name}: ${error.stack}`); }
  }
  return { count: names.length, failures };
}"""


class _Files(SimpleHTTPRequestHandler):
    """Serves both folders under the gateway's own policy, and an empty page."""

    def translate_path(self, path: str) -> str:
        root, _, rest = urlsplit(path).path.lstrip("/").partition("/")
        folder = _ROOTS.get(root)
        target = (folder / rest).resolve() if folder else None
        is_inside = folder is not None and target is not None and target.is_relative_to(folder)
        return str(target) if is_inside else "/nowhere"

    def do_GET(self) -> None:
        if urlsplit(self.path).path != "/":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(_EMPTY)

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", "default-src 'self'")
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing of requests."""


@contextmanager
def serving() -> Iterator[str]:
    """Serve modules and their tests on a port of their own; yields the address of an empty page."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files)) as server:
        thread = Thread(target=partial(server.serve_forever, poll_interval=0.05))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def files_of_tests() -> list[str]:
    """Return the paths of all tests of modules, below `js/`."""
    return sorted(str(path.relative_to(TESTS)) for path in TESTS.rglob("*_test.js"))


async def failures_of(page: Page, address: str, file: str) -> list[str]:
    """Run the tests of `file` in `page`, served at `address`; return the failures with stacks."""
    await page.goto(address)
    outcome = await page.evaluate(_RUN, f"/js/{file}")
    return list(outcome["failures"]) if outcome["count"] else [f"{file} exports no test"]
