"""Types in the reference: as one writes them, without what checks their values."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from schemas.plan import WorkAnswer
from schemas.request import Evaluate
from tools.reference.manifests import manifests_page
from tools.reference.messages import messages_page
from tools.reference.types import default_text, type_text


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (str, "str"),
        (WorkAnswer, "WorkAnswer"),
        (tuple[Annotated[int, Field(gt=0)], ...], "tuple[int, ...]"),
        (Mapping[str, Any], "Mapping[str, Any]"),
        (float | None, "float | None"),
        (Literal["one", "all"], "'one' | 'all'"),
    ],
)
def test_a_type_is_text_as_one_writes_it(annotation: Any, text: str) -> None:
    assert type_text(annotation) == text


def test_pages_show_no_objects_of_the_code() -> None:
    for page in (manifests_page(), messages_page()):
        assert "<class" not in page
        assert "<function" not in page
        assert "<Level" not in page


def test_a_default_is_what_a_request_would_hold() -> None:
    fields = Evaluate.model_fields
    assert default_text(fields["trace_level"].default) == "'model'"
    assert default_text(fields["batch_sizes"].default) == "(1,)"
    assert default_text(fields["model"].default) == ""


def test_the_page_of_manifests_says_what_each_field_means_and_which_are_required() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in manifests_page().partition("## Steps")[0].splitlines()
        if line.startswith("| `")
    ]
    assert [row for row in rows if not row[-1]] == []
    required = [row[0] for row in rows if "**required**" in row]
    assert required[:6] == ["`name`", "`version`", "`framework`", "`inputs`", "`outputs`", "`type`"]
    assert ["`version`", "`str`", "`'1.0.0'`", "version, as `1.0.0`"] in rows
