"""What commands of several kinds take: where the cluster is, how to print, which machines."""

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import TypeAlias

Parsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001
Command = Callable[[argparse.Namespace], int]

_FORMATS = ("table", "json", "csv")


def lazily(module: str, name: str) -> Command:
    """Return a command whose module is imported when it runs."""

    def run(arguments: argparse.Namespace) -> int:
        command: Command = getattr(import_module(f"cli.commands.{module}"), name)
        return command(arguments)

    return run


def command(commands: Parsers, name: str, module: str, text: str) -> argparse.ArgumentParser:
    """Add a command; its function NAME (`-` as `_`) is in cli.commands.MODULE."""
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(run=lazily(module, name.replace("-", "_")))
    return parser


def asks(parser: argparse.ArgumentParser) -> None:
    """Add where the cluster is."""
    group = parser.add_argument_group("connection")
    add = group.add_argument
    add("--url", default="", metavar="URL", help="NATS server (MLSCOPE_NATS_URL)")
    add("--seed-file", default="", metavar="FILE", help="nkey seed (MLSCOPE_NATS_SEED_FILE)")
    add("--data", default="", metavar="FOLDER", help="of a local cluster (MLSCOPE_DATA, .mlscope)")


def prints(parser: argparse.ArgumentParser) -> None:
    """Add the format of what is printed."""
    parser.add_argument(
        "-o", "--output", choices=_FORMATS, default="table", help="format of what is printed"
    )


def add_machine(add: Callable[..., object], agent: str) -> None:
    """Add what machines are meant, for a request and for a list alike."""
    add("--agent", action="append", default=[], metavar="ID", help=f"{agent}; repeatable")
    add("--device", default="", metavar="NAME", help="cpu, cuda, …")
    add(
        "--need",
        action="append",
        default=[],
        metavar="k=v",
        help="what the system must have, e.g. memory_bytes=8000000000; repeatable",
    )
