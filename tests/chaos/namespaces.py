"""Two hosts made of Linux namespaces with separate networks and processes."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

# set where the machine has what it takes, so that nothing is skipped in silence
MUST = "KSCEN_TESTS_NETNS"
TOOLS = {"ip": "iproute2", "iptables": "iptables", "nsenter": "util-linux", "unshare": "util-linux"}
MULTI = {"nft": "xtables-nft-multi", "legacy": "xtables-legacy-multi"}
RECEIVE = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 2**24)  # SO_RCVBUFFORCE: a busy machine loses nothing that has arrived
s.bind(("0.0.0.0", 7000)); s.settimeout(10)
print("ready", flush=True)
count = 0
while s.recv(8) != b"end":
    count += 1
print(count)
"""
SEND = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(int(sys.argv[2])):
    s.sendto(b"x", (sys.argv[1], 7000))
    if number % 20 == 0:
        time.sleep(0.001)
time.sleep(0.05)
for _ in range(50):
    s.sendto(b"end", (sys.argv[1], 7000))
"""


def demand_rights() -> None:
    """Require permission to create namespaces."""
    for tool in TOOLS:
        demand_tool(tool)
    made = subprocess.run(
        ["unshare", "--net", "--pid", "--fork", "true"], capture_output=True, text=True, check=False
    )
    _demand(not made.returncode, f"no right to make network namespaces: {made.stderr.strip()}")


def demand_tool(tool: str) -> None:
    _demand(
        shutil.which(tool, path=_path()),
        f"{tool} is not installed; Debian's package {TOOLS.get(tool, tool)} has it",
    )


def demand_backend(backend: str) -> None:
    """Require support by this machine's iptables and kernel."""
    demand_tool(MULTI[backend])
    rule = (
        f"iptables-{backend} -w -A INPUT -m statistic --mode nth --every 2 --packet 0 -m "
        "comment --comment x -j DROP"
    )
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", rule],
        capture_output=True,
        text=True,
        env=_env(),
        check=False,
    )
    _demand(
        not done.returncode,
        f"this kernel has not what iptables-{backend} needs: {done.stderr.strip()}",
    )


def _demand(there: object, otherwise: str) -> None:
    if not there:
        (pytest.fail if os.environ.get(MUST) else pytest.skip)(otherwise)


class Host:
    """One of two connected hosts. Its processes end with it; each script has a container's own
    processes, which end with the script.
    """

    def __init__(self, stack: contextlib.ExitStack, address: str) -> None:
        self.address = address
        command = [
            "unshare",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            "echo ready; exec sleep infinity",
        ]
        first = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(first.kill)
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        self.pid = (
            pathlib.Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()[0]
        )

    def inside(self, *command: str) -> list[str]:
        return ["nsenter", "--target", self.pid, "--net", "--pid", *command]

    def call(self, *command: str) -> str:
        done = subprocess.run(
            self.inside(*command),
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
            env=_env(),
        )
        return done.stdout

    def container(self, script: str, path: pathlib.Path) -> subprocess.Popen[str]:
        """Start a script as a container's only command, with these programs first."""
        alone = ["unshare", "--pid", "--fork", "--kill-child", "env", f"PATH={path}:{_path()}"]
        command = self.inside(*alone, str(path / "sh"), "-c", script)
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=_env()
        )

    def run(self, script: str, path: pathlib.Path) -> str:
        container = self.container(script, path)
        log, _ = container.communicate(timeout=30)
        assert container.returncode == 0, log
        return log

    def iptables(self, backend: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = self.inside(f"iptables-{backend}", "-w", *words)
        return subprocess.run(command, capture_output=True, text=True, check=False, env=_env())

    def receives(self, sender: Host, packets: int) -> int:
        """Return how many of the sent packets arrive here."""
        with subprocess.Popen(
            self.inside(sys.executable, "-c", RECEIVE), stdout=subprocess.PIPE, text=True
        ) as receiver:
            assert receiver.stdout is not None
            assert receiver.stdout.readline() == "ready\n"
            sender.call(sys.executable, "-c", SEND, self.address, str(packets))
            return int(receiver.communicate(timeout=30)[0])


@contextlib.contextmanager
def two_hosts():
    with contextlib.ExitStack() as stack:
        one, other = hosts = Host(stack, "10.99.0.1"), Host(stack, "10.99.0.2")
        cable = [
            "ip",
            "link",
            "add",
            "eth0",
            "netns",
            one.pid,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            other.pid,
        ]
        subprocess.run(cable, check=True, capture_output=True, env=_env())
        for host in hosts:
            host.call("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                host.call("ip", "link", "set", device, "up")
        yield hosts


def programs(folder: pathlib.Path, shell: str, backend: str) -> pathlib.Path:
    """Return a folder with the requested `sh` and `iptables`, and all applets of busybox."""
    if shell == "busybox":
        subprocess.run([str(shutil.which("busybox")), "--install", "-s", str(folder)], check=True)
    else:
        (folder / "sh").symlink_to(str(shutil.which(shell)))
    (folder / "iptables").symlink_to(str(shutil.which(MULTI[backend], path=_path())))
    return folder


def _path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"


def _env() -> dict[str, str]:
    return {**os.environ, "PATH": _path()}
