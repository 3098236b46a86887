"""Admission webhooks: HTTPS servers outside this process, named by the cluster's configurations.

Cluster time stands still during a call. Only `Webhooks` is used by the chain.
"""

from pytest_kscen.embedded.apiserver.admission.webhooks.dispatch import Webhooks

__all__ = ["Webhooks"]
