"""The connection that the arguments name: a requester's client, or the curator's settings."""

import argparse
import os
from dataclasses import replace

from mlscope.bus.permissions import CURATOR
from mlscope.client import AsyncClient
from mlscope.client.connection import find_settings
from mlscope.settings import Settings


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
