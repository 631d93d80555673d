"""The verbs people know do what they say, for every agent."""

from __future__ import annotations

import dataclasses
import inspect

import gymnasium
import numpy as np
import pytest

import eligrad
import eligrad.api
from eligrad._base.checks import whole_number
from eligrad.agents import AGENTS, from_equinox
from eligrad.analysis import load_episodes, load_runs
from eligrad.api import learner
from eligrad.nets import streaming_mlp, tanh_mlp
from eligrad.runs.checkpoint import CheckpointError
from eligrad.runs.folder import RunFolder
from eligrad.sweeps import Spec, Sweep, run_sweep
from eligrad.training import resume, train
from eligrad.training.callbacks import EvaluateEvery, StopAtReturn
from eligrad.training.session import as_callbacks
from tests.contract.test_own_agents import command
from tests.sweeps.small_sweeps import Inline

SMALL_ROLLOUT = {"rollout": 64, "minibatch_size": 32, "epochs": 1}
ROLLOUT_AGENTS = ("ppo", "gradient-ppo")

pytestmark = pytest.mark.usefixtures("quickest_compilation")


def make(preset: str, env: str = "CartPole-v1", **options) -> eligrad.Learner:
    """A learner that is quick to train."""
    small = SMALL_ROLLOUT if preset in ROLLOUT_AGENTS else {}
    return learner(preset)(env, **small, **options)


@pytest.fixture(scope="module")
def trained() -> eligrad.Learner:
    return make("qrc").learn(200, callback=None)


DAILY = ("qrc", "gradient-ppo")
BREAKOUT = "MinAtar/Breakout-v1"


@pytest.mark.parametrize(
    "preset",
    [p if p in DAILY else pytest.param(p, marks=pytest.mark.nightly) for p in AGENTS],
)
def test_every_agent_learns_acts_and_goes_on(preset, tmp_path):
    agent = make(preset, seeds=2).learn(128)
    assert agent.num_timesteps == 128
    observation = np.array([0.1, 0.0, -0.1, 0.2], np.float32)
    action, _ = agent.predict(observation)
    assert action in (0, 1)
    batch, _ = agent.predict(np.stack([observation] * 3))
    np.testing.assert_array_equal(batch, [action] * 3)
    agent.save(tmp_path / "agent.npz")
    loaded = eligrad.load(tmp_path / "agent.npz")
    assert type(loaded) is type(agent)
    assert loaded.num_timesteps == 128
    assert loaded.episodes.equals(agent.episodes)


def test_a_stream_of_continuous_actions_from_the_command_line_to_a_sweep(tmp_path):
    """Through every door that the discrete agents use: nothing counts on an action being an int."""
    env, run = "Probe/Continuous-v0", tmp_path / "run"
    once = eligrad.GradientAC(env, seeds=2, critic_kappa=[2.0, 4.0]).learn(400)
    quiet = ("--no-progress", "--no-cache")
    words = ("gradient-ac", env, "--steps", 200, "--critic-kappa", 2.0, "--out", run)
    assert command("train", *words, "--seeds", 2, *quiet) == 0
    assert command("train", "--resume", run, "--steps", 400, *quiet) == 0
    resumed, straight = load_episodes(run), once.episodes
    ours, theirs = (each[each.seed == 0]["return"].tolist() for each in (resumed, straight))
    assert ours == theirs
    observations = np.array([[-1.0], [0.0], [1.0]], np.float32)
    actions, _ = eligrad.load(run).predict(observations)
    assert actions.shape == (3, 1)
    assert actions.dtype == np.float32
    assert len(once.evaluate(3)) == 6
    spec = {"agents": ["stream-ac", "gradient-ac"], "envs": [env], "steps": 64, "seeds": 1}
    sweep = Spec([Sweep(**spec, grid={"lam": [0.5, 0.9]})])
    report = run_sweep(sweep, tmp_path / "store", executor=Inline(workers=1))
    assert not report.failures
    assert sorted(load_runs(tmp_path / "store")["agent"]) == 2 * ["gradient-ac"] + 2 * ["stream-ac"]


def test_learning_twice_or_from_a_file_is_learning_once(tmp_path):
    options = {"seeds": 2, "exploration_steps": 100.0}
    once = eligrad.QRC("CartPole-v1", **options).learn(2000)
    twice = eligrad.QRC("CartPole-v1", **options).learn(1000)
    twice.save(tmp_path / "agent.npz")
    twice.learn(1000)
    loaded = eligrad.QRC.load(tmp_path / "agent.npz").learn(1000)
    assert once.episodes.equals(twice.episodes)
    assert once.episodes.equals(loaded.episodes)


def test_prediction_passes_on_the_state_and_leaves_statistics_alone(trained):
    agent = trained
    before = agent.session.engine.state.agent.normalizer
    observation = np.array([0.5, -1.0, 0.1, 2.0], np.float32)
    action, passed_on = agent.predict(observation, state="anything")
    assert passed_on == "anything"
    after = agent.session.engine.state.agent.normalizer
    np.testing.assert_array_equal(before.observations.mean, after.observations.mean)
    assert action in (0, 1)


def test_best_is_the_seed_with_the_highest_last_returns():
    agent = make("ppo", "Probe/Action-v0", seeds=3, actor_step_size=[0.0, 3e-2, 0.0]).learn(2048)
    agent.best()
    assert agent._run == 1
    returns = agent.evaluate(episodes=5)
    assert returns[returns.seed == 1]["return"].mean() == 1.0


@pytest.mark.nightly
def test_evaluation_in_gymnasium_and_in_jax():
    for env in ("CartPole-v1", "Probe/Trace-v0"):
        agent = make("qrc", env, seeds=2).learn(50)
        frame = agent.evaluate(episodes=3, deterministic=False)
        assert list(frame.columns) == ["seed", "episode", "return"]
        assert sorted(frame.seed) == [0, 0, 0, 1, 1, 1]
        assert frame.equals(agent.evaluate(episodes=3, deterministic=False))
        assert np.isfinite(frame["return"]).all()


def test_callbacks_stop_evaluate_and_keep_the_best(tmp_path):
    watch = EvaluateEvery(128, episodes=2, keep_best=tmp_path / "best.npz")
    agent = make("ppo", seeds=1).learn(512, callback=[watch, lambda session: session.step < 256])
    assert agent.num_timesteps == 256
    assert [step for step, _ in watch.history] == [128, 256]
    kept = eligrad.load(tmp_path / "best.npz")
    means = {step: returns.mean() for step, returns in watch.history}
    assert kept.num_timesteps == max(means, key=lambda step: (means[step], -step))


def test_stops_at_a_return():
    agent = make("qrc", "Probe/Reward-v0")
    agent.learn(5000, callback=StopAtReturn(0.5))
    assert agent.num_timesteps < 5000


def test_gymnasium_tools_can_drive_it(trained):
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=0)
    total, over = 0.0, False
    while not over:
        action, _ = trained.predict(observation, deterministic=True)
        observation, reward, terminated, truncated, _ = env.step(action)
        total, over = total + float(reward), terminated or truncated
    assert total > 0


def test_stable_baselines_can_evaluate_it():
    evaluation = pytest.importorskip(
        "stable_baselines3.common.evaluation", reason="stable-baselines3 is an optional comparison"
    )
    from stable_baselines3.common.monitor import Monitor  # pyright: ignore[reportMissingImports]

    agent, env = make("ppo").learn(64), Monitor(gymnasium.make("CartPole-v1"))
    returns, lengths = evaluation.evaluate_policy(
        agent, env, n_eval_episodes=2, return_episode_rewards=True
    )
    assert len(returns) == 2
    assert returns == lengths  # CartPole pays 1 for each step


def test_a_network_of_ones_own(tmp_path):
    network = from_equinox(lambda key, s: streaming_mlp(4, 2, hidden=(8,), sparsity=s, key=key))
    agent = eligrad.QRC("CartPole-v1", network=network).learn(64)
    agent.save(tmp_path / "own.npz")
    with pytest.raises(ValueError, match="a custom network: pass network= again"):
        eligrad.QRC.load(tmp_path / "own.npz")
    with pytest.raises(ValueError, match=r"holds QRC\(λ\)"):
        eligrad.QC.load(tmp_path / "own.npz", network=network)
    loaded = eligrad.load(tmp_path / "own.npz", network=network)
    assert (type(loaded), loaded.num_timesteps) == (eligrad.QRC, 64)


def test_two_networks_of_ones_own_for_ppo(tmp_path):
    def tanh(outputs: int, gain: float, hidden: tuple[int, ...]):
        return from_equinox(
            lambda key, _: tanh_mlp(4, outputs, hidden=hidden, output_gain=gain, key=key)
        )

    default = make("ppo").learn(128)
    same = make("ppo", network=(tanh(2, 0.01, (64, 64)), tanh(1, 1.0, (64, 64)))).learn(64)
    same.save(tmp_path / "own.npz")
    with pytest.raises(ValueError, match="a custom network: pass network= again"):
        eligrad.PPO.load(tmp_path / "own.npz")
    small = (tanh(2, 0.01, (8,)), tanh(1, 1.0, (8,)))
    with pytest.raises(CheckpointError, match=r"own\.npz"):
        eligrad.load(tmp_path / "own.npz", network=small)
    loaded = eligrad.load(tmp_path / "own.npz", network=same._network).learn(64)
    assert type(loaded) is eligrad.PPO
    assert loaded.episodes.equals(default.episodes)
    with pytest.raises(ValueError, match=r"a pair \(policy, critic\) is accepted"):
        make("ppo", network=small[0])
    with pytest.raises(ValueError, match=r"policy\.network.* a logit for each action"):
        make("ppo", network=small[::-1])


@pytest.mark.nightly
def test_a_network_of_ones_own_and_a_value_for_each_seed(tmp_path):
    network = from_equinox(lambda key, s: streaming_mlp(4, 2, hidden=(8,), sparsity=s, key=key))
    options = {"lam": [0.0, 0.9], "seeds": np.arange(2), "network": network}
    eligrad.QRC("Probe/OffPolicy-v0", **options).learn(64).save(tmp_path / "own.npz")
    loaded = eligrad.QRC.load(tmp_path / "own.npz", network=network)
    assert loaded.session.plan.settings["lam"] == [0.0, 0.9]
    assert loaded.learn(64).num_timesteps == 128


def test_a_run_folder_loads_as_a_copy(tmp_path):
    """What the command line trained can act in Python; the folder stays as it is."""
    run = tmp_path / "run"
    train("qrc", "Probe/OffPolicy-v0", steps=64, seeds=2, out=run)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    agent = eligrad.load(run)
    assert (type(agent), agent.num_timesteps) == (eligrad.QRC, 64)
    assert set(agent.episodes.seed) == {0, 1}
    assert agent.learn(64).num_timesteps == 128
    assert agent.predict(np.zeros(4, np.float32))[0] in (0, 1)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    # And it is the run: going on in the folder comes to the same episodes.
    assert resume(run, steps=128).episodes.to_pandas().equals(agent.episodes)


@pytest.mark.parametrize(("given", "settings"), [({}, 20), ({"exploration_fraction": 0.5}, 50)])
def test_exploration_falls_over_a_share_of_the_first_steps(given, settings):
    agent = make("qrc", "Probe/OffPolicy-v0", **given)
    assert agent.learn(100).session.plan.settings.exploration_steps == settings


class Cells(gymnasium.Env):
    """Observes a number of five; its two actions are 1 and 2."""

    observation_space = gymnasium.spaces.Discrete(5)
    action_space = gymnasium.spaces.Discrete(2, start=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        assert self.action_space.contains(action)
        return int(self.np_random.integers(5)), float(action == 2), False, False, {}


def test_predict_takes_and_gives_what_the_environment_does():
    agent = eligrad.QRC(Cells).learn(1000)
    chosen = {int(agent.predict(cell)[0]) for cell in range(5)}
    assert chosen <= {1, 2}
    assert 2 in chosen
    flat = np.eye(5, dtype=np.float32)  # what agents observe is accepted, too, and batches of it
    both = agent.predict(flat)[0]
    assert both.tolist() == [int(agent.predict(cell)[0]) for cell in range(5)]


def test_a_device_gets_the_actions_of_the_environment(tmp_path):
    """Also from what `Online` itself saved."""
    eligrad.QRC(Cells).learn(1000).save(tmp_path / "agent.npz")
    online = eligrad.Online.from_run(tmp_path / "agent.npz", env=Cells)
    cells, chosen = np.eye(5, dtype=np.float32), [online.observe(np.eye(5, dtype=np.float32)[0])]
    for t in range(30):
        chosen.append(online.observe(cells[t % 5], float(chosen[-1] == 2)))
    assert set(chosen) <= {1, 2}
    assert chosen.count(2) > 20
    assert (online.action, online.interrupt(cells[0])) == (chosen[-1], 2)
    online.save(tmp_path / "online.npz")
    again = eligrad.Online.load(tmp_path / "online.npz")
    assert again.action == online.action
    assert again.observe(cells[1], 1.0) == online.observe(cells[1], 1.0)


class Arm(gymnasium.Env):
    """Actions lie within a bound of its own."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))

    def __init__(self, bound):
        self.action_space = gymnasium.spaces.Box(-bound, bound, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), float(action[0]), False, False, {}


def test_an_agent_keeps_to_the_bounds_of_its_actions(tmp_path):
    """A policy scales its actions to them: with others it would do something else."""

    def weak():
        return Arm(0.1)

    def strong():
        return Arm(5.0)

    saved, run, online = (tmp_path / name for name in ("agent.npz", "run", "online.npz"))
    eligrad.StreamAC(weak).learn(30, out=run).save(saved)
    eligrad.Online.from_run(saved, env=weak).save(online)
    for path in (saved, run, online):
        eligrad.load(path, env=weak)
        with pytest.raises(ValueError, match=r"trained with the actions .*0\.1.* are .*5\.0"):
            eligrad.load(path, env=strong)
    for path in (saved, run):
        with pytest.raises(ValueError, match="trained with the actions"):
            eligrad.Online.from_run(path, env=strong)
    with pytest.raises(ValueError, match="trained with the actions"):
        resume(run, steps=60, env=strong)
    assert resume(run, steps=60, env=weak).summary["steps"] == 60


@pytest.mark.parametrize("callback", [3, StopAtReturn, [None]])
def test_what_is_no_callback_is_refused(callback):
    with pytest.raises(TypeError, match="functions of the session are accepted"):
        as_callbacks(callback)


@pytest.mark.nightly
def test_a_short_beginning_does_not_cut_what_follows_into_pieces(tmp_path):
    agent = make("qrc", "Probe/OffPolicy-v0").learn(100, out=tmp_path / "run").learn(3000)
    assert agent.num_timesteps == 3100
    assert agent.session.plan.chunk >= 500
    assert len(list((tmp_path / "run/metrics/chunks").iterdir())) <= 21
    # The folder knows of it, too.
    assert RunFolder(tmp_path / "run").config["plan"]["steps"] == 3100
    assert resume(tmp_path / "run").summary["finished"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: eligrad.QRC("CartPole-v1", lamb=0.8), "did you mean 'lam'"),
        (lambda: eligrad.QRC("CartPole-v1", learning_rate=1e-3), "here that is 'step_size'$"),
        (
            lambda: eligrad.PPO("CartPole-v1", learning_rate=1e-3),
            "here that is 'actor_step_size' or 'critic_step_size'$",
        ),
        (lambda: eligrad.QRC("CartPole-v1", seed=0), "here that is 'seeds'$"),
        (lambda: eligrad.QRC("CartPole-v1", batch_size=0), "did you mean 'step_size'"),
        (lambda: eligrad.QRC("CartPole-v7"), "did you mean 'CartPole-v1'"),
        (lambda: eligrad.QRC("CartPole-v1").predict(np.zeros(4)), "call learn first"),
        (lambda: make("qrc").learn(10).predict(np.zeros(3)), "observation has shape"),
        (lambda: make("qrc").learn(10).predict(np.full(4, np.nan)), "finite numbers are accepted"),
        (
            lambda: eligrad.QRC("CartPole-v1").learn(10).predict((np.zeros(4), {})),
            r"observation is a pair \(observation, info\)",
        ),
        (lambda: eligrad.QRC("CartPole-v1", seeds=[-1]), r"seeds are \[-1\]; numbers from 0"),
        (lambda: make("qrc").learn(0.5), "total_timesteps is 0.5"),
        (lambda: whole_number("total_timesteps", "1e5"), "total_timesteps is '1e5'"),
        (lambda: train("qrc", "CartPole-v1", setps=3), "train needs steps, .* given are setps"),
        (lambda: eligrad.load("nowhere.npz"), "there is no file nowhere.npz"),
        (lambda: eligrad.PPO("MlpPolicy", "CartPole-v1"), "There are no policy classes here"),
        (lambda: make("qrc", seeds=0), "seeds is 0"),
        (lambda: make("qrc", BREAKOUT, env_params={"sticky": 1}), "'sticky_probability'"),
        (
            lambda: make("qrc", BREAKOUT, env_params={"sticky_probability": np.nan}),
            "sticky_probability of env_params is nan",
        ),
    ],
)
def test_mistakes_are_named(call, message):
    kinds = (ValueError, RuntimeError, LookupError, TypeError, FileNotFoundError)
    with pytest.raises(kinds, match=message):
        call()


def test_a_file_of_another_agent_is_refused(tmp_path):
    make("qc").learn(10).save(tmp_path / "qc.npz")
    with pytest.raises(ValueError, match="holds QC"):
        eligrad.QRC.load(tmp_path / "qc.npz")
    (tmp_path / "none.npz").write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match="damaged"):
        eligrad.load(tmp_path / "none.npz")


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("QLambdaArguments", "qrc"),
        ("StreamACArguments", "gradient-ac"),
        ("PPOArguments", "ppo"),
        ("GradientPPOArguments", "gradient-ppo"),
    ],
)
def test_editors_know_the_settings(name, preset):
    known = getattr(eligrad.api, name).__annotations__.keys()
    options = set(inspect.signature(eligrad.Learner.__init__).parameters)
    options -= {"self", "env", "others", "settings"}
    fields = {field.name for field in dataclasses.fields(AGENTS[preset].config)}
    explored = {"exploration_fraction"} if "exploration_steps" in fields else set()
    assert known == options | fields | explored
