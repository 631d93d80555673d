"""What goes wrong in rollouts is named, and what was saved stays good."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from eligrad.engines import Diverged, EnvironmentFault
from eligrad.envs import make
from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment
from eligrad.envs.probes import OffPolicy
from eligrad.runs.checkpoint import read_header
from eligrad.training import resume, train
from tests.engines import tiny as streaming
from tests.engines import tiny_ppo as tiny
from tests.engines.test_rollout import assert_same
from tests.engines.tiny import nightly

pytestmark = [
    pytest.mark.usefixtures("quickest_compilation"),
]


class Fragile(gymnasium.Env):
    """Observes how far it is; at one step of its life it does what `fault` says.

    The fault is gone once it is mended.
    """

    mended = False

    def __init__(self, fault="none", at=0):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.fault, self.at, self.age = fault, at, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action):
        self.age += 1
        broken = self.age == self.at and not Fragile.mended
        if broken and self.fault == "raises":
            raise OSError("the joint is jammed")
        observation = self._observe()
        if broken and self.fault == "grows":
            observation = np.zeros(3, np.float32)
        if broken and self.fault == "observation":
            observation[0] = np.nan
        reward = np.inf if broken and self.fault == "reward" else float(action)
        return observation, reward, self.age % 5 == 0, False, {}

    def _observe(self):
        return np.array([self.age % 5, 1.0], np.float32)


@pytest.fixture
def mended():
    yield
    Fragile.mended = False


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raises", r"'Fragile' raised at step 90: OSError\('the joint is jammed'\)"),
        ("reward", r"'Fragile' gave a reward \(inf\) that is not finite, to seed 4 at step 90"),
        nightly("grows", r"'Fragile' raised at step 90: .*step of Fragile .* shape \(3,\).*\(2,\)"),
        nightly(
            "observation", "'Fragile' gave an observation that is not .*, to seed 4 at step 90"
        ),
    ],
)
def test_faults_of_simulators(tmp_path, fault, message, mended):
    """In the third rollout, where two simulators take their 45th step."""
    env = GymnasiumEnvironment(Fragile, fault=fault, at=45)
    agent = tiny.agent("ppo", env, num_envs=2)
    options = {"steps": 128, "seeds": [4], "checkpoint_every": 32}
    with pytest.raises(EnvironmentFault, match=message):
        train(agent, env, out=tmp_path / "run", **options)
    saved = [read_header(path)["step"] for path in sorted((tmp_path / "run").glob("*.npz"))]
    assert saved == [32, 64]
    # What is left goes on, once the simulator is mended, as if nothing had been.
    Fragile.mended = True
    resumed = resume(tmp_path / "run", agent=agent, env=env)
    straight = train(agent, env, **options)
    assert_same(resumed.state.agent, straight.state.agent)
    assert resumed.episodes.equals(straight.episodes)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("reward", r"'Breaks' gave a reward \(nan\) .*, to seed 4 at step 57"),
        nightly("observation", "'Breaks' gave an observation .*, to seed 4 at step 57"),
    ],
)
def test_faults_of_jax_environments(tmp_path, what, message):
    env = streaming.Breaks(what, 57)
    agent = tiny.agent("ppo", env)
    with pytest.raises(EnvironmentFault, match=message):
        train(agent, env, steps=96, seeds=[4], checkpoint_every=32, out=tmp_path / "run")
    saved = [read_header(path)["step"] for path in sorted((tmp_path / "run").glob("*.npz"))]
    assert saved == [32]


def test_actions_that_are_no_numbers(tmp_path):
    env = make("Pendulum-v1")
    agent = tiny.agent("ppo", env, actor_step_size=1e30)
    with pytest.raises(Diverged, match=r"action \[nan\] in 'Pendulum-v1'.*actor_step_size"):
        train(agent, env, steps=320, seeds=[4], checkpoint_every=32, out=tmp_path / "run")
    saved = sorted((tmp_path / "run").glob("*.npz"))
    assert saved
    assert read_header(saved[-1])["step"] >= 32


@pytest.mark.parametrize(
    "make_env",
    [
        pytest.param(OffPolicy, marks=pytest.mark.nightly),
        lambda: make("Pendulum-v1", max_episode_steps=9),
    ],
    ids=["jax", "host"],
)
def test_a_diverging_run_leaves_its_neighbours_alone(make_env):
    """A policy that is no longer one shows in the summary, though its critic is well."""
    env = make_env()

    def run(*sizes):
        agent = tiny.agent("ppo", env, actor_step_size=np.array(sizes))
        return train(agent, env, steps=160, seeds=[0, 1, 2])

    sound, mixed = run(0.01, 0.01, 0.01), run(0.01, 1e38, 0.01)
    assert sound.summary["diverged"] == 0
    assert mixed.summary["diverged"] == 1
    assert mixed.summary["seeds"][1]["diverged_step"] % 32 == 0
    for run_number in (0, 2):
        ours, theirs = (
            r.episodes.filter(np.asarray(r.episodes["run"]) == run_number) for r in (mixed, sound)
        )
        assert ours.equals(theirs)


def small(agent="gradient-ppo", env="Probe/OffPolicy-v0", **options):
    return train(agent, env, **{"steps": 100} | tiny.SETTINGS["gradient-ppo"] | options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: small(sequence=7), "sequence is 7 and rollout / num_envs 32; .* must divide"),
        (lambda: small(num_envs=8), "sequence is 8 and rollout / num_envs 4"),
        (lambda: small(minibatch_size=64), "minibatch_size is 64 and rollout 32; .* must divide"),
        (lambda: small(num_envs=3), "num_envs is 3 and rollout 32"),
        (lambda: small(chunk=40), "chunk is 40; a multiple of rollout, which is 32"),
        (lambda: small(checkpoint_every=48), "checkpoint_every is 48; a multiple of chunk"),
        (
            lambda: small(rollout=[32, 64], seeds=2),
            r"\[32, 64\]; one value is accepted$",
        ),
        (lambda: small(lam=[0.9, 0.8]), r"lam is \[0.9, 0.8\]; .* each of the 1 runs"),
        (lambda: small(lam=[0.9, 1.8], seeds=2), "lam is 1.8; values in"),
        (lambda: small(seeds=[1, 1]), r"seeds are \[1, 1\]; different ones"),
        (lambda: small(rule="tdcr"), "rule is 'tdcr'; one of .* did you mean"),
        (lambda: small(value_clip=0.1), "unknown setting of gradient-ppo 'value_clip'"),
        (lambda: small("ppo", sequence=8), "unknown setting of ppo 'sequence'"),
    ],
)
def test_settings_that_make_no_sense(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_run_ends_with_a_whole_rollout():
    env = OffPolicy()
    result = train(tiny.agent("ppo", env), env, steps=40, seeds=[0, 1, 2])
    assert result.summary["steps"] == 64
    assert list(result.chunks.to_pandas().query("seed == 1")["step"]) == [32, 64]
