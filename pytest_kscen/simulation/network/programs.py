"""The network's programs for scripts: `iptables` and `iperf3`, on the host that a container is on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.network.firewall import run
from pytest_kscen.simulation.network.iperf3 import options_of
from pytest_kscen.simulation.scripts import FOREVER, ScriptError

if TYPE_CHECKING:
    from pytest_kscen.simulation.network.hosts import Host
    from pytest_kscen.simulation.scripts import Program, Shell

BANNER = "-----------------------------------------------------------\n"
NAMES = ("iptables", "iperf3")


def programs_on(host: Host) -> dict[str, Program]:
    async def iptables(shell: Shell, words: list[str]) -> int:
        outcome = run(host.tables, words)
        shell.write(outcome.text)
        shell.complain(outcome.complaint)
        return outcome.code

    async def iperf3(shell: Shell, words: list[str]) -> int:
        try:
            options = options_of(words)
        except ValueError as error:
            raise ScriptError(f"iperf3: {error}") from error
        if options.serves:
            return await _serve(host, shell, options.port, in_background=options.in_background)
        client = host.client(shell.write, shell.sleep)
        ended = await client.run(options, host.machine_at(options.host, options.port))
        shell.complain(ended.complaint)
        return ended.code

    return {"iptables": iptables, "iperf3": iperf3}


async def _serve(host: Host, shell: Shell, port: int, *, in_background: bool) -> int:
    """One in the background has nobody left to complain to."""
    server = host.listen(port)
    if in_background:
        return 0
    if server is None:
        why = "unable to start listener for connections: Address already in use"
        shell.complain(f"iperf3: error - {why}\niperf3: exiting\n")
        return 1
    shell.write(f"{BANNER}Server listening on {port} (test #1)\n{BANNER}")
    try:
        await shell.sleep(FOREVER)
    finally:
        host.hosts.servers.close(server)
    return 0
