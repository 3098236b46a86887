"""What the schema cannot say of the built-in kinds: defaults, what a write may touch, and what is wrong with it.

Only Kubernetes' own rules may enter here: no verbs, no admission, and nothing of who is asking.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kscen.machinery.rules import (
    admission_policies,
    autoscaling,
    certificates,
    claims,
    cluster,
    configs,
    cronjobs,
    csi,
    devices,
    endpoints,
    events,
    flowcontrol,
    ingresses,
    jobs,
    networking,
    policies,
    quotas,
    rbac,
    services,
    stateful,
    storage,
    volumes,
    webhooks,
    workloads,
)
from pytest_kscen.machinery.rules.pods import rules as pods
from pytest_kscen.machinery.rules.warnings import WARNINGS

if TYPE_CHECKING:
    from pytest_kscen.machinery.kinds import Rules

_RULES: dict[tuple[str, str], Rules] = {
    **pods.RULES,
    **workloads.RULES,
    **stateful.RULES,
    **jobs.RULES,
    **cronjobs.RULES,
    **services.RULES,
    **endpoints.RULES,
    **configs.RULES,
    **cluster.RULES,
    **claims.RULES,
    **volumes.RULES,
    **quotas.RULES,
    **events.RULES,
    **storage.RULES,
    **csi.RULES,
    **policies.RULES,
    **rbac.RULES,
    **networking.RULES,
    **ingresses.RULES,
    **autoscaling.RULES,
    **webhooks.RULES,
    **admission_policies.RULES,
    **certificates.RULES,
    **flowcontrol.RULES,
    **devices.RULES,
}
RULES = {kind: replace(rules, warn=WARNINGS[kind]) if kind in WARNINGS else rules for kind, rules in _RULES.items()}
"""By group and plural. A kind that is not here has nothing that its schema does not say."""
