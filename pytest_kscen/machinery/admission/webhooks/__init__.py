"""Webhooks: real HTTPS servers that a cluster's configurations name. Time stands still while they think."""

from pytest_kscen.machinery.admission.webhooks.asking import Webhooks

__all__ = ["Webhooks"]
