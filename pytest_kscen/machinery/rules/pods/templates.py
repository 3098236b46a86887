"""The template that workloads make pods from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.rules.checks import Causes, annotated, in_order, labels, matches
from pytest_kscen.machinery.rules.pods import notes
from pytest_kscen.machinery.rules.pods.spec import pod_spec
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

MISMATCH = "`selector` does not match template `labels`"


def template(path: str, given: Obj) -> Causes:
    metadata, spec = given.get("metadata") or {}, given["spec"]
    yield from labels(f"{path}.labels", metadata.get("labels"))
    yield from annotated(f"{path}.annotations", metadata.get("annotations"))
    yield from notes.specific(f"{path}.annotations", metadata.get("annotations"), spec)
    yield from pod_spec(f"{path}.spec", spec)
    yield from notes.agree(f"{path}.spec", metadata.get("annotations"), spec)
    if spec.get("ephemeralContainers"):
        yield Cause.forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def selected(path: str, given: Obj, selector: Obj | None) -> Causes:
    """A workload's selector finds the pods that it makes."""
    own = (given.get("metadata") or {}).get("labels")
    if matches(selector, own) is False:
        yield Cause.invalid(f"{path}.metadata.labels", in_order(own), MISMATCH)


def restarts_always(path: str, given: Obj, owner: str) -> Causes:
    """What the pods of a workload that never ends must do."""
    policy = given["spec"].get("restartPolicy", "")
    if policy != "Always":
        yield Cause.unsupported(f"{path}.spec.restartPolicy", policy, ("Always",))
    if "activeDeadlineSeconds" in given["spec"]:
        yield Cause.forbidden(f"{path}.spec.activeDeadlineSeconds", f"activeDeadlineSeconds in {owner} is not Supported")
