"""`mlscope models fetch`: what models need is brought into this host's cache beforehand."""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from cli import exits
from cli.commands.artifacts import curator_settings
from cli.commands.manifests import checked_manifest
from cli.commands.planning import shipped_catalog
from cli.failures import Misused
from cli.transfers import TransferLine
from mlscope.assets.addresses import parse
from mlscope.bus.permissions import CURATOR
from mlscope.client.errors import EvaluationRefused, NoCluster
from mlscope.manifests.variants import variants_of
from mlscope.manifests.verifying import unverifiable_in
from mlscope.settings import Settings
from schemas.manifest import ModelManifest
from schemas.request import Evaluate
from schemas.status import Catalog
from services.agent.bringing import bring_needs, needs_of
from services.agent.needs import Need
from services.scheduler.errors import RequestRefused
from services.scheduler.resolving import model_of

_UNSURE = "no checksum in the manifest: used only with --option weights=unverified"


def fetch(arguments: argparse.Namespace) -> int:
    """Fetch every file of the models into the cache; all are found before the first is fetched."""
    settings, name = _settings(arguments)
    models = list(_models(arguments.models, settings.manifests_folder))
    for model in models:
        asyncio.run(_fetch(model, settings, name))
    return exits.OK


async def _fetch(model: ModelManifest, settings: Settings, name: str) -> None:
    needs = {
        each.source.address: each for variant in variants_of(model) for each in needs_of(variant)
    }
    unsure = {
        parse(each.address).address
        for variant in variants_of(model)
        for each in unverifiable_in(variant.model)
    }
    for need in needs.values():
        with TransferLine(sys.stderr, need.source.address) as line:

            def told(_: Need, here: int, whole: int | None, line: TransferLine = line) -> None:
                line.show(here, whole)

            with ExitStack() as held:
                goods = await bring_needs((need,), settings, name=name, told=told)
                held.callback(goods.close)
                (brought,) = goods.files.values()
                print(f"{brought.path}  sha256:{brought.sha256}")
        if need.source.address in unsure:
            print(f"{need.source.address}: {_UNSURE}", file=sys.stderr)
    if not needs:
        print(f"{model.name}: nothing to fetch", file=sys.stderr)


def _settings(arguments: argparse.Namespace) -> tuple[Settings, str]:
    """Return the settings, and the name of the key for artifacts, if a broker is known."""
    try:
        return curator_settings(arguments), CURATOR
    except NoCluster:
        settings = Settings.read(os.environ)
        return replace(settings, data_folder=Path(arguments.data or settings.data_folder)), ""


def _models(named: list[str], folder: Path) -> Iterator[ModelManifest]:
    """Yield the models named: a manifest's file, or a shipped one. Raises Misused."""
    catalog: Catalog | None = None
    for text in named:
        if Path(text).suffix in (".yml", ".yaml"):
            manifest = checked_manifest(Path(text))
            if not isinstance(manifest, ModelManifest):
                raise Misused(f"{text} is no model's manifest")
            yield manifest
            continue
        catalog = catalog or shipped_catalog(folder)
        try:
            yield model_of(Evaluate(model=text), catalog)
        except RequestRefused as refused:
            raise EvaluationRefused(refused.refused) from refused
