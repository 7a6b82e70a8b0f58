"""A dataset that a person sends over HTTP: recognised by its first bytes, looked into, named."""

import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from mlscope.assets.artifacts import Artifact
from mlscope.client.errors import CommandRefused
from mlscope.counts import many
from mlscope.tasks import end_process
from schemas.request import Refused
from services.gateway.errors import FileTooSlow, NoRoom
from services.gateway.sent import files as sent_files

ALLOWED = "a .zip, a .tar (also .tar.gz, .tar.bz2, .tar.xz), a .npy or a .npz"
_HEAD_BYTES = 512
TIMES_UNPACKED = 4
"""What an archive may unpack to, over what may be sent."""
_LIMIT_S = 60.0
_BYTES_PER_S = 20e6
"""What a file is given more than `_LIMIT_S` for."""
_FEW_CLASSES = 10
_PASSED_ON = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "TMPDIR", "LANG", "LC_ALL")
"""Variables that the process which looks into datasets inherits: no settings, no keys."""
_NO_ANSWER = {"fault": "it cannot be read", "fix": "send less, or correct the file"}


def ending_of(head: bytes, name: str) -> str:
    """Return the ending of a dataset by its first 512 bytes, '' for what is none.

    `name` is what its sender calls it: a .npz has the bytes of a .zip.
    """
    if head.startswith(b"\x93NUMPY"):
        return ".npy"
    if head[:4] in (b"PK\3\4", b"PK\5\6"):
        return ".npz" if name.lower().endswith(".npz") else ".zip"
    is_packed = head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0"))
    return ".tar" if is_packed or head[257:262] == b"ustar" else ""


async def recognised(chunks: AsyncIterator[bytes], name: str) -> tuple[str, AsyncIterator[bytes]]:
    """Return the ending of the dataset that comes in `chunks`, and all of its chunks.

    `name` is what its sender calls it. Raises CommandRefused once its first bytes are those of
    none: the rest is not read. Raises FileTooSlow where they do not come within `GRACE_S`.
    """
    head = b""
    try:
        async with asyncio.timeout(sent_files.GRACE_S):
            while len(head) < _HEAD_BYTES and (chunk := await anext(chunks, None)) is not None:
                head += chunk
    except TimeoutError:
        raise FileTooSlow(len(head), sent_files.GRACE_S) from None
    ending = ending_of(head, name)
    if not ending:
        fault = f"a file that begins with {head[:8]!r}" if head else "0 bytes"
        raise refused(fault, f"send {ALLOWED}")

    async def every() -> AsyncIterator[bytes]:
        yield head
        async for chunk in chunks:
            yield chunk

    return ending, every()


async def looked_into(path: Path, ending: str, size_bytes: int, most_bytes: int) -> dict[str, Any]:
    """Return what the file at `path` is as a dataset: its reader, options, samples, classes.

    `ending` is what `recognised` returned, `size_bytes` the file's size, `most_bytes` that of the
    largest file that is taken. Raises CommandRefused, NoRoom, OSError.
    """
    limit_s = _LIMIT_S + size_bytes / _BYTES_PER_S
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    scratch = tempfile.TemporaryDirectory(prefix="mlscope-sent-")
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "services.gateway.sent.dataset_reading",
            str(path),
            ending,
            scratch.name,
            str(TIMES_UNPACKED * most_bytes),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            # Each thread of OpenBLAS counts towards the limit of its memory.
            env={**passed_on, "OPENBLAS_NUM_THREADS": "1"},
        )
        try:
            async with asyncio.timeout(limit_s):
                answer, _ = await process.communicate()
        except TimeoutError:
            raise refused(f"it is not read within {limit_s:.0f} s", "send less") from None
        finally:
            await end_process(process)
    finally:
        # In a thread: others are answered while up to 200,000 files are removed.
        await asyncio.to_thread(scratch.cleanup)
    facts: dict[str, Any] = json.loads(answer) if answer else _NO_ANSWER
    if "lacks_room" in facts:
        raise NoRoom
    if "fault" in facts:
        raise refused(facts["fault"], facts["fix"])
    return facts


def manifest_of(name: str, artifact: Artifact, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of a sent dataset, to be put into a request.

    `name` is what its sender calls it, `artifact` where its file is; `facts` are what `looked_into`
    returned. The manifest's name has the digest of the content: other content has another name.
    """
    stem = re.sub(r"(\.tar)?\.[A-Za-z0-9]{1,5}\Z", "", name)
    spoken = "-".join(re.findall(r"[a-z0-9]+", stem.lower()))[:40] or "dataset"
    classes, count = facts["classes"], facts["samples"]
    about = many(count, "sample") if count else "samples"
    if classes:
        first = ", ".join(classes[:_FEW_CLASSES])
        about += f" in {many(facts['class_count'], 'class')}: {first}"
        about += ", …" if facts["class_count"] > _FEW_CLASSES else ""
    source = {key: facts[key] for key in ("archive", "path", "reader", "options", "samples")}
    address = {"address": f"artifact://{artifact.name}", "checksum": f"sha256:{artifact.sha256}"}
    return {
        "kind": "dataset",
        "name": f"{spoken}-{artifact.sha256[:12]}",
        "version": "1.0.0",
        "description": f"{about}.",
        "modality": facts["modality"],
        "source": {**address, **{key: value for key, value in source.items() if value}},
    }


def refused(fault: str, fix: str) -> CommandRefused:
    """Return the refusal of a body: its `fault`, and the `fix`."""
    message = f"body: {fault}; {fix}" if fix else f"body: {fault}"
    return CommandRefused(
        Refused(error="invalid", message=message, field="body", found=fault, allowed=ALLOWED)
    )
