"""Addresses that log a browser in, made of the token's file."""

import time
from pathlib import Path

from mlscope.logins import TICKET_S, login_address


def with_login(address: str, token_file: Path | None, life_s: float = TICKET_S) -> str:
    """Return the `address` of a gateway's page with a ticket made of the token in `token_file`.

    It holds for `life_s`. Who may not read the file gets the address as it is.
    """
    try:
        token = token_file.read_text("utf-8").strip() if token_file is not None else ""
    except OSError:
        token = ""
    return login_address(address, token, time.time(), life_s) if token else address
