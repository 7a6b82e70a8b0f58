"""Digests of manifests and other messages: the same content gives the same everywhere. Pure."""

import hashlib
import json
from collections.abc import Iterable

from mlscope.manifests.variants import variants_of
from schemas.manifest import ModelManifest
from schemas.message import Message


def digest_of(message: Message) -> str:
    """Return the sha256 of a message's canonical JSON (keys sorted, no spaces), in hex."""
    text = json.dumps(
        message.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return hashlib.sha256(text.encode()).hexdigest()


def model_digests(models: Iterable[ModelManifest]) -> frozenset[str]:
    """Return the digests of `models`, of each variant: what runs is one variant of a model."""
    return frozenset(digest_of(variant) for model in models for variant in variants_of(model))
