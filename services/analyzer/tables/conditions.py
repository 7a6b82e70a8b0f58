"""Conditions: under which each run was measured. No number without these."""

import json
from typing import Any

from mlscope.counts import many, verb
from schemas.analysis import Table
from schemas.level import Level
from services.analyzer.frames import Frames, Run
from services.analyzer.noise import noise_of
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    made,
    run_cells,
    text,
    whole,
)

PUBLISHED_SIZE = (
    "The model's size as its manifest states it, else four bytes a parameter; null unknown."
)


def conditions(frames: Frames) -> Table:
    """Return one row a run that counts: what ran where, on what, how deep, and how it ended."""
    good = sum(row.end == "completed" for row in frames.runs)
    agents = sorted({row.agent for row in frames.runs})
    verdict = (
        f"{good} of {many(len(frames.runs), 'run')} completed, "
        f"on {', '.join(agents) or 'no agent'}."
    )
    caveats = list(frames.caveats)
    for run in frames.measured:
        caveats += [f"{run.row.run}: {note}" for note in _notes(run)]
    return made(ANALYSIS, [_cells(run) for run in frames.measured], verdict, caveats)


def _notes(run: Run) -> list[str]:
    row = run.row
    notes = list(row.caveats)
    if row.end != "completed":
        notes.append(f"{row.end}: {row.message or row.error or row.interrupted or 'no reason'}")
    if row.level_note:
        notes.append(row.level_note)
    if row.dropped_batches:
        lost = many(row.dropped_batches, "batch")
        notes.append(f"{lost} {verb(row.dropped_batches, 'was', 'were')} lost at the agent")
    return [*notes, *noise_of(run)]


def _cells(run: Run) -> dict[str, Any]:
    row, told = run.row, run.row.conditions
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
        "model": f"{row.model}:{row.model_version}" if row.model else "",
        "model_size_bytes": told.get("model_size_bytes"),
        "dataset": row.dataset,
        "framework": f"{row.framework} {row.framework_version}".strip(),
        "device": str(told.get("device") or row.device),
        "provider": str(told.get("provider") or ""),
        "processor": str(told.get("processor") or ""),
        "accelerator": str(told.get("accelerator") or ""),
        "precision": str(told.get("precision") or ""),
        "threads": told.get("threads"),
        "options": json.dumps(told.get("options") or {}, sort_keys=True, default=str),
        "seed": told.get("seed"),
        "queries": row.queries,
        "failed": row.failed_queries,
        "spans": row.spans,
        "dropped_batches": row.dropped_batches,
        "warmup_queries": told.get("warmup_queries"),
        "blocks": len(row.blocks),
        "blocks_ended": str(told.get("blocks_ended") or ""),
        "load_ns": told.get("load_ns"),
        "first_run_ns": told.get("first_run_ns"),
        "noise": json.dumps(told.get("noise") or {}, sort_keys=True, default=str),
        "mlscope_version": str(told.get("mlscope_version") or ""),
        "python_version": str(told.get("python_version") or ""),
        "checksums": json.dumps(told.get("checksums") or {}, sort_keys=True, default=str),
        "note": "; ".join(_notes(run)),
    }


ANALYSIS = Analysis(
    name="conditions",
    title="Conditions of the runs",
    source="The collector's table `run`: the plan, and what the agent said at the end.",
    columns=(
        *RUN_COLUMNS,
        text("level_asked", "The trace level asked for."),
        text("variant", "What was special about the process: serialised, counters, cold, nothing."),
        text("session", "The session: one opened predictor."),
        whole("attempt", "Which attempt counts."),
        text("end", "How it ended: completed, failed, incomplete or cancelled."),
        text("agent", "Where it ran."),
        text("parameters", "The scenario's parameters, JSON."),
        text("pacing", "Who paced: local is the worker, remote the scheduler."),
        text("model", "Model and version."),
        whole("model_size_bytes", PUBLISHED_SIZE, "By"),
        text("dataset", "Dataset and version."),
        text("framework", "Framework and version."),
        text("device", "Device."),
        text("provider", "Execution provider in effect."),
        text("processor", "The processor's name; '' where nothing told it."),
        text("accelerator", "The names of the machine's GPUs, for runs on one."),
        text("precision", "Precision in effect."),
        whole("threads", "Threads of the framework; 0 is its default."),
        text("options", "Options of the predictor, JSON."),
        whole("seed", "Seed of the load."),
        whole("queries", "Queries announced."),
        whole("failed", "Queries that failed."),
        whole("spans", "Spans announced."),
        whole("dropped_batches", "Batches lost at the agent."),
        whole("warmup_queries", "Queries before measuring, not counted."),
        whole("blocks", "Blocks it was measured in."),
        text("blocks_ended", "What ended them: least, interval, most or budget of the stop rule."),
        whole("load_ns", "Time to open the model.", "ns"),
        whole("first_run_ns", "Time of the first prediction, cold.", "ns"),
        text("noise", "What else moved on the machine, JSON; beyond a threshold a note says so."),
        text("mlscope_version", "Version of mlscope."),
        text("python_version", "Version of Python."),
        text("checksums", "Checksums of the assets, JSON."),
        text("note", "What a reader must know of the run."),
    ),
    compute=conditions,
)
