"""`mlscope plan`: plans an evaluation for a machine without broker or database."""

import argparse
import os
import sys

from cli import exits
from cli.inputs.request import request_from
from cli.offline.planning import files_to_copy, offline_plan, offline_request, shipped_catalog
from mlscope.counts import many
from mlscope.load.stop_rule import with_stop_rule
from mlscope.settings import Settings


def plan(arguments: argparse.Namespace) -> int:
    """Write a plan made from the arguments and the shipped manifests."""
    settings = Settings.read(os.environ)
    request = with_stop_rule(request_from(arguments), settings.default_budget_s)
    request = offline_request(request)
    offline = offline_plan(request, shipped_catalog(settings.manifests_folder))
    text = offline.model_dump_json(indent=2) + "\n"
    if arguments.out is None:
        sys.stdout.write(text)
    else:
        arguments.out.write_text(text, "utf-8")
        runs = many(sum(len(session.runs) for session in offline.plan.sessions), "run")
        command = f"mlscope agent --plan {arguments.out} --out BUNDLE"
        print(f"{arguments.out}: {runs}; run it on that machine: {command}", file=sys.stderr)
    for line in (*offline.plan.notes, *files_to_copy(request)):
        print(line, file=sys.stderr)
    return exits.OK
