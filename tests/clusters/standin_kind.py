"""Fake `kind` program. Its clusters are real control planes on this machine, or kubeconfigs without
servers.

KSCEN_STANDIN is the folder in place of Docker: a subfolder for each cluster, and `calls`, the
commands in order. KSCEN_STANDIN_MODE: real, hollow (a kubeconfig without a server), failing
(creation fails half-way), hanging.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

HOME = pathlib.Path(os.environ["KSCEN_STANDIN"])
MODE = os.environ.get("KSCEN_STANDIN_MODE", "hollow")
HOLLOW = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "hollow", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "hollow", "user": {"token": "hollow"}}],
    "contexts": [{"name": "hollow", "context": {"cluster": "hollow", "user": "hollow"}}],
    "current-context": "hollow",
}


def main(words):
    options = dict(word.removeprefix("--").split("=", 1) for word in words if "=" in word)
    with (HOME / "calls").open("a") as calls:
        calls.write(" ".join(words) + "\n")
    match [word for word in words if not word.startswith("--")]:
        case ["create", "cluster", *_]:
            create(HOME / options["name"], pathlib.Path(options["kubeconfig"]))
        case ["get", "clusters"]:
            print("\n".join(sorted(folder.name for folder in HOME.iterdir() if folder.is_dir())))
        case ["get", "kubeconfig"]:
            print((HOME / options["name"] / "kubeconfig").read_text())
        case ["delete", "cluster"]:
            delete(HOME / options["name"])
        case ["load", "docker-image", *_]:
            pass
        case ["hold", name]:
            hold(HOME / name)
        case other:
            sys.exit(f"standin_kind: unknown command {other}")


def create(folder, kubeconfig):
    folder.mkdir()
    if MODE == "failing":
        sys.exit("standin_kind: no room for containers")
    if MODE == "hanging":
        signal.pause()
    if MODE == "hollow":
        (folder / "kubeconfig").write_text(json.dumps(HOLLOW))
    else:
        holder = subprocess.Popen(
            [sys.executable, __file__, "hold", folder.name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        if holder.stdout.readline() != "up\n":
            sys.exit(holder.stdout.read())
    kubeconfig.write_text((folder / "kubeconfig").read_text())


def hold(folder):
    from pytest_kscen.clock import WallRunner
    from pytest_kscen.clusters.controlplane.starting import start_control_plane

    asked_to_end = []
    signal.signal(signal.SIGTERM, lambda *_: asked_to_end.append(True))
    (folder / "holder.pid").write_text(str(os.getpid()))
    runner = WallRunner()
    processes, layout = start_control_plane(runner)
    (folder / "kubeconfig").write_text(layout.kubeconfig.read_text())
    print("up", flush=True)
    while not asked_to_end:
        signal.pause()
    processes.close()
    runner.close()


def delete(folder):
    with_holder = folder / "holder.pid"
    if with_holder.exists():
        holder = os.pidfd_open(int(with_holder.read_text()))
        signal.pidfd_send_signal(holder, signal.SIGTERM)
        import select

        select.select([holder], [], [])
    shutil.rmtree(folder, ignore_errors=True)


main(sys.argv[1:])
