"""How images are spoken of."""

from __future__ import annotations


def names_of(image: str) -> tuple[str, str, str]:
    """As it is written, without tag and digest, and its last part alone."""
    head, slash, tail = image.split("@", 1)[0].rpartition("/")
    bare = tail.split(":", 1)[0]
    return image, head + slash + bare, bare


def canonical(image: str) -> str:
    """As a node reports it: with registry, repository and tag."""
    head, _, tail = image.rpartition("/")
    named = tail if ":" in tail or "@" in image else tail + ":latest"
    if not head:
        return f"docker.io/library/{named}"
    registry = head.split("/", 1)[0]
    is_host = "." in registry or ":" in registry or registry == "localhost"
    return f"{head}/{named}" if is_host else f"docker.io/{head}/{named}"
