"""The command line: `eligrad demo`. Heavy imports wait until a command needs them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro


@dataclasses.dataclass(frozen=True)
class Demo:
    """See TD(λ) diverge and gradient TD(λ) not, on three small problems, in under a minute."""

    out: Path = Path("demo.png")
    """Where to write the figure (.png, .pdf or .svg)."""
    seeds: int = 20
    """How many independent learners each line is made of."""

    def run(self) -> None:
        """Runs the demonstration."""
        if self.seeds < 1:
            raise SystemExit(f"eligrad demo: --seeds is {self.seeds}; 1 or more is accepted")
        if not self.out.resolve().parent.is_dir():
            raise SystemExit(f"eligrad demo: --out: there is no folder {self.out.resolve().parent}")
        from eligrad import demo

        demo.main(self.out, self.seeds)


Command = Annotated[Demo, tyro.conf.subcommand(name="demo")]


def main(arguments: list[str] | None = None) -> None:
    """Parses the command line and runs the command."""
    command = tyro.extras.subcommand_cli_from_dict(
        {"demo": Demo}, prog="eligrad", args=arguments, description=__doc__
    )
    command.run()
