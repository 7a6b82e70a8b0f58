"""Options of fetching."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a download is retried.

    It ends after `tries` in a row that receive no data, or `max_tries` in all. Pauses grow from
    `pause_s` to `max_pause_s`; a server that sends nothing for `silence_s` counts as lost.
    """

    tries: int = 5
    max_tries: int = 64
    pause_s: float = 0.5
    max_pause_s: float = 20.0
    silence_s: float = 30.0


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

    hub_url: str = ""
    hub_token: str = field(default="", repr=False)
    wait_s: float = 3600.0
    pip_timeout_s: float = 1800.0
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    unpack_limits: UnpackLimits = field(default_factory=UnpackLimits)
