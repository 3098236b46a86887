"""A small shell for `sh -c` in containers: text becomes words, words a tree, and the tree is run in
cluster time.

What it does not understand it refuses, in the container's log and with exit code 127. No kubelet
may enter here."""

from pytest_kscen.embedded.kubelet.shell.interpreter import NOT_UNDERSTOOD, Shell
from pytest_kscen.embedded.kubelet.shell.programs import FOREVER, PROGRAMS, SHELLS, Program
from pytest_kscen.embedded.kubelet.shell.words import ScriptError

__all__ = ["FOREVER", "NOT_UNDERSTOOD", "PROGRAMS", "SHELLS", "Program", "ScriptError", "Shell"]
