"""Deep reinforcement learning with gradient eligibility traces."""
