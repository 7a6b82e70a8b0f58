"""The page of frameworks: agents that have them, options, and what installs them."""

import tomllib
from pathlib import Path

from schemas.manifest import FrameworkManifest
from schemas.status import Catalog
from services.gateway.pages.catalog.frameworks import EXTRAS, frameworks_view
from services.gateway.rendering import html_of
from tests.services.gateway.pages.test_home import an_agent
from tests.stories import a_model

ONNX = FrameworkManifest(
    name="onnxruntime",
    version="1.31.1",
    description="With its CPU provider.",
    options={"threads": "of one operator"},
    defaults={"threads": 2},
    containers={"amd64": {"cpu": "mlscope:1"}},
)


def test_a_framework_has_its_agents_options_and_models() -> None:
    view = frameworks_view(
        Catalog(
            agents=(an_agent("gone", state="lost"), an_agent("a1")),
            frameworks=(ONNX, ONNX.model_copy(update={"version": "1.40.0"})),
            models=(a_model(),),
        )
    )
    (entry,) = view.entries
    assert [host.name for host in entry.hosts] == ["a1", "gone"]
    assert [build.version for build in entry.builds] == ["1.40.0", "1.31.1"]
    assert (entry.models, entry.is_here) == (1, True)
    shown = ("set to 2 by this build", "pip install &#39;mlscope[onnxruntime]&#39;", "mlscope:1")
    assert [text for text in shown if text not in html_of(view)] == []


def test_what_no_agent_has_comes_last_with_how_to_get_it() -> None:
    absent = FrameworkManifest(name="abacus", version="1")
    view = frameworks_view(Catalog(agents=(an_agent(),), frameworks=(absent,)))
    assert [entry.name for entry in view.entries] == ["onnxruntime", "abacus"]
    text = html_of(view)
    assert "No agent has it now." in text
    assert "Install it in an agent's environment" in text
    assert "mlscope[abacus]" not in text


def test_an_empty_catalog_says_what_to_start() -> None:
    assert "mlscope serve agent" in html_of(frameworks_view(Catalog()))


def test_extras_are_those_of_the_package() -> None:
    document = tomllib.loads(Path("pyproject.toml").read_text())
    assert document["project"]["optional-dependencies"].keys() >= EXTRAS
