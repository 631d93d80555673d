"""The hash of a configuration: the same everywhere, and different for different runs."""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
import sys
from pathlib import Path

from eligrad.agents import PRESETS
from eligrad.agents.registry import to_json
from eligrad.runs.configuration import ADDED, Configuration, Run, fingerprint
from eligrad.runs.plan import plan_in_file
from eligrad.sweeps.table import differences

ONE = Configuration(
    agent="qrc",
    settings={"lam": 0.8, "step_size": 1e-4, "rule": "tdrc", "rollout": 64, "flag": True},
    env="MinAtar/Breakout-v1",
    steps=1000,
)


def test_the_hash_is_sha256_of_sorted_json():
    text = (
        '{"agent":"qrc","env":"MinAtar/Breakout-v1","env_params":{},"max_episode_steps":null,'
        '"settings":{"flag":true,"lam":0.8,"rollout":64.0,"rule":"tdrc","step_size":0.0001},'
        '"steps":1000.0}'
    )
    assert ONE.hash == hashlib.sha256(text.encode()).hexdigest()[:16] == "d8491cdc41c82cc2"
    assert Run(ONE, 3).name == f"{ONE.hash}-s3"


def test_another_process_agrees():
    code = (
        "from eligrad.runs.configuration import fingerprint\n"
        "print(fingerprint({'b': [1, 2.5, None], 'a': {'λ': True}}))"
    )
    for hash_seed in ("0", "1"):
        told = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert told.stdout.strip() == fingerprint({"a": {"λ": True}, "b": [1.0, 2.5, None]})


def test_a_setting_added_later_leaves_the_hashes_of_earlier_runs_alone():
    """At the value that runs without the setting used, whatever the default is now."""
    for name, value in ADDED.items():
        for preset in ("qrc", "gradient-ppo"):
            settings = to_json(PRESETS[preset])
            del settings[name]
            content = {"agent": preset, "settings": settings, "env": None, "env_params": {}}
            content |= {"max_episode_steps": None, "seeds": [0]}
            content |= dict.fromkeys(("steps", "chunk", "checkpoint_every"), 2048)
            assert getattr(plan_in_file(content, Path("config.json")).settings, name) == value
        assert dataclasses.replace(ONE, settings=ONE.settings | {name: value}).hash == ONE.hash
        assert dataclasses.replace(ONE, settings=ONE.settings | {name: "new"}).hash != ONE.hash


def test_equal_numbers_are_equal_and_all_else_differs():
    same = dataclasses.replace(
        ONE, settings=dict(reversed(ONE.settings.items())) | {"rollout": 64.0}
    )
    assert same.hash == ONE.hash
    assert dataclasses.replace(ONE, info=["x_velocity"]).hash == ONE.hash
    others = [
        dataclasses.replace(ONE, agent="qc"),
        dataclasses.replace(ONE, env="MinAtar/Asterix-v1"),
        dataclasses.replace(ONE, steps=1001),
        dataclasses.replace(ONE, max_episode_steps=10),
        dataclasses.replace(ONE, env_params={"sticky_action_probability": 0.0}),
        dataclasses.replace(ONE, settings=ONE.settings | {"lam": 0.8000000000000002}),
        dataclasses.replace(ONE, settings=ONE.settings | {"flag": False}),
        dataclasses.replace(ONE, settings=ONE.settings | {"flag": 1}),
    ]
    assert len({ONE.hash, *(other.hash for other in others)}) == len(others) + 1
    assert dataclasses.replace(ONE, env="MinAtar/Asterix-v1").variant == ONE.variant
    assert dataclasses.replace(ONE, steps=1001).variant != ONE.variant


def test_a_plan_of_several_runs_gives_each_its_own():
    plan = dataclasses.asdict(ONE) | {"seeds": [0, 0, 1], "chunk": 10, "checkpoint_every": 100}
    plan["settings"] = ONE.settings | {"lam": [0.8, 0.9, 0.8]}
    first, second, third = (Configuration.of_plan(plan, run) for run in range(3))
    assert first == third == ONE
    assert second.settings["lam"] == 0.9


def test_a_table_prints_values_as_figures_do():
    other = dataclasses.replace(ONE, settings=ONE.settings | {"step_size": 3e-5}, steps=1_000_448)
    assert differences(ONE, [ONE, other]) == "step_size=1e-4, steps=1000"
    assert differences(other, [ONE, other]) == "step_size=3e-5, steps=1000448"
