"""Uploads as release 0.1 stored them: unsealed, under their digest, whoever had sent them."""

import base64
import hashlib

from mlscope.assets.artifacts import CHUNK_BYTES, Artifact
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.storing import store
from mlscope.bus.streams import UPLOADS


async def store_as_before(
    connection: Connection, body: bytes, ending: str = ".tar", *, named: bytes | None = None
) -> Artifact:
    """Store a file's `body` on a server without accounts, and return its description.

    With `named`, the file has the name of this other file, as who forged one had to give it.
    """
    sha256 = hashlib.sha256(body if named is None else named).hexdigest()
    places = range(0, len(body), CHUNK_BYTES)
    artifact = Artifact(f"uploads/{sha256}{ending}", sha256, len(body), len(places), "0a1b2c3d4e5f")
    for place in places:
        chunk = body[place : place + CHUNK_BYTES]
        await store(connection, f"$O.{UPLOADS}.C.{artifact.id}", chunk, headers={})
    await describe_as_before(connection, artifact)
    return artifact


async def describe_as_before(connection: Connection, artifact: Artifact) -> None:
    """Store the description of an `artifact`, under the name that it has."""
    encoded = base64.urlsafe_b64encode(artifact.name.encode()).decode()
    await store(connection, f"$O.{UPLOADS}.M.{encoded}", artifact.encoded(UPLOADS), headers={})
