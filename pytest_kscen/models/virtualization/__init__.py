"""Virtual machines of a parent cluster: their pods, their power, and the operations on them.

A machine's guest is a machine of the nested cluster. This room moves it by `Machines`' verbs alone,
and may import nothing of a storage or of a test."""
