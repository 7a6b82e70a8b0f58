"""`mlscope …`: parses the command line and runs one command, loaded only then."""

import os
import sys
from collections.abc import Sequence

from cli import exits
from cli.arguments import build_parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; see `cli.exits`."""
    arguments = build_parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.OK
    except Exception as error:
        from cli.failures import explain

        failure = explain(error)
        if failure is None:
            raise
        print(f"mlscope {arguments.command}: {failure.text}", file=sys.stderr)
        return failure.code


if __name__ == "__main__":
    sys.exit(main())
