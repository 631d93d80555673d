"""From a simulator to a device: trained in one, handed over, and never done with learning.

    python examples/device_stream.py --steps 10000

The device is a thread here: a solar panel on a motor, with a light sensor on each side. It sends
readings and takes commands, as a serial port or a socket would. In the simulator both sensors are
clean. On the device one slowly gets dirty, so that what was learned before can fail: an agent that
never stops learning follows. Halfway the program stops and starts again: the agent is saved,
loaded, and goes on.
"""

import queue
import threading
from pathlib import Path

import gymnasium
import numpy as np
import tyro

import eligrad


def sense(off, dirt, rng):
    """Two light sensors, where the panel looks so many radians past the sun."""
    light = np.exp(-((off - np.array([-0.6, 0.6])) ** 2)) * [1.0, 1.0 - dirt]
    return (light + rng.normal(scale=0.02, size=2)).astype(np.float32)


def turn(off, command, rng):
    """Where the panel looks after a command (0 left, 1 stay, 2 right), and the power won."""
    off += 0.1 * (command - 1) + rng.normal(scale=0.05)  # the sun and the wind move
    off = float(np.clip(off, -1.5, 1.5))
    return off, 1.0 - abs(off) - 0.02 * (command != 1)


class Simulator(gymnasium.Env):
    """The panel with clean sensors; days of 200 readings, cut off and not ended."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.off, self.readings = self.np_random.uniform(-1.0, 1.0), 0
        return sense(self.off, 0.0, self.np_random), {}

    def step(self, action):
        self.off, reward = turn(self.off, action, self.np_random)
        self.readings += 1
        seen = sense(self.off, 0.0, self.np_random)
        return seen, reward, False, self.readings == 200, {}


class SolarPanel(threading.Thread):
    """The device: sends `(sensors, reward)`, waits for a command, and moves."""

    def __init__(self, steps, seed=0):
        super().__init__(daemon=True)
        self.readings, self.commands = queue.Queue(1), queue.Queue(1)
        self.steps, self.rng = steps, np.random.default_rng(seed)

    def run(self):
        off, reward = 1.0, None  # no command led to the first reading
        for t in range(self.steps + 1):
            self.readings.put((sense(off, 0.8 * t / self.steps, self.rng), reward))
            off, reward = turn(off, self.commands.get(), self.rng)


def train(steps, file):
    """Trains in the simulator, and saves the agent for the device."""
    # Any streaming agent will do. StreamQ bounds each of its steps; "qrc" wants a tuned step size.
    agent = eligrad.StreamQ(
        Simulator,
        gamma=0.9,  # what a command leads to is seen within some ten readings
        exploration_fraction=0.5,
        epsilon_end=0.05,  # a world that changes must be explored for ever
    ).learn(steps)
    agent.save(file)
    # Weights, traces, statistics, step count: all that the agent is, but for the simulator. The
    # device needs neither the simulator nor pandas to load it.
    eligrad.Online.from_run(file, env=Simulator).save(file)


def serve(online, device, steps):
    """Answers so many readings; returns the rewards that came with them."""
    rewards = []
    for _ in range(steps):
        sensors, reward = device.readings.get(timeout=60.0)
        # Learns from what the last command led to, and chooses the next. The first reading comes
        # without a reward and begins an episode. That never ends: there is no `terminated` to
        # report, and γ alone bounds how far ahead counts.
        device.commands.put(online.observe(sensors, reward))
        rewards.append(reward or 0.0)
    return rewards


def main(steps: int = 10_000, file: Path = Path("panel.npz"), restart: bool = True) -> list[float]:
    """Trains in the simulator, learns from the stream, and returns all rewards of the device."""
    train(steps, file)
    device = SolarPanel(steps)
    device.start()
    online = eligrad.Online.load(file)
    print(f"the device goes on after {online.steps} updates in the simulator")
    rewards = serve(online, device, steps // 2)
    if restart:
        # The file is written beside its place and renamed: a power cut leaves the old file or the
        # new one.
        online.save(file)
        del online
        online = eligrad.Online.load(file)
        print(f"restarted from {file} after {online.steps} updates")
        # This device waited. If yours went on meanwhile, pass the first reading after the gap
        # without its reward, so that no eligibility trace reaches across the gap.
    rewards += serve(online, device, steps - len(rewards))
    for number, part in enumerate(np.array_split(rewards, 10)):
        print(f"{number * 10:3d} % of the steps: mean reward {part.mean():.3f}")
    return rewards


if __name__ == "__main__":
    tyro.cli(main)
