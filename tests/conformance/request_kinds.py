"""Kinds of the generated requests, read from world.yaml: minimal bodies and pieces to overlay."""

from __future__ import annotations

import copy
import functools
import pathlib
from dataclasses import dataclass

import yaml

from pytest_kscen.clusters.conformance.differential import TwinTarget, overlay

FOLDER = pathlib.Path(__file__).parent
WORLD = yaml.safe_load((FOLDER / "world.yaml").read_text())
GADGETS = yaml.safe_load((FOLDER / "gadgets.yaml").read_text())
GROUP_VERSIONS = {"gadgets": "kit.example.com/v1"}
PANICKING_DIRECTIVE = "/$retainKeys"  # the server panics if its elements are no strings
CONTROLLED_KINDS = {"jobs", "persistentvolumeclaims"}
METADATA_PIECES = WORLD["metadata"]


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Kind of the generated requests. `parts` are the paths and values that its patches use."""

    target: TwinTarget
    pieces: list
    status: list
    fields: list
    posts: list
    parts: list
    has_scale: bool
    has_collections: bool

    @property
    def plural(self):
        return self.target.plural

    @property
    def head(self):
        return {name: self.target.minimal_body[name] for name in ("apiVersion", "kind")}


@functools.cache
def kinds():
    """Return all kinds in the order of world.yaml."""
    return [_kind(**row) for row in WORLD["kinds"]]


def _kind(
    plural,
    kind,
    *,
    api="v1",
    base=None,
    pieces=(),
    status=(),
    fields=(),
    posts=(),
    graft=None,
    scale=False,
    collections=True,
):
    target = TwinTarget(
        plural,
        {"apiVersion": api, "kind": kind, **(base or {})},
        f"twins-{plural}",
        GROUP_VERSIONS,
        plural in CONTROLLED_KINDS,
    )
    pieces = [
        *pieces,
        *(nested(graft["under"], piece) for piece in (WORLD[graft["of"]] if graft else ())),
    ]
    status = [{"status": piece} for piece in status]
    values = [base or {}, *pieces, *status, *({"metadata": piece} for piece in METADATA_PIECES)]
    parts = [place for piece in values for place in value_paths(piece)]
    posts = [(part, body) for post in posts for part, body in post.items()]
    return Kind(target, pieces, status, list(fields), posts, parts, scale, collections)


def nested(path, piece):
    for name in reversed(path):
        piece = {name: piece}
    return piece


def overlaid(*layers):
    return functools.reduce(overlay, layers, {})


def value_paths(value, path=""):
    """Yield each JSON pointer in a value, and the value there."""
    if path:
        yield path, value
    if isinstance(value, dict):
        for name, part in value.items():
            yield from value_paths(part, f"{path}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for position, part in enumerate(value):
            yield from value_paths(part, f"{path}/{position}")
            yield f"{path}/-", part


def with_replacement(body, replacement):
    """Replace one value of a body by a malformed one, except where the real server panics."""
    paths = [
        place
        for place, _ in value_paths(body)
        if not place.endswith("/-") and PANICKING_DIRECTIVE not in place
    ]
    if replacement is None or not paths:
        return body
    number, nonsense = replacement
    steps = paths[number % len(paths)].removeprefix("/").split("/")
    return replace_at(
        copy.deepcopy(body),
        [step.replace("~1", "/").replace("~0", "~") for step in steps],
        nonsense,
    )


def replace_at(value, path, nonsense):
    if not path:
        return nonsense
    step = int(path[0]) if isinstance(value, list) else path[0]
    value[step] = replace_at(value[step], path[1:], nonsense)
    return value
