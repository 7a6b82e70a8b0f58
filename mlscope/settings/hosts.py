"""Addresses that settings name."""

from ipaddress import ip_address
from urllib.parse import parse_qs, quote, unquote, urlsplit, urlunsplit


def is_loopback(host: str) -> bool:
    """Tell whether a server that listens on `host` can be reached from this machine only."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def with_encryption(url: str) -> str:
    """Return the URL of a database, which asks for TLS where another machine may be meant.

    A URL that says itself (`sslmode`) stays as it is, and so do loopback and sockets of this
    machine. libpq's own default is to go on without TLS where a server does not speak it.
    """
    parts = urlsplit(url)
    fields = parse_qs(parts.query)
    places = parts.netloc.rpartition("@")[2].split(",")
    hosts = [unquote(urlsplit(f"//{place}").hostname or "") for place in places]
    for field in ("host", "hostaddr"):
        hosts += [host for text in fields.get(field, ()) for host in text.split(",")]
    is_here = all(not host or host[0] in "/@" or is_loopback(host) for host in hosts)
    if is_here or "sslmode" in fields:
        return url
    query = "&".join(filter(None, (parts.query, "sslmode=require")))
    return urlunsplit(parts._replace(query=query))


def with_password(url: str, password: str) -> str:
    """Return a database's URL with its user's password, a secret; one that it had is replaced.

    Another user of this machine may listen where the database should: on loopback the server has to
    prove that it knows the password as well (SCRAM, RFC 5802), unless the URL says how to log in
    (`require_auth`).
    """
    parts = urlsplit(url)
    user, _, place = parts.netloc.rpartition("@")
    name = user.partition(":")[0]
    query = parts.query
    if is_loopback(parts.hostname or "") and "require_auth=" not in query:
        query = "&".join(filter(None, (query, "require_auth=scram-sha-256")))
    secret_place = f"{name}:{quote(password, safe='')}@{place}"
    return urlunsplit(parts._replace(netloc=secret_place, query=query))
