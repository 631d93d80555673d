"""The agents by the names the field knows them by, with the paper's settings."""

from __future__ import annotations

import dataclasses
from typing import Any

from eligrad.agents.gradient_ppo import GradientPPOConfig
from eligrad.agents.ppo import PPOConfig
from eligrad.agents.q_lambda import QLambdaConfig

_QRC = QLambdaConfig(rule="tdrc", beta=1.0)
_Q_LAMBDA = dataclasses.replace(_QRC, rule="td", beta=0.0, sparsity=0.0)

PRESETS: dict[str, Any] = {
    "qrc": _QRC,
    "qc": dataclasses.replace(_QRC, rule="tdc", beta=0.0),
    "gq2": dataclasses.replace(_QRC, rule="gtd2", beta=0.0),
    "q-lambda": _Q_LAMBDA,
    "sarsa-lambda": dataclasses.replace(_QRC, target="sarsa"),
    "expected-sarsa-lambda": dataclasses.replace(_QRC, target="expected"),
    "stream-q": dataclasses.replace(_QRC, rule="td", beta=0.0, optimizer="obgd", step_size=1.0),
    "ppo": PPOConfig(),
    "gradient-ppo": GradientPPOConfig(),
}
"""QRC(λ), QC(λ), GQ2(λ), Watkins' Q(λ), gradient SARSA(λ) twice (set rule="td" for the
semi-gradient), and StreamQ; PPO, and Gradient PPO with TDRC(λ). The first seven are
of type `QLambdaConfig`, the others `PPOConfig` and `GradientPPOConfig`."""

TITLES = {
    "qrc": "QRC(λ)",
    "qc": "QC(λ)",
    "gq2": "GQ2(λ)",
    "q-lambda": "Q(λ)",
    "sarsa-lambda": "Gradient SARSA(λ)",
    "expected-sarsa-lambda": "Gradient Expected SARSA(λ)",
    "stream-q": "StreamQ",
    "ppo": "PPO",
    "gradient-ppo": "Gradient PPO",
}
"""The same names as a figure prints them."""
