"""Admission: plugins, webhooks and hooks between a decoded object and the store.

`Hook` and `Review` are public. Imports no verbs, no HTTP server and nothing of the harness.

Inside:
- `chain`: the chain itself, reviews, plugins' interface and hooks.
- `plugins`: Kubernetes' built-in plugins in their order; `standard_admission` assembles them.
- `limit_ranges`, `service_accounts`, `quota`: the larger plugins.
- `webhooks`: MutatingWebhookConfigurations and ValidatingWebhookConfigurations.
"""

from pytest_kscen.embedded.apiserver.admission.chain import Admission, AdmissionPlugin, Hook, Review

__all__ = ["Admission", "AdmissionPlugin", "Hook", "Review"]
