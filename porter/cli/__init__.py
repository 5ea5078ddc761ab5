"""The command line: one file a command; each parses its arguments, calls, prints and returns its exit code.

Exit codes: 0 nothing left to do, 1 something needs a person or isn't supported, 2 bad input or usage, 3 validation or
comparison says no, 130 interrupted, 143 terminated.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from typing import NoReturn

from ..own_imports import leave_out_current_folder

# Before anything that isn't Python's own is imported.
leave_out_current_folder()

# The tool joins no other processes, on a host of a TPU slice either; `validate --hosts` starts ports that do.
os.environ.setdefault("TPU_PORT_ALONE", "1")

import click

from .. import __version__
from ..errors import InputError
from .say import say

BAD_INPUT = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells say it
TERMINATED = 143  # 128 + SIGTERM
RARELY = (300_000, 50, 50)  # when garbage is looked for: a run is short, and a syntax tree has many nodes that stay
PIPE_CLOSED = 141  # 128 + SIGPIPE: whoever read our output has gone

COMMANDS = ("port", "validate", "compare", "plan", "compile", "export", "rules", "environments", "doctor")


class FrontDoor(click.Group):
    """A group whose default command is `port`: `tpu-port FILE` and `tpu-port port FILE` are the same."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"{__name__}.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ours = [*COMMANDS, *ctx.help_option_names, "--version"]
        if args and args[0] not in ours:
            args = ["port", *args]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "[OPTIONS] SOURCE")
        formatter.write_usage(ctx.command_path, f"{'|'.join(COMMANDS[1:])} ...", prefix="       ")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        port = self.get_command(ctx, "port")
        assert port is not None
        port.format_options(ctx, formatter)
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.get_command(ctx, name).get_short_help_str(90)) for name in COMMANDS]  # type: ignore[union-attr]
            )


@click.group(
    cls=FrontDoor,
    no_args_is_help=True,
    epilog="Exit codes: 0 nothing left to do; 1 something needs a person or isn't supported; 2 bad input or usage; "
    "3 validation or comparison says no.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="tpu-port")
def front_door() -> None:
    """Port a GPU fine-tuning script (TRL, PEFT, transformers) to TPU (Tunix, Qwix, Optax) and show the change.

    Without -o nothing is written: the diff and the fate of every keyword are shown. SOURCE is never run.
    """


def main(args: list[str] | None = None) -> None:
    """The `tpu-port` script: runs the command and exits with its code; terminated, it ends what it started."""
    gc.set_threshold(*RARELY)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        sys.exit(run(sys.argv[1:] if args is None else args))
    finally:
        if (toml := sys.modules.get("porter.runtime.facts.toml_memory")) is not None:
            toml.remember()
        gc.freeze()  # or the interpreter looks through every syntax tree once more before it ends


def run(args: list[str]) -> int:
    """Run one command line and return its exit code; errors are one line on stderr (and an object with --json)."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # an ASCII terminal must not break a report
    try:
        code = front_door.main(args, prog_name="tpu-port", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        say(error.format_message(), err=True)
        return BAD_INPUT
    except click.UsageError as error:
        return _fail(args, error.format_message().removesuffix("."), fix=_help_hint(error))
    except click.ClickException as error:
        return _fail(args, error.format_message())
    except InputError as error:
        return _fail(args, str(error), error)
    except (KeyboardInterrupt, click.Abort):
        say("tpu-port: interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains when it flushes
        return PIPE_CLOSED
    except Exception as error:
        if os.environ.get("TPU_PORT_TRACEBACK"):
            raise
        if isinstance(error, OSError) and isinstance(error.filename, str) and error.strerror:
            return _fail(
                args, f"{error.filename}: {error.strerror}", fix="check the path, its permissions and the disk"
            )
        return _fail(args, _our_mistake(error), fix="TPU_PORT_TRACEBACK=1 shows where; please report it")


def _terminated(number: int, frame: object) -> NoReturn:
    raise SystemExit(TERMINATED)


def _fail(args: list[str], line: str, error: InputError | None = None, fix: str = "") -> int:
    say(f"tpu-port: {line}{f'; {fix}' if fix else ''}", err=True)
    if "--json" in args:
        from ..report.json import error_document, to_text

        error = error or InputError(line, fix=fix)
        say(to_text(error_document(error)))
    return BAD_INPUT


def _help_hint(error: click.UsageError) -> str:
    path = error.ctx.command_path.removesuffix(" port") if error.ctx else "tpu-port"
    return f"see {path} --help"


def _our_mistake(error: Exception) -> str:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    place = f" ({os.path.basename(last.tb_frame.f_code.co_filename)}:{last.tb_lineno})" if last else ""
    return " ".join(f"internal error{place}: {type(error).__name__}: {error}".split())
