"""Making room for a pod by sending others away: which nodes come into question, whom it would hit, and carrying it out.

`victims` tries a node out, `best` compares nodes, `evicting` acts. When to do it is said by the DefaultPreemption plugin.
"""
