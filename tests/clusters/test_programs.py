from __future__ import annotations

import pathlib
import re

import pytest

from pytest_kscen import __main__ as commands
from pytest_kscen.clusters.cluster import ClusterRefused
from pytest_kscen.clusters.controlplane import programs

GO = """#!/bin/sh
echo "$@" >> {log}
case "$1" in
    env) echo go{version} ;;
    build)
        test "$CGO_ENABLED" = 0 || exit 9
        test -z "$FAIL" || {{ echo "undefined: everything" >&2; exit 1; }}
        while test "$1" != -o; do shift; done
        echo "#!/bin/sh" > "$2"; /bin/chmod +x "$2" ;;
esac
"""


@pytest.fixture
def places(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, pathlib.Path]:
    """Three empty places to look in, and a PATH that has nothing else."""
    found = {name: tmp_path / name for name in ("assets", "cache", "path")}
    for place in found.values():
        place.mkdir()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(found["assets"]))
    monkeypatch.setenv("KSCEN_CACHE", str(found["cache"]))
    monkeypatch.setenv("PATH", str(found["path"]))
    return found


def put(folder: pathlib.Path, *names: str, words: str = "#!/bin/sh\n") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(words)
        (folder / name).chmod(0o755)


def a_go(places, version: str = "1.26.3") -> pathlib.Path:
    log = places["path"] / "log"
    put(places["path"], "go", words=GO.format(log=log, version=version))
    return log


def test_the_module_pins_every_program():
    assert list(programs.go_tools()) == [*programs.SERVER_PROGRAMS, "kubectl"]
    assert re.fullmatch(r"v1\.\d+\.\d+", programs.kubernetes_version())
    assert programs.linker_flags().endswith(f"gitVersion={programs.kubernetes_version()}")
    assert programs.build_fingerprint().startswith(programs.kubernetes_version())


def test_assets_come_before_the_cache_and_the_cache_before_path(places):
    put(places["path"], *programs.SERVER_PROGRAMS)
    put(programs.current_build_folder(), "etcd", "kube-apiserver")
    put(places["assets"], "etcd")
    found = programs.find_programs()
    assert found["etcd"].parent == places["assets"]
    assert found["kube-apiserver"].parent == programs.current_build_folder()
    assert found["kube-scheduler"].parent == places["path"]
    assert programs.missing_programs() == []


def test_what_is_nowhere_is_named_with_the_line_that_builds_it(places):
    put(places["assets"], "etcd", "kube-apiserver")
    with pytest.raises(ClusterRefused) as refusal:
        programs.find_programs()
    assert str(refusal.value) == (
        "the real control plane needs kube-controller-manager, kube-scheduler: not found "
        f"in KUBEBUILDER_ASSETS ({places['assets']}), in {programs.current_build_folder()} or on PATH. "
        "Build it with: python -m pytest_kscen controlplane build"
    )


def test_the_cache_is_where_such_things_are_kept(monkeypatch):
    monkeypatch.delenv("KSCEN_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert programs.cache_folder() == pathlib.Path.home() / ".cache" / "pytest-kscen"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert programs.cache_folder() == pathlib.Path("/elsewhere/pytest-kscen")


def test_build_shows_its_progress_and_builds_nothing_twice(places, capsys):
    log = a_go(places)
    assert commands.main(["controlplane", "build"]) == 0
    said = capsys.readouterr().out
    for number, name in enumerate(programs.go_tools(), 1):
        assert re.search(rf"^\[{number}/5\] {name} built in \d+ s \(0 MiB\)$", said, re.MULTILINE)
    assert f"gitVersion={programs.kubernetes_version()}" in log.read_text()
    assert sorted(path.name for path in programs.current_build_folder().iterdir()) == sorted(
        programs.go_tools()
    )

    log.unlink()
    assert commands.main(["controlplane", "build"]) == 0
    assert capsys.readouterr().out.count("up to date") == 5
    assert not log.exists()


def test_only_what_is_missing_is_built(places):
    log = a_go(places)
    put(programs.current_build_folder(), *programs.SERVER_PROGRAMS)
    programs.build_programs(lambda _: None)
    assert log.read_text().count("build -mod=readonly") == 1
    assert (programs.current_build_folder() / "kubectl").exists()


def test_a_failed_build_shows_the_compilers_words_and_leaves_no_half_program(
    places, monkeypatch, capsys
):
    a_go(places)
    monkeypatch.setenv("FAIL", "1")
    assert commands.main(["controlplane", "build"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("building etcd failed: ")
    assert "undefined: everything" in said
    assert list(programs.current_build_folder().iterdir()) == []


def test_without_go_the_message_says_what_to_install(places):
    with pytest.raises(
        ClusterRefused,
        match=r"there is no `go` on PATH: install Go 1\.26\.0 or newer \(https://go\.dev/dl\)",
    ):
        programs.build_programs(lambda _: None)


def test_a_go_that_is_too_old_is_refused(places):
    a_go(places, version="1.25.9")
    with pytest.raises(
        ClusterRefused,
        match=r"is Go 1\.25\.9, too old for the control plane: install Go 1\.26\.0 or newer",
    ):
        programs.build_programs(lambda _: None)


def test_status_says_where_they_are(places, capsys):
    put(places["assets"], *programs.SERVER_PROGRAMS)
    assert commands.main(["controlplane", "status"]) == 1
    said = capsys.readouterr().out
    assert f"etcd: {places['assets'] / 'etcd'}" in said
    assert "kubectl: missing; build it with: python -m pytest_kscen controlplane build" in said
    put(places["assets"], "kubectl")
    assert commands.main(["controlplane", "status"]) == 0


def test_clean_removes_every_build(places, capsys):
    put(programs.current_build_folder(), "etcd")
    put(programs.builds_folder() / "v1.0.0-older", "etcd")
    assert commands.main(["controlplane", "clean"]) == 0
    assert capsys.readouterr().out.count("removed") == 2
    assert not programs.builds_folder().exists()
