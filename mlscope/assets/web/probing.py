"""Tells whether a web server answers: one short request, without a token or body (I/O)."""

import http.client
import urllib.request
from contextlib import closing

from mlscope.assets.errors import HostNotAllowed
from mlscope.assets.options import AllowedHosts
from mlscope.assets.web.dialing import Dialing
from mlscope.redaction import redact

_DOWN = (407, 500, 502, 503, 504)
"""Statuses of a proxy or server that gives nothing to anybody. Others are about one address."""


def web_fault(url: str, limit_s: float, allowed: AllowedHosts | None = None) -> str:
    """Return why the server at `url` cannot be used now, '' where it answers.

    401, 404 and 429 are answers: they are about one file or one caller. Blocks for up to `limit_s`,
    and for as long as the system takes to resolve the name. Redirects are not followed. A host that
    is not `allowed` is sent nothing; None allows that of the URL, wherever it is.
    """
    try:
        dialing = Dialing(allowed or AllowedHosts(()).with_host_of(url))
        request = urllib.request.Request(url, method="HEAD")  # noqa: S310
        opener = urllib.request.OpenerDirector()
        opener.addheaders = [("User-Agent", "mlscope")]
        for handler in (
            urllib.request.ProxyHandler(),
            urllib.request.UnknownHandler(),
            *dialing.handlers(),
        ):
            opener.add_handler(handler)
        with (
            closing(dialing),
            dialing.within(limit_s),
            opener.open(request, timeout=limit_s) as answer,
        ):
            status = answer.status
    except HostNotAllowed as error:
        return str(error)
    except (http.client.HTTPException, OSError, ValueError) as error:
        # A host that no name can be raises UnicodeError, which is a ValueError.
        reason = getattr(error, "reason", None) or error
        return redact(f"{url}: {reason or type(error).__name__}")
    return redact(f"{url} answers {status}") if status in _DOWN else ""
