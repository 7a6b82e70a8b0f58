"""`mlscope backup` of a whole cluster that runs, and `mlscope restore` of it into a new folder."""

import json
from pathlib import Path

import pytest

from cli import exits
from cli.cluster.servers.postgres_home import find_home
from tests.cli.conftest import CommandLine


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_what_was_measured_is_there_again(data_folder: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "cluster.backup")
    first = CommandLine(MLSCOPE_DATA=str(data_folder / "a"), MLSCOPE_GATEWAY_PORT="0")
    second = CommandLine(MLSCOPE_DATA=str(data_folder / "b"), MLSCOPE_GATEWAY_PORT="0")
    try:
        assert (await first("up", "--detach")).code == exits.OK
        ran = await first("run", "tiny-cnn", "--scenario", "online", "-o", "json")
        assert ran.code == exits.OK, ran.err
        (listed,) = (await first("ls", "evaluations", "-o", "json")).json()
        evaluation = listed["evaluation"]
        before = await first("analyze", evaluation, "latency", "-o", "json")
        saved = await first("backup", file)
        assert saved.code == exits.OK, saved.err
    finally:
        await first("down")
    restored = await second("restore", file)
    assert restored.code == exits.OK, restored.err
    assert (await second("restore", file)).code == exits.FAILED
    try:
        assert (await second("up", "--detach")).code == exits.OK
        after = await second("analyze", evaluation, "latency", "-o", "json")
        assert json.loads(after.out) == json.loads(before.out) != []
        assert (await second("restore", file, "--replace")).code != exits.OK, "it runs"
    finally:
        await second("down")
    key = (data_folder / "b" / "keys" / "requester.nk").read_text()
    replaced = await second("restore", file, "--replace")
    assert replaced.code == exits.OK, replaced.err
    aside = [Path(line.split(": ")[1]) for line in replaced.out.splitlines() if "aside" in line]
    assert len(aside) == 2
    assert all(place.is_dir() for place in aside)
    assert (data_folder / "b" / "keys" / "requester.nk").read_text() == key
    try:
        assert (await second("up", "--detach")).code == exits.OK
        again = await second("analyze", evaluation, "latency", "-o", "json")
        assert json.loads(again.out) == json.loads(before.out)
    finally:
        await second("down")


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_of_a_lost_database_the_log_has_what_no_backup_has(
    data_folder: Path, tmp_path: Path
) -> None:
    """As docs/operations.md says: a new database, then `rebuild` with the newest backup."""
    file = str(tmp_path / "cluster.backup")
    mlscope = CommandLine(MLSCOPE_DATA=str(data_folder), MLSCOPE_GATEWAY_PORT="0")
    try:
        assert (await mlscope("up", "--detach")).code == exits.OK
        assert (await mlscope("run", "tiny-cnn", "--scenario", "online")).code == exits.OK
        saved = await mlscope("backup", file)
        assert saved.code == exits.OK, saved.err
        assert (await mlscope("run", "identity", "--scenario", "online")).code == exits.OK
        listed = (await mlscope("ls", "evaluations", "-o", "json")).json()
        names = [evaluation["evaluation"] for evaluation in listed]
        before = [await mlscope("analyze", name, "latency", "-o", "json") for name in names]
        assert (await mlscope("down")).code == exits.OK
        database = find_home(data_folder).data
        database.rename(database.with_name("data.lost"))
        assert (await mlscope("up", "--detach")).code == exits.OK
        rebuilt = await mlscope("rebuild", file)
        assert rebuilt.code == exits.OK, rebuilt.err
        assert "tables of 2 evaluations, 2 with the log's digest" in rebuilt.out
        after = [await mlscope("analyze", name, "latency", "-o", "json") for name in names]
        assert [answer.json() for answer in after] == [answer.json() for answer in before]
        assert len(before) == 2
        assert all(answer.json() for answer in before)
    finally:
        await mlscope("down")


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_run_in_progress_is_saved_and_repeated(data_folder: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "cluster.backup")
    first = CommandLine(MLSCOPE_DATA=str(data_folder / "a"), MLSCOPE_GATEWAY_PORT="0")
    second = CommandLine(MLSCOPE_DATA=str(data_folder / "b"), MLSCOPE_GATEWAY_PORT="0")
    try:
        assert (await first("up", "--detach")).code == exits.OK
        load = ("--scenario", "fixed_rate:queries=900,rate_hz=60", "--detach")
        evaluation = (await first("run", "identity", *load)).out.split()[-1]
        state = ""
        while state != "started":
            (run,) = (await first("show", evaluation, "-o", "json")).json()["runs"] or [{}]
            state = run.get("state", "")
        saved = await first("backup", file)
        assert saved.code == exits.OK, saved.err
        (run,) = (await first("show", evaluation, "-o", "json")).json()["runs"]
        assert run["state"] == "started", "it was saved in mid-run"
    finally:
        await first("down")
    restored = await second("restore", file)
    assert restored.code == exits.OK, restored.err
    try:
        assert (await second("up", "--detach")).code == exits.OK
        assert (await second("watch", evaluation)).code == exits.OK
        shown = (await second("show", evaluation, "-o", "json")).json()
        assert shown["state"] == "analyzed"
        assert [(run["attempt"], run["answered"]) for run in shown["runs"]] == [(2, 900)]
    finally:
        await second("down")


async def test_a_file_that_is_no_backup_moves_no_data(data_folder: Path, tmp_path: Path) -> None:
    (data_folder / "nats").mkdir(parents=True)
    broken = tmp_path / "cut.backup"
    broken.write_bytes(b"PK not whole")
    command = CommandLine(MLSCOPE_DATA=str(data_folder))
    refused = await command("restore", str(broken), "--replace")
    assert (refused.code, "not a complete backup" in refused.err) == (exits.FAILED, True)
    assert (data_folder / "nats").is_dir()
