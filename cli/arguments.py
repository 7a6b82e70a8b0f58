"""The command line's grammar. Imports nothing heavy: `mlscope --help` must be quick."""

import argparse
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from cli import exits
from cli.cluster.commands import add_commands
from cli.parser import Parser

Parsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001
Command = Callable[[argparse.Namespace], int]

SERVICES = ("registry", "scheduler", "agent", "collector", "analyzer", "gateway")
STATES = (
    *("requested", "postponed", "planned", "running"),
    *("measured", "analyzed", "failed", "cancelled"),
)
"""States of an evaluation; the contract's own are not loaded for `--help`."""

_FORMATS = ("table", "json", "csv")
_TOPICS = ("exit-codes", "settings")


def _lazily(module: str, name: str) -> Command:
    """Return a command whose module is imported when it runs."""

    def run(arguments: argparse.Namespace) -> int:
        command: Command = getattr(import_module(f"cli.commands.{module}"), name)
        return command(arguments)

    return run


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `mlscope`; the namespace's `run` takes it and returns the exit code."""
    parser: argparse.ArgumentParser = Parser(
        prog="mlscope",
        description="Benchmark deep-learning inference and look inside it.",
        epilog="`mlscope COMMAND --help` explains one of them, `mlscope help exit-codes` how they "
        "end, `mlscope help settings` what can be set.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(
        dest="command", title="commands", metavar="COMMAND", required=True
    )
    _add_run(commands)
    _add_listing(commands)
    _add_reading(commands)
    _add_answers(commands)
    _add_manifest(commands)
    _add_assets(commands)
    add_commands(commands)
    _add_running(commands)
    _add_offline(commands)
    _add_repeating(commands)
    _add_keys(commands)
    _add_help(commands)
    return parser


class _Version(argparse.Action):
    """Prints the version, looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        from importlib.metadata import version

        print(f"mlscope {version('mlscope')}")
        parser.exit(exits.OK)


def _command(commands: Parsers, name: str, module: str, text: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(run=_lazily(module, name.replace("-", "_")))
    return parser


def _asks(parser: argparse.ArgumentParser) -> None:
    """Add where the cluster is."""
    group = parser.add_argument_group("connection")
    add = group.add_argument
    add("--url", default="", metavar="URL", help="NATS server (MLSCOPE_NATS_URL)")
    add("--seed-file", default="", metavar="FILE", help="nkey seed (MLSCOPE_NATS_SEED_FILE)")
    add("--data", default="", metavar="FOLDER", help="of a local cluster (MLSCOPE_DATA, .mlscope)")


def _prints(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", choices=_FORMATS, default="table", help="format of what is printed"
    )


def _add_run(commands: Parsers) -> None:
    parser = _command(commands, "run", "evaluate", "evaluate a model and print the result")
    parser.add_argument("model", metavar="MODEL", help="name[:constraint], or a manifest's file")
    _add_request(parser)
    parser.add_argument("--key", default="", metavar="TEXT", help="same key, same evaluation")
    parser.add_argument("--detach", action="store_true", help="print the id and return at once")
    parser.add_argument("--table", default="", metavar="NAME", help="print it, not the summary")
    parser.add_argument("--strict", action="store_true", help="caveats end with exit code 6")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    _prints(parser)
    _asks(parser)


def _add_request(parser: argparse.ArgumentParser) -> None:
    """Add the fields of a request to evaluate."""
    _add_measuring(parser)
    _add_placing(parser)


def _add_measuring(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what to measure").add_argument
    add(
        "--scenario",
        action="append",
        default=[],
        metavar="NAME[:k=v,…]",
        help="how queries arrive: online, poisson:rate_hz=20, fixed_rate, batched; repeatable",
    )
    add("--batch-size", default="", metavar="N,…", help="one or more, e.g. 1,2,4")
    add(
        "--trace-level",
        default="",
        metavar="LEVEL",
        help="none, application, model (default), framework, library, system, hardware, full",
    )
    add("--dataset", default="", metavar="NAME", help="name[:constraint], a manifest, or ./FOLDER")
    add("--warmup", type=int, metavar="N", help="queries before measuring")
    add(
        "--blocks",
        default="",
        metavar="LEAST[:MOST[:INTERVAL]]",
        help="stop rule: 3:10:0.02 is 3 to 10 blocks, until the median is known to 2 %%",
    )
    add(
        "--pacing",
        default="",
        choices=("auto", "local", "remote"),
        help="who issues the queries: the worker (local) or the scheduler (remote)",
    )
    add("--outputs", type=int, metavar="N", help="predictions to keep of each run")
    add("--run-timeout", type=float, metavar="S", help="seconds a run may take")
    add("--label", action="append", default=[], metavar="k=v", help="a note on the evaluation")


def _add_placing(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("where to run it").add_argument
    add("--framework", default="", metavar="NAME[:CONSTRAINT]", help="e.g. 'onnxruntime:>=1.16'")
    add(
        "--option",
        action="append",
        default=[],
        metavar="k=v",
        help="of the predictor, e.g. threads=2; repeatable",
    )
    _add_machine(add, "only this one")
    add("--all-agents", action="store_true", help="on every agent that fits, not on one")
    add("--wait", type=float, metavar="S", help="seconds to wait for an agent that fits")


def _add_listing(commands: Parsers) -> None:
    listing = _command(commands, "ls", "listing", "list what there is")
    kinds = (
        *("evaluations", "agents", "models", "frameworks", "datasets", "scenarios"),
        *("hardware", "software"),
    )
    listing.add_argument("kind", choices=kinds, metavar="KIND", help=", ".join(kinds))
    add = listing.add_argument
    add("search", nargs="?", default="", metavar="SEARCH", help="only what holds this word")
    add(
        "--framework",
        default="",
        metavar="NAME[:CONSTRAINT]",
        help="evaluations on it, e.g. 'onnxruntime:>=1.16'; models for it, or a part of its name",
    )
    add = listing.add_argument_group("models").add_argument
    add("--task", default="", metavar="TASK", help="of this task, or a part of its name")
    add = listing.add_argument_group("evaluations").add_argument
    add("--limit", type=int, metavar="N", help="how many, the newest (50)")
    add("--model", default="", metavar="NAME[:CONSTRAINT]", help="of this model")
    add("--model-version", default="", metavar="CONSTRAINT", help="of its versions, e.g. '>=1'")
    add("--state", default="", choices=STATES, metavar="STATE", help=", ".join(STATES))
    _add_machine(add, "with a run on this one")
    add("--label", action="append", default=[], metavar="k=v", help="with this note; repeatable")
    _prints(listing)
    _asks(listing)


def _add_machine(add: Callable[..., object], agent: str) -> None:
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


def _add_reading(commands: Parsers) -> None:
    show = _command(commands, "show", "reading", "show an evaluation, a model or an agent")
    show.add_argument("name", metavar="NAME", help="an evaluation's id, or a name of the catalog")
    show.add_argument(
        "--predictions", action="store_true", help="of an evaluation: what the model answered"
    )
    show.add_argument(
        "--run", dest="of_run", default="", metavar="RUN", help="predictions of this run alone"
    )
    tables = _command(commands, "tables", "reading", "print an evaluation's tables")
    tables.add_argument("evaluation", metavar="ID")
    tables.add_argument("names", nargs="*", metavar="TABLE", help="these only")
    watch = _command(commands, "watch", "evaluate", "follow an evaluation until it ends")
    watch.add_argument("evaluation", metavar="ID")
    watch.add_argument("--events", action="store_true", help="print every step as a line of JSON")
    cancel = _command(commands, "cancel", "evaluate", "end an evaluation now")
    cancel.add_argument("evaluation", metavar="ID")
    cancel.add_argument("--reason", default="", metavar="TEXT", help="kept in its record")
    for parser in (show, tables):
        _prints(parser)
    for parser in (show, tables, watch, cancel):
        _asks(parser)


def _add_answers(commands: Parsers) -> None:
    parser = _command(commands, "predict", "predict", "ask an agent what a model answers to files")
    add = parser.add_argument
    add("model", metavar="MODEL", help="name[:constraint], or a manifest's file")
    add("files", nargs="+", type=Path, metavar="FILE", help="as the model's first step takes it")
    add("--top", type=int, default=5, metavar="N", help="lines a file (5); JSON has all")
    add("--framework", default="", metavar="NAME[:CONSTRAINT]", help="e.g. onnxruntime")
    add("--option", action="append", default=[], metavar="k=v", help="of the predictor; repeatable")
    add("--agent", action="append", default=[], metavar="ID", help="only this one; repeatable")
    add("--device", default="", metavar="NAME", help="cpu, cuda, …")
    add("--wait", type=float, metavar="S", help="seconds to wait for an agent that fits")
    likeness = _command(
        commands, "compare", "compare", "compare two evaluations' answers to the same samples"
    )
    likeness.add_argument("first", metavar="ID[/RUN]")
    likeness.add_argument("second", metavar="ID[/RUN]")
    likeness.add_argument("--samples", action="store_true", help="each sample's measures, too")
    for each in (parser, likeness):
        _prints(each)
        _asks(each)


def _add_manifest(commands: Parsers) -> None:
    parser = commands.add_parser("manifest", help="check, publish or withdraw a manifest")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = _command(actions, "check", "manifests", "read manifests and say what is wrong")
    publish = _command(actions, "publish", "manifests", "put manifests into the catalog")
    for each in (check, publish):
        each.add_argument("files", nargs="+", type=Path, metavar="FILE")
    withdraw = _command(actions, "withdraw", "manifests", "take a manifest out of the catalog")
    kinds = ("model", "framework", "dataset", "scenario", "hardware", "software")
    withdraw.add_argument("kind", choices=kinds)
    withdraw.add_argument("name")
    withdraw.add_argument("version")
    for each in (publish, withdraw):
        _asks(each)


def _add_assets(commands: Parsers) -> None:
    models = commands.add_parser("models", help="fetch what models need, before they are run")
    actions = models.add_subparsers(dest="action", metavar="ACTION", required=True)
    fetch = _command(actions, "fetch", "models", "fetch models' files into this host's cache")
    fetch.add_argument(
        "models", nargs="+", metavar="MODEL", help="a shipped model's name, or a manifest's file"
    )
    artifacts = commands.add_parser("artifacts", help="put, list and remove files of the cluster")
    actions = artifacts.add_subparsers(dest="action", metavar="ACTION", required=True)
    put = _command(actions, "put", "artifacts", "store a file, as artifact://NAME in manifests")
    put.add_argument("file", type=Path, metavar="FILE")
    put.add_argument("name", nargs="?", default="", metavar="NAME", help="default: the file's")
    listing = _command(actions, "ls", "artifacts", "list what is stored")
    _prints(listing)
    remove = _command(actions, "rm", "artifacts", "remove what is stored")
    remove.add_argument("names", nargs="+", metavar="NAME")
    for each in (fetch, put, listing, remove):
        _asks(each)


def _add_running(commands: Parsers) -> None:
    serve = _command(commands, "serve", "serving", "run one service until SIGTERM")
    serve.add_argument("service", choices=SERVICES, metavar="NAME", help=", ".join(SERVICES))
    _command(commands, "provision", "serving", "make streams, durables, buckets and tables")
    doctor = _command(commands, "doctor", "doctor", "check this machine and say what is missing")
    _prints(doctor)
    demo = _command(commands, "demo", "demo", "one evaluation end to end on this machine")
    demo.add_argument("--keep", action="store_true", help="leave the cluster running")
    demo.add_argument("--data", default="", help="data folder (MLSCOPE_DATA, .mlscope)")
    schemas = _command(commands, "schemas", "exporting", "write the contract as JSON Schema")
    schemas.set_defaults(run=_lazily("exporting", "export"))
    schemas.add_argument("--write", action="store_true", help="into the repository's schemas/v1")
    schemas.add_argument("--out", type=Path, help="into this folder")


def _add_offline(commands: Parsers) -> None:
    text = "run a plan without broker or database, or an agent in its framework's container"
    agent = _command(commands, "agent", "offline", text)
    either = agent.add_mutually_exclusive_group(required=True)
    either.add_argument("--plan", type=Path, metavar="FILE", help="of `mlscope plan`")
    either.add_argument(
        "--framework-manifest", type=Path, metavar="FILE", help="whose container is started"
    )
    agent.add_argument("--out", type=Path, metavar="BUNDLE", help="what a plan measured goes here")
    agent.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="of the container")
    plan = _command(commands, "plan", "planning", "write a plan for a machine without broker")
    plan.add_argument("model", metavar="MODEL", help="a shipped model's name, or a manifest's file")
    _add_request(plan)
    plan.add_argument("--key", default="", metavar="TEXT", help="same key, same evaluation")
    plan.add_argument("--out", type=Path, metavar="FILE", help="default: standard output")
    bring = _command(commands, "import", "offline", "make a bundle an evaluation like any other")
    bring.set_defaults(run=_lazily("importing", "import_bundle"))
    bring.add_argument("bundle", type=Path, metavar="BUNDLE")
    bring.add_argument("--again", action="store_true", help="even if it was imported before")
    bring.add_argument("--data", default="", help="data folder of the local cluster (.mlscope)")
    bring.add_argument("--keys", default="", help="folder of the services' keys")
    bring.add_argument("--url", default="", help="NATS server (MLSCOPE_NATS_URL)")


def _add_repeating(commands: Parsers) -> None:
    export = _command(commands, "export", "reproducing", "write an evaluation as one file")
    export.add_argument("evaluation", metavar="ID")
    export.add_argument("-o", "--out", type=Path, metavar="FILE", help="default: standard output")
    again = _command(commands, "reproduce", "reproducing", "run such a file again: what differs?")
    add = again.add_argument
    add("file", type=Path, metavar="FILE", help="of `mlscope export`")
    add("--agent", action="append", default=[], metavar="ID", help="only this one; repeatable")
    add("--wait", type=float, metavar="S", help="seconds to wait for an agent that fits")
    add("--out", type=Path, metavar="FILE", help="write the new evaluation as such a file, too")
    add(
        "--strict",
        action="store_true",
        help="end with exit code 3 unless all predictions were compared and equal",
    )
    add("--quiet", action="store_true", help="no progress")
    _prints(again)
    for each in (export, again):
        _asks(each)


def _add_keys(commands: Parsers) -> None:
    parser = _command(commands, "keys", "keys", "make the secrets of a cluster in containers")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="what is there already is kept"
    )
    parser.add_argument("--owner", type=int, metavar="UID", help="who may read them")
    parser.add_argument(
        "--agent",
        action="append",
        default=[],
        metavar="NAME",
        help="an agent that gets a key of its own; may be repeated",
    )


def _add_help(commands: Parsers) -> None:
    topics = ", ".join(_TOPICS)
    parser = commands.add_parser("help", help=f"explain a command or a topic: {topics}")
    parser.add_argument("topic", nargs="?", default="", metavar="COMMAND or TOPIC")
    parser.set_defaults(run=_help)


def _help(arguments: argparse.Namespace) -> int:
    topic = arguments.topic
    if topic not in _TOPICS:
        # `--help` of a parser prints and exits; that of an unknown command suggests one.
        build_parser().parse_args([topic, "--help"] if topic else ["--help"])
    if topic == "exit-codes":
        lines = [f"{code:>3}  {text}" for code, text in exits.MEANINGS.items()]
    else:
        from mlscope.settings import documentation

        lines = [f"{name:<32} {default:<28} {text}" for name, default, text in documentation()]
    print("\n".join(lines))
    return exits.OK
