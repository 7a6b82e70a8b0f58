"""A sender's refused commands become a few dead letters, however many it sends."""

import pytest

from mlscope.bus.command_letters import LETTER_BYTES, LETTERS_AN_HOUR, CommandLetters
from mlscope.bus.records import ReceivedCommand
from mlscope.testing.memory_bus.bus import MemoryBus
from mlscope.testing.memory_bus.server import MemoryServer
from schemas.dead import LetterBuried
from schemas.people import Asker
from schemas.subjects import ROOT, asked_subject

BODY = b"{" * (2 * LETTER_BYTES)


class Clock:
    """A clock that the test moves."""

    now_s = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


@pytest.fixture
async def bus() -> MemoryBus:
    """Connect a service."""
    return MemoryBus(MemoryServer(), "scheduler")


async def letters(bus: MemoryBus) -> list[LetterBuried]:
    """Return the letters that are recorded."""
    facts = [recorded.fact for recorded in await bus.read(f"{ROOT}.dead.>")]
    return [fact for fact in facts if isinstance(fact, LetterBuried)]


def sent_by(person: str) -> ReceivedCommand:
    """Return a command of a person."""
    return ReceivedCommand(asked_subject(Asker(person, "viewer"), "match"), BODY, False)


async def test_one_sender_s_letters_leave_room_for_those_of_others(bus: MemoryBus) -> None:
    clock = Clock()
    recorded = CommandLetters(bus, clock)
    for number in range(3 * LETTERS_AN_HOUR):
        await recorded.bury(sent_by("vera"), f"refused {number}")
    assert len(await letters(bus)) == LETTERS_AN_HOUR
    await recorded.bury(sent_by("olga"), "refused too")
    await recorded.bury(ReceivedCommand(f"{ROOT}.request.match", BODY, False), "of the user")
    assert [letter.reason for letter in (await letters(bus))[-2:]] == ["refused too", "of the user"]
    clock.now_s += 3600.0
    await recorded.bury(sent_by("vera"), "an hour later")
    assert (await letters(bus))[-1].reason == "an hour later"


async def test_a_letter_has_the_beginning_of_its_command(bus: MemoryBus) -> None:
    await CommandLetters(bus).bury(sent_by("vera"), "refused")
    (letter,) = await letters(bus)
    assert letter.body == BODY[:LETTER_BYTES]


@pytest.mark.parametrize("subject", [f"{ROOT}.asked.x.nobody.0.0.match", "odd"])
async def test_a_subject_of_no_person_is_no_obstacle(bus: MemoryBus, subject: str) -> None:
    await CommandLetters(bus).bury(ReceivedCommand(subject, b"{", False), "refused")
    assert len(await letters(bus)) == 1
