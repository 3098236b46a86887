"""What the schema cannot say of the built-in kinds: defaults, what a write may touch, and what is
wrong with it.

Only Kubernetes' own rules may enter here: no verbs, no admission, and nothing of who is asking.
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
from pytest_kscen.embedded.apiserver.rules import jobs as cronjobs
from pytest_kscen.embedded.apiserver.rules import networking as ingresses
from pytest_kscen.embedded.apiserver.rules import storage as csi
from pytest_kscen.embedded.apiserver.rules.pods import rules as pods
from pytest_kscen.embedded.apiserver.rules.warnings import WARNINGS

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.kinds import Rules

_RULES: dict[tuple[str, str], Rules] = {
    **pods.RULES,
    **workloads.RULES,
    **stateful_sets.RULES,
    **jobs.JOB_RULES,
    **cronjobs.CRON_JOB_RULES,
    **services.RULES,
    **endpoints.RULES,
    **core_group.CONFIG_RULES,
    **core_group.CLUSTER_RULES,
    **claims.RULES,
    **volumes.RULES,
    **quotas.RULES,
    **events.RULES,
    **storage.CLASS_RULES,
    **csi.CSI_RULES,
    **policies.RULES,
    **access.RBAC_RULES,
    **networking.POLICY_RULES,
    **ingresses.INGRESS_RULES,
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
"""By group and plural. A kind that is not here has nothing that its schema does not say."""
