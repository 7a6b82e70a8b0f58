"""Options that several commands share: connection, output format, machines."""

import argparse
from collections.abc import Callable, Coroutine
from importlib import import_module

from cli.parser import Parsers, add_described

Command = Callable[[argparse.Namespace], int | Coroutine[object, object, int]]

_FORMATS = ("table", "json", "csv")
ID_HELP = "an evaluation's id"
MODEL_HELP = "a model's NAME[:CONSTRAINT], or a manifest file"
SHIPPED_MODEL_HELP = "name of a shipped model, or a manifest file"
DEVICE_HELP = "cpu, gpu (any), cuda (NVIDIA), rocm (AMD), or a predictor's own device, e.g. fpga"
WAIT_HELP = "seconds to wait for a suitable agent"
DATA_HELP = "data folder of the local cluster (default: MLSCOPE_DATA, else .mlscope)"
URL_HELP = "address of the NATS server (default: MLSCOPE_NATS_URL)"


def add_command(
    commands: Parsers, name: str, text: str, *, function: str = ""
) -> argparse.ArgumentParser:
    """Add a command to `commands`.

    `name`: the command's word; `text`: its help; `function`: `MODULE:FUNCTION` in `cli.commands`,
    imported when the command runs (default: `NAME:NAME`); it may be a coroutine function.
    """
    module, _, attribute = (function or f"{name}:{name}").partition(":")

    def run(arguments: argparse.Namespace) -> int:
        command: Command = getattr(import_module(f"cli.commands.{module}"), attribute)
        exit_code = command(arguments)
        if isinstance(exit_code, int):
            return exit_code
        import asyncio  # deferred: `mlscope --help` must not wait for it

        return asyncio.run(exit_code)

    parser = add_described(commands, name, text)
    parser.set_defaults(run=run)
    return parser


def add_connection(parser: argparse.ArgumentParser, default: str = "") -> None:
    """Add the options that name the cluster; `default` is the value of one that is not given."""
    add = parser.add_argument_group("connection").add_argument
    add("--url", default=default, metavar="URL", help=URL_HELP)
    add(
        "--seed-file",
        default=default,
        metavar="FILE",
        help="file with the nkey seed (default: MLSCOPE_NATS_SEED_FILE)",
    )
    add("--data", default=default, metavar="FOLDER", help=DATA_HELP)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the output format."""
    parser.add_argument(
        "-o", "--output", choices=_FORMATS, default="table", help="output format (default: table)"
    )


def add_machine(add: Callable[..., object], agent_help: str) -> None:
    """Add the options that name machines, through `add`; `agent_help` is the help of `--agent`."""
    add("--agent", action="append", default=[], metavar="ID", help=f"{agent_help}; repeatable")
    add("--device", default="", metavar="NAME", help=DEVICE_HELP)
    add(
        "--need",
        action="append",
        default=[],
        metavar="k=v",
        help="a property the system must have, e.g. memory_bytes=8000000000; repeatable",
    )
