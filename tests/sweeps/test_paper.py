"""The paper's figures: every preset is a sound spec at every scale, with the paper's settings."""

from __future__ import annotations

import pytest

from eligrad.sweeps.paper import figure_spec, is_about_speed
from eligrad.sweeps.resolve import resolve

GAMES = {f"MinAtar/{n}-v1" for n in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")}
TASKS = {"Ant-v4", "HalfCheetah-v4", "Walker2d-v4", "Hopper-v4"}


def runs_of(figure, scale):
    return resolve(figure_spec(figure, scale))


@pytest.mark.parametrize("figure", ["fig3", "fig4", "fig6"])
def test_minatar_figures(figure):
    agents = {
        "fig3": {"qrc", "q-lambda", "stream-q"},
        "fig4": {"qrc", "qc", "gq2"},
        "fig6": {"qrc", "q-lambda"},
    }[figure]
    runs = runs_of(figure, "paper")
    assert len(runs) == len(agents) * 5 * 30
    assert {run.configuration.agent for run in runs} == agents
    assert {run.configuration.env for run in runs} == GAMES
    rules = {"qrc": ("tdrc", 1.0), "qc": ("tdc", 0.0), "gq2": ("gtd2", 0.0)}
    for run in runs:
        settings, agent = run.configuration.settings, run.configuration.agent
        assert run.configuration.steps == 5_000_000
        assert (settings["lam"], settings["gamma"]) == (0.8, 0.99)
        assert (settings["epsilon_start"], settings["epsilon_end"]) == (1.0, 0.01)
        assert settings["exploration_steps"] == 1_000_000
        assert settings["sparsity"] == (0.0 if agent == "q-lambda" else 0.9)
        stream = agent == "stream-q"
        assert settings["optimizer"] == ("obgd" if stream else "sgd")
        assert settings["step_size"] == (1.0 if stream else 1e-4)
        assert (settings["rule"], settings["beta"]) == rules.get(agent, ("td", 0.0))


@pytest.mark.parametrize("figure", ["fig1", "fig2", "fig5"])
def test_mujoco_figures(figure):
    pytest.importorskip("mujoco")
    runs = runs_of(figure, "paper")
    lines = {"fig1": 2, "fig2": 3, "fig5": 2}[figure]
    assert len(runs) == lines * 4 * 30
    assert {run.configuration.env for run in runs} == TASKS
    for run in runs:
        settings = run.configuration.settings
        assert run.configuration.steps >= 5_000_000
        assert (settings["lam"], settings["gamma"], settings["rollout"]) == (0.95, 0.99, 2048)
        if run.configuration.agent == "gradient-ppo":
            assert (settings["actor_step_size"], settings["critic_step_size"]) == (3e-4, 3e-3)
    if figure == "fig2":
        found = {(r.configuration.settings["rule"], r.configuration.settings["beta"]) for r in runs}
        assert found == {("tdrc", 1.0), ("tdc", 0.0), ("gtd2", 0.0)}


@pytest.mark.parametrize("figure", [f"fig{number}" for number in range(1, 7)])
def test_scales(figure):
    sizes = [
        sum(len(part.seed_list) * part.steps * len(part.envs) for part in spec.parts)
        for spec in (figure_spec(figure, scale) for scale in ("smoke", "small", "paper"))
    ]
    assert sizes == sorted(sizes)
    assert is_about_speed(figure) == (figure in ("fig5", "fig6"))
