"""Random requests to a small world, so that they meet: right ones, wrong ones, and now and then plain nonsense.

Every choice is one from a list that is made beforehand: that is quick, and shrinks towards the list's beginning.
"""

from __future__ import annotations

import copy
import functools
import itertools
import pathlib
from dataclasses import dataclass

import yaml
from hypothesis import strategies as st

from pytest_kscen.clusters.conformance.twins import EDIT, NAMESPACE, NOW, THEN, TOKEN, UID, Move, Stage, overlaid

HERE = pathlib.Path(__file__).parent
WORLD = yaml.safe_load((HERE / "world.yaml").read_text())
GADGETS = yaml.safe_load((HERE / "gadgets.yaml").read_text())
NAMES = st.sampled_from("aaabbc")
NONSENSE = [None, 1, "x", True, [], {}, -1.5, ["x"], {"x": 1}, ""]
TWISTS = st.sampled_from([None] * 1800 + list(itertools.product(range(20), NONSENSE)))
UNSETTLED = {"jobs", "persistentvolumeclaims"}
MERGE, JSON, STRATEGIC, APPLY = (
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One kind of the world. `parts` are what its patches speak of: places and values that may stand there."""

    plural: str
    least: dict
    pieces: list
    status: list
    fields: list
    scale: bool
    collections: bool
    parts: list

    @property
    def stage(self):
        return Stage(self.plural, self.least, f"twins-{self.plural}", {"gadgets": "kit.example.com/v1"}, self.plural in UNSETTLED)


def kinds():
    """All of the world's kinds, in its order."""
    return [_kind(**told) for told in WORLD["kinds"]]


def _kind(
    plural, kind, api="v1", base=None, pieces=(), status=(), fields=(), scale=False, graft=None, cluster=False, collections=True
):
    least = {"apiVersion": api, "kind": kind, **(base or {})}
    own = [*pieces, *(_under(graft["under"], piece) for piece in (WORLD[graft["of"]] if graft else ()))]
    about = [{"metadata": piece} for piece in WORLD["metadata"]]
    places = [place for piece in [base or {}, *own, *about, *({"status": one} for one in status)] for place in _places(piece, "")]
    return Kind(plural, least, own, [{"status": one} for one in status], list(fields), scale, collections, places)


def _under(path, piece):
    for name in reversed(path):
        piece = {name: piece}
    return piece


def _places(value, path):
    """Every (JSON pointer, value) in a value."""
    if path:
        yield path, value
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _places(part, f"{path}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for position, part in enumerate(value):
            yield from _places(part, f"{path}/{position}")
            yield f"{path}/-", part


# --- queries ---

WRITES = [(), (("fieldManager", "ann"),), (("fieldManager", "bob"),)] * 4 + [
    (("fieldValidation", "Ignore"),),
    (("fieldValidation", "Strict"),),
    (("fieldValidation", "Strict"), ("fieldManager", "ann")),
    (("fieldValidation", "Odd"),),
    (("dryRun", "All"),),
    (("dryRun", "All"), ("fieldManager", "bob")),
    (("dryRun", "Some"),),
]
APPLIES = [(("fieldManager", "ann"),), (("fieldManager", "bob"),)] * 4 + [
    (("fieldManager", "ann"), ("force", "true")),
    (("fieldManager", "bob"), ("force", "true")),
    (("fieldManager", "bob"), ("force", "true"), ("dryRun", "All")),
    (("fieldManager", "ann"), ("fieldValidation", "Strict")),
    (),
]
LABELS = ["tier=x", "tier!=x", "tier in (x,y)", "old", "!old", "tier=x,old", "tier=", "tier notin (x)", "a=b=c", "in ("]
FIELDS = ["metadata.name=a", "metadata.name!=a", f"metadata.namespace={NAMESPACE}", "nope=1", "metadata.name=a,metadata.name=b"]
PAGES = [{"limit": "1"}, {"limit": "2"}, {"limit": "1", "continue": TOKEN}, {"limit": "2", "continue": TOKEN}, {"continue": TOKEN}]
PAST = [
    {"resourceVersion": THEN},
    {"resourceVersion": "0"},
    {"resourceVersion": THEN, "resourceVersionMatch": "Exact"},
    {"resourceVersion": NOW, "resourceVersionMatch": "NotOlderThan"},
    {"resourceVersionMatch": "Exact"},
    {"resourceVersion": NOW, "limit": "1"},
]
DELETIONS = [None] * 6 + [
    {"preconditions": {"uid": UID}},
    {"preconditions": {"uid": "other"}},
    {"preconditions": {"resourceVersion": NOW}},
    {"preconditions": {"resourceVersion": THEN}},
    {"propagationPolicy": "Foreground"},
    {"propagationPolicy": "Orphan"},
    {"propagationPolicy": "Background"},
    {"propagationPolicy": "Sideways"},
    {"orphanDependents": True},
    {"orphanDependents": True, "propagationPolicy": "Orphan"},
    {"gracePeriodSeconds": 0},
    {"gracePeriodSeconds": 5},
    {"gracePeriodSeconds": -5},
    {"dryRun": ["All"]},
    {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 1},
    {"kind": "Odd", "apiVersion": "v1"},
    {"gracePeriodSeconds": "1"},
]
WATCHING = [{"labelSelector": "tier=x"}, {"labelSelector": "!old"}, {"fieldSelector": "metadata.name!=b"}]
SCALES = [{"spec": {"replicas": count}} for count in (0, 1, 3, -1, None, "x")] + [{"spec": {}}, {"status": {"replicas": 9}}]


# --- bodies ---


def twisted(body, twist):
    """A body with one thing in it replaced by nonsense."""
    if twist is None or not (places := [place for place, _ in _places(body, "") if not place.endswith("/-")]):
        return body
    number, nonsense = twist
    body = copy.deepcopy(body)
    *path, last = places[number % len(places)].removeprefix("/").replace("~1", "/").replace("~0", "~").split("/")
    return body if any("/" in step for step in (*path, last)) else _replaced(body, [*path, last], nonsense)


def _replaced(value, path, nonsense):
    if not path:
        return nonsense
    step = int(path[0]) if isinstance(value, list) else path[0]
    if isinstance(value, list) or step in value:
        value[step] = _replaced(value[step], path[1:], nonsense)
    return value


def _laid(*layers):
    return functools.reduce(overlaid, layers, {})


def _about(name, pieces):
    return {"metadata": _laid({"name": name}, *pieces)}


class Strategies:
    """The requests of one kind, each strategy made once."""

    def __init__(self, kind):
        self.kind = kind
        self.metadata = st.lists(st.sampled_from(WORLD["metadata"]), max_size=2)
        self.pieces = st.lists(st.sampled_from(kind.pieces), max_size=3)
        self.statuses = st.lists(st.sampled_from(kind.status or [{"status": {}}]), min_size=1, max_size=2)
        self.writes, self.applies = st.sampled_from(WRITES), st.sampled_from(APPLIES)
        self.bodies = st.builds(self._body, NAMES, self.metadata, self.pieces, TWISTS)
        self.configs = st.builds(self._config, NAMES, self.metadata, self.pieces, st.booleans(), TWISTS)
        self.changes = st.builds(self._change, self.metadata, self.pieces, TWISTS)
        self.operations = st.lists(
            st.builds(_operation, st.sampled_from(OPERATIONS), st.sampled_from(kind.parts), TWISTS), max_size=2
        )
        self.moves = st.one_of(*self._all())

    def _all(self):
        plural = self.kind.plural
        yield st.builds(lambda body, query: Move("POST", plural, body, query=query), self.bodies, self.writes)
        yield st.builds(self._put, NAMES, self.bodies, self.writes)
        yield st.builds(self._edit, NAMES, self.changes, self.writes)
        for type in (MERGE, STRATEGIC):
            yield st.builds(self._patch(type), NAMES, self.changes, self.writes)
        yield st.builds(self._patch(JSON), NAMES, self.operations, self.writes)
        for _ in range(3):
            yield st.builds(self._apply, self.configs, self.applies)
        yield st.builds(lambda name, options: Move("DELETE", f"{plural}/{name}", options), NAMES, st.sampled_from(DELETIONS))
        yield st.builds(
            lambda method, query: Move(method, plural, query=query),
            st.sampled_from(["GET", "GET", "GET", "DELETE"] if self.kind.collections else ["GET"]),
            self._lists(),
        )
        yield NAMES.map(lambda name: Move("GET", f"{plural}/{name}"))
        yield from self._parts()

    def _parts(self):
        """The subresources."""
        plural = self.kind.plural
        if self.kind.status:
            status = st.builds(self._change, self.metadata, self.statuses, TWISTS)
            yield st.builds(self._edit, NAMES.map(lambda name: f"{name}/status"), status, self.writes)
            for type in (MERGE, STRATEGIC):
                yield st.builds(self._patch(type, "/status"), NAMES, status, self.writes)
            configs = st.builds(self._config, NAMES, self.metadata, self.statuses, st.just(False), TWISTS)
            yield st.builds(lambda body, query: self._apply(body, query, "/status"), configs, self.applies)
        if self.kind.scale:
            yield NAMES.map(lambda name: Move("GET", f"{plural}/{name}/scale"))
            yield st.builds(self._patch(MERGE, "/scale"), NAMES, st.sampled_from(SCALES), self.writes)
            yield st.builds(self._edit, NAMES.map(lambda name: f"{name}/scale"), st.sampled_from(SCALES), self.writes)

    def _lists(self):
        labels = [{"labelSelector": one} for one in LABELS]
        fields = [{"fieldSelector": one} for one in [*self.kind.fields, *FIELDS]]
        mixed = [{**one, **two} for one in labels[:4] for two in [*fields[:2], *PAGES[:2]]]
        return st.sampled_from([tuple(query.items()) for query in [{}, *labels, *fields, *PAGES, *PAST, *mixed]])

    # --- bodies and requests of this kind ---

    def _body(self, name, metadata, pieces, twist):
        return twisted(_laid(self.kind.least, _about(name, metadata), *pieces), twist)

    def _config(self, name, metadata, pieces, whole, twist):
        head = {key: self.kind.least[key] for key in ("apiVersion", "kind")}
        return twisted(_laid(self.kind.least if whole else head, _about(name, metadata), *pieces), twist)

    def _change(self, metadata, pieces, twist):
        about = {"metadata": _laid(*metadata)} if metadata else {}
        return twisted(_laid(about, *pieces), twist)

    def _put(self, name, body, query):
        return Move("PUT", f"{self.kind.plural}/{name}", body, query=query)

    def _edit(self, name, change, query):
        return Move(EDIT, f"{self.kind.plural}/{name}", change, query=query)

    def _patch(self, type, part=""):
        return lambda name, change, query: Move("PATCH", f"{self.kind.plural}/{name}{part}", change, type, query)

    def _apply(self, config, query, part=""):
        metadata = config.get("metadata")
        name = (metadata.get("name") if isinstance(metadata, dict) else None) or "a"
        return Move("PATCH", f"{self.kind.plural}/{name if name in list('abc') else 'a'}{part}", config, APPLY, query)


OPERATIONS = ["add", "replace", "remove", "test", "copy", "move", "add", "replace", "nope"]


def _operation(op, part, twist):
    path, value = part
    if op in {"copy", "move"}:
        return {"op": op, "from": path, "path": "/metadata/annotations/k"}
    return twisted({"op": op, "path": path, **({} if op == "remove" else {"value": value})}, twist)


def sequence(kind):
    """A stage, a few requests to it, and what a second watch asks for."""
    first = st.just(Move("POST", kind.plural, _laid(kind.least, _about("a", [])), query=(("fieldManager", "ann"),)))
    moves = st.builds(lambda begun, rest: [begun, *rest], first, st.lists(Strategies(kind).moves, min_size=2, max_size=10))
    return st.tuples(st.just(kind.stage), moves, st.sampled_from(WATCHING))


SEQUENCES = st.one_of(*map(sequence, kinds()))
