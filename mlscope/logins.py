"""Addresses that log a browser in: a ticket that holds once, made of the gateway's token. Pure.

Who can read the token's file makes tickets; the gateway exchanges one for a cookie. The token
itself never stands in an address: other users of the machine see the arguments of a browser that is
started, and browsers keep addresses.
"""

import hashlib
import hmac
import secrets
from urllib.parse import parse_qsl, urlencode, urlsplit

PARAMETER = "login"
TICKET_S = 24 * 3600
"""How long a ticket holds that is printed."""
_DIGITS = 16
# An address stands in one line of a terminal: the nonce must only differ from tickets of the same
# second, and 128 bits of the signature are beyond guessing.
_NONCE_BYTES = 6
_SIGNATURE_DIGITS = 32


def login_address(address: str, token: str, now_s: float, life_s: float = TICKET_S) -> str:
    """Return the `address` of a page with a ticket, which holds until `now_s` (epoch) + `life_s`.

    `token` is the gateway's.
    """
    parts = urlsplit(address)
    query = [*parse_qsl(parts.query, keep_blank_values=True)]
    query.append((PARAMETER, _ticket(token, int(now_s + life_s), secrets.token_hex(_NONCE_BYTES))))
    return parts._replace(path=parts.path or "/", query=urlencode(query)).geturl()


def expiry_of(ticket: str, token: str) -> int:
    """Return when a `ticket` that was made of `token` expires, in epoch seconds; 0: it was not."""
    expires, _, signed = ticket.partition(".")
    if not (expires.isascii() and expires.isdecimal() and len(expires) < _DIGITS):
        return 0
    expected = _ticket(token, int(expires), signed.partition(".")[0])
    return int(expires) if hmac.compare_digest(ticket.encode(), expected.encode()) else 0


def _ticket(token: str, expires: int, nonce: str) -> str:
    text = f"{expires}.{nonce}"
    signed = f"mlscope ticket {text}".encode("utf-8", "replace")
    signature = hmac.new(token.encode(), signed, hashlib.sha256).hexdigest()
    return f"{text}.{signature[:_SIGNATURE_DIGITS]}"
