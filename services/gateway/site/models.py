"""The pages of the catalog's models."""

from collections.abc import Sequence
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mlscope.bus.bus import Bus
from mlscope.client.asking import ask_for, command_of
from mlscope.client.errors import ClientError, CommandRefused
from schemas.manifest import ModelManifest
from schemas.request import ListEvaluations, Match, Refused
from schemas.status import EvaluationStatus, Matched
from services.gateway.bus_requests import evaluations, some_tables_of
from services.gateway.bus_requests import models as ask_models
from services.gateway.pages.catalog.layer_tree import LayerTree, layer_tree
from services.gateway.pages.catalog.models import SORTS, ModelView, Search, model_view, models_view
from services.gateway.pages.comparing.exploring import Part, Terms
from services.gateway.parameters.request_values import bus_of
from services.gateway.rendering import html_of, rendered
from services.gateway.responses import refused_by
from services.gateway.running_models import RunningModels
from services.gateway.site.exploring import with_parts

_LATEST = 5


async def models(request: Request) -> Response:
    """GET /models: those that match `q`, `task`, `framework` and `runs`, sorted by `sort`."""
    query = request.query_params
    sort, number = query.get("sort", ""), query.get("page", "")
    is_number = number.isascii() and number.isdigit() and len(number) < 6
    search = Search(
        terms=query.get("q", ""),
        task=query.get("task", ""),
        framework=query.get("framework", ""),
        sort=sort if sort in SORTS else "name",
        page=max(1, int(number)) if is_number else 1,
        runs=query.get("runs", ""),
    )
    running_models: RunningModels = request.app.state.running_models
    now = await running_models.get(bus_of(request))
    return rendered(request, models_view(now.models, search, now.running))


async def model(request: Request) -> Response:
    """GET /models/{name}/{version}: one manifest, also a hidden one."""
    name, version = str(request.path_params["name"]), str(request.path_params["version"])
    for manifest in await ask_models(bus_of(request), name):
        if (manifest.name, manifest.version) == (name, version):
            view = await _view_of(bus_of(request), manifest)
            if not view.history:
                return rendered(request, view)
            document = html_of(view, request.app.state.page_paths, request.url.path)
            history = Part("history", "", f"/explore/history?{urlencode({'model': name})}")
            parts = with_parts(request, Terms({"model": name}), document, {view.chart: history})
            return StreamingResponse(parts, media_type="text/html; charset=utf-8")
    message = f"no model {name} {version}; /models lists all"
    raise CommandRefused(Refused(error="unknown", message=message, field="version", found=version))


async def _view_of(bus: Bus, manifest: ModelManifest) -> ModelView:
    """Return a model's view; who can run it is left out where the scheduler does not answer."""
    matched: Matched | Refused
    try:
        request = command_of(Match, {"model": f"{manifest.name}:{manifest.version}"})
        matched = await ask_for(bus, request, Matched)
        history = await evaluations(bus, ListEvaluations(model=manifest.name, limit=_LATEST))
        tree = await _tree_of(bus, manifest, history.evaluations)
    except ClientError as error:
        return model_view(manifest, refused_by(error))
    return model_view(manifest, matched, history.evaluations, tree)


async def _tree_of(
    bus: Bus, manifest: ModelManifest, history: Sequence[EvaluationStatus]
) -> LayerTree | None:
    """Return the layers of the newest evaluation of this version that traced them."""
    names = (manifest.name, f"{manifest.name}:{manifest.version}")
    for status in history:
        if status.model not in names or "layers" not in status.tables:
            continue
        answer = await some_tables_of(bus, status.evaluation, "layers")
        tables = [table for table in answer.tables if table.name == "layers"]
        total = answer.total_rows.get("layers", 0)
        if tree := layer_tree(status.evaluation, tables[0] if tables else None, total):
            return tree
    return None
