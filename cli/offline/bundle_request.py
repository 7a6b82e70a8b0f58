"""The request whose plan is a bundle's: with it the scheduler plans the same runs again."""

from collections import Counter
from itertools import chain
from typing import Any

from cli.offline.bundle import Bundle
from mlscope.load.scenarios import COLD
from schemas.plan import RunPlan
from schemas.request import IMPORTED, MEASURED_BY, Evaluate, ScenarioChoice, SystemNeed

_WAIT_S = 60.0


def request_of(bundle: Bundle, key: str) -> Evaluate:
    """Return the request that leads to the bundle's plan: same sessions, groups and runs.

    `key` is the request's key. It is the request that the bundle holds, with everything that was
    filled in from the catalog then; for an older bundle it is derived from the plan. It asks for
    the machine that measured the bundle.
    """
    subject = bundle.plan.subject
    request = bundle.request or derived_request(bundle)
    fixed = {
        "model": subject.model,
        "framework": None,
        "dataset": subject.dataset,
        "system": SystemNeed(device=subject.device),
        "agents": (bundle.agent,),
        "spread": "one",
        "scenarios": scenarios_of(bundle),
        "options": subject.options,
        "pacing": "local",
        "wait_s": _WAIT_S,
        "key": key,
        "labels": {**request.labels, IMPORTED: bundle.name, MEASURED_BY: bundle.agent},
        **_variant_fields(bundle, request),
    }
    return request.model_copy(update=fixed)


def _variant_fields(bundle: Bundle, request: Evaluate) -> dict[str, Any]:
    """Return the fields that select a bundle's variants when it has no plain sessions.

    No request gave such a plan: a person or a program wrote it.
    """
    sessions = [session for session in bundle.plan.sessions if session.variant != "cold"]
    variants = tuple(dict.fromkeys(session.variant for session in sessions))
    if not variants or "" in variants:
        return {}
    return {
        "variants": variants,
        "serialised": request.serialised or "serialised" in variants,
        "trace_level": max(run.level for session in sessions for run in session.runs),
        "levels": (),
    }


def derived_request(bundle: Bundle) -> Evaluate:
    """Return the request that an older bundle's plan suggests, without its scenarios."""
    plan, subject = bundle.plan, bundle.plan.subject
    runs = list(chain.from_iterable(session.runs for session in plan.sessions))
    plain_runs = chain.from_iterable(
        session.runs for session in plan.sessions if session.variant in ("", "cold")
    )
    variants = [session.variant for session in plan.sessions if session.variant != "cold"]
    return Evaluate(
        model=subject.model,
        batch_sizes=tuple(dict.fromkeys(session.batch_size for session in plan.sessions)),
        trace_level=max(run.level for run in runs),
        levels=tuple(sorted({run.level for run in plain_runs})),
        variants=tuple(dict.fromkeys(variants)),
        collectors=subject.collectors,
        serialised="serialised" in variants,
        warmup=subject.warmup,
        blocks=subject.blocks,
        outputs=subject.outputs,
        run_timeout_s=max(run.timeout_s for run in runs),
    )


def scenarios_of(bundle: Bundle) -> tuple[ScenarioChoice, ...]:
    """Return the scenarios of a plan in their order, with the parameters that all runs share.

    A cold start of the model counts as two groups. Parameters that depend on the batch size are
    left out: the planner fills them in again.
    """
    runs_of: dict[int, list[RunPlan]] = {}
    cold_starts: Counter[tuple[int, int, int]] = Counter()
    planned = [(session, run) for session in bundle.plan.sessions for run in session.runs]
    for session, run in planned:
        if session.variant != "cold":
            runs_of.setdefault(run.group, []).append(run)
            continue
        if run.scenario == COLD:
            runs_of.setdefault(run.group // 2, []).append(run)
            cold_starts[run.group // 2, session.batch_size, run.level] += 1
    cold_queries = {number: count for (number, *_), count in cold_starts.items()}
    choices = []
    for number, runs in sorted(runs_of.items()):
        parameters = {
            name: value
            for name, value in runs[0].parameters.items()
            if all((name, value) in run.parameters.items() for run in runs)
        }
        if number in cold_queries:
            parameters["queries"] = cold_queries[number]
        choices.append(ScenarioChoice(name=runs[0].scenario, parameters=parameters))
    return tuple(choices)
