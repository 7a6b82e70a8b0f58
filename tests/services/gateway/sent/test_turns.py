"""Files of one sender never keep others from sending theirs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.gateway.errors import TooManyFiles
from services.gateway.sent.files import MOST_OF_SENDER, SentFiles
from tests.services.gateway.sent_files import kept_in


class SlowBody:
    """A body whose bytes come when the test says so."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.has_begun = asyncio.Event()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield a byte, and another one at the end."""
        self.has_begun.set()
        yield b"a"
        await self.may_end.wait()
        yield b"b"


async def quick() -> AsyncIterator[bytes]:
    """Yield a body that is there at once."""
    yield b"quick"


@pytest.fixture
def sent_files(tmp_path: Path) -> SentFiles:
    """Return what receives files."""
    return kept_in(tmp_path)


async def test_slow_files_of_one_sender_leave_a_turn_to_others(sent_files: SentFiles) -> None:
    body = SlowBody()
    slow = [
        asyncio.create_task(sent_files.receive(f"{number}", body.chunks(), "rita"))
        for number in range(MOST_OF_SENDER)
    ]
    await body.has_begun.wait()
    async with asyncio.timeout(10):
        artifact = await sent_files.receive("net.onnx", quick(), "olga")
        assert artifact.size_bytes == 5
        with pytest.raises(TooManyFiles, match="8 files of yours are on their way"):
            await sent_files.receive("one_more", quick(), "rita")
        body.may_end.set()
        assert len(await asyncio.gather(*slow)) == MOST_OF_SENDER
        await sent_files.receive("now", quick(), "rita")


async def test_a_sender_who_leaves_gives_its_turn_back(sent_files: SentFiles) -> None:
    body = SlowBody()
    left = asyncio.create_task(sent_files.receive("a", body.chunks(), "rita"))
    await body.has_begun.wait()
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    async with asyncio.timeout(10):
        await sent_files.receive("b", quick(), "rita")
    assert sent_files._senders == {}


async def test_the_cluster_s_own_user_sends_as_many_as_may_wait(sent_files: SentFiles) -> None:
    names = [f"{number}" for number in range(2 * MOST_OF_SENDER)]
    async with asyncio.timeout(20):
        kept = await asyncio.gather(*(sent_files.receive(name, quick(), "") for name in names))
    assert len(kept) == len(names)
