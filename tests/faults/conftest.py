"""One undisturbed run of each engine, to compare the disturbed ones with."""

import pytest

from tests.faults.engines import ACTOR_CRITICS, ENGINES, MULTIPROCESS, Programs


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    return Programs(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def undisturbed(programs, tmp_path_factory):
    """The folder of an engine's run, by the engine's name."""
    made = {}

    def run_of(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp("undisturbed") / name
            engine = (ENGINES | ACTOR_CRITICS | {"crew": MULTIPROCESS})[name]
            code, _, errors = programs.finish(engine.arguments(made[name]))
            assert code == 0, errors
        return made[name]

    return run_of
