"""`mlscope compare`: two evaluations' answers to the same samples, or the figures of several."""

import argparse
import asyncio

from cli import exits
from cli.commands.asking import client_of, write_tables
from cli.failures import Misused
from cli.output import Rows, write_json
from schemas.analysis import Compared


def compare(arguments: argparse.Namespace) -> int:
    """Print the measures over all samples, and with `--samples` those of each.

    Of more than two evaluations, or with `--figures`, the tables that set them side by side.
    """
    targets = (arguments.latency_ms, arguments.cost, arguments.accuracy)
    of_figures = arguments.figures or arguments.others or arguments.price or arguments.only
    if of_figures or any(each is not None for each in targets):
        return asyncio.run(_figures(arguments))
    return asyncio.run(_compare(arguments))


async def _figures(arguments: argparse.Namespace) -> int:
    latency_ms = arguments.latency_ms
    terms = {
        "prices": dict(_price(each) for each in arguments.price),
        "most_latency_ns": None if latency_ms is None else latency_ms * 1e6,
        "most_cost": arguments.cost,
        "least_accuracy": arguments.accuracy,
    }
    ids = (arguments.first, arguments.second, *arguments.others)
    async with client_of(arguments) as client:
        found = await client.figures(*ids, **terms)
    tables = {each.name: each for each in found.tables}
    strange = sorted(set(arguments.only) - tables.keys())
    if strange:
        raise Misused(
            f"no comparison is called {', '.join(strange)}; there are: {', '.join(tables)}"
        )
    wanted = [tables[name] for name in arguments.only or tables]
    if arguments.output == "json":
        told = [each.model_dump(mode="json", exclude={"rows"}) for each in wanted]
        rows = [Rows.of_table(each).maps() for each in wanted]
        write_json([each | {"rows": of} for each, of in zip(told, rows, strict=True)])
    else:
        write_tables(wanted, arguments.output)
    return exits.OK


def _price(text: str) -> tuple[str, float]:
    agent, _, price = text.partition("=")
    try:
        return agent, float(price)
    except ValueError as error:
        raise Misused(f"--price {text}: AGENT=DOLLARS is wanted, e.g. p3=3.06") from error


async def _compare(arguments: argparse.Namespace) -> int:
    async with client_of(arguments) as client:
        found = await client.compare(arguments.first, arguments.second)
    if arguments.output == "json":
        write_json(_record(found))
        return exits.OK
    overall, samples = found.tables
    write_tables([overall, samples] if arguments.samples else [overall], arguments.output)
    return exits.OK


def _record(found: Compared) -> dict[str, object]:
    tables = {each.name: Rows.of_table(each).maps() for each in found.tables}
    return {
        "first": f"{found.first}/{found.first_run}",
        "second": f"{found.second}/{found.second_run}",
        **tables,
    }
