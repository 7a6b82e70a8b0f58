"""Options of fetching."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

from mlscope.assets.errors import HostNotAllowed

PUBLIC, ANY, PYPI = "public", "any", "pypi"
_NAT64 = ip_network("64:ff9b::/96")
_LOCAL = (ip_network("fec0::/10"), ip_network("64:ff9b:1::/48"))
"""Networks of one site (RFC 3879, RFC 8215) that Python counts as the internet's."""


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The hosts that may be fetched from.

    An address in a request must not make an agent ask servers that only the agent reaches: its own
    loopback, its network, a cloud's metadata. Each of `names` is a host, an address or a network
    (10.0.0.0/8), `public` for every address of the internet, or `any`. Packages come from where pip
    is set up for, if `pypi`, `public` or `any` is named.
    """

    names: Collection[str] = (PUBLIC,)

    def with_host_of(self, url: str) -> "AllowedHosts":
        """Return these hosts and that of a `url` which the owner chose."""
        return AllowedHosts((*self.names, (urlsplit(url).hostname or "").lower()))

    def check(self, host: str, addresses: Collection[str]) -> None:
        """Raise HostNotAllowed unless `host`, which has these `addresses`, is allowed."""
        if ANY in self.names or host.lower().rstrip(".") in self.names:
            return
        for text in addresses:
            address = ip_address(text.partition("%")[0])
            is_public = PUBLIC in self.names and _is_public(address)
            if not is_public and not any(address in network for network in self._networks()):
                raise HostNotAllowed(host, str(address))

    def check_package(self, requirement: str) -> None:
        """Raise HostNotAllowed unless pip may fetch a `requirement`."""
        if not {PYPI, PUBLIC, ANY} & set(self.names):
            raise HostNotAllowed(PYPI, requirement)

    def _networks(self) -> Iterator[Any]:
        for name in self.names:
            try:
                yield ip_network(name, strict=False)
            except ValueError:
                continue


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    """Tell whether an address is the internet's, also where it stands for one of IPv4."""
    inner: IPv4Address | None = None
    if isinstance(address, IPv6Address):
        is_translated = address in _NAT64
        low_bits = IPv4Address(int(address) & 0xFFFFFFFF) if is_translated else None
        teredo = address.teredo[1] if address.teredo is not None else None
        inner = address.ipv4_mapped or address.sixtofour or teredo or low_bits
    checked = inner or address
    is_local = any(address in network for network in _LOCAL)
    return checked.is_global and not checked.is_multicast and not is_local


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a download is retried.

    It ends after `tries` in a row that receive no data, or `max_tries` in all. Pauses grow from
    `pause_s` to `max_pause_s`; a server that sends nothing for `silence_s` counts as lost, and so
    does one whose head takes longer than that, or that sends less than `least_bytes_per_s` in it.
    No download lasts longer than `limit_s`, with all its tries.
    """

    tries: int = 5
    max_tries: int = 64
    pause_s: float = 0.5
    max_pause_s: float = 20.0
    silence_s: float = 30.0
    least_bytes_per_s: int = 1024
    limit_s: float = 3600.0

    @property
    def least_bytes(self) -> int:
        """The least that a server sends within `silence_s`."""
        return int(self.least_bytes_per_s * self.silence_s)


@dataclass(frozen=True, slots=True)
class UnpackLimits:
    """Limits of the data unpacked from an archive.

    `ratio` (bytes unpacked over bytes of the archive) applies only above `free_bytes`, because a
    small file may well consist of zeros.
    """

    max_bytes: int = 64 << 30
    max_files: int = 2_000_000
    ratio: float = 200.0
    free_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """Options of fetching.

    `hub_token` is sent only to the hub's own host, never to a host it redirects to. `wait_s` bounds
    the wait for another process of this host that fetches the same asset.
    """

    allowed_hosts: AllowedHosts = field(default_factory=AllowedHosts)
    hub_url: str = ""
    hub_token: str = field(default="", repr=False)
    wait_s: float = 3600.0
    pip_timeout_s: float = 1800.0
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    unpack_limits: UnpackLimits = field(default_factory=UnpackLimits)
