"""The grammar as a whole: help is quick and light, exit codes are documented."""

import os
import re
import subprocess
import sys

from cli import exits


def mlscope(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_help_names_every_command_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from cli.arguments import build_parser; build_parser().format_help();"
        "print([m for m in ('pydantic', 'numpy', 'asyncio', 'nats', 'yaml') if m in sys.modules])"
    )
    assert mlscope("-c", code).stdout == "[]\n"
    shown = mlscope("-m", "cli.main", "--help").stdout
    names = "run,ls,show,watch,cancel,manifest,serve,provision,doctor,demo,up,down"
    for name in names.split(","):
        assert re.search(rf"^    {name}\s", shown, re.MULTILINE), name


def test_commands_that_compute_nothing_load_no_numpy() -> None:
    names = ("analyze", "cancel", "ls", "manifest", "run", "show", "watch")
    imports = "; ".join(f"import cli.commands.{name}" for name in names)
    code = f"{imports}; import sys; print('numpy' in sys.modules)"
    assert mlscope("-c", code).stdout == "False\n"


def test_exit_codes_are_documented() -> None:
    shown = mlscope("-m", "cli.main", "help", "exit-codes").stdout
    assert [int(line.split()[0]) for line in shown.splitlines()] == [0, 1, 2, 3, 4, 5, 6, 130]
    assert mlscope("-m", "cli.main", "run").returncode == exits.USAGE


def test_a_reader_that_goes_is_no_error() -> None:
    code = f"{sys.executable} -m cli.main help settings | head -1 > /dev/null"
    ended = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {code}"], capture_output=True, text=True, check=False
    )
    assert ended.stderr == ""


def test_settings_are_documented() -> None:
    assert "MLSCOPE_NATS_URL" in mlscope("-m", "cli.main", "help", "settings").stdout


def test_both_streams_in_one_pipe_keep_their_order() -> None:
    code = (
        "import sys; from cli.main import main; main(['help', 'exit-codes']);"
        "print('after', file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"},
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout.splitlines()[-1] == "after"
