"""Kubernetes' own rules of the built-in kinds: defaults, preparation of writes, validation and
warnings.

`builtin_kinds` reads `RULES`; nothing else calls this package. Verbs, admission, the store and the
identity of the requester must not enter here.

`checks` holds the validators that all modules share, `fields` the preparations and the selectable
fields. `pods/` holds Pod and PodTemplate, and `volume_sources` what pods and PersistentVolumes
share. `warnings` holds the warnings of all kinds. Every other module holds the kinds of one API
group or of one topic.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.rules import (
    access,
    admission_policies,
    autoscaling,
    claims,
    core_group,
    devices,
    endpoints,
    events,
    flow_control,
    jobs,
    networking,
    policies,
    quotas,
    services,
    stateful_sets,
    storage,
    volumes,
    webhooks,
    workloads,
)
from pytest_kscen.embedded.apiserver.rules.pods import rules as pods
from pytest_kscen.embedded.apiserver.rules.warnings import WARNINGS

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.kinds import Rules

_RULES: dict[tuple[str, str], Rules] = {
    **pods.RULES,
    **workloads.RULES,
    **stateful_sets.RULES,
    **jobs.JOB_RULES,
    **jobs.CRON_JOB_RULES,
    **services.RULES,
    **endpoints.RULES,
    **core_group.CONFIG_RULES,
    **core_group.CLUSTER_RULES,
    **claims.RULES,
    **volumes.RULES,
    **quotas.RULES,
    **events.RULES,
    **storage.CLASS_RULES,
    **storage.CSI_RULES,
    **policies.RULES,
    **access.RBAC_RULES,
    **networking.POLICY_RULES,
    **networking.INGRESS_RULES,
    **autoscaling.RULES,
    **webhooks.RULES,
    **admission_policies.RULES,
    **access.CERTIFICATE_RULES,
    **flow_control.RULES,
    **devices.RULES,
}
RULES = {
    kind: replace(rules, warn=WARNINGS[kind]) if kind in WARNINGS else rules
    for kind, rules in _RULES.items()
}
"""Rules by API group and plural name. A kind that is missing here has no rules beyond its schema.
"""
