"""Image references, read only as far as the default pull policy needs it: is the tag `latest`?"""

from __future__ import annotations

import functools
import re

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)"
_DOMAIN = rf"(?:{_HOST}(?:\.{_HOST})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_TAG = r":(?P<tag>\w[\w.-]{0,127})"
_DIGEST = r"@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})"
_REFERENCE = re.compile(rf"(?P<name>(?:{_DOMAIN}/)?{_PART}(?:/{_PART})*)(?:{_TAG})?(?:{_DIGEST})?", re.ASCII)
_IDENTIFIER = re.compile("[a-f0-9]{64}")
_LONGEST_NAME = 255


@functools.lru_cache(maxsize=4096)
def pull_policy(reference: str) -> str:
    """What `imagePullPolicy` is when nobody says: Always for the latest image, also when that is only implied."""
    found = _REFERENCE.fullmatch(reference)
    if found is None or _IDENTIFIER.fullmatch(reference) or len(found["name"]) > _LONGEST_NAME:
        return "IfNotPresent"
    latest = found["tag"] == "latest" or not (found["tag"] or found["digest"])
    return "Always" if latest else "IfNotPresent"
