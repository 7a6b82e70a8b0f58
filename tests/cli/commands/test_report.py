"""`mlscope report`: the gateway's report, written at the terminal."""

import zipfile
from pathlib import Path

from cli import exits
from tests.cli.conftest import CommandLine
from tests.stand_ins import StandIns
from tests.stories import beginning, whole_story

E1 = "00000000000000e1"
E2 = "00000000000000e2"


async def test_a_report_is_a_document_or_an_archive(
    mlscope: CommandLine, standing: StandIns, tmp_path: Path
) -> None:
    await standing.tell(*whole_story(E1), *beginning(E2))
    document, archive = tmp_path / "r.html", tmp_path / "r.zip"
    written = await mlscope("report", E1, "-o", str(document))
    assert (written.code, written.err) == (exits.OK, "")
    assert "Half of the queries took 5\u00a0ms." in document.read_text("utf-8")
    await mlscope("report", E1, "-o", str(archive))
    assert "tables/latency.parquet" in zipfile.ZipFile(archive).namelist()
    wrong = await mlscope("report", E1, "-o", str(tmp_path / "r.doc"))
    assert (wrong.code, "expected a file that ends in .html or .zip" in wrong.err) == (2, True)
    early = await mlscope("report", E2, "-o", str(document))
    assert "a report needs its analyses" in early.err
