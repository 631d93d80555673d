"""Files that are not as they were written."""


class DamagedFileWarning(UserWarning):
    """A file is cut off or altered; the message names it, and what is done without it."""
