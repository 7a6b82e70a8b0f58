"""Every key on every subject of a real server: what is not granted fails; docs say what is."""

from pathlib import Path

import pytest

from mlscope.bus.streams import JETSTREAM, MANAGED, managed
from tests.cli.cluster.keyholders import KEYS
from tests.cli.cluster.rights_matrix import PAGE, Outcome, matrix, page, rows
from tests.mlscope.bus.access.permission_trace import covers

OUTCOMES: list[Outcome] = []


@pytest.fixture
async def outcome(data_folder: Path) -> Outcome:
    """Try everything, once for all tests of this file."""
    if not OUTCOMES:
        OUTCOMES.append(await matrix(data_folder))
    return OUTCOMES[0]


async def test_what_is_not_granted_fails_and_what_is_granted_does_not(outcome: Outcome) -> None:
    wrong = []
    for (key, subject), (may_publish, may_subscribe) in outcome.items():
        permission = KEYS[key]
        is_pattern = ">" in subject
        publish = not is_pattern and any(covers(right, subject) for right in permission.publish)
        subscribe = any(covers(right, subject) for right in permission.subscribe)
        if (may_publish, may_subscribe) != (publish, subscribe):
            wrong.append((key, subject, may_publish, may_subscribe))
    assert wrong == []
    assert len(outcome) == len(KEYS) * len({name for row in rows() for name in row.subjects})


async def test_nobody_deletes_a_stream_or_makes_a_consumer_of_his_own(outcome: Outcome) -> None:
    verbs = ("STREAM.DELETE.", "STREAM.MSG.DELETE.", "CONSUMER.CREATE.")
    forbidden = tuple(f"{prefix}.{verb}" for prefix in (JETSTREAM, MANAGED) for verb in verbs)
    allowed = [
        (key, subject)
        for (key, subject), tries in outcome.items()
        if subject.startswith(forbidden) and any(tries)
    ]
    # The operator drops dead letters; what a letter was about stays in its own stream.
    assert allowed == [("operator", managed("STREAM.MSG.DELETE.DEAD"))]


async def test_the_page_of_rights_is_what_was_tried(outcome: Outcome) -> None:
    assert PAGE.read_text("utf-8").startswith(page(outcome)), "make rights"
