"""`mlscope completion`: what the last word may become, and the scripts in their shells."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.arguments import build_parser
from cli.commands.completion import SCRIPTS
from cli.parser import Parser
from tests.cli.conftest import CommandLine
from tests.services.scheduler.samples import an_agent
from tests.stand_ins import StandIns


def completed(*words: str) -> list[str]:
    """Return what the last of the words may become."""
    parser = build_parser()
    assert isinstance(parser, Parser)
    return parser.completions(words)[0]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("analy",), ["analyze"]),
        (("run", "--batch"), ["--batch-size"]),
        (("ls", "mod"), ["models"]),
        (("run", "tiny", "-o", "j"), ["json"]),
        (("run", "tiny", "--output", "=", "c"), ["csv"]),
        (("run", "tiny", "--output", "="), ["table", "json", "csv"]),
        (("agents", "dr"), ["drain"]),
        (("run", "--quiet", "--output", "json", "--det"), ["--detach"]),
        (("nosuch", "x"), []),
        (("analyze", "0123", "latency", "thro"), []),
        (("ls", "models", "text", "more"), []),
    ],
)
def test_a_word_is_completed_by_its_place(words: tuple[str, ...], expected: list[str]) -> None:
    assert completed(*words) == expected


async def words_of(mlscope: CommandLine, *typed: str) -> list[str]:
    ended = await mlscope("completion", "words", "--", *typed)
    assert ended.code == 0
    return ended.out.split()


async def test_names_are_the_cluster_s(mlscope: CommandLine, standing: StandIns) -> None:
    standing.agents = (an_agent("alpha"), an_agent("beta"))
    assert await words_of(mlscope, "run", "") == ["tiny"]
    assert await words_of(mlscope, "run", "x") == []
    assert await words_of(mlscope, "run", "tiny", "--agent", "") == ["alpha", "beta"]
    assert await words_of(mlscope, "run", "tiny", "--agent", "=", "b") == ["beta"]
    assert await words_of(mlscope, "agents", "drain", "a") == ["alpha"]
    assert await words_of(mlscope, "--vers") == ["--version"]


def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    """The real shell: its array of words, its script, and the command that it calls."""
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    text = (
        'source <(mlscope completion bash) && complete -p mlscope && COMP_WORDS=("$@")'
        " && COMP_CWORD=$(($# - 1)) && _mlscope && printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    command = ["bash", "-euc", text, "bash", "mlscope", "ls", "eval"]
    environment = {"PATH": path, "MLSCOPE_DATA": str(tmp_path)}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    lines = ["complete -o default -F _mlscope mlscope", "evaluations"]
    assert (done.stdout.splitlines(), done.stderr) == (lines, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_right_for_its_shell(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(SCRIPTS[shell])
    done = subprocess.run([shell, "-n", script], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
