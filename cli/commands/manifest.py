"""`mlscope manifest check|publish|withdraw`."""

import argparse
import os
import sys
from pathlib import Path

from cli import exits
from cli.failures import Misused
from cli.inputs.connection import client_of
from cli.inputs.manifest_checks import dataset_check, file_check
from cli.inputs.manifests import checked_manifest
from mlscope.settings import Settings
from schemas.manifest import Manifest


def check(arguments: argparse.Namespace) -> int:
    """Check every file and print all its errors at once."""
    folder = Settings.read(os.environ).manifests_folder
    of_datasets = dataset_check(arguments.files, folder)
    has_errors = False
    checked: dict[tuple[str, str, str], tuple[Path, Manifest]] = {}
    for path in arguments.files:
        try:
            manifest = checked_manifest(path, further=(file_check(path, folder), of_datasets))
            key = (manifest.kind, manifest.name, manifest.version)
            first_path, first_manifest = checked.setdefault(key, (path, manifest))
            if first_manifest != manifest:
                raise Misused(
                    f"{path}: {' '.join(key)} differs in {first_path}: give it a new version"
                )
        except Misused as error:
            has_errors = True
            print(error, file=sys.stderr)
        else:
            print(f"{path}  {manifest.kind} {manifest.name}:{manifest.version}")
    return exits.USAGE if has_errors else exits.OK


async def publish(arguments: argparse.Namespace) -> int:
    """Publish manifests in the catalog; all are read before the first is sent."""
    manifests = [checked_manifest(path) for path in arguments.files]
    async with client_of(arguments) as client:
        for manifest in manifests:
            await client.publish(manifest)
            print(f"{manifest.kind} {manifest.name}:{manifest.version}")
    return exits.OK


async def withdraw(arguments: argparse.Namespace) -> int:
    """Remove a manifest from the catalog."""
    async with client_of(arguments) as client:
        await client.withdraw(arguments.kind, arguments.name, arguments.version)
    return exits.OK
