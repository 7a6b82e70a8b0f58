"""The files under `/static/<build-id>/`: read once, compressed once, cached by clients for ever.

The build id is a hash of all files: a page names the files of its own version, and a changed file
has another address.
"""

import gzip
import hashlib
import mimetypes
import posixpath
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from mlscope.client.errors import CommandRefused
from schemas.request import Refused

_FOLDER = Path(__file__).with_name("static")
_FOR_EVER = "public, max-age=31536000, immutable"
_COMPRESSED = ("text/", "application/json", "image/svg+xml", "application/wasm")
_IMPORT = re.compile(r"""^\s*(?:import|export)\b[^"';]*["'](\.{1,2}/[^"']+)["']""", re.MULTILINE)
_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm"}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file: its content, also compressed if that is smaller, and its media type."""

    content: bytes
    compressed: bytes | None
    media_type: str


class StaticFiles:
    """All static files of a folder, by their path below it."""

    def __init__(self, folder: Path = _FOLDER) -> None:
        """Read the files of `folder`."""
        self.files = {}
        digest = hashlib.sha256()
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name, content = path.relative_to(folder).as_posix(), path.read_bytes()
            media_type = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0]
            media_type = media_type or "application/octet-stream"
            compressed = None
            if media_type.startswith(_COMPRESSED):
                compressed = gzip.compress(content, 6, mtime=0)
            is_smaller = compressed is not None and len(compressed) < len(content)
            self.files[name] = StaticFile(content, compressed if is_smaller else None, media_type)
            digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
        self.build_id = digest.hexdigest()[:12]

    def address(self, path: str) -> str:
        """Return the address of a file. Raises KeyError if there is none at `path`."""
        if path not in self.files:
            raise KeyError(path)
        return f"/static/{self.build_id}/{path}"

    def modules_of(self, path: str) -> list[str]:
        """Return a module and all modules that it imports, for `modulepreload`; itself first."""
        modules = [path]
        for module in modules:
            targets = _IMPORT.findall(self.files[module].content.decode())
            folder = posixpath.dirname(module)
            names = [posixpath.normpath(posixpath.join(folder, target)) for target in targets]
            modules += [name for name in names if name not in modules]
        return modules

    def response(self, request: Request) -> Response:
        """Return the file that a request names.

        A page of another version, open during an upgrade, gets this version's files, not cached.
        """
        path = str(request.path_params["path"])
        file = self.files.get(path)
        if file is None:
            message = f"no static file {path}"
            raise CommandRefused(Refused(error="unknown", message=message, field="path"))
        is_own = request.path_params["build"] == self.build_id
        headers = {"Cache-Control": _FOR_EVER if is_own else "no-store", "Vary": "Accept-Encoding"}
        content = file.content
        if file.compressed and "gzip" in request.headers.get("accept-encoding", ""):
            content = file.compressed
            headers["Content-Encoding"] = "gzip"
        return Response(content, 200, headers, media_type=file.media_type)


@cache
def shipped_files() -> StaticFiles:
    """Return the files that are shipped with the gateway, read when they are first needed."""
    return StaticFiles()


async def static_file(request: Request) -> Response:
    """GET /static/{build}/{path}: a file, compressed for clients that accept it."""
    return shipped_files().response(request)
