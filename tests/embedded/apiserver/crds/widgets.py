"""A valid definition for tests to invalidate, and its kind."""

from pytest_kscen.objects.resources import Resource

WIDGETS = Resource("example.org", "v1", "widgets", "Widget")
TEXT = {"type": "string"}
SPEC = {"type": "object", "properties": {"size": {"type": "integer"}, "name": TEXT}}


def struct(properties, **more):
    return {"type": "object", "properties": properties, **more}


def version(name="v1", *, storage=True, schema=None, **more):
    structure = struct({"spec": SPEC}) if schema is None else schema
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": structure},
        **more,
    }


def definition(
    *versions,
    plural="widgets",
    kind="Widget",
    group="example.org",
    scope="Namespaced",
    names=None,
    **spec,
):
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": plural, "kind": kind, **(names or {})},
            "scope": scope,
            "versions": list(versions) or [version()],
            **spec,
        },
    }
