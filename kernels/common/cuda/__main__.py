"""`python -m kernels.common.cuda`: compile the CUDA kernels and say what they use."""

from __future__ import annotations

import click

from harness.errors import HarnessError
from kernels.common.cuda.build import ARCHITECTURES, build


@click.command()
@click.option("--arch", "architectures", multiple=True, help="80, 90a, 100a; all of them by default.")
def main(architectures: tuple[str, ...]) -> None:
    """Compile every encoding's CUDA kernels; prints the library's path and the registers of each kernel."""
    try:
        library = build(architectures or ARCHITECTURES)
    except HarnessError as error:
        raise click.ClickException(str(error)) from None
    click.echo(library.path)
    for usage in library.usage:
        click.echo(
            f"sm_{usage.architecture} {usage.registers:4} registers {usage.spill_bytes:4} spilled  {usage.kernel}"
        )


if __name__ == "__main__":
    main()
