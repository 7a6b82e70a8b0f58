"""Tokens and identities: the only definition of what an id may look like."""

import hashlib
import re
import secrets
from typing import Annotated

from pydantic import StringConstraints

ALLOWED = r"^[A-Za-z0-9_-]{1,64}$"

Token = Annotated[str, StringConstraints(pattern=ALLOWED)]
"""A NATS subject token that is also a valid name of a durable, bucket and file."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


PLAIN_NAMES = "printable text, without . or .. between slashes"


def is_plain(name: str) -> bool:
    """Tell whether a manifest's name can stand in the address of a page (`PLAIN_NAMES`)."""
    return name.isprintable() and not {".", ".."} & {part.strip() for part in name.split("/")}


def token_of(text: str) -> str:
    """Return `text` as a token; a changed text gets a digest, so that tokens stay distinct."""
    clean = _UNSAFE.sub("_", text)[:48]
    if clean == text and clean:
        return clean
    return f"{clean or 'x'}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def new_evaluation_id() -> str:
    """Return 16 random hex digits."""
    return secrets.token_hex(8)


def keyed_evaluation_id(key: str) -> str:
    """Return the id of every request with this key: same key, same evaluation."""
    return hashlib.sha256(f"evaluation\n{key}".encode()).hexdigest()[:16]


def run_key(evaluation: str, run: str, attempt: int) -> int:
    """Return the database's int8 key (63 bits, positive) of an `attempt` of a `run`.

    The first 8 bytes of the sha256 of `evaluation`, `run` and `attempt`, shifted right by one bit.
    """
    digest = hashlib.sha256(f"{evaluation}\n{run}\n{attempt}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
