"""`mlscope …`: parses the command line, then imports and runs one command."""

import io
import os
import sys
from collections.abc import Sequence

from cli import exits
from cli.arguments import build_parser
from cli.missing_packages import missing_package_text
from cli.parser import parse


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; see `cli.exits`."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Lines of stdout and stderr keep their order when both go to the same file or pipe.
        sys.stdout.reconfigure(line_buffering=True)
    argv = sys.argv[1:] if argv is None else argv
    if not argv:
        build_parser().print_help(sys.stderr)
        return exits.USAGE
    arguments = parse(build_parser(), argv)
    try:
        return int(arguments.run(arguments))
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed the pipe; Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.OK
    except ImportError as error:
        # Not among the failures: to import these needs the same packages.
        if not (text := missing_package_text(error)):
            raise
        print(f"mlscope {arguments.command}: {text}", file=sys.stderr)
        return exits.FAILED
    except Exception as error:
        from cli.failures import explain
        from mlscope.texts.printable import printable_lines

        failure = explain(error)
        if failure is None:
            raise
        text = printable_lines(failure.text)
        print(f"mlscope {arguments.command}: {text}", file=sys.stderr)
        return failure.code


if __name__ == "__main__":
    sys.exit(main())
