"""Whether the server lives and is ready: it is, as soon as it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.wire.answers import WireAnswer, text

if TYPE_CHECKING:
    from pytest_kscen.machinery.wire.queries import Query

CHECKS = {
    "healthz": ("ping", "log", "etcd"),
    "livez": ("ping", "log", "etcd"),
    "readyz": ("ping", "log", "etcd", "etcd-readiness", "informer-sync", "shutdown"),
}


def health_of(path: str, query: Query) -> WireAnswer | None:
    """The answer of /healthz, /livez and /readyz, and of the checks under them; None for other paths."""
    endpoint, slash, check = path.removeprefix("/").partition("/")
    checks = CHECKS.get(endpoint)
    if not checks:
        return None
    if slash:
        return text("ok") if check in checks else None
    excluded = query.texts("exclude")
    if query.flag("verbose") is None:
        return text("ok")
    lines = [f"[+]{name} excluded: ok" if name in excluded else f"[+]{name} ok" for name in checks]
    return text("\n".join([*lines, f"{endpoint} check passed", ""]))
