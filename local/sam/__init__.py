"""Sample events, and the functions in containers that answer them. `local/sam_local.py` is the command."""
