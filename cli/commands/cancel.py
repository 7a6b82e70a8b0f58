"""`mlscope cancel`: cancels an evaluation."""

import argparse
import sys

from cli import exits
from cli.inputs.connection import client_of
from cli.printing.results import note_kept_runs


async def cancel(arguments: argparse.Namespace) -> int:
    """Cancel an evaluation now; what was measured until then is analyzed."""
    async with client_of(arguments) as client:
        await client.cancel(arguments.evaluation, arguments.reason)
        print(f"{arguments.evaluation} cancelled", file=sys.stderr)
        await note_kept_runs(client, arguments.evaluation)
    return exits.OK
