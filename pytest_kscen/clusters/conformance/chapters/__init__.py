"""The chapters of the kit, one for each part of the API's contract. A chapter holds cases and nothing else."""
