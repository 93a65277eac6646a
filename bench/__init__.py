"""Measurements, each printed by a command that stands beside its figure."""
