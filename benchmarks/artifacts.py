"""Artifacts: reading one object of the repository, beside nats-py's own `get` and two floors.

`python -m benchmarks.artifacts [--megabytes 256] [--repeats 3]`

One nats-server on loopback, without users: nats-py's `get` makes a consumer, which no key of ours
may. Ours and nats-py's read the same object into a file and check its sha256. The floors do the
same without a server: bytes over a loopback TCP connection from another process, and a copy of the
file. In turns; medians. Wanted: 200 MB/s.
"""

import argparse
import hashlib
import multiprocessing
import secrets
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import BinaryIO, cast

import nats
import uvloop

from benchmarks.claims import claim
from benchmarks.cluster import new_folder
from mlscope.assets.artifacts import BUCKET, Artifact, connect
from mlscope.assets.checksums import Checksum
from mlscope.assets.digests import Digests
from mlscope.bus.nats.admin import Admin
from mlscope.bus.streams import Store
from tests.contracts.worlds import OpenServer, OpenSettings

NAME = "bench/blob"
MEGABYTE = 1_000_000
BLOCK_BYTES = 1 << 20
LEAST_MB_PER_S = 200.0


async def prepare(url: str, blob: Path) -> tuple[Artifact, float]:
    """Make the store, put the file and return what is there and the MB/s of putting."""
    admin = Admin(OpenSettings(url))
    await admin.open()
    await admin.make_store(Store(BUCKET, 16 << 30))
    await admin.close()
    async with connect(OpenSettings(url), "bench") as repository:
        began_s = time.perf_counter()
        artifact = await repository.put(NAME, blob)
        return artifact, artifact.size_bytes / MEGABYTE / (time.perf_counter() - began_s)


async def read_ours(url: str, artifact: Artifact, into: Path) -> float:
    """Read by this project's repository and return the seconds."""
    async with connect(OpenSettings(url), "bench") as repository:
        began_s = time.perf_counter()
        digests = Digests(Checksum("sha256", artifact.sha256))
        with into.open("wb") as file:

            def take(blocks: Sequence[bytes]) -> None:
                file.writelines(blocks)
                digests.update(blocks)

            await repository.read(artifact, take)
        digests.check(NAME)
        return time.perf_counter() - began_s


async def read_theirs(url: str, artifact: Artifact, into: Path) -> float:
    """Read by nats-py's object store, which checks the digest too, and return the seconds."""
    client = await nats.connect(url)
    try:
        bucket = await client.jetstream().object_store(BUCKET)
        began_s = time.perf_counter()
        with into.open("wb") as file:
            await bucket.get(NAME, writeinto=file)
            assert file.tell() == artifact.size_bytes
        return time.perf_counter() - began_s
    finally:
        await client.close()


def serve(blob: Path, port: "multiprocessing.SimpleQueue[int]") -> None:
    """Send the file to the first who connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port.put(server.getsockname()[1])
        connection, _ = server.accept()
        with connection, blob.open("rb") as file:
            connection.sendfile(file)


def read_tcp(blob: Path, into: Path, sha256: str) -> float:
    """Read the file over a bare TCP connection from another process and return the seconds."""
    context = multiprocessing.get_context("spawn")
    port = context.SimpleQueue()
    server = context.Process(target=serve, args=(blob, port))
    server.start()
    with socket.create_connection(("127.0.0.1", port.get())) as connection:
        began_s = time.perf_counter()
        with connection.makefile("rb", buffering=0) as source:
            took_s = copied(cast("BinaryIO", source), into, sha256, began_s)
    server.join()
    return took_s


def copied(source: BinaryIO, into: Path, sha256: str, began_s: float) -> float:
    """Copy to a file, hashing, and return the seconds since `began_s`."""
    digest = hashlib.sha256()
    with into.open("wb") as file:
        while block := source.read(BLOCK_BYTES):
            file.write(block)
            digest.update(block)
    assert digest.hexdigest() == sha256
    return time.perf_counter() - began_s


def read_file(blob: Path, into: Path, sha256: str) -> float:
    """Copy the file and return the seconds."""
    began_s = time.perf_counter()
    with blob.open("rb") as source:
        return copied(source, into, sha256, began_s)


def main() -> int:
    """Print the medians; fail when ours falls short of what is wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with new_folder() as folder, OpenServer(folder) as server:
        blob, into = folder / "blob", folder / "copy"
        with blob.open("wb") as file:
            for _ in range(options.megabytes):
                file.write(secrets.token_bytes(MEGABYTE))
        artifact, put_rate = uvloop.run(prepare(server.url, blob))
        readers: dict[str, Callable[[], float]] = {
            "ours": lambda: uvloop.run(read_ours(server.url, artifact, into)),
            "nats-py get": lambda: uvloop.run(read_theirs(server.url, artifact, into)),
            "loopback TCP (floor)": lambda: read_tcp(blob, into, artifact.sha256),
            "file copy (floor)": lambda: read_file(blob, into, artifact.sha256),
        }
        took: dict[str, list[float]] = {name: [] for name in readers}
        for _ in range(options.repeats):
            for name, read in readers.items():
                took[name].append(read())
    print(
        f"{options.megabytes} MB, into a file, sha256 checked; medians of {options.repeats}, MB/s"
    )
    rates = {name: options.megabytes / median(times_s) for name, times_s in took.items()}
    for name, rate in rates.items():
        print(f"{name:24}{rate:8.0f}{rate / rates['loopback TCP (floor)']:8.2f} of TCP")
    print(f"{'ours, putting':24}{put_rate:8.0f}")
    peer = f"loopback TCP {rates['loopback TCP (floor)']:.0f}"
    claim("reading an object", rates["ours"], least=LEAST_MB_PER_S, unit="MB/s", peer=peer)
    print(f"wanted: {LEAST_MB_PER_S:.0f}; found {rates['ours']:.0f}")
    return int(rates["ours"] < LEAST_MB_PER_S)


if __name__ == "__main__":
    sys.exit(main())
