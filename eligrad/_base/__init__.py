"""What every package needs: errors, checks of arguments, files, signals."""
