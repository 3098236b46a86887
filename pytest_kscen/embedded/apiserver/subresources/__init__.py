"""Subresources: parts of objects with an address of their own, and resources that are never stored.

Imports the verbs, but no HTTP and no admission plugins. Plain `status` goes to the verbs.

Inside:
- `routing`: table of handlers by subresource and verb.
- `pods`: binding, eviction, log, and the refusal of exec, attach and portforward.
- `proxy`: HTTP to pods and services. `scale`: replicas of any scalable kind.
- `reviews`: tokens, token reviews, access reviews and component statuses.
"""

from pytest_kscen.embedded.apiserver.subresources.routing import handler_of, unstored_handler

__all__ = ["handler_of", "unstored_handler"]
