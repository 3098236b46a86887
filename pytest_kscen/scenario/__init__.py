"""KEP-140: scenarios, played step by step. What may not enter: the simulation, the clusters, and how a test is written."""
