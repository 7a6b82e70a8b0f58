"""Traces of other tools as bundles, so that they are imported like any other bundle."""

import asyncio
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from cli.failures import Misused
from cli.offline.planning import offline_plan, shipped_catalog
from mlscope.exchange.bundle import MAGIC
from mlscope.importing.errors import ForeignError
from mlscope.importing.facts import write_bundle
from mlscope.importing.reading import read_foreign
from mlscope.importing.recording import Recording
from mlscope.importing.unpacking import unpacked, unpacked_head
from mlscope.settings import Settings
from schemas.manifest import DatasetManifest, FrameworkNeed, ModelManifest, Port, Synthetic
from schemas.plan import OfflinePlan
from schemas.request import Evaluate, ScenarioChoice, SystemNeed
from schemas.values.framework_names import predictors_name

_NOT_IN_NAMES = re.compile(r"[^a-z0-9_-]+")
_NAME = re.compile(r"[\w.+-]{1,64}")
_DEVICE = re.compile(r"[\w.+-]{1,64}(:\d{1,4})?")


@contextmanager
def as_bundle(
    path: Path, model: str = "", batch_size: int = 1, framework: str = "", device: str = ""
) -> Iterator[Path]:
    """Yield `path` itself if it is a bundle, else a temporary one: unpacked, or made from a trace.

    `model` ('': the file's name up to its first dot) and `batch_size` (1 or more) describe a trace,
    which does not contain them. `framework` and `device` stand in for what the file says or for
    what its format suggests. Raises Misused, also for a bundle that is given such a name.
    """
    try:
        if unpacked_head(path, len(MAGIC)) == MAGIC:
            if model or framework or device:
                raise Misused(
                    f"{path} is a bundle, which has its names: omit --model, --framework, --device"
                )
            with unpacked(path) as bundle:
                yield bundle
            return
        recording = _named(read_foreign(path), framework, device)
    except ForeignError as error:
        raise Misused(str(error)) from error
    plan = plan_of(recording, model or path.name.partition(".")[0], batch_size)
    # Importing the same file twice gives one evaluation.
    plan = plan.model_copy(update={"evaluation": digest_of(path)})
    with TemporaryDirectory(prefix="mlscope-") as folder:
        bundle = Path(folder) / f"{path.name}.bundle"
        asyncio.run(write_bundle(bundle, plan, recording))
        yield bundle


def _named(recording: Recording, framework: str, device: str) -> Recording:
    """Return a `recording` of this `framework` and `device`, as far as they are not ''."""
    allowed = "a name has 1 to 64 letters, digits, or _ . + -"
    if framework and not _NAME.fullmatch(framework):
        raise Misused(f"--framework {framework!r}: {allowed}")
    if device and not _DEVICE.fullmatch(device):
        raise Misused(f"--device {device!r}: {allowed}; a number may follow, as in cuda:1")
    return replace(
        recording,
        framework=predictors_name(framework or recording.framework),
        device=device or recording.device,
    )


def digest_of(path: Path) -> str:
    """Return an evaluation id that depends on a file's content only."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def plan_of(recording: Recording, model: str, batch_size: int = 1) -> OfflinePlan:
    """Return a plan with the recording as its only run.

    `recording`: the trace; `model`: the model's name; `batch_size`: samples in a query.
    """
    # Model and dataset are in the request: hundreds of models need not be read.
    catalog = shipped_catalog(Settings.read(os.environ).manifests_folder, ["framework", "scenario"])
    return offline_plan(request_of(recording, model, batch_size), catalog)


def request_of(recording: Recording, model: str, batch_size: int) -> Evaluate:
    """Return the request that a recording fulfils: one run at the recording's level.

    `recording`: the trace; `model`: the model's name; `batch_size`: samples in a query.
    """
    port = Port(type="raw", layer_name="x", shape=(-1, 1))
    manifest = ModelManifest(
        name=model,
        version="0.0.0",
        task="none",
        description=f"The model of a trace of {recording.tool}; nothing else is known about it.",
        framework=FrameworkNeed(name=recording.framework),
        inputs=(port,),
        outputs=(port,),
    )
    queries = max(recording.roots.height, 1)
    return Evaluate(
        model=manifest,
        dataset=DatasetManifest(
            name="unknown", modality="tensor", synthetic=Synthetic(shape=(1,), samples=1)
        ),
        agents=(_NOT_IN_NAMES.sub("-", f"{recording.tool}-{recording.host}".lower())[:60],),
        system=SystemNeed(device=recording.device),
        scenarios=(ScenarioChoice(name="online", parameters={"queries": queries}),),
        batch_sizes=(batch_size,),
        trace_level=recording.level,
        levels=(recording.level,),
        variants=("",),
        outputs=0,
        warmup=0,
        pacing="local",
    )
