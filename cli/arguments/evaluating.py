"""Commands that ask for work or look at its answers: run, predict, compare, reproduce."""

import argparse
from collections.abc import Callable
from pathlib import Path

from cli.arguments.parts import Parsers, add_machine, asks, command, prints


def add_run(commands: Parsers) -> None:
    """Add `run`."""
    parser = command(commands, "run", "evaluate", "evaluate a model and print the result")
    parser.add_argument("model", metavar="MODEL", help="name[:constraint], or a manifest's file")
    add_request(parser)
    parser.add_argument("--key", default="", metavar="TEXT", help="same key, same evaluation")
    parser.add_argument("--detach", action="store_true", help="print the id and return at once")
    parser.add_argument("--table", default="", metavar="NAME", help="print it, not the summary")
    parser.add_argument("--strict", action="store_true", help="caveats end with exit code 6")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    prints(parser)
    asks(parser)


def add_request(parser: argparse.ArgumentParser) -> None:
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
    _add_tracing(add)
    add("--dataset", default="", metavar="NAME", help="name[:constraint], a manifest, or ./FOLDER")
    add("--warmup", type=int, metavar="N", help="queries before measuring")
    add(
        "--blocks",
        default="",
        metavar="LEAST[:MOST[:INTERVAL[:BUDGET]]]",
        help="stop rule: 3:10:0.02:60 is 3 to 10 blocks, until the median is known to 2 %% or "
        "60 s have passed",
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


def _add_tracing(add: Callable[..., object]) -> None:
    add(
        "--trace-level",
        default="",
        metavar="LEVEL",
        help="none, application, model (default), framework, library, system, hardware, full",
    )
    add(
        "--levels",
        default="",
        metavar="LEVEL,…",
        help="run these alone, e.g. none,model: what tracing at level model costs",
    )
    add(
        "--collector",
        action="append",
        default=[],
        metavar="NAME[=off|k=v,…]",
        help="switch a collector of traces, e.g. perf=events=cycles+instructions; see doctor",
    )
    add(
        "--serialised",
        action="store_true",
        help="once more with one thread and each launch waited for, apart from the rest",
    )


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
    add_machine(add, "only this one")
    add("--all-agents", action="store_true", help="on every agent that fits, not on one")
    add("--wait", type=float, metavar="S", help="seconds to wait for an agent that fits")


def add_answers(commands: Parsers) -> None:
    """Add `predict` and `compare`."""
    parser = command(commands, "predict", "predict", "ask an agent what a model answers to files")
    add = parser.add_argument
    add("model", metavar="MODEL", help="name[:constraint], or a manifest's file")
    add("files", nargs="+", type=Path, metavar="FILE", help="as the model's first step takes it")
    add("--top", type=int, default=5, metavar="N", help="lines a file (5); JSON has all")
    add("--framework", default="", metavar="NAME[:CONSTRAINT]", help="e.g. onnxruntime")
    add("--option", action="append", default=[], metavar="k=v", help="of the predictor; repeatable")
    add("--agent", action="append", default=[], metavar="ID", help="only this one; repeatable")
    add("--device", default="", metavar="NAME", help="cpu, cuda, …")
    add("--wait", type=float, metavar="S", help="seconds to wait for an agent that fits")
    likeness = command(
        commands,
        "compare",
        "compare",
        "compare two evaluations' answers to the same samples, or the figures of several",
    )
    _add_comparing(likeness)
    for each in (parser, likeness):
        prints(each)
        asks(each)


def _add_comparing(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("first", metavar="ID[/RUN]")
    add("second", metavar="ID[/RUN]")
    add("others", nargs="*", metavar="ID", help="more than two: their figures side by side")
    add("--samples", action="store_true", help="each sample's measures, too")
    add("--figures", action="store_true", help="latency, throughput, accuracy, cost: of two, too")
    add("--only", action="append", default=[], metavar="TABLE", help="of figures; repeatable")
    add(
        "--price",
        action="append",
        default=[],
        metavar="AGENT=DOLLARS",
        help="of an agent's hour; repeatable",
    )
    add("--latency-ms", type=float, metavar="MS", help="target: a query's latency at most")
    add("--cost", type=float, metavar="DOLLARS", help="target: a million inferences at most")
    add("--accuracy", type=float, metavar="SHARE", help="target: accuracy at least")


def add_repeating(commands: Parsers) -> None:
    """Add `export` and `reproduce`."""
    export = command(commands, "export", "reproducing", "write an evaluation as one file")
    export.add_argument("evaluation", metavar="ID")
    export.add_argument("-o", "--out", type=Path, metavar="FILE", help="default: standard output")
    export.add_argument(
        "--format",
        default="log",
        choices=(
            *("log", "chrome", "perfetto", "speedscope", "otlp", "parquet", "flamegraph"),
            "flow",
        ),
        metavar="FORMAT",
        help="log (to reproduce it); of a run's spans chrome, perfetto, speedscope, otlp, parquet,"
        " flamegraph; or flow, its facts",
    )
    export.add_argument("--run", dest="of_run", default="", help="default: the one traced deepest")
    export.add_argument(
        "--limit",
        type=int,
        default=1_000_000,
        metavar="N",
        help="spans at most, the first ones (default: 1000000, about 1 GB of memory); 0: all",
    )
    again = command(commands, "reproduce", "reproducing", "run such a file again: what differs?")
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
    prints(again)
    for each in (export, again):
        asks(each)
