"""`mlscope open`: opens an evaluation's page in the browser, and prints its address."""

import argparse
import asyncio
import sys
import webbrowser
from urllib.parse import urlencode

from cli import exits
from cli.failures import Misused
from cli.inputs.connection import client_of


async def open_page(arguments: argparse.Namespace) -> int:
    """Print the address of a page, and open it where there is a browser."""
    async with client_of(arguments) as client:
        status = await client.status(arguments.evaluation)
    if not status.address:
        raise Misused(f"{status.evaluation} has no address: is a gateway running?")
    address = page_address(status.address, is_trace=arguments.trace, run=arguments.of_run)
    print(address)
    if not arguments.print_only and not await asyncio.to_thread(webbrowser.open, address):
        print("no browser here: open the address in one", file=sys.stderr)
    return exits.OK


def page_address(address: str, *, is_trace: bool = False, run: str = "") -> str:
    """Return the address of a page of the evaluation at `address`.

    With `is_trace` it is the page of its trace, of a `run` where one is named.
    """
    if not is_trace:
        return address
    query = f"?{urlencode({'run': run})}" if run else ""
    return f"{address}/trace{query}"
