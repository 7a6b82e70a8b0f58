"""Conditions under which each run was measured: no number is complete without them."""

import json
from typing import Any

from mlscope.counts import many, verb
from schemas.analysis import Table
from schemas.level import Level
from services.analyzer.building.noise import noise_of
from services.analyzer.building.table import (
    PREPARED_COLUMN,
    RUN_COLUMNS,
    Analysis,
    format_time,
    int_column,
    make_table,
    run_cells,
    text_column,
)
from services.analyzer.frames.evaluation import Frames, Run

PUBLISHED_SIZE = (
    "The model's size in its manifest, else four bytes per parameter; null where unknown."
)
_NUMBERS = (
    "model_size_bytes",
    "threads",
    "seed",
    "warmup_queries",
    "prepared_batches",
    "prepared_bytes",
    "prepare_processes",
    "load_ns",
    "first_run_ns",
    "clock_offset_ns",
    "clock_bound_ns",
)
"""Numbers that the agent reports, in columns of the same names; null where unknown."""
_CLOCKS_DIFFER_NS = 1_000_000_000
"""A difference that a reader of times of day would notice."""
_TEXTS = (
    "provider",
    "processor",
    "accelerator",
    "precision",
    "host_memory",
    "output_memory",
    "copies",
    "predict_cores",
    "inputs",
    "blocks_ended",
    "mlscope_version",
    "python_version",
    "prepared_by",
    "container",
    "container_digest",
    "container_engine",
)
"""Texts that the agent reports, in columns of the same names; '' where unknown."""


def conditions(frames: Frames) -> Table:
    """Return a row for each run that counts: model, system, load, trace level and outcome."""
    good = sum(row.end == "completed" for row in frames.runs)
    agents = sorted({row.agent for row in frames.runs})
    verdict = (
        f"{good} of {many(len(frames.runs), 'run')} completed, "
        f"on {', '.join(agents) or 'no agent'}."
    )
    caveats = list(frames.caveats)
    for run in frames.measured:
        caveats += [f"{run.row.run}: {note}" for note in _notes(run)]
    return make_table(ANALYSIS, [_condition_row(run) for run in frames.measured], verdict, caveats)


def _notes(run: Run) -> list[str]:
    row = run.row
    notes = list(row.caveats)
    if run.cut_off_text:
        _, colon, reason = (row.interrupted or "").partition(": ")
        notes.append(f"{run.cut_off_text}{colon}{reason}")
    elif row.end != "completed":
        reasons = (row.message, row.error, row.interrupted, "no reason")
        notes.append(f"{row.end}: {next(filter(None, reasons))}")
    if row.level_note:
        notes.append(row.level_note)
    if row.dropped_batches:
        lost = many(row.dropped_batches, "batch")
        notes.append(f"{lost} {verb(row.dropped_batches, 'was', 'were')} lost at the agent")
    offset_ns = row.conditions.get("clock_offset_ns")
    if offset_ns is not None and abs(offset_ns) > _CLOCKS_DIFFER_NS:
        side = "behind" if offset_ns > 0 else "ahead of"
        bound = format_time(row.conditions["clock_bound_ns"])
        notes.append(
            f"its agent's clock was {abs(offset_ns) / 1e9:,.0f} s {side} the cluster's, to within "
            f"{bound}: times of day are the agent's, in traces the cluster's"
        )
    return [*notes, *noise_of(run)]


def _condition_row(run: Run) -> dict[str, Any]:
    """Return the row of a run."""
    row, measured = run.row, run.row.conditions
    return {
        **run_cells(row),
        "level_asked": Level(row.level_asked).name.lower(),
        "variant": row.variant,
        "session": row.session,
        "attempt": row.attempt,
        "end": row.end,
        "agent": row.agent,
        "parameters": json.dumps(dict(row.parameters), sort_keys=True),
        "pacing": row.pacing,
        "prepared": row.prepared,
        "calls_in_flight": row.calls_in_flight,
        "model": f"{row.model}:{row.model_version}" if row.model else "",
        "dataset": row.dataset,
        "framework": f"{row.framework} {row.framework_version}".strip(),
        **{name: measured.get(name) for name in _NUMBERS},
        **{name: str(measured.get(name) or "") for name in _TEXTS},
        **{
            name: json.dumps(measured.get(name) or {}, sort_keys=True, default=str)
            for name in ("options", "noise", "checksums")
        },
        "device": str(measured.get("device") or row.device),
        "queries": row.queries,
        "failed": row.failed_queries,
        "spans": row.spans,
        "dropped_batches": row.dropped_batches,
        "blocks": len(row.blocks),
        "note": "; ".join(_notes(run)),
    }


ANALYSIS = Analysis(
    name="conditions",
    title="Conditions of the runs",
    source="The collector's table `run`: the plan, and the agent's report at the end.",
    columns=(
        *RUN_COLUMNS,
        text_column("level_asked", "The requested trace level."),
        text_column(
            "variant", "Variant of the process: serialised, counters, cold; empty for a plain one."
        ),
        text_column("session", "The session, in which one predictor was opened."),
        int_column("attempt", "Number of the attempt that counts."),
        text_column("end", "Outcome: completed, failed, incomplete or cancelled."),
        text_column("agent", "The agent that ran it."),
        text_column("parameters", "The scenario's parameters as JSON."),
        text_column("pacing", "Who issues queries: local is the worker, remote the scheduler."),
        PREPARED_COLUMN,
        int_column("prepared_batches", "Batches prepared ahead of the clock."),
        int_column("prepared_bytes", "Memory of their tensors.", "By"),
        int_column(
            "prepare_processes",
            "Processes that prepared streamed samples; 0: threads of the worker did.",
        ),
        int_column(
            "calls_in_flight",
            "Predict calls under way at a time; with 2, copies of one overlap another's computing.",
        ),
        text_column(
            "predict_cores",
            "Cores that the thread which calls the model was kept on, in every run of its session; "
            "'' where it may move.",
        ),
        text_column(
            "host_memory",
            "Memory that a GPU copies inputs from: page-locked, pageable, or unknown where the "
            "predictor does not say; '' on a CPU.",
        ),
        text_column(
            "output_memory",
            "Memory that a GPU copies outputs into, in the same words; '' on a CPU.",
        ),
        text_column(
            "copies",
            "Whether a GPU's copies are timed separately from computing: apart, see table copies, "
            "or together, where predict includes both; '' on a CPU.",
        ),
        text_column(
            "inputs",
            "Where a call on a GPU finds its inputs: host, or device, where they were before the "
            "clock; '' on a CPU.",
        ),
        text_column("model", "Model and version."),
        int_column("model_size_bytes", PUBLISHED_SIZE, "By"),
        text_column("dataset", "Dataset and version."),
        text_column("framework", "Framework and version."),
        text_column("device", "The device that ran it."),
        text_column("provider", "Execution provider in effect."),
        text_column("processor", "The processor's name; '' where unknown."),
        text_column("accelerator", "Names of the machine's GPUs, for runs on a GPU."),
        text_column("precision", "Precision in effect."),
        int_column("threads", "Threads of the framework; 0 means its default."),
        text_column("options", "Options of the predictor as JSON."),
        int_column("seed", "Seed of the load."),
        int_column("queries", "Queries announced."),
        int_column("failed", "Queries that failed."),
        int_column("spans", "Spans announced."),
        int_column("dropped_batches", "Batches lost at the agent."),
        int_column("warmup_queries", "Queries before the measurement, which do not count."),
        int_column("blocks", "Blocks measured."),
        text_column(
            "blocks_ended",
            "Part of the stop rule that ended the run: least, interval, most or budget; overload "
            "where answers to the scheduler did not keep up.",
        ),
        int_column("load_ns", "Time to open the model.", "ns"),
        int_column("first_run_ns", "Time of the first, cold prediction.", "ns"),
        int_column(
            "clock_offset_ns",
            "The cluster's clock minus the agent's when the session began; null not measured.",
            "ns",
        ),
        int_column("clock_bound_ns", "The most by which that offset is wrong.", "ns"),
        text_column(
            "noise", "Activity on the machine as JSON; a note names what exceeds its threshold."
        ),
        text_column("mlscope_version", "Version of mlscope."),
        text_column("python_version", "Version of Python."),
        text_column(
            "prepared_by",
            "Libraries that decoded and resized its pictures, with versions; '' without pictures.",
        ),
        text_column("container", "Image of the container started for its session; '' for none."),
        text_column("container_digest", "The engine's id of that image."),
        text_column("container_engine", "The engine that started it, with its version."),
        text_column("checksums", "Checksums of the assets as JSON."),
        text_column("note", "Caveats of the run."),
    ),
    compute=conditions,
)
