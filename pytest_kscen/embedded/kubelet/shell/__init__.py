"""Simulated shell for `sh -c` in containers: text becomes tokens, tokens a tree, and the tree is
run in cluster time.

- `words`: tokens, quoting and expansion
- `parser`: the tree
- `interpreter`: the `Shell` that runs it
- `builtin_commands`, `programs`, `filters`: commands

Unsupported syntax ends a script with a message and code 127. Must not import kubelets.
"""

from pytest_kscen.embedded.kubelet.shell.interpreter import NOT_UNDERSTOOD, Shell
from pytest_kscen.embedded.kubelet.shell.programs import FOREVER, PROGRAMS, SHELLS, Program
from pytest_kscen.embedded.kubelet.shell.words import ScriptError

__all__ = ["FOREVER", "NOT_UNDERSTOOD", "PROGRAMS", "SHELLS", "Program", "ScriptError", "Shell"]
