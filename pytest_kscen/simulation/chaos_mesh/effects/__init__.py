"""What chaos does. Each kind's effect is put on a target, looked for where it would be felt, and taken away again."""
