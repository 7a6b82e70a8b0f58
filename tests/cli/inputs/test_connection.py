"""Which broker and which key a command uses: its arguments, the cluster's, the environment's."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from cli.cluster.errors import NotUp
from cli.cluster.processes import identify
from cli.cluster.state import write_state
from cli.inputs.connection import (
    curator_settings,
    folder_of,
    is_broker_named,
    operator_settings,
    provisioner_settings,
)
from mlscope.client.errors import NoCluster
from tests.cli.cluster.test_state import a_state
from tests.cli.in_process import arguments

URL = "nats://127.0.0.1:1"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lend the data folder of a cluster that runs, as far as its state says."""
    for name in ("NATS_URL", "NATS_SEED_FILE", "DATABASE_URL", "DATABASE_PASSWORD_FILE"):
        monkeypatch.delenv(f"MLSCOPE_{name}", raising=False)
    folder = tmp_path / "data"
    (folder / "keys").mkdir(parents=True)
    monkeypatch.setenv("MLSCOPE_DATA", str(folder))
    running = replace(
        a_state("/d/password"), supervisor=identify(os.getpid()), authority_file="/d/ca.pem"
    )
    write_state(folder, running)
    return folder


@pytest.mark.parametrize(
    ("settings_for", "name"),
    [(provisioner_settings, "provisioner"), (operator_settings, "operator")],
)
def test_a_local_cluster_lends_its_keys_and_its_database(
    folder: Path, settings_for: object, name: str
) -> None:
    for data in ("", str(folder)):
        settings = settings_for(data)  # type: ignore[operator]
        assert settings.nats_url == URL
        assert settings.nats_seed_file == folder / "keys" / f"{name}.nk"
        assert settings.tls_authority_file == Path("/d/ca.pem")
        assert settings.database_url.endswith("/mlscope")
        assert settings.database_password_file == Path("/d/password")


def test_a_cluster_without_secrets_leaves_those_of_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_state(folder, replace(a_state(), supervisor=identify(os.getpid())))
    monkeypatch.setenv("MLSCOPE_DATABASE_PASSWORD_FILE", "/e/password")
    settings = provisioner_settings("")
    assert settings.database_password_file == Path("/e/password")
    assert settings.tls_authority_file is None


def test_a_cluster_s_database_on_another_machine_is_asked_for_tls(folder: Path) -> None:
    url = "postgresql://mlscope@db.example/mlscope"
    write_state(folder, replace(a_state(), supervisor=identify(os.getpid()), database_url=url))
    assert provisioner_settings("").database_conninfo() == f"{url}?sslmode=require"


def test_a_broker_that_the_environment_names_comes_before_a_cluster(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLSCOPE_NATS_URL", "nats://broker:4222")
    assert is_broker_named("")
    assert provisioner_settings("").nats_url == "nats://broker:4222"
    assert not is_broker_named(str(folder))
    assert provisioner_settings(str(folder)).nats_url == URL


def test_a_cluster_that_has_ended_lends_no_key(folder: Path) -> None:
    write_state(folder, a_state())
    with pytest.raises(NotUp, match="mlscope up") as raised:
        provisioner_settings("")
    assert raised.value.folder == folder


def test_a_relative_folder_is_the_same_from_everywhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    assert folder_of("data") == folder_of("") == folder


def test_artifacts_are_changed_with_the_cluster_s_own_key_unless_one_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = arguments("artifacts", "ls")
    assert curator_settings(listing).nats_seed_file == Path("/d/keys/requester.nk")
    (folder / "keys" / "curator.nk").write_text("S")
    assert curator_settings(listing).nats_seed_file == folder / "keys" / "curator.nk"
    named = arguments("artifacts", "ls", "--seed-file", "/e/mine.nk")
    assert curator_settings(named).nats_seed_file == Path("/e/mine.nk")
    monkeypatch.setenv("MLSCOPE_DATA", str(folder / "none"))
    with pytest.raises(NoCluster, match="mlscope up --detach"):
        curator_settings(listing)
