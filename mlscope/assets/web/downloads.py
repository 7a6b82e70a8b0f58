"""Downloads over HTTP: resumed after interruptions, retried with growing pauses, bounded.

This uses `urllib`. Resuming, retrying and checking are our own code in any case, one long download
needs no connection pool, and an agent on a borrowed machine needs no further package. Proxies and
certificates come from the environment as usual.
"""

import errno
import http.client
import logging
import math
import socket
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPMessage
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

from mlscope.assets.errors import AssetMissing, DownloadFailed
from mlscope.assets.options import AllowedHosts, RetryPolicy
from mlscope.assets.partial import Partial, Progress
from mlscope.assets.web.dialing import Dialing
from mlscope.assets.web.resuming import Origin, Plan, origin_of, plan, request_headers

_log = logging.getLogger(__name__)
_BLOCK_BYTES = 1 << 18
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_NO_ROUTE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN)
_ABSENT = (401, 403, 404, 410, 451)


@dataclass(frozen=True, slots=True)
class Remote:
    """A file of a web server: its asset address, its URL and the headers to send.

    With `is_checked` its checksum is compared afterwards, so the transfer need not be encrypted.
    `cached` is the origin of a copy in the cache, `rights` what to check where it is denied.
    """

    address: str
    url: str
    is_checked: bool
    cached: Origin | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    rights: str = "its access rights"


class NotModified(Exception):
    """The cached copy is still current."""


class _Interrupted(Exception):
    """A try ended early, for a reason; another try may continue after `wait_s`.

    `is_unreachable`: there is no way to the host, so that further tries hardly find one.
    """

    def __init__(self, reason: str, wait_s: float = 0.0, *, is_unreachable: bool = False) -> None:
        self.reason, self.wait_s, self.is_unreachable = reason, wait_s, is_unreachable
        super().__init__(reason)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects; sends secrets to the same host only, leaves https only with a checksum."""

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
        """Return the next request; the parameters are those of `HTTPRedirectHandler`.

        Of `req`, `fp`, `code`, `msg`, `headers` and `newurl` the URLs decide. Raises AssetMissing
        for a redirect that can't be trusted.
        """
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if new.scheme not in ("https", "http"):
            raise AssetMissing(self._remote.address, f"redirected to {new.scheme}:")
        if new.scheme == "http" and old.scheme == "https" and not self._remote.is_checked:
            reason = "redirected from https to http; give its checksum (sha256:…)"
            raise AssetMissing(self._remote.address, reason)
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        fp.close()  # else urllib reads the whole body, however long it is
        if request is None or (old.scheme, old.netloc) != (new.scheme, new.netloc):
            return request
        for name, value in req.unredirected_hdrs.items():
            if name != "Host":
                request.add_unredirected_header(name, value)
        return request


def _opener_of(dialing: Dialing, remote: Remote) -> urllib.request.OpenerDirector:
    """Return what opens web addresses alone: urllib's default would open files and FTP too."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        *dialing.handlers(),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirects(remote),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    opener.addheaders = [("User-Agent", "mlscope"), ("Accept-Encoding", "identity")]
    return opener


class Web:
    """Downloads files. Keeps no state between them."""

    def __init__(self, retries: RetryPolicy, allowed_hosts: AllowedHosts) -> None:
        self._retries = retries
        self._allowed_hosts = allowed_hosts

    def download(self, remote: Remote, partial: Partial, progress: Progress) -> Origin:
        """Fill `partial` with the file `remote`, reporting `progress`, and return its origin.

        Raises NotModified, AssetMissing, HostNotAllowed, DownloadFailed, AssetTooLarge, CacheFull.
        """
        dialing = Dialing(self._allowed_hosts)
        opener = _opener_of(dialing, remote)
        retries = self._retries
        end_s = time.monotonic() + retries.limit_s
        idle = tries = 0
        while True:
            before, tries = partial.size_bytes, tries + 1
            try:
                with dialing.within(end_s - time.monotonic()):
                    return self._attempt(opener, dialing, remote, partial, progress)
            except TimeoutError as end:
                late = f"not complete after {retries.limit_s:g} s (MLSCOPE_FETCH_TIMEOUT_S)"
                raise DownloadFailed(remote.address, late, partial.size_bytes, tries) from end
            except _Interrupted as end:
                idle = 0 if partial.size_bytes - before > retries.least_bytes else idle + 1
                most_idle = min(2, retries.tries) if end.is_unreachable else retries.tries
                if idle >= most_idle or tries >= retries.max_tries:
                    size_bytes = partial.size_bytes
                    raise DownloadFailed(remote.address, end.reason, size_bytes, tries) from end
                _log.info("%s: %s, trying again", remote.address, end.reason)
                growing_s = retries.pause_s * 2.0 ** max(idle - 1, 0)
                pause_s = min(max(growing_s, end.wait_s), retries.max_pause_s)
                time.sleep(max(0.0, min(pause_s, end_s - time.monotonic())))
            finally:
                dialing.close()

    def _attempt(
        self,
        opener: urllib.request.OpenerDirector,
        dialing: Dialing,
        remote: Remote,
        partial: Partial,
        progress: Progress,
    ) -> Origin:
        partial_origin = Origin.read(partial.origin(), remote.url)
        sent = request_headers(
            partial.size_bytes, partial_origin, remote.cached, is_checked=remote.is_checked
        )
        request = urllib.request.Request(remote.url, headers=dict(sent))  # noqa: S310
        for name, value in remote.headers.items():
            request.add_unredirected_header(name, value)
        try:
            try:
                with dialing.within(self._retries.silence_s):
                    answer: Any = opener.open(request, timeout=self._retries.silence_s)
            except HTTPError as error:
                answer = error
            with answer:
                status, headers = answer.status, answer.headers
                now = origin_of(remote.url, status, headers)
                planned = plan(status, headers, partial.size_bytes, partial_origin, now)
                _follow(planned, remote, partial, now)
                if planned is not Plan.COMPLETE:
                    self._copy(answer, partial, now.size_bytes, progress)
        except (http.client.HTTPException, OSError) as error:
            reason = getattr(error, "reason", None) or error
            no_way = isinstance(reason, socket.gaierror) or (
                isinstance(reason, OSError) and reason.errno in _NO_ROUTE
            )
            text = str(reason) or type(error).__name__
            raise _Interrupted(text, is_unreachable=no_way) from error
        if now.size_bytes not in (None, partial.size_bytes):
            raise _Interrupted(f"cut after {partial.size_bytes} of {now.size_bytes} bytes")
        return now

    def _copy(
        self, answer: Any, partial: Partial, size_bytes: int | None, progress: Progress
    ) -> None:
        """Copy the body as its bytes arrive, so that `progress` may end a slow one."""
        if size_bytes is not None:
            partial.reserve(size_bytes)
        progress(partial.size_bytes, size_bytes)
        limit_bytes = math.inf if size_bytes is None else size_bytes
        checked_s, checked_bytes = time.monotonic(), partial.size_bytes
        while block := answer.read1(_BLOCK_BYTES):
            if partial.size_bytes + len(block) > limit_bytes:
                raise http.client.HTTPException("more bytes than announced")
            partial.write((block,))
            progress(partial.size_bytes, size_bytes)
            if time.monotonic() - checked_s >= self._retries.silence_s:
                if partial.size_bytes - checked_bytes < self._retries.least_bytes:
                    rate = f"{self._retries.least_bytes_per_s} bytes a second"
                    raise _Interrupted(f"the server sends less than {rate}")
                checked_s, checked_bytes = time.monotonic(), partial.size_bytes


def _follow(planned: Plan, remote: Remote, partial: Partial, now: Origin) -> None:
    """Prepare `partial` for the bytes of the answer, or raise why there are none."""
    if planned is Plan.UNCHANGED:
        raise NotModified
    if planned is Plan.RESTART_ASK:
        partial.restart()
        raise _Interrupted("the file changed at its origin")
    if planned is Plan.FAIL:
        reason = f"the server answers {now.status}"
        if now.status in _PASSING:
            raise _Interrupted(reason, now.retry_after_s)
        hint = f"; check the address and {remote.rights}" if now.status in _ABSENT else ""
        raise AssetMissing(remote.address, reason + hint)
    if planned is Plan.RESTART:
        partial.restart()
        partial.note_origin(now.record())
    else:
        partial.resume()
