"""Columns of the survey's tables (key, heading, format), and how rows become text."""

from collections.abc import Sequence
from typing import Any

from benchmarks.survey.full_rows import NUMBERED
from benchmarks.survey.rows import Row

ONLINE = (
    ("model", "model", ""),
    ("framework", "framework", ""),
    ("accuracy", "accuracy, published (%)", ".2f"),
    ("megabytes", "size (MB)", ".0f"),
    ("online_ms", "online trimmed mean (ms)", ".2f"),
    ("p90_ms", "p90 (ms)", ".2f"),
    ("best_per_s", "max throughput (1/s)", ".0f"),
    ("best_batch", "at batch", ""),
    ("optimal", "optimal batch", ""),
    ("predict_per_s", "max of predict alone (1/s)", ".0f"),
)
SYSTEM = (
    ("model", "model", ""),
    ("batch", "batch", ""),
    ("latency_ms", "latency (ms)", ".2f"),
    ("gpu_share", "GPU share", ".1%"),
    ("gflop", "GFLOP (counted)", ".4g"),
    ("static_gflop", "GFLOP (static)", ".4g"),
    ("reads_gb", "DRAM reads (GB)", ".3g"),
    ("writes_gb", "DRAM writes (GB)", ".3g"),
    ("occupancy", "occupancy (%)", ".1f"),
    ("intensity", "FLOP/byte", ".1f"),
    ("tflops", "TFLOP/s", ".3g"),
    ("memory_bound", "memory-bound", ""),
    ("stages", "stages", ""),
    ("layers", "layers", ""),
    ("kernels", "kernels", ""),
    ("stands_for", "kernels counted for", ""),
    ("unattributed", "unattributed", ".2%"),
    ("overhead", "L - M", "+.1%"),
    ("deep_overhead", "G - M", "+.1%"),
)
COUNTERS = (
    ("model", "model", ""),
    ("batch", "batch", ""),
    ("kernels", "kernels", ""),
    ("kinds_kernels", "by kinds", ""),
    ("counted", "of them run", ""),
    ("gflop", "GFLOP", ".1f"),
    ("kinds_gflop", "by kinds", ".1f"),
    ("static_gflop", "static", ".1f"),
    ("reads_gb", "DRAM reads (GB)", ".3g"),
    ("kinds_reads_gb", "by kinds", ".2f"),
    ("writes_gb", "DRAM writes (GB)", ".3g"),
    ("kinds_writes_gb", "by kinds", ".2f"),
    ("occupancy", "occupancy (%)", ".1f"),
    ("kinds_occupancy", "by kinds", ".1f"),
)
RESIDUAL = (
    ("model", "model", ""),
    ("batch", "batch", ""),
    ("model_ms", "M (ms)", ".3f"),
    ("layers_ms", "layers (ms)", ".3f"),
    ("between_ms", "between (ms)", ".3f"),
    ("overhead_ms", "L - M (ms)", "+.3f"),
    ("residual", "residual", "+.2%"),
    ("low", "from", "+.2%"),
    ("high", "to", "+.2%"),
    ("scatter", "scatter of one", ".2%"),
    ("blocks", "pairs of blocks", ""),
    ("quiet", "undisturbed", ""),
    ("calm", "residual of these", "+.2%"),
)
NUMBERED_ROWS = (
    ("model", "model", ""),
    ("batch", "batch", ""),
    ("levels", "levels", ""),
    *((number, number, "") for number in NUMBERED),
    ("complete", "all have rows", ""),
    ("unattributed", "unattributed", ".2%"),
    ("counted", "kernels counted", ""),
    ("dropped", "records dropped", ""),
    ("seconds", "took (s)", ".0f"),
)
ENERGIES = (
    ("model", "model", ""),
    ("batch_size", "batch", ""),
    ("scenario", "scenario", ""),
    ("queries", "queries", ""),
    ("seconds", "over (s)", ".2f"),
    ("power", "mean power (W)", ".0f"),
    ("per_sample", "energy an inference (J)", ".4g"),
    ("resolution", "of which unsure", ".1%"),
)


def markdown(rows: Sequence[Row], columns: Sequence[tuple[str, str, str]]) -> str:
    """Return rows as a table; columns are (key, heading, format)."""
    head = "| " + " | ".join(heading for _, heading, _ in columns) + " |"
    rule = "|" + "---|" * len(columns)
    lines = ["| " + " | ".join(_cell(row.get(k), f) for k, _, f in columns) + " |" for row in rows]
    return "\n".join((head, rule, *lines)) + "\n"


def _cell(value: Any, form: str) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format(value, form) if form else str(value)
