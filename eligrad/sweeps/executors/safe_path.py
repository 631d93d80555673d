"""Runs a module or a program as `python` does, with a safe path.

It is called as `python -P safe_path.py -m MODULE …`.
`import eligrad` finds the package that this file is part of, wherever it is. The current folder is
not searched for modules; if PYTHONPATH names it, it is searched last.
"""

from __future__ import annotations

import os
import sys


def use_safe_path() -> None:
    """Moves the current folder to the end of the path, and loads this package."""
    sys.path.sort(key=os.getcwd().__eq__)
    # Not before: the current folder could have a file of that name.
    import importlib.util

    if "eligrad" in sys.modules:
        return
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    spec = importlib.util.spec_from_file_location("eligrad", os.path.join(package, "__init__.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["eligrad"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


if __name__ == "__main__":
    use_safe_path()
    option, what, *sys.argv[1:] = (each for each in sys.argv[1:] if each != "-u")
    if option == "-m":
        import runpy

        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(what)
