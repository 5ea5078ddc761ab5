"""How porting time grows with a script: seconds for N of each kind of thing, and the exponent that fits them.

`python bench/growth.py [--most 400] [--budget 120] [KIND ...]`; an exponent of 1 is linear. The last column is a script
of 100 kB of that kind. Exits with 1 when an exponent is above `--worst` (1.5; what the smallest N takes is taken off
first, as most of it is reading the rules), or 100 kB take more than `--longest` seconds (10).
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
import textwrap
import time
from collections.abc import Callable

from porter.cli import RARELY
from porter.engine.pipeline import MOST_TRAINERS, port_module
from porter.errors import InputError
from porter.port import Options
from porter.safety.limits import within_budget
from porter.source.parsing import parse_module

HEAD = """\
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, TrainerCallback
from trl import SFTConfig, SFTTrainer

rows = load_dataset("x", split="train")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
"""
TAIL = """\
args = SFTConfig(output_dir="out"{config})
trainer = SFTTrainer(model=model, args=args, train_dataset=rows{trainer})
trainer.train()
"""
LOOPS = HEAD + "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)\n"
LOOP = """\
for batch in loader@:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()"""
STAGE = "trainer = SFTTrainer(model=model, args=args, train_dataset=rows)\ntrainer.train()"
PEFT = "from peft import LoraConfig, get_peft_model\nlora = LoraConfig(r=8)\n"


def script(before: str = "", config: str = "", trainer: str = "", after: str = "") -> str:
    return HEAD + before + TAIL.format(config=config, trainer=trainer) + after


def each(count: int, line: str) -> str:
    return "".join(line.replace("@", str(n)) + "\n" for n in range(count))


KINDS: dict[str, Callable[[int], str]] = {
    "configs": lambda n: script(each(n, 'c@ = SFTConfig(output_dir="o@", learning_rate=1e-@)')),
    "trainers": lambda n: script(
        after=each(n, 't@ = SFTTrainer(model="Qwen/Qwen3-0.6B", args=args, train_dataset=rows)\nt@.train()')
    ),
    "functions": lambda n: script(each(n, "def f@(model):\n    return model\nf@(model)\nf@(model)")),
    "branches": lambda n: script(each(n, "if x == @:\n    rows = rows.shuffle(@)")),
    "callbacks": lambda n: script(
        each(
            n, "class C@(TrainerCallback):\n    def on_log(self, args, state, control, **kwargs):\n        print(args)"
        ),
        trainer=f", callbacks=[{', '.join(f'C{k}()' for k in range(n))}]",
    ),
    "comments": lambda n: script(config=",\n" + each(n, "    # comment @").rstrip() + "\n"),
    "aliases": lambda n: script("m0 = model\n" + "".join(f"m{k + 1} = m{k}\n" for k in range(n)) + f"model = m{n}\n"),
    "dicts": lambda n: script(
        "d0 = {'seed': 1}\n" + "".join(f"d{k + 1} = {{**d{k}, **d{k}}}\n" for k in range(n)), config=f", **d{n}"
    ),
    "device maps": lambda n: script(
        each(n, 'd@ = {"": @}\nm@ = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", device_map=d@)')
    ),
    "unused": lambda n: script(each(n, "g@ = torch.cuda.get_device_name(@)")),
    "f-strings": lambda n: script(after=each(n, 'print(f"@ {args.output_dir} {args.learning_rate}")')),
    "unknown uses": lambda n: script(after=each(n, "trainer.what@(1)")),
    "rebound": lambda n: script(each(n, "model = prepare@(model)")),
    "moved": lambda n: script(each(n, "model = model.to('cuda')")),
    "adapted": lambda n: script(PEFT + each(n, "model = get_peft_model(model, lora)")),
    "loops": lambda n: LOOPS + each(n, LOOP),
    "one variable": lambda n: script(after=each(n, STAGE)),
    "one a branch": lambda n: script(after=each(n, "if x == @:\n" + textwrap.indent(STAGE, "    "))),
    "one a use": lambda n: script(after=each(min(n, MOST_TRAINERS - 1), STAGE) + each(n, "print(model.what(@))")),
    "elifs": lambda n: script(after="if x:\n    pass\n" + each(n, "elif x == @:\n" + textwrap.indent(STAGE, "    "))),
}


def in_main(text: str) -> str:
    """The same with everything but its imports in a function."""
    imports, blank, rest = text.partition("\n\n")
    body = textwrap.indent(rest, "    ")
    return f"{imports}{blank}def main():\n{body}\n\nif __name__ == '__main__':\n    main()\n"


def in_main_too(make: Callable[[int], str]) -> Callable[[int], str]:
    return lambda n: in_main(make(n))


KINDS |= {f"{kind} in main": in_main_too(make) for kind, make in [*KINDS.items()]}


def of_size(make: Callable[[int], str], size: int) -> str:
    """A script of at least `size` characters."""
    each = (len(make(200)) - len(make(100))) / 100
    return make(int(size / each) + 1)


def seconds(text: str, budget: float) -> float:
    """Processor time of one port; NaN when it doesn't end within the budget."""
    started = time.process_time()
    try:
        within_budget(lambda: port_module(parse_module(text.encode(), "train.py"), Options()), "train.py", budget)
    except InputError as error:
        print(f"  {error}", file=sys.stderr)
        return math.nan
    return time.process_time() - started


def exponent(counts: list[int], taken: list[float]) -> float:
    """The slope of log(time) over log(N) of the last three, the first time taken off as the fixed part."""
    rest = [(n, t - taken[0]) for n, t in zip(counts[1:], taken[1:], strict=True) if t - taken[0] > 0.05]
    if len(rest) < 2:
        return 0.0
    (n1, t1), (n2, t2) = rest[-3:][0], rest[-1]
    return math.log(t2 / t1) / math.log(n2 / n1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--most", type=int, default=400)
    parser.add_argument("--budget", type=float, default=120)
    parser.add_argument("--worst", type=float, default=1.5)
    parser.add_argument("--longest", type=float, default=10)
    parser.add_argument("--repeats", type=int, default=2, help="the quickest of so many runs counts")
    parser.add_argument("--size", type=int, default=100_000)
    given = parser.parse_args()
    gc.set_threshold(*RARELY)  # as the command does
    counts = [1, *(n for n in (25, 50, 100, 200, 400, 800, 1600) if n <= given.most)]
    port_module(parse_module(script().encode(), "train.py"), Options())  # the rules are read
    worst = longest = 0.0
    print(f"{'':20}" + "".join(f"{n:>8}" for n in counts) + f"  exponent{given.size // 1000:>5} kB")
    for kind in given.kinds or KINDS:
        taken: list[float] = []
        for n in counts:
            text = KINDS[kind](n)
            taken.append(min(seconds(text, given.budget) for _ in range(given.repeats)))
            if math.isnan(taken[-1]):
                break
        fitted = math.inf if math.isnan(taken[-1]) else exponent(counts, taken)
        whole = seconds(of_size(KINDS[kind], given.size), given.budget)
        worst, longest = max(worst, fitted), max(longest, math.inf if math.isnan(whole) else whole)
        print(f"{kind:20}" + "".join(f"{t:8.2f}" for t in taken) + f"{fitted:10.1f}{whole:8.2f}", flush=True)
    return int(worst > given.worst or longest > given.longest)


if __name__ == "__main__":
    sys.exit(main())
