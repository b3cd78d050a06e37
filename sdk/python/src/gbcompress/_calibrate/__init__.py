"""Calibration: statistics of a model, candidates, and what chooses between them."""
