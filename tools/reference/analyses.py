"""The page of analyses: what each table shows, its formula's source, and its columns."""

from services.analyzer.building.table import Analysis
from services.analyzer.tables import ANALYSES
from tools.reference.markdown import code, table

_HEAD = """# Analyses

The analyzer computes these tables for every evaluation. A1 to A15 are those of the XSP paper.
`mlscope analyze ID NAME` prints one. In SQL each is a view `analysis_NAME` with the same columns.

"""


def analyses_page() -> str:
    """Return the page as Markdown."""
    rows = (
        (analysis.id, f"[{code(analysis.name)}](#{_anchor(analysis)})", analysis.title)
        for analysis in ANALYSES
    )
    sections: list[str] = []
    for analysis in ANALYSES:
        columns = (
            (code(column.name), column.type, column.unit, column.description)
            for column in analysis.columns
        )
        sections.append(
            f"({_anchor(analysis)})=\n## {analysis.title}\n\nTable `{analysis.name}`. "
            f"Source: {analysis.source}\n\n{table(('Column', 'Type', 'Unit', 'Meaning'), columns)}"
        )
    text = "\n".join(sections)
    return f"{_HEAD}{table(('Paper', 'Table', 'Title'), rows)}\n{text}"


def _anchor(analysis: Analysis) -> str:
    return "analysis-" + analysis.name.replace("_", "-")
