"""`mlscope keys`: secrets for containers."""

import os
import shutil
import subprocess
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography import x509

from cli.cluster.keys.published import PublishedBroker
from cli.cluster.servers.nats_server import find_program
from cli.commands.keys import keys
from cli.failures import Misused
from mlscope.bus.access.permissions import PERMISSIONS
from mlscope.people import People
from schemas.people import Asker

HOSTS = ("nats-0.nats", "nats-1.nats", "nats-2.nats")


def arguments(out: Path, agents: Sequence[str] = (), **lists: Sequence[str]) -> Namespace:
    lists = {"broker": (), "person": (), "address": (), **lists}
    return Namespace(out=out, owner=os.getuid(), agent=list(agents), **lists)


def make(out: Path, *agents: str) -> dict[str, str]:
    assert keys(arguments(out, agents)) == 0
    files = [path for path in out.rglob("*") if path.is_file()]
    secrets = [path for path in files if path.suffix not in (".conf", ".pub")]
    return {str(path.relative_to(out)): path.read_text() for path in secrets}


def test_every_name_has_its_own_seed(tmp_path: Path) -> None:
    made = make(tmp_path)
    seeds = {made[f"{name}/seed.nk"] for name in PERMISSIONS}
    assert len(seeds) == len(PERMISSIONS)
    assert {"gateway/token", "database/password"} <= set(made)


def test_secrets_outlive_a_restart(tmp_path: Path) -> None:
    assert make(tmp_path) == make(tmp_path)


@pytest.mark.parametrize("secret", ["agent/seed.nk", "database/password", "gateway/token"])
def test_only_the_owner_reads_a_secret(tmp_path: Path, secret: str) -> None:
    make(tmp_path)
    assert (tmp_path / secret).stat().st_mode & 0o077 == 0


def test_the_broker_learns_public_keys_only(tmp_path: Path) -> None:
    made = make(tmp_path)
    conf = (tmp_path / "nats" / "nats.conf").read_text()
    assert conf.count("nkey:") == len(PERMISSIONS)
    assert not any(secret.strip() in conf for secret in made.values())


def test_only_its_owner_reads_the_broker_s_configuration(tmp_path: Path) -> None:
    conf = tmp_path / "nats" / "nats.conf"
    conf.parent.mkdir()
    # As an earlier release wrote it.
    conf.write_text("")
    conf.chmod(0o644)
    for address in ([], ["192.0.2.7"]):
        assert keys(arguments(tmp_path, address=address)) == 0
        assert conf.stat().st_mode & 0o077 == 0
    assert keys(arguments(tmp_path / "three", broker=HOSTS)) == 0
    confs = list((tmp_path / "three" / "nats").glob("*.conf"))
    assert [path.stat().st_mode & 0o077 for path in confs] == [0, 0, 0]


def test_an_agent_may_have_a_key_of_its_own(tmp_path: Path) -> None:
    made = make(tmp_path, "gpu-1")
    conf = (tmp_path / "nats" / "nats.conf").read_text()
    assert made["agent-gpu-1/seed.nk"] not in {made[f"{name}/seed.nk"] for name in PERMISSIONS}
    assert conf.count("nkey:") == len(PERMISSIONS) + 1
    assert '"mlscope.v1.request.agent.gpu-1.*"' in conf


def test_the_broker_knows_it_until_its_public_key_is_taken_away(tmp_path: Path) -> None:
    make(tmp_path, "gpu-1")
    shutil.rmtree(tmp_path / "agent-gpu-1")
    conf = tmp_path / "nats" / "nats.conf"
    before = conf.read_text()
    make(tmp_path, "gpu-1")
    assert conf.read_text() == before
    assert not (tmp_path / "agent-gpu-1").exists()
    (tmp_path / "nats" / "agents" / "gpu-1.pub").unlink()
    make(tmp_path)
    assert "gpu-1" not in conf.read_text()


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a/../b", "*", ">", "scheduler", "x" * 65])
def test_what_no_agent_may_be_called_gets_no_key(tmp_path: Path, name: str) -> None:
    with pytest.raises(Misused):
        make(tmp_path, name)
    assert not (tmp_path / "nats" / "nats.conf").exists()


def test_a_public_key_that_is_none_is_refused(tmp_path: Path) -> None:
    make(tmp_path, "gpu-1")
    (tmp_path / "nats" / "agents" / "gpu-1.pub").write_text('U", permissions: {}')
    with pytest.raises(Misused, match="public nkey"):
        make(tmp_path)


def test_three_brokers_have_a_configuration_each_that_the_server_takes(tmp_path: Path) -> None:
    assert keys(arguments(tmp_path, broker=HOSTS)) == 0
    for name in ("nats-0", "nats-1", "nats-2"):
        conf = tmp_path / "nats" / f"{name}.conf"
        text = conf.read_text()
        assert f'server_name: "{name}"' in text
        routes = [f"nats-route://{host}:6222" in text for host in HOSTS]
        assert routes == [not host.startswith(name) for host in HOSTS]
        here = tmp_path / "here.conf"
        here.write_text(text.replace("/etc/nats-keys", str(tmp_path / "nats")))
        subprocess.run([find_program(), "-t", "-c", here], check=True, capture_output=True)


def test_three_brokers_share_one_secret_path_of_their_monitors(tmp_path: Path) -> None:
    for _ in range(2):
        assert keys(arguments(tmp_path, broker=HOSTS)) == 0
        path_file = tmp_path / "nats" / "monitor.path"
        path = path_file.read_text().strip()
        assert path_file.stat().st_mode & 0o077 == 0
        for conf in (tmp_path / "nats").glob("*.conf"):
            text = conf.read_text()
            assert f"http_base_path: /{path}\n" in text
            assert 'http: "127.0.0.1:8222"\n' in text
    assert not (tmp_path / "admission").exists(), "it is for a lone broker"


def test_running_brokers_without_the_path_are_to_be_restarted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They refuse to reload a configuration with another path, and so the keys in it."""
    assert keys(arguments(tmp_path, broker=HOSTS)) == 0
    assert capsys.readouterr().err == "", "none can run yet"
    # As an earlier release wrote them.
    path_file = tmp_path / "nats" / "monitor.path"
    path = path_file.read_text().strip()
    path_file.unlink()
    confs = sorted((tmp_path / "nats").glob("*.conf"))
    for conf in confs:
        conf.write_text(conf.read_text().replace(f"http_base_path: /{path}\n", ""))
    assert keys(arguments(tmp_path, broker=HOSTS)) == 0
    assert "restart each broker" in capsys.readouterr().err
    path = path_file.read_text().strip()
    assert [f"http_base_path: /{path}\n" in conf.read_text() for conf in confs] == [True] * 3
    assert keys(arguments(tmp_path, broker=HOSTS, person=["alice:viewer"])) == 0
    assert capsys.readouterr().err == "", "a new person is no reason"


def test_their_certificate_is_for_each_host_and_its_authority_for_everybody(tmp_path: Path) -> None:
    for address in (["nats.example"], []):
        assert keys(arguments(tmp_path, broker=HOSTS, address=address)) == 0
    certificate = x509.load_pem_x509_certificate((tmp_path / "nats" / "server.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {*HOSTS, "nats.example"} <= set(names.get_values_for_type(x509.DNSName))
    authority = tmp_path / "authority" / "authority.pem"
    assert authority.stat().st_mode & 0o444 == 0o444
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.read_bytes()))
    assert (tmp_path / "tls" / "authority.key").stat().st_mode & 0o077 == 0


def test_a_person_is_known_to_brokers_and_gateway_until_the_file_is_gone(tmp_path: Path) -> None:
    people = tmp_path / "people"
    assert keys(arguments(tmp_path, broker=HOSTS, person=["alice:viewer", "bob:owner"])) == 0
    seed = (people / "alice.nk").read_text()
    assert keys(arguments(tmp_path, broker=HOSTS, person=["alice:requester:3:20"])) == 0
    alice, bob = People(people).all()
    assert (alice.asker, bob.asker.role) == (Asker("alice", "requester", 3, 20), "owner")
    assert (people / "alice.nk").read_text() == seed
    assert (people / "alice.token").read_text().strip() == alice.token
    confs = [(tmp_path / "nats" / f"nats-{number}.conf").read_text() for number in range(3)]
    assert all(person.public_key in conf for person in (alice, bob) for conf in confs)
    (people / "bob.json").unlink()
    assert keys(arguments(tmp_path, broker=HOSTS)) == 0
    assert bob.public_key not in (tmp_path / "nats" / "nats-0.conf").read_text()


@pytest.mark.parametrize("text", ["", "a b:viewer", "alice", "alice:boss", "alice:owner:many"])
def test_a_person_without_name_role_or_numbers_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(Misused, match=r"not a person's name|write NAME:ROLE"):
        keys(arguments(tmp_path, person=[text]))
    assert not (tmp_path / "nats" / "nats.conf").exists()


def test_one_broker_with_an_address_speaks_tls_from_then_on(tmp_path: Path) -> None:
    for address in (["192.0.2.7"], []):
        assert keys(arguments(tmp_path, address=address)) == 0
    conf = (tmp_path / "nats" / "nats.conf").read_text()
    assert '"cert_file": "/etc/nats-keys/server.pem"' in conf
    path = (tmp_path / "nats" / "monitor.path").read_text().strip()
    assert f"http_base_path: /{path}\n" in conf
    pages, broker = (tmp_path / name / "server.pem" for name in ("gateway", "nats"))
    assert pages.read_bytes() == broker.read_bytes()
    assert (tmp_path / "gateway" / "server.key").stat().st_mode & 0o077 == 0


def test_admission_gets_the_operator_s_key_and_public_ones(tmp_path: Path) -> None:
    made = make(tmp_path)
    assert not (tmp_path / "admission").exists()
    assert keys(arguments(tmp_path, address=["192.0.2.7"])) == 0
    admission = tmp_path / "admission"
    files = {path.name for path in admission.rglob("*") if path.is_file()}
    assert files == {"broker.json", "operator.nk"}
    assert (admission / "keys" / "operator.nk").read_text() == made["operator/seed.nk"]
    assert PublishedBroker.read(admission).keys.keys() == set(PERMISSIONS)
    assert not any(
        seed.strip() in (admission / "broker.json").read_text() for seed in made.values()
    )


@pytest.mark.parametrize(
    "hosts",
    [("nats",), ("nats-0", "nats-1"), ("nats.a", "nats.b", "nats.c"), ("nats-0", "nats-1", "")],
)
def test_hosts_that_make_no_cluster_of_brokers_are_refused(
    tmp_path: Path, hosts: tuple[str, ...]
) -> None:
    with pytest.raises(Misused, match="three or more"):
        keys(arguments(tmp_path, broker=hosts))
    assert not list((tmp_path / "nats").glob("*.conf"))
