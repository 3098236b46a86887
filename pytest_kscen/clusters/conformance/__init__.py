"""The kit that any server of the Kubernetes API must pass, ours or another's: cases over HTTP's own
words.

No server's inside may enter here: a case sees requests and answers, nothing else.
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
