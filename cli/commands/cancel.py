"""`mlscope cancel`: cancels an evaluation."""

import argparse
import sys

from cli import exits
from cli.inputs.connection import client_of


async def cancel(arguments: argparse.Namespace) -> int:
    """Cancel an evaluation now; completed measurements are kept."""
    async with client_of(arguments) as client:
        await client.cancel(arguments.evaluation, arguments.reason)
    print(f"{arguments.evaluation} cancelled", file=sys.stderr)
    return exits.OK
