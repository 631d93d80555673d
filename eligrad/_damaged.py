"""Files that are not as they were written."""


class DamagedFileWarning(UserWarning):
    """A file is cut off or altered; the message names it, and what is done without it."""


class DamagedFileError(ValueError):
    """A file is cut off, altered, or not what it should be; the message names it."""
