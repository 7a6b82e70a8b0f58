"""Uploads: files that are too large for a request, stored by requesters, expired after a day.

An object store like that of the artifacts (`artifacts`), bounded, on its own stream. The server
stores a file under the name of its sender's key, so nobody replaces another's. Agents can read the
whole store, so a file is sealed: with a secret that its address has, which is in the request, and
so only the agents that run it open it. The secret derives from the sender's key and the file's
digest: a file is sent once for all requests within half a day. Agents use it only if it has the
checksum in the request.

Release 0.1 sealed nothing, and named a file by its digest alone. What waits since an upgrade has
such an address: the file is read where it is, until it expires. No key adds to these files, as the
server adds the name of a key to whatever is stored.

Sealed with ChaCha20-Poly1305 (RFC 8439), each chunk with its number as the nonce.
"""

import asyncio
import base64
import hashlib
import itertools
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from nacl.bindings import (
    crypto_aead_chacha20poly1305_ietf_decrypt,
    crypto_aead_chacha20poly1305_ietf_encrypt,
)
from nacl.exceptions import CryptoError

from mlscope.assets.artifacts import UPLOADED, Artifact, Artifacts, Take, connect
from mlscope.assets.errors import ArtifactBroken, RepositoryFailed
from mlscope.assets.partial import Progress
from mlscope.bus.access.rights import upload_of
from mlscope.bus.nats.log import StoredMessage, last_on
from mlscope.bus.nats.settings import NatsSettings
from mlscope.bus.nats.storing import MESSAGE_ID, store
from mlscope.bus.streams import STORES, UPLOADS

_TIME = "Nats-Time-Stamp"
_STORED_POLLS = 100
_POLL_S = 0.1
_TAG_BYTES = 16
_NONCE_BYTES = 12
_NO_CHUNK = (1 << 8 * _NONCE_BYTES) - 1
"""The number with which the digest is sealed, as no chunk has it."""
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,16}")
_FILE = re.compile(r"(?P<stem>[0-9a-f]{64})(?P<ending>\.[A-Za-z0-9]{1,16})?")
(KEPT_S,) = (object_store.ttl_s for object_store in STORES if object_store.name == UPLOADS)
"""Seconds after which an upload expires."""


@asynccontextmanager
async def connect_uploads(
    settings: NatsSettings, name: str, *, timeout_s: float = 30.0, inbox: str = ""
) -> AsyncIterator["Uploads"]:
    """Open the store of uploads on its own connection, with the key `name` of the `settings`.

    `timeout_s` bounds the wait for the server; `inbox` is the inbox prefix for answers, as for the
    bus. Raises Unreachable, NotPermitted.
    """
    async with connect(settings, name, timeout_s=timeout_s, inbox=inbox) as artifacts:
        yield Uploads.beside(artifacts)


def upload_name(path: Path) -> str:
    """Return the name of a file for `Uploads.put`: its sha256 and suffix. Raises OSError."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{UPLOADED}{digest}{path.suffix if _ENDING.fullmatch(path.suffix) else ''}"


@dataclass(frozen=True, slots=True)
class _Sealing:
    """Seals and opens the chunks of one file with its `secret`, of 32 bytes."""

    secret: bytes

    @classmethod
    def of(cls, sha256: str, seed: str | None) -> Self:
        """Return the sealing of the file with this digest that the holder of a `seed` sends."""
        key = hashlib.blake2b((seed or "").encode(), person=b"mlscope uploads").digest()
        return cls(hashlib.blake2b(bytes.fromhex(sha256), digest_size=32, key=key).digest())

    @property
    def place(self) -> str:
        """The file's name in the store, from which nobody learns the secret or the digest."""
        return hashlib.blake2b(self.secret, digest_size=32, person=b"mlscope place").hexdigest()

    def seal(self, number: int, chunk: bytes) -> bytes:
        """Return the chunk with this `number`, sealed, 16 bytes longer."""
        nonce = number.to_bytes(_NONCE_BYTES, "big")
        return crypto_aead_chacha20poly1305_ietf_encrypt(chunk, b"", nonce, self.secret)

    def open(self, number: int, sealed: bytes) -> bytes:
        """Return the chunk with this `number`. Raises CryptoError if it is another one."""
        nonce = number.to_bytes(_NONCE_BYTES, "big")
        return crypto_aead_chacha20poly1305_ietf_decrypt(sealed, b"", nonce, self.secret)


class Uploads(Artifacts):
    """The store of uploads. Raises the errors of the bus, StreamFull when it is full.

    A file is sent as `uploads/SHA256.ENDING`, and found as `uploads/KEY/SECRET.ENDING`: the server
    adds the name of the sender's key. A server without accounts adds none. A file that was sent to
    release 0.1 is found as it was sent.
    """

    _missing = f"files for a request are kept for {KEPT_S / 3600:.0f} hours; send it again"

    @classmethod
    def beside(cls, artifacts: Artifacts) -> Self:
        """Return the uploads on the same connection."""
        return cls(artifacts.connection, UPLOADS)

    async def put(self, name: str, path: Path, progress: Progress | None = None) -> Artifact:
        """Store the file at `path` as `name`, unless it is there for at least another half day.

        Returns its description, with the name by which agents find it. `progress` is called with
        the bytes sent. Raises ArtifactBroken for a name that is no digest, OSError, StreamFull,
        RepositoryFailed.
        """
        sha256, ending = _stem_and_ending(name)
        sealing = _Sealing.of(sha256, self.connection.settings.nats_seed())
        meta = self._place(sealing, ending)
        stored = await self._newest(meta)
        if stored is not None and (stamp := stored.headers.get(_TIME)):
            age = datetime.now(UTC) - datetime.fromisoformat(stamp)
            existing = _opened(_name_in_store(stored, sealing, ending), stored.body)
            if existing is not None and age.total_seconds() < KEPT_S / 2:
                return existing
        artifact = await self._store_chunks(name, path, progress, sealing.seal)
        body = _described(artifact, sealing, sha256)
        await store(self.connection, meta, body, headers={MESSAGE_ID: artifact.id})
        # Only the stored message says whose it is; a broker of several may answer too early.
        for _ in range(_STORED_POLLS):
            stored = await self._newest(meta)
            if stored is not None:
                sent = _opened(_name_in_store(stored, sealing, ending), stored.body)
                # Or that of another client with this key, which sends the same file.
                if sent is not None and sent.sha256 == sha256:
                    return sent
            await asyncio.sleep(_POLL_S)
        raise RepositoryFailed(name, "it was stored, but cannot be found")

    async def read(self, artifact: Artifact, take: Take, progress: Progress | None = None) -> None:
        """Pass the opened chunks of `artifact` to `take`, in order, and call `progress`.

        Raises ArtifactBroken for bytes that are missing, or not those sent.
        """
        stem, _ = _stem_and_ending(artifact.name)
        if stem == artifact.sha256:
            await self._read_unsealed(artifact, take, progress)
            return
        sealing, _ = _sealing_and_ending(artifact.name)
        numbers = itertools.count()

        def take_sealed(chunks: Sequence[bytes]) -> None:
            try:
                take([sealing.open(next(numbers), chunk) for chunk in chunks])
            except CryptoError as error:
                raise ArtifactBroken(artifact.name, "its bytes are not those sent") from error

        size_bytes = artifact.size_bytes + _TAG_BYTES * artifact.chunks
        await super().read(replace(artifact, size_bytes=size_bytes), take_sealed, progress)

    async def _read_description(self, name: str) -> Artifact | None:
        sealing, ending = _sealing_and_ending(name)
        key = _key_in(name)
        stored = await self._newest(self._place(sealing, ending, key))
        if stored is not None:
            return _opened(name, stored.body)
        return None if key else await self._read_unsealed_description(name)

    async def _read_unsealed_description(self, name: str) -> Artifact | None:
        """Return the description of a file that was sent to release 0.1. Raises ArtifactBroken."""
        artifact = await super()._read_description(name)
        if artifact is None:
            return None
        stem, _ = _stem_and_ending(name)
        if artifact.sha256 != stem:
            raise ArtifactBroken(name, "its description is of another file")
        return replace(artifact, name=name)

    async def _read_unsealed(
        self, artifact: Artifact, take: Take, progress: Progress | None
    ) -> None:
        """Read a file that was sent to release 0.1, and compare its bytes with its name."""
        digest = hashlib.sha256()

        def take_hashed(chunks: Sequence[bytes]) -> None:
            for chunk in chunks:
                digest.update(chunk)
            take(chunks)

        await super().read(artifact, take_hashed, progress)
        if digest.hexdigest() != artifact.sha256:
            raise ArtifactBroken(artifact.name, "its bytes are not those sent")

    async def _newest(self, meta: str) -> StoredMessage | None:
        return await last_on(self.connection, f"OBJ_{UPLOADS}", meta)

    def _place(self, sealing: _Sealing, ending: str, key: str = "") -> str:
        """Return the subject of a description: as its sender has it, or as that of a `key`."""
        subject = self._meta(f"{UPLOADED}{sealing.place}{ending}")
        return upload_of(key, subject) if key else subject

    async def _purge(self, filter_subject: str, keep: int = 0) -> None:
        """Do nothing: requesters may not remove uploads, which expire by themselves."""


def _key_in(name: str) -> str:
    """Return the key whose upload this `name` means, '' where it does not say."""
    return name.removeprefix(UPLOADED).rpartition("/")[0]


def _stem_and_ending(name: str) -> tuple[str, str]:
    file = _FILE.fullmatch(name.rpartition("/")[2])
    if file is None:
        raise ArtifactBroken(name, "is no name of an upload")
    return file["stem"], file["ending"] or ""


def _sealing_and_ending(name: str) -> tuple[_Sealing, str]:
    """Return what opens the upload with this `name`, as agents find it. Raises ArtifactBroken."""
    secret, ending = _stem_and_ending(name)
    return _Sealing(bytes.fromhex(secret)), ending


def _name_in_store(stored: StoredMessage, sealing: _Sealing, ending: str) -> str:
    """Return the name by which agents find what a `stored` message describes."""
    *key, _ = stored.subject.removeprefix(f"$O.{UPLOADS}.M.").split(".")
    return UPLOADED + "/".join((*key, f"{sealing.secret.hex()}{ending}"))


def _described(artifact: Artifact, sealing: _Sealing, sha256: str) -> bytes:
    """Return the description of an `artifact`, as sealed, of a file with this digest.

    Everybody who may read the store reads it, so what it says of the file is sealed.
    """
    fields = json.loads(replace(artifact, name=sealing.place).encoded(UPLOADS))
    fields["sealed"] = base64.b64encode(sealing.seal(_NO_CHUNK, bytes.fromhex(sha256))).decode()
    return json.dumps(fields).encode()


def _opened(name: str, body: bytes) -> Artifact | None:
    """Return the upload `name` that a description means, as it was before it was sealed.

    None for a removed one. Raises ArtifactBroken.
    """
    artifact = Artifact.read(body)
    if artifact is None:
        return None
    sealing, _ = _sealing_and_ending(name)
    fields: dict[str, Any] = json.loads(body)
    try:
        sha256 = sealing.open(_NO_CHUNK, base64.b64decode(str(fields.get("sealed")))).hex()
    except (ValueError, CryptoError) as error:
        raise ArtifactBroken(name, "its description is not its sender's") from error
    key = _key_in(name)
    return Artifact(
        name,
        sha256,
        artifact.size_bytes - _TAG_BYTES * artifact.chunks,
        artifact.chunks,
        f"{key}.{artifact.id}" if key else artifact.id,
    )
