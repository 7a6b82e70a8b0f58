"""`mlscope …`: parses the command line and runs one command, loaded only then."""

import io
import os
import sys
from collections.abc import Sequence

from cli import exits
from cli.arguments import build_parser
from cli.parser import parse


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; see `cli.exits`."""
    _write_by_lines()
    words = sys.argv[1:] if argv is None else argv
    if not words:
        build_parser().print_help(sys.stderr)
        return exits.USAGE
    arguments = parse(build_parser(), words)
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


def _write_by_lines() -> None:
    """Keep lines of stdout and stderr in their order where both go to the same file or pipe."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


if __name__ == "__main__":
    sys.exit(main())
