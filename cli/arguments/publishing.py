"""Commands that publish what is measured: manifests, models' files, artifacts."""

from pathlib import Path

from cli.arguments.parts import (
    SHIPPED_MODEL_HELP,
    add_command,
    add_connection,
    add_output,
)
from cli.parser import Parsers, add_described


def add_manifest(commands: Parsers) -> None:
    """Add `manifest check|publish|withdraw`."""
    parser = add_described(commands, "manifest", "check, publish or withdraw a manifest")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = add_command(
        actions, "check", "check manifest files and print their errors", function="manifest:check"
    )
    publish = add_command(
        actions, "publish", "publish manifests in the catalog", function="manifest:publish"
    )
    for action in (check, publish):
        action.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a manifest")
    withdraw = add_command(
        actions, "withdraw", "remove a manifest from the catalog", function="manifest:withdraw"
    )
    kinds = ("model", "framework", "dataset", "scenario", "hardware", "software")
    withdraw.add_argument("kind", choices=kinds, help="kind of the manifest")
    withdraw.add_argument("name", help="its name")
    withdraw.add_argument("version", help="its version")
    for action in (publish, withdraw):
        add_connection(action)


def add_assets(commands: Parsers) -> None:
    """Add `models fetch` and `artifacts put|ls|rm`."""
    models = add_described(commands, "models", "download models' files before a run needs them")
    actions = models.add_subparsers(dest="action", metavar="ACTION", required=True)
    fetch = add_command(
        actions, "fetch", "download models' files into this host's cache", function="models:fetch"
    )
    fetch.add_argument("models", nargs="+", metavar="MODEL", help=SHIPPED_MODEL_HELP)
    artifacts = add_described(commands, "artifacts", "store, list and remove files in the cluster")
    actions = artifacts.add_subparsers(dest="action", metavar="ACTION", required=True)
    put = add_command(
        actions,
        "put",
        "store a file; manifests refer to it as artifact://NAME",
        function="artifacts:put",
    )
    put.add_argument("file", type=Path, metavar="FILE", help="the file to store")
    put.add_argument(
        "name", nargs="?", default="", metavar="NAME", help="default: the name of the file"
    )
    listing = add_command(actions, "ls", "list the stored files", function="artifacts:ls")
    add_output(listing)
    remove = add_command(actions, "rm", "remove stored files", function="artifacts:rm")
    remove.add_argument("names", nargs="+", metavar="NAME", help="name of a stored file")
    for action in (fetch, put, listing, remove):
        add_connection(action)
