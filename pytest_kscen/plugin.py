"""The hooks that pytest calls. Nothing heavy is imported before a test asks for a cluster."""
