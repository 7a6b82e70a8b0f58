"""Tells whether a host and a worker of other builds understand each other."""

import hashlib
import json
from functools import cache
from typing import Any

from services.agent.link.messages import message_schemas
from services.agent.link.ring import LAYOUT

_WORDS = frozenset({"description", "title"})


@cache
def link_fingerprint() -> str:
    """Return a digest of the messages' fields and of the ring's layout.

    Host and worker with the same one understand each other.
    """
    text = json.dumps([_without_words(message_schemas()), LAYOUT], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _without_words(value: Any) -> Any:
    """Return a schema without its texts for people."""
    if isinstance(value, dict):
        kept = {key: inner for key, inner in value.items() if key not in _WORDS}
        return {key: _without_words(inner) for key, inner in kept.items()}
    return [_without_words(inner) for inner in value] if isinstance(value, list) else value
