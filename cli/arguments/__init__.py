"""The arguments of every command. Imports nothing heavy: `mlscope --help` must be quick."""

import argparse

from cli import exits
from cli.arguments.evaluating import add_answers, add_repeating, add_run
from cli.arguments.operating import (
    add_agents,
    add_keeping,
    add_keys,
    add_offline,
    add_people,
    add_services,
)
from cli.arguments.publishing import add_assets, add_manifest
from cli.arguments.reading import add_completion, add_listing, add_reading
from cli.cluster.commands import add_commands
from cli.parser import Parser, add_described

_TOPICS = ("exit-codes", "settings")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `mlscope`; its namespaces have a function `run(namespace)`."""
    parser: argparse.ArgumentParser = Parser(
        prog="mlscope",
        description="Benchmark deep-learning inference and look inside it.",
        epilog="`mlscope COMMAND --help` explains a command, `mlscope help exit-codes` the exit "
        "codes, `mlscope help settings` the environment variables.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(
        dest="command", title="commands", metavar="COMMAND", required=True
    )
    add_run(commands)
    add_listing(commands)
    add_reading(commands)
    add_answers(commands)
    add_manifest(commands)
    add_assets(commands)
    add_commands(commands)
    add_services(commands)
    add_offline(commands)
    add_repeating(commands)
    add_agents(commands)
    add_people(commands)
    add_keeping(commands)
    add_keys(commands)
    add_completion(commands)
    topics = ", ".join(_TOPICS)
    help_parser = add_described(commands, "help", f"explain a command or a topic: {topics}")
    help_parser.add_argument(
        "topic", nargs="?", default="", metavar="COMMAND or TOPIC", help="default: all commands"
    )
    help_parser.set_defaults(run=_help)
    return parser


class _Version(argparse.Action):
    """Prints the version; looks it up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        from importlib.metadata import version

        print(f"mlscope {version('mlscope')}")
        parser.exit(exits.OK)


def _help(arguments: argparse.Namespace) -> int:
    topic = arguments.topic
    if topic not in _TOPICS:
        # `--help` prints and exits; for an unknown command the parser suggests a known one.
        build_parser().parse_args([topic, "--help"] if topic else ["--help"])
    if topic == "exit-codes":
        lines = [f"{code:>3}  {text}" for code, text in exits.MEANINGS.items()]
    else:
        from mlscope.settings.reference import documentation

        lines = [f"{name:<32} {default:<28} {text}" for name, default, text in documentation()]
    print("\n".join(lines))
    return exits.OK
