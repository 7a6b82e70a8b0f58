"""Commands of the documentation: in blocks that run or say why not, and known to the CLI."""

import re
import shlex

import pytest

from cli.arguments import build_parser
from tests.docs.pages import PAGES, code_blocks, other_code

_COMMAND = re.compile(r"(?:[A-Z_]+=\S+ )*(?:mlscope|curl|docker|kubectl|pip|make) \S")
_PARSER = build_parser()
_OWN = re.compile(r"^(?:[A-Z_]+=\S+ )*mlscope (?P<words>.+)$", re.MULTILINE)
_COMMANDS = [
    (block.page, match["words"])
    for page in PAGES
    for block in code_blocks(page)
    if block.language == "bash" and not block.runs
    for match in _OWN.finditer(block.text.replace("\\\n", " "))
]


def test_each_command_is_in_a_block_that_runs_or_says_why_not() -> None:
    lines = [(page.name, line) for page in PAGES for line in other_code(page)]
    assert [line for line in lines if _COMMAND.match(line[1])] == []


@pytest.mark.parametrize(("page", "text"), _COMMANDS)
def test_a_command_that_no_test_runs_is_one_of_the_cli(page: str, text: str) -> None:
    words = shlex.split(text, comments=True)
    assert _PARSER.parse_args(words).command == words[0], page
