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
    """Return a URL with its user's password, a secret; one that it had is replaced."""
    parts = urlsplit(url)
    user, _, place = parts.netloc.rpartition("@")
    name = user.partition(":")[0]
    return urlunsplit(parts._replace(netloc=f"{name}:{quote(password, safe='')}@{place}"))
