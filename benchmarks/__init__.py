"""What the README claims, measured: scripts by what they measure; `run.py` runs them by name."""
