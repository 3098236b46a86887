"""What a scenario has come to, from its timeline alone: a Scenario's status or a run's folder is all that this needs."""
