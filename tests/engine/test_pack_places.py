"""What a pack's rules answer beside calls, what they read, and what `[facts]` and `[[evidence]]` say."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from porter.engine.packs.packs import load_packs
from porter.engine.packs.patterns import parse_pattern
from porter.errors import InputError
from porter.port import Port
from porter.source.parsing import parse_module

from .porting import check_noop, port, sft_script

RULE = '''"""What acme does → what the port does.

What it does: it.
"""

from porter.packs.api import Fill, decide, made_by, matched, methods_of, remove_decorator

ID = "{id}"
{names}


{functions}
'''


def pack(folder: Path, *functions: str, names: str, more: str = "", id: str = "ACME1") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "pack.toml").write_text(f'name = "{folder.name}"\nversion = "1"\nrules = ["*.py"]\n{more}')
    (folder / "rule.py").write_text(RULE.format(id=id, names=names, functions="\n\n".join(functions)))
    return folder


APPLY = "def apply(site, porting):\n    "
GONE = f"{APPLY}porting.remove_statement(site.node, ID, 'it goes')\n"


def saying(folder: Path, more: str) -> Path:
    """A pack of what its pack.toml says `more`, whose one rule answers nothing."""
    return pack(folder, GONE, names='MATCHES = ("acme.none()",)', more=more)


def after(text: str, *packs: Path, status: str = "ported", **options: object) -> Port:
    found = port(text, rules=packs, **options)
    assert found.status == status, found.findings
    return found


def test_classes_on_a_librarys_class(tmp_path: Path) -> None:
    body = f"{APPLY}if 'extra' not in methods_of(site):\n        porting.remove_statement(site.node, ID, 'it goes')\n"
    folder = pack(tmp_path / "acme", body, names='CLASSES = ("acme.Hook",)')
    classes = "class One(acme.Hook):\n    x = 1\n\n\nclass Two(acme.Hook):\n    def extra(self): ...\n"
    found = after(sft_script(f"import acme\n\n\n{classes}"), folder)
    assert "class One" not in found.after and "class Two(acme.Hook)" in found.after


def test_functions_under_a_librarys_decorator(tmp_path: Path) -> None:
    body = f"{APPLY}name = site.argument('name')\n    remove_decorator(porting, site, name.text if name else '')\n"
    folder = pack(tmp_path / "acme", body, names='FUNCTIONS = ("acme.timed",)\nPOSITIONAL = ("name",)')
    script = sft_script("import acme, functools\n\n\n@functools.cache\n@acme.timed('x')\ndef f(): ...\n\n\nf()")
    found = after(script, folder)
    assert "@functools.cache\ndef f()" in found.after and "acme" not in found.after
    assert any(edit.reason == "'x'" for edit in found.edits)
    gone = after(script.replace("\n\n\nf()", ""), pack(tmp_path / "acme", GONE, names='FUNCTIONS = ("acme.timed",)'))
    assert "functools.cache" not in gone.after and "def f" not in gone.after


def test_code_of_a_pattern(tmp_path: Path) -> None:
    names = 'PATTERNS = ("acme.run({f}, lambda {x}: {x}.item(), ...)",)'
    body = f"{APPLY}porting.replace(site, f\"{{site.argument('f').text}}()\", 'plain')\n"
    folder = pack(tmp_path / "acme", body, names=names)
    calls = "a = run(print, lambda v: v.item(), 3, deep=True)\nb = run(print, lambda v: w.item())\nprint(a, b)"
    found = after(sft_script("from acme import run", after=f"trainer.train()\n{calls}"), folder)
    assert "a = print()\n" in found.after and "b = run(print, lambda v: w.item())\n" in found.after


@pytest.mark.parametrize(
    ("pattern", "code", "holes"),
    [
        ("sum({p}.numel() for {p} in {m}.parameters())", "sum(x.numel()\n  for x in net.parameters())", "m p"),
        ("sum({p}.numel() for {p} in {m}.parameters())", "sum(x.numel() for y in net.parameters())", None),
        ("torch.f({x}, ...)", "t.f(1)", "x"),
        ("torch.f({x}, ...)", "t.f(1, 2, k=3)", "x"),
        ("torch.f({x})", "t.f(1, 2)", None),
        ("torch.f({x})", "own.f(1)", None),
        ("sorted({x})", "sorted(1)", "x"),
        ("len({x})", "len(1)", None),
    ],
)
def test_patterns(pattern: str, code: str, holes: str | None) -> None:
    module = parse_module(f"import torch as t\nlen = 1\n(\n{code})\n".encode(), "x.py")
    line = module.tree.body[-1]
    assert isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], cst.Expr)
    found = parse_pattern(pattern).captures(module, line.body[0].value)
    assert (found is None) == (holes is None) and (found is None or sorted(found) == (holes or "").split())


def test_an_argument_that_a_rule_leaves_out_needs_nobody(tmp_path: Path) -> None:
    body = f"{APPLY}porting.replace(site, '8', 'rows')\n"
    folder = pack(tmp_path / "acme", body, names='MATCHES = ("@trainer.rows_of()",)')
    script = sft_script(after="trainer.train()\nprint(trainer.rows_of(trainer.args))")
    assert "print(8)\n" in after(script, folder).after
    kept = body.replace("'8'", "porting.module.code(site.node.args[0])")
    folder = pack(tmp_path / "acme", kept, names='MATCHES = ("@trainer.rows_of()",)')
    assert "TODO(tpu-port TP190): trainer.args" in after(script, folder, status="partial").after


def test_names(tmp_path: Path) -> None:
    body = f"{APPLY}porting.replace(site, '8', 'cores')\n"
    folder = pack(tmp_path / "acme", body, names='MATCHES = ("acme.GPUS",)')
    assert "print(8)" in after(sft_script("import acme as a\nprint(a.GPUS)"), folder).after


CONDITIONS = [
    ("if acme.on():\n    print(1)\nelse:\n    print(2)", "print(1)\n", "print(2)"),
    ("if acme.on() and __name__:\n    print(1)", "if __name__:\n    print(1)", "acme"),
    ("if not acme.on():\n    print(1)", "", "print(1)"),
    ("x = 1 if acme.on() else 2\nprint(x)", "x = 1\n", "acme"),
]


@pytest.mark.parametrize(("code", "there", "gone"), CONDITIONS)
def test_conditions_are_decided(tmp_path: Path, code: str, there: str, gone: str) -> None:
    row = '[[rewrite]]\nid = "ACME2"\nmatch = "acme.on()"\naction = "always"\nreason = "it is"\n'
    by_row = saying(tmp_path / "row", row)
    by_rule = pack(
        tmp_path / "rule", f"{APPLY}decide(porting, site, True, 'it is')\n", names='MATCHES = ("acme.on()",)'
    )
    for folder in (by_row, by_rule):
        found = after(sft_script(f"import acme\n{code}"), folder).after
        assert there in found and gone not in found


READ = "def read(site, reading):\n    "
CONFIGURE = sft_script("import acme\nacme.configure(rows=3)")


def test_what_a_call_means_is_read(tmp_path: Path) -> None:
    fill = f"{READ}yield Fill('batch.per_device', site.argument('rows').value)\n    "
    fill += "yield Fill('optimizer.learning_rate', reading.literal(1e-3, site))\n"
    folder = pack(tmp_path / "acme", fill, GONE, names='MATCHES = ("acme.configure()",)')
    found = after(CONFIGURE, folder)
    assert "batch_size=3" in found.after and "linear_schedule(0.001" in found.after and "acme" not in found.after
    assert "linear_schedule(2e-5" in after(CONFIGURE, folder, ignore=("ACME1",)).after


def test_a_mistake_while_reading_is_found(tmp_path: Path) -> None:
    for line, said in (("yield 3", "TypeError: it yields 3"), ("return site.nothing", "AttributeError")):
        folder = pack(tmp_path / "acme", f"{READ}{line}\n", names='MATCHES = ("acme.configure()",)')
        found = after(CONFIGURE, folder, status="partial")
        (finding,) = [each for each in found.findings if each.rule == "ACME1"]
        assert said in finding.message and "of pack acme" in finding.message and "rule.py:" in finding.message
        assert "acme.configure(rows=3)" in found.after and "PeftTrainer(" in found.after


def test_one_of_two_answers_a_class(tmp_path: Path) -> None:
    names = 'CLASSES = ("acme.Hook",)'
    one = pack(tmp_path / "one", GONE, names=names, id="ONE1")
    two = pack(tmp_path / "two", GONE, names=names, id="TWO1")
    with pytest.raises(InputError, match=r"class acme\.Hook: ONE1 of pack one and TWO1 of pack two both answer it"):
        load_packs([one, two])
    left = f"{APPLY}return porting.NOT_MINE\n"
    pack(two, left, names=f'{names}\nINSTEAD_OF = ("ONE1",)', id="TWO1")
    script = sft_script("import acme\n\n\nclass One(acme.Hook): ...")
    for packs in ((one, two), (two, one)):
        assert "class One" not in after(script, *packs).after


def test_facts(tmp_path: Path) -> None:
    facts = """[facts]
gpu_made = ["acme.card"]
gpu_side = ["acme_gpu"]
callbacks = ["acme.Log"]
callbacks_gone = ["acme.Gpu"]
[[rewrite]]
id = "ACME2"
match = ["acme.wrap()", "acme.see()", "acme.Engine().fit()"]
action = "remove"
reason = "torch's"
"""
    folder = saying(tmp_path / "acme", facts)
    script = sft_script(
        "import acme, acme_gpu\nprobe = acme_gpu.Probe()\ncard = acme.card(0)\nacme.see(probe, card)",
        between="model = acme.wrap(model)\nengine = acme.Engine()\nmodel = engine.fit(model)\n"
        "callbacks = [acme.Log(), acme.Gpu()]",
        trainer=", callbacks=callbacks",
    )
    found = after(script, folder).after
    assert "callbacks = [acme.Log()]" in found and "wrap" not in found and "acme_gpu" not in found
    assert "rt.load_model(" in found and "card" not in found
    alone = script.replace("callbacks=callbacks", "callbacks=[acme.Gpu()]").replace("acme.Log(), acme.Gpu()", "")
    assert "acme.Gpu" not in after(alone, folder).after


@pytest.mark.parametrize("wraps", ["wrapped = acme.wrap(model)", "engine = acme.Engine()\nwrapped = engine.fit(model)"])
def test_a_model_that_is_given_back_is_followed(tmp_path: Path, wraps: str) -> None:
    script = sft_script("import acme", between=wraps).replace("    model,\n", "    wrapped,\n")
    folder = saying(tmp_path / "acme", '[facts]\ngives_back = ["acme.wrap", "acme.Engine().fit"]\n')
    for packs, followed in (((folder,), True), ((), False)):
        unknown = "wrapped: where this model comes from"
        said = [each.message for each in port(script, rules=packs).findings if each.message.startswith(unknown)]
        assert bool(said) is not followed


def test_facts_of_trainers_and_loops(tmp_path: Path) -> None:
    folder = saying(tmp_path / "beside", '[facts]\nbeside_training = ["acme"]\n')
    own = "import acme\n\n\nclass OwnTrainer:\n    def train(self): ...\n\n\nOwnTrainer().train()\n"
    assert port(own).status == "unchanged"
    said = after(own, folder, status="unsupported").findings
    assert [each.message.partition(",")[0] for each in said] == ["OwnTrainer is a class of this file"]
    folder = saying(tmp_path / "loops", '[facts]\nbackwards = ["acme"]\nlanguage_models = ["acme"]\n')
    loop = "import acme\n\nfor batch in batches:\n    acme.backward(model(batch))\n    optimizer.step()\n"
    assert port(loop).status == "unchanged"
    assert "is not the standard one" in after(loop, folder, status="unsupported").findings[0].message


def test_facts_of_packages(tmp_path: Path) -> None:
    facts = """[facts]
absent = ["acme"]
gpu_distributions = ["acme-gpu"]
core_distributions = ["acme-gpu"]
[facts.import_needs]
"zenith.*_layers" = "acme"
"""
    folder = saying(tmp_path / "acme", facts)
    lines = "import os\nimport acme\n\nos.system('pip install acme-gpu rich')\n"
    by_name = after(sft_script(lines, after="trainer.train()\nprint(acme.VERSION)"), folder)
    by_module = after(sft_script("from zenith.own_layers import Layer", after="trainer.train()\nprint(Layer)"), folder)
    for found in (by_name, by_module):
        assert len([each for each in found.findings if each.message.startswith("acme is still used here")]) == 1
    assert 'pip install "tpu-port[tpu]" rich' in by_name.after
    assert "import acme" not in after(sft_script("import acme"), folder).after


def test_facts_of_names(tmp_path: Path) -> None:
    facts = """[facts]
flat = ["acme"]
[facts.constants]
"acme.BF16" = "bfloat16"
[[rewrite]]
id = "ACME2"
match = ["acme.Wrap()"]
action = "remove"
reason = "torch's"
"""
    folder = saying(tmp_path / "acme", facts)
    script = sft_script("import acme\nfrom acme.deep.wraps import Wrap", between="model = Wrap(model)")
    script = script.replace('dtype="bfloat16"', "dtype=acme.BF16")
    found = after(script, folder).after
    assert "dtype=jnp.bfloat16" in found and "acme" not in found


PAIR = """class = "acme.load"
library = "acme"
newest = "1.0"
[fields.name]
place = "model.id"
fate = "exact"
target = "rt.load_model"
type = "str"
default = { "1.0" = "REQUIRED" }
"""


def test_a_function_of_a_library_loads_a_model_and_its_tokenizer(tmp_path: Path) -> None:
    facts = """[facts]
loads_pair = ["acme.load"]
gives_back_pair = ["acme.chat"]
loads_adapters = ["acme.adapted"]
[[table]]
id = "ACME2"
file = "table.toml"
role = "model"
positional = ["name"]
[[rewrite]]
id = "ACME3"
match = ["acme.chat()"]
action = "remove"
reason = "it changes nothing"
"""
    folder = saying(tmp_path / "acme", facts)
    (folder / "table.toml").write_text(PAIR)
    script = sft_script("import acme", between="model, tokenizer = acme.chat(model, tokenizer)")
    load = 'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")'
    script = script.replace(load, 'model, tokenizer = acme.load("Qwen/Qwen3-0.6B")')
    script = script.replace('AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")', "tokenizer")
    found = after(script, folder).after
    assert 'model = rt.load_model("Qwen/Qwen3-0.6B", mesh' in found and "acme" not in found
    assert 'tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")' in found
    adapted = script.replace("trainer = SFTTrainer(", 'model = acme.adapted(model, "out")\ntrainer = SFTTrainer(')
    said = after(adapted, folder, status="partial").findings
    assert any("without this adapter" in finding.message for finding in said)


def test_a_model_that_a_trainer_loads_itself_is_read_as_without_a_packs_table(tmp_path: Path) -> None:
    more = '[[table]]\nid = "ACME2"\nfile = "table.toml"\nrole = "model"\npositional = ["name"]\n'
    folder = saying(tmp_path / "acme", more)
    (folder / "table.toml").write_text(PAIR)
    load = 'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")'
    script = sft_script(config=", model_init_kwargs={'dtype': 'bfloat16'}").replace(load, 'model = "Qwen/Qwen3-0.6B"')
    assert "dtype=jnp.bfloat16" in after(script, folder).after


RECOMPUTES = """[fields.recompute]
place = "memory.library_gradient_checkpointing"
fate = "exact"
target = "rt.remat"
type = "bool"
default = { "1.0" = "True" }
"""


def test_a_library_that_recomputes_by_itself_is_named_in_the_port(tmp_path: Path) -> None:
    more = '[reads]\nacme = ">=1.0"\n[[table]]\nid = "ACME2"\nfile = "table.toml"\nrole = "model"\n'
    folder = saying(tmp_path / "acme", more + 'positional = ["name"]\n')
    (folder / "table.toml").write_text(PAIR + RECOMPUTES)
    load = 'AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")'
    script = sft_script("import acme").replace(load, 'acme.load("Qwen/Qwen3-0.6B")')
    assert "a decoder layer at a time (on by default in acme)" in after(script, folder).after


TABLE = """class = "acme.Config"
extends = "trl.SFTConfig"
library = "acme"
newest = "3.0"
[fields.learning_rate]
place = "optimizer.learning_rate"
fate = "exact"
target = "rate"
type = "float"
default = { "1.0" = "1e-3", "2.0" = "1e-4", "3.0" = "1e-5" }
"""


@pytest.mark.parametrize(
    ("line", "rate"),
    [
        ("", "1e-5"),
        ("# pip install acme==2.0", "1e-4"),
        ("# pip install 'acme<2'", "1e-3"),
        ("acme.start(mode=1)", "1e-4"),
    ],
)
def test_the_release_of_a_packs_own_library(tmp_path: Path, line: str, rate: str) -> None:
    more = '[[table]]\nid = "ACME2"\nfile = "table.toml"\nrole = "arguments"\n'
    more += '[[evidence]]\nname = "acme.start"\nkeyword = "mode"\ngone = "3.0"\n'
    folder = saying(tmp_path / "acme", more)
    (folder / "table.toml").write_text(TABLE)
    script = sft_script(f"import acme\n{line}").replace("args=SFTConfig(", "args=acme.Config(")
    assert f"linear_schedule({rate}" in after(script, folder).after


def test_nothing_of_a_pack_touches_a_port(tmp_path: Path) -> None:
    folder = pack(tmp_path / "acme", GONE, names='CLASSES = ("acme.Hook",)\nPATTERNS = ("acme.f({x})",)')
    check_noop("import acme\n\n\nclass One(acme.Hook): ...\n\n\nacme.f(1)\n", rules=(folder,))
