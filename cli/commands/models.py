"""`mlscope models fetch`: downloads models' files into this host's cache."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path

from cli import exits
from cli.failures import Misused
from cli.inputs.connection import curator_settings
from cli.inputs.manifests import checked_manifest
from cli.offline.planning import shipped_catalog
from cli.printing.transfers import TransferLine
from mlscope.assets.addresses import parse
from mlscope.bus.access.permissions import CURATOR
from mlscope.client.asking import command_of
from mlscope.client.errors import EvaluationRefused, NoCluster
from mlscope.manifests.variants import variants_of
from mlscope.manifests.verifying import unverifiable_in
from mlscope.settings import Settings
from schemas.manifest import ModelManifest
from schemas.request import Evaluate
from schemas.status import Catalog
from services.agent.fetching.fetching import ArtifactAccess, fetch_assets, model_requests
from services.agent.fetching.requests import AssetRequest
from services.scheduler.errors import RequestRefused
from services.scheduler.placement.resolving import model_of

_UNVERIFIED = "no checksum in the manifest: used only with --option weights=unverified"


async def fetch(arguments: argparse.Namespace) -> int:
    """Fetch every file of the models into the cache; finds all models before it fetches."""
    try:
        settings, key_name = curator_settings(arguments), CURATOR
    except NoCluster:
        settings, key_name = Settings.read(os.environ), ""
        settings = replace(settings, data_folder=Path(arguments.data or settings.data_folder))
    models = list(_models(arguments.models, settings.manifests_folder))
    for model in models:
        await _fetch(model, settings, key_name)
    return exits.OK


async def _fetch(model: ModelManifest, settings: Settings, key_name: str) -> None:
    """Fetch a model's files; `key_name` is that of the key for artifacts, '' without a broker."""
    variants = list(variants_of(model))
    asset_requests = chain.from_iterable(map(model_requests, variants))
    requests = {request.source.address: request for request in asset_requests}
    unverifiable = {
        parse(asset.address).address
        for variant in variants
        for asset in unverifiable_in(variant.model)
    }
    artifacts = ArtifactAccess(settings, key_name) if key_name else None
    for address, request in requests.items():
        with TransferLine(sys.stderr, address) as line, ExitStack() as stack:

            def show(
                _: AssetRequest, done_bytes: int, total_bytes: int | None, line: TransferLine = line
            ) -> None:
                line.show(done_bytes, total_bytes)

            assets = await fetch_assets((request,), settings, artifacts=artifacts, on_progress=show)
            stack.callback(assets.close)
            (file,) = assets.files.values()
            print(f"{file.path}  sha256:{file.sha256}")
        if address in unverifiable:
            print(f"{address}: {_UNVERIFIED}", file=sys.stderr)
    if not requests:
        print(f"{model.name}: nothing to fetch", file=sys.stderr)


def _models(names: list[str], manifests_folder: Path) -> Iterator[ModelManifest]:
    """Yield the models: manifest files, or names of shipped models. Raises Misused."""
    catalog: Catalog | None = None
    for name in names:
        if Path(name).suffix in (".yml", ".yaml"):
            manifest = checked_manifest(Path(name))
            if not isinstance(manifest, ModelManifest):
                raise Misused(f"{name}: expected a model manifest, found a {manifest.kind}")
            yield manifest
            continue
        catalog = catalog or shipped_catalog(manifests_folder)
        try:
            yield model_of(command_of(Evaluate, {"model": name}), catalog)
        except RequestRefused as error:
            raise EvaluationRefused(error.refused) from error
