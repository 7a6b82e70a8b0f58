"""Commands of those who run the system: services, machines without a broker, keys."""

from pathlib import Path

from cli.arguments.evaluating import add_request
from cli.arguments.parts import Parsers, command, lazily, prints

SERVICES = ("registry", "scheduler", "agent", "collector", "analyzer", "gateway")


def add_services(commands: Parsers) -> None:
    """Add `serve`, `provision`, `doctor`, `demo` and `schemas`."""
    serve = command(commands, "serve", "serving", "run one service until SIGTERM")
    serve.add_argument("service", choices=SERVICES, metavar="NAME", help=", ".join(SERVICES))
    command(commands, "provision", "serving", "make streams, durables, buckets and tables")
    doctor = command(commands, "doctor", "doctor", "check this machine and say what is missing")
    prints(doctor)
    demo = command(commands, "demo", "demo", "one evaluation end to end on this machine")
    demo.add_argument("--keep", action="store_true", help="leave the cluster running")
    demo.add_argument("--data", default="", help="data folder (MLSCOPE_DATA, .mlscope)")
    schemas = command(commands, "schemas", "exporting", "write the contract as JSON Schema")
    schemas.set_defaults(run=lazily("exporting", "export"))
    schemas.add_argument("--write", action="store_true", help="into the repository's schemas/v1")
    schemas.add_argument("--out", type=Path, help="into this folder")


def add_offline(commands: Parsers) -> None:
    """Add `agent`, `plan` and `import`."""
    text = "run a plan without broker or database, or an agent in its framework's container"
    agent = command(commands, "agent", "offline", text)
    either = agent.add_mutually_exclusive_group(required=True)
    either.add_argument("--plan", type=Path, metavar="FILE", help="of `mlscope plan`")
    either.add_argument(
        "--framework-manifest", type=Path, metavar="FILE", help="whose container is started"
    )
    agent.add_argument("--out", type=Path, metavar="BUNDLE", help="what a plan measured goes here")
    agent.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="of the container")
    plan = command(commands, "plan", "planning", "write a plan for a machine without broker")
    plan.add_argument("model", metavar="MODEL", help="a shipped model's name, or a manifest's file")
    add_request(plan)
    plan.set_defaults(stays=True)
    plan.add_argument("--key", default="", metavar="TEXT", help="same key, same evaluation")
    plan.add_argument("--out", type=Path, metavar="FILE", help="default: standard output")
    bring = command(
        commands, "import", "offline", "make a bundle or another tool's trace an evaluation"
    )
    bring.set_defaults(run=lazily("importing", "import_bundle"))
    bring.epilog = (
        "Of torch.profiler's files, steps (profiler.step()) are queries, else annotations called "
        '"query" (with record_function("query"): around each call), else those of the one name '
        "that comes again; a file that has none is one query, and its latencies say little. With "
        "record_shapes=True layers have shapes, FLOP and bytes."
    )
    text = "a bundle, or a file of torch.profiler, ONNX Runtime, ncu (CSV), nsys (SQLite), Chrome"
    bring.add_argument("bundle", type=Path, metavar="FILE", help=text)
    bring.add_argument("--model", default="", metavar="NAME", help="whose another tool's file is")
    text = "of another tool's file: samples in a query (1)"
    bring.add_argument("--batch-size", type=int, default=1, metavar="N", help=text)
    bring.add_argument("--again", action="store_true", help="even if it was imported before")
    bring.add_argument("--data", default="", help="data folder of the local cluster (.mlscope)")
    bring.add_argument("--keys", default="", help="folder of the services' keys")
    bring.add_argument("--url", default="", help="NATS server (MLSCOPE_NATS_URL)")


def add_keys(commands: Parsers) -> None:
    """Add `keys`."""
    parser = command(commands, "keys", "keys", "make the secrets of a cluster in containers")
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
