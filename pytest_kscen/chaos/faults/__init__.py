"""What can be done to a cluster, a module for each kind: what it is done to, how it is done, how it is undone.

When and to whom is drawn by the profiles, or said by the test.
"""
