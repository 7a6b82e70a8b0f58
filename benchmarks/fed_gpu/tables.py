"""What was measured, as tables: figures beside what is wanted of them, cases, rates and peers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from benchmarks.decoded_on_gpu import bound
from benchmarks.fed_gpu import peers
from benchmarks.fed_gpu.parts import DECODING, PEERS, PREPARATION
from benchmarks.feeding_gpu import AHEAD, FREE, ONLINE, STREAMED
from benchmarks.preparation import ALONE, FAST, OURS
from mlscope.statistics import percentile_interval

Figures = Mapping[str, Any]
HEAD = (
    "model, batch",
    "bare (ms)",
    "predict (ms)",
    "predict / bare",
    "ahead (1/s)",
    "ahead / two bare in flight",
    "kappa",
    "preparation alone (1/s)",
    "streamed (1/s)",
    "streamed / bound",
)
AHEAD_CASE, AHEAD_PER_S = "resnet50 bfloat16 256", 14_000
PREPARED_PER_S, NATIVE_PER_S, DECODED_PER_S = 2_200, 3_500, 10_000
PER_CORE = 0.9


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Return paired ratios."""
    return [float(ratio) for ratio in np.asarray(above) / np.asarray(below)]


def with_range(values: Sequence[float]) -> str:
    """Return the median with its range of order statistics at 95 %."""
    interval = percentile_interval(values, 0.5)
    low = min(values) if interval.low is None else interval.low
    high = max(values) if interval.high is None else interval.high
    return f"{median(values):.3f} ({low:.3f} .. {high:.3f})"


def predict_over_bare(case: Figures) -> list[float]:
    """Return the ratios of blocks of the run with one call in flight."""
    return ratios(case["predict_ms"][ONLINE], case["bare_ms"][ONLINE])


def ahead_over_bare(case: Figures) -> list[float]:
    """Return the ratios of throughput to two bare calls in flight."""
    bare_per_s = [case["batch_size"] / ms * 1e3 for ms in case["bare_two_ms"][AHEAD]]
    return ratios(case["samples_per_s"][AHEAD], bare_per_s)


def kappa(case: Figures, streamed: str = STREAMED, ahead: str = ONLINE) -> list[float]:
    """Return the ratios of predict while `streamed` to predict `ahead`, of calls made one by one.

    In both the thread that predicts is kept on one core, unless the runs are others.
    """
    by_run = case["one_by_one_ms"]
    return ratios(by_run[streamed], by_run[ahead])


def streamed_over_bound(case: Figures) -> list[float]:
    """Return the ratios of throughput to the lower rate of preparation and the model."""
    prepared_per_s = median(case["preparation_per_s"])
    bounds = [min(prepared_per_s, rate) for rate in case["samples_per_s"][AHEAD]]
    return ratios(case["samples_per_s"][STREAMED], bounds)


def is_streamed(case: Figures) -> bool:
    """Whether a case has a streamed run."""
    return STREAMED in case["samples_per_s"]


def case_row(case: Figures) -> list[str]:
    """Return the cells of a case."""
    cells = [
        case["case"],
        f"{median(case['bare_ms'][ONLINE]):.2f}",
        f"{median(case['predict_ms'][ONLINE]):.2f}",
        with_range(predict_over_bare(case)),
        f"{median(case['samples_per_s'][AHEAD]):.0f}",
        with_range(ahead_over_bare(case)),
    ]
    if not is_streamed(case):
        return [*cells, "", "", "", ""]
    return [
        *cells,
        with_range(kappa(case)),
        f"{median(case['preparation_per_s']):.0f}",
        f"{median(case['samples_per_s'][STREAMED]):.0f}",
        with_range(streamed_over_bound(case)),
    ]


def cores_table(cases: Sequence[Figures]) -> str:
    """Return kappa by where the thread that predicts may run, and the times behind it."""
    rows = [
        [
            case["case"],
            ",".join(map(str, case["predict_cores"])) or "none",
            _loop_text(case),
            with_range(kappa(case)),
            with_range(kappa(case, STREAMED + FREE, ONLINE + FREE)),
            with_range(kappa(case, STREAMED, ONLINE + FREE)),
            *(
                f"{median(case['one_by_one_ms'][run]):.2f}"
                for run in (ONLINE, ONLINE + FREE, STREAMED, STREAMED + FREE)
            ),
        ]
        for case in cases
    ]
    times = ("ahead kept (ms)", "ahead free (ms)", "streamed kept (ms)", "streamed free (ms)")
    kappas = ("kappa, kept in both", "free in both", "kept while streamed alone")
    return table(("model, batch", "core", "a loop there, on all (ms)", *kappas, *times), rows)


def _loop_text(case: Figures) -> str:
    """Return how long a loop of Python takes on a case's own core, and on the others."""
    by_core = case["loop_ms"]
    own = [f"{by_core[str(core)]:.2f}" for core in case["predict_cores"][:1]]
    return f"{own[0] if own else '-'} ({min(by_core.values()):.2f} .. {max(by_core.values()):.2f})"


def cases_of(parts: Mapping[str, Figures]) -> list[Figures]:
    """Return the measured cases among the `parts`: a model, a precision and a batch size each."""
    return [part for name, part in parts.items() if name not in (PREPARATION, DECODING, PEERS)]


def wanted_rows(parts: Mapping[str, Figures]) -> list[list[str]]:
    """Return a row for each figure that is wanted: its worst value over the cases, or its own."""
    cases = cases_of(parts)
    streamed = [case for case in cases if is_streamed(case)]
    rows = [
        _worst("predict ahead / bare", cases, predict_over_bare, most=1.02),
        _worst("kappa: predict streamed / ahead", streamed, kappa, most=1.02),
        _worst("throughput ahead / bare", cases, ahead_over_bare, least=0.98),
        _worst("throughput streamed / bound", streamed, streamed_over_bound, least=0.95),
    ]
    rows += [
        _figure(f"{AHEAD_CASE}, ahead (1/s)", case["samples_per_s"][AHEAD], AHEAD_PER_S)
        for case in cases
        if case["case"] == AHEAD_CASE
    ]
    if preparation := parts.get(PREPARATION):
        together = preparation["together_per_s"]
        processes = f"{preparation['processes']} processes (1/s)"
        over = preparation["over_calls_alone"]
        rows += [
            _figure("preparation per core / the libraries' calls", over, PER_CORE),
            _figure(f"preparation, bit for bit, {processes}", [together[OURS]], PREPARED_PER_S),
        ]
        if FAST in together:
            rows.append(
                _figure(f"preparation, native, {processes}", [together[FAST]], NATIVE_PER_S)
            )
    if decoding := parts.get(DECODING):
        turns = decoding["per_s"].get("device", [])
        if values := [turn["prepared"] for turn in turns]:
            rows.append(_figure("preparation, decoded by the GPU (1/s)", values, DECODED_PER_S))
    return rows


def _worst(
    text: str,
    cases: Sequence[Figures],
    figure: Callable[[Figures], list[float]],
    *,
    most: float | None = None,
    least: float | None = None,
) -> list[str]:
    """Return the row of a ratio: its worst case, how many cases meet what is wanted."""
    medians = {case["case"]: median(figure(case)) for case in cases}
    if not medians:
        return [text, "", "not measured", ""]
    if most is not None:
        limit, name = f"≤ {most:g}", max(medians, key=lambda case: medians[case])
        missed = sum(value > most for value in medians.values())
    else:
        limit, name = f"≥ {least:g}", min(medians, key=lambda case: medians[case])
        missed = sum(value < (least or 0.0) for value in medians.values())
    verdict = f"missed by {missed} of {len(medians)}" if missed else "met by all"
    return [text, limit, f"{medians[name]:.3f} ({name})", verdict]


def _figure(text: str, values: Sequence[float], least: float) -> list[str]:
    """Return the row of a figure: its median and range."""
    middle = median(values)
    shown = "{:,.0f}" if least > 1 else "{:.2f}"
    bounds = f" ({shown} .. {shown})".format(min(values), max(values)) if len(values) > 1 else ""
    verdict = "met" if middle >= least else "missed"
    return [text, f"≥ {shown.format(least)}", shown.format(middle) + bounds, verdict]


def preparation_table(preparation: Figures) -> str:
    """Return the rates of preparing processes, by way."""
    processes = preparation["processes"]
    rows = [
        [
            {ALONE: "the libraries' calls alone"}.get(way, way),
            f"{preparation['alone_per_s'][way]:.0f}",
            f"{rate:.0f}",
            f"{rate / preparation['alone_per_s'][way] / processes:.2f}",
        ]
        for way, rate in preparation["together_per_s"].items()
    ]
    head = ("way", "1 process (1/s)", f"{processes} processes (1/s)", "share of so many times 1")
    return table(head, rows)


def decoding_table(decoding: Figures) -> str:
    """Return the rates of pictures decoded by processes and by the GPU."""
    rows = []
    for place, turns in decoding["per_s"].items():
        for row in turns:
            rates = [f"{row[name]:.0f}" for name in ("prepared", "ahead", "streamed")]
            over_lower = row["streamed"] / min(row["prepared"], row["ahead"])
            over_bound = row["streamed"] / bound(place, row["prepared"], row["ahead"])
            rows.append([place, *rates, f"{over_lower:.3f}", f"{over_bound:.3f}"])
    head = ("decode", "prepared alone (1/s)", "ahead (1/s)", "streamed (1/s)", "streamed / lower")
    return table((*head, "streamed / bound"), rows)


def peers_table(contest: Figures) -> str:
    """Return the rates of all that feed or call the same model."""
    rates = contest["per_s"]
    bare = rates[peers.TWO]
    rows = [
        [name, f"{median(values):.0f}", with_range(ratios(values, bare))]
        for name, values in rates.items()
    ]
    return table(("contestant", "samples/s", "over two bare calls in flight"), rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows as a table of Markdown."""
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def page(parts: Mapping[str, Figures], names: Sequence[str]) -> str:
    """Return all tables of the measured `parts`, and which of the `names` are not measured."""
    cases = cases_of(parts)
    blocks = [
        conditions(parts),
        table(("what", "wanted", "measured", ""), wanted_rows(parts)),
        table(HEAD, [case_row(case) for case in cases]),
    ]
    apart = [case for case in cases if STREAMED + FREE in case["one_by_one_ms"]]
    if apart:
        blocks += ["The thread that predicts, on one core or free to move:", cores_table(apart)]
    if preparation := parts.get(PREPARATION):
        blocks += [f"{preparation['photographs']} photographs:", preparation_table(preparation)]
    if decoding := parts.get(DECODING):
        blocks += [f"{decoding['case']}, decoded:", decoding_table(decoding)]
        blocks += [f"- {note}" for note in decoding["notes"]]
    if contest := parts.get(PEERS):
        workers = f"{contest['workers']} workers"
        blocks += [f"{contest['case']}, peers, {workers}:", peers_table(contest)]
    if absent := [name for name in names if name not in parts]:
        blocks.append(f"Not measured: {', '.join(absent)}")
    return "\n\n".join(blocks) + "\n"


def conditions(parts: Mapping[str, Figures]) -> str:
    """Return on which machines, at which commits and when the parts were measured."""
    names: dict[str, list[str]] = {}
    for name, part in parts.items():
        names.setdefault(part["machine"], []).append(name)
    return "\n".join(f"{machine}: {', '.join(parts)}." for machine, parts in names.items())
