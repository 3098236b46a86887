"""The rules of Pod and PodTemplate, put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.kinds import Part, Rules
from pytest_kscen.machinery.rules.differing import difference
from pytest_kscen.machinery.rules.pods import changes, notes, preparing, resizing
from pytest_kscen.machinery.rules.pods.containers import trimmed_images
from pytest_kscen.machinery.rules.pods.defaults import default_pod, default_template
from pytest_kscen.machinery.rules.pods.spec import MIRROR, pod_spec
from pytest_kscen.machinery.rules.pods.statuses import validate_status
from pytest_kscen.machinery.rules.pods.templates import template
from pytest_kscen.machinery.rules.selectable import POD_FIELDS
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.machinery.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj


def validate(pod: Obj) -> Causes:
    metadata, spec = pod["metadata"], pod["spec"]
    yield from _metadata_and_spec(metadata, spec)
    if spec.get("ephemeralContainers"):
        yield Cause.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("schedulingGates") and spec.get("nodeName"):
        yield Cause.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
    if "annotations" in metadata:
        yield from notes.agree("spec", metadata["annotations"], spec)


def _metadata_and_spec(metadata: Obj, spec: Obj) -> Causes:
    if "annotations" in metadata:
        yield from notes.specific("metadata.annotations", metadata["annotations"], spec)
    yield from pod_spec("spec", spec, metadata)
    if "volumes" in spec and not spec.get("serviceAccountName"):
        yield from _tokens_of_nobody(spec)
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            yield from trimmed_images(f"spec.{kind}", spec[kind])


def _tokens_of_nobody(spec: Obj) -> Causes:
    for place, volume in enumerate(spec["volumes"]):
        for number, source in enumerate(volume.get("projected", {}).get("sources") or ()):
            if "serviceAccountToken" in source:
                path = f"spec.volumes[{place}].projected.sources[{number}].serviceAccountToken"
                yield Cause.forbidden(path, "must not be specified when serviceAccountName is not set")


def validate_update(new: Obj, old: Obj) -> Causes:
    if new["spec"] is not old["spec"]:
        yield from _metadata_and_spec(new["metadata"], new["spec"])
    yield from changes.metadata_changes(new, old)
    if new["spec"] is not old["spec"]:
        yield from changes.spec_changes(new, old)


def validate_ephemeral(new: Obj, old: Obj) -> Causes:
    yield from _metadata_and_spec(new["metadata"], new["spec"])
    if MIRROR in (old["metadata"].get("annotations") or ()):
        yield Cause.forbidden("", "static pods do not support ephemeral containers")
    given = {one.get("name"): one for one in new["spec"].get("ephemeralContainers") or ()}
    for before in old["spec"].get("ephemeralContainers") or ():
        after = given.get(before.get("name"))
        words = f'existing ephemeral containers "{before.get("name", "")}" may not be'
        if after is None:
            yield Cause.forbidden("spec.ephemeralContainers", f"{words} removed\n")
        elif after != before:
            yield Cause.forbidden("spec.ephemeralContainers", f"{words} changed\n{difference(before, after)}")


def validate_resize(new: Obj, old: Obj) -> Causes:
    yield from _metadata_and_spec(new["metadata"], new["spec"])
    yield from resizing.changes(new, old)


def grace_period(pod: Obj, asked: int | None) -> int:
    """How long a pod is given to end: nothing, unless it runs somewhere."""
    ended = (pod.get("status") or {}).get("phase") in {"Failed", "Succeeded"}
    if ended or not pod["spec"].get("nodeName"):
        return 0
    seconds = int(pod["spec"].get("terminationGracePeriodSeconds", 0)) if asked is None else asked
    return 1 if seconds < 0 else seconds


def default_pod_template(obj: Obj) -> None:
    default_template(obj.get("template"))


def create_pod_template(obj: Obj, _core: Core) -> None:
    preparing.drop_disabled(obj["template"])


def update_pod_template(new: Obj, _old: Obj, _core: Core) -> None:
    preparing.drop_disabled(new["template"])


def validate_pod_template(obj: Obj) -> Causes:
    return template("template", obj["template"])


def validate_pod_template_update(new: Obj, _old: Obj) -> Causes:
    return template("template", new["template"])


RULES = {
    ("", "pods"): Rules(
        default=default_pod,
        prepare_create=preparing.create,
        prepare_update=preparing.update,
        validate=validate,
        validate_update=validate_update,
        parts={
            "status": Part(preparing.status, validate_status),
            "ephemeralcontainers": Part(preparing.ephemeral_containers, validate_ephemeral),
            "resize": Part(preparing.resize, validate_resize),
        },
        grace_period=grace_period,
        qualified_finalizers=True,
        fields=POD_FIELDS,
    ),
    ("", "podtemplates"): Rules(
        default=default_pod_template,
        prepare_create=create_pod_template,
        prepare_update=update_pod_template,
        validate=validate_pod_template,
        validate_update=validate_pod_template_update,
        qualified_finalizers=True,
    ),
}
