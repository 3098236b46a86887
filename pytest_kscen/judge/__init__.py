"""Verdicts of a run, from its journal alone.

Called by `run`, `report` and the commands. No cluster, client, simulation or chaos may be imported:
an oracle must not share their code.

    entries         readers of entries, by table; shared names
    outcome         judge: all checks, one pass over the journal
    incidents       incidents and the time in which they tolerate a volume's failure
    volumes         history and verdict of each volume
    operations      findings about the storage
    guarantees      what tests declare of objects, over the record of changes
    start_and_end   findings about the run itself
"""
