"""`mlscope open`: opens an evaluation's page, or the first one, in a browser that it logs in."""

import argparse
import asyncio
import html
import os
import sys
import tempfile
import webbrowser
from pathlib import Path
from urllib.parse import urlencode

from cli import exits
from cli.failures import Misused
from cli.inputs.connection import client_of
from cli.inputs.pages import browser_address, gateway_of

_OPENED_S = 60.0
_LEADING_ON = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>mlscope</title>
<p><a href="{address}">Open mlscope</a></p>
"""


async def open_page(arguments: argparse.Namespace) -> int:
    """Print the address of a page, and open it where there is a browser."""
    if arguments.evaluation:
        async with client_of(arguments) as client:
            status = await client.status(arguments.evaluation)
        page = page_address(status.address, is_trace=arguments.trace, run=arguments.of_run)
    else:
        page = gateway_of(arguments)[0]
    if not page:
        pages = f"the page of {arguments.evaluation}" if arguments.evaluation else "the pages"
        advice = "start the cluster (`mlscope up`), or set MLSCOPE_GATEWAY_URL"
        raise Misused(f"no gateway is known that serves {pages}: {advice}")
    print(browser_address(page, arguments))
    if not arguments.print_only and not await asyncio.to_thread(_open, page, arguments):
        print("no browser on this machine: open the address in another one", file=sys.stderr)
    elif not arguments.print_only:
        print("if the browser shows no page, open the address in it", file=sys.stderr)
    return exits.OK


def _open(page: str, arguments: argparse.Namespace) -> bool:
    """Open a `page` in a browser, logged in; return False where there is no browser.

    Others of this machine see the browser's arguments, and could use a ticket that stands there
    first. So the browser gets a file that this user alone can read, and that leads to the page.
    """
    address = browser_address(page, arguments, _OPENED_S)
    if address == page:
        return webbrowser.open(page)
    # The browser reads it later: it stays, as the ticket in it ends by itself.
    descriptor, name = tempfile.mkstemp(prefix="mlscope-open-", suffix=".html")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(_LEADING_ON.format(address=html.escape(address)))
    return webbrowser.open(Path(name).as_uri())


def page_address(address: str, *, is_trace: bool = False, run: str = "") -> str:
    """Return the address of a page of the evaluation at `address`.

    With `is_trace` it is the page of its trace, of a `run` where one is named.
    """
    if not is_trace or not address:
        return address
    query = f"?{urlencode({'run': run})}" if run else ""
    return f"{address}/trace{query}"
