"""The server answers or refuses any request, and a refusal leaves the store unchanged."""

import copy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_kscen.chance import Chance
from pytest_kscen.embedded.apiserver.admission.plugins import standard_admission
from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.kinds import Kinds
from pytest_kscen.embedded.apiserver.server import ApiServer
from pytest_kscen.kube.api import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Options,
    Request,
)
from pytest_kscen.objects import resources
from pytest_kscen.objects.errors import ApiError, Invalid
from pytest_kscen.objects.resources import Resource

LABELS = {"app": "web"}
SELECTOR = {"matchLabels": LABELS}
CONTAINER = {
    "name": "c",
    "image": "pause",
    "ports": [{"containerPort": 80, "protocol": "TCP"}],
    "env": [{"name": "A", "value": "1"}],
    "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
    "readinessProbe": {"httpGet": {"path": "/", "port": 80}},
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
}
POD = {
    "containers": [CONTAINER],
    "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}],
    "tolerations": [{"key": "k", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
}
METADATA = {
    "name": "it",
    "labels": LABELS,
    "annotations": {"a": "b"},
    "finalizers": ["a.example.com/b"],
    "ownerReferences": [],
}
AUTOSCALER = {
    "maxReplicas": 3,
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "it"},
}
NOTES = {
    f"autoscaling.alpha.kubernetes.io/{name}": "[]"
    for name in ("metrics", "behavior", "current-metrics", "conditions")
}
NOTED = {**METADATA, "annotations": NOTES}
AUTOSCALERS = Resource("autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
BINDINGS = Resource("", "v1", "bindings", "Binding")
WIDGETS = Resource("example.com", "v1", "widgets", "Widget")
SCHEMA = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
}
VERSION = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": SCHEMA},
    "subresources": {"status": {}},
}
DEFINITION = {
    "group": "example.com",
    "scope": "Namespaced",
    "names": {"plural": "widgets", "kind": "Widget", "singular": "widget"},
    "versions": [VERSION],
}


def body_of(resource, metadata=METADATA, **content):
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        **content,
    }


TEMPLATE = {"metadata": {"labels": LABELS}, "spec": POD}
BODIES = [
    (resources.PODS, body_of(resources.PODS, spec=POD)),
    (
        resources.DEPLOYMENTS,
        body_of(
            resources.DEPLOYMENTS, spec={"replicas": 1, "selector": SELECTOR, "template": TEMPLATE}
        ),
    ),
    (
        resources.SERVICES,
        body_of(
            resources.SERVICES, spec={"selector": LABELS, "ports": [{"name": "h", "port": 80}]}
        ),
    ),
    (resources.CONFIG_MAPS, body_of(resources.CONFIG_MAPS, data={"a": "b"}, binaryData={})),
    (
        resources.POD_DISRUPTION_BUDGETS,
        body_of(resources.POD_DISRUPTION_BUDGETS, spec={"minAvailable": 1, "selector": SELECTOR}),
    ),
    (AUTOSCALERS, body_of(AUTOSCALERS, NOTED, spec=AUTOSCALER)),
    (WIDGETS, body_of(WIDGETS, spec={"size": 1}, status={"x": 1})),
    (
        resources.CUSTOM_RESOURCE_DEFINITIONS,
        body_of(
            resources.CUSTOM_RESOURCE_DEFINITIONS, {"name": "widgets.example.com"}, spec=DEFINITION
        ),
    ),
]
TARGET = {"apiVersion": "v1", "kind": "Node", "name": "n"}
BINDING = body_of(BINDINGS, {"name": "it"}, target=TARGET)
EVICTION = {
    "apiVersion": "policy/v1",
    "kind": "Eviction",
    "metadata": {"name": "it"},
    "deleteOptions": {"gracePeriodSeconds": 0},
}
SCALE = {
    "apiVersion": "autoscaling/v1",
    "kind": "Scale",
    "metadata": {"name": "it"},
    "spec": {"replicas": 2},
}
OTHERS = [  # what is asked, the verb, the subresource, the body
    (BINDINGS, "create", "", BINDING),
    (resources.PODS, "create", "binding", BINDING),
    (resources.PODS, "create", "eviction", EVICTION),
    (resources.DEPLOYMENTS, "update", "scale", SCALE),
]
WRITES = ["create", "update", MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH]
ASKED = st.sampled_from(
    [
        (resource, verb, part, body)
        for resource, body in BODIES
        for verb in WRITES
        for part in ("", "status")
    ]
    + OTHERS
)
JUNK = st.sampled_from(
    [
        *(
            None,
            True,
            0,
            1,
            -1,
            2**70,
            1.5,
            "",
            "x",
            "{",
            "5",
            '"x"',
            "[7]",
            "[[]]",
            '{"a":1}',
            "é\n",
        ),
        *([], [None], ["x"], [1], [[]], [{}]),
        *(
            {},
            {"": 1},
            {"x": None},
            {"a": {"b": "c"}},
            {"$patch": "delete"},
            {"$patch": 1},
            {"name": 1},
        ),
    ]
)
CHANGES = st.lists(
    st.tuples(st.integers(0, 200), JUNK, st.sampled_from(["put", "add", "drop"])),
    min_size=1,
    max_size=2,
)


class PopulatedServer:
    """Server with one object of each kind."""

    def __init__(self, runner):
        self.runner = runner
        self.server = ApiServer(
            runner.clock, Chance("refusing"), Kinds(builtin_kinds()), standard_admission()
        )
        self.store = self.server.core.store
        for resource in (resources.NAMESPACES, resources.SERVICE_ACCOUNTS):
            self.ask(resource, "create", "", body_of(resource, {"name": "default"}))
        for resource, body in reversed(BODIES):
            self.ask(resource, "create", "", body)

    def ask(self, resource, verb, part, body):
        kind, namespace = resource, "default" if resource.namespaced else ""
        name = (
            ""
            if verb == "create" and not part
            else "widgets.example.com"
            if not resource.namespaced
            else "it"
        )
        patch = "" if verb in {"create", "update"} else verb
        options = Options(field_manager="t", force=patch == APPLY_PATCH or None)
        request = Request(
            "patch" if patch else verb,
            kind,
            namespace,
            name,
            part,
            copy.deepcopy(body),
            options,
            patch,
        )
        self.runner.call(self.server.handle(request))


def value_paths(value, path=()):
    """Return all paths that can be changed in a body."""
    yield path
    for name, part in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        yield from value_paths(part, (*path, name))


def changed(body, where, junk, how):
    found = list(value_paths(body))
    *path, last = (None, *found[where % len(found)])
    if last is None:
        return junk
    new = copy.deepcopy(body)
    at = new
    for step in path[1:]:
        at = at[step]
    if how == "drop":
        del at[last]
    elif how == "add" and isinstance(at[last], dict | list):
        at[last] = [*at[last], junk] if isinstance(at[last], list) else {**at[last], "x": junk}
    else:
        at[last] = junk
    return new


def answered_or_refused(site, resource, verb, part, body):
    before = site.store.revision
    try:
        site.ask(resource, verb, part, body)
    except ApiError:
        assert site.store.revision == before


def with_metadata(body, metadata):
    return {**body, "metadata": metadata}


@pytest.mark.parametrize(
    ("resource", "verb", "part", "body"),
    [
        (resources.CONFIG_MAPS, STRATEGIC_PATCH, "", {"apiVersion": 1}),
        (WIDGETS, MERGE_PATCH, "", {"metadata": "{"}),
        (BINDINGS, "create", "", with_metadata(BINDING, "x")),
        (BINDINGS, "create", "", "x"),
        (
            WIDGETS,
            "create",
            "",
            {"apiVersion": "example.com/v1", "kind": "x", "metadata": {"name": 0}},
        ),
        (
            resources.SERVICES,
            APPLY_PATCH,
            "",
            {**BODIES[2][1], "spec": {"ports": [{"port": 2**70}]}},
        ),
        *(
            (
                AUTOSCALERS,
                "update",
                "",
                with_metadata(BODIES[5][1], {"name": "it", "annotations": {name: "5"}}),
            )
            for name in NOTES
        ),
    ],
)
def test_input_of_wrong_type_is_answered_or_refused(runner, resource, verb, part, body):
    answered_or_refused(PopulatedServer(runner), resource, verb, part, body)


def test_patch_with_numeric_name_is_refused(runner):
    site = PopulatedServer(runner)
    with pytest.raises(Invalid, match=r'"map\[apiVersion:1\]": cannot convert int64 to string$'):
        site.ask(resources.CONFIG_MAPS, STRATEGIC_PATCH, "", {"apiVersion": 1})
    with pytest.raises(Invalid, match=r": cannot convert int64 to types\.UID$"):
        site.ask(resources.CONFIG_MAPS, STRATEGIC_PATCH, "", {"metadata": {"uid": 1}})
    why = (
        r": couldn't get version/kind; json parse error: json: cannot unmarshal number into "
        r"Go struct field .kind of type string$"
    )
    with pytest.raises(Invalid, match=why):
        site.ask(resources.CONFIG_MAPS, MERGE_PATCH, "", {"kind": 1})


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(ASKED, CHANGES)
def test_mangled_bodies_are_answered_or_refused(shared, asked, changes):
    resource, verb, part, body = asked
    for where, junk, how in changes:
        body = changed(body, where, junk, how) if isinstance(body, dict | list) else body
    answered_or_refused(shared, resource, verb, part, body)


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from(BODIES),
    CHANGES,
    st.sampled_from(["add", "replace", "remove", "copy", "move", "test", "odd"]),
)
def test_mangled_json_patches_are_answered_or_refused(shared, asked, changes, op):
    resource, body = asked
    found = list(value_paths(body))
    operations = [
        {
            "op": op,
            "path": "".join(f"/{step}" for step in found[where % len(found)]),
            "from": "/metadata",
            "value": junk,
        }
        for where, junk, _ in changes
    ]
    answered_or_refused(shared, resource, JSON_PATCH, "", operations)


@pytest.fixture
def shared(runner):
    return PopulatedServer(runner)
