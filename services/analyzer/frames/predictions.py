"""Predictions: the outputs of a run, read row by row, and pooled by opened model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from mlscope.load import ScenarioError, scenario_named
from mlscope.load.parameters import shortened
from mlscope.load.scenarios import BUILT_IN
from services.analyzer.building.reasons import samples_in
from services.analyzer.frames.evaluation import (
    ANSWERED,
    Frames,
    Run,
    RunRow,
    Sample,
    features_of,
    read_features,
)

_UNNAMED = -1 - (1 << 40)
"""Numbers below it stand for failed samples that an error text omitted."""

Feature = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answer to one sample, with its ground truth."""

    run: str
    query: int
    sample: int
    features: list[Feature]
    #: the dataset's ground truth: `labels`, `classes`, `texts`, `objects`, `values`
    truth: Mapping[str, Any] = field(default_factory=dict)
    #: what the agent computed of the answer: `pixels`, `picture`, or an `error`
    judged: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    #: raw scores of the classes by output ('' is the only one), as base64 of float32
    raw: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The type of its features, '' where it has none."""
        if not self.features:
            return ""
        first = self.features[0]
        has_class = "label" in first or "index" in first
        return str(first.get("type") or ("classification" if has_class else ""))

    @property
    def has_left_out_features(self) -> bool:
        """Whether the agent left out features, which were too many to store."""
        return any("left_out_features" in feature for feature in self.features)

    @property
    def texts(self) -> list[str] | None:
        """The right texts (the labels in a dataset of files); None where they are unknown."""
        texts = self.truth.get("texts", self.truth.get("labels"))
        return None if texts is None else [str(text) for text in texts]

    @property
    def best(self) -> Any:
        """Its first answer: a label, else a class index, else a text; None for other kinds."""
        first = self.features[0] if self.features else {}
        return first.get("label") or first.get("index", first.get("text"))

    def is_right(self, feature: Feature) -> bool | None:
        """Return whether a class or a text among its features is right; None where unknown."""
        if "text" in feature:
            return None if self.texts is None else feature["text"] in self.texts
        if self.kind != "classification":
            return None
        labels, classes = self.truth.get("labels"), self.truth.get("classes")
        if labels and feature.get("label"):
            return str(feature["label"]) in labels
        return feature.get("index") in classes if classes else None


def prediction_of(
    run: str, row: Mapping[str, Any], samples: Sequence[Sample] = ()
) -> Prediction | None:
    """Return the prediction in a `row` of outputs; None where the row is not an answer.

    `run` names its run; `samples` of the plan supply labels that the row lacks. A detector's empty
    list of features is an answer; a damaged row is not.
    """
    value = read_features(row["features"])
    wrapper = value if isinstance(value, dict) and "features" in value else {}
    features = features_of(row["features"])
    if not features and wrapper.get("features", value) != []:
        return None
    truth, number = dict(_mapping_or_empty(wrapper.get("truth"))), row["sample"]
    sample = samples[number] if 0 <= number < len(samples) else Sample("")
    if sample.labels and not truth.get("labels"):
        truth["labels"] = list(sample.labels)
    return Prediction(
        run,
        row["query"],
        number,
        features,
        truth,
        _mapping_or_empty(wrapper.get("judged")),
        str(truth.pop("name", "")) or sample.name,
        _mapping_or_empty(wrapper.get("raw")),
    )


def _mapping_or_empty(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def predictions_of(run: Run, samples: Sequence[Sample] = ()) -> Iterator[Prediction]:
    """Yield a run's answers, in the order of its queries."""
    rows = run.outputs.sort("query", maintain_order=True)
    for row in rows.iter_rows(named=True):
        prediction = prediction_of(run.row.run, row, samples)
        if prediction is not None:
            yield prediction


def asked_samples(run: Run, dataset_samples: int | None) -> tuple[set[int], set[int]]:
    """Return the samples of a run's answered queries, and those of its failed queries.

    The run's load is generated again from its parameters to learn the samples of each query, out
    of `dataset_samples`; where that is impossible, numbers below zero stand for failed samples.
    The errors of partly answered queries name their failed samples. Both sets are empty where
    nothing failed.
    """
    failed = run.queries.filter(
        run.queries["status"].is_null() | (run.queries["status"] != ANSWERED)
    )
    if not failed.height and not run.failed_samples:
        return set(), set()
    named: set[int] = set()
    count = 0
    partial = run.failures.filter(run.failures["status"] == ANSWERED)
    for error, queries in partial.select("error", "queries").iter_rows():
        samples = samples_in(error)
        named.update(samples)
        count += len(samples) * queries
    omitted = max(run.failed_samples - count, 0)
    unnamed = {_UNNAMED - number for number in range(min(omitted, dataset_samples or omitted))}
    answered, unanswered = _samples_by_query_status(run, failed, dataset_samples)
    return answered - named, unanswered | named | unnamed


def _samples_by_query_status(
    run: Run, failed: pl.DataFrame, dataset_samples: int | None
) -> tuple[set[int], set[int]]:
    """Return the samples of answered queries and those of `failed` queries.

    Of a built-in scenario's load only the queries that there are rows of are made: its first ones.
    """
    if not failed.height:
        return set(), set()
    row = run.row
    parameters = row.parameters
    if row.scenario in BUILT_IN:
        parameters = shortened(parameters, int(run.queries["query"].to_numpy().max()) + 1)
    try:
        load = scenario_named(row.scenario)(parameters, row.batch_size, dataset_samples or 0)
        indices = load.sample_indices
        answered, unanswered = (
            {int(sample) for sample in indices[queries["query"].to_numpy()].ravel()}
            for queries in (run.answered, failed)
        )
    except (ScenarioError, IndexError, TypeError, ValueError):
        count = int(failed["size"].sum())
        return set(), {-1 - number for number in range(min(count, dataset_samples or count))}
    return answered, unanswered


@dataclass
class Pool:
    """The answers of one opened model: the first of each sample, and how its repeats differ."""

    rows: list[RunRow] = field(default_factory=list)
    failed: int = 0
    #: number of failed samples in partly answered queries
    failed_samples: int = 0
    #: samples of answered and of failed queries, in runs with failures
    answered: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    by_sample: dict[int, Prediction] = field(default_factory=dict)
    #: number of repeated answers that were compared with the first
    compared: int = 0
    #: samples with a different answer in a repeat, and whether its best label differs
    differing: dict[int, bool] = field(default_factory=dict)

    @property
    def row(self) -> RunRow:
        """The first of its runs."""
        return self.rows[0]

    @cached_property
    def answers(self) -> list[Prediction]:
        """The first answer to each sample, in the dataset's order."""
        return [self.by_sample[sample] for sample in sorted(self.by_sample)]

    @property
    def unanswered(self) -> int:
        """The number of samples without an answer because every query with them failed."""
        return len(self.refused - self.answered - self.by_sample.keys())

    def add(self, run: Run, samples: Sequence[Sample], dataset_samples: int | None = None) -> None:
        """Add a run's answers; `samples` and `dataset_samples` are those of its dataset."""
        self.rows.append(run.row)
        self.failed += run.failed
        self.failed_samples += run.failed_samples
        answered, refused = asked_samples(run, dataset_samples)
        self.answered |= answered
        self.refused |= refused
        self.compared += int(run.row.conditions.get("repeats_compared") or 0)
        own: set[int] = set()
        for prediction in predictions_of(run, samples):
            first = self.by_sample.setdefault(prediction.sample, prediction)
            if first is prediction:
                own.add(prediction.sample)
                continue
            # Repeats within a run were compared there; the first answer of another run was not yet.
            self.compared += prediction.sample not in own
            own.add(prediction.sample)
            if prediction.features != first.features:
                is_other = (
                    self.differing.get(prediction.sample, False) or prediction.best != first.best
                )
                self.differing[prediction.sample] = is_other


def pools_of(frames: Frames) -> list[Pool]:
    """Return the answers by opened model, in the runs' order, including models without answers."""
    pools: dict[tuple[str, str, str], Pool] = {}
    for run in frames.measured:
        pool = pools.setdefault((run.row.agent, run.row.session, run.row.opened), Pool())
        pool.add(run, frames.samples, frames.scoring_context.samples)
    return list(pools.values())
