"""`mlscope open`: opens an evaluation's page, or the first one, in a browser that it logs in."""

import argparse
import asyncio
import sys
import webbrowser
from urllib.parse import urlencode

from cli import exits
from cli.failures import Misused
from cli.inputs.connection import client_of
from cli.inputs.pages import browser_address, gateway_of
from cli.one_visit import OneVisit
from mlscope.peers import are_known

_OPENED_S = 60.0
_NO_BROWSER = "no browser on this machine: open the address in another one"
_NOT_ASKED = "no browser asked for the page within {} s: open the address in one"
_NOT_KNOWN = "this system does not say whose browser asks: open the address in it to be logged in"


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
    if not arguments.print_only and (problem := await _open(page, arguments)):
        print(problem, file=sys.stderr)
    return exits.OK


async def _open(page: str, arguments: argparse.Namespace) -> str:
    """Open a `page` in a browser, logged in; return what prevented that, '' if nothing did.

    The browser's arguments have no ticket: others of this machine see them, and could use it first.
    """
    address = browser_address(page, arguments, _OPENED_S)
    if address == page or not are_known():
        # Some browsers keep `open` waiting until they end.
        if not await asyncio.to_thread(webbrowser.open, page):
            return _NO_BROWSER
        return "" if address == page else _NOT_KNOWN
    async with OneVisit(address) as visit:
        if not await asyncio.to_thread(webbrowser.open, visit.url):
            return _NO_BROWSER
        return "" if await visit.comes(_OPENED_S) else _NOT_ASKED.format(f"{_OPENED_S:g}")


def page_address(address: str, *, is_trace: bool = False, run: str = "") -> str:
    """Return the address of a page of the evaluation at `address`.

    With `is_trace` it is the page of its trace, of a `run` where one is named.
    """
    if not is_trace or not address:
        return address
    query = f"?{urlencode({'run': run})}" if run else ""
    return f"{address}/trace{query}"
