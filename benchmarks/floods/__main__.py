"""What a flood does to a cluster, and how soon refusals push older lines out of the broker's log.

`python -m benchmarks.floods [--rounds 3] [--seconds 30] [--repeats 3] [--keep NAME]`

Messages: a local cluster as `mlscope up` starts it, quiet and flooded in turns. A viewer floods it
with messages of 256 KiB over 8 connections on `tables`, and a requester with messages of 8 MiB over
16, as many as their keys may have, on one command after the other and on uploads. They are zeros,
and ask for no answer. Meanwhile every service gets the supervisor's health check every 0.2 s,
another viewer sends one command each of registry, scheduler and analyzer as often, and the
cluster's user evaluates a model whose load lasts as long as the flood. Printed are the longest
times without an answer, how soon after the flood all was answered again, and what became of the
services' connections. The first flood of uploads fills their store, which refuses the later ones.
Claims: no process is restarted, every evaluation is analyzed, and none of its rows is lost.

Refusals: a broker of its own, which one process has refuse wrong keys or subjects until the oldest
line is gone from its log. Everything is on loopback; the floods share the cores with the cluster.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from statistics import median

from benchmarks.claims import claim
from benchmarks.cluster import new_folder, running
from benchmarks.floods.refusals import KINDS, PushedOut, push_out
from benchmarks.floods.rounds import FLOODS, Flooded, Round, run_round
from benchmarks.timing import keeping


def flooded(rounds: int, length_s: float) -> list[Round]:
    """Return what quiet and each flood did, `rounds` times in turns of `length_s` seconds."""
    measured_rounds: list[Round] = []
    with new_folder() as folder, running(folder, MLSCOPE_DEFAULT_BUDGET_S="0"):
        cluster = Flooded(folder)
        for number in range(rounds):
            for flood in FLOODS:
                measured_rounds.append(run_round(cluster, flood, length_s))
                print(f"round {number + 1}: {measured_rounds[-1]}", file=sys.stderr, flush=True)
    return measured_rounds


def table_of(rounds: Sequence[Round]) -> str:
    """Return the rounds as a table: a column for each flood, with medians and the worst."""
    floods = list(dict.fromkeys(measured.flood for measured in rounds))
    of_flood = {
        flood: [measured for measured in rounds if measured.flood == flood] for flood in floods
    }

    def row(name: str, figure: Callable[[Round], float], digits: int = 1) -> list[str]:
        figures = [[figure(measured) for measured in of_flood[flood]] for flood in floods]
        return [name, *(f"{median(own):.{digits}f} ({max(own):.{digits}f})" for own in figures)]

    def gap_of(question: str) -> Callable[[Round], float]:
        return lambda measured: measured.gaps_s[question]

    rows = [
        ["median (most)", *floods],
        row("sent, MiB/s", lambda measured: measured.sent_mib_s, 0),
        ["longest time without an answer, s"],
        *(row(f"  {question}", gap_of(question)) for question in rounds[0].gaps_s),
        row("all answer again after, s", lambda measured: measured.again_s),
        row("connections that the broker ended", lambda measured: measured.slow_consumers, 0),
        row("services' reconnections", lambda measured: measured.reconnections, 0),
        row("broker's memory, MiB", lambda measured: measured.broker_mib, 0),
        row("processes restarted", lambda measured: measured.restarts, 0),
        row("evaluations not analyzed", lambda measured: measured.state != "analyzed", 0),
        row("their rows lost", lambda measured: measured.lost_rows, 0),
        row("their queries unanswered", lambda measured: measured.unanswered, 0),
    ]
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines; a row of one cell is a heading, however wide."""
    cells = [row for row in rows if len(row) > 1]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=False))
        ).rstrip()
        for row in rows
    )


def refusals_of(measured: dict[str, list[PushedOut]]) -> str:
    """Return what pushed all lines out of a log as a table, by kind of refusal: medians."""
    rows = [["refused", "bytes each", "refusals", "seconds"]]
    for kind, repeats in measured.items():
        bytes_each = median(repeat.bytes_each for repeat in repeats)
        refusals = median(repeat.refusals for repeat in repeats)
        times_s = [repeat.took_s for repeat in repeats]
        took = f"{median(times_s):.1f} ({min(times_s):.1f} … {max(times_s):.1f})"
        rows.append([kind, f"{bytes_each:,.0f}", f"{refusals:,.0f}", took])
    return aligned(rows)


def pushed_out(repeats: int) -> dict[str, list[PushedOut]]:
    """Return what it took to push all lines out of a log, by kind of refusal, `repeats` times."""
    measured: dict[str, list[PushedOut]] = {kind: [] for kind in KINDS}
    for _ in range(repeats):
        for kind, repeated in measured.items():
            with new_folder() as folder:
                repeated.append(push_out(folder, kind))
    return measured


def missed_by(rounds: Sequence[Round]) -> int:
    """Return how many claims the rounds miss."""
    unfinished = sum(measured.state != "analyzed" for measured in rounds)
    lost, restarts = (
        sum(getattr(measured, name) for measured in rounds) for name in ("lost_rows", "restarts")
    )
    return (
        (not claim("flooded: processes restarted", restarts, most=0, unit="processes"))
        + (not claim("flooded: evaluations not analyzed", unfinished, most=0, unit="evaluations"))
        + (not claim("flooded: rows lost", lost, most=0, unit="rows"))
    )


def main() -> int:
    """Measure and print; return how many claims were missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of quiet and every flood")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each flood")
    parser.add_argument("--repeats", type=int, default=3, help="of each kind of refusal")
    parser.add_argument("--keep", default="", metavar="NAME", help="write results/NAME.txt too")
    options = parser.parse_args()
    with keeping(options.keep, is_wanted=bool(options.keep)):
        print("All lines pushed out of the broker's log by one process")
        print(refusals_of(pushed_out(options.repeats)), end="\n\n")
        rounds = flooded(options.rounds, options.seconds)
        print(f"{options.rounds} rounds of {options.seconds:g} s: quiet, a viewer's, a requester's")
        print(table_of(rounds))
        return missed_by(rounds)


if __name__ == "__main__":
    sys.exit(main())
