"""Downloads over HTTP: resumed where they were cut, tried again with growing pauses, bounded.

`urllib` does it: resuming, retrying and checking are ours in any case, an HTTP client would add
connection pools that one long download has no use for, and an agent on a borrowed machine needs
no further package. Proxies and certificates are taken from the environment as usual.
"""

import contextlib
import http.client
import logging
import math
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPMessage
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

from mlscope.assets.errors import AssetMissing, DownloadFailed
from mlscope.assets.options import Patience
from mlscope.assets.partial import Partial, Progress
from mlscope.assets.resuming import Origin, Plan, origin_of, plan, question

_log = logging.getLogger(__name__)
_BLOCK_BYTES = 1 << 18
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_ABSENT = (401, 403, 404, 410, 451)


@dataclass(frozen=True, slots=True)
class Remote:
    """A file of a web server: under which address it was asked for, and how to get it.

    With `is_checked` its content is compared afterwards, so the way need not be encrypted.
    `known` are the validators of a copy that is here already.
    """

    address: str
    url: str
    is_checked: bool
    known: Origin | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class NotModified(Exception):
    """The copy that is here already is still what the server has."""


class _Cut(Exception):
    """A try ended early; the argument says why. Another may go on."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        self.reason, self.wait_s = reason, wait_s
        super().__init__(reason)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects: secrets to the same host only, off the encrypted way if checked only."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: Any,
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the next request. Raises AssetMissing for a way that can't be trusted."""
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if new.scheme not in ("https", "http"):
            raise AssetMissing(self._remote.address, f"redirected to {new.scheme}:")
        if new.scheme == "http" and old.scheme == "https" and not self._remote.is_checked:
            reason = "redirected off https; give its checksum (sha256:…)"
            raise AssetMissing(self._remote.address, reason)
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and (old.scheme, old.netloc) == (new.scheme, new.netloc):
            for name, value in req.unredirected_hdrs.items():
                if name != "Host":
                    request.add_unredirected_header(name, value)
        return request


class Web:
    """Downloads files. Keeps no state between them."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience

    def download(self, remote: Remote, partial: Partial, progress: Progress) -> Origin:
        """Fill a partial file and return where it is from, with the server's validators.

        Raises NotModified, AssetMissing, DownloadFailed, AssetTooLarge, CacheFull.
        """
        opener = _opener(remote)
        idle = tries = 0
        while True:
            before, tries = partial.size_bytes, tries + 1
            try:
                return self._attempt(opener, remote, partial, progress)
            except _Cut as cut:
                idle = 0 if partial.size_bytes > before else idle + 1
                if idle >= self._patience.tries or tries >= self._patience.most_tries:
                    size_bytes = partial.size_bytes
                    raise DownloadFailed(remote.address, cut.reason, size_bytes, tries) from cut
                _log.info("%s: %s, trying again", remote.address, cut.reason)
                time.sleep(self._pause_s(idle, cut.wait_s))

    def _pause_s(self, idle: int, wait_s: float) -> float:
        growing_s = self._patience.pause_s * 2.0 ** max(idle - 1, 0)
        return min(max(growing_s, wait_s), self._patience.most_pause_s)

    def _attempt(
        self,
        opener: urllib.request.OpenerDirector,
        remote: Remote,
        partial: Partial,
        progress: Progress,
    ) -> Origin:
        kept = Origin.read(partial.origin(), remote.url)
        asked = question(partial.size_bytes, kept, remote.known, is_checked=remote.is_checked)
        request = urllib.request.Request(remote.url, headers=dict(asked))  # noqa: S310
        for name, value in remote.headers.items():
            request.add_unredirected_header(name, value)
        try:
            with self._opened(opener, request) as answer:
                status, headers = answer.status, answer.headers
                now = origin_of(remote.url, status, headers)
                planned = plan(status, headers, partial.size_bytes, kept, now)
                _obey(planned, remote, partial, now)
                if planned is not Plan.COMPLETE:
                    _copy(answer, partial, now.size_bytes, progress)
        except (http.client.HTTPException, OSError) as error:
            raise _Cut(_words(error)) from error
        if now.size_bytes is not None and partial.size_bytes != now.size_bytes:
            raise _Cut(f"cut after {partial.size_bytes} of {now.size_bytes} bytes")
        return now

    @contextlib.contextmanager
    def _opened(
        self, opener: urllib.request.OpenerDirector, request: urllib.request.Request
    ) -> Iterator[Any]:
        try:
            answer: Any = opener.open(request, timeout=self._patience.silence_s)
        except HTTPError as error:
            answer = error
        with answer:
            yield answer


def _obey(planned: Plan, remote: Remote, partial: Partial, now: Origin) -> None:
    """Bring the partial file to where the answer goes on, or say why that can't be."""
    if planned is Plan.UNCHANGED:
        raise NotModified
    if planned is Plan.RESTART_ASK:
        partial.restart()
        raise _Cut("the file changed at its origin")
    if planned is Plan.FAIL:
        reason = f"the server answers {now.status}"
        if now.status in _PASSING:
            raise _Cut(reason, now.retry_after_s)
        hint = "; check the address and who may read it" if now.status in _ABSENT else ""
        raise AssetMissing(remote.address, reason + hint)
    if planned is Plan.RESTART:
        partial.restart()
        partial.note_origin(now.record())
    else:
        partial.resume()


def _copy(answer: Any, partial: Partial, size_bytes: int | None, progress: Progress) -> None:
    if size_bytes is not None:
        partial.reserve(size_bytes)
    progress(partial.size_bytes, size_bytes)
    most = math.inf if size_bytes is None else size_bytes
    while block := answer.read(_BLOCK_BYTES):
        if partial.size_bytes + len(block) > most:
            raise http.client.HTTPException("more bytes than announced")
        partial.write((block,))
        progress(partial.size_bytes, size_bytes)


def _opener(remote: Remote) -> urllib.request.OpenerDirector:
    """Return an opener of web addresses alone: urllib's own would open files and FTP too."""
    opener = urllib.request.OpenerDirector()
    for each in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirects(remote),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(each)
    opener.addheaders = [("User-Agent", "mlscope"), ("Accept-Encoding", "identity")]
    return opener


def _words(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason or error) or type(error).__name__
