"""Digests of messages: the same content gives the same on every machine. Pure."""

import hashlib
import json

from schemas.message import Message


def digest_of(message: Message) -> str:
    """Return the sha256 of a message's canonical JSON (keys sorted, no spaces), in hex."""
    text = json.dumps(
        message.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return hashlib.sha256(text.encode()).hexdigest()
