"""From a journal to verdicts.

Nothing of a cluster, a simulation or a client may enter: an oracle must not share their code.
"""
