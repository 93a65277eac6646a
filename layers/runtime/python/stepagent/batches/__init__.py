"""Many inputs for one agent: read, run side by side, each in a run of its own, and brought together in order.

`models`, `reading` (pure) · `starting`, `preparing`, `running`, `finishing` (what the API and the states do) · `ends`
(what the end of a run means for its input) · `executions` (of the batch's state machine).
"""
