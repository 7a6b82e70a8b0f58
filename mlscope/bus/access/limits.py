"""How much of the broker a key may hold at once, so that no holder exhausts it for others. Pure.

A broker keeps every connection and subscription in memory: 20,000 connections take all its file
descriptors, and a subject of 2,000 tokens takes 0.7 MB, one of `MOST_TOKENS` 17 kB. The services'
own keys have no limits.
"""

from dataclasses import dataclass

MOST_TOKENS = 24
"""Tokens of a subject that anybody subscribes to; the longest of ours has ten."""


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """What the holder of a key may hold at once."""

    connections: int
    subscriptions: int
    """Subscriptions of each connection."""


_OF_PERSON = KeyLimits(connections=32, subscriptions=512)
_OF_AGENT = KeyLimits(connections=16, subscriptions=256)
_OF_INVITATION = KeyLimits(connections=4, subscriptions=8)
_SHARED = KeyLimits(connections=1024, subscriptions=2048)


def limits_of(key: str) -> KeyLimits | None:
    """Return the limits of the `key` of this name; None for those of the services.

    A service that was denied a connection would stop the cluster.
    """
    kind, _, holder = key.partition("-")
    if holder:
        return {"person": _OF_PERSON, "agent": _OF_AGENT, "invitation": _OF_INVITATION}.get(kind)
    return _SHARED if key in ("requester", "watcher", "agent") else None
