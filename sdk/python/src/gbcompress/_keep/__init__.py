"""Weights that stay compressed in memory."""
