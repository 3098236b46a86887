"""Print the harness' modules that a two-minute megatest enters, from collection to summary.

Kubernetes in one process, the simulated third parties and the foundations are left out: the rest
is what a reader must know to follow a run. A module is entered when one of its functions is called.
"""

from __future__ import annotations

import pathlib
import sys
import tempfile
import threading

TEST = """
import pytest

@pytest.mark.volume_churn(max_volumes=2)
@pytest.mark.chaos("network-block", period=("20s", "40s"))
def test_two_minutes(scenario_runner):
    scenario_runner.run(duration="2m").explain()
"""
ELSEWHERE = ("embedded", "models", "kube", "objects", "cel", "clock", "chance")
LOADING = ("<module>", "<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")


def main() -> int:
    import pytest

    package = str(pathlib.Path(__file__).resolve().parents[1] / "pytest_kscen")
    entered: set[str] = set()

    def look(frame: object, event: str, _: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if event == "call" and code.co_filename.startswith(package):
            name = code.co_filename[len(package) + 1 :]
            if code.co_name not in LOADING and code.co_flags & 2:  # a function, no class body
                entered.add(name)

    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "test_two.py").write_text(TEST, encoding="utf-8")
        threading.setprofile(look)
        sys.setprofile(look)
        status = pytest.main(
            ["-q", "-p", "no:cacheprovider", f"--rootdir={folder}", f"{folder}/test_two.py"]
        )
        sys.setprofile(None)
    of_harness = sorted(name for name in entered if not name.startswith(ELSEWHERE))
    print(*of_harness, sep="\n", file=sys.stderr)
    print(len(of_harness))
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
