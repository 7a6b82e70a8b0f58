"""What may be set of fetching."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a download is tried: `tries` in a row that bring nothing, `most_tries` in all."""

    tries: int = 5
    most_tries: int = 64
    pause_s: float = 0.5
    most_pause_s: float = 20.0
    silence_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much may come out of an archive.

    `ratio` is bytes out to bytes in and counts only beyond `free_bytes`: small things may well
    be all zeros.
    """

    most_bytes: int = 64 << 30
    most_files: int = 2_000_000
    ratio: float = 200.0
    free_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class Options:
    """What may be set. `hub_token` is sent to the hub's own host alone, never where it redirects.

    `wait_s` bounds the wait for another process of this host that fetches the same.
    """

    hub_url: str = ""
    hub_token: str = field(default="", repr=False)
    wait_s: float = 3600.0
    pip_timeout_s: float = 1800.0
    patience: Patience = field(default_factory=Patience)
    bounds: Bounds = field(default_factory=Bounds)
