"""The command `eligrad`, also `python -m eligrad`."""

import sys

from eligrad._base.optional import needs_train


def main() -> None:
    """Runs the command line; where its packages are missing, says how to install them."""
    try:
        with needs_train("the command line"):
            from eligrad import cli
    except ImportError as error:
        sys.exit(f"eligrad: {error}")
    cli.main()


if __name__ == "__main__":
    main()
