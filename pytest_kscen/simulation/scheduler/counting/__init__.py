"""How many pods of a kind are on each node, kept with each change: what affinity and spreading ask again and again.

`crowd.Crowd` counts the pods that somebody is looking for, `standing.Standing` the wishes of the pods that are there;
`domains` adds up what is on the nodes by the value of a topology key. Nothing in here knows a plugin.
"""
