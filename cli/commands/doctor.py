"""`mlscope doctor`: what this machine has, what is missing and how to get it."""

import argparse
from collections.abc import Sequence

from cli import exits
from cli.findings import Finding
from cli.machine_checks import all_findings
from cli.printing.output import rows_of, write_rows
from mlscope.texts.layout import laid_out


def doctor(arguments: argparse.Namespace) -> int:
    """Print every finding; exit code 1 when something required is missing."""
    findings = list(all_findings())
    if arguments.output == "table":
        print("\n".join(finding_lines(findings)))
    else:
        records = [
            {
                "check": finding.check,
                "state": finding.state,
                "found": finding.observation,
                "advice": finding.advice,
            }
            for finding in findings
        ]
        write_rows(rows_of(records, ("check", "state", "found", "advice")), arguments.output)
    is_missing = any(finding.state == "missing" for finding in findings)
    return exits.FAILED if is_missing else exits.OK


def finding_lines(findings: Sequence[Finding]) -> list[str]:
    """Return findings as a table; an advice follows its finding on a line of its own."""
    cells = [(finding.check, finding.state, finding.observation) for finding in findings]
    layout = laid_out(("check", "state", "found"), cells, (False, False, False))
    lines = list(layout.head)
    for finding, line in zip(findings, layout.body, strict=True):
        lines.append(line)
        if finding.advice:
            lines.append(f"    {finding.advice}")
    return lines
