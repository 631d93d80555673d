"""A seed's run is the same run: alone or among many, in one chunk or ten, resumed, on 8 devices.

On a CPU all of this is bit for bit. Under `vmap`, which accelerators use, XLA adds up in another
order (2e-7 apart), and equality is to 1e-5.
"""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.agents import PRESETS, QLambda, default_network
from eligrad.engines import Runs, stream
from eligrad.engines.host import HostRuns
from eligrad.engines.sharding import share_out
from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment
from eligrad.runs.checkpoint import load
from eligrad.runs.plan import env_seeds
from eligrad.training import resume, train
from tests.engines import tiny

SEEDS, STEPS = list(range(32)), 300


def runs(seeds) -> Runs:
    return Runs(tiny.agent(), tiny.ENV, (), np.asarray(seeds), env_seeds(seeds))


@pytest.fixture(scope="module")
def together():
    """All seeds in one chunk: records, and the state that they end in."""
    engine = runs(SEEDS)
    records = jax.tree.map(np.asarray, engine.advance(STEPS))
    assert len(np.unique(records.metrics["td_error"][:, -1])) > 25  # they are different runs
    assert records.ended.any(axis=1).all()
    return records, engine.state


def assert_same(ours, theirs):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_alone(together):
    records, state = together
    engine = runs([17])
    alone = engine.advance(STEPS)
    assert_same(alone, jax.tree.map(lambda leaf: leaf[17:18], records))
    assert_same(engine.state, jax.tree.map(lambda leaf: leaf[17:18], state))


@pytest.mark.parametrize("agent", ["stream-q", "gradient-ac"])
def test_alone_in_gymnasium(agent):
    """Also with ObGD, whose last bits once depended on how many runs there were."""
    one, two = (train(agent, "CartPole-v1", steps=100, seeds=n, processes=1) for n in (1, 2))
    assert_same(one.state.agent, jax.tree.map(lambda leaf: leaf[:1], two.state.agent))


@pytest.mark.nightly
def test_ten_chunks(together):
    records, state = together
    engine = runs(SEEDS)
    chunks = [engine.advance(STEPS // 10) for _ in range(10)]
    assert_same(jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *chunks), records)
    assert_same(engine.state, state)


@pytest.mark.nightly
def test_under_vmap(together):
    """What an accelerator does with its share of the runs: all at once, two steps in a round."""
    agent, odd = tiny.agent(), 7  # so that a step is left over

    @jax.jit
    @jax.vmap
    def all_at_once(agent_seed, env_seed):
        state = stream.begin(agent, tiny.ENV, (), agent_seed, env_seed)
        state, first = stream.advance(agent, tiny.ENV, (), state, odd, unroll=2)
        _, rest = stream.advance(agent, tiny.ENV, (), state, STEPS - odd, unroll=2)
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), first, rest)

    batched = all_at_once(jnp.asarray(SEEDS), jnp.asarray(env_seeds(SEEDS), jnp.int32))
    records, _ = together
    np.testing.assert_array_equal(batched.ended, records.ended)
    np.testing.assert_allclose(batched.episode_return, records.episode_return, atol=1e-5)
    errors = (each.metrics["td_error"] for each in (batched, records))
    np.testing.assert_allclose(*errors, atol=1e-5, rtol=1e-5)


def on_eight_devices(program: str, out) -> None:
    """Runs a program, with `out` as its argument, in a process that sees eight devices."""
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    environment = {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", program, out], env=os.environ | environment, check=True)


def test_eight_devices(together, tmp_path):
    """The same seeds shared out over eight devices, in a process of their own."""
    program = (
        "import sys, numpy as np, jax\n"
        "from tests.engines import test_same_curve as here\n"
        "engine = here.runs(here.SEEDS)\n"
        "records = engine.advance(here.STEPS)\n"
        "assert len(records.ended.sharding.device_set) == 8 == jax.device_count()\n"
        "np.savez(sys.argv[1], *jax.tree.leaves(records))\n"
    )
    on_eight_devices(program, tmp_path / "records.npz")
    there = np.load(tmp_path / "records.npz")
    assert_same(list(there.values()), together[0])


@pytest.mark.nightly
def test_a_number_of_runs_that_does_not_come_out_even(together, tmp_path):
    """Thirteen runs on seven devices, one of them twice: nothing is seen of that."""
    program = (
        "import sys, pathlib, jax, numpy as np\n"
        "from tests.engines import test_same_curve as here\n"
        "from eligrad.runs.checkpoint import save\n"
        "engine, half = here.runs(here.SEEDS[:13]), here.STEPS // 2\n"
        "first = engine.advance(half)\n"
        "assert len(engine._state.step.sharding.device_set) == 7\n"
        "engine.state = engine.state\n"
        "second = engine.advance(half)\n"
        "assert len(engine._state.step.sharding.device_set) == 7\n"
        "assert len(engine.fault_step) == 13 == len(second.ended)\n"
        "records = jax.tree.map(lambda *each: np.concatenate(each, 1), first, second)\n"
        "save(pathlib.Path(sys.argv[1]), (records, engine.state), {})\n"
    )
    on_eight_devices(program, tmp_path / "runs.npz")
    thirteen = jax.tree.map(lambda leaf: leaf[:13], together)
    there, _ = load(tmp_path / "runs.npz", thirteen)
    assert_same(there, thirteen)


@pytest.mark.nightly
def test_rollouts_that_do_not_come_out_even(tmp_path):
    """Nine agents on five devices, one of them twice, and the first eight on a device each.

    Both where there are eight: with another number of devices XLA adds up in another order.
    """
    program = (
        "import jax\n"
        "from tests.engines import test_rollout as rollout\n"
        "nine, eight = (rollout.play('ppo', rollout.tiny.Drift(), range(count), num_envs=4)\n"
        "               for count in (9, 8))\n"
        "assert len(nine[1].step) == 9\n"
        "rollout.assert_same(jax.tree.map(lambda leaf: leaf[:8], nine), eight)\n"
    )
    on_eight_devices(program, tmp_path)


@pytest.mark.parametrize(
    ("runs", "devices", "used", "each"),
    [
        (67, 64, 34, 2),
        (65, 64, 33, 2),
        (1000, 64, 63, 16),
        (7, 2, 2, 4),
        (12, 8, 6, 2),
        (1, 8, 1, 1),
    ],
)
def test_shares_are_the_smallest_that_hold_all_runs(runs, devices, used, each):
    assert share_out(runs, devices) == (used, each)


@pytest.mark.usefixtures("quickest_programs")
@pytest.mark.parametrize("name", tiny.AGENTS)
def test_resumed_in_the_middle(tmp_path, name):
    """Also from the middle of a stretch between two checkpoints, and to a new total."""
    agent = tiny.AGENTS[name]()
    options = {"seeds": [3, 4], "chunk": 50, "checkpoint_every": 100}
    straight = train(agent, tiny.ENV, steps=400, out=tmp_path / "straight", **options)
    train(agent, tiny.ENV, steps=150, out=tmp_path / "parts", **options)
    resumed = resume(tmp_path / "parts", steps=400, agent=agent, env=tiny.ENV)
    assert_same(resumed.state, straight.state)
    assert resumed.episodes.equals(straight.episodes)
    assert tiny.timeless(resumed.chunks).equals(tiny.timeless(straight.chunks))
    # And what lies on the disk is what was returned.
    state, header = load(tmp_path / "parts/checkpoint-000000000400.npz", resumed.state)
    assert header["step"] == 400
    assert_same(state, straight.state)


@pytest.mark.usefixtures("quickest_programs")
def test_metrics_of_lost_steps_are_written_again(tmp_path):
    """A run that died after writing metrics and before its checkpoint."""
    options = {"seeds": 2, "chunk": 50, "checkpoint_every": 100}
    straight = train(tiny.agent(), tiny.ENV, steps=300, out=tmp_path / "run", **options)
    (tmp_path / "run/checkpoint-000000000300.npz").unlink()
    again = resume(tmp_path / "run", agent=tiny.agent(), env=tiny.ENV)
    assert again.episodes.equals(straight.episodes)
    assert_same(again.state, straight.state)


@pytest.mark.nightly
def test_host_environments_go_on_in_a_new_episode(tmp_path):
    """If their simulators do not tell their state; all the rest is saved, on eight devices too."""
    program = (
        "import sys\n"
        "from tests.envs.tiny import Opaque\n"
        "from tests.engines import tiny\n"
        "from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment\n"
        "from eligrad.training import resume, train\n"
        "agent, env = tiny.agent(observations=3), GymnasiumEnvironment(Opaque)\n"
        "train(agent, env, steps=21, seeds=8, out=sys.argv[1])\n"
        "result = resume(sys.argv[1], steps=42, agent=agent, env=env)\n"
        "assert (result.state.step == 42).all()\n"
        "first = result.episodes.to_pandas().query('seed == 0')\n"
        # Episodes of 2 and 3 steps in turn: the one begun at step 20 is never finished.
        "until_21, until_42 = [2, 5, 7, 10, 12, 15, 17, 20], [23, 26, 28, 31, 33, 36, 38, 41]\n"
        "assert list(first['step']) == until_21 + until_42\n"
    )
    on_eight_devices(program, tmp_path / "run")


@pytest.mark.nightly
def test_host_runs_have_the_same_bits_alone_and_among_others():
    agent = QLambda(PRESETS["qrc"], default_network((4,), 2))
    env = GymnasiumEnvironment("CartPole-v1")
    records = []
    for seeds in (np.array([3, 4, 5]), np.array([4])):
        host = HostRuns(agent, env, seeds, seeds)
        records.append(host.advance(150))
        host.close()
    together, alone = records
    np.testing.assert_array_equal(together.metrics["td_error"][1], alone.metrics["td_error"][0])
