"""Requirements of namespace tests: skipped when missing, failed when skips are forbidden."""

from __future__ import annotations

import namespaces
import pytest

DEMANDS = {
    "iperf3": lambda: namespaces.demand_tool("iperf3"),
    "busybox": lambda: namespaces.demand_tool("busybox"),
    "xtables-legacy-multi": lambda: namespaces.demand_backend("legacy"),
    "nsenter": namespaces.demand_rights,
}


@pytest.mark.parametrize("missing", DEMANDS)
@pytest.mark.parametrize(
    ("must", "end"), [("must", pytest.fail.Exception), (None, pytest.skip.Exception)]
)
def test_missing_tool_is_reported(monkeypatch, missing, must, end):
    which = namespaces.shutil.which
    monkeypatch.setattr(
        namespaces.shutil,
        "which",
        lambda tool, **where: tool != missing and (which(tool, **where) or tool),
    )
    monkeypatch.delenv(namespaces.MUST, raising=False)
    if must:
        monkeypatch.setenv(namespaces.MUST, must)
    with pytest.raises(end, match=f"{missing} is not installed"):
        DEMANDS[missing]()
