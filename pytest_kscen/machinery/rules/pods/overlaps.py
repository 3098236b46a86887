"""Files of a volume that would lie on top of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pytest_kscen.objects.errors import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pytest_kscen.objects.resources import Obj

File: TypeAlias = tuple[str, str]  # its path, and where it comes from if the volume has several sources


def overlapping_files(volumes: Sequence[Obj]) -> Iterator[str]:
    for volume in volumes:
        name = quoted(volume.get("name", ""))
        for kind, title in SOURCES.items():
            if kind in volume:
                files = [(path, "") for path in _paths(volume[kind])]
                yield from (f"volume {name} ({title(volume[kind])}): overlapping paths: {words}" for words in _overlaps(files))
        if "projected" in volume:
            sources = volume["projected"].get("sources") or ()
            if not all(sources):
                yield f"volume {name} (Projected) has no sources provided"
            files = [file for source in sources for file in _projected(source)]
            yield from (f"volume {name} (Projected): overlapping paths: {words}" for words in _overlaps(files))


SOURCES: dict[str, Callable[[Obj], str]] = {
    "configMap": lambda source: f"ConfigMap {quoted(source.get('name', ''))}",
    "secret": lambda source: f"Secret {quoted(str(source.get('secretName', source.get('name', ''))))}",
    "downwardAPI": lambda _: "DownwardAPI",
}


def _paths(source: Obj) -> Iterable[str]:
    return (item.get("path", "") for item in source.get("items") or ())


def _projected(source: Obj) -> Iterator[File]:
    for kind, title in SOURCES.items():
        if kind in source:
            yield from ((path, title(source[kind])) for path in _paths(source[kind]))
    if "serviceAccountToken" in source:
        yield source["serviceAccountToken"].get("path", ""), "ServiceAccountToken"


def _overlaps(files: Sequence[File]) -> Iterator[str]:
    plain = [(path.rstrip("/"), source) for path, source in files]
    for place, (path, source) in enumerate(plain):
        for other, its_source in plain[:place]:
            if path and other and (f"{other}/".startswith(f"{path}/") or f"{path}/".startswith(f"{other}/")):
                yield f"{_shown(path, source)} with {_shown(other, its_source)}"


def _shown(path: str, source: str) -> str:
    return f"{quoted(path)} ({source})" if source else quoted(path)
