"""`mlscope completion`: completes words of the command line in a shell."""

import argparse
import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from cli import exits
from cli.arguments import build_parser
from cli.inputs.connection import client_of
from cli.parser import Parser
from mlscope.bus.errors import BusError
from mlscope.client import AsyncClient
from mlscope.client.errors import ClientError
from mlscope.settings import InvalidSetting

_NAMES_WITHIN_S = 2.0
"""Somebody waits: without an answer by then there are no names."""
_KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"MODEL": ("models",), "ID": ("evaluations",), "NAME": ("evaluations", "models", "agents")}
)
"""Kinds of names by the metavar of an argument."""

SCRIPTS: Mapping[str, str] = MappingProxyType(
    {
        "bash": """\
_mlscope() {
    local IFS=$'\\n'
    COMPREPLY=($(mlscope completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _mlscope mlscope
""",
        "zsh": """\
#compdef mlscope
_mlscope() {
    local -a names
    names=(${(f)"$(mlscope completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#names )); then compadd -a names; else _files; fi
}
compdef _mlscope mlscope
""",
        "fish": """\
function __mlscope_words
    mlscope completion words -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null
end
complete -c mlscope -a '(__mlscope_words)'
""",
    }
)

"""The script of each shell, which calls `mlscope completion words`."""


async def completion(arguments: argparse.Namespace) -> int:
    """Print a shell's script, or the words that the last one typed may become, a line each."""
    if arguments.shell in SCRIPTS:
        print(SCRIPTS[arguments.shell], end="")
        return exits.OK
    typed = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    parser = build_parser()
    assert isinstance(parser, Parser)
    candidates, metavar = parser.completions(typed)
    kinds = ("agents",) if is_agent(typed) else _KINDS.get(metavar, ())
    if kinds and not candidates:
        current = "" if typed[-1] == "=" else typed[-1]
        # Without a cluster there are no names, and a shell is no place for the reason.
        with contextlib.suppress(ClientError, BusError, InvalidSetting, TimeoutError):
            async with asyncio.timeout(_NAMES_WITHIN_S), client_of(arguments) as client:
                names = await cluster_names(client, kinds)
                candidates = [name for name in names if name.startswith(current)]
    print(*dict.fromkeys(candidates), sep="\n")
    return exits.OK


def is_agent(typed: Iterable[str]) -> bool:
    """Tell whether the last of the words `typed` names an agent."""
    before = [word for word in typed if word != "="][:-1]
    return before[-1:] == ["--agent"] or (before[:1] == ["agents"] and len(before) > 1)


async def cluster_names(client: AsyncClient, kinds: Iterable[str]) -> list[str]:
    """Return the names of `kinds` that the cluster of a `client` knows. Raises ClientError."""
    names: list[str] = []
    for kind in kinds:
        if kind == "evaluations":
            names += [status.evaluation for status in await client.evaluations()]
            continue
        catalog = await client.catalog(kind.removesuffix("s"))
        if kind == "agents":
            names += [status.announcement.agent for status in catalog.agents]
        else:
            names += [model.name for model in catalog.models]
    return names
