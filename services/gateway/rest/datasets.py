"""REST for a person's own dataset: one file or packed folder, described for a request."""

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.pages.starting.request_form import yaml_of
from services.gateway.parameters.request_values import who_asks
from services.gateway.responses import as_json
from services.gateway.rest.files import checked_sending
from services.gateway.sent.datasets import looked_into, manifest_of, recognised


async def send(request: Request) -> Response:
    """POST /api/datasets?name=NAME: keep the dataset in the body for a day; 201 with its manifest.

    The body is a .zip or .tar of a folder, a .npy or a .npz; `name` is its file's name. The answer
    has the `manifest`, for the field `dataset` of a request, and as YAML (`text`), the `reader`,
    the numbers of `samples` (0 where only an agent can tell), the names of `classes` (the first
    1000), their number (`class_count`), and a `note` where subfolders are not classes.
    """
    sent_files, name = checked_sending(request)
    ending, chunks = await recognised(aiter(request.stream()), name)
    async with sent_files.received(chunks, who_asks(request).name) as file:
        facts = await looked_into(file.path, ending, file.size_bytes, sent_files.most_bytes)
        artifact = await sent_files.keep(file, ending)
    manifest = manifest_of(name, artifact, facts)
    body = {
        "name": manifest["name"],
        "manifest": manifest,
        "text": yaml_of(manifest),
        "reader": facts["reader"],
        "samples": facts["samples"],
        "classes": facts["classes"],
        "class_count": facts["class_count"],
        "note": facts["note"],
        "size_bytes": artifact.size_bytes,
    }
    return as_json(body, 201)
