"""The composition root: a seed, a cluster and a plan become a journal and a verdict."""
