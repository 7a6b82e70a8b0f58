"""Measures many models on this machine, a step at a time.

`python -m benchmarks.survey OUT [--device gpu|cpu] [--models NAME,…] [--seconds 400] [PHASE …]`

OUT holds `state.json` and a bundle a step; what is in the state is not done again, so the same
command goes on where the last one ended, also on another machine that OUT was copied to. After
`--seconds` it begins no step, and the one under way is cut off, to be done again: what is left of
the time is its runs' and its tools' time-out. `python -m benchmarks.survey.tables OUT` makes the
tables. Roofs are kept in OUT/roofs.

Models: without `--models` the survey's own 24 of torchvision and timm, made here with random
weights; else any of the catalog, of any framework this machine has, by the names of `mlscope ls
models`, each on its own dataset (`--random-weights` where published ones can't be fetched).

Phases: `sweep` (level model, every batch size), `throughput` (scenario batched at the optimal and
the fastest batch), `system` (layers, and on a GPU kernels, at the optimal batch). On a GPU also, of
the survey's own models: `counts` (hardware counters of whole models at their optimal batch, one
call of each kind of operator, by ncu), and of four looked at deeply `deep` (level full in one
evaluation: levels in turn, and ncu on each kernel), `energy` (of untraced queries), `residual`
(many short blocks of levels model and framework in turn).
"""

import argparse
import time
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.survey import measuring
from benchmarks.survey.bounds import Bound, TimeIsUp
from benchmarks.survey.steps import PHASES, Measure, State, Step, Subjected, Survey, steps
from benchmarks.survey.subjects import SURVEYED
from services.agent.worker.ending import end_process


def main(arguments: Sequence[str] | None = None) -> int:
    """Do the steps that are left until the time is up; 0 when none is left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("phases", nargs="*", choices=[*PHASES["gpu"], []])
    parser.add_argument("--device", choices=tuple(PHASES), default="gpu")
    parser.add_argument("--models", default="", help="names of the catalog, with commas between")
    parser.add_argument("--random-weights", action="store_true", help="of builders' models")
    parser.add_argument("--batch-sizes", default="", help="of --models, as 1,2,4")
    parser.add_argument("--seconds", type=float, default=400.0)
    parser.add_argument("--core", type=int, help="issue the survey's own queries from this one")
    parser.add_argument("--only", default="", help="steps with this in their name")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    survey = survey_of(options)
    bound = Bound.after(options.seconds)
    remaining = 0
    for step in steps(survey, options.phases or PHASES[options.device]):
        if step.name in survey.state.finished or options.only not in step.name:
            continue
        if not bound.left_s:
            remaining += 1
            continue
        remaining += not _is_done(survey, step, bound)
    print(f"{remaining} steps left", flush=True)
    return 1 if remaining else 0


def survey_of(options: argparse.Namespace) -> Survey:
    """Return the survey asked for; its state says which models it is of."""
    state = State.read(options.out / "state.json")
    models: tuple[Subjected, ...] = SURVEYED
    measure: Measure = partial(measuring.measure, core=options.core)
    if options.models:
        # What reads the catalog is not on a machine that has the survey's own models alone.
        from benchmarks.survey import listed

        sizes = [int(size) for size in options.batch_sizes.split(",") if size]
        models = tuple(
            listed.Listed(name, sizes or listed.BATCH_SIZES, options.random_weights)
            for name in options.models.split(",")
        )
        measure = listed.measure
    former_models = state.finished.get("survey", {}).get("models", [])
    names = [*former_models, *(model.name for model in models if model.name not in former_models)]
    state.note("survey", {"device": options.device, "models": names})
    return Survey(options.out, state, options.device, models, measure)


def _is_done(survey: Survey, step: Step, bound: Bound) -> bool:
    """Do a step and keep what it found; a model that fails is not the survey's end."""
    began = time.monotonic()
    try:
        results = step.act(survey, bound)
    except TimeIsUp:
        print(f"{step.name}: cut off, the time is up", flush=True)
        return False
    except Exception as error:  # noqa: BLE001 - see above
        traceback.print_exc()
        print(f"{step.name}: {type(error).__name__}: {error}", flush=True)
        return False
    seconds = time.monotonic() - began
    survey.state.note(step.name, {**results, "seconds": seconds})
    shown = {k: v for k, v in results.items() if k in ("optimal", "medians_ms", "failed", "models")}
    print(f"{seconds:6.1f} s  {step.name}  {str(shown)[:300]}", flush=True)
    return True


if __name__ == "__main__":
    end_process(main())
