"""A stream from a device: no environment, one update for each reading, saved and resumed.

    python examples/device_stream.py --steps 10000

The device is a thread here: a solar panel on a motor, with a light sensor on each side. It sends
readings and takes commands, as a serial port or a socket would. One sensor slowly gets dirty, so
that what was learned in the beginning can fail later: an agent that never stops learning follows.
Halfway the program stops and starts again: the agent is saved, loaded, and goes on.
"""

import queue
import threading
from pathlib import Path

import numpy as np
import tyro

from eligrad import Online
from eligrad.agents import QLambda, default_network, make_settings


class SolarPanel(threading.Thread):
    """Sends `(sensors, reward)`, waits for a command (0 left, 1 stay, 2 right), and moves."""

    def __init__(self, steps, seed=0):
        super().__init__(daemon=True)
        self.readings, self.commands = queue.Queue(1), queue.Queue(1)
        self.steps, self.rng = steps, np.random.default_rng(seed)

    def run(self):
        off, reward = 1.0, 0.0  # how far the panel looks past the sun, in radians
        for t in range(self.steps + 1):
            dirt = 0.8 * t / self.steps
            light = np.exp(-((off - np.array([-0.6, 0.6])) ** 2)) * [1.0, 1.0 - dirt]
            sensors = light + self.rng.normal(scale=0.02, size=2)
            self.readings.put((sensors.astype(np.float32), reward))
            command = self.commands.get()
            off += 0.1 * (command - 1) + self.rng.normal(scale=0.05)  # the sun and the wind move
            off = float(np.clip(off, -1.5, 1.5))
            reward = 1.0 - abs(off) - 0.02 * (command != 1)  # power won, less the motor's


def make_agent(steps):
    changes = {
        "gamma": 0.9,  # what a command leads to is seen within some ten readings
        "exploration_steps": steps // 10,
        "epsilon_end": 0.05,  # a world that changes must be explored for ever
    }
    # Any streaming agent will do. StreamQ bounds each of its steps; "qrc" wants a tuned step size.
    settings = make_settings("stream-q", changes)
    return QLambda(settings, default_network((2,), 3))  # two sensors, three commands


def serve(online, device, steps):
    """Answers so many readings; returns the rewards that came with them."""
    rewards = []
    for _ in range(steps):
        sensors, reward = device.readings.get(timeout=60.0)
        # Learns from what the last command led to, and chooses the next. The task never ends:
        # there is no `terminated` to report, and γ alone bounds how far ahead counts.
        device.commands.put(online.observe(sensors, reward))
        rewards.append(reward)
    return rewards


def main(steps: int = 10_000, file: Path = Path("panel.npz"), restart: bool = True) -> list[float]:
    """Learns from the stream, and returns all rewards."""
    agent, device = make_agent(steps), SolarPanel(steps)
    device.start()
    online = Online(agent, seed=0)
    rewards = serve(online, device, steps // 2)
    if restart:
        # One file holds all that the agent is: networks, traces, statistics, random numbers. It is
        # written beside its place and renamed: a power cut leaves the old file or the new one.
        online.save(file)
        del online
        online = Online.load(file, agent)
        print(f"restarted from {file} after {online.steps} updates")
        # This device waited. If yours went on meanwhile, call `online.interrupt(sensors)` for the
        # first reading after the gap, so that no eligibility trace reaches across it.
    rewards += serve(online, device, steps - len(rewards))
    for number, part in enumerate(np.array_split(rewards, 10)):
        print(f"{number * 10:3d} % of the steps: mean reward {part.mean():.3f}")
    return rewards


if __name__ == "__main__":
    tyro.cli(main)
