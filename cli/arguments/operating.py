"""Commands for operators: services, machines without a broker, keys."""

import argparse
from pathlib import Path

from cli.arguments.evaluating import add_request
from cli.arguments.parts import (
    DATA_HELP,
    SHIPPED_MODEL_HELP,
    URL_HELP,
    add_command,
    add_connection,
    add_output,
)
from cli.parser import Parsers

_ROLES = ("viewer", "requester", "owner")
SERVICES = ("registry", "scheduler", "agent", "collector", "analyzer", "gateway")


def add_services(commands: Parsers) -> None:
    """Add `serve`, `provision`, `doctor`, `demo` and `schemas`."""
    serve = add_command(commands, "serve", "run one service until SIGTERM")
    serve.add_argument("service", choices=SERVICES, metavar="NAME", help=", ".join(SERVICES))
    health = add_command(
        commands, "health", "check that the service of MLSCOPE_READY_FILE answers over the bus"
    )
    asked = (*SERVICES, "admission")
    health.add_argument("service", choices=asked, metavar="NAME", help=", ".join(asked))
    health.add_argument(
        "--within", type=float, default=5.0, metavar="S", help="seconds to wait (default: 5)"
    )
    health.add_argument(
        "--end",
        action="store_true",
        help="kill a service that was silent three times in a row, so that it is restarted",
    )
    health.add_argument(
        "--liveness",
        action="store_true",
        help="fail only if it is silent, not without a broker or before it is ready",
    )
    add_command(commands, "provision", "create streams, durables, buckets and database tables")
    doctor = add_command(commands, "doctor", "check this machine and print what is missing")
    add_output(doctor)
    demo = add_command(commands, "demo", "run one evaluation end to end on this machine")
    demo.add_argument("--keep", action="store_true", help="leave the cluster running")
    demo.add_argument(
        "--stay", action="store_true", help="leave the demo's pages open until Ctrl-C"
    )
    demo.add_argument("--data", default="", metavar="FOLDER", help=DATA_HELP)
    schemas = add_command(commands, "schemas", "write the message contract as JSON Schema")
    schemas.add_argument(
        "--write", action="store_true", help="write it to schemas/v1 of the repository"
    )
    schemas.add_argument("--out", type=Path, metavar="FOLDER", help="write it to this folder")


def add_offline(commands: Parsers) -> None:
    """Add `agent`, `plan` and `import`."""
    agent = add_command(
        commands,
        "agent",
        "run a plan without broker or database, or an agent in its framework's container",
    )
    source = agent.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--plan", type=Path, metavar="FILE", help="run the plan that `mlscope plan` wrote"
    )
    source.add_argument(
        "--framework-manifest",
        type=Path,
        metavar="FILE",
        help="start an agent in the container that this manifest names",
    )
    agent.add_argument(
        "--out", type=Path, metavar="BUNDLE", help="file for the results of the plan"
    )
    agent.add_argument(
        "--device", choices=("cpu", "gpu"), default="cpu", help="device of the container"
    )
    plan = add_command(commands, "plan", "write a plan for a machine without a broker")
    plan.add_argument("model", metavar="MODEL", help=SHIPPED_MODEL_HELP)
    add_request(plan)
    plan.set_defaults(files_stay=True)
    plan.add_argument(
        "--key", default="", metavar="TEXT", help="requests with the same key are one evaluation"
    )
    plan.add_argument("--out", type=Path, metavar="FILE", help="default: standard output")
    bundle = add_command(
        commands,
        "import",
        "import a bundle, or another tool's trace, as an evaluation",
        function="import_bundle:import_bundle",
    )
    bundle.epilog = (
        "In files of torch.profiler, each step (profiler.step()) is a query. Without steps, each "
        'annotation named "query" is one (put record_function("query"): around each call), else '
        "each annotation of the only name that repeats. A file with none of them counts as one "
        "query, so its latencies mean little. With record_shapes=True, layers have shapes, FLOP "
        "and bytes."
    )
    bundle.add_argument(
        "bundle",
        type=Path,
        metavar="FILE",
        help="a bundle, or a trace of torch.profiler, ONNX Runtime, ncu (CSV), nsys (SQLite) or "
        "Chrome",
    )
    bundle.add_argument(
        "--model", default="", metavar="NAME", help="name of the model in another tool's trace"
    )
    bundle.add_argument(
        "--framework", default="", metavar="NAME", help="framework that ran it, if unnamed or wrong"
    )
    bundle.add_argument(
        "--device", default="", metavar="NAME", help="device that ran it, such as npu"
    )
    bundle.add_argument(
        "--batch-size",
        type=int,
        default=1,
        metavar="N",
        help="samples in each query of another tool's trace (default: 1)",
    )
    bundle.add_argument(
        "--again", action="store_true", help="import it even if it was already imported"
    )
    bundle.add_argument("--data", default="", metavar="FOLDER", help=DATA_HELP)
    bundle.add_argument("--keys", default="", metavar="FOLDER", help="folder of the services' keys")
    bundle.add_argument("--url", default="", metavar="URL", help=URL_HELP)


def add_agents(commands: Parsers) -> None:
    """Add `agents` with its own commands, and `join`."""
    agents = add_command(commands, "agents", "list, invite, drain, resume, price or revoke agents")
    add_connection(agents)
    add_output(agents)
    actions = agents.add_subparsers(dest="action", metavar="COMMAND")
    invite = _add_action(actions, "invite", "print the command that joins another machine, once")
    invite.add_argument(
        "--hours",
        type=float,
        default=1.0,
        help="hours for which the invitation is valid (default: 1)",
    )
    _add_action(actions, "drain", "give an agent no new evaluations; it finishes those that it has")
    _add_action(actions, "resume", "give a drained agent evaluations again")
    price = _add_action(actions, "price", "set an agent's hourly price, for comparisons of costs")
    price.add_argument(
        "dollars", type=float, nargs="?", metavar="DOLLARS", help="omit it to remove the price"
    )
    _add_action(actions, "revoke", "revoke an agent's key at once; its runs are repeated elsewhere")
    join = add_command(commands, "join", "join another machine's cluster and run an agent for it")
    join.add_argument(
        "invitation",
        nargs="?",
        default="",
        metavar="INVITATION",
        help="what `mlscope agents invite` printed, or - to type it or pipe it in, where no other "
        "user of the machine can read it; not needed if this machine has joined before",
    )
    join.add_argument("--data", default="", metavar="FOLDER", help=DATA_HELP)


def _add_action(actions: Parsers, name: str, text: str) -> argparse.ArgumentParser:
    """Add a command about one agent to those of `agents`."""
    parser = add_command(actions, name, text, function=f"agents:{name}")
    parser.add_argument("name", metavar="NAME", help="the agent")
    # Not given here, they are those given to `agents`.
    add_connection(parser, default=argparse.SUPPRESS)
    return parser


def add_people(commands: Parsers) -> None:
    """Add `people` with its own commands, and `audit`."""
    audit = add_command(commands, "audit", "list who did what and when")
    audit.add_argument("--by", default="", metavar="NAME", help="only what this person did")
    audit.add_argument(
        "--limit", type=_limit, default=200, metavar="N", help="the newest N; 0: all (default: 200)"
    )
    add_output(audit)
    audit.add_argument("--data", default="", metavar="FOLDER", help=DATA_HELP)
    people = add_command(commands, "people", "list, add or remove the people who may use a cluster")
    add_connection(people)
    add_output(people)
    actions = people.add_subparsers(dest="action", metavar="COMMAND")
    add = add_command(
        actions, "add", "add a person, or change role and limits", function="people:add"
    )
    add.add_argument("name", metavar="NAME", help="1 to 64 characters: A-Z a-z 0-9 _ -")
    add.add_argument(
        "--role",
        choices=_ROLES,
        default="requester",
        help="a viewer only looks, a requester also requests evaluations and cancels their own, "
        "an owner also cancels those of others and sees private ones (default: requester)",
    )
    add.add_argument(
        "--at-most",
        type=_limit,
        default=0,
        metavar="N",
        help="limit of evaluations waiting or running (default: 0, no limit)",
    )
    add.add_argument(
        "--per-day",
        type=_limit,
        default=0,
        metavar="N",
        help="limit of evaluations within 24 hours (default: 0, no limit)",
    )
    remove = add_command(
        actions, "remove", "revoke a person's key and token at once", function="people:remove"
    )
    remove.add_argument("name", metavar="NAME", help="the person")
    for action in (add, remove):
        # Not given here, they are those given to `people`.
        add_connection(action, default=argparse.SUPPRESS)


def _limit(text: str) -> int:
    """Return a limit; 0 is none."""
    if not text.isdecimal() or int(text) >= 2**31:
        raise argparse.ArgumentTypeError(f"expected 0 (no limit) or more, found {text!r}")
    return int(text)


def add_keeping(commands: Parsers) -> None:
    """Add `backup`, `restore`, `rebuild` and `dead`."""
    dead = add_command(
        commands,
        "dead",
        "list, show, retry or drop dead letters: messages that services gave up on",
    )
    dead.add_argument(
        "action",
        nargs="?",
        default="",
        metavar="N|retry|drop",
        help="N: show this letter; retry: have messages handled again; drop: remove letters",
    )
    dead.add_argument(
        "which", nargs="?", default="", metavar="N|all", help="the letters to retry or drop"
    )
    add_output(dead)
    dead.add_argument("--data", default="", metavar="FOLDER", help=DATA_HELP)
    backup = add_command(
        commands, "backup", "back up a running cluster into one file: log, catalog, files, rows"
    )
    backup.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="file to write; it is replaced once the backup is complete",
    )
    backup.add_argument("--data", default="", metavar="FOLDER", help=DATA_HELP)
    restore = add_command(
        commands, "restore", "restore a backup into an empty cluster", function="backup:restore"
    )
    restore.add_argument(
        "file", type=Path, metavar="FILE", help="a file that `mlscope backup` wrote"
    )
    restore.add_argument("--data", default="", metavar="FOLDER", help=DATA_HELP)
    restore.add_argument(
        "--replace", action="store_true", help="move the data of a local cluster aside first"
    )
    rebuild = add_command(
        commands, "rebuild", "compute rows and tables of a running cluster again from its log"
    )
    rebuild.epilog = (
        "Rows come from the log, which keeps them for a while, and from FILE. What neither has "
        "stays as it is in the database. Once all new rows are computed, they replace the old ones "
        "in one step. The catalog needs no rebuilding: the registry reads it from the log at each "
        "start."
    )
    rebuild.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="also take rows from this file that `mlscope backup` wrote",
    )
    rebuild.add_argument("--data", default="", metavar="FOLDER", help=DATA_HELP)
    rebuild.add_argument(
        "--dry-run", action="store_true", help="compute everything, and replace nothing"
    )


def add_keys(commands: Parsers) -> None:
    """Add `keys`."""
    parser = add_command(commands, "keys", "create the secrets of a cluster in containers")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder for the secrets; existing ones are not changed",
    )
    parser.add_argument(
        "--owner", type=int, metavar="UID", help="numeric id of the user who may read them"
    )
    parser.add_argument(
        "--agent",
        action="append",
        default=[],
        metavar="NAME",
        help="create a separate key for this agent; repeatable",
    )
    parser.add_argument(
        "--person",
        action="append",
        default=[],
        metavar="NAME:ROLE[:AT_MOST[:PER_DAY]]",
        help=f"create a key and a page token for a person who is one of {', '.join(_ROLES)}, "
        "with limits on open and daily evaluations; repeatable",
    )
    parser.add_argument(
        "--address",
        action="append",
        default=[],
        metavar="HOST",
        help="name of the broker, or further name of three, as clients elsewhere reach it; "
        "it then speaks TLS; repeatable",
    )
    parser.add_argument(
        "--broker",
        action="append",
        default=[],
        metavar="HOST",
        help="host of a broker, as others reach it; repeat for at least three brokers; data "
        "is then replicated three times, over TLS",
    )
