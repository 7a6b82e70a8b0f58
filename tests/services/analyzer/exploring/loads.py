"""Main figures of loads, as the table `headline` has them."""

from collections.abc import Mapping
from typing import Any

from schemas.analysis import Table
from services.analyzer.exploring.source import Exploration

NO_PRICES: Mapping[str, float] = {}


def a_load(model: str = "tiny", **more: Any) -> dict[str, Any]:
    """Return the figures of one load: 10 ms a query, 100 samples a second, known to 1%."""
    told = {
        "evaluation": "e1",
        "run": "r0",
        "requested": "2026-01-01T00:00:00Z",
        "task": "image classification",
        "model": model,
        "model_version": "1.0.0",
        "framework": "onnxruntime",
        "framework_version": "1.20",
        "device": "cpu",
        "accelerator": "",
        "precision": "float32",
        "agent": "a1",
        "scenario": "online",
        "parameters": "{}",
        "batch_size": 1,
        "statistic": "trimmed_mean",
        "offered_per_s": None,
        "metric": "",
        "dataset": "",
        "accuracy": None,
        "accuracy_low": None,
        "accuracy_high": None,
        "judged": None,
        "published_metric": "",
        "published_dataset": "",
        "published_accuracy": None,
        "size_bytes": 1000,
        "load_ns": 5_000_000,
        "first_run_ns": 40_000_000,
    }
    ms, rate = more.pop("ms", 10.0), more.pop("rate", 100.0)
    for name, value in (("latency_ns", ms * 1e6), ("samples_per_s", rate)):
        told |= {name: value, f"{name}_low": 0.99 * value, f"{name}_high": 1.01 * value}
    return told | more


def measured(value: float, judged: int = 1000) -> dict[str, Any]:
    """Return the cells of a measured top-1 accuracy, known to 0.02."""
    ends = {"accuracy": value, "accuracy_low": value - 0.01, "accuracy_high": value + 0.01}
    return {"metric": "top-1", "dataset": "photos:1.0.0", "judged": judged, **ends}


def table_of(
    exploration: Exploration, *loads: dict[str, Any], prices: Mapping[str, float] = NO_PRICES
) -> Table:
    """Return the table of an exploration."""
    return exploration.compute(loads, prices)
