"""The registry's answers, without a service around them."""

from typing import Any

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import Conflict, Unreachable
from mlscope.bus.records import ReceivedCommand
from mlscope.manifests.digests import digest_of
from schemas.encoding.codec import encode_body, unpack
from schemas.manifest import ManifestPublished, ManifestWithdrawn
from schemas.message import Command
from schemas.people import THE_USER, Asker
from schemas.publishing import PublishManifest, WithdrawManifest
from schemas.request import (
    ShowCatalog,
)
from schemas.subjects import asked_subject, command_subject
from services.registry.commands import RegistryCommands
from tests.services.registry.fold_of_log import FoldOfLog
from tests.services.registry.samples import a_model

MANIFESTS = "mlscope.v1.manifest.>"


@pytest.fixture
def answers(bus: Bus) -> RegistryCommands:
    return RegistryCommands(bus, FoldOfLog(bus, MANIFESTS))


async def ask(
    answers: RegistryCommands, command: Command, asker: Asker = THE_USER
) -> dict[str, Any]:
    """Return the answer to a command of `asker`."""
    named = asked_subject(asker, command.verb)
    subject = named if asker.name else command_subject(type(command))
    asked = ReceivedCommand(subject, encode_body(command), wants_answer=True)
    return dict(unpack(await answers.answer(asked)))


WITHDRAW = WithdrawManifest(kind="model", name="m", version="1.0.0")


async def test_a_manifest_comes_is_there_goes_and_returns(answers: RegistryCommands) -> None:
    published = await ask(answers, PublishManifest(manifest=a_model()))
    assert (published["accepted"], published["repeated"]) == (True, False)
    catalog = await ask(answers, ShowCatalog(kind="model"))
    assert [model["name"] for model in catalog["models"]] == ["m"]
    assert (await ask(answers, WITHDRAW))["accepted"]
    assert (await ask(answers, ShowCatalog()))["models"] == []
    again = await ask(answers, PublishManifest(manifest=a_model()))
    assert (again["accepted"], again["repeated"]) == (True, False)
    assert [each["name"] for each in (await ask(answers, ShowCatalog()))["models"]] == ["m"]


async def test_a_person_who_changes_the_catalog_is_named(
    answers: RegistryCommands, bus: Bus
) -> None:
    olga, model = Asker("olga", "owner"), a_model()
    for asker in (THE_USER, olga):
        await ask(answers, PublishManifest(manifest=model), asker)
        await ask(answers, WITHDRAW, asker)
    withdrawn, digest = ManifestWithdrawn(**WITHDRAW.model_dump()), digest_of(model)
    assert [recorded.fact for recorded in await bus.read(MANIFESTS)] == [
        ManifestPublished(manifest=model, digest=digest),
        withdrawn,
        ManifestPublished(manifest=model, digest=digest, published_by="olga"),
        withdrawn.model_copy(update={"withdrawn_by": "olga"}),
    ]


async def test_a_withdrawn_version_never_stands_for_another_text(
    answers: RegistryCommands, bus: Bus
) -> None:
    for _ in range(2):
        assert (await ask(answers, PublishManifest(manifest=a_model())))["accepted"]
        assert (await ask(answers, WITHDRAW))["accepted"]
    other = PublishManifest(manifest=a_model(operator="cast"))
    refused = await ask(answers, other)
    assert (refused["error"], refused["field"]) == ("conflict", "manifest.version")
    assert "was withdrawn with another text" in refused["message"]
    known = f"this one belongs to sha256 {digest_of(a_model())}"
    assert refused["allowed"] == f"publish the change under a new version; {known}"
    assert len(await bus.read("mlscope.v1.manifest.>")) == 4
    free = a_model(operator="cast").model_copy(update={"version": "1.0.1"})
    assert (await ask(answers, PublishManifest(manifest=free)))["accepted"]


async def test_a_withdrawal_that_came_too_late_is_looked_at_anew(
    answers: RegistryCommands, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(answers, PublishManifest(manifest=a_model()))
    publish, first = bus.publish, [True]

    async def late(*fact: Any, **guard: Any) -> int:
        if first:
            first.clear()
            raise Conflict("s", 1)
        return await publish(*fact, **guard)

    monkeypatch.setattr(bus, "publish", late)
    assert (await ask(answers, WITHDRAW))["accepted"]
    assert (await ask(answers, ShowCatalog()))["models"] == []


async def test_manifests_are_asked_for_by_a_range_of_versions(answers: RegistryCommands) -> None:
    for version in ("1.2.0", "1.10.0", "2.0.0"):
        await ask(answers, PublishManifest(manifest=a_model(version=version)))

    async def versions(text: str, name: str = "m") -> list[str]:
        found = await ask(answers, ShowCatalog(kind="model", name=name, version=text))
        return [model["version"] for model in found["models"]]

    assert await versions(">=1.3 <2.0") == ["1.10.0"]
    assert await versions("") == ["1.2.0", "1.10.0", "2.0.0"]
    assert await versions("2.0.0") == ["2.0.0"]
    assert await versions(">=1", name="other") == []
    refused = await ask(answers, ShowCatalog(version="newest"))
    fault = refused["error"], refused["field"], refused["found"]
    assert fault == ("invalid", "version", "newest")


async def test_the_same_again_is_repeated_and_says_nothing(
    answers: RegistryCommands, bus: Bus
) -> None:
    for is_repeat in (False, True):
        answer = await ask(answers, PublishManifest(manifest=a_model()))
        assert answer["repeated"] is is_repeat
    assert len(await bus.read("mlscope.v1.manifest.>")) == 1


async def test_what_is_not_there_cannot_go(answers: RegistryCommands) -> None:
    await ask(answers, PublishManifest(manifest=a_model(version="2.0.0")))
    refused = await ask(answers, WITHDRAW)
    assert (refused["error"], refused["allowed"]) == ("unknown", "m 2.0.0")


async def test_a_manifest_another_registry_wrote_first_is_looked_at_anew(
    answers: RegistryCommands, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish, first = bus.publish, [True]

    async def late(*fact: Any, **guard: Any) -> int:
        if first:
            first.clear()
            await RegistryCommands(bus, FoldOfLog(bus, MANIFESTS)).publish(a_model(operator="cast"))
        return await publish(*fact, **guard)

    monkeypatch.setattr(bus, "publish", late)
    refused = await ask(answers, PublishManifest(manifest=a_model()))
    assert (refused["error"], refused["field"]) == ("conflict", "manifest.version")
    assert len(await bus.read("mlscope.v1.manifest.>")) == 1


@pytest.mark.parametrize("fault", [Unreachable("away"), Conflict("s", 1)])
async def test_a_log_that_takes_nothing_is_said_to(
    answers: RegistryCommands, bus: Bus, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    async def breaks(*_: object, **__: object) -> int:
        raise fault

    monkeypatch.setattr(bus, "publish", breaks)
    refused = await ask(answers, PublishManifest(manifest=a_model()))
    assert (refused["accepted"], refused["error"]) == (False, "unavailable")
    assert refused["message"] == str(fault)


@pytest.mark.parametrize("body", [b"{", b'{"kindd": "model"}', b"\xc1", b"[]"])
async def test_what_is_no_command_is_refused(answers: RegistryCommands, body: bytes) -> None:
    asked = ReceivedCommand(command_subject(ShowCatalog), body, wants_answer=True)
    assert unpack(await answers.answer(asked))["error"] == "malformed"


async def test_the_catalog_is_encoded_once_a_state(answers: RegistryCommands) -> None:
    asked = ReceivedCommand(command_subject(ShowCatalog), b'{"kind": "model"}', wants_answer=True)
    before = await answers.answer(asked)
    assert await answers.answer(asked) is before
    await ask(answers, PublishManifest(manifest=a_model()))
    assert len(unpack(await answers.answer(asked))["models"]) == 1


async def test_new_questions_displace_those_that_nobody_repeats(answers: RegistryCommands) -> None:
    def question(name: str) -> ReceivedCommand:
        body = encode_body(ShowCatalog(kind="model", name=name))
        return ReceivedCommand(command_subject(ShowCatalog), body, wants_answer=True)

    first, repeated = [await answers.answer(question(name)) for name in ("first", "repeated")]
    for number in range(7):
        await answers.answer(question(f"m{number}"))
        assert await answers.answer(question("repeated")) is repeated
    assert await answers.answer(question("m6")) is await answers.answer(question("m6"))
    assert await answers.answer(question("first")) is not first


async def test_what_was_refused_meanwhile_is_in_the_catalog(bus: Bus) -> None:
    folded = FoldOfLog(bus, MANIFESTS)
    answers = RegistryCommands(bus, folded)
    assert (await ask(answers, ShowCatalog()))["refused"] == {}
    folded.refused["model m"] = "has no name"
    assert (await ask(answers, ShowCatalog()))["refused"] == {"model m": "has no name"}
