"""Read the protobuf number of each field from Kubernetes' Go sources, and write it into the
package.

`python -m pytest_kscen record-protobuf --modules DIR`, where DIR is Go's module cache (`go env
GOMODCACHE`) with the modules of the release that we mimic, as the build of the real control plane
leaves them."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import orjson

from pytest_kscen.embedded.apiserver.recorded import PROTOBUF_NUMBERS

INLINE = "+"
MODULES = ("api", "apimachinery", "apiextensions-apiserver", "kube-aggregator")
FOLDERS = re.compile(r"^(pkg/apis/)?[a-z]+/v\d+$|^pkg/apis/meta/v1$")
_STRUCT = re.compile(r"^type (\w+) struct \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(
    r'^\s+(?:\w+\s+)?([\w.\[\]*]+)\s+`json:"([^",]*)[^"]*"'
    r'(?:\s*\w+:"[^"]*")*?\s*protobuf:"\w+,(\d+),',
    re.MULTILINE,
)


def numbers(modules: Path, version: str) -> dict[str, dict[str, str]]:
    """Return the field names by number of each definition, sorted by both.

    `+Definition` in place of a name embeds that definition's fields. Types without protobuf
    tags are left out.
    """
    found: dict[str, dict[str, str]] = {}
    for module in MODULES:
        root = modules / "k8s.io" / f"{module}@{version}"
        for folder in sorted(
            path for path in root.glob("**/v*") if FOLDERS.match(path.relative_to(root).as_posix())
        ):
            package = f"io.k8s.{module}.{folder.relative_to(root).as_posix().replace('/', '.')}"
            for source in sorted(folder.glob("types*.go")):
                for name, body in _STRUCT.findall(source.read_text()):
                    fields = {
                        number: field or f"{INLINE}{package}.{type_}"
                        for type_, field, number in _FIELD.findall(body)
                    }
                    if fields:
                        found[f"{package}.{name}"] = dict(
                            sorted(fields.items(), key=lambda item: int(item[0]))
                        )
    return dict(sorted(found.items()))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pytest_kscen record-protobuf", description=__doc__
    )
    parser.add_argument(
        "--modules", type=Path, required=True, help="Go's module cache: `go env GOMODCACHE`"
    )
    parser.add_argument(
        "--version", default="v0.36.4", help="the release of k8s.io/api and its sisters"
    )
    parser.add_argument(
        "--into",
        type=Path,
        default=PROTOBUF_NUMBERS,
        help="the file to write (default: the package's own)",
    )
    options = parser.parse_args(arguments)
    found = numbers(options.modules, options.version)
    if not found:
        parser.error(
            f"no types of {options.version} below {options.modules}: give Go's module cache, "
            "as `go env GOMODCACHE` prints it"
        )
    lines = [orjson.dumps(name) + b": " + orjson.dumps(fields) for name, fields in found.items()]
    options.into.write_bytes(b"{\n" + b",\n".join(lines) + b"\n}\n")
    return 0
