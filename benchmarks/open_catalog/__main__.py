"""Opens each model of the catalog on this machine and lets it answer one sample.

`python -m benchmarks.open_catalog OUT [--device cpu|gpu] [--seconds 600] [--markdown FILE]`

OUT has a line of JSON for each model that was tried. A model with a line is not tried again, so
that the same command continues where the last one ended; `--again` tries those that failed. Each
model has a process of its own, which is killed beyond `--limit-s` or `--memory-gb`. Models that a
builder makes have random weights, so that nothing is downloaded for them (`--weights published`
fetches their weights instead); one short request to each host says whether their weights could be
fetched from here. The table (`--markdown`) names every model that does not answer, with its reason.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from benchmarks.open_catalog.children import Limits, tried
from benchmarks.open_catalog.conditions import conditions_here
from benchmarks.open_catalog.hosts import reachable_hosts
from benchmarks.open_catalog.models import Tried, models_of
from benchmarks.open_catalog.rows import Row, add_row, rows_in
from benchmarks.open_catalog.summary import summary_of
from mlscope.settings import Settings

GB = 1_000_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the models without a line; return how many have none or do not answer, at most 1."""
    options = _parser().parse_args(arguments)
    began = time.monotonic()
    models = models_of(Settings.read(os.environ).manifests_folder, options.device, options.weights)
    rows = rows_in(options.out)
    waiting = [
        model
        for model in models
        if options.only in model.name
        and model.framework not in options.without
        and (model.name not in rows or (options.again and not rows[model.name].answers))
    ]
    limits = Limits(options.limit_s, int(options.memory_gb * GB))

    def row_of(model: Tried) -> Row | None:
        return tried(model, limits) if time.monotonic() - began < options.seconds else None

    with ThreadPoolExecutor(options.at_once) as pool:
        try:
            for ended in as_completed([pool.submit(row_of, model) for model in waiting]):
                if row := ended.result():
                    add_row(options.out, row)
                    text = f"{row.seconds:6.1f} s  {row.model}  {row.reason or 'answers'}"
                    print(text, flush=True)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    rows = rows_in(options.out)
    conditions = conditions_here(options.device, options.weights)
    hosts = {} if options.offline else reachable_hosts(models)
    text = summary_of(models, rows, hosts, conditions)
    if options.markdown:
        options.markdown.write_text(text, "utf-8")
    print(text.partition("\n## ")[0])
    return int(any(model.name not in rows or not rows[model.name].answers for model in models))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="file of the lines")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--weights", choices=("random", "published"), default="random")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin none after")
    parser.add_argument("--limit-s", type=float, default=120.0, help="of one model")
    parser.add_argument("--memory-gb", type=float, default=4.0, help="of one model")
    parser.add_argument("--at-once", type=int, default=1, help="models at a time")
    parser.add_argument("--only", default="", help="models with this in their name")
    parser.add_argument("--without", nargs="*", default=(), help="frameworks to leave for later")
    parser.add_argument("--again", action="store_true", help="try those again that failed")
    parser.add_argument("--offline", action="store_true", help="ask no host of weights")
    parser.add_argument("--markdown", type=Path, help="file of the table")
    return parser


if __name__ == "__main__":
    sys.exit(main())
