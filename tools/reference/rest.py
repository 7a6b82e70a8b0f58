"""The page of the REST API: every path and method, from the OpenAPI document."""

from services.gateway.openapi import document
from tools.reference.markdown import code, table

_HEAD = """# REST API

The gateway serves this API and the pages. `/api/openapi.json` describes it in OpenAPI 3.1.
A request needs the header `Authorization: Bearer TOKEN`; `mlscope status` prints the token's file.

"""


def rest_page() -> str:
    """Return the page as Markdown."""
    rows = [
        (method.upper(), code(path), operation.get("summary", ""))
        for path, operations in document()["paths"].items()
        for method, operation in operations.items()
        if method in {"get", "post", "put", "delete"}
    ]
    return _HEAD + table(("Method", "Path", "Answer"), rows)
