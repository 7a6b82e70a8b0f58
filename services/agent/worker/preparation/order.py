"""What the preparing processes of a session receive: whose samples, and where the files are."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgpack
from pydantic import TypeAdapter

from schemas.manifest import DatasetManifest, ModelManifest
from services.agent.link.fetched_file import FetchedFile


@dataclass(frozen=True, slots=True)
class PreparationOrder:
    """Prepare the samples of a `dataset` for a `model`."""

    model: ModelManifest
    dataset: DatasetManifest
    manifests_folder: Path
    #: files from elsewhere, by address
    fetched: Mapping[str, FetchedFile]
    #: a folder that these processes alone write to
    scratch: Path

    def packed(self) -> bytes:
        """Return it as bytes."""
        plain = replace(self, fetched=dict(self.fetched))
        body: bytes = msgpack.packb(_ADAPTER.dump_python(plain), default=_plain)
        return body

    @classmethod
    def unpacked(cls, body: bytes) -> "PreparationOrder":
        """Return the order of some bytes. Raises ValueError."""
        return _ADAPTER.validate_python(msgpack.unpackb(body, strict_map_key=False))


_ADAPTER = TypeAdapter(PreparationOrder)


def _plain(value: object) -> Any:
    """Return a value of a manifest as msgpack takes it."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"an order to prepare samples can't hold {type(value).__name__}")
