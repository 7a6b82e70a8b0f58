"""`mlscope open`: the address of a page, on stdout."""

from cli import exits
from cli.commands.open import page_address
from tests.cli.conftest import CommandLine
from tests.stories import StandIns, whole_story

E1 = "00000000000000e1"


def test_a_page_of_a_trace_may_name_its_run() -> None:
    assert page_address("http://g/evaluations/e") == "http://g/evaluations/e"
    assert page_address("http://g/e", is_trace=True) == "http://g/e/trace"
    assert page_address("http://g/e", is_trace=True, run="r 1") == "http://g/e/trace?run=r+1"


async def test_without_an_address_there_is_nothing_to_open(
    mlscope: CommandLine, standing: StandIns
) -> None:
    await standing.tell(*whole_story(E1))
    ended = await mlscope("open", E1, "--print")
    assert (ended.code, ended.out) == (exits.USAGE, "")
    assert "gateway" in ended.err
    assert (await mlscope("open", "nosuch", "--print")).code != exits.OK
