"""Admission of a cluster in containers: its process, and the script of the broker's container."""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from cli import exits
from cli.cluster.keys.members import Members
from cli.cluster.keys.published import PublishedBroker, keep_written
from cli.cluster.ports import free_port
from cli.cluster.servers.nats_server import find_program
from cli.cluster.state import read_state
from cli.commands import agents, join
from cli.commands.health import health
from cli.commands.keys import keys
from cli.inputs.invitation import invitation_in
from cli.inputs.operator import tell_broker
from mlscope.client.connection import find_settings
from mlscope.provision import provision
from mlscope.settings import Settings

ROOT = Path(__file__).parents[4]


def prepared(out: Path) -> str:
    """Make the secrets of a broker on this machine, and return its address."""
    lists: dict[str, list[str]] = {"broker": [], "person": [], "agent": []}
    keys(argparse.Namespace(out=out, owner=None, address=["127.0.0.1"], **lists))
    broker = PublishedBroker.read(out / "admission")
    layout = replace(
        broker.layout,
        store=str(out / "data"),
        host="127.0.0.1",
        port=free_port(),
        monitor_port=free_port(),
        certificate_file=str(out / "nats" / "server.pem"),
        key_file=str(out / "nats" / "server.key"),
    )
    file = out / "admission" / "broker.json"
    file.chmod(0o600)
    file.write_text(replace(broker, layout=layout).text(), "ascii")
    return f"tls://127.0.0.1:{layout.port}"


@contextmanager
def running(*argv: str, **environ: str) -> Iterator[None]:
    with subprocess.Popen(argv, env=os.environ | environ, start_new_session=True) as process:
        try:
            yield
        finally:
            os.killpg(process.pid, 15)


@contextmanager
def published(out: Path) -> Iterator[dict[str, str]]:
    """Run broker and admission as the containers do; yield the variables of admission."""
    url, data = prepared(out), out / "admission"
    services = yaml.safe_load((ROOT / "compose.listen.yaml").read_text("utf-8"))["services"]
    (script,) = services["nats"]["command"]
    script = script.replace("sleep 0.5", "sleep 0.1").replace("$$", "$")
    script = script.replace("kill -HUP 1", "kill -HUP $$")
    script = script.replace("/tmp/", f"{out}/").replace(" /broker/", f" {out}/broker/")
    environ = {
        "MLSCOPE_DATA": str(data),
        "MLSCOPE_NATS_URL": url,
        "MLSCOPE_NATS_SEED_FILE": str(out / "requester" / "seed.nk"),
        "MLSCOPE_TLS_AUTHORITY_FILE": str(out / "authority" / "authority.pem"),
        "MLSCOPE_READY_FILE": str(out / "ready"),
    }
    path = f"{find_program().parent}{os.pathsep}{os.environ['PATH']}"
    admission = (sys.executable, "-m", "cli.cluster.keys.published", str(out / "broker"), url)
    with running("sh", "-c", script, PATH=path), running(*admission, **environ):
        deadline = time.monotonic() + 20
        while not (out / "ready").exists():
            assert time.monotonic() < deadline, "admission is not ready"
            time.sleep(0.05)
        yield environ


def answers(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Tell whether admission answers to the health check of its container."""
    operator_file = f"{environ['MLSCOPE_DATA']}/keys/operator.nk"
    with monkeypatch.context() as inside:
        for name, text in {**environ, "MLSCOPE_NATS_SEED_FILE": operator_file}.items():
            inside.setenv(name, text)
        question = {"service": "admission", "within": 5.0, "end": False, "liveness": False}
        return health(argparse.Namespace(**question)) == exits.OK


async def test_a_machine_joins_and_is_shut_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, member = tmp_path / "admission", tmp_path / "machine" / "membership"
    with published(tmp_path) as environ:
        assert answers(environ, monkeypatch)
        seed_file = tmp_path / "provisioner" / "seed.nk"
        own = find_settings(environ)
        await provision(replace(own, nats_seed_file=seed_file))
        words = {"name": "gpu1", "data": str(data), "url": "", "seed_file": ""}
        assert await agents.invite(argparse.Namespace(**words, hours=1.0)) == 0
        invitation = invitation_in(capsys.readouterr().out.split()[-1])
        await join.become_member(invitation, member)
        settings = Settings.read(join.member_environ(member))
        assert join._is_admitted(settings, "gpu1")
        assert Members(data).remove("gpu1")
        tell_broker(Members(data), read_state(data))
        assert not join._is_admitted(settings, "gpu1")


async def test_the_broker_is_asked_twice_for_a_change_and_a_broken_file_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cli.cluster.keys.published._LOOK_S", 0.01)
    prepared(tmp_path)
    data, file = tmp_path / "admission", tmp_path / "admission" / "broker.json"
    text, asked = file.read_text("ascii"), tmp_path / "broker" / "asked"
    file.write_text("{", "ascii")
    writing = asyncio.create_task(keep_written(data, tmp_path / "broker", asyncio.Event()))
    await asyncio.sleep(0)
    assert "members not written" in caplog.text
    assert text_of(asked) == ""
    file.write_text(text, "ascii")
    texts = {""}
    async with asyncio.timeout(20):
        while len(texts) <= 2:
            await asyncio.sleep(0)
            texts.add(text_of(asked))
    await asyncio.sleep(0.05)
    assert text_of(asked) in texts
    writing.cancel()


def text_of(file: Path) -> str:
    return file.read_text("ascii") if file.exists() else ""
