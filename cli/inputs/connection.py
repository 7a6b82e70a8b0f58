"""The connection that the arguments name: a requester's client, or the curator's settings."""

import argparse
import os
from dataclasses import replace
from pathlib import Path

from cli.cluster.state import owner_of_state, running_state
from mlscope.bus.access.permissions import CURATOR, OPERATOR
from mlscope.client import AsyncClient
from mlscope.client.connection import find_settings
from mlscope.settings import Settings

_PROVISIONER = "provisioner"


def client_of(arguments: argparse.Namespace) -> AsyncClient:
    """Return the client for the connection that the arguments name."""
    return AsyncClient(url=arguments.url, seed_file=arguments.seed_file, data=arguments.data)


def curator_settings(arguments: argparse.Namespace) -> Settings:
    """Return the settings of a connection that may change artifacts.

    The key is the one that the arguments name, else the local cluster's, else the one of the
    environment variables. Raises NoCluster, InvalidSetting.
    """
    settings = find_settings(
        os.environ, url=arguments.url, seed_file=arguments.seed_file, data=arguments.data
    )
    cluster_key = settings.data_folder / "keys" / f"{CURATOR}.nk"
    if arguments.seed_file or not cluster_key.is_file():
        return settings
    return replace(settings, nats_seed_file=cluster_key)


def provisioner_settings(data: str) -> Settings:
    """Return the provisioner's settings of the cluster that runs from the folder `data`.

    Without `data` it is the one that the environment names, else the local one. Raises NotUp.
    """
    return _settings_with_key(data, _PROVISIONER)


def operator_settings(data: str) -> Settings:
    """Return the operator's settings of the cluster `data`, as `provisioner_settings` does."""
    return _settings_with_key(data, OPERATOR)


def collector_settings(data: str) -> Settings:
    """Return the collector's settings of the cluster `data`, as `provisioner_settings` does."""
    return _settings_with_key(data, "collector")


def _settings_with_key(data: str, name: str) -> Settings:
    settings = Settings.read(os.environ)
    if is_broker_named(data):
        return settings
    folder = folder_of(data)
    state = running_state(folder)
    password = state.database_password_file
    # Read, so that a database on another machine is asked for TLS.
    settings = Settings.read({**os.environ, "MLSCOPE_DATABASE_URL": state.database_url})
    return replace(
        settings,
        nats_url=state.nats_url,
        broker_uid=owner_of_state(folder),
        nats_seed_file=folder / "keys" / f"{name}.nk",
        tls_authority_file=Path(state.authority_file) if state.authority_file else None,
        database_password_file=Path(password) if password else settings.database_password_file,
    )


def is_broker_named(data: str) -> bool:
    """Tell whether the environment names a broker, as in containers, and no folder is given."""
    return not data and bool(os.environ.get("MLSCOPE_NATS_URL"))


def folder_of(data: str) -> Path:
    """Return the data folder `data`, or that of the settings."""
    return (Path(data) if data else Settings.read(os.environ).data_folder).resolve()
