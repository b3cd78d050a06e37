"""Training to small files: prepare(), g-nets, strategies."""
