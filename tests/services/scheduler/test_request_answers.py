"""Answers to commands, each without a service around it."""

import asyncio
import json
import math
from collections.abc import AsyncIterator
from typing import Any

import msgpack
import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError, Unreachable
from mlscope.bus.records import ReceivedCommand
from mlscope.manifests.digests import digest_of
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.agent import CollectorFacts
from schemas.encoding.codec import encode_body, unpack
from schemas.level import Level
from schemas.message import Command
from schemas.people import Asker, PersonRefused
from schemas.request import Cancel, Evaluate, ListEvaluations, Match, Refused, ShowEvaluation
from schemas.status import AgentStatus, Catalog
from schemas.subjects import asked_subject, command_subject
from services.scheduler.decision_log import DecisionLog
from services.scheduler.errors import RequestRefused, Undecided
from services.scheduler.evaluation.index import EvaluationIndex
from services.scheduler.evaluation.state import EvaluationState
from services.scheduler.placement.fleet import Fleet
from services.scheduler.request_answers import RequestAnswers, check_request
from tests.services.scheduler.samples import a_catalog, a_model, a_request, an_agent


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    async with connect(MemoryServer(), "scheduler") as lent:
        yield lent


class Known:
    """A world that is known at first, and another once it was caught up with."""

    def __init__(self, first: Catalog, later: Catalog | None = None) -> None:
        self._fleet, self._later = Fleet(first), Fleet(later) if later else None
        self.times = 0
        self.fault: Exception | None = None

    def fleet(self) -> Fleet:
        """Return the world known now."""
        return self._fleet

    async def catch_up(self) -> None:
        """Learn of the later world."""
        self.times += 1
        if self.fault:
            raise self.fault
        self._fleet = self._later or self._fleet


def answers_over(
    bus: Bus,
    ended: list[EvaluationState] | None = None,
    max_bytes: int = 1 << 20,
    world: Known | None = None,
) -> RequestAnswers:
    """Return answers of a scheduler that knows one agent, or a world."""
    board, told = EvaluationIndex(pages="http://here/"), [] if ended is None else ended
    recorder = DecisionLog(bus, board)
    world = world or Known(a_catalog())
    return RequestAnswers(board, recorder, world, told.append, max_bytes=max_bytes, budget_s=10)


def as_asked(command: type[Command], body: bytes) -> ReceivedCommand:
    """Return a command as the bus hands it over."""
    return ReceivedCommand(command_subject(command), body, wants_answer=True)


async def asked(answers: RequestAnswers, command: Command) -> dict[str, Any]:
    """Return the answer to a command."""
    return dict(unpack(await answers.answer(as_asked(type(command), encode_body(command)))))


async def test_an_answer_comes_in_the_encoding_of_the_command(bus: Bus) -> None:
    answers = answers_over(bus)
    text = await answers.answer(as_asked(ListEvaluations, b"{}"))
    assert json.loads(text) == {"evaluations": [], "total": 0}
    packed = await answers.answer(as_asked(ListEvaluations, encode_body(ListEvaluations())))
    assert msgpack.unpackb(packed) == {"evaluations": [], "total": 0}


async def test_a_request_beyond_the_limit_is_refused_by_field_limit_and_fix(bus: Bus) -> None:
    request = a_request(labels={"note": "x" * 5000})
    size_bytes = len(encode_body(request))
    refused = await asked(answers_over(bus, max_bytes=size_bytes - 1), request)
    assert (refused["error"], refused["field"]) == ("invalid", "labels")
    sizes = (f"{size_bytes} bytes", f"{size_bytes - 1} bytes")
    assert (refused["found"], refused["allowed"]) == sizes
    for word in ("labels", *sizes, "MLSCOPE_MAX_REQUEST_BYTES"):
        assert word in refused["message"]
    assert (await asked(answers_over(bus, max_bytes=size_bytes), request))["accepted"]


async def test_a_body_beyond_the_limit_that_is_no_map_is_malformed(bus: Bus) -> None:
    answers = answers_over(bus, max_bytes=10)
    refused = unpack(await answers.answer(as_asked(Evaluate, b"{" * 20)))
    assert refused["error"] == "malformed"


async def test_what_was_accepted_is_listed_and_shown(bus: Bus) -> None:
    answers = answers_over(bus)
    accepted = await asked(answers, a_request())
    evaluation = accepted["evaluation"]
    assert accepted["address"] == f"http://here/{evaluation}"
    listed = await asked(answers, ListEvaluations(model="tiny"))
    assert [each["evaluation"] for each in listed["evaluations"]] == [evaluation]
    assert (await asked(answers, ListEvaluations(state="failed")))["evaluations"] == []
    shown = await asked(answers, ShowEvaluation(evaluation=evaluation))
    assert (shown["state"], shown["request"]["model"]) == ("requested", "tiny")


async def test_a_model_that_is_only_called_as_the_published_one_is_recorded_apart(
    bus: Bus,
) -> None:
    answers = answers_over(bus)
    forged = a_model(attributes={"top1": "99.99"})
    evaluation = (await asked(answers, a_request(model=forged)))["evaluation"]
    shown = await asked(answers, ShowEvaluation(evaluation=evaluation))
    own_version = f"1.0.0+{digest_of(forged)[:12]}"
    assert shown["request"]["model"]["version"] == own_version
    listed = await asked(answers, ListEvaluations(model="tiny"))
    assert [status["model"] for status in listed["evaluations"]] == [f"tiny:{own_version}"]
    matched = await asked(answers, Match.model_validate(a_request(model=forged).model_dump()))
    assert matched["model"] == f"tiny:{own_version}"


async def test_a_key_repeats_a_sent_model_whatever_was_published_in_between(bus: Bus) -> None:
    without = a_catalog(models=())
    forged = a_model(description="sent")
    for key, first, later in (
        ("published later", without, a_catalog()),
        ("withdrawn later", a_catalog(), without),
        ("published all the time", a_catalog(), a_catalog()),
    ):
        request = a_request(key=key, model=forged)
        accepted = await asked(answers_over(bus, world=Known(first)), request)
        again = await asked(answers_over(bus, world=Known(later)), request)
        assert (accepted["accepted"], again.get("repeated")) == (True, True), key
        assert again["evaluation"] == accepted["evaluation"]
        other = a_request(key=key, model=a_model(description="another"))
        refused = await asked(answers_over(bus, world=Known(later)), other)
        assert refused["error"] == "conflict"


async def test_match_answers_who_would_run_it_and_records_nothing(bus: Bus) -> None:
    answers = answers_over(bus)
    matched = await asked(answers, Match.model_validate(a_request().model_dump()))
    assert matched["model"] == "tiny:1.0.0"
    assert [agent["chosen"] for agent in matched["agents"]] == [True]
    assert (matched["runs"], matched["expected_s"]) == (1, None)
    assert (await asked(answers, ListEvaluations()))["evaluations"] == []


@pytest.mark.parametrize("command", [Cancel, ShowEvaluation])
async def test_an_evaluation_nobody_requested_is_unknown(
    bus: Bus, command: type[Cancel] | type[ShowEvaluation]
) -> None:
    refused = await asked(answers_over(bus), command(evaluation="e9"))
    assert (refused["error"], refused["field"], refused["found"]) == (
        "unknown",
        "evaluation",
        "e9",
    )


async def test_agents_hear_of_a_cancelled_evaluation_at_once(bus: Bus) -> None:
    ended: list[EvaluationState] = []
    answers = answers_over(bus, ended)
    evaluation = (await asked(answers, a_request()))["evaluation"]
    first = await asked(answers, Cancel(evaluation=evaluation, reason="enough"))
    again = await asked(answers, Cancel(evaluation=evaluation))
    assert (first["accepted"], first["repeated"], again["repeated"]) == (True, False, True)
    assert [(state.state, state.cause) for state in ended] == [("cancelled", "enough")]


async def test_a_number_that_is_none_repeats_under_its_key(bus: Bus) -> None:
    """NaN differs from itself; the request that carries it is the same all the same."""
    answers = answers_over(bus)
    request = a_request(key="k", options={"x": math.nan})
    first, again = [await asked(answers, request) for _ in range(2)]
    assert (first["accepted"], again["repeated"]) == (True, True)
    other = await asked(answers, a_request(key="k"))
    assert (other["error"], other["field"]) == ("conflict", "key")


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Undecided("e1"), "busy"),
        (Unreachable("away"), "unavailable"),
        (BusError(), "unavailable"),
    ],
)
async def test_a_log_that_takes_nothing_is_said_to(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, fault: Exception, error: str
) -> None:
    async def breaks(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(bus, "publish", breaks)
    refused = await asked(answers_over(bus), a_request())
    assert (refused["accepted"], refused["error"]) == (False, error)
    assert refused["message"]


async def test_an_asker_is_not_kept_waiting_for_a_log_that_hangs(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hangs(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(bus, "publish", hangs)
    monkeypatch.setattr("services.scheduler.request_answers._TIMEOUT_S", 0.1)
    refused = await asked(answers_over(bus), a_request())
    assert refused["error"] == "unavailable"
    assert "no answer within 0.1 s" in refused["message"]


NOBODY = Catalog(models=a_catalog().models, datasets=a_catalog().datasets)
LOST = a_catalog(an_agent(state="lost"))


@pytest.mark.parametrize(
    ("catalog", "wanted", "error"),
    [
        (a_catalog(), {}, ""),
        (NOBODY, {}, "unsatisfiable"),
        (LOST, {}, "unsatisfiable"),
        (LOST, {"wait_s": 1}, ""),
        (LOST, {"wait_s": 1, "scenarios": ["bathced"]}, "unknown"),
        (a_catalog(), {"scenarios": ["bathced"]}, "unknown"),
        (a_catalog(), {"labels": {str(number): "x" * 9000 for number in range(2)}}, "invalid"),
        (a_catalog(), {"labels": {"commit": "x" * 9000}}, ""),
        (a_catalog(), {"batch_sizes": [1, 65_536], "scenarios": ["batched"]}, ""),
    ],
)
def test_a_request_is_checked_before_it_is_accepted(
    catalog: Catalog, wanted: dict[str, Any], error: str
) -> None:
    refused: Refused | None = None
    try:
        check_request(a_request(**wanted), Fleet(catalog))
    except RequestRefused as known:
        refused = known.refused
    assert (refused.error if refused else "") == error


def with_collectors(agent: str, *names: str, **changes: Any) -> AgentStatus:
    """Return an agent that announces these collectors."""
    return an_agent(agent, collectors=tuple(CollectorFacts(name=n) for n in names), **changes)


HOSTS = (with_collectors("a1", "perf", "resource"), with_collectors("a2", "own", state="lost"))


@pytest.mark.parametrize("switch", [True, False, {"rate_hz": 5}])
def test_a_collector_that_nobody_announced_is_refused(switch: object) -> None:
    catalog = a_catalog(*HOSTS)
    with pytest.raises(RequestRefused) as raised:
        check_request(a_request(collectors={"own": True, "pref": switch}), Fleet(catalog))
    refused = raised.value.refused
    assert (refused.error, refused.field) == ("unknown", "collectors.pref")
    assert (refused.found, refused.allowed) == ("pref", "perf")
    check_request(a_request(collectors={"own": True, "perf": switch}), Fleet(catalog))


def test_an_agent_that_names_no_collectors_may_have_any() -> None:
    wanted = a_request(collectors={"pref": True}, key="k")
    check_request(wanted, Fleet(a_catalog(*HOSTS, an_agent("old"))))
    check_request(
        wanted, Fleet(a_catalog(*HOSTS, with_collectors("import", "x", reserved_for="k")))
    )
    other = with_collectors("import", "pref", reserved_for="other")
    with pytest.raises(RequestRefused):
        check_request(wanted, Fleet(a_catalog(*HOSTS, other)))


@pytest.mark.parametrize("first", [NOBODY, LOST, Catalog()])
async def test_nothing_is_refused_that_is_there_though_not_seen_yet(
    bus: Bus, first: Catalog
) -> None:
    world = Known(first, a_catalog())
    assert (await asked(answers_over(bus, world=world), a_request()))["accepted"]
    assert world.times == 1


async def test_what_is_there_is_not_waited_for(bus: Bus) -> None:
    world = Known(a_catalog(), Catalog())
    assert (await asked(answers_over(bus, world=world), a_request()))["accepted"]
    assert world.times == 0


@pytest.mark.parametrize("fault", [None, BusError("nobody tells")])
async def test_what_is_not_there_is_refused_though_nobody_knows_more(
    bus: Bus, fault: Exception | None
) -> None:
    world = Known(NOBODY)
    world.fault = fault
    refused = await asked(answers_over(bus, world=world), a_request())
    assert (refused["error"], world.times) == ("unsatisfiable", 1)


async def asked_by(asker: Asker, answers: RequestAnswers, command: Command) -> dict[str, Any]:
    """Return the answer to a command of a person."""
    subject = asked_subject(asker, command.verb)
    received = ReceivedCommand(subject, encode_body(command), wants_answer=True)
    return dict(unpack(await answers.answer(received)))


async def test_the_record_says_who_asked_and_only_they_or_owners_cancel(bus: Bus) -> None:
    answers = answers_over(bus)
    ada, bob, olga = Asker("ada", "requester"), Asker("bob", "requester"), Asker("olga", "owner")
    request = a_request(key="mine")
    names = [
        (await asked_by(asker, answers, request))["evaluation"] for asker in (ada, bob, olga, ada)
    ]
    assert len(set(names)) == 3, "the key of one person is no other's"
    assert names[0] == names[3]
    shown = await asked(answers, ShowEvaluation(evaluation=names[0]))
    assert shown["requested_by"] == "ada"
    for listing in (ListEvaluations(requested_by="ada"), ListEvaluations(search="ada")):
        listed = await asked(answers, listing)
        assert [status["evaluation"] for status in listed["evaluations"]] == [names[0]]
    refused = await asked_by(bob, answers, Cancel(evaluation=names[0]))
    assert (refused["accepted"], refused["error"]) == (False, "forbidden")
    assert (await asked_by(ada, answers, Cancel(evaluation=names[0])))["accepted"]
    assert (await asked_by(olga, answers, Cancel(evaluation=names[1])))["accepted"]
    facts = [recorded.fact for recorded in await bus.read("mlscope.v1.evaluation.*.cancelled")]
    assert [getattr(fact, "cancelled_by", "") for fact in facts] == ["ada", "olga"]


async def test_limits_are_judged_by_the_log(bus: Bus) -> None:
    ada = Asker("ada", "requester", at_most=1)
    first = answers_over(bus)
    accepted = await asked_by(ada, first, a_request())
    assert (await asked_by(ada, first, a_request()))["error"] == "exhausted"
    (refused,) = [recorded.fact for recorded in await bus.read("mlscope.v1.person.>")]
    assert isinstance(refused, PersonRefused)
    assert (refused.person, refused.verb) == ("ada", "evaluate")
    restarted = answers_over(bus)
    for recorded in await bus.read("mlscope.v1.*.>"):
        restarted._index.follow(recorded)
    assert (await asked_by(ada, restarted, a_request()))["error"] == "exhausted"
    assert (await asked_by(ada, restarted, Cancel(evaluation=accepted["evaluation"])))["accepted"]
    assert (await asked_by(ada, restarted, a_request()))["accepted"]


async def test_a_private_evaluation_is_known_to_who_asked_and_to_owners_alone(bus: Bus) -> None:
    answers = answers_over(bus)
    ada, bob, olga = Asker("ada", "requester"), Asker("bob", "requester"), Asker("olga", "owner")
    private = a_request(visibility="private")
    hidden = (await asked_by(ada, answers, private))["evaluation"]
    of_user = (await asked(answers, private))["evaluation"]
    shared = (await asked_by(ada, answers, a_request()))["evaluation"]
    for asker, visible in (
        (ada, {hidden, shared}),
        (bob, {shared}),
        (olga, {hidden, of_user, shared}),
        (Asker("ada", "viewer"), {hidden, shared}),
    ):
        listed = await asked_by(asker, answers, ListEvaluations())
        assert {status["evaluation"] for status in listed["evaluations"]} == visible
        assert listed["total"] == len(visible)
        for evaluation in (hidden, of_user, shared):
            shown = await asked_by(asker, answers, ShowEvaluation(evaluation=evaluation))
            assert shown.get("error", "") == ("" if evaluation in visible else "unknown")
    refused = await asked_by(bob, answers, Cancel(evaluation=hidden))
    unknown = await asked_by(bob, answers, Cancel(evaluation="e0"))
    assert refused["error"] == unknown["error"] == "unknown"
    assert (await asked_by(olga, answers, Cancel(evaluation=hidden)))["accepted"]
    listed = await asked_by(bob, answers, ListEvaluations())
    assert [status["evaluation"] for status in listed["evaluations"]] == [shared]


DEEP = an_agent(
    "a1",
    collectors=(
        CollectorFacts(name="perf", levels=(Level.SYSTEM, Level.HARDWARE)),
        CollectorFacts(name="absent"),
    ),
)


@pytest.mark.parametrize(
    "wanted",
    [
        {"collectors": {"perf": True}},
        {"collectors": {"perf": {"events": "cycles"}}, "trace_level": "framework"},
    ],
)
def test_a_collector_that_begins_deeper_is_refused_with_its_level(wanted: dict[str, Any]) -> None:
    with pytest.raises(RequestRefused) as raised:
        check_request(a_request(**wanted), Fleet(a_catalog(DEEP)))
    refused = raised.value.refused
    assert (refused.error, refused.field) == ("invalid", "trace_level")
    assert "trace_level system or deeper, where perf begins" in refused.allowed


@pytest.mark.parametrize(
    "wanted",
    [
        {"collectors": {"perf": False}},
        {"collectors": {"perf": True}, "trace_level": "system"},
        {"collectors": {"perf": True}, "serialised": True},
        {"collectors": {"absent": True}},
    ],
)
def test_a_collector_within_the_level_is_accepted(wanted: dict[str, Any]) -> None:
    check_request(a_request(**wanted), Fleet(a_catalog(DEEP)))
