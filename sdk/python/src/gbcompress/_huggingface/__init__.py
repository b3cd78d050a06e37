"""Packed folders in Transformers."""
