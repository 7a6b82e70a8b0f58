"""Bundles: whole or not at all."""

import asyncio
from pathlib import Path

import pytest

from mlscope.exchange.bundle import BundleWriter, read_bundle
from mlscope.exchange.errors import BundleBroken
from schemas.encoding.codec import decode
from schemas.run import RunReady


def ready(run: str) -> RunReady:
    return RunReady(evaluation="e1", run=run, attempt=1, agent="a1")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Return a bundle of three facts."""
    path = tmp_path / "b.bundle"
    asyncio.run(write(path))
    return path


async def write(path: Path) -> None:
    with BundleWriter(path) as writer:
        for number in range(3):
            await writer.put(ready(f"r{number}"), id=f"i{number}", cause="c")


def test_facts_come_back_in_order_with_their_ids(bundle: Path) -> None:
    read = [decode(body) for body in read_bundle(bundle)]
    assert [envelope.id for envelope, _ in read] == ["i0", "i1", "i2"]
    assert [fact for _, fact in read] == [ready("r0"), ready("r1"), ready("r2")]


@pytest.mark.parametrize("keep", [0, 5, 8, 10, 60, -1, -33])
def test_a_cut_bundle_yields_nothing(bundle: Path, keep: int) -> None:
    bundle.write_bytes(bundle.read_bytes()[:keep])
    with pytest.raises(BundleBroken):
        next(read_bundle(bundle))


@pytest.mark.parametrize("at", [0, 9, 40, -1])
def test_an_altered_bundle_yields_nothing(bundle: Path, at: int) -> None:
    body = bytearray(bundle.read_bytes())
    body[at] ^= 0x40
    bundle.write_bytes(body)
    with pytest.raises(BundleBroken):
        next(read_bundle(bundle))


def test_what_breaks_off_leaves_no_bundle(tmp_path: Path) -> None:
    path = tmp_path / "b.bundle"
    with pytest.raises(RuntimeError), BundleWriter(path):
        raise RuntimeError
    assert not path.exists()


def test_a_missing_bundle_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleBroken, match="No such file"):
        next(read_bundle(tmp_path / "none"))
