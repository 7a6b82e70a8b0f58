"""Wrong words on the command line: exit code 2, and what is wrong with what to write instead."""

import json
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cli import exits
from cli.arguments.reading import KINDS
from cli.main import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a few files, without any cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLSCOPE_DATA", str(tmp_path / "data"))
    for name in ("NATS_URL", "NATS_SEED_FILE", "GATEWAY_URL"):
        monkeypatch.delenv(f"MLSCOPE_{name}", raising=False)
    dataset = {"kind": "dataset", "name": "d", "synthetic": {"samples": 3}}
    (tmp_path / "dataset.yml").write_text(json.dumps(dataset))
    (tmp_path / "torn.json").write_text('{"a": ')
    return tmp_path


def code_of(words: str) -> int:
    """Return the exit code of a command, run in a thread: it has an event loop of its own."""
    with ThreadPoolExecutor(1) as pool:
        try:
            return pool.submit(main, shlex.split(words)).result(60)
        except SystemExit as ended:
            return int(str(ended.code))


def said_by(words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a command says on stderr, after it was refused as misused."""
    code = code_of(words)
    printed = capsys.readouterr()
    assert (code, printed.out) == (exits.USAGE, ""), printed
    return printed.err


def test_a_listing_without_a_kind_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said_by("ls", capsys).splitlines()
    assert lines[0] == "mlscope ls: KIND is missing: write one of these after `ls`"
    assert [line.split()[0] for line in lines[1:]] == list(KINDS)
    assert "  scenarios    how queries arrive" in lines


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "agent --plan torn.json",
            "--plan needs --out BUNDLE, the file for what the plan measures",
        ),
        ("agent --plan torn.json --out b", "torn.json"),
        ("agent --plan none.json --out b", "none.json: No such file or directory"),
        (
            "agent --framework-manifest dataset.yml",
            "expected a framework manifest, found a dataset",
        ),
        ("dead retry", "write `mlscope dead`, `dead N`, `dead retry N|all` or `dead drop N|all`"),
        ("dead 3 4", "write `mlscope dead`"),
        ("dead first", "'first' is not the number of a letter; `mlscope dead` lists them"),
        ("dead retry first", "'first' is not the number of a letter"),
        ("export e -o json", "-o json: -o names the file to write, e.g. run.json; --format chrome"),
        ("export e --limit -1", "--limit -1: expected a number of spans, or 0 for all"),
        ("import torn.json", "torn.json"),
        ("join", "no invitation: `mlscope agents invite NAME` on the cluster prints one"),
        ("join nonsense", "not an invitation: copy all of the last line that `mlscope agents"),
        ("models fetch dataset.yml", "dataset.yml: expected a model manifest, found a dataset"),
        ("people add 'a b' --role viewer", "'a b': not a person's name; allowed: 1 to 64 of A-Z"),
        ("reproduce none.yml", "none.yml: No such file or directory"),
        ("reproduce torn.json", "torn.json"),
        ("compare a b --price p3=cheap", "--price p3=cheap: expected AGENT=DOLLARS, e.g. p3=3.06"),
        ("report e -o report.pdf", "-o report.pdf: expected a file that ends in .html or .zip"),
        ("open", "no gateway is known that serves the pages: start the cluster (`mlscope up`)"),
        (
            "keys --out k --broker one --broker two",
            "one, two: give it once for each of three",
        ),
    ],
)
def test_a_command_says_what_is_wrong_and_what_to_write(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    err = said_by(words, capsys)
    assert err.startswith(f"mlscope {words.split()[0]}: ")
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("tables e --limit many", "tables: --limit: expected a whole number, found 'many'"),
        ("run m --warmup 1.5", "run: --warmup: expected a whole number, found '1.5'"),
        ("run m --wait soon", "run: --wait: expected a number, found 'soon'"),
        ("audit --limit many", "audit: argument --limit: expected 0 (no limit) or more, found"),
        ("audit --limit -1", "expected 0 (no limit) or more, found '-1'"),
        ("people add a --at-most 9999999999", "expected 0 (no limit) or more, found '9999999999'"),
    ],
)
def test_a_number_that_is_none_is_named_in_words(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    err = said_by(words, capsys)
    assert said in err
    assert f"see `mlscope {words.split()[0]}" in err


@pytest.mark.parametrize("words", ["audit", "dead", "people remove ada", "agents invite a1"])
def test_an_operator_s_command_without_a_cluster_names_the_next_step(
    words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(words) == exits.FAILED
    err = capsys.readouterr().err
    assert f"No local cluster runs from this data folder: mlscope up.\n  folder: {folder}" in err
