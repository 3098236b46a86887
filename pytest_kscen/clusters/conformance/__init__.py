"""Conformance kit: cases that any server of the Kubernetes API must pass, over HTTP alone.

No server's modules may be imported here. Inside:

    case            client, responses, register of cases, transports
    chapters/       the cases, by part of the API
    widgets         custom resource of a case
    differential    the same requests to two servers, and the first difference
"""

from pytest_kscen.clusters.conformance.case import (
    CASES,
    Case,
    CaseClient,
    CaseResponse,
    CaseTransport,
    HttpsTransport,
    InProcessTransport,
)
from pytest_kscen.clusters.conformance.chapters import load

__all__ = [
    "CASES",
    "Case",
    "CaseClient",
    "CaseResponse",
    "CaseTransport",
    "HttpsTransport",
    "InProcessTransport",
    "load",
]
