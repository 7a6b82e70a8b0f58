"""The health checks of brokers in containers and on Kubernetes, asked of a real nats-server.

A shell runs them here, with the ports and folders of the test's own.
"""

import os
import shutil
import subprocess
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import yaml

from cli.cluster.ports import LOOPBACK, free_port
from cli.cluster.servers.nats_server import find_program, greets
from cli.commands.keys import keys

ROOT = Path(__file__).parents[2]
HOSTS = ("nats-0.nats", "nats-1.nats", "nats-2.nats")
MOUNTED = "/etc/nats-keys"


def of_compose(file: str, service: str) -> str:
    """Return the script of a service's health check."""
    services: dict[str, Any] = yaml.safe_load((ROOT / file).read_text("utf-8"))["services"]
    kind, script = services[service]["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    return str(script).replace("$$", "$")


def of_kubernetes(probe: str) -> str:
    """Return the script of a probe of the brokers' pods."""
    documents = yaml.safe_load_all((ROOT / "kubernetes" / "brokers.yaml").read_text("utf-8"))
    (brokers,) = (document for document in documents if document["kind"] == "StatefulSet")
    command = brokers["spec"]["template"]["spec"]["containers"][0][probe]["exec"]["command"]
    assert command[:2] == ["sh", "-c"]
    return str(command[2])


CHECKS = {
    "compose.yaml": partial(of_compose, "compose.yaml", "nats"),
    "compose.brokers.yaml": partial(of_compose, "compose.brokers.yaml", "nats-1"),
    "startupProbe": partial(of_kubernetes, "startupProbe"),
    "livenessProbe": partial(of_kubernetes, "livenessProbe"),
}


@dataclass(frozen=True)
class Running:
    """A nats-server with the configuration that `mlscope keys` made."""

    folder: Path
    """What its container would have as `MOUNTED`."""
    monitor_port: int

    @property
    def path_file(self) -> Path:
        """The file with the monitor's secret path, if it has one."""
        return self.folder / "monitor.path"

    def status(self, path: str) -> int:
        """Return how the monitor answers a request for `path`."""
        try:
            with urlopen(f"http://{LOOPBACK}:{self.monitor_port}/{path}", timeout=5.0) as answer:
                return int(answer.status)
        except HTTPError as refused:
            return refused.code

    def is_healthy(self, check: str) -> bool:
        """Run a health check."""
        script = CHECKS[check]().replace(MOUNTED, str(self.folder))
        script = script.replace("8222", str(self.monitor_port))
        script = script.replace("cd /tmp", f"cd {self.folder}").replace("/data", str(self.folder))
        environ = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        return subprocess.run(["sh", "-c", script], env=environ, check=False).returncode == 0

    def asked(self) -> set[str]:
        """Return the arguments of each `timeout` that a health check has run."""
        return set((self.folder / "asked").read_text().splitlines())


@contextmanager
def running(out: Path, hosts: Sequence[str]) -> Iterator[Running]:
    """Start one broker of `hosts`, or a lone one, with keys in `out`."""
    keys(Namespace(out=out, owner=None, agent=[], broker=hosts, person=[], address=[]))
    folder = out / "nats"
    port, monitor_port, route_port = (free_port() for _ in range(3))
    text = (folder / ("nats-1.conf" if hosts else "nats.conf")).read_text("utf-8")
    for theirs, ours in (
        ("0.0.0.0:4222", f"{LOOPBACK}:{port}"),
        ("0.0.0.0:6222", f"{LOOPBACK}:{route_port}"),
        (f"{LOOPBACK}:8222", f"{LOOPBACK}:{monitor_port}"),
        (MOUNTED, str(folder)),
        ('"/data"', f'"{out / "data"}"'),
    ):
        text = text.replace(theirs, ours)
    conf = out / "here.conf"
    conf.write_text(text)
    shutil.copy(Path(__file__).with_name("nc"), folder)
    noting = folder / "timeout"
    noting.write_text(f'#!/bin/sh\necho "$*" >> {folder}/asked\nshift\nexec "$@"\n')
    noting.chmod(0o700)
    server = subprocess.Popen([find_program(), "-c", conf], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while not greets(LOOPBACK, port):
            assert server.poll() is None, "it ended"
            assert time.monotonic() < deadline, "it does not greet"
            time.sleep(0.05)
        yield Running(folder, monitor_port)
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Run one broker of three."""
    with running(tmp_path_factory.mktemp("three"), HOSTS) as broker:
        yield broker


def test_the_monitor_of_one_of_three_answers_under_its_secret_path_alone(broker: Running) -> None:
    path = broker.path_file.read_text().strip()
    questions = ("healthz?js-enabled-only=true", "connz", "jsz")
    assert {broker.status(question) for question in ("", *questions)} == {404}
    assert {broker.status(f"{path}/{question}") for question in questions} == {200}


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_asks_under_the_path_and_shows_it_to_nobody(broker: Running, check: str) -> None:
    (broker.folder / "asked").unlink(missing_ok=True)
    assert broker.is_healthy(check)
    (arguments,) = broker.asked()
    assert arguments.endswith(f"nc {LOOPBACK} {broker.monitor_port}")


@pytest.mark.parametrize("check", CHECKS)
def test_an_answer_of_404_is_not_healthy(broker: Running, check: str) -> None:
    path = broker.path_file.read_text()
    broker.path_file.write_text("another\n")
    try:
        assert not broker.is_healthy(check)
    finally:
        broker.path_file.write_text(path)


def test_a_lone_broker_without_a_path_is_healthy(tmp_path: Path) -> None:
    with running(tmp_path, ()) as broker:
        assert not broker.path_file.exists()
        assert broker.is_healthy("compose.yaml")


@pytest.mark.parametrize("check", CHECKS)
def test_a_broker_that_is_away_is_not_healthy(broker: Running, check: str) -> None:
    assert not Running(broker.folder, free_port()).is_healthy(check)
