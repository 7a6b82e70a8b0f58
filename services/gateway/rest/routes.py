"""The paths below `/api`."""

from starlette.routing import Route

from services.gateway.rest import (
    catalog,
    charts,
    datasets,
    evaluations,
    explorations,
    exports,
    files,
    manifests,
    metrics,
    predictions,
    prices,
    reports,
    tables,
    trace,
)


def rest_routes() -> list[Route]:
    """Return the routes below `/api`."""
    address = "/evaluations/{evaluation}"
    run = f"{address}/runs/{{run}}"
    return [
        Route("/openapi.json", catalog.openapi),
        Route("/catalog", catalog.catalog),
        Route("/status", metrics.status),
        Route("/compare", tables.compare),
        Route("/compare/report", reports.comparison_report),
        Route("/compare/tables/{table}", tables.compared_table),
        Route("/explore", explorations.explore),
        Route("/explore/tables/{table}", explorations.explored_table),
        Route("/explore/charts/{chart}", explorations.explored_chart),
        Route("/prices", prices.show),
        Route("/prices/{agent}", prices.keep, methods=["PUT"]),
        Route("/prices/{agent}", prices.forget, methods=["DELETE"]),
        Route("/events", evaluations.all_events),
        Route("/match", evaluations.match, methods=["POST"]),
        Route("/predict", predictions.predict, methods=["POST"]),
        Route("/equivalents", evaluations.equivalents, methods=["POST"]),
        Route("/models", manifests.show_models),
        Route("/models/{name:path}", manifests.show_model),
        Route("/files", files.send, methods=["POST"]),
        Route("/datasets", datasets.send, methods=["POST"]),
        Route("/manifests", manifests.publish, methods=["POST"]),
        Route("/manifests/check", manifests.check, methods=["POST"]),
        Route("/manifests/{kind}/{name:path}/{version}", manifests.withdraw, methods=["DELETE"]),
        Route("/evaluations", evaluations.list_evaluations, methods=["GET"]),
        Route("/evaluations", evaluations.evaluate, methods=["POST"]),
        Route("/evaluations/{evaluation}", evaluations.show, methods=["GET"]),
        Route("/evaluations/{evaluation}", evaluations.cancel, methods=["DELETE"]),
        Route("/evaluations/{evaluation}/events", evaluations.events),
        Route("/evaluations/{evaluation}/report", reports.report),
        Route("/evaluations/{evaluation}/report.zip", reports.report_archive),
        Route("/evaluations/{evaluation}/analyses", tables.analyses),
        Route("/evaluations/{evaluation}/charts/{chart}", charts.show_chart),
        Route("/evaluations/{evaluation}/tables", tables.tables),
        Route("/evaluations/{evaluation}/tables/{table}", tables.show_table),
        Route(f"{address}/trace", trace.trace),
        Route(f"{address}/predictions", exports.predictions),
        Route(f"{address}/exports/flow", exports.facts),
        Route(f"{address}/exports/log", exports.reference_log),
        Route(f"{run}/trace", trace.trace),
        Route(f"{run}/spans", trace.spans),
        Route(f"{run}/spans/{{span}}", trace.span),
        Route(f"{run}/series", trace.series),
        Route(f"{run}/exports/{{format}}", exports.spans_as),
    ]
