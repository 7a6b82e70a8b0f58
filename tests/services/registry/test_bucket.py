"""The bucket follows the fold: what differs is written, what is not in it goes."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import Unreachable
from services.registry.bucket import CATALOG, CatalogBucket


@pytest.fixture
async def bucket(bus: Bus) -> AsyncIterator[CatalogBucket]:
    """Lend a bucket that is watched."""
    made = CatalogBucket(bus, patience_s=0.1)
    watching = asyncio.create_task(made.watch())
    yield made
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def held(bus: Bus, *keys: str) -> dict[str, tuple[bytes, int]]:
    """Return value and revision of the keys that are there."""
    found = {key: await bus.get(CATALOG, key) for key in keys}
    return {
        key: (entry.value, entry.revision)
        for key, entry in found.items()
        if entry is not None and entry.value is not None
    }


def forestall_once(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another write the key of the next put before it."""
    put = bus.put

    async def late(name: str, key: str, value: bytes, **guard: int) -> int:
        monkeypatch.setattr(bus, "put", put)
        await put(name, key, b"another's")
        return await put(name, key, value, **guard)

    monkeypatch.setattr(bus, "put", late)


async def test_only_what_differs_is_written(bus: Bus, bucket: CatalogBucket) -> None:
    await bucket.write_differences({"gone": "x", "same": "1", "other": "1"})
    before = await held(bus, "same", "other")
    await bucket.write_differences({"same": "1", "other": "2", "new": "3"})
    after = await held(bus, "gone", "same", "other", "new")
    assert {key: value for key, (value, _) in after.items()} == {
        "same": b"1",
        "other": b"2",
        "new": b"3",
    }
    assert after["same"] == before["same"]
    assert after["other"][1] > before["other"][1]


async def test_what_another_left_there_goes(bus: Bus) -> None:
    await bus.put(CATALOG, "gone", b"x")
    bucket = CatalogBucket(bus, patience_s=0.0)
    watching = asyncio.create_task(bucket.watch())
    await bucket.write_differences({"a": "1"})
    watching.cancel()
    assert {key: value for key, (value, _) in (await held(bus, "gone", "a")).items()} == {"a": b"1"}


async def test_what_another_registry_knows_first_is_left_to_it(bus: Bus) -> None:
    bucket = CatalogBucket(bus, patience_s=3600.0)
    watching = asyncio.create_task(bucket.watch())
    await bucket.write_differences({"a": "1", "b": "1", "c": "1"})
    await bus.delete(CATALOG, "b")
    for key, value in (("a", b"newer"), ("new", b"1"), ("seen", b"1")):
        await bus.put(CATALOG, key, value)
    while "seen" not in bucket.keys or "b" in bucket.keys:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await bucket.write_differences({"a": "1", "b": "1"})
    after = await held(bus, "a", "b", "c", "new")
    assert {key: value for key, (value, _) in after.items()} == {"a": b"newer", "new": b"1"}
    await bucket.write_differences({"a": "2"})
    assert (await held(bus, "a"))["a"][0] == b"2"
    watching.cancel()


async def test_mending_again_writes_nothing(bus: Bus, bucket: CatalogBucket) -> None:
    for _ in range(2):
        await bucket.write_differences({"a": "1", "b": "2"})
        known = await held(bus, "a", "b")
    await bucket.write_differences({"a": "1", "b": "2"})
    assert await held(bus, "a", "b") == known


async def test_nothing_is_written_before_what_is_there_is_known(bus: Bus) -> None:
    writing = asyncio.create_task(CatalogBucket(bus, 0.0).write_differences({"a": "1"}))
    await asyncio.sleep(0.05)
    assert await held(bus, "a") == {}
    writing.cancel()


async def test_who_wrote_first_is_taken_in_and_corrected_the_next_time(
    bus: Bus, bucket: CatalogBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bucket.write_differences({"a": "1"})
    forestall_once(bus, monkeypatch)
    await bucket.write_differences({"a": "2"})
    assert (await held(bus, "a"))["a"][0] == b"another's"
    for _ in range(500):
        await bucket.write_differences({"a": "2"})
        if (await held(bus, "a"))["a"][0] == b"2":
            break
        await asyncio.sleep(0.01)
    assert (await held(bus, "a"))["a"][0] == b"2"


@pytest.mark.parametrize(("verb", "wanted"), [("put", {"a": "2"}), ("delete", {})])
async def test_what_was_not_written_is_written_the_next_time(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, verb: str, wanted: dict[str, str]
) -> None:
    async def away(*_: object, **__: object) -> int:
        raise Unreachable("away")

    bucket = CatalogBucket(bus, patience_s=3600.0)
    watching = asyncio.create_task(bucket.watch())
    assert await bucket.write_differences({"a": "1"})
    with monkeypatch.context() as broken:
        broken.setattr(bus, verb, away)
        with pytest.raises(Unreachable):
            await bucket.write_differences(wanted)
    assert await bucket.write_differences(wanted)
    left = {key: value.decode() for key, (value, _) in (await held(bus, "a")).items()}
    assert left == wanted
    watching.cancel()


async def test_a_write_that_another_forestalled_is_not_said_to_be_there(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = CatalogBucket(bus, patience_s=3600.0)
    watching = asyncio.create_task(bucket.watch())
    assert await bucket.write_differences({"a": "1"})
    forestall_once(bus, monkeypatch)
    assert not await bucket.write_differences({"a": "2"})
    async with asyncio.timeout(60):
        while not await bucket.write_differences({"a": "2"}):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert (await held(bus, "a"))["a"][0] == b"2"
    watching.cancel()
