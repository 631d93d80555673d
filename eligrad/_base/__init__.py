"""What every package needs and no domain owns."""
