"""Addresses that settings name."""

from ipaddress import ip_address
from urllib.parse import quote, urlsplit, urlunsplit


def is_loopback(host: str) -> bool:
    """Tell whether a server that listens on `host` can be reached from this machine only."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def with_password(url: str, password: str) -> str:
    """Return a database's URL with its user's password, a secret; one that it had is replaced.

    Another user of this machine may listen where the database should: on loopback the password is
    proved, not sent in clear text, unless the URL says how to log in (`require_auth`).
    """
    parts = urlsplit(url)
    user, _, place = parts.netloc.rpartition("@")
    name = user.partition(":")[0]
    query = parts.query
    if is_loopback(parts.hostname or "") and "require_auth=" not in query:
        query = "&".join(filter(None, (query, "require_auth=%21password")))
    secret_place = f"{name}:{quote(password, safe='')}@{place}"
    return urlunsplit(parts._replace(netloc=secret_place, query=query))
