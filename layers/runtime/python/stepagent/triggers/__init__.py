"""Runs that begin without a request: jobs, and events that rules of the catalog make into jobs, from a queue."""
