"""Asking models: the only package that imports openai."""
