"""The end of a namespace: it is terminating from the first deletion on, and goes when both its lists of finalizers are empty.

Emptying it is a controller's work, who then takes its own finalizer out of the spec by the subresource `finalize`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.clock import timestamp_of
from pytest_kscen.machinery.graceful import FOREGROUND, ORPHAN

if TYPE_CHECKING:
    from pytest_kscen.kube.requests import Options
    from pytest_kscen.objects.resources import Obj

NAMESPACES = ("", "namespaces")


def begin_termination(old: Obj, options: Options, now: float) -> Obj:
    metadata = {**old["metadata"], "deletionTimestamp": timestamp_of(now)}
    finalizers = [each for each in metadata.get("finalizers") or [] if each not in _unwanted(options)]
    finalizers += [each for each in _wanted(options) if each not in finalizers]
    metadata["finalizers"] = finalizers
    if not finalizers:
        del metadata["finalizers"]
    return {**old, "metadata": metadata, "status": {**old.get("status", {}), "phase": "Terminating"}}


def _wanted(options: Options) -> list[str]:
    if options.orphan_dependents is not None:
        return [ORPHAN] if options.orphan_dependents else [FOREGROUND]
    return {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(options.propagation, [])


def _unwanted(options: Options) -> list[str]:
    if options.orphan_dependents is None and not options.propagation:
        return []
    return [each for each in (ORPHAN, FOREGROUND) if each not in _wanted(options)]
