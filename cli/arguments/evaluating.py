"""Commands that request measurements or compare results: run, predict, compare, reproduce."""

import argparse
from pathlib import Path

from cli.arguments.parts import (
    DEVICE_HELP,
    ID_HELP,
    MODEL_HELP,
    WAIT_HELP,
    add_command,
    add_connection,
    add_machine,
    add_output,
)
from cli.parser import Parsers

_EXPORT_FORMATS = (
    "log",
    "chrome",
    "perfetto",
    "speedscope",
    "otlp",
    "parquet",
    "flamegraph",
    "flow",
)


def add_run(commands: Parsers) -> None:
    """Add `run`."""
    parser = add_command(commands, "run", "evaluate a model and print the result")
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    add_request(parser)
    parser.add_argument(
        "--key", default="", metavar="TEXT", help="requests with the same key are one evaluation"
    )
    parser.add_argument("--detach", action="store_true", help="print the id and return at once")
    parser.add_argument(
        "--table", default="", metavar="NAME", help="print this table instead of the summary"
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with code 6 if a run or a table has caveats"
    )
    parser.add_argument("--quiet", action="store_true", help="print no progress")
    add_output(parser)
    add_connection(parser)


def add_request(parser: argparse.ArgumentParser) -> None:
    """Add the fields of a request to evaluate."""
    add = parser.add_argument_group("what to measure").add_argument
    add(
        "--scenario",
        action="append",
        default=[],
        metavar="NAME[:k=v,…]",
        help="how queries arrive, e.g. online or poisson:rate_hz=20; repeatable; `mlscope ls "
        "scenarios` lists them all",
    )
    add("--batch-size", default="", metavar="N,…", help="one or more sizes, e.g. 1,2,4")
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
        help="measure these levels only; e.g. none,model shows the overhead of tracing the model",
    )
    add(
        "--collector",
        action="append",
        default=[],
        metavar="NAME[=off|k=v,…]",
        help="configure a trace collector, e.g. perf=events=cycles+instructions; `mlscope doctor` "
        "lists them",
    )
    add(
        "--serialised",
        action="store_true",
        help="also measure with one thread, waiting for each kernel launch, as separate runs",
    )
    add(
        "--dataset",
        default="",
        metavar="NAME",
        help="a dataset's NAME[:CONSTRAINT], a manifest file, or ./FOLDER",
    )
    add("--warmup", type=int, metavar="N", help="number of warm-up queries, not counted")
    add(
        "--blocks",
        default="",
        metavar="LEAST[:MOST[:INTERVAL[:BUDGET]]]",
        help="when to stop: 3:10:0.02:60 measures 3 to 10 blocks, until the median is known to "
        "2%% or 60 s have passed; by default until the scenario's result is known to 5%%, "
        "within MLSCOPE_DEFAULT_BUDGET_S",
    )
    add(
        "--pacing",
        default="",
        choices=("auto", "local", "remote"),
        help="who issues the queries: the worker (local) or the scheduler (remote)",
    )
    add("--outputs", type=int, metavar="N", help="number of predictions to store for each run")
    add("--run-timeout", type=float, metavar="S", help="time limit of a run in seconds")
    add(
        "--label",
        action="append",
        default=[],
        metavar="k=v",
        help="label of the evaluation; repeatable",
    )
    add(
        "--visibility",
        choices=("cluster", "private"),
        default="",
        help="private: only you and owners see it (default: cluster)",
    )
    add = parser.add_argument_group("where to run it").add_argument
    add("--framework", default="", metavar="NAME[:CONSTRAINT]", help="e.g. 'onnxruntime:>=1.16'")
    add(
        "--option",
        action="append",
        default=[],
        metavar="k=v",
        help="option of the predictor, e.g. threads=2; repeatable",
    )
    add_machine(add, "run only on this agent")
    add(
        "--all-agents",
        action="store_true",
        help="run on every suitable agent, each on the first of the model's frameworks that it has",
    )
    add("--wait", type=float, metavar="S", help=WAIT_HELP)


def add_answers(commands: Parsers) -> None:
    """Add `predict` and `compare`."""
    _add_predict(commands)
    _add_compare(commands)


def _add_predict(commands: Parsers) -> None:
    predict = add_command(commands, "predict", "print a model's predictions for files")
    add = predict.add_argument
    add("model", metavar="MODEL", help=MODEL_HELP)
    add("files", nargs="+", type=Path, metavar="FILE", help="input for the model's first step")
    add(
        "--top",
        type=int,
        default=5,
        metavar="N",
        help="predictions per file (default: 5); JSON has all",
    )
    add("--framework", default="", metavar="NAME[:CONSTRAINT]", help="e.g. onnxruntime")
    add(
        "--option",
        action="append",
        default=[],
        metavar="k=v",
        help="option of the predictor; repeatable",
    )
    add("--agent", action="append", default=[], metavar="ID", help="only this agent; repeatable")
    add("--device", default="", metavar="NAME", help=DEVICE_HELP)
    add("--wait", type=float, metavar="S", help=WAIT_HELP)
    add(
        "--visibility",
        choices=("cluster", "private"),
        default="private",
        help="cluster: everybody sees the files and the answers (default: private, only you and "
        "owners)",
    )
    add_output(predict)
    add_connection(predict)


def _add_compare(commands: Parsers) -> None:
    compare = add_command(
        commands,
        "compare",
        "compare two evaluations' predictions for the same samples, or the figures of several",
    )
    add = compare.add_argument
    add("first", metavar="ID[/RUN]", help="an evaluation's id, or one of its runs")
    add("second", metavar="ID[/RUN]", help="what to compare it with")
    add("others", nargs="*", metavar="ID", help="with more than two, compare figures side by side")
    add("--samples", action="store_true", help="also print the measures of each sample")
    add(
        "--figures",
        action="store_true",
        help="compare latency, throughput, accuracy and cost of two evaluations, too",
    )
    add(
        "--only",
        action="append",
        default=[],
        metavar="TABLE",
        help="print only this table; repeatable",
    )
    add(
        "--price",
        action="append",
        default=[],
        metavar="AGENT=DOLLARS",
        help="price of an hour on an agent; repeatable",
    )
    add("--latency-ms", type=float, metavar="MS", help="target: maximum latency of a query")
    add(
        "--cost", type=float, metavar="DOLLARS", help="target: maximum cost of a million inferences"
    )
    add("--accuracy", type=float, metavar="SHARE", help="target: minimum accuracy")
    add(
        "--report",
        type=Path,
        metavar="FILE",
        help="write the figures to FILE.html instead: verdicts, charts, tables, conditions",
    )
    add_output(compare)
    add_connection(compare)


def add_repeating(commands: Parsers) -> None:
    """Add `report`, `export` and `reproduce`."""
    report = add_command(
        commands, "report", "write an evaluation's report: one HTML file, or a zip with its tables"
    )
    report.add_argument("evaluation", metavar="ID", help=ID_HELP)
    report.add_argument(
        "-o", "--out", type=Path, required=True, metavar="FILE", help="FILE.html or FILE.zip"
    )
    add_connection(report)
    export = add_command(commands, "export", "write an evaluation to a file")
    export.add_argument("evaluation", metavar="ID", help=ID_HELP)
    export.add_argument("-o", "--out", type=Path, metavar="FILE", help="default: standard output")
    export.add_argument(
        "--format",
        default="log",
        choices=_EXPORT_FORMATS,
        metavar="FORMAT",
        help="log (default): the reference log for `mlscope reproduce`; chrome, perfetto, "
        "speedscope, otlp, parquet, flamegraph: the spans of a run; flow: the evaluation's facts",
    )
    export.add_argument(
        "--run",
        dest="of_run",
        default="",
        metavar="RUN",
        help="run of the spans (default: the run with the deepest trace)",
    )
    export.add_argument(
        "--limit",
        type=int,
        default=1_000_000,
        metavar="N",
        help="write the first N spans (default: 1000000, about 1 GB of memory); 0: all",
    )
    reproduce = add_command(
        commands, "reproduce", "repeat an exported evaluation and print the differences"
    )
    add = reproduce.add_argument
    add("file", type=Path, metavar="FILE", help="reference log, written by `mlscope export`")
    add("--agent", action="append", default=[], metavar="ID", help="only this agent; repeatable")
    add("--wait", type=float, metavar="S", help=WAIT_HELP)
    add("--out", type=Path, metavar="FILE", help="also write the new evaluation's reference log")
    add(
        "--strict",
        action="store_true",
        help="exit with code 3 unless all predictions were compared and are equal",
    )
    add("--quiet", action="store_true", help="print no progress")
    add_output(reproduce)
    for parser in (export, reproduce):
        add_connection(parser)
