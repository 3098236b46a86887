"""Public names for hooks in the embedded API server: they refuse or change what is written.

A `Hook` stands where a cluster's webhooks stand. Add it with `cluster.admission.add(hook)`.
"""

from pytest_kscen.embedded.apiserver.admission import Hook, Review

__all__ = ["Hook", "Review"]
