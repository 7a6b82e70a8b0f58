"""Commands that read results: ls, show, tables, analyze, watch; cancel and completion."""

import argparse
from collections.abc import Mapping
from types import MappingProxyType

from cli.arguments.parts import ID_HELP, add_command, add_connection, add_machine, add_output
from cli.parser import Parsers

STATES = (
    "requested",
    "postponed",
    "planned",
    "running",
    "measured",
    "analyzed",
    "failed",
    "cancelled",
)
"""States of an evaluation, repeated here: `--help` does not load the contract's."""

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "evaluations": "what was measured, the newest first",
        "agents": "machines that run models",
        "models": "models of the catalog, and the agents that run them",
        "frameworks": "frameworks with their options and images",
        "datasets": "samples that models can be given",
        "scenarios": "how queries arrive",
        "hardware": "hardware that a request may require",
        "software": "software that a request may require",
    }
)
"""What `ls` lists, with a line on each kind."""


def add_listing(commands: Parsers) -> None:
    """Add `ls`."""
    listing = add_command(commands, "ls", "list evaluations, agents, models and other manifests")
    listing.add_argument(
        "kind", nargs="?", choices=tuple(KINDS), metavar="KIND", help=", ".join(KINDS)
    )
    add = listing.add_argument
    add(
        "search",
        nargs="?",
        default="",
        metavar="SEARCH",
        help="list only rows that contain this text",
    )
    add(
        "--framework",
        default="",
        metavar="NAME[:CONSTRAINT]",
        help="evaluations on this framework, e.g. 'onnxruntime:>=1.16'; models that run on it "
        "(a part of the name is enough)",
    )
    add = listing.add_argument_group("models").add_argument
    add("--task", default="", metavar="TASK", help="only models for this task, or a part of it")
    add("--runnable", action="store_true", help="only models that an agent here can open now")
    add = listing.add_argument_group("evaluations").add_argument
    add("--limit", type=int, metavar="N", help="list the newest N (default: 50)")
    add("--model", default="", metavar="NAME[:CONSTRAINT]", help="only evaluations of this model")
    add("--model-version", default="", metavar="CONSTRAINT", help="only these versions, e.g. '>=1'")
    add("--state", default="", choices=STATES, metavar="STATE", help=", ".join(STATES))
    add_machine(add, "only with a run on this agent")
    add(
        "--label",
        action="append",
        default=[],
        metavar="k=v",
        help="only with this label; repeatable",
    )
    add("--all", action="store_true", help="include predictions (`mlscope predict`, /try)")
    add_output(listing)
    add_connection(listing)


def add_reading(commands: Parsers) -> None:
    """Add `show`, `tables`, `analyze`, `watch`, `cancel`, `open` and `top`."""
    show = add_command(commands, "show", "show an evaluation, a model or an agent")
    show.add_argument("name", metavar="NAME", help="an evaluation's id, or a name in the catalog")
    show.add_argument(
        "--predictions", action="store_true", help="print the model's predictions of an evaluation"
    )
    show.add_argument(
        "--run", dest="of_run", default="", metavar="RUN", help="only the predictions of this run"
    )
    tables = add_command(commands, "tables", "print an evaluation's tables")
    tables.add_argument("evaluation", metavar="ID", help=ID_HELP)
    add = tables.add_argument
    add("names", nargs="*", metavar="TABLE", help="default: all")
    add("--run", dest="of_run", default="", metavar="RUN", help="only the rows of this run")
    add("--sort", default="", metavar="COLUMN", help="sort by it; --sort=-COLUMN: descending")
    add("--limit", type=int, default=0, metavar="N", help="only the first N rows (default: all)")
    add("--columns", default="", metavar="A,B,…", help="only these columns, in this order")
    analyze = add_command(commands, "analyze", "print the verdict of each analysis")
    analyze.add_argument("evaluation", metavar="ID", help=ID_HELP)
    analyze.add_argument(
        "names", nargs="*", metavar="A1|TABLE", help="print these tables, by number or name"
    )
    analyze.add_argument(
        "--plot",
        nargs="?",
        const="",
        metavar="FILE",
        help="draw the charts as bars in the terminal, or one chart into FILE (.svg, .png, .pdf)",
    )
    watch = add_command(commands, "watch", "follow an evaluation until it ends")
    watch.add_argument("evaluation", metavar="ID", help=ID_HELP)
    watch.add_argument("--events", action="store_true", help="print each event as a line of JSON")
    cancel = add_command(commands, "cancel", "cancel an evaluation now")
    cancel.add_argument("evaluation", metavar="ID", help=ID_HELP)
    cancel.add_argument("--reason", default="", metavar="TEXT", help="recorded with the evaluation")
    page = add_command(
        commands,
        "open",
        "open an evaluation's page, or the home page, in a browser, already logged in",
        function="open:open_page",
    )
    page.add_argument("evaluation", metavar="ID", nargs="?", default="", help=ID_HELP)
    page.add_argument("--trace", action="store_true", help="open the page of its trace")
    page.add_argument(
        "--run",
        dest="of_run",
        default="",
        metavar="RUN",
        help="with --trace: the trace of this run",
    )
    page.add_argument(
        "--print",
        dest="print_only",
        action="store_true",
        help="print a one-time login address, without opening a browser",
    )
    top = add_command(commands, "top", "show the agents and what is running now")
    top.add_argument("--once", action="store_true", help="print it once, for scripts")
    top.add_argument(
        "--every",
        type=float,
        default=1.0,
        metavar="S",
        help="refresh interval in seconds (default: 1)",
    )
    for parser in (show, tables, analyze):
        add_output(parser)
    for parser in (show, tables, analyze, watch, cancel, page, top):
        add_connection(parser)


def add_completion(commands: Parsers) -> None:
    """Add `completion`."""
    completion = add_command(commands, "completion", "print a shell script for Tab completion")
    completion.add_argument(
        "shell",
        choices=("bash", "zsh", "fish", "words"),
        metavar="SHELL",
        help="bash, zsh or fish; `words` is what their scripts call",
    )
    completion.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="WORD",
        help="for `words`: the arguments typed after `mlscope`, behind `--`",
    )
    add_connection(completion)
