"""Random requests to a small world, so that they meet: right ones, wrong ones, and now and then
plain nonsense.

Every choice is one from a list that is made beforehand: that is quick, and shrinks towards the
list's beginning."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st
from twinworld import ABOUT, kinds, laid, twisted

from pytest_kscen.clusters.conformance.differential import (
    CONTINUE_TOKEN,
    CURRENT_VERSION,
    EDIT,
    FIRST_VERSION,
    NAMESPACE,
    OBJECT_UID,
    TwinStep,
)

MERGE, JSON, STRATEGIC, APPLY = (
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
NAMES = st.sampled_from("aaabbc")
NONSENSE = [None, 1, "x", True, [], {}, -1.5, ["x"], {"x": 1}, ""]
TWISTS = st.sampled_from([None] * 1800 + list(itertools.product(range(20), NONSENSE)))
ANN, BOB = {"fieldManager": "ann"}, {"fieldManager": "bob"}


def of(queries):
    return st.sampled_from([tuple(query.items()) for query in queries])


WRITES = of(
    [{}, ANN, BOB] * 4
    + [
        {"fieldValidation": "Ignore"},
        {"fieldValidation": "Strict"},
        {"fieldValidation": "Strict", **ANN},
        {"fieldValidation": "Odd"},
    ]
    + [{"dryRun": "All"}, {"dryRun": "All", **BOB}, {"dryRun": "Some"}]
)
APPLIES = of(
    [ANN, BOB] * 4
    + [
        {"force": "true", **ANN},
        {"force": "true", **BOB},
        {"force": "true", "dryRun": "All", **BOB},
    ]
    + [{"fieldValidation": "Strict", **ANN}, {}]
)
LABELS = [
    {"labelSelector": one}
    for one in (
        "tier=x",
        "tier!=x",
        "tier in (x,y)",
        "old",
        "!old",
        "tier=x,old",
        "tier=",
        "tier notin (x)",
        "a=b=c",
        "in (",
    )
]
FIELDS = (
    *("metadata.name=a", "metadata.name!=a", f"metadata.namespace={NAMESPACE}", "nope=1"),
    "metadata.name=a,metadata.name=b",
)
PAGES = [
    {"limit": "1"},
    {"limit": "2"},
    {"limit": "1", "continue": CONTINUE_TOKEN},
    {"limit": "2", "continue": CONTINUE_TOKEN},
    {"continue": CONTINUE_TOKEN},
]
# a list that is content with what is not older than a version may come from a cache that has not
# heard yet
PAST = [
    {"resourceVersion": FIRST_VERSION, "resourceVersionMatch": "Exact"},
    {"resourceVersionMatch": "Exact"},
    {"resourceVersion": "x"},
    {"resourceVersion": CURRENT_VERSION, "limit": "1"},
]
FORMS = st.sampled_from(
    ["application/json"]
    + [
        f"application/json;as={form};g=meta.k8s.io;v=v1"
        for form in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
    ]
)
DELETIONS = st.sampled_from(
    [None] * 6
    + [{"preconditions": {"uid": OBJECT_UID}}, {"preconditions": {"uid": "other"}}]
    + [
        {"preconditions": {"resourceVersion": CURRENT_VERSION}},
        {"preconditions": {"resourceVersion": FIRST_VERSION}},
    ]
    + [
        {"propagationPolicy": policy}
        for policy in ("Foreground", "Orphan", "Background", "Sideways")
    ]
    + [
        {"orphanDependents": True},
        {"orphanDependents": False},
        {"orphanDependents": True, "propagationPolicy": "Orphan"},
    ]
    + [{"gracePeriodSeconds": seconds} for seconds in (0, 5, -5, "1")]
    + [
        {"dryRun": ["All"]},
        {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 1},
        {"kind": "Odd", "apiVersion": "v1"},
    ]
)
WATCHING = st.sampled_from(
    [{"labelSelector": "tier=x"}, {"labelSelector": "!old"}, {"fieldSelector": "metadata.name!=b"}]
)
SCALES = st.sampled_from(
    [{"spec": {"replicas": count}} for count in (0, 1, 3, -1, None, "x")]
    + [{"spec": {}}, {"status": {"replicas": 9}}]
)
OPERATIONS = st.sampled_from(
    ["add", "replace", "remove", "test", "copy", "move", "add", "replace", "nope"]
)


class Requests:
    """The requests of one kind; each strategy is made once."""

    def __init__(self, kind):
        self.kind = kind
        self.about = st.lists(st.sampled_from(ABOUT), max_size=2)
        self.pieces = st.lists(st.sampled_from(kind.pieces), max_size=3)
        self.changes = st.builds(self._change, self.about, self.pieces, TWISTS)
        groups = (
            self._writes(),
            self._patches(),
            self._deletions(),
            self._readings(),
            self._status(),
            self._others(),
        )
        self.all = st.one_of(*itertools.chain(*groups))

    # --- groups of requests ---

    def _writes(self):
        bodies = st.builds(self._body, NAMES, self.about, self.pieces, TWISTS)
        yield st.builds(
            lambda body, query: TwinStep("POST", self.kind.plural, body, query=query),
            bodies,
            WRITES,
        )
        yield st.builds(self._to("PUT"), NAMES, bodies, WRITES)
        yield st.builds(self._to(EDIT), NAMES, self.changes, WRITES)

    def _patches(self):
        for media_type in (MERGE, STRATEGIC):
            yield st.builds(self._to("PATCH", type=media_type), NAMES, self.changes, WRITES)
        operations = st.lists(
            st.builds(_operation, OPERATIONS, st.sampled_from(self.kind.parts), TWISTS), max_size=2
        )
        yield st.builds(self._to("PATCH", type=JSON), NAMES, operations, WRITES)
        configs = st.builds(self._config, NAMES, self.about, self.pieces, st.booleans(), TWISTS)
        yield from [st.builds(self._apply, configs, APPLIES)] * 3

    def _deletions(self):
        yield st.builds(
            lambda name, options: TwinStep("DELETE", f"{self.kind.plural}/{name}", options),
            NAMES,
            DELETIONS,
        )
        if self.kind.has_collections:
            yield st.builds(
                lambda query: TwinStep("DELETE", self.kind.plural, query=query), self._lists()
            )

    def _readings(self):
        plural, lists = self.kind.plural, self._lists()
        yield st.builds(
            lambda name, accept: TwinStep("GET", f"{plural}/{name}", accept=accept), NAMES, FORMS
        )
        yield st.builds(lambda query: TwinStep("GET", plural, query=query), lists)
        yield st.builds(
            lambda query, accept: TwinStep("GET", plural, query=query, accept=accept), lists, FORMS
        )

    def _status(self):
        if not self.kind.status:
            return
        pieces = st.lists(st.sampled_from(self.kind.status), min_size=1, max_size=2)
        changes = st.builds(self._change, self.about, pieces, TWISTS)
        yield st.builds(self._to(EDIT, "/status"), NAMES, changes, WRITES)
        for media_type in (MERGE, STRATEGIC):
            yield st.builds(self._to("PATCH", "/status", media_type), NAMES, changes, WRITES)
        configs = st.builds(self._config, NAMES, self.about, pieces, st.just(False), TWISTS)
        yield st.builds(lambda body, query: self._apply(body, query, "/status"), configs, APPLIES)

    def _others(self):
        plural = self.kind.plural
        if self.kind.posts:
            posts = st.sampled_from(self.kind.posts)
            yield st.builds(
                lambda name, post, query: TwinStep(
                    "POST", f"{plural}/{name}/{post[0]}", post[1], query=query
                ),
                NAMES,
                posts,
                WRITES,
            )
        if self.kind.has_scale:
            yield NAMES.map(lambda name: TwinStep("GET", f"{plural}/{name}/scale"))
            yield st.builds(self._to("PATCH", "/scale", MERGE), NAMES, SCALES, WRITES)
            yield st.builds(self._to(EDIT, "/scale"), NAMES, SCALES, WRITES)

    # --- one request, one body ---

    def _lists(self):
        fields = [{"fieldSelector": one} for one in (*self.kind.fields, *FIELDS)]
        mixed = [{**one, **two} for one in LABELS[:4] for two in (*fields[:2], *PAGES[:2])]
        return of([{}, *LABELS, *fields, *PAGES, *PAST, *mixed])

    def _to(self, method, part="", type="application/json"):
        return lambda name, body, query: TwinStep(
            method, f"{self.kind.plural}/{name}{part}", body, type, query
        )

    def _apply(self, config, query, part=""):
        metadata = config.get("metadata")
        named = metadata.get("name") if isinstance(metadata, dict) else None
        return self._to("PATCH", part, APPLY)(
            named if named in ("a", "b", "c") else "a", config, query
        )

    def _body(self, name, about, pieces, twist):
        return twisted(laid(self.kind.target.minimal_body, _named(name, about), *pieces), twist)

    def _config(self, name, about, pieces, whole, twist):
        return twisted(
            laid(
                self.kind.target.minimal_body if whole else self.kind.head,
                _named(name, about),
                *pieces,
            ),
            twist,
        )

    def _change(self, about, pieces, twist):
        return twisted(laid({"metadata": laid(*about)} if about else {}, *pieces), twist)


def _named(name, about):
    return {"metadata": laid({"name": name}, *about)}


def _operation(op, part, twist):
    path, value = part
    if op in {"copy", "move"}:
        return {"op": op, "from": path, "path": "/metadata/annotations/k"}
    return twisted({"op": op, "path": path, **({} if op == "remove" else {"value": value})}, twist)


def sequence(kind):
    """A stage, a few requests to it, and what a second watch asks for."""
    first = TwinStep(
        "POST",
        kind.plural,
        laid(kind.target.minimal_body, _named("a", [])),
        query=(("fieldManager", "ann"),),
    )
    requests = st.lists(Requests(kind).all, min_size=2, max_size=10).map(
        lambda rest: [first, *rest]
    )
    return st.tuples(st.just(kind.target), requests, WATCHING)


BY_KIND = {kind.plural: sequence(kind) for kind in kinds()}
SEQUENCES = st.one_of(*BY_KIND.values())
