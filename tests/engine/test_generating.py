"""model.generate and text-generation pipelines: where the model, its prompts and what comes out are followed to."""

import ast

import pytest

from .porting import check_becomes, port, sft_script

HEAD = """\
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline
from trl import SFTConfig, SFTTrainer

rows = load_dataset('x', split='train')
tokenizer = AutoTokenizer.from_pretrained('Qwen/Qwen3-0.6B')
model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', dtype='auto')
"""
TRAIN = """\
trainer = SFTTrainer(model, args=SFTConfig('out'), train_dataset=rows, processing_class=tokenizer)
trainer.train()
"""
IDS = "ids = tokenizer('a', return_tensors='pt').to('cuda')\n"


def script(*lines: str) -> str:
    return HEAD + TRAIN + "\n".join(lines) + "\n"


CALLS = [
    (
        """\
ids = tokenizer('a', return_tensors='pt')
ids = ids.to('cuda')
out = model.generate(**ids)
""",
        "ids = tokenizer('a', return_tensors='np')\nout = rt.generate(model, **ids, tokenizer=tokenizer)\n",
    ),
    (
        """\
ids = tokenizer.encode('a', return_tensors='pt').cuda()
out = model.generate(ids, max_length=9).cpu()[0]
""",
        "return_tensors='np')\nout = rt.generate(model, ids, max_length=9, tokenizer=tokenizer)[0]",
    ),
    (
        """\
ids = tokenizer('a', return_tensors='pt')
out = model.generate(input_ids=ids['input_ids'].to('cuda'), attention_mask=ids.attention_mask.to(0))
""",
        "rt.generate(model, input_ids=ids['input_ids'], attention_mask=ids.attention_mask, tokenizer=tokenizer)",
    ),
    (
        """\
def ask(text):
    ids = tokenizer(text, return_tensors='pt').to('cuda')
    return trainer.model.generate(**ids, use_cache=True, max_new_tokens=4)
ask('a')
""",
        "return_tensors='np')\n    return rt.generate(model, **ids, max_new_tokens=4, tokenizer=tokenizer)",
    ),
    (
        """\
def encode(text):
    return tokenizer(text, return_tensors='pt').to('cuda')
print(model.generate(**encode('a')))
""",
        "return tokenizer(text, return_tensors='np')\nprint(rt.generate(model, **encode('a'), tokenizer=tokenizer))",
    ),
    (
        """\
def ask(ids):
    return model.generate(ids)
ask(tokenizer('a', return_tensors='pt').input_ids.to(0))
""",
        "ask(tokenizer('a', return_tensors='np').input_ids)",
    ),
    (
        """\
kwargs = {'max_new_tokens': 5}
ids = tokenizer('a', return_tensors='pt').to('cuda')
print(model.generate(**ids, **kwargs))
""",
        "rt.generate(model, **ids, **kwargs, tokenizer=tokenizer)",
    ),
    (
        """\
for text in ['a', 'b']:
    with torch.inference_mode():
        out = model.generate(**tokenizer(text, return_tensors='pt').to(model.device), tokenizer=None)
""",
        "    with mesh:\n        out = rt.generate(model, **tokenizer(text, return_tensors='np'), tokenizer=None)",
    ),
    (
        """\
ids = tokenizer('a', return_tensors='pt')
with torch.no_grad(), open('o') as file:
    out = model.generate(**ids)
""",
        "with mesh, open('o') as file:\n",
    ),
]


@pytest.mark.parametrize(("text", "part"), CALLS)
def test_calls_and_their_token_ids(text: str, part: str) -> None:
    check_becomes(script(text), part, gone=("cuda", "import torch"))


PROMPT = "ids = tokenizer('a', return_tensors='pt').to(model.device)\n"


@pytest.mark.parametrize(
    ("use", "part"),
    [
        ("ids['attention_mask'].sum(dim=1).tolist()", "ids['attention_mask'].sum(axis=1).tolist()"),
        ("ids['attention_mask'].sum(-1, keepdim=True).cpu()", "ids['attention_mask'].sum(-1, keepdims=True)"),
        ("ids['attention_mask'].float().mean(dim=-1)", "ids['attention_mask'].astype(\"float32\").mean(axis=-1)"),
        ("ids.attention_mask.to(torch.bool)", 'ids.attention_mask.astype("bool")'),
        ("ids.attention_mask.bool().any(dim=0)", 'ids.attention_mask.astype("bool").any(axis=0)'),
        ("(ids['input_ids'] != 0).sum(dim=1).cpu().tolist()", "(ids['input_ids'] != 0).sum(axis=1).tolist()"),
        ("(ids['input_ids'] != 0).cpu()", "x = (ids['input_ids'] != 0)\n"),
        ("(0 == ids['input_ids']).long().cumsum(dim=-1)", "(0 == ids['input_ids']).cumsum(axis=-1)"),
        ("ids['input_ids'][0].unsqueeze(0).numel()", "ids['input_ids'][0][None].size"),
        ("ids['input_ids'].view(1, -1).cuda()", "x = ids['input_ids'].reshape(1, -1)\n"),
        ("ids['input_ids'].reshape(-1).cpu().numel()", "x = ids['input_ids'].reshape(-1).size\n"),
        ("ids['input_ids'].flatten().tolist()", "x = ids['input_ids'].flatten().tolist()\n"),
        ("ids['input_ids'].argmax(dim=-1).item()", "ids['input_ids'].argmax(axis=-1).item()"),
        ("ids['input_ids'].max().item()", "ids['input_ids'].max().item()"),
        ("ids['input_ids'].dim()", "ids['input_ids'].ndim"),
        ("out[0].size(0)", "out[0].shape[0]"),
        ("(out != 0).sum(dim=-1)", "(out != 0).sum(axis=-1)"),
    ],
)
def test_what_else_is_done_with_the_arrays(use: str, part: str) -> None:
    text = f"{PROMPT}out = model.generate(**ids)\nx = {use}\nprint(x)\n"
    check_becomes(script(text), part, "return_tensors='np'", gone=("import torch",))


@pytest.mark.parametrize(
    "use",
    [
        "out.max(dim=-1)", "out.repeat(4, 1)", "out.transpose(0, 1)", "out.unsqueeze(2)", "out.masked_fill_(mask, 1)",
        "(out == 0).nonzero()", "out.sum(dim=1).topk(2)", "out.sort(dim=-1)",
        "out.view(torch.int32)", "out.reshape(shape=(1, 2))", "out.flatten(0, 1)",
    ],
)  # fmt: skip
def test_what_an_array_does_otherwise_is_an_error_at_its_line(use: str) -> None:
    found = port(script(f"{PROMPT}out = model.generate(**ids)\nx = {use}\n"))
    assert [each.message for each in found.findings if "are a NumPy array in the port" in each.message], found.after


def test_a_baseline_before_training_has_no_end_token_of_the_trainers() -> None:
    before = IDS + "print(tokenizer.decode(model.generate(**ids)[0]))\n"
    check_becomes(HEAD + before + TRAIN, "tokenizer.decode(rt.generate(model, **ids)[0])")


def test_a_config_alone_before_training_gets_no_more_arguments() -> None:
    before = (
        "base = model.generate(input_ids=a, attention_mask=b, generation_config=GenerationConfig(max_new_tokens=9),)\n"
    )
    found = port(HEAD.replace("import Auto", "import GenerationConfig, Auto", 1) + before + TRAIN).after
    assert "attention_mask=b, generation_config=GenerationConfig(max_new_tokens=9),)" in found


def test_a_model_that_is_handed_on() -> None:
    lines = ["def ask(model, tokenizer, text):", "    batch = tokenizer([text], return_tensors='pt').to(model.device)"]
    lines += [
        "    with torch.no_grad():",
        "        out = model.generate(**batch)",
        "    return tokenizer.batch_decode(out)",
    ]
    found = check_becomes(
        script(*lines, "ask(model, tokenizer, 'a')"),
        "batch = tokenizer([text], return_tensors='np')\n",
        "    with mesh:\n        out = rt.generate(model, **batch, tokenizer=tokenizer)\n",
    )
    assert not found.findings or {finding.severity for finding in found.findings} == {"info"}


def test_everything_in_one_function() -> None:
    """The mesh is that function's own; elsewhere the guard needs another context."""
    body = "".join(
        f"    {line}\n" for line in (HEAD.partition("rows")[1] + HEAD.partition("rows")[2] + TRAIN).splitlines()
    )
    ask = "def ask(model, tokenizer):\n    with torch.no_grad():\n        return model.generate(**tokenizer('a'))\n\n\n"
    text = HEAD.partition("rows")[0] + ask + "def main():\n" + body + "    print(ask(model, tokenizer))\n\n\nmain()\n"
    check_becomes(
        text, "with contextlib.nullcontext():\n        return rt.generate(model, **tokenizer('a'), tokenizer=tok"
    )


def test_a_decorator_goes_with_the_gradients() -> None:
    lines = [
        "@torch.no_grad()",
        "def ask():",
        "    return model.generate(**tokenizer('a', return_tensors='pt'))",
        "ask()",
    ]
    check_becomes(script(*lines), "\ndef ask():\n", gone=("no_grad",))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("model.generate(**ids, num_beams=2)", "no beams"),
        ("model.generate(**ids, num_beams=size)", "no beams"),
        ("model.generate(**ids, penalty_alpha=0.6, top_k=4)", "contrastive search"),
        ("model.generate(**ids, stop_strings=['.'], tokenizer=tokenizer)", "ends with an end token"),
        ("model.generate(**ids, image_sizes=[3])", "no such setting"),
        ("model.generate(ids.input_ids.expand(2, -1))", "a NumPy array in the port"),
        ("pipeline('summarization', model=model, tokenizer=tokenizer)", "text-generation pipelines only"),
    ],
)
def test_what_has_no_counterpart_is_named(call: str, said: str) -> None:
    found = port(script("size = len(rows)", IDS + f"print({call})"))
    assert found.status == "partial"
    errors = [finding.message for finding in found.findings if finding.severity == "error"]
    assert any(said in message for message in errors), errors


DICTS = [
    "kw = dict(max_new_tokens=5)\nif len(rows) > 3:\n    kw = dict(max_new_tokens=9, num_beams=4)",
    "kw = {'max_new_tokens': 5}\nif len(rows) > 3:\n    kw.update(num_beams=4)",
    "kw = {'max_new_tokens': 5}\nfor n in range(len(rows)):\n    kw['num_beams'] = 4",
    "def settings(n):\n    if n > 3:\n        return {'num_beams': 4}\n    return {}\nkw = settings(len(rows))",
    "BASE = {'num_beams': 4}\nMORE = {'top_k': 4}\nkw = {**BASE} if len(rows) > 3 else MORE.copy()",
    "BASE = {'num_beams': 4}\nkw = dict(BASE | {'top_k': 3}) if len(rows) > 3 else {}",
    "from transformers import GenerationConfig\nconfig = GenerationConfig(num_beams=4, top_k=3)\n"
    "kw = {'generation_config': config}",
]
CALLED = [
    "print(model.generate(**ids, **kw))",
    "def ask(**given):\n    return model.generate(**ids, **given)\nask(**kw)",
    "pipe = pipeline('text-generation', model=model, tokenizer=tokenizer)\npipe('a', **kw)",
]


@pytest.mark.parametrize("call", CALLED)
@pytest.mark.parametrize("made", DICTS)
def test_a_dict_of_settings_that_is_not_made_at_once(made: str, call: str) -> None:
    found = port(script(IDS + made, call))

    [message] = [finding.message for finding in found.findings if finding.severity == "error"]
    assert "num_beams=4): Tunix's sampler here keeps one completion a row" in message
    assert port(script(IDS + made.replace("4", "1").replace("1:", "4:"), call)).status == "ported"


@pytest.mark.parametrize("name", ["image_sizes", "made_up"])
def test_a_dict_with_what_is_no_setting(name: str) -> None:
    made = f"kw = dict(top_k=5)\nif len(rows) > 3:\n    kw = dict({name}=9)\n"
    found = port(script(IDS + made, "print(model.generate(**ids, **kw))"))

    assert [f.message for f in found.findings if f.severity == "error"] == [
        f"generate({name}=9): the port's generate knows no such setting."
    ]


def test_what_a_dict_held_before_it_was_made_anew_is_not_asked() -> None:
    made = "kw = dict(num_beams=4)\nprint(kw)\nkw = dict(top_k=5)\nif len(rows) > 3:\n    kw = dict(top_k=9)\n"

    assert port(script(IDS + made, "print(model.generate(**ids, **kw))")).status == "ported"


def test_settings_that_are_off_go() -> None:
    call = "print(model.generate(**ids, num_beams=1, use_cache=False, penalty_alpha=None, max_new_tokens=3))"
    found = check_becomes(script(IDS + call), "rt.generate(model, **ids, max_new_tokens=3, tokenizer=tokenizer)")
    fates = {row.source: row.fate for row in found.recipe.fields if row.source.startswith("generate")}
    assert fates == {
        "generate.num_beams": "dropped",
        "generate.use_cache": "dropped",
        "generate.penalty_alpha": "dropped",
        "generate.max_new_tokens": "exact",
    }


PEFT = "from peft import AutoPeftModelForCausalLM, PeftModel\n"
AGAIN = """\
base = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', device_map='auto').to('cuda')
model = PeftModel.from_pretrained(base, 'out')
model = model.merge_and_unload()
model.eval()
model.save_pretrained('merged')
"""
LOADED = [
    (AGAIN, "base = rt.load_model('Qwen/Qwen3-0.6B', mesh)\nmodel = rt.apply_adapter(base, 'out', mesh)\n"),
    (AGAIN, "model = rt.merge_and_unload(model)\nmodel.save_pretrained('merged')\n"),
    (
        "model = AutoModelForCausalLM.from_pretrained('out', dtype=torch.float32)\n",
        "rt.load_trained('out', mesh, dtype=jnp.",
    ),
    ("model = AutoPeftModelForCausalLM.from_pretrained('out').cuda()\n", "model = rt.load_trained('out', mesh)\n"),
    (
        "OUT = 'a'\nmodel.save_pretrained(f'{OUT}/b')\nmodel = AutoModelForCausalLM.from_pretrained('a/b')\n",
        "model = rt.load_trained('a/b', mesh)\n",
    ),
    (
        "path = tokenizer.name\nmodel.save_pretrained(path)\nmodel = AutoModelForCausalLM.from_pretrained(path)\n",
        "model = rt.load_trained(path, mesh)\n",
    ),
    (
        AGAIN.replace("'out')", "'out').merge_and_unload()").replace("model = model.merge_and_unload()\n", ""),
        "model = rt.merge_and_unload(rt.apply_adapter(base, 'out', mesh))\n",
    ),
]


@pytest.mark.parametrize(("load", "part"), LOADED)
def test_a_model_loaded_again_to_generate(load: str, part: str) -> None:
    text = PEFT + script(load + "ids = tokenizer('a', return_tensors='pt')", "print(model.generate(**ids))")
    text += "def ask(model):\n    return model.generate(**tokenizer('b', return_tensors='pt'))\nask(model)\n"
    text += "pipe = pipeline('text-generation', model=model, tokenizer=tokenizer)\n"
    text += "model.config.use_cache = True\ndel model\n"
    check_becomes(
        text,
        part,
        "print(rt.generate(model, **ids))",
        "return rt.generate(model, **tokenizer('b', return_tensors='np'))",
        "pipe = rt.TextGenerationPipeline(model, tokenizer)",
        gone=("torch", "peft import Auto", "'pt'", "use_cache"),
    )


@pytest.mark.parametrize(
    "load",
    [
        "model = AutoModelForCausalLM.from_pretrained('out', quantization_config=quantized())\n",
        "model = AutoModelForCausalLM.from_pretrained('openai-community/gpt2')\n",
        "model = AutoModelForCausalLM.from_pretrained(input())\n",
        "model = AutoModelForCausalLM.from_pretrained('out')\nmodel.half_of_it()\n",
        "model = AutoModelForCausalLM.from_pretrained('out')\nsomething.else_with(model)\n",
        "model = AutoModelForCausalLM.from_pretrained('out')\nprint(model.config.eos_token_id)\n",
        "model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained('a'), 'out')\n",
    ],
)
@pytest.mark.parametrize("use", ["model.generate(**ids)", "pipeline('text-generation', model=model)"])
def test_a_model_of_which_not_all_is_known_is_torchs(load: str, use: str) -> None:
    found = port(PEFT + script(load + "ids = tokenizer('a', return_tensors='pt')", f"print({use})"))
    assert f"print({use})" in found.after and "return_tensors='pt'" in found.after
    assert [f.severity for f in found.findings if "generates on the host" in f.message] == ["warning"]


def test_token_ids_of_another_model_under_the_same_name_stay_torchs() -> None:
    """A notebook asks one model, then another: what is bound to a name again is another thing."""
    other = "other = AutoModelForCausalLM.from_pretrained(input()).to('cpu')\n"
    text = script(IDS + "out = model.generate(**ids)", other + IDS + "out = other.generate(**ids)", "out.to('cpu')")
    after = port(text).after
    assert "ids = tokenizer('a', return_tensors='np')\nout = rt.generate(" in after
    assert IDS.replace("'cuda'", '"cpu"') + "out = other.generate(**ids)\nout.to('cpu')\n" in after
    mixed = port(
        script(IDS, "if len(rows) > 9:", "    ids = tokenizer('b', return_tensors='pt')", "model.generate(**ids)")
    )
    assert "'pt'" not in mixed.after


def test_a_path_that_is_bound_twice_to_what_is_saved() -> None:
    saves = "path = f'./{tokenizer.name}'\nmodel.save_pretrained(f'./{tokenizer.name}')\n"
    load = "again = AutoModelForCausalLM.from_pretrained(path)\n"
    text = script("path = 'x'", saves + load + "again.generate(**tokenizer('a', return_tensors='pt'))")
    assert "again = rt.load_trained(path, mesh)" in port(text).after
    assert "again = AutoModelForCausalLM" in port(text.replace("path = f'./", "path = f'../")).after


def test_a_pipeline_of_a_name() -> None:
    check_becomes(
        script("pipe = pipeline('text-generation', model='out', device=0)", "print(pipe('a')[0]['generated_text'])"),
        "pipe = rt.TextGenerationPipeline(rt.load_trained('out', mesh), AutoTokenizer.from_pretrained('out'))\n",
    )


@pytest.mark.parametrize("given", ["'out'", "folder"])
def test_a_pipeline_whose_tokenizer_is_a_name(given: str) -> None:
    check_becomes(
        script("folder = 'out'", f"pipe = pipeline('text-generation', model='out', tokenizer={given})"),
        f"pipe = rt.TextGenerationPipeline(rt.load_trained('out', mesh), AutoTokenizer.from_pretrained({given}))\n",
    )


def test_a_model_loaded_again_to_save_it_stays() -> None:
    found = port(PEFT + script(AGAIN))
    assert AGAIN.replace("'cuda'", '"cpu"') in found.after


def test_a_function_that_gets_the_model_and_one_loaded_again() -> None:
    lines = ["def ask(model):", "    return model.generate(**tokenizer('a', return_tensors='pt'))", "ask(model)"]
    found = port(script(*lines, "model = AutoModelForCausalLM.from_pretrained('out')", "model.other()", "ask(model)"))
    assert "rt.generate" not in found.after and found.status == "partial"


@pytest.mark.parametrize("again", [True, False])
def test_a_function_that_hands_the_model_on(again: bool) -> None:
    """It is given Tunix's model before the training and torch's behind it: rt.generate would end at the second."""
    lines = ["def ask(model):", "    return model.generate(**tokenizer('a', return_tensors='pt'))"]
    lines += ["def score(rows, model):", "    return [ask(model) for row in rows]", "score([1], model)"]
    if again:
        lines += ["model = AutoModelForCausalLM.from_pretrained('out')", "model.other()", "score([1], model)"]
    found = port(script(*lines))
    assert ("rt.generate" in found.after) is not again
    errors = [finding.message for finding in found.findings if finding.severity == "error"]
    assert bool(errors) is again, found.after


def test_adapters_put_in_behind_the_training() -> None:
    text = "from peft import LoraConfig, get_peft_model\n" + script("model = get_peft_model(model, LoraConfig(r=4))")
    found = port(text + "print(model.generate(**tokenizer('a', return_tensors='pt')))\n")
    assert "print(rt.generate(model, **tokenizer('a', return_tensors='np'), tokenizer=tokenizer))" in found.after


def test_the_tokenizer_that_the_trainer_holds() -> None:
    found = check_becomes(
        script("trainer.tokenizer.save_pretrained('out')", "print(trainer.processing_class.decode([1]))"),
        "tokenizer.save_pretrained('out')\nprint(tokenizer.decode([1]))",
    )
    assert "trainer.tokenizer" not in found.after


def test_settings_that_change_nothing_go_between_comments() -> None:
    asked = (
        "out = model.generate(\n    **ids,\n    do_sample=True,  # draws\n    length_penalty=1.0,  # neutral\n"
        "    early_stopping=False,  # of beams\n)\n"
    )
    found = port(script(IDS + asked))
    ast.parse(found.after)
    assert "length_penalty" not in found.after and "early_stopping" not in found.after
    assert "do_sample=True,  # draws\n" in found.after and "tokenizer=tokenizer,  # of beams\n" in found.after


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_decorator_that_keeps_gradients_away_goes_with_its_line(newline: str) -> None:
    asks = (
        "@torch.inference_mode()\ndef ask(text):\n    return model.generate(**tokenizer(text, return_tensors='pt'))\n"
    )
    script = sft_script(imports="import torch", before="tokenizer = AutoTokenizer.from_pretrained('x')", after=asks)
    after = port(script.replace("\n", newline)).after
    assert "inference_mode" not in after and after.count("AutoTokenizer\n".replace("\n", newline)) == 1
    assert f"{newline}def ask(text):{newline}    return rt.generate(model, " in after


CALLED = 'print(complete("a", model, tok))'
TRIED = """from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
tok = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B", padding_side="left")


def complete(query, model, tok):
    ids = tok(query, return_tensors="pt").to("cuda")
    return tok.batch_decode(model.generate(**ids, max_new_tokens=8))[0]

{before}
trainer = SFTTrainer(model, train_dataset=load_dataset("x", split="train"))
trainer.train()
{behind}
"""


@pytest.mark.parametrize(
    ("before", "behind", "given", "said"),
    [("", CALLED, True, False), (CALLED, "", False, False), (CALLED, CALLED, False, True)],
)
def test_a_tokenizer_that_the_trainer_makes_is_not_there_before(
    before: str, behind: str, given: bool, said: bool
) -> None:
    found = port(TRIED.format(before=before, behind=behind))
    assert ("max_new_tokens=8, tokenizer=tokenizer)" in found.after) is given
    warned = [one.message for one in found.recipe.findings if "also runs before the training" in one.message]
    assert bool(warned) is said


@pytest.mark.parametrize(
    ("release", "pipe", "call"),
    [
        ("0.12.2", ', transformers="4.46"', ', transformers="4.46"'),
        ("0.16.1", ', transformers="4.5', ', transformers="4.5'),
        ("0.19.1", ', transformers="4.5', ', transformers="4.5'),
        ("1.16.0", "", ""),
    ],
)
def test_what_generates_as_the_release_of_the_script_did(release: str, pipe: str, call: str) -> None:
    lines = [IDS, "pipe = pipeline('text-generation', model=model, tokenizer=tokenizer)", "print(pipe('a'))"]
    lines += ["from transformers import GenerationConfig", "config = GenerationConfig(max_new_tokens=4)"]
    lines += ["print(model.generate(**ids, generation_config=config))", "print(model.generate(**ids, top_k=3))"]
    older = script(*lines).replace("dtype=", "torch_dtype=").replace("Qwen/Qwen3-0.6B", "Qwen/Qwen2.5-0.5B")
    after = port(older, source_trl=release).after

    made = next(line for line in after.splitlines() if line.startswith("pipe ="))
    assert made.startswith(f"pipe = rt.TextGenerationPipeline(model, tokenizer{pipe}")
    assert made.endswith(")") and ("transformers=" in made) is bool(pipe)
    [asked] = [line for line in after.splitlines() if "generation_config=config" in line]
    assert f"generation_config=config, tokenizer=tokenizer{call}" in asked and ("transformers=" in asked) is bool(call)
    assert "rt.generate(model, **ids, top_k=3, tokenizer=tokenizer))" in after


def test_a_seed_of_torchs_seeds_what_the_port_samples() -> None:
    lines = [IDS, "for row in rows:", "    torch.manual_seed(42)", "    print(model.generate(**ids, do_sample=True))"]
    after = port(script(*lines)).after
    assert "for row in rows:\n    rt.manual_seed(42)\n    print(rt.generate(" in after and "import torch" not in after
    after = port(script("torch.manual_seed(7)", "print(len(rows))")).after
    assert "manual_seed" not in after and "import torch" not in after


@pytest.mark.parametrize(
    ("draw", "stays"),
    [
        ("torch.randperm(4)", True),
        ("torch.utils.data.random_split(rows, [1, 2])", True),
        ("torch.utils.data.dataset.random_split(rows, [1, 2])", True),
        ("torch.utils.data.DataLoader(rows, shuffle=True)", True),
        ("torch.utils.data.DataLoader(rows, 2, True)", True),
        ("torch.utils.data.DataLoader(rows, 2, shuffle=False)", False),
        ("torch.utils.data.DataLoader(rows, 2)", False),
        ("torch.utils.data.DataLoader(rows, shuffle=True, generator=own)", False),
        ("torch.randperm(4, generator=own)", False),
        ("torch.zeros(4)", False),
    ],
)
def test_torchs_seed_stays_where_torch_draws(draw: str, stays: bool) -> None:
    lines = ["torch.manual_seed(7)", f"print({draw})"]
    after = port(script(*lines)).after
    assert ("torch.manual_seed(7)\nprint(" in after) is stays and "rt.manual_seed" not in after
    after = port(script(IDS, *lines, "print(model.generate(**ids, do_sample=True))")).after
    seeds = "torch.manual_seed(7)\nrt.manual_seed(7)\nprint(" if stays else "\nrt.manual_seed(7)\nprint("
    assert seeds in after and after.count("manual_seed") == 1 + stays
    after = port(script(IDS, "; ".join(lines), "print(model.generate(**ids, do_sample=True))")).after
    assert not stays or "torch.manual_seed(7); rt.manual_seed(7); print(" in after


@pytest.mark.parametrize(
    ("said", "stays"), [("  # disable gradient calculations", ""), ("  # no grads", ""), ("  # by rows", "  # by rows")]
)
def test_a_comment_on_gradients_goes_with_their_guard(said: str, stays: str) -> None:
    after = port(script(IDS, f"with torch.no_grad():{said}", "    print(model.generate(**ids))")).after
    assert f"with mesh:{stays}\n    print(rt.generate(" in after
