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
def search_folders(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, pathlib.Path]:
    """Create three empty search folders, and a PATH without other programs."""
    found = {name: tmp_path / name for name in ("assets", "cache", "path")}
    for place in found.values():
        place.mkdir()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(found["assets"]))
    monkeypatch.setenv("KSCEN_CACHE", str(found["cache"]))
    monkeypatch.setenv("PATH", str(found["path"]))
    return found


def put_program(folder: pathlib.Path, *names: str, words: str = "#!/bin/sh\n") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(words)
        (folder / name).chmod(0o755)


def fake_go(search_folders, version: str = "1.26.3") -> pathlib.Path:
    log = search_folders["path"] / "log"
    put_program(search_folders["path"], "go", words=GO.format(log=log, version=version))
    return log


def test_go_module_pins_every_program():
    assert list(programs.go_tools()) == [*programs.SERVER_PROGRAMS, "kubectl"]
    assert re.fullmatch(r"v1\.\d+\.\d+", programs.kubernetes_version())
    assert programs.linker_flags().endswith(f"gitVersion={programs.kubernetes_version()}")
    assert programs.build_fingerprint().startswith(programs.kubernetes_version())


def test_search_order_is_assets_cache_path(search_folders):
    put_program(search_folders["path"], *programs.SERVER_PROGRAMS)
    put_program(programs.current_build_folder(), "etcd", "kube-apiserver")
    put_program(search_folders["assets"], "etcd")
    found = programs.find_programs()
    assert found["etcd"].parent == search_folders["assets"]
    assert found["kube-apiserver"].parent == programs.current_build_folder()
    assert found["kube-scheduler"].parent == search_folders["path"]
    assert programs.missing_programs() == []


def test_missing_program_error_has_build_command(search_folders):
    put_program(search_folders["assets"], "etcd", "kube-apiserver")
    with pytest.raises(ClusterRefused) as refusal:
        programs.find_programs()
    assert str(refusal.value) == (
        "the real control plane needs kube-controller-manager, kube-scheduler: not found "
        f"in KUBEBUILDER_ASSETS ({search_folders['assets']}), in {programs.current_build_folder()} or on PATH. "
        "Build it with: python -m pytest_kscen controlplane build"
    )


def test_cache_folder_follows_environment(monkeypatch):
    monkeypatch.delenv("KSCEN_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert programs.cache_folder() == pathlib.Path.home() / ".cache" / "pytest-kscen"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert programs.cache_folder() == pathlib.Path("/elsewhere/pytest-kscen")


def test_build_prints_progress_and_skips_built_programs(search_folders, capsys):
    log = fake_go(search_folders)
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


def test_build_adds_missing_programs_only(search_folders):
    log = fake_go(search_folders)
    put_program(programs.current_build_folder(), *programs.SERVER_PROGRAMS)
    programs.build_programs(lambda _: None)
    assert log.read_text().count("build -mod=readonly") == 1
    assert (programs.current_build_folder() / "kubectl").exists()


def test_failed_build_prints_compiler_output_and_leaves_no_file(
    search_folders, monkeypatch, capsys
):
    fake_go(search_folders)
    monkeypatch.setenv("FAIL", "1")
    assert commands.main(["controlplane", "build"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("building etcd failed: ")
    assert "undefined: everything" in said
    assert list(programs.current_build_folder().iterdir()) == []


def test_missing_go_error_has_remedy(search_folders):
    with pytest.raises(
        ClusterRefused,
        match=r"there is no `go` on PATH: install Go 1\.26\.0 or newer \(https://go\.dev/dl\)",
    ):
        programs.build_programs(lambda _: None)


def test_old_go_is_refused(search_folders):
    fake_go(search_folders, version="1.25.9")
    with pytest.raises(
        ClusterRefused,
        match=r"is Go 1\.25\.9, too old for the control plane: install Go 1\.26\.0 or newer",
    ):
        programs.build_programs(lambda _: None)


def test_status_prints_program_paths(search_folders, capsys):
    put_program(search_folders["assets"], *programs.SERVER_PROGRAMS)
    assert commands.main(["controlplane", "status"]) == 1
    said = capsys.readouterr().out
    assert f"etcd: {search_folders['assets'] / 'etcd'}" in said
    assert "kubectl: missing; build it with: python -m pytest_kscen controlplane build" in said
    put_program(search_folders["assets"], "kubectl")
    assert commands.main(["controlplane", "status"]) == 0


def test_clean_removes_every_build(search_folders, capsys):
    put_program(programs.current_build_folder(), "etcd")
    put_program(programs.builds_folder() / "v1.0.0-older", "etcd")
    assert commands.main(["controlplane", "clean"]) == 0
    assert capsys.readouterr().out.count("removed") == 2
    assert not programs.builds_folder().exists()
