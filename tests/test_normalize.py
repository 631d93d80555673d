"""Running statistics against float64, NumPy loops and Gymnasium."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.wrappers.utils import RunningMeanStd
from hypothesis import given, settings
from hypothesis import strategies as st

from eligrad.normalize import (
    RunningStats,
    init_reward_scale,
    init_stats,
    normalize,
    scale_reward,
    update,
    update_batch,
    update_reward_scale,
    variance,
)

STEPS = 5_000_000


def hash32(xp, counter):
    """A counter's pseudo-random 32 bits, the same in NumPy and in JAX."""
    x = counter.astype(xp.uint32)
    for multiplier in (0x7FEB352D, 0x846CA68B):
        x = (x ^ (x >> xp.uint32(16))) * xp.uint32(multiplier)
    return x ^ (x >> xp.uint32(15))


def choose(xp, condition, a, b):
    return xp.where(condition, xp.float32(a), xp.float32(b))


# Streams that break careless statistics: functions of the module (NumPy or JAX), the step and a
# uniform number. Their float32 results are the same on every machine: where a multiply-add may be
# contracted, the product is exact.
LATE = 4 * STEPS // 5
KINDS = {
    "uniform": lambda xp, step, u: u,
    "around zero": lambda xp, step, u: u - xp.float32(0.5),
    "mean of 1000 deviations": lambda xp, step, u: u + xp.float32(1000),
    "mean of a million deviations": lambda xp, step, u: u + xp.float32(1e6),
    "negative": lambda xp, step, u: u * xp.float32(8) - xp.float32(500),
    "tiny": lambda xp, step, u: u * xp.float32(2.0**-20),
    "heavy tail": lambda xp, step, u: u * u * u * u * u * u * xp.float32(2.0**20),
    "pixel, 1 in 100": lambda xp, step, u: choose(xp, u < 1e-2, 1, 0),
    "pixel, 1 in 10^4": lambda xp, step, u: choose(xp, u < 1e-4, 1, 0),
    "pixel, 1 in 10^6": lambda xp, step, u: choose(xp, u < 1e-6, 1, 0),
    "one constant, then another": lambda xp, step, u: choose(xp, step > LATE, 5, 1),
    "dead, then alive": lambda xp, step, u: xp.where(step > LATE, u, xp.float32(0)),
    "first sample far off": lambda xp, step, u: xp.where(step == 0, xp.float32(1e6), u),
    "sawtooth": lambda xp, step, u: (step % 100).astype(xp.float32),
    "drift": lambda xp, step, u: step.astype(xp.float32) * xp.float32(2.0**-10),
    "constant without a short form": lambda xp, step, u: choose(xp, step < 0, 0, 0.1),
}
LANES = len(KINDS)


def uniforms(xp, step, lane):
    bits = hash32(xp, step.astype(xp.uint32) * xp.uint32(LANES) + lane.astype(xp.uint32))
    return (bits >> xp.uint32(8)).astype(xp.float32) * xp.float32(2.0**-24)


def lane_data(kind):
    """The whole stream of one kind, as float64."""
    step = np.arange(STEPS, dtype=np.int32)
    lane = np.full_like(step, list(KINDS).index(kind))
    return KINDS[kind](np, step, uniforms(np, step, lane)).astype(np.float64)


def hard_sample(step):
    """One sample of every kind."""
    lanes = jnp.arange(LANES, dtype=jnp.int32)
    steps = jnp.broadcast_to(step, (LANES,))
    uniform = uniforms(jnp, steps, lanes)
    sample = uniform
    for lane, kind in enumerate(KINDS.values()):
        sample = jnp.where(lanes == lane, kind(jnp, steps, uniform), sample)
    return sample


def plain_update(stats, sample):
    """The textbook recursion, without compensation: the control of the experiment."""
    count, mean, squares = stats
    count = count + 1
    deviation = sample - mean
    mean = mean + deviation / count.astype(jnp.float32)
    return count, mean, squares + deviation * (sample - mean)


@pytest.fixture(scope="module")
def after_five_million_steps():
    zeros = jnp.zeros(LANES)

    @jax.jit
    def run():
        def body(carry, step):
            ours, plain = carry
            sample = hard_sample(step)
            return (update(ours, sample), plain_update(plain, sample)), None

        start = init_stats((LANES,)), (jnp.zeros((), jnp.int32), zeros, zeros)
        return jax.lax.scan(body, start, jnp.arange(STEPS, dtype=jnp.int32), unroll=4)[0]

    return run()


@pytest.mark.parametrize("kind", KINDS)
def test_float32_statistics_stay_exact_over_five_million_steps(after_five_million_steps, kind):
    stats, _ = after_five_million_steps
    lane, data = list(KINDS).index(kind), lane_data(kind)
    mean = float(stats.mean[lane]) + float(stats.mean_rest[lane])
    np.testing.assert_allclose(mean, data.mean(), rtol=1e-6)
    np.testing.assert_allclose(variance(stats)[lane], data.var(ddof=1), rtol=1e-6, atol=1e-15)
    assert stats.samples == STEPS


def test_plain_float32_statistics_do_not(after_five_million_steps):
    """The control: the same streams ruin the textbook recursion, so the test above can fail."""
    _, (_, mean, squares) = after_five_million_steps
    kind = "pixel, 1 in 100"
    lane, data = list(KINDS).index(kind), lane_data(kind)
    assert abs(mean[lane] / data.mean() - 1) > 1e-3
    assert abs(squares[lane] / (STEPS - 1) / data.var(ddof=1) - 1) > 1e-3


def test_batches_stay_exact_over_five_million_samples():
    batch = 5_000

    @jax.jit
    def run():
        def body(stats, start):
            steps = start * batch + jnp.arange(batch, dtype=jnp.int32)
            return update_batch(stats, jax.vmap(hard_sample)(steps)), None

        starts = jnp.arange(STEPS // batch, dtype=jnp.int32)
        return jax.lax.scan(body, init_stats((LANES,)), starts)[0]

    stats = run()
    for lane, kind in enumerate(KINDS):
        data = lane_data(kind)
        mean = float(stats.mean[lane]) + float(stats.mean_rest[lane])
        np.testing.assert_allclose(mean, data.mean(), rtol=1e-5, err_msg=kind)
        np.testing.assert_allclose(
            variance(stats)[lane], data.var(ddof=1), rtol=1e-5, atol=1e-15, err_msg=kind
        )
    assert stats.samples == STEPS


def test_counts_beyond_the_exact_float32_integers():
    """From 2^24 on, float32 cannot count; from 2^31 on, int32 cannot."""
    stats = init_stats(())._replace(samples=jnp.int32(2**24))
    for _ in range(3):
        stats = update(stats, jnp.float32(1.0))
    assert stats.samples == 2**24 + 3
    np.testing.assert_allclose(stats.mean, 3 / (2**24 + 3), rtol=1e-6)

    full = init_stats(())._replace(samples=jnp.int32(2**31 - 2))
    for _ in range(3):
        full = update(full, jnp.float32(1.0))
        full = update_batch(full, jnp.ones(7))
    assert full.samples == 2**31 - 1
    assert 0 < full.mean < 1e-7


class Streaming:
    """The streaming normaliser of Elsayed et al. as an independent float64 loop."""

    def __init__(self, shape):
        self.n, self.mean, self.p = 0, np.zeros(shape), np.zeros(shape)

    def update(self, x):
        x = np.asarray(x, np.float64)
        self.n += 1
        new_mean = self.mean + (x - self.mean) / self.n
        self.p = self.p + (x - self.mean) * (x - new_mean)
        self.mean = new_mean

    def var(self):
        return np.ones_like(self.p) if self.n < 2 else self.p / (self.n - 1)

    def __call__(self, x):
        self.update(x)
        return (np.asarray(x, np.float64) - self.mean) / np.sqrt(self.var() + 1e-8)


def test_streaming_observations_match_an_independent_loop():
    data = np.random.default_rng(0).normal([0.0, 1e3, -5.0], [1.0, 0.1, 20.0], (200, 3))
    data = data.astype(np.float32)

    def body(stats, x):
        stats = update(stats, x)
        return stats, normalize(stats, x)

    _, ours = jax.jit(lambda xs: jax.lax.scan(body, init_stats((3,)), xs))(jnp.asarray(data))
    reference = Streaming((3,))
    theirs = np.stack([reference(x) for x in data])
    # A float32 sample of mean 1000 and deviation 0.1 is itself good to 1e-4 deviations only.
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_the_first_observation_is_centred_on_itself_and_the_second_has_unit_scale():
    stats = update(init_stats((1,)), jnp.float32([3.0]))
    assert variance(stats)[0] == 1.0
    np.testing.assert_array_equal(normalize(stats, jnp.float32([5.0])), [2.0])
    stats = update(stats, jnp.float32([5.0]))
    np.testing.assert_allclose(variance(stats), [2.0], rtol=1e-6)
    np.testing.assert_allclose(normalize(stats, jnp.float32([5.0])), [1 / np.sqrt(2)], rtol=1e-6)


def test_statistics_of_nothing_leave_values_alone():
    value = jnp.float32([1.5, -2.0])
    np.testing.assert_array_equal(normalize(init_stats((2,)), value), value)
    assert scale_reward(init_reward_scale(), jnp.float32(3.0)) == 3.0


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int32])
def test_observations_of_any_number_type(dtype):
    frames = np.random.default_rng(1).integers(0, 2, (50, 4, 4, 2)).astype(dtype)
    stats, reference = init_stats((4, 4, 2)), Streaming((4, 4, 2))
    for frame in frames:
        stats, theirs = update(stats, jnp.asarray(frame)), reference(frame)
    ours = normalize(stats, jnp.asarray(frames[-1]))
    assert ours.dtype == jnp.float32
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_clipping_is_an_option():
    stats = update_batch(init_stats((1,)), jnp.float32([[0.0], [1.0]] * 500))
    far = jnp.float32([1e3])
    assert normalize(stats, far)[0] > 1000
    assert normalize(stats, far, clip=10.0)[0] == 10.0
    assert normalize(stats, -far, clip=10.0)[0] == -10.0
    with pytest.raises(ValueError, match=r"clip is -1.*positive number or None"):
        normalize(stats, far, clip=-1.0)


@settings(max_examples=25)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(0, 2**32 - 1))
def test_batches_of_any_sizes_are_one_big_sample(sizes, seed):
    rng = np.random.default_rng(seed)
    offset, scale = rng.normal(0, 100), 10.0 ** rng.uniform(-1, 2)
    batches = [rng.normal(offset, scale, (size, 2)).astype(np.float32) for size in sizes]
    stats = init_stats((2,))
    for batch in batches:
        stats = update_batch(stats, jnp.asarray(batch))
    everything = np.concatenate(batches).astype(np.float64)
    assert stats.samples == len(everything)
    np.testing.assert_allclose(stats.mean, everything.mean(0), rtol=1e-5, atol=1e-6 * scale)
    if len(everything) > 1:
        np.testing.assert_allclose(variance(stats), everything.var(0, ddof=1), rtol=1e-5)


def test_a_batch_of_one_is_a_single_update():
    stats = update(update(init_stats((2,)), jnp.float32([1.0, 2.0])), jnp.float32([4.0, 0.0]))
    sample = jnp.float32([7.0, -3.0])
    for a, b in zip(update(stats, sample), update_batch(stats, sample[None]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_batched_statistics_match_gymnasium():
    theirs = RunningMeanStd(epsilon=0.0, shape=(3,))
    ours = init_stats((3,))
    rng = np.random.default_rng(2)
    for _ in range(100):
        batch = rng.normal([0.0, 50.0, -3.0], [1.0, 4.0, 0.1], (8, 3)).astype(np.float32)
        theirs.update(batch.astype(np.float64))
        ours = update_batch(ours, jnp.asarray(batch))
    n = theirs.count
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-6)
    np.testing.assert_allclose(variance(ours), theirs.var * n / (n - 1), rtol=1e-6)
    batch_normalised = normalize(ours, jnp.asarray(batch))
    expected = (batch - theirs.mean) / np.sqrt(theirs.var * n / (n - 1) + 1e-8)
    np.testing.assert_allclose(batch_normalised, expected, rtol=1e-4, atol=1e-5)


def episodes(rng, length=300):
    """Rewards and ends of a stream of episodes."""
    return rng.normal(0.3, 1.0, length).astype(np.float32), rng.uniform(size=length) < 0.1


def test_rewards_match_an_independent_loop():
    rewards, dones = episodes(np.random.default_rng(3))
    gamma = 0.99

    def body(scale, step):
        reward, done = step
        scale = update_reward_scale(scale, reward, done, gamma)
        return scale, scale_reward(scale, reward)

    data = jnp.asarray(rewards), jnp.asarray(dones)
    _, ours = jax.jit(lambda data: jax.lax.scan(body, init_reward_scale(), data))(data)

    reference, trace, theirs = Streaming(()), 0.0, []
    for reward, done in zip(rewards.astype(np.float64), dones, strict=True):
        trace = gamma * trace * (1 - done) + reward
        reference.update(trace)
        theirs.append(reward / np.sqrt(reference.var() + 1e-8))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_rewards_match_gymnasiums_wrapper():
    """The same up to its population variance and its pseudo-count of 1e-4."""
    rewards, dones = episodes(np.random.default_rng(4), 2000)

    class Replay(gym.Env):
        observation_space = gym.spaces.Discrete(1)
        action_space = gym.spaces.Discrete(1)
        step_count = 0

        def step(self, action):
            i = self.step_count
            self.step_count += 1
            return 0, float(rewards[i]), bool(dones[i]), False, {}

    wrapped = gym.wrappers.NormalizeReward(Replay(), gamma=0.9)
    scale = init_reward_scale()
    step = jax.jit(update_reward_scale)
    for i, (reward, done) in enumerate(zip(rewards, dones, strict=True)):
        scale = step(scale, jnp.asarray(reward), jnp.asarray(done), 0.9)
        theirs = wrapped.step(0)[1]
        if i > 100:
            ours = scale_reward(scale, jnp.asarray(reward))
            np.testing.assert_allclose(ours * np.sqrt((i + 1) / i), theirs, rtol=1e-5)


def test_reward_traces_of_many_environments_share_one_scale():
    rng = np.random.default_rng(5)
    streams = [episodes(rng, 40) for _ in range(6)]
    rewards, dones = (np.stack(column, 1) for column in zip(*streams, strict=True))
    scale, traces, seen = init_reward_scale((6,)), np.zeros(6), []
    for reward, done in zip(rewards, dones, strict=True):
        scale = update_reward_scale(scale, jnp.asarray(reward), jnp.asarray(done), 0.95)
        traces = 0.95 * traces * (1 - done) + reward.astype(np.float64)
        seen.append(traces)
    np.testing.assert_allclose(scale.trace, traces, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(variance(scale.stats), np.var(seen, ddof=1), rtol=1e-5)
    scaled = scale_reward(scale, jnp.asarray(rewards[-1]))
    np.testing.assert_allclose(scaled, rewards[-1] / np.std(seen, ddof=1), rtol=1e-5)


def test_rewards_keep_their_sign():
    scale = init_reward_scale()
    for _ in range(50):
        scale = update_reward_scale(scale, jnp.float32(1.0), jnp.asarray(False), 0.9)
    assert scale_reward(scale, jnp.float32(0.0)) == 0.0
    assert scale_reward(scale, jnp.float32(-2.0)) < 0.0


def test_a_vmap_over_runs_is_each_run_alone():
    data = jnp.asarray(np.random.default_rng(6).normal(5.0, 2.0, (3, 100, 4)), jnp.float32)

    def run(xs):
        def body(stats, x):
            stats = update(stats, x)
            return stats, normalize(stats, x)

        return jax.lax.scan(body, init_stats((4,)), xs)

    together = jax.jit(jax.vmap(run))(data)
    for i in range(3):
        alone = jax.jit(run)(data[i])
        for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_array_equal(a[i], b)


def test_gamma_may_be_a_vmapped_hyper_parameter():
    def trace(gamma):
        scale = init_reward_scale()._replace(trace=jnp.float32(2.0))
        return update_reward_scale(scale, jnp.float32(1.0), jnp.asarray(False), gamma).trace

    np.testing.assert_allclose(jax.vmap(trace)(jnp.float32([0.0, 0.5])), [1.0, 2.0])


def test_the_state_is_a_pytree_of_arrays():
    stats = init_stats((2, 3))
    assert isinstance(stats, RunningStats)
    assert [leaf.shape for leaf in jax.tree.leaves(stats)] == [()] + [(2, 3)] * 4
    carried = jax.tree.map(lambda leaf: leaf.dtype, update(stats, jnp.ones((2, 3))))
    assert carried == jax.tree.map(lambda leaf: leaf.dtype, stats)


def test_a_sample_of_another_shape_is_refused():
    with pytest.raises((TypeError, ValueError)):
        update(init_stats((3,)), jnp.ones(4))
