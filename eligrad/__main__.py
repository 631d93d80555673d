"""`python -m eligrad` is `eligrad`."""

from eligrad.cli import main

if __name__ == "__main__":
    main()
