"""The logger that all functions share: one JSON line an event, with ids and never with payloads."""

from aws_lambda_powertools import Logger

logger = Logger()
