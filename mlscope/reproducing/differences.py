"""Differences between a reference log and a repeated run: machine, versions, numbers, answers.

Runs are paired by scenario, level and batch size, in their order. Performance is compared by its
ratio and by the intervals at 95 %: where they overlap, these runs show no difference. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

from mlscope.quantities import shown
from mlscope.reproducing.logs import MOST_ANSWERS
from schemas.reference import ReferenceAnswer, ReferenceLog, ReferenceMachine, ReferenceRun

_CONDITIONS = (
    "framework",
    "device",
    "provider",
    "precision",
    "threads",
    "options",
    "seed",
    "parameters",
    "dataset",
    "model",
    "checksums",
    "mlscope_version",
    "python_version",
)
_FIGURES = (
    ("latency", "median"),
    ("latency", "p90"),
    ("latency", "p99"),
    ("latency", "service_median"),
    ("throughput", "samples_per_s"),
)
"""Compared figures: table and column."""
_UNITS: Mapping[str, str] = MappingProxyType({"latency": "ns", "throughput": "1/s"})
IDENTICAL = "identical"
SAME, NOT_SAME, NOT_COMPARED = "the same", "not the same", "not compared"


@dataclass(frozen=True, slots=True)
class Difference:
    """One comparison; `aspect` is hardware, software, conditions, performance or predictions."""

    aspect: str
    #: the run or the agent
    subject: str
    name: str
    before: str
    now: str
    note: str = ""
    is_same: bool = False
    is_compared: bool = True
    #: `before` and `now` for people, with units, where that is another text
    with_units: tuple[str, str] | None = None


def verdict_on_predictions(comparisons: Iterable[Difference]) -> str:
    """Return `SAME` if every run was paired and its answers were compared and equal.

    `NOT_SAME` where some answers differ, `NOT_COMPARED` where a run has no answers to compare.
    """
    on_answers = [item for item in comparisons if item.aspect in ("predictions", "runs")]
    compared = [item for item in on_answers if item.is_compared]
    if any(not item.is_same for item in compared):
        return NOT_SAME
    return SAME if compared and len(compared) == len(on_answers) else NOT_COMPARED


def differences(before: ReferenceLog, now: ReferenceLog) -> list[Difference]:
    """Return the differing machines and conditions, and every compared figure and answer."""
    pairs = list(paired(before, now))
    comparisons = list(machine_differences(before, now))
    for old, new in pairs:
        values = [
            *((name, old.conditions.get(name), new.conditions.get(name)) for name in _CONDITIONS),
            ("state", old.state, new.state),
        ]
        comparisons += (
            Difference("conditions", old.run, name, str(value), str(new_value))
            for name, value, new_value in values
            if value != new_value
        )
    if len(pairs) < len(before.runs):
        counts = str(len(before.runs)), str(len(pairs))
        comparisons.append(Difference("runs", "", "paired", *counts))
    for old, new in pairs:
        comparisons += performance_comparisons(old, new)
    comparisons += accuracy_comparisons(before, now)
    for old, new in pairs:
        answers = _answers_of_run(before, old.run), _answers_of_run(now, new.run)
        comparison = _compare_predictions(old, new, *answers)
        unkept = _unkept_note(before, old, len(answers[0])) or _unkept_note(
            now, new, len(answers[1])
        )
        note = "; ".join(filter(None, (comparison.note, unkept)))
        comparisons.append(replace(comparison, note=note))
    return comparisons


def paired(before: ReferenceLog, now: ReferenceLog) -> Iterator[tuple[ReferenceRun, ReferenceRun]]:
    """Yield each run with the same run of the other log, where there is one."""
    unpaired = list(now.runs)
    for old in before.runs:
        load = (old.scenario, old.level, old.batch_size)
        same = (run for run in unpaired if (run.scenario, run.level, run.batch_size) == load)
        new = next(same, None)
        if new is not None:
            unpaired.remove(new)
            yield old, new


def machine_differences(before: ReferenceLog, now: ReferenceLog) -> Iterator[Difference]:
    """Yield the differences of machines, which are paired in their order."""
    counts = len(before.machines), len(now.machines)
    if counts[0] != counts[1]:
        yield Difference("hardware", "", "machines", str(counts[0]), str(counts[1]))
    for old, new in zip_longest(before.machines, now.machines):
        if old is None or new is None:
            agents = (old.agent, "none") if new is None else ("none", new.agent)
            yield Difference("hardware", " / ".join(agents), "machine", *agents)
            continue
        for aspect in ("hardware", "software"):
            old_values, new_values = _manifest_values(old, aspect), _manifest_values(new, aspect)
            names = dict.fromkeys((*old_values, *new_values))
            changed = [name for name in names if old_values.get(name) != new_values.get(name)]
            for name in changed:
                values = (str(old_values.get(name, "")), str(new_values.get(name, "")))
                yield Difference(aspect, f"{old.agent} / {new.agent}", name, *values)


def _manifest_values(machine: ReferenceMachine, aspect: str) -> dict[str, Any]:
    """Return the values of a machine's hardware or software manifest by path."""
    manifest = getattr(machine, aspect)
    return _values_by_path(manifest.model_dump(mode="json", exclude={"kind", "name", "version"}))


def _values_by_path(value: Any, path: str = "") -> dict[str, Any]:
    """Return the plain values of nested maps and lists by path, without empty ones."""
    if isinstance(value, Mapping):
        items = ((str(name), item) for name, item in value.items())
    elif isinstance(value, list | tuple):
        items = ((str(number), item) for number, item in enumerate(value))
    else:
        return {path: value} if value not in ("", None) else {}
    by_path: dict[str, Any] = {}
    for name, item in items:
        by_path |= _values_by_path(item, f"{path}.{name}" if path else name)
    return by_path


def performance_comparisons(old: ReferenceRun, new: ReferenceRun) -> Iterator[Difference]:
    """Yield each figure of both runs with their ratio; equal if the intervals overlap."""
    for table, name in _FIGURES:
        old_row, new_row = getattr(old, table), getattr(new, table)
        before, now = old_row.get(name), new_row.get(name)
        if before is None or now is None or not before:
            continue
        first, second = _interval(old_row, name), _interval(new_row, name)
        note = f"ratio {now / before:.3f}"
        is_same = False
        if first and second:
            is_same = first[0] <= second[1] and second[0] <= first[1]
            note += ", the intervals overlap" if is_same else ", the intervals do not overlap"
        unit = _UNITS[table]
        readable = _figure_with_unit(before, first, unit), _figure_with_unit(now, second, unit)
        yield Difference(
            "performance",
            old.run,
            f"{table} {name}",
            _plain_figure(before, first),
            _plain_figure(now, second),
            note,
            is_same,
            with_units=readable,
        )


def accuracy_comparisons(before: ReferenceLog, now: ReferenceLog) -> Iterator[Difference]:
    """Compare each metric of each batch size, whatever the sessions are called."""
    rows = {(row.get("batch_size"), row.get("metric")): row for row in now.accuracy}
    for old in before.accuracy:
        new = rows.get((old.get("batch_size"), old.get("metric")))
        values = _accuracy_text(old), "none" if new is None else _accuracy_text(new)
        is_same = values[0] == values[1]
        session, metric = str(old.get("session", "")), str(old.get("metric", ""))
        note = "" if is_same else "differs"
        yield Difference("accuracy", session, metric, *values, note, is_same)


def _accuracy_text(row: Mapping[str, Any]) -> str:
    """Return a metric's value with its interval, its hits and its number of samples."""
    value = row.get("value")
    text = "none" if value is None else _plain_figure(value, _interval(row, "value"))
    hits, n = row.get("hits"), row.get("n")
    return text if hits is None else f"{text}, {hits} of {n}"


def _interval(row: Mapping[str, Any], name: str) -> tuple[float, float] | None:
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    return None if low is None or high is None else (float(low), float(high))


def _plain_figure(value: float, interval: tuple[float, float] | None) -> str:
    """Return a figure for programs, in its table's unit: `194000000 [180000000, 1.2e9]`."""
    text = f"{value:.6g}"
    return f"{text} [{interval[0]:.6g}, {interval[1]:.6g}]" if interval else text


def _figure_with_unit(value: float, interval: tuple[float, float] | None, unit: str) -> str:
    """Return a figure for people: `194 ms [180 ms, 1.2 s]`."""
    text = shown(value, unit)
    return f"{text} [{shown(interval[0], unit)}, {shown(interval[1], unit)}]" if interval else text


def _answers_of_run(log: ReferenceLog, run: str) -> dict[int, ReferenceAnswer]:
    return {answer.sample: answer for answer in log.answers if answer.run == run}


def _compare_predictions(
    old: ReferenceRun,
    new: ReferenceRun,
    before: Mapping[int, ReferenceAnswer],
    now: Mapping[int, ReferenceAnswer],
) -> Difference:
    """Compare the answers of two runs; `before` and `now` are those that the logs hold, by sample.

    The digests cover all answers, so they decide whether the runs are the same.
    """
    digests = (old.predictions_digest[:16] or "none", new.predictions_digest[:16] or "none")
    comparison = Difference("predictions", old.run, "answers", *digests)
    if "none" in digests:
        run = "either run" if digests[0] == digests[1] else "one run"
        note = f"{NOT_COMPARED}: {run} kept no answers"
        return replace(comparison, note=note, is_compared=False)
    if old.predictions_digest == new.predictions_digest:
        note = f"{IDENTICAL}, {len(before)} samples"
        return replace(comparison, note=note, is_same=True)
    common = sorted(before.keys() & now.keys())
    changed = [sample for sample in common if before[sample].features != now[sample].features]
    largest, relabelled = 0.0, 0
    for sample in changed:
        distance, is_relabelled = _feature_distance(
            _values_by_path(before[sample].features), _values_by_path(now[sample].features)
        )
        largest, relabelled = max(largest, distance), relabelled + is_relabelled
    note = f"{len(changed)} of {len(common)} samples differ, numbers by at most {largest:.3g}"
    if relabelled:
        note += f", {relabelled} with other labels or sizes"
    if len(common) < max(len(before), len(now)):
        note += f"; {len(before)} samples then, {len(now)} now"
    return replace(comparison, note=note)


def _feature_distance(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[float, bool]:
    """Return the largest difference of numbers, and whether anything else differs."""
    largest, is_other_text = 0.0, before.keys() != now.keys()
    for name in before.keys() & now.keys():
        old, new = before[name], now[name]
        if isinstance(old, float) and isinstance(new, int | float):
            largest = max(largest, abs(old - new))
        else:
            is_other_text = is_other_text or old != new
    return largest, is_other_text


def _unkept_note(log: ReferenceLog, run: ReferenceRun, kept_answers: int) -> str:
    """Return a note on samples that were answered beyond the limit of kept answers; '' for none.

    A run may use a sample several times, so without the size of the dataset this is an upper bound.
    """
    limit_reached = kept_answers >= log.request.outputs or len(log.answers) >= MOST_ANSWERS
    if not kept_answers or not limit_reached:
        return ""
    dataset = log.subject.dataset
    size = len(dataset.samples) or (dataset.synthetic.samples if dataset.synthetic else 0)
    answered = run.answered * run.batch_size
    unkept = min(answered, size or answered) - kept_answers
    if unkept <= 0:
        return ""
    return f"up to {unkept} more samples were answered, but not kept and {NOT_COMPARED}"
