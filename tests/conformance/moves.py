"""Random requests: a small world of names and values, so that they meet, with some nonsense among them."""

from __future__ import annotations

from hypothesis import strategies as st

from pytest_kscen.clusters.conformance.twins import CURRENT, OURS, STALE, Move, last_of

NAMES = st.sampled_from(["a", "b"])
LABELS = st.fixed_dictionaries({}, optional={"tier": st.sampled_from(["x", "y"]), "old": st.just("")}).map(
    lambda own: {**OURS, **own}
)
VERSIONS = st.sampled_from([None, None, None, CURRENT, STALE])
WORDS = st.sampled_from(["1", "2", "", "ä"])
NONSENSE = st.sampled_from([1, True, [], {}, "x", None, 1.5])
SELECTORS = st.sampled_from(["tier=x", "tier!=x", "tier in (x,y)", "old", "!old", "tier=x,old", "tier=", "a=b=c", "in ("])
MANAGERS = st.sampled_from(["ann", "bob"])
PATCHES = {
    "merge": "merge-patch+json",
    "json": "json-patch+json",
    "strategic": "strategic-merge-patch+json",
    "apply": "apply-patch+yaml",
}


def maybe(strategy):
    """The value, mostly; now and then something that has no business there."""
    return st.integers(0, 25).flatmap(lambda draw: NONSENSE if draw == 0 else strategy)


def metadata(name):
    annotations = st.dictionaries(st.sampled_from(["k", "example.com/k", "l", "m", "-bad"]), WORDS, max_size=2)
    finalizers = st.lists(st.sampled_from(["example.com/hold", "example.com/more"]), unique=True, max_size=2)
    optional = {"annotations": maybe(annotations), "finalizers": finalizers, "resourceVersion": VERSIONS}
    return st.fixed_dictionaries({"name": st.just(name), "labels": LABELS}, optional=optional).map(
        lambda made: {key: value for key, value in made.items() if value is not None}
    )


CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["one", "two"]), "image": st.sampled_from(["i:1", "i:2", "i"])},
        optional={
            "env": st.lists(
                st.fixed_dictionaries({"name": st.sampled_from(["A", "B"]), "value": WORDS}),
                max_size=2,
                unique_by=lambda one: one["name"],
            ),
            "args": st.lists(WORDS, max_size=2),
            "ports": st.just([{"containerPort": 80}]),
        },
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda one: one["name"],
)

CONTENTS = {
    "configmaps": {
        "data": maybe(st.dictionaries(st.sampled_from(["x", "y", "v", "w", "x/y"]), maybe(WORDS), max_size=2)),
        "binaryData": st.dictionaries(st.sampled_from(["z", "x"]), st.sampled_from(["MQ==", "%"]), max_size=1),
        "immutable": st.sampled_from([True, False, None]),
        "colour": WORDS,
    },
    "podtemplates": {
        "template": st.fixed_dictionaries(
            {"spec": st.fixed_dictionaries({"containers": maybe(CONTAINERS)}, optional={"nodeName": WORDS, "colour": WORDS})}
        )
    },
    "networkpolicies": {
        "spec": st.fixed_dictionaries(
            {"podSelector": st.sampled_from([{}, {"matchLabels": {"a": "b"}}, {"matchLabels": {"-a": "b"}}])},
            optional={"policyTypes": st.lists(st.sampled_from(["Ingress", "Egress", "Sideways"]), max_size=2)},
        )
    },
}
GROUPS = {
    "configmaps": ("v1", "ConfigMap"),
    "podtemplates": ("v1", "PodTemplate"),
    "networkpolicies": ("networking.k8s.io/v1", "NetworkPolicy"),
}


def bodies(plural, name):
    version, kind = GROUPS[plural]
    return st.builds(
        lambda meta, rest: {"apiVersion": version, "kind": kind, "metadata": meta, **rest},
        metadata(name),
        st.fixed_dictionaries({}, optional=CONTENTS[plural]),
    )


JSON_PATCHES = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "replace", "remove", "test"]),
            "path": st.sampled_from(["/data/x", "/data", "/metadata/labels/tier", "/metadata/annotations", "/nope/deep", "data"]),
            "value": st.sampled_from(["1", {"x": "1"}, None]),
        }
    ),
    max_size=2,
)


QUERIES = st.fixed_dictionaries(
    {"fieldManager": MANAGERS},
    optional={"fieldValidation": st.sampled_from(["Ignore", "Warn", "Strict"]), "dryRun": st.sampled_from(["All", "All", "Some"])},
)


def query(*, force=False):
    kept = st.booleans() if force else st.just(False)
    return st.builds(lambda made, forced: tuple({**made, **({"force": "true"} if forced else {})}.items()), rarely(QUERIES), kept)


def rarely(queries):
    """The manager always, the rest in one request of three."""
    return st.builds(
        lambda made, all_of_it: made if all_of_it else {"fieldManager": made["fieldManager"]},
        queries,
        st.sampled_from([True, False, False]),
    )


def patch(plural, name, kind, body):
    return st.builds(lambda made, asked: Move("PATCH", f"{plural}/{name}", made, f"application/{kind}", asked), body, query())


def partial(plural, name):
    """Some of a body, some of it taken away."""
    label = st.sampled_from([{}, {"metadata": {"labels": {"tier": "x"}}}, {"metadata": {"labels": {"tier": None}}}])
    return st.builds(
        lambda body, taken, labels: {key: None if key in taken else body[key] for key in CONTENTS[plural] if key in body} | labels,
        bodies(plural, name),
        st.sets(st.sampled_from(sorted(CONTENTS[plural])), max_size=1),
        label,
    )


def create(plural, name):
    return st.builds(lambda body, asked: Move("POST", plural, body, query=asked), bodies(plural, name), query())


def update(plural, name):
    return st.builds(lambda body, asked: Move("PUT", f"{plural}/{name}", body, query=asked), bodies(plural, name), query())


def apply(plural, name):
    kind = "application/apply-patch+yaml"
    return st.builds(
        lambda body, asked: Move("PATCH", f"{plural}/{name}", body, kind, asked), bodies(plural, name), query(force=True)
    )


def delete(plural, name):
    options = st.sampled_from([None, None, None, {"preconditions": {"uid": "x"}}, {"propagationPolicy": "Sideways"}])
    return options.map(lambda chosen: Move("DELETE", f"{plural}/{name}", chosen))


def by_label(plural, method):
    return SELECTORS.map(lambda selector: Move(method, plural, query=(("labelSelector", f"kscen.io/twins,{selector}"),)))


def moves(plural):
    """Any request; writes to what may be there come most often."""
    return NAMES.flatmap(
        lambda name: st.one_of(
            create(plural, name),
            update(plural, name),
            patch(plural, name, "merge-patch+json", partial(plural, name)),
            patch(plural, name, "strategic-merge-patch+json", partial(plural, name)),
            patch(plural, name, "json-patch+json", JSON_PATCHES),
            apply(plural, name),
            apply(plural, name),
            delete(plural, name),
            by_label(plural, "GET"),
            by_label(plural, "DELETE"),
            st.just(Move("GET", f"{plural}/{name}")),
        )
    )


def begun(plural):
    """A sequence on a world that is not empty."""
    first = {
        **last_of(plural),
        "apiVersion": GROUPS[plural][0],
        "kind": GROUPS[plural][1],
        "metadata": {"name": "a", "labels": OURS},
    }
    made = Move("POST", plural, first, query=(("fieldManager", "ann"),))
    return st.lists(moves(plural), min_size=2, max_size=10).map(lambda rest: (plural, [made, *rest]))


PLURALS = tuple(CONTENTS)
SEQUENCES = st.sampled_from(PLURALS).flatmap(begun)
