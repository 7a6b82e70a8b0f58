"""Values put into a YAML text: its comments stay, and the result says what is asked for."""

from typing import Any

import pytest
import yaml

from mlscope.manifests.splicing import differences, spliced

BLOCK = """\
# a model of mine
name: mine  # its name
model:
  # exported on Monday
  graph_path: net.onnx
  assets:
    labels.txt: ""
variants:
- {name: a, model: {graph_path: a.pt}}
"""


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (
            BLOCK,
            {
                "name": "mine",
                "model": {
                    "graph_path": "net.onnx",
                    "checksum": "sha256:aa",
                    "addresses": {"net.onnx": "artifact://uploads/ä.onnx"},
                    "assets": {"labels.txt": "sha256:bb"},
                },
                "variants": [{"name": "a", "model": {"graph_path": "a.pt", "checksum": "c: #"}}],
            },
        ),
        ("model: {graph_path: net.onnx}  # flow", {"model": {"graph_path": "x", "checksum": "y"}}),
        ("- 1  # one\n- 2\n", [1, 3]),
    ],
)
def test_a_text_keeps_its_comments_and_says_the_values(text: str, after: Any) -> None:
    changed = spliced(text, differences(yaml.safe_load(text), after))
    assert yaml.safe_load(changed) == after
    comments = [line.partition("#")[2] for line in text.splitlines() if "#" in line]
    assert all(f"#{comment}" in changed for comment in comments)


def test_nothing_changes_without_differences() -> None:
    assert spliced(BLOCK, differences(yaml.safe_load(BLOCK), yaml.safe_load(BLOCK))) == BLOCK


@pytest.mark.parametrize("text", ["model: {}", "model: net.onnx", "other: 1"])
def test_where_no_map_stands_it_is_said(text: str) -> None:
    with pytest.raises(LookupError):
        spliced(text, iter([(("model", "checksum"), "x")]))
