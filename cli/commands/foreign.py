"""Files of other tools made bundles, so that they are imported like any other."""

import asyncio
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from cli.commands.planning import offline_plan, shipped_catalog
from cli.failures import Misused
from mlscope.settings import Settings
from schemas.manifest import DatasetManifest, FrameworkNeed, ModelManifest, Port, Synthetic
from schemas.plan import OfflinePlan
from schemas.request import Evaluate, ScenarioChoice, SystemNeed
from services.agent.bundle import MAGIC
from services.agent.foreign.bundling import write_bundle
from services.agent.foreign.errors import ForeignError
from services.agent.foreign.reading import head_of, read_foreign
from services.agent.foreign.recording import Recording

_STRANGE = re.compile(r"[^a-z0-9_-]+")


@contextmanager
def as_bundle(path: Path, model: str = "", batch_size: int = 1) -> Iterator[Path]:
    """Yield a bundle: the file itself if it is one, else one made of it for as long as needed.

    `model` and `batch_size` are what the file does not tell. Raises Misused.
    """
    try:
        if head_of(path).startswith(MAGIC):
            yield path
            return
        recording = read_foreign(path)
    except ForeignError as error:
        raise Misused(str(error)) from error
    plan = plan_of(recording, model or path.name.partition(".")[0], batch_size)
    # The same file, imported twice, is one evaluation.
    plan = plan.model_copy(update={"evaluation": digest_of(path)})
    with TemporaryDirectory(prefix="mlscope-") as folder:
        made = Path(folder) / f"{path.name}.bundle"
        asyncio.run(write_bundle(made, plan, recording))
        yield made


def digest_of(path: Path) -> str:
    """Return an evaluation's id of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def plan_of(recording: Recording, model: str, batch_size: int = 1) -> OfflinePlan:
    """Return a plan of the one run that a recording is."""
    catalog = shipped_catalog(Settings.read(os.environ).manifests_folder)
    return offline_plan(request_of(recording, model, batch_size), catalog)


def request_of(recording: Recording, model: str, batch_size: int) -> Evaluate:
    """Return the request that a recording answers: one plain run, as deep as the recording."""
    port = Port(type="raw", layer_name="x", shape=(-1, 1))
    manifest = ModelManifest(
        name=model,
        version="0.0.0",
        task="none",
        description=f"What a file of {recording.tool} is of; the model itself is not known here.",
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
        agents=(_STRANGE.sub("-", f"{recording.tool}-{recording.host}".lower())[:60],),
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
