"""`python -m eligrad` is the command `eligrad`."""

from eligrad.cli import main

if __name__ == "__main__":
    main()
