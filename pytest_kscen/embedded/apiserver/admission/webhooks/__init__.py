"""Webhooks: real HTTPS servers that a cluster's configurations name.

Time stands still while they think.
"""

from pytest_kscen.embedded.apiserver.admission.webhooks.dispatch import Webhooks

__all__ = ["Webhooks"]
