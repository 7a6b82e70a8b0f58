"""What differs between a reference log and the same run again: machine, versions, numbers, answers.

Runs are paired by scenario, level and batch size, in their order. Performance is a ratio, with
both intervals at 95 %: where these overlap, a difference is not shown by these runs.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

from mlscope.client.quantities import shown
from mlscope.reproducing.logs import MOST_ANSWERS
from schemas.reference import ReferenceAnswer, ReferenceLog, ReferenceMachine, ReferenceRun

_CONDITIONS = (
    *("framework", "device", "provider", "precision", "threads", "options"),
    *("seed", "parameters", "dataset", "model", "checksums", "mlscope_version", "python_version"),
)
_NUMBERS = (
    *(("latency", each) for each in ("median", "p90", "p99", "service_median")),
    ("throughput", "samples_per_s"),
)
_UNITS: Mapping[str, str] = MappingProxyType({"latency": "ns", "throughput": "1/s"})
IDENTICAL = "identical"
SAME, NOT_SAME, NOT_COMPARED = "the same", "not the same", "not compared"


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing compared: `aspect` is hardware, software, conditions, performance, predictions."""

    aspect: str
    #: the run, or the agent, it is about
    subject: str
    name: str
    before: str
    now: str
    note: str = ""
    is_same: bool = False
    is_compared: bool = True
    #: both as people read them, with units, where that is another text
    told: tuple[str, str] | None = None


def verdict_on_predictions(found: Iterable[Difference]) -> str:
    """Return `SAME` only where every run was paired and its answers compared and equal.

    `NOT_COMPARED`: of no run, or not of all, were there answers to compare.
    """
    told = [each for each in found if each.aspect in ("predictions", "runs")]
    compared = [each for each in told if each.is_compared]
    if any(not each.is_same for each in compared):
        return NOT_SAME
    return SAME if compared and len(compared) == len(told) else NOT_COMPARED


def differences(before: ReferenceLog, now: ReferenceLog) -> list[Difference]:
    """Return what was compared: of machines and conditions what differs, of the rest all."""
    pairs = list(paired(before, now))
    found = list(_machines(before, now))
    for old, new in pairs:
        found += _conditions(old, new)
    missing = len(before.runs) - len(pairs)
    if missing:
        found.append(Difference("runs", "", "paired", str(len(before.runs)), str(len(pairs))))
    for old, new in pairs:
        found += _performance(old, new)
    found += _accuracy(before, now)
    for old, new in pairs:
        answers = _answers(before, old.run), _answers(now, new.run)
        left_out = _left_out(before, old, len(answers[0])) or _left_out(now, new, len(answers[1]))
        told = _predictions(old, new, *answers)
        found.append(replace(told, note=f"{told.note}; {left_out}") if left_out else told)
    return found


def paired(before: ReferenceLog, now: ReferenceLog) -> Iterator[tuple[ReferenceRun, ReferenceRun]]:
    """Yield each run with the same run of the other log, where there is one."""
    left = list(now.runs)
    for old in before.runs:
        key = (old.scenario, old.level, old.batch_size)
        same = (each for each in left if (each.scenario, each.level, each.batch_size) == key)
        new = next(same, None)
        if new is not None:
            left.remove(new)
            yield old, new


def _machines(before: ReferenceLog, now: ReferenceLog) -> Iterator[Difference]:
    counts = len(before.machines), len(now.machines)
    if counts[0] != counts[1]:
        yield Difference("hardware", "", "machines", str(counts[0]), str(counts[1]))
    for old, new in zip_longest(before.machines, now.machines):
        if old is None or new is None:
            known = (old.agent, "none") if new is None else ("none", new.agent)
            yield Difference("hardware", " / ".join(known), "machine", *known)
            continue
        yield from _of_machine("hardware", old, new)
        yield from _of_machine("software", old, new)


def _of_machine(
    aspect: str, before: ReferenceMachine, now: ReferenceMachine
) -> Iterator[Difference]:
    old, new = (
        _flat(getattr(each, aspect).model_dump(mode="json", exclude={"kind", "name", "version"}))
        for each in (before, now)
    )
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            values = (str(old.get(name, "")), str(new.get(name, "")))
            yield Difference(aspect, f"{before.agent} / {now.agent}", name, *values)


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """Return the plain values of nested maps and lists by path, without what is empty."""
    if isinstance(value, Mapping):
        parts = ((str(name), each) for name, each in value.items())
    elif isinstance(value, list | tuple):
        parts = ((str(number), each) for number, each in enumerate(value))
    else:
        return {path: value} if value not in ("", None) else {}
    found: dict[str, Any] = {}
    for name, each in parts:
        found |= _flat(each, f"{path}.{name}" if path else name)
    return found


def _conditions(old: ReferenceRun, new: ReferenceRun) -> Iterator[Difference]:
    for name in _CONDITIONS:
        before, now = old.conditions.get(name), new.conditions.get(name)
        if before != now:
            yield Difference("conditions", old.run, name, str(before), str(now))
    if old.state != new.state:
        yield Difference("conditions", old.run, "state", old.state, new.state)


def _performance(old: ReferenceRun, new: ReferenceRun) -> Iterator[Difference]:
    for table, name in _NUMBERS:
        rows = getattr(old, table), getattr(new, table)
        before, now = (row.get(name) for row in rows)
        if before is None or now is None or not before:
            continue
        low, high = _interval(rows[0], name), _interval(rows[1], name)
        note = f"ratio {now / before:.3f}"
        is_same = False
        if low and high:
            is_same = low[0] <= high[1] and high[0] <= low[1]
            note += ", the intervals overlap" if is_same else ", the intervals are apart"
        plain = _plain(before, low), _plain(now, high)
        unit = _UNITS[table]
        told = _told(before, low, unit), _told(now, high, unit)
        found = Difference("performance", old.run, f"{table} {name}", *plain, note, is_same)
        yield replace(found, told=told)


def _accuracy(before: ReferenceLog, now: ReferenceLog) -> Iterator[Difference]:
    """Compare each metric of each batch size, whatever the sessions are called."""
    rows = {(row.get("batch_size"), row.get("metric")): row for row in now.accuracy}
    for old in before.accuracy:
        new = rows.get((old.get("batch_size"), old.get("metric")))
        values = _judged(old), "none" if new is None else _judged(new)
        is_same = values[0] == values[1]
        session, metric = str(old.get("session", "")), str(old.get("metric", ""))
        note = "" if is_same else "differs"
        yield Difference("accuracy", session, metric, *values, note, is_same)


def _judged(row: Mapping[str, Any]) -> str:
    """Return a metric's value with its interval, and the counts it stands on."""
    value = row.get("value")
    text = "none" if value is None else _plain(value, _interval(row, "value"))
    hits, n = row.get("hits"), row.get("n")
    return text if hits is None else f"{text}, {hits} of {n}"


def _interval(row: Mapping[str, Any], name: str) -> tuple[float, float] | None:
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    return None if low is None or high is None else (float(low), float(high))


def _plain(value: float, interval: tuple[float, float] | None) -> str:
    """Return a figure for programs: in its table's unit, which is not said."""
    text = f"{value:.6g}"
    return f"{text} [{interval[0]:.6g}, {interval[1]:.6g}]" if interval else text


def _told(value: float, interval: tuple[float, float] | None, unit: str) -> str:
    """Return a figure for people: `194 ms [180 ms, 1.2 s]`."""
    text = shown(value, unit)
    return f"{text} [{shown(interval[0], unit)}, {shown(interval[1], unit)}]" if interval else text


def _answers(log: ReferenceLog, run: str) -> dict[int, ReferenceAnswer]:
    return {each.sample: each for each in log.answers if each.run == run}


def _predictions(
    old: ReferenceRun,
    new: ReferenceRun,
    before: Mapping[int, ReferenceAnswer],
    now: Mapping[int, ReferenceAnswer],
) -> Difference:
    digests = (old.predictions_digest[:16] or "none", new.predictions_digest[:16] or "none")
    whole = Difference("predictions", old.run, "answers", *digests)
    if "none" in digests:
        which = "either" if digests[0] == digests[1] else "one"
        note = f"{NOT_COMPARED}: {which} kept no answers"
        return replace(whole, note=note, is_compared=False)
    if old.predictions_digest == new.predictions_digest:
        return replace(whole, note=f"{IDENTICAL}, of {len(before)} samples", is_same=True)
    both = sorted(before.keys() & now.keys())
    other = [n for n in both if before[n].features != now[n].features]
    pairs = [_distance(_flat(before[n].features), _flat(now[n].features)) for n in other]
    note = f"{len(other)} of {len(both)} samples differ"
    note += f", numbers by at most {max((each[0] for each in pairs), default=0.0):.3g}"
    if changed := sum(each[1] for each in pairs):
        note += f", {changed} with other labels or sizes"
    if len(both) < max(len(before), len(now)):
        note += f"; {len(before)} samples then, {len(now)} now"
    return replace(whole, note=note)


def _left_out(log: ReferenceLog, run: ReferenceRun, kept: int) -> str:
    """Return what to say of samples that were answered beyond the bound of those kept; '' of none.

    A run may ask for a sample again: without the dataset's size there may be fewer than said.
    """
    if not kept or (kept < log.request.outputs and len(log.answers) < MOST_ANSWERS):
        return ""
    dataset = log.subject.dataset
    known = len(dataset.samples) or (dataset.synthetic.samples if dataset.synthetic else 0)
    answered = run.answered * run.batch_size
    more = min(answered, known or answered) - kept
    return f"up to {more} samples more were answered, not kept and {NOT_COMPARED}" * (more > 0)


def _distance(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[float, bool]:
    """Return the largest difference of numbers, and whether anything else differs."""
    most, is_other = 0.0, before.keys() != now.keys()
    for name in before.keys() & now.keys():
        old, new = before[name], now[name]
        if isinstance(old, float) and isinstance(new, int | float):
            most = max(most, abs(old - new))
        else:
            is_other = is_other or old != new
    return most, is_other
