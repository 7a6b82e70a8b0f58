"""How much of the broker a key may hold at once, so that no holder exhausts it for others. Pure.

A broker keeps every connection and subscription in memory: 20,000 connections take all its file
descriptors, and a subject of 2,000 tokens takes 0.7 MB, one of `MOST_TOKENS` 17 kB. For a
connection that reads nothing it keeps up to 64 MiB, and many subscriptions of one subject fill that
with copies of one answer. The services' own keys have no limits.
"""

from dataclasses import dataclass

from schemas.people import Asker

MOST_TOKENS = 24
"""Tokens of a subject that anybody subscribes to; the longest of ours has ten."""


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """What the holder of a key may hold at once."""

    connections: int
    subscriptions: int
    """How many subscriptions each connection may have."""
    payload_bytes: int | None = None
    """The largest message; None: as for all.

    The broker holds back whoever sends more than a service reads, after each message and for some
    milliseconds. Where 64 MiB wait for the service nonetheless, it ends the service's connection:
    of 8 MiB, eight do so at once. After a flood of small messages, a service answers sooner.
    """


_OF_PERSON = KeyLimits(connections=16, subscriptions=256)
# Whoever only looks has less to do at once.
_OF_VIEWER = KeyLimits(connections=8, subscriptions=256, payload_bytes=256 << 10)
_OF_AGENT = KeyLimits(connections=16, subscriptions=256)
_OF_INVITATION = KeyLimits(connections=4, subscriptions=8, payload_bytes=64 << 10)
_OF_WATCHER = KeyLimits(connections=1024, subscriptions=2048, payload_bytes=64 << 10)
_SHARED = KeyLimits(connections=1024, subscriptions=2048)


def limits_of(key: str, person: Asker | None = None) -> KeyLimits | None:
    """Return the limits of the `key` of this name; None for those of the services.

    `person` is whose key it is. A service that was denied a connection would stop the cluster.
    """
    if person is not None:
        return _OF_VIEWER if person.role == "viewer" else _OF_PERSON
    kind, _, holder = key.partition("-")
    if holder:
        return {"agent": _OF_AGENT, "invitation": _OF_INVITATION}.get(kind)
    return {"requester": _SHARED, "agent": _SHARED, "watcher": _OF_WATCHER}.get(key)
