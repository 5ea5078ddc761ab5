"""`tpu-port environments list|remove`: what validate has made for sources of older releases."""

from __future__ import annotations

import click


@click.group("environments", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Show or clear the environments that validate made for older releases."""


@command.command("list")
def list_command() -> int:
    """Each environment, what it holds, its size and when it was last used."""
    from ..validate.environments.make import made_of
    from ..validate.environments.store import ago, kept, store

    found = kept()
    if not found:
        click.echo(f"no environments in {store()}")
        return 0
    for each in found:
        click.echo(f"{each.name}  {each.size() / 1e6:.0f} MB  used {ago(each.used)}")
        click.echo(f"    {made_of(each)}")
    click.echo(f"{len(found)} in {store()}")
    return 0


@command.command("remove")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("--all", "everything", is_flag=True, help="Remove every environment.")
def remove_command(names: tuple[str, ...], everything: bool) -> int:
    """Delete environments by NAME (a part of it is enough where only one has it), or --all."""
    from ..errors import InputError
    from ..validate.environments.store import kept, remove, store

    found = kept()
    if not names and not everything:
        raise click.UsageError("name an environment, or --all")
    chosen = found if everything else []
    for name in names:
        fitting = [each for each in found if name in each.name]
        exact = [each for each in fitting if each.name == name]
        if len(exact or fitting) != 1:
            what = "no environment" if not fitting else f"{len(fitting)} environments"
            raise InputError(f"{what} of the name {name!r} in {store()}", fix="see tpu-port environments list")
        chosen += exact or fitting
    freed = 0
    for each in dict.fromkeys(each.folder for each in chosen):
        from ..validate.environments.store import look

        freed += remove(look(each))
        click.echo(f"removed {each.name}")
    click.echo(f"{freed / 1e6:.0f} MB freed")
    return 0
