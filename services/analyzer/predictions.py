"""What models answered: each output row read, and the answers of one opened model put together."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from mlscope.load import ScenarioError, scenario_named
from services.analyzer.frames import ANSWERED, Frames, Run, RunRow, Sample, features_of
from services.analyzer.reasons import samples_in

_UNNAMED = -1 - (1 << 40)
"""Below it samples are counted that an error had no room to name."""

Feature = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answer to one sample, with what is true of it."""

    run: str
    query: int
    sample: int
    features: list[Feature]
    #: what the dataset says is right: `labels`, `classes`, `texts`, `objects`, `values`
    truth: Mapping[str, Any] = field(default_factory=dict)
    #: what was computed of it where it was made: `pixels`, `picture`, or an `error`
    judged: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    #: what classes were chosen from, by output ('' is the only one), as base64 of float32
    raw: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The type of its features, '' where it has none."""
        return (
            str(self.features[0].get("type") or _kind_of(self.features[0])) if self.features else ""
        )

    @property
    def texts(self) -> list[str] | None:
        """The texts that are right, which a dataset of files has as labels; None: nobody says."""
        told = self.truth.get("texts", self.truth.get("labels"))
        return None if told is None else [str(each) for each in told]

    @property
    def best(self) -> Any:
        """What it says first: a label, else a class; of a text that, of others nothing."""
        first = self.features[0] if self.features else {}
        return first.get("label") or first.get("index", first.get("text"))


def _kind_of(feature: Feature) -> str:
    return "classification" if "label" in feature or "index" in feature else ""


def prediction_of(
    run: str, row: Mapping[str, Any], samples: Sequence[Sample] = ()
) -> Prediction | None:
    """Return what a row of outputs holds; of a plan's `samples` come labels that it lacks.

    None for what is no answer: a detector's empty list is one, a torn row is none.
    """
    value = json.loads(row["features"])
    whole = value if isinstance(value, dict) and "features" in value else {}
    features = features_of(row["features"])
    if not features and whole.get("features", value) != []:
        return None
    truth, number = dict(_map(whole.get("truth"))), row["sample"]
    known = samples[number] if 0 <= number < len(samples) else Sample("")
    if known.labels and not truth.get("labels"):
        truth["labels"] = list(known.labels)
    return Prediction(
        run,
        row["query"],
        number,
        features,
        truth,
        _map(whole.get("judged")),
        str(truth.pop("name", "")) or known.name,
        _map(whole.get("raw")),
    )


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def predictions_of(run: Run, samples: Sequence[Sample] = ()) -> Iterator[Prediction]:
    """Yield a run's answers, in the order of its queries."""
    rows = run.outputs.sort("query", maintain_order=True)
    for row in rows.iter_rows(named=True):
        found = prediction_of(run.row.run, row, samples)
        if found is not None:
            yield found


def asked_samples(run: Run, dataset_samples: int | None) -> tuple[set[int], set[int]]:
    """Return the samples of a run's queries that were answered, and of those that were not.

    Which sample a query carried is the load's to say, which its parameters determine; where it
    can't be made again, samples that were not kept are taken for numbers below zero. Bad samples
    of queries that were answered in part are named in their errors.
    """
    failed = run.queries.filter(
        run.queries["status"].is_null() | (run.queries["status"] != ANSWERED)
    )
    if not failed.height and not run.failed_samples:
        return set(), set()
    named, unnamed = _failed_in_part(run, dataset_samples)
    answered, lost = _asked(run, failed, dataset_samples) if failed.height else (set(), set())
    return answered - named, lost | named | unnamed


def _failed_in_part(run: Run, dataset_samples: int | None) -> tuple[set[int], set[int]]:
    """Return the samples without an answer in answered queries; unnamed ones below zero."""
    named: set[int] = set()
    told = 0
    partial = run.failures.filter(run.failures["status"] == ANSWERED)
    for error, queries in partial.select("error", "queries").iter_rows():
        found = samples_in(error)
        named.update(found)
        told += len(found) * queries
    left = max(run.failed_samples - told, 0)
    return named, {_UNNAMED - each for each in range(min(left, dataset_samples or left))}


def _asked(
    run: Run, failed: pl.DataFrame, dataset_samples: int | None
) -> tuple[set[int], set[int]]:
    row = run.row
    try:
        load = scenario_named(row.scenario)(row.parameters, row.batch_size, dataset_samples or 0)
        carried = load.sample_indices
        answered, lost = (
            {int(each) for each in carried[queries["query"].to_numpy()].ravel()}
            for queries in (run.answered, failed)
        )
    except (ScenarioError, IndexError, TypeError, ValueError):
        most = int(failed["size"].sum())
        return set(), {-1 - each for each in range(min(most, dataset_samples or most))}
    return answered, lost


@dataclass
class Pool:
    """The answers of one opened model: of each sample the first, and how its repeats differ."""

    rows: list[RunRow] = field(default_factory=list)
    failed: int = 0
    #: samples that failed in queries which were answered in part
    failed_samples: int = 0
    #: samples asked for that were answered, and that failed, of runs with failures
    answered: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    by_sample: dict[int, Prediction] = field(default_factory=dict)
    #: answers to samples that came again, compared with the first
    compared: int = 0
    #: samples that were once answered otherwise, and whether the first label was another
    differing: dict[int, bool] = field(default_factory=dict)

    @property
    def row(self) -> RunRow:
        """The first of its runs."""
        return self.rows[0]

    @cached_property
    def answers(self) -> list[Prediction]:
        """Of each sample its first answer, in the dataset's order."""
        return [self.by_sample[sample] for sample in sorted(self.by_sample)]

    @property
    def lost(self) -> int:
        """How many samples have no answer since every query with them failed."""
        return len(self.refused - self.answered - self.by_sample.keys())

    def add(self, run: Run, samples: Sequence[Sample], dataset_samples: int | None = None) -> None:
        """Put a run's answers to the others."""
        self.rows.append(run.row)
        self.failed += run.failed
        self.failed_samples += run.failed_samples
        answered, refused = asked_samples(run, dataset_samples)
        self.answered |= answered
        self.refused |= refused
        self.compared += int(run.row.conditions.get("repeats_compared") or 0)
        own: set[int] = set()
        for found in predictions_of(run, samples):
            first = self.by_sample.setdefault(found.sample, found)
            if first is found:
                own.add(found.sample)
                continue
            # A repeat within its run was counted there, what another run said first is not yet.
            self.compared += found.sample not in own
            own.add(found.sample)
            if found.features != first.features:
                is_other = self.differing.get(found.sample, False) or found.best != first.best
                self.differing[found.sample] = is_other


def pools_of(frames: Frames) -> list[Pool]:
    """Return the answers by opened model, in the runs' order; those without answers, too."""
    pools: dict[tuple[str, str, str], Pool] = {}
    for run in frames.measured:
        opened = str(run.row.conditions.get("opened") or "")
        pool = pools.setdefault((run.row.agent, run.row.session, opened), Pool())
        pool.add(run, frames.samples, frames.aim.samples)
    return list(pools.values())
