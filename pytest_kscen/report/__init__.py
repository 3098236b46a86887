"""How runs reach people: folders, summaries, attachments.

What they say comes from journals and outcomes alone.
"""
