"""From a simulator to a stream and back: an agent goes on learning where it stopped."""

from __future__ import annotations

import functools

import gymnasium
import jax
import numpy as np
import pytest

import eligrad
from eligrad.cli import evaluate, play
from eligrad.engines import Online
from eligrad.engines import online as engine
from eligrad.engines.devices import compile_seconds
from eligrad.envs import Box, Discrete
from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment
from eligrad.runs.checkpoint import CheckpointError
from eligrad.runs.plan import env_seeds
from eligrad.training import train
from tests.engines.tapes import ACTIONS, CHOICES, SIZE, STEPS, TAPES, GymnasiumTape, Tape

pytestmark = pytest.mark.usefixtures("quickest_compilation")

SEED, MIDDLE = 3, 28
TAPE = {name: rows[env_seeds([SEED])[0] % 2] for name, rows in TAPES.items()}
ENDED = TAPE["terminated"] | TAPE["truncated"]
JOINTS = gymnasium.spaces.Box(-2.0, 2.0, (2,), np.float32)


def tape_for(agent: str) -> GymnasiumEnvironment:
    """Continuous actions for those who can take them."""
    space = JOINTS if agent.endswith("ac") else CHOICES
    return GymnasiumEnvironment(functools.partial(GymnasiumTape, space))


def act_out(online: Online, begin: int, end: int) -> list:
    """Hands over the tape's transitions; returns the actions."""
    actions = []
    for t in range(begin, end):
        arrived = TAPE["final"][t] if ENDED[t] else TAPE["observation"][t + 1]
        flags = bool(TAPE["terminated"][t]), bool(TAPE["truncated"][t])
        action = online.observe(arrived, TAPE["reward"][t], *flags)
        if ENDED[t]:
            assert action is None
            action = online.observe(TAPE["observation"][t + 1])
        actions.append(action)
    return actions


def same(one, other) -> bool:
    """Whether two states have the same bits."""
    pairs = zip(*map(jax.tree.leaves, (one, other)), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


def nightly(agents: tuple[str, ...]) -> list:
    return [pytest.param(each, marks=pytest.mark.nightly) for each in agents]


@pytest.mark.parametrize(
    "name", ["qrc", "gradient-ac", *nightly(("q-lambda", "stream-q", "stream-ac"))]
)
def test_a_stream_learns_what_training_would_have_learned(name, tmp_path):
    """Bit for bit, over ends of both kinds, from the middle of an episode on."""
    assert not ENDED[MIDDLE - 1]
    assert TAPE["terminated"][MIDDLE:].any()
    assert TAPE["truncated"][MIDDLE:].any()
    env, learner = tape_for(name), eligrad.learner(name)
    settings = {} if name.endswith("ac") else {"exploration_steps": 50}
    agent = learner(env, seeds=[SEED], **settings).learn(MIDDLE)
    agent.save(tmp_path / "simulated.npz")
    agent.learn(STEPS - MIDDLE)
    Online.from_run(tmp_path / "simulated.npz", env=env).save(tmp_path / "agent.npz")
    online = Online.load(tmp_path / "agent.npz")  # as on another machine, without simulator
    assert online.steps == MIDDLE
    before = online.state
    first = online.action
    assert np.array_equal(first, online.action)
    actions = [first, *act_out(online, MIDDLE, STEPS)]
    assert online.steps == STEPS
    assert len({np.asarray(action).tobytes() for action in actions}) > 1
    assert not same(online.state, before)
    theirs = jax.tree.map(lambda leaf: leaf[0], agent.session.engine.state.agent)
    assert same(online.state, theirs)


@pytest.fixture(scope="module")
def handed_over(tmp_path_factory):
    """A file with an agent that was trained in a simulator, stopped in the middle of an episode."""
    path = tmp_path_factory.mktemp("online")
    train("qrc", "CartPole-v1", steps=65, seeds=[5, 6], out=path / "run", exploration_steps=40)
    Online.from_run(path / "run").save(path / "agent.npz")
    return path


def end(file, final, first, **flags) -> Online:
    """The agent after one more step, which ends an episode, and the beginning of the next."""
    online = Online.load(file)
    assert online.observe(final, 1.0, **flags) is None
    online.observe(first)
    return online


def test_truncation_bootstraps_from_the_real_last_observation(handed_over):
    file = handed_over / "agent.npz"
    here, there = np.full(4, 0.1, np.float32), np.array([0.5, -1, 2, 0.3], np.float32)
    cut = end(file, here, here, truncated=True).td_error
    assert cut == end(file, here, there, truncated=True).td_error
    assert cut != end(file, there, here, truncated=True).td_error
    over = end(file, here, here, terminated=True).td_error
    assert over == end(file, there, here, terminated=True).td_error  # nothing follows
    assert over != cut


def test_a_caller_may_reuse_one_array(handed_over):
    """Also where an episode has ended, and its last observation waits for the next one."""

    def learned(see) -> Online:
        online = Online.load(handed_over / "agent.npz")
        for number in range(6):
            ends = {"truncated": True} if number == 3 else {}
            online.observe(see(number), None if number == 4 else 1.0, **ends)
        return online

    buffer = np.zeros(4, np.float32)

    def into_buffer(number):
        buffer[:] = number
        return buffer

    fresh = learned(lambda number: np.full(4, number, np.float32))
    assert same(learned(into_buffer).state, fresh.state)


def test_actions_are_the_callers_own():
    online = Online("stream-ac", (3,), Box(-1.0, 1.0, (2,)), seed=0)
    action = online.observe(np.zeros(3, np.float32))
    action *= 0.5
    action = online.observe(np.ones(3, np.float32), 1.0)
    action *= 0.5


def test_a_refused_first_observation_decides_nothing():
    online = Online("qrc", (3,), 2, seed=0)
    with pytest.raises(ValueError, match=r"shape \(2,\) and dtype int64"):
        online.observe(np.zeros(2, np.int64))
    with pytest.raises(ValueError, match="no observation came before this one"):
        online.observe(np.zeros(3, np.int64), 1.0)
    online.observe(np.full(3, 0.5, np.float32))
    with pytest.raises(ValueError, match=r"shape \(3,\) and dtype complex64"):
        online.observe(np.zeros(3, np.complex64), 1.0)
    online.observe(np.full(3, 0.5, np.float32), 1.0)


def test_traces_end_with_the_episode_in_the_simulator(handed_over):
    """The first observation alone begins another; what traces held has no influence then."""
    first, second = np.full(4, 0.1, np.float32), np.full(4, 0.2, np.float32)

    def learned(scale: float, *alone: np.ndarray) -> Online:
        online = Online.load(handed_over / "agent.npz")
        traces = online.state.traces
        assert all(np.any(leaf) for leaf in jax.tree.leaves(traces.w))
        larger = jax.tree.map(lambda leaf: scale * leaf, (traces.w, traces.theta, traces.h))
        traces = traces._replace(w=larger[0], theta=larger[1], h=larger[2])
        online.state = online.state._replace(traces=traces)
        for observation in alone:
            online.observe(observation)
        online.observe(second, 1.0)
        return online

    assert same(learned(1.0, first).state.w, learned(7.0, first).state.w)
    assert not same(learned(1.0).state.w, learned(7.0).state.w)


def test_exploration_goes_on_from_the_step_reached(handed_over):
    online = Online.from_run(handed_over / "run", 6)
    assert online.steps == online.state.step == 65
    online.observe(np.zeros(4, np.float32))
    online.observe(np.zeros(4, np.float32), 1.0)
    assert online.metrics["epsilon"] == pytest.approx(0.01)  # ε fell over 40 steps
    assert float(online.state.normalizer.observations.samples) > 65


def test_what_a_stream_saved_is_loaded_and_evaluated(handed_over, tmp_path, capsys):
    online = Online.load(handed_over / "agent.npz")
    online.observe(np.zeros(4))
    online.observe(np.ones(4), 1.0, terminated=True)
    file = tmp_path / "agent.npz"
    online.save(file)
    agent = eligrad.load(file)
    assert type(agent) is eligrad.QRC
    assert agent.num_timesteps == 66  # the end was learned from, too
    assert agent.session.plan.settings.exploration_steps == 40
    assert not np.any(agent.session.engine.state.agent.traces.discount)
    agent.learn(20).save(tmp_path / "again.npz")
    assert Online.from_run(tmp_path / "again.npz").steps == 86
    assert evaluate.main([str(file), "--episodes", "2"]) == 0
    assert "QRC(λ) on CartPole-v1" in capsys.readouterr().out


@pytest.mark.parametrize("reward", ["1", np.ones(1), [0.5]])
def test_a_reward_is_one_number(reward, unchecked):
    online = Online("qrc", (3,), 2)
    online.observe(np.zeros(3))
    with pytest.raises(TypeError, match=r"reward is .*; a number is accepted"):
        online.observe(np.zeros(3), reward)


def test_after_a_warm_up_nothing_is_compiled_and_nothing_was_learned(tmp_path):
    def act(agent):
        rng, actions = np.random.default_rng(1), list[object]()
        for t in range(12):
            ended, alone = t % 4 == 3, t % 4 == 0
            reward = None if alone else float(t)
            actions.append(agent.observe(rng.normal(size=3).astype(np.float32), reward, ended))
        return [*actions, agent.interrupt(np.ones(3, np.float32))]

    cold, warm = (Online("qrc", (3,), 2, seed=1, exploration_steps=10) for _ in range(2))
    warm.warm_up(np.zeros(3, np.float32))
    assert (warm.steps, warm.state, warm.metrics, warm.action) == (0, None, {}, None)
    expected, before = act(cold), compile_seconds()
    assert act(warm) == expected
    assert compile_seconds() == before
    assert same(warm.state, cold.state)
    # Also between two episodes, in the middle of one, and of an agent from a file.
    for last in (False, True):
        cold.observe(np.ones(3, np.float32), 1.0, last)
        cold.save(tmp_path / "agent.npz")
        loaded = Online.load(tmp_path / "agent.npz")
        loaded.warm_up(np.zeros(3, np.float32))
        assert (loaded.steps, loaded.between_episodes) == (cold.steps, last)
        assert same(loaded.state, cold.state)
        assert loaded.action == cold.action


def test_by_name_with_settings_saved_and_loaded_without_the_agent(tmp_path):
    joint = Box(np.array([-2.0, -np.inf]), np.array([2.0, np.inf]), (2,))
    online = Online("stream-ac", (3,), joint, seed=4, lam=0.25)
    assert online.agent.config.lam == 0.25
    online.observe(np.zeros(3))
    file = tmp_path / "agent.npz"
    online.save(file)
    again = Online.load(file)
    assert again.agent.config == online.agent.config
    assert again.agent.policy.low == (-2.0, -np.inf)
    assert np.array_equal(again.action, online.action)
    one, other = (each.observe(np.ones(3), 1.0) for each in (online, again))
    assert np.array_equal(one, other)
    with pytest.raises(ValueError, match=r"trained with the actions .* those of 'CartPole-v1'"):
        eligrad.load(file, env="CartPole-v1")


def test_what_a_stream_saved_is_played(tmp_path, capsys):
    online = Online("stream-q", (10, 10, 4), 3)
    online.observe(np.zeros((10, 10, 4), bool))
    file, video = tmp_path / "agent.npz", tmp_path / "a.gif"
    online.save(file)
    assert play.main([str(file)]) == 2
    assert "names no environment" in capsys.readouterr().err
    arguments = ["--env", "MinAtar/Breakout-v1", "--out", str(video), "--max-steps", "2"]
    assert play.main([str(file), *arguments]) == 0
    assert "StreamQ on MinAtar/Breakout-v1, seed 0, after 0 steps" in capsys.readouterr().out
    assert video.stat().st_size


def test_a_stream_in_a_compiled_environment(tmp_path):
    """There and back: the game is begun anew, the step count and random numbers go on."""
    online = Online("stream-q", (SIZE,), ACTIONS, seed=7)
    online.observe(TAPE["observation"][0])
    act_out(online, 0, 5)
    online.save(tmp_path / "agent.npz")
    agent = eligrad.load(tmp_path / "agent.npz", env=Tape(Discrete(ACTIONS)))
    assert agent.num_timesteps == 5
    state = agent.session.engine.state
    assert same(jax.random.key_data(state.agent_key[0]), jax.random.key_data(online.key))
    online.interrupt(TAPES["observation"][0, 0])
    wanted = jax.tree.map(lambda leaf: leaf[None], online.state)
    assert same(state.agent, wanted)
    assert agent.learn(10).num_timesteps == 15


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("qcr", (3,), 2), "unknown agent 'qcr'; did you mean"),
        (("qrc", (3,)), r'actions is None; an agent given by name needs both: Online\("qrc"'),
        (("qrc", (3, -1), 2), r"observation_shape is \(3, -1\)"),
        (("qrc", (3,), 0), "actions is 0; a whole number"),
        (("qrc", (3,), Box(-1.0, 1.0, (1,))), "qrc does not fit 'the stream': .* continuous"),
        (("qrc", (3, 3), 2), "qrc does not fit 'the stream': .*pass network="),
    ],
)
def test_wrong_streams_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Online(*arguments)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lamda": 0.5}, "unknown setting of qrc 'lamda'; did you mean 'lam'"),
        ({"lr": 0.5}, "here that is 'step_size'"),
        (
            {"seeds": 2},
            "unknown setting of qrc 'seeds'; accepted: beta, epsilon_end, .*, trace_cut$",
        ),
        ({"lam": 2.0}, r"lam is 2.0; values in \[0, 1\]"),
        ({"exploration_fraction": 0.1}, "a stream has no total of steps; exploration_steps"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Online("qrc", (3,), 2, **settings)


def test_wrong_agents_and_files_are_refused(handed_over, tmp_path):
    with pytest.raises(TypeError, match=r"agent is a PPO; .* learns from each step .* stream-ac,"):
        Online("ppo", (3,), 2)
    agent = Online("qrc", (3,), 2).agent
    with pytest.raises(ValueError, match="go with an agent's name"):
        Online(agent, lam=0.5)
    with pytest.raises(CheckpointError, match=r"saved by Online; Online\.load continues it"):
        Online.from_run(handed_over / "agent.npz")
    with pytest.raises(CheckpointError, match=r"training run; Online\.from_run continues it"):
        Online.load(handed_over / "run")
    with pytest.raises(ValueError, match=r'seed is 4; "best", or one of \[5, 6\]'):
        Online.from_run(handed_over / "run", 4)
    with pytest.raises(ValueError, match=r"shape \(3,\) .* shape \(4,\) are accepted"):
        Online.load(handed_over / "agent.npz").observe(np.zeros(3))
    online = Online(agent)
    online.observe(np.zeros(3))
    online.save(tmp_path / "own.npz")
    with pytest.raises(ValueError, match=r"is a custom one, made in Python: pass agent= again"):
        Online.load(tmp_path / "own.npz")
    assert Online.load(tmp_path / "own.npz", agent).steps == 0


@pytest.mark.parametrize("agent", ["qrc", "stream-ac"])
def test_numbers_that_would_overflow_the_statistics_are_refused(agent):
    online = Online(agent, (3,), 2, seed=0)
    rng = np.random.default_rng(0)

    def step(reward=0.1, **spike):
        observation = rng.normal(size=3).astype(np.float32)
        for place, value in spike.items():
            observation[int(place[1:])] = value
        return online.observe(observation, reward)

    online.observe(np.zeros(3, np.float32))
    for _ in range(20):
        step()
    for spike in ({"_1": 3.4e38}, {"_1": -1e16}, {"reward": 1e20}, {"reward": 1e39}):
        with pytest.raises(ValueError, match=r"a number from -1e\+15 to 1e\+15 is accepted"):
            step(**spike)
    short = Online(agent, (3,), 2, seed=0)
    with pytest.raises(ValueError, match=r"the observation is inf at \(1,\)"):
        short.observe(np.array([0.0, np.inf, 0.0], np.float16))
    assert online.steps == 20
    for _ in range(150):  # the largest that are accepted, many in a row
        step(1e15, _0=1e15)
    for _ in range(50):
        step()
    assert np.isfinite(online.td_error)


def test_whole_numbers_that_do_not_fit_are_refused():
    online = Online("qrc", (3,), 2, seed=0)
    with pytest.raises(
        ValueError, match=r"is 4611686018427387904 at \(2,\); a number from -2147483648 to"
    ):
        online.observe(np.array([0, 1, 2**62]))
    online.observe(np.array([0, 1, 2**31 - 1]))


def test_spaces_of_gymnasium_are_refused_by_name():
    with pytest.raises(TypeError, match=r"actions is Box\(.*an eligrad.envs.Box or MultiDiscrete"):
        engine._spaces("stream-ac", (3,), gymnasium.spaces.Box(-1, 1, (2,)))
