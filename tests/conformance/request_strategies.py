"""Strategies of random requests to a few objects: valid, invalid, and occasionally malformed.

All choices sample from lists built in advance, which is quick and shrinks towards the start of
the list."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st
from request_kinds import METADATA_PIECES, kinds, overlaid, with_replacement

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
REPLACEMENTS = st.sampled_from([None] * 1800 + list(itertools.product(range(20), NONSENSE)))
ANN, BOB = {"fieldManager": "ann"}, {"fieldManager": "bob"}


def sampled_queries(queries):
    return st.sampled_from([tuple(query.items()) for query in queries])


WRITES = sampled_queries(
    [{}, ANN, BOB] * 4
    + [
        {"fieldValidation": "Ignore"},
        {"fieldValidation": "Strict"},
        {"fieldValidation": "Strict", **ANN},
        {"fieldValidation": "Odd"},
    ]
    + [{"dryRun": "All"}, {"dryRun": "All", **BOB}, {"dryRun": "Some"}]
)
APPLIES = sampled_queries(
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
# NotOlderThan is left out: such a list may come from a cache that is behind.
PAST_VERSIONS = [
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


class RequestStrategies:
    """Request strategies of one kind, each built once."""

    def __init__(self, kind):
        self.kind = kind
        self.metadata_pieces = st.lists(st.sampled_from(METADATA_PIECES), max_size=2)
        self.pieces = st.lists(st.sampled_from(kind.pieces), max_size=3)
        self.changes = st.builds(self._change, self.metadata_pieces, self.pieces, REPLACEMENTS)
        groups = (
            self._write_strategies(),
            self._patch_strategies(),
            self._delete_strategies(),
            self._read_strategies(),
            self._status_strategies(),
            self._subresource_strategies(),
        )
        self.all = st.one_of(*itertools.chain(*groups))

    # --- groups of requests ---

    def _write_strategies(self):
        bodies = st.builds(self._body, NAMES, self.metadata_pieces, self.pieces, REPLACEMENTS)
        yield st.builds(
            lambda body, query: TwinStep("POST", self.kind.plural, body, query=query),
            bodies,
            WRITES,
        )
        yield st.builds(self._step_builder("PUT"), NAMES, bodies, WRITES)
        yield st.builds(self._step_builder(EDIT), NAMES, self.changes, WRITES)

    def _patch_strategies(self):
        for media_type in (MERGE, STRATEGIC):
            yield st.builds(
                self._step_builder("PATCH", type=media_type), NAMES, self.changes, WRITES
            )
        operations = st.lists(
            st.builds(_patch_operation, OPERATIONS, st.sampled_from(self.kind.parts), REPLACEMENTS),
            max_size=2,
        )
        yield st.builds(self._step_builder("PATCH", type=JSON), NAMES, operations, WRITES)
        configs = st.builds(
            self._config, NAMES, self.metadata_pieces, self.pieces, st.booleans(), REPLACEMENTS
        )
        yield from [st.builds(self._apply_step, configs, APPLIES)] * 3

    def _delete_strategies(self):
        yield st.builds(
            lambda name, options: TwinStep("DELETE", f"{self.kind.plural}/{name}", options),
            NAMES,
            DELETIONS,
        )
        if self.kind.has_collections:
            yield st.builds(
                lambda query: TwinStep("DELETE", self.kind.plural, query=query),
                self._list_queries(),
            )

    def _read_strategies(self):
        plural, lists = self.kind.plural, self._list_queries()
        yield st.builds(
            lambda name, accept: TwinStep("GET", f"{plural}/{name}", accept=accept), NAMES, FORMS
        )
        yield st.builds(lambda query: TwinStep("GET", plural, query=query), lists)
        yield st.builds(
            lambda query, accept: TwinStep("GET", plural, query=query, accept=accept), lists, FORMS
        )

    def _status_strategies(self):
        if not self.kind.status:
            return
        pieces = st.lists(st.sampled_from(self.kind.status), min_size=1, max_size=2)
        changes = st.builds(self._change, self.metadata_pieces, pieces, REPLACEMENTS)
        yield st.builds(self._step_builder(EDIT, "/status"), NAMES, changes, WRITES)
        for media_type in (MERGE, STRATEGIC):
            yield st.builds(
                self._step_builder("PATCH", "/status", media_type), NAMES, changes, WRITES
            )
        configs = st.builds(
            self._config, NAMES, self.metadata_pieces, pieces, st.just(False), REPLACEMENTS
        )
        yield st.builds(
            lambda body, query: self._apply_step(body, query, "/status"), configs, APPLIES
        )

    def _subresource_strategies(self):
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
            yield st.builds(self._step_builder("PATCH", "/scale", MERGE), NAMES, SCALES, WRITES)
            yield st.builds(self._step_builder(EDIT, "/scale"), NAMES, SCALES, WRITES)

    # --- one request, one body ---

    def _list_queries(self):
        fields = [{"fieldSelector": one} for one in (*self.kind.fields, *FIELDS)]
        mixed = [{**one, **two} for one in LABELS[:4] for two in (*fields[:2], *PAGES[:2])]
        return sampled_queries([{}, *LABELS, *fields, *PAGES, *PAST_VERSIONS, *mixed])

    def _step_builder(self, method, part="", type="application/json"):
        return lambda name, body, query: TwinStep(
            method, f"{self.kind.plural}/{name}{part}", body, type, query
        )

    def _apply_step(self, config, query, part=""):
        metadata = config.get("metadata")
        named = metadata.get("name") if isinstance(metadata, dict) else None
        return self._step_builder("PATCH", part, APPLY)(
            named if named in ("a", "b", "c") else "a", config, query
        )

    def _body(self, name, metadata_pieces, pieces, replacement):
        return with_replacement(
            overlaid(self.kind.target.minimal_body, _metadata(name, metadata_pieces), *pieces),
            replacement,
        )

    def _config(self, name, metadata_pieces, pieces, whole, replacement):
        return with_replacement(
            overlaid(
                self.kind.target.minimal_body if whole else self.kind.head,
                _metadata(name, metadata_pieces),
                *pieces,
            ),
            replacement,
        )

    def _change(self, metadata_pieces, pieces, replacement):
        return with_replacement(
            overlaid({"metadata": overlaid(*metadata_pieces)} if metadata_pieces else {}, *pieces),
            replacement,
        )


def _metadata(name, metadata_pieces):
    return {"metadata": overlaid({"name": name}, *metadata_pieces)}


def _patch_operation(op, part, replacement):
    path, value = part
    if op in {"copy", "move"}:
        return {"op": op, "from": path, "path": "/metadata/annotations/k"}
    return with_replacement(
        {"op": op, "path": path, **({} if op == "remove" else {"value": value})}, replacement
    )


def sequence_strategy(kind):
    """Return a strategy of a target, requests to it, and the query of a second watch."""
    first = TwinStep(
        "POST",
        kind.plural,
        overlaid(kind.target.minimal_body, _metadata("a", [])),
        query=(("fieldManager", "ann"),),
    )
    requests = st.lists(RequestStrategies(kind).all, min_size=2, max_size=10).map(
        lambda rest: [first, *rest]
    )
    return st.tuples(st.just(kind.target), requests, WATCHING)


BY_KIND = {kind.plural: sequence_strategy(kind) for kind in kinds()}
SEQUENCES = st.one_of(*BY_KIND.values())
