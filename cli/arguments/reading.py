"""Commands that read: ls, show, tables, analyze, watch; and cancel."""

from cli.arguments.parts import Parsers, add_machine, asks, command, prints

STATES = (
    *("requested", "postponed", "planned", "running"),
    *("measured", "analyzed", "failed", "cancelled"),
)
"""States of an evaluation; the contract's own are not loaded for `--help`."""


def add_listing(commands: Parsers) -> None:
    """Add `ls`."""
    listing = command(commands, "ls", "listing", "list what there is")
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
    add_machine(add, "with a run on this one")
    add("--label", action="append", default=[], metavar="k=v", help="with this note; repeatable")
    prints(listing)
    asks(listing)


def add_reading(commands: Parsers) -> None:
    """Add `show`, `tables`, `analyze`, `watch` and `cancel`."""
    show = command(commands, "show", "reading", "show an evaluation, a model or an agent")
    show.add_argument("name", metavar="NAME", help="an evaluation's id, or a name of the catalog")
    show.add_argument(
        "--predictions", action="store_true", help="of an evaluation: what the model answered"
    )
    show.add_argument(
        "--run", dest="of_run", default="", metavar="RUN", help="predictions of this run alone"
    )
    tables = command(commands, "tables", "reading", "print an evaluation's tables")
    tables.add_argument("evaluation", metavar="ID")
    tables.add_argument("names", nargs="*", metavar="TABLE", help="these only")
    analyze = command(commands, "analyze", "analyzing", "say what an evaluation's analyses found")
    analyze.add_argument("evaluation", metavar="ID")
    analyze.add_argument(
        "names", nargs="*", metavar="A1|TABLE", help="print these, by number or name"
    )
    watch = command(commands, "watch", "evaluate", "follow an evaluation until it ends")
    watch.add_argument("evaluation", metavar="ID")
    watch.add_argument("--events", action="store_true", help="print every step as a line of JSON")
    cancel = command(commands, "cancel", "evaluate", "end an evaluation now")
    cancel.add_argument("evaluation", metavar="ID")
    cancel.add_argument("--reason", default="", metavar="TEXT", help="kept in its record")
    for parser in (show, tables, analyze):
        prints(parser)
    for parser in (show, tables, analyze, watch, cancel):
        asks(parser)
