"""Digests of manifests and other messages: the same content gives the same everywhere. Pure."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from mlscope.manifests.variants import variants_of
from schemas.manifest import ModelManifest
from schemas.message import Message


def canonical_json(value: Any) -> str:
    """Return a `value` as canonical JSON: keys sorted, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical(message: Message) -> str:
    """Return a message as canonical JSON, with the names of the wire format."""
    return canonical_json(message.model_dump(mode="json"))


def digest_of(message: Message) -> str:
    """Return the sha256 of a message's canonical JSON, in hex."""
    return hashlib.sha256(canonical(message).encode()).hexdigest()


def model_digests(models: Iterable[ModelManifest]) -> frozenset[str]:
    """Return the digests of `models`, of each variant: what runs is one variant of a model."""
    return frozenset(digest_of(variant) for model in models for variant in variants_of(model))
