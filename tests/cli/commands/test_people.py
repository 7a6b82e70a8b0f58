"""People with real keys: each asks in the own name, within a role, until they are removed."""

import argparse
import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from cli import exits
from cli.cluster.keys.person_files import ensure_person
from cli.commands import audit, people
from cli.failures import Failure, Misused, explain
from cli.inputs import operator
from cli.inputs.operator import NotRecorded
from cli.inputs.uploads import put_file
from mlscope.bus.asked import answer_all
from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError, NotPermitted
from mlscope.bus.nats import connect
from mlscope.bus.records import ReceivedCommand
from mlscope.client.connection import find_settings, open_bus
from mlscope.client.errors import Denied, NotAnswering
from mlscope.people import People, people_folder
from mlscope.provision import provision
from mlscope.settings import Settings
from schemas.people import Asker, PersonAdded, PersonRemoved
from schemas.publishing import WithdrawManifest
from schemas.request import (
    Evaluate,
    ListEvaluations,
)
from schemas.subjects import asked_subject, asker_of, command_subject
from tests.cli.commands.test_agents import listening
from tests.cli.conftest import CommandLine
from tests.cli.in_process import arguments as arguments_of


def arguments(folder: Path, name: str = "ada", **more: Any) -> argparse.Namespace:
    """Return the arguments of a command about people."""
    own = {"data": str(folder), "url": "", "seed_file": "", "name": name, "output": "json"}
    limits = {"role": "requester", "at_most": 0, "per_day": 0}
    return argparse.Namespace(**{**own, **limits, **more})


def settings_of(folder: Path, name: str) -> Settings:
    """Return the settings of the connection `name` of the cluster in a `folder`."""
    return find_settings({}, data=str(folder), seed_file=str(folder / "keys" / f"{name}.nk"))


async def answer_who_asks(bus: Bus) -> None:
    """Answer commands with who asked, as the subject says."""

    async def answer(command: ReceivedCommand) -> bytes:
        return repr(asker_of(command.subject)).encode()

    for command in (Evaluate, ListEvaluations):
        await answer_all(bus, command, answer, queue="scheduler")


async def check_refusals(folder: Path, key: Path) -> None:
    """Check what commands say to a viewer whose key is the file `key`, of the cluster `folder`."""
    reason = (
        "a viewer's key may not do this, a requester's or owner's may; `mlscope people add` "
        "on the cluster's machine changes a role"
    )
    own = ("run", "tiny", "--data", str(folder), "--seed-file", str(key), "--quiet")
    ended = await CommandLine()(*own)
    assert (ended.code, ended.err) == (exits.AUTH, f"mlscope run: evaluate: {reason}\n")
    model = folder / "m.onnx"
    model.write_bytes(b"weights")
    with pytest.raises(Denied) as raised:
        await asyncio.to_thread(put_file, arguments_of(*own), "models", model)
    assert str(raised.value) == f"send files: {reason}"


async def test_a_person_asks_in_no_other_name_until_removed(
    data_folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    own = data_folder / "keys" / "people" / "ada.nk"
    with listening(data_folder) as state:
        await provision(settings_of(data_folder, "provisioner"))
        assert await people.add(arguments(data_folder, at_most=2, per_day=9)) == 0
        modes = {path.suffix: stat.S_IMODE(path.stat().st_mode) for path in own.parent.iterdir()}
        assert modes == dict.fromkeys((".json", ".nk", ".token"), 0o600)
        printed = capsys.readouterr().out
        assert all(path in printed for path in (str(own), state.authority_file))
        async with connect(settings_of(data_folder, "scheduler"), "scheduler") as scheduler:
            await answer_who_asks(scheduler)
            async with open_bus(data=str(data_folder), seed_file=str(own)) as ada:
                asker = Asker("ada", "requester", 2, 9)
                answer = await ada.ask(command_subject(Evaluate), b"{}")
                assert answer.decode() == repr(asker)
                for claimed in (asker, Asker("olga", "owner")):
                    with pytest.raises(NotPermitted):
                        await ada.ask(asked_subject(claimed, "evaluate"), b"{}", timeout_s=1)
                with pytest.raises(NotPermitted):
                    await ada.ask(command_subject(WithdrawManifest), b"{}", timeout_s=1)
            for _ in range(2):  # again, with nothing new to tell the broker
                assert await people.add(arguments(data_folder, role="viewer")) == 0
            async with open_bus(data=str(data_folder), seed_file=str(own)) as ada:
                with pytest.raises(NotPermitted):
                    await ada.ask(command_subject(Evaluate), b"{}", timeout_s=1)
                answer = await ada.ask(command_subject(ListEvaluations), b"{}")
                assert answer.decode() == repr(Asker("ada", "viewer"))
                seed_text = own.read_text()
                await check_refusals(data_folder, own)
                caplog.clear()
                other_key = str(data_folder / "keys" / "requester.nk")
                reason = "of ada no longer work, but .* it takes the operator's key"
                with pytest.raises(NotRecorded, match=reason):
                    await people.remove(arguments(data_folder, seed_file=other_key))
                assert "permissions violation" not in caplog.text.lower()
                assert await people.remove(arguments(data_folder)) == 0
                with pytest.raises(BusError):
                    await ada.ask(command_subject(ListEvaluations), b"{}", timeout_s=1)
        (data_folder / "kept.nk").write_text(seed_text)
        with pytest.raises(Denied, match="not permitted"):
            async with open_bus(
                data=str(data_folder), seed_file=str(data_folder / "kept.nk"), timeout_s=3
            ):
                pass
        assert list(people_folder(data_folder).iterdir()) == []
        capsys.readouterr()
        listed = argparse.Namespace(data=str(data_folder), by="", limit=2, output="json")
        assert await audit.audit(listed) == 0
        rows = json.loads(capsys.readouterr().out)
        assert [(row["did"], row["what"], row["details"]) for row in rows] == [
            ("person.added", "ada", "viewer"),
            ("person.removed", "ada", ""),
        ]
        async with connect(settings_of(data_folder, "provisioner"), "provisioner") as log:
            facts = [recorded.fact for recorded in await log.read("mlscope.v1.person.>")]
    assert facts == [
        PersonAdded(person="ada", role="requester", at_most=2, per_day=9),
        PersonAdded(person="ada", role="viewer"),
        PersonAdded(person="ada", role="viewer"),
        PersonRemoved(person="ada"),
    ]


async def unrecorded(*_: object) -> None:
    """Be a record that meets no broker."""
    raise NotAnswering("connect", "away")


@pytest.fixture
def is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the commands find a cluster whose broker reads everything, and whose log is away."""
    monkeypatch.setattr(people, "running_state", lambda _: argparse.Namespace())
    monkeypatch.setattr(people, "tell_broker", lambda *_: None)
    monkeypatch.setattr(people, "record_decision", unrecorded)
    monkeypatch.setattr(operator, "record_decision", unrecorded)


@pytest.mark.usefixtures("is_up")
async def test_nobody_is_added_or_changed_without_a_record(tmp_path: Path) -> None:
    with pytest.raises(NotAnswering, match="away"):
        await people.add(arguments(tmp_path))
    assert People(people_folder(tmp_path)).all() == ()
    ensure_person(people_folder(tmp_path), Asker("ada", "viewer"))
    with pytest.raises(NotAnswering, match="away"):
        await people.add(arguments(tmp_path, role="owner"))
    assert [each.asker.role for each in People(people_folder(tmp_path)).all()] == ["viewer"]


@pytest.mark.usefixtures("is_up")
async def test_a_removal_without_a_record_says_so_and_its_repetition_records_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_person(people_folder(tmp_path), Asker("ada", "viewer"))
    with pytest.raises(NotRecorded) as caught:
        await people.remove(arguments(tmp_path))
    assert str(caught.value).startswith(
        "the key and the token of ada no longer work, but the audit does not list it: connect: away"
    )
    assert "run the same command again" in str(caught.value)
    assert explain(caught.value) == Failure(exits.FAILED, str(caught.value))
    assert People(people_folder(tmp_path)).all() == ()
    facts: list[object] = []

    async def record(_: argparse.Namespace, fact: object) -> None:
        facts.append(fact)

    monkeypatch.setattr(operator, "record_decision", record)
    assert await people.remove(arguments(tmp_path)) == 0
    assert facts == [PersonRemoved(person="ada")]
    assert list(people_folder(tmp_path).iterdir()) == []


@pytest.mark.parametrize("name", ["", "a.b", "ada lovelace", "x" * 65, "*", ">"])
async def test_a_name_is_one_token_of_a_subject(tmp_path: Path, name: str) -> None:
    with pytest.raises(Misused, match="not a person's name"):
        await people.add(arguments(tmp_path, name))


async def test_a_file_that_holds_no_person_is_left_out(tmp_path: Path) -> None:
    folder = people_folder(tmp_path)
    assert People(folder).all() == ()
    folder.mkdir(parents=True)
    (folder / "ada.json").write_text('{"role": "king"}')
    assert People(folder).all() == ()
