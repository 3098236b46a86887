"""The kinds of the generated requests, as world.yaml tells them: what they take, and what may be
laid over it.
"""

from __future__ import annotations

import copy
import functools
import pathlib
from dataclasses import dataclass

import yaml

from pytest_kscen.clusters.conformance.differential import TwinTarget, overlay

HERE = pathlib.Path(__file__).parent
WORLD = yaml.safe_load((HERE / "world.yaml").read_text())
GADGETS = yaml.safe_load((HERE / "gadgets.yaml").read_text())
ALSO = {"gadgets": "kit.example.com/v1"}
PANICS = "/$retainKeys"  # the directive's elements are taken for text, unseen
UNSETTLED = {"jobs", "persistentvolumeclaims"}
ABOUT = WORLD["metadata"]


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One kind of the world.

    `parts` are what its patches speak of: places and values that may stand there.
    """

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
    """All of them, in the world's order."""
    return [_kind(**watched) for watched in WORLD["kinds"]]


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
        ALSO,
        plural in UNSETTLED,
    )
    pieces = [
        *pieces,
        *(_under(graft["under"], piece) for piece in (WORLD[graft["of"]] if graft else ())),
    ]
    status = [{"status": piece} for piece in status]
    spoken_of = [base or {}, *pieces, *status, *({"metadata": piece} for piece in ABOUT)]
    parts = [place for piece in spoken_of for place in places(piece)]
    posts = [(part, body) for post in posts for part, body in post.items()]
    return Kind(target, pieces, status, list(fields), posts, parts, scale, collections)


def _under(path, piece):
    for name in reversed(path):
        piece = {name: piece}
    return piece


def laid(*layers):
    return functools.reduce(overlay, layers, {})


def places(value, path=""):
    """Every (JSON pointer, value) in a value."""
    if path:
        yield path, value
    if isinstance(value, dict):
        for name, part in value.items():
            yield from places(part, f"{path}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for position, part in enumerate(value):
            yield from places(part, f"{path}/{position}")
            yield f"{path}/-", part


def twisted(body, twist):
    """A body with one thing in it replaced by nonsense, but nothing over which the real server
    falls.
    """
    found = [place for place, _ in places(body) if not place.endswith("/-") and PANICS not in place]
    if twist is None or not found:
        return body
    number, nonsense = twist
    steps = found[number % len(found)].removeprefix("/").split("/")
    return _replaced(
        copy.deepcopy(body),
        [step.replace("~1", "/").replace("~0", "~") for step in steps],
        nonsense,
    )


def _replaced(value, path, nonsense):
    if not path:
        return nonsense
    step = int(path[0]) if isinstance(value, list) else path[0]
    value[step] = _replaced(value[step], path[1:], nonsense)
    return value
