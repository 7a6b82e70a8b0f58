"""Hosts of a fleet on one machine: network namespaces, each with a wire to the cluster's."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.places import lent_folder

ADDRESS = "10.77.0.1"
"""The cluster's address, which every host has a route to."""

CLOCK = Path(__file__).parent / "clock"
IMPATIENT = {
    "MLSCOPE_LEASE_TTL_S": "3",
    "MLSCOPE_HEARTBEAT_S": "0.5",
    "MLSCOPE_GATEWAY_PORT": "0",
    "MLSCOPE_DEFAULT_BUDGET_S": "0",
    "MLSCOPE_AGENT_PREDICTORS": "onnxruntime",
}


def why_not() -> str:
    """Return why there can be no hosts here; '' when there can."""
    if shutil.which("ip") is None:
        return "no `ip` (iproute2) here"
    made = _ip("netns", "add", f"try{os.getpid()}", check=False)
    if made.returncode == 0:
        _ip("netns", "del", f"try{os.getpid()}")
    return made.stderr.strip()


def _ip(*words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True)


@dataclass(frozen=True)
class Host:
    """One host: its network namespace, its data folder and its number on the wire."""

    name: str
    number: int
    folder: Path
    environ: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def namespace(self) -> str:
        """The name of its network namespace, of this process's own."""
        return f"m{os.getpid()}-{self.number}"

    @property
    def wire(self) -> str:
        """The name of the cluster's end of its wire."""
        return f"to{self.number}"

    def argv(self, *words: str) -> list[str]:
        """Return the command line of `mlscope` on this host."""
        own = ["ip", "netns", "exec", self.namespace, sys.executable, "-m", "cli.main"]
        return [*own, *words]

    def environment(self) -> dict[str, str]:
        """Return the environment of a command on this host."""
        return {**os.environ, **IMPATIENT, "MLSCOPE_DATA": str(self.folder), **self.environ}

    def mlscope(self, *words: str, code: int = 0) -> str:
        """Run a command on this host and return what it prints."""
        done = subprocess.run(
            self.argv(*words),
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"{self.name}: {words}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def asked(self, *words: str) -> Any:
        """Return what a command prints as JSON."""
        return json.loads(self.mlscope(*words, "-o", "json"))

    @contextmanager
    def joined(self, invitation: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Be an agent of the cluster until the block ends."""
        with (self.folder / "agent.log").open("wb") as log:
            agent = subprocess.Popen(
                self.argv("join", invitation), env=self.environment(), stdout=log, stderr=log
            )
        try:
            yield agent
        finally:
            agent.kill()
            agent.wait(30)

    def log(self) -> str:
        """Return what its agent logged."""
        return (self.folder / "agent.log").read_text("utf-8", "replace")


def cut(hub: Host, host: Host, *, is_cut: bool) -> None:
    """Cut the wire between the cluster and a host, or mend it."""
    words = ("link", "set", host.wire, "down" if is_cut else "up")
    _ip("-n", hub.namespace, *words)
    if not is_cut:
        # A link that goes down loses its routes.
        _ip("-n", hub.namespace, "route", "replace", f"10.77.{host.number}.0/24", "dev", host.wire)
        _ip("-n", host.namespace, "route", "replace", "default", "via", f"10.77.{host.number}.1")


@contextmanager
def network(*environs: Mapping[str, str]) -> Iterator[tuple[Host, list[Host]]]:
    """Lend the cluster's host and one more for each of `environs`, wired to it."""
    with ExitStack() as stack:
        folders = [stack.enter_context(lent_folder("fleet")) for _ in range(len(environs) + 1)]
        hub = Host("hub", 0, folders[0])
        hosts = [
            Host(f"host{number}", number, folder, environ)
            for number, (folder, environ) in enumerate(
                zip(folders[1:], environs, strict=True), start=1
            )
        ]
        for host in (hub, *hosts):
            _ip("netns", "add", host.namespace)
            stack.callback(_ip, "netns", "del", host.namespace)
            _ip("-n", host.namespace, "link", "set", "lo", "up")
        _ip("-n", hub.namespace, "address", "add", f"{ADDRESS}/32", "dev", "lo")
        for host in hosts:
            _ip(
                *("-n", hub.namespace, "link", "add", host.wire, "type", "veth"),
                *("peer", "name", "wire", "netns", host.namespace),
            )
            for side, name, end in ((hub, host.wire, 1), (host, "wire", 2)):
                address = f"10.77.{host.number}.{end}/24"
                _ip("-n", side.namespace, "address", "add", address, "dev", name)
                _ip("-n", side.namespace, "link", "set", name, "up")
            gateway = f"10.77.{host.number}.1"
            _ip("-n", host.namespace, "route", "add", "default", "via", gateway)
        yield hub, hosts
