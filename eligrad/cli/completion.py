"""`eligrad completion`: a script with which a shell completes commands, agents and environments."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

import tyro

_SCRIPT = r"""
_eligrad() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" command="${{COMP_WORDS[1]}}"
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
    elif [ "$command" = train ] && [ "$COMP_CWORD" -eq 2 ]; then
        COMPREPLY=($(compgen -W "{agents} --resume --config" -- "$word"))
    elif [ "$command" = train ] && [ "$COMP_CWORD" -eq 3 ]; then
        COMPREPLY=($(compgen -W "{envs}" -- "$word") $(compgen -f -- "$word"))
    elif [ "$command" = train ] && [ "${{word:0:2}}" = -- ]; then
        COMPREPLY=($(compgen -W "{options}" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}}
complete -o filenames -F _eligrad eligrad
"""
_ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit"


@dataclasses.dataclass(frozen=True)
class Completion:
    """Print a script that lets a shell complete commands, agents, environments and options.

    For bash: eval "$(eligrad completion bash)", in ~/.bashrc to keep it; for zsh likewise.
    """

    shell: Annotated[Literal["bash", "zsh"], tyro.conf.Positional]
    """The shell."""


def main(arguments: list[str]) -> int:
    """Prints the script for the shell that the arguments name; returns the exit code."""
    shell = tyro.cli(Completion, prog="eligrad completion", args=arguments).shell
    from eligrad.agents import AGENTS
    from eligrad.cli import COMMANDS
    from eligrad.cli.train import option_names
    from eligrad.envs import list_envs

    script = _SCRIPT.format(
        commands=" ".join(COMMANDS),
        agents=" ".join(AGENTS),
        envs=" ".join(list_envs()),
        options=" ".join(option_names()),
    )
    print((_ZSH if shell == "zsh" else "") + script)
    return 0
