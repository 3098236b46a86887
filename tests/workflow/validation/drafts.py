"""Valid workflows from parts that tests can invalidate."""

from __future__ import annotations

from pytest_kscen.objects.chaos_mesh import KINDS

SELECTOR = {"namespaces": ["default"], "labelSelectors": {"app": "a"}}
PODS = {"mode": "all", "selector": SELECTOR}


def workflow(*templates, entry=None, **spec):
    """The first template is the entry."""
    entry = templates[0].get("name") if entry is None and templates else entry
    return {
        "apiVersion": "chaos-mesh.org/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {"entry": entry, "templates": [*templates], **spec},
    }


def schedule(**spec):
    return {
        "apiVersion": "chaos-mesh.org/v1alpha1",
        "kind": "Schedule",
        "metadata": {"name": "s"},
        "spec": {
            "schedule": "@every 1h",
            "type": "PodChaos",
            "podChaos": {"action": "pod-kill", **PODS},
            **spec,
        },
    }


def suspend(name="pause", deadline="1s", **more):
    return {"name": name, "templateType": "Suspend", "deadline": deadline, **more}


def serial(name, *children, kind="Serial", **more):
    return {"name": name, "templateType": kind, "children": [*children], **more}


def parallel(name, *children, **more):
    return serial(name, *children, kind="Parallel", **more)


def task(name, *branches, **more):
    """Branches are pairs of a target and an expression."""
    listed = [
        {"target": target, **({"expression": expression} if expression else {})}
        for target, expression in branches
    ]
    body = {"container": {"name": "main", "image": "busybox"}}
    return {
        "name": name,
        "templateType": "Task",
        "task": body,
        "conditionalBranches": listed,
        **more,
    }


def chaos(kind, *, name="hurt", deadline="1m", **spec):
    return {"name": name, "templateType": kind, "deadline": deadline, KINDS[kind].key: spec}


def status_check(name="check", **body):
    asked = {"url": "http://a.b/c", "criteria": {"statusCode": "200"}}
    return {
        "name": name,
        "templateType": "StatusCheck",
        "statusCheck": {"type": "HTTP", "http": asked, **body},
    }


def without(template, *names):
    return {key: value for key, value in template.items() if key not in names}
