"""Addresses of pages as people get them: they log the browser in."""

import argparse
import os
from pathlib import Path

from cli.cluster.display import with_login
from cli.cluster.errors import ForeignState, NotUp
from cli.cluster.state import read_state
from mlscope.logins import TICKET_S
from mlscope.settings import Settings

TOKEN_FILE = "gateway.token"  # noqa: S105
"""The name of the file with a local cluster's token, in the folder of its keys."""


def gateway_of(arguments: argparse.Namespace) -> tuple[str, Path | None]:
    """Return the URL of the gateway that the arguments mean, and the file with its token."""
    settings = Settings.read(os.environ)
    try:
        state = read_state(Path(arguments.data) if arguments.data else settings.data_folder)
    except ForeignState:
        raise
    except NotUp:
        return settings.gateway_url, settings.gateway_token_file
    token_file = settings.gateway_token_file or state.gateway_token_file
    return state.gateway_url, Path(token_file) if token_file else None


def browser_address(address: str, arguments: argparse.Namespace, life_s: float = TICKET_S) -> str:
    """Return the `address` of a page of the gateway that the arguments mean, for a browser.

    It logs the browser in once, within `life_s`, where this user may read the gateway's token. An
    address elsewhere stays as it is: whoever answers there must not get a ticket.
    """
    gateway_url, token_file = gateway_of(arguments)
    is_own = gateway_url and f"{address}/".startswith(f"{gateway_url.rstrip('/')}/")
    return with_login(address, token_file, life_s) if is_own else address
