"""A model that the port leaves to its run, and that Tunix has not: said where a default or a file beside tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.front.port_script import port_script
from porter.source.project.other_models import is_known_without
from porter.source.project.usual import settings_files
from porter.source.project.usual.held_settings import Settings
from porter.source.project.usual.model_names import usual_value, usual_values

from .named_models import PHI, SCRIPT, folder
from .porting import port

WAYS = {
    "args.model_name": "import argparse\np = argparse.ArgumentParser()\n"
    "p.add_argument('-m', '--model-name', default='{model}')\nargs = p.parse_args()",
    "cfg.model_name": "from dataclasses import dataclass, field\n@dataclass\nclass Config:\n"
    "    model_name: str = field(default='{model}', metadata={{}})\ncfg = Config()",
    "cfg.base": "import argparse\nfrom dataclasses import dataclass\n@dataclass\nclass Config:\n    base: str\n"
    "p = argparse.ArgumentParser()\np.add_argument('--model', default='{model}')\nargs = p.parse_args()\n"
    "cfg = Config(base=args.model)",
    "settings.model": "class Settings:\n    def __init__(self):\n        self.model = '{model}'\nsettings = Settings()",
    "CFG['model']['name']": "import yaml\nwith open('config.yaml') as f:\n    CFG = yaml.safe_load(f)",
    "CFG.get('model').get('name')": "import json\nCFG = json.load(open('config.json'))",
    "MODEL_ID": "from conf import MODEL_ID",
    "conf.MODEL_ID": "import conf",
    "MODELS[args.size]": "import argparse\np = argparse.ArgumentParser()\np.add_argument('--size', default='small')\n"
    "args = p.parse_args()\nMODELS = {{'small': '{model}', 'large': 'Qwen/Qwen3-8B'}}",
    "chosen['id']": "import argparse\np = argparse.ArgumentParser()\np.add_argument('--size', default='small')\n"
    "args = p.parse_args()\nMODELS = {{'small': {{'id': '{model}', 'length': 512}}}}\nchosen = MODELS[args.size]",
    "path": "import os\npath = 'cache/snapshots/1d0f68'\nif not os.path.exists(path):\n    path = '{model}'",
    "DOWNLOADED": "from huggingface_hub import snapshot_download\nDOWNLOADED = snapshot_download(repo_id='{model}')",
    "KAGGLES": "import kagglehub\nKAGGLES = kagglehub.model_download('{model}/transformers/default/1')",
    "MODEL": "import os\nMODEL = os.environ.get('MODEL', '{model}')",
}

FOREIGN = """
aubmindlab/aragpt2-base distilroberta-base roberta-large FacebookAI/xlm-roberta-base EleutherAI/gpt-neo-1.3B
distilbert/distilgpt2 microsoft/DialoGPT-medium NlpHUST/gpt2-vietnamese mymusise/gpt2-small-chinese vinai/phobert-base
microsoft/deberta-v3-large google/electra-base-discriminator google/mt5-small google/flan-t5-small facebook/opt-350m
adapters/facebook_opt-1.3b DAMO-NLP/SeqGPT-560M bigscience/bloomz-560m allspace/PHI_1-5 facebook/bart-base
openai/gpt-oss-20b google/t5gemma-2b-2b-prefixlm google/gemma-3n-E2B-it mistralai/Mixtral-8x7B-v0.1 tiiuae/falcon-7b
sshleifer/tiny-gpt2 answerdotai/ModernBERT-base Salesforce/codet5p-770m duydatnguyen/vi-poem-gpt-neo
EleutherAI/pythia-160m metric/nemotron-3-nano-30b-a3b-bf16 nvidia/NVIDIA-Nemotron-Nano-9B-v2
nvidia/Nemotron-H-8B-Base-8K nvidia/Minitron-4B-Base Salesforce/codegen-350M-mono cyberagent/open-calm-3b
AI-Sweden-Models/gpt-sw3-126m rinna/japanese-gpt-1b nomic-ai/gpt4all-j ai-forever/mGPT replit/replit-code-v1-3b
aisingapore/sea-lion-7b vinai/PhoGPT-4B-Chat google/recurrentgemma-2b CohereForAI/aya-23-8B facebook/MobileLLM-125M
arcee-ai/AFM-4.5B stanford-crfm/BioMedLM baidu/ERNIE-4.5-0.3B-PT roneneldan/TinyStories-33M bigscience/T0_3B
deepseek-ai/DeepSeek-R1 moonshotai/Kimi-K2-Instruct google/pegasus-large allenai/led-base-16384 openai/whisper-tiny
Qwen/Qwen2.5-VL-7B-Instruct meta-llama/Llama-3.2-11B-Vision-Instruct llava-hf/llava-1.5-7b-hf swiss-ai/Apertus-8B
Qwen/Qwen3-VL-30B-A3B-Instruct baidu/ERNIE-4.5-21B-A3B-PT HuggingFaceM4/Idefics3-8B-Llama3 /data/qwen1.8b-chat/
""".split()
NOT_FOREIGN = """
AgentPublic/albert-spp-8b AgentPublic/albertlight-7b me/Llama-3-8B-bert-reranker me/qwen2.5-gpt2-style bdanko/gpt-
judge bdanko/base-gemma-2b-alpaca-evaluation-gpt-5.2 deepseek-ai/DeepSeek-R1-0528-Qwen3-8B deepseek-ai/deepseek-
math-7b-base TheBloke/Mistral-7B-v0.1-GPTQ openchat/openchat-3.5-0106 cognitivecomputations/dolphin-2.9 unsloth/Phi-4
out/sft5 runs/best-opt HuggingFaceH4/zephyr-7b-beta HuggingFaceTB/SmolLM2-135M lmsys/vicuna-7b-v1.5
me/chatgpt5-distill 01-ai/Yi-1.5-6B t500 nvidia/AceReason-Nemotron-7B nvidia/Llama-3.1-Nemotron-Nano-8B-v1
nvidia/Mistral-NeMo-Minitron-8B-Base nvidia/OpenReasoning-Nemotron-1.5B unsloth/Phi-3-mini-4k-instruct
h2oai/h2o-danube3-4b-base sarvamai/sarvam-1 deepseek-ai/DeepSeek-R1-Distill-Llama-8B me/led-controller out/git
vngrs-ai/Kumru-2B
deepseek-ai/DeepSeek-R1-Distill-Qwen-7B Qwen/Qwen2-7B Salesforce/xgen-7b-8k-base me/grokking tiiuae/Falcon3-1B-Base
me/helium-chat Qwen/Qwen1.5-1.8B
""".split()


@pytest.mark.parametrize("name", FOREIGN)
def test_a_name_that_has_a_family_which_tunix_lacks(name: str) -> None:
    assert is_known_without(name)


@pytest.mark.parametrize("name", NOT_FOREIGN)
def test_a_name_that_only_looks_so(name: str) -> None:
    assert not is_known_without(name)


PARSER = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--base', {})\nargs = p.parse_args()\n"


@pytest.mark.parametrize(
    ("name", "argument", "want"),
    [
        (
            "f\"./models/{args.base.replace('/', '-')}\"",
            "choices=['distilroberta-base'], default='distilroberta-base'",
            "./models/",
        ),
        ("path", "default='distilroberta-base'", "me/"),
        ("os.path.join(ROOT, 'models', args.base.split('/')[-1])", "default='a/distilroberta-base'", "models/"),
        ("str(Path(ROOT) / args.base)", "default='distilroberta-base'", ""),
        ("f'{ROOT}/{args.base}'", "required=True, choices=['gpt2', 'distilroberta-base']", ""),
    ],
)
def test_a_name_that_is_put_together(name: str, argument: str, want: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    before = (
        PARSER.format(argument) + "import os\nfrom pathlib import Path\nROOT = os.getcwd()\npath = 'me/' + args.base"
    )
    script.write_text(SCRIPT.format(before=before, name=name))
    ported = port_file(script)
    [error] = [finding for finding in ported.findings if finding.severity == "error"]
    assert error.message.startswith(f"{want}distilroberta-base (") and error.rule == "TP302"

    script.write_text(script.read_text().replace("distilroberta-base", "Qwen3-4B"))
    assert not any(finding.severity == "error" for finding in port_file(script).findings if finding.rule == "TP302")


@pytest.mark.parametrize("name", WAYS)
def test_a_model_that_tunix_has_not_is_an_error(name: str, tmp_path: Path) -> None:
    script = folder(tmp_path, PHI)
    script.write_text(SCRIPT.format(before=WAYS[name].format(model=PHI), name=name))
    ported = port_file(script)
    assert ported.status == "partial"
    [error] = [finding for finding in ported.findings if finding.severity == "error"]
    assert error.message.startswith(PHI) and "doesn't have this model's family" in error.message

    for model in ("Qwen/Qwen3-4B", "me/my-own"):
        folder(tmp_path, model)
        script.write_text(SCRIPT.format(before=WAYS[name].format(model=model), name=name))
        assert port_file(script).status == "ported"


def test_a_name_that_a_star_brings(tmp_path: Path) -> None:
    script = folder(tmp_path, PHI)
    assert usual_value("MODEL_ID", "from conf import *", script) == (PHI, "conf.py")
    assert usual_value("MODEL_ID", "from conf import *\nMODEL_ID = 'a/b'", script) == ("a/b", "")
    assert usual_value("OTHER", "from conf import *", script) is None
    script.write_text(SCRIPT.format(before="from conf import *", name="MODEL_ID"))
    [error] = [finding for finding in port_file(script).findings if finding.severity == "error"]
    assert error.message.startswith(PHI)


@pytest.mark.parametrize(
    ("model", "pin", "said"),
    [
        ("Qwen/Qwen3-0.6B", "transformers==4.50.0", "Qwen/Qwen3-0.6B (new in 4.51): not read"),
        ("mistralai/Mistral-7B-v0.1", "transformers==4.33.2", "mistralai/Mistral-7B-v0.1 (new in 4.34): not read"),
        ("Qwen/Qwen3-0.6B", "transformers==4.51.3", ""),
        ("meta-llama/Llama-2-7b-hf", "transformers==4.31.0", ""),
    ],
)
def test_a_release_that_has_no_such_model(tmp_path: Path, model: str, pin: str, said: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"# pip install {pin}\n" + SCRIPT.format(before="", name=repr(model)))
    found = [finding.message for finding in port_file(script).findings if "goes against" in finding.message]
    assert len(found) == bool(said) and all(said in message for message in found)


@pytest.mark.parametrize("name", ["config['model']['name']", "self.config['model']['name']", "part['name']"])
@pytest.mark.parametrize("beside", ["run.sh", "README.md", ""])
def test_a_file_of_settings_that_a_launch_names_or_that_lies_beside(tmp_path: Path, name: str, beside: str) -> None:
    folder(tmp_path, PHI)
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.yaml").rename(tmp_path / "phi.yaml")
    if beside:
        command = 'CONFIG=${1:-phi.yaml}\npython train.py --config "$CONFIG"\n'
        (tmp_path / beside).write_text(command if beside == "run.sh" else "python train.py --config phi.yaml\n")
        (tmp_path / "qwen.yaml").write_text("model: {name: Qwen/Qwen3-4B}\n")
    before = "import sys, yaml\nconfig = yaml.safe_load(open(sys.argv[2]))\npart = config['model']"
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(before=before, name=name))
    errors = [finding.message for finding in port_file(script).findings if finding.severity == "error"]
    assert [error.startswith(f"{PHI} (phi.yaml)") for error in errors] == [True], errors
    (tmp_path / "phi.yaml").write_text("# Model & more\nmodel:\n  name: Qwen/Qwen3-4B\n")
    assert not [finding for finding in port_file(script).findings if finding.severity == "error"]


def test_files_of_settings_of_which_each_names_another_family(tmp_path: Path) -> None:
    """Nothing was said: a port of them was called ported, and started with none."""
    (tmp_path / "run.sh").write_text("python train.py --config a.yaml\npython train.py --config b.yaml\n")
    (tmp_path / "a.yaml").write_text(f"model: {PHI}\n")
    (tmp_path / "b.yaml").write_text("model: gpt2\n")
    before = "import sys, yaml\nconfig = yaml.safe_load(open(sys.argv[2]))"
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(before=before, name="config['model']"))
    [error] = [finding.message for finding in port_file(script).findings if finding.severity == "error"]
    assert error.startswith((PHI, "gpt2"))
    (tmp_path / "b.yaml").write_text("model: Qwen/Qwen3-4B\n")
    assert port_file(script).status == "ported"


def test_a_flag_that_a_launch_gives(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(before=HELP.format("A model"), name="args.model"))
    assert port_file(script).status == "ported"
    (tmp_path / "run.sh").write_text(f"python train.py\npython train.py --model {PHI}\n")
    [error] = [finding for finding in port_file(script).findings if finding.severity == "error"]
    assert error.message.startswith(f"{PHI} (run.sh)")
    (tmp_path / "other.sh").write_text("python train.py --model=Qwen/Qwen3-4B\n")
    assert port_file(script).status == "ported"


def test_a_default_whose_weights_are_quantised(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    before = HELP.format("A model").replace("required=True", "default='TheBloke/Mistral-7B-v0.1-AWQ'")
    script.write_text(SCRIPT.format(before=before, name="args.model"))
    [error] = [finding for finding in port_file(script).findings if finding.severity == "error"]
    assert "its weights are quantised (AWQ)" in error.message
    script.write_text(script.read_text().replace("TheBloke/Mistral-7B-v0.1-AWQ", "unsloth/mistral-7b-bnb-4bit"))
    assert port_file(script).status == "ported"


@pytest.mark.parametrize("way", ["'{model}'", "args.model_name", "MODEL"])
def test_a_model_that_was_taken_from_the_hub(tmp_path: Path, way: str) -> None:
    """The port was called ported, and ended where it loads the model; a folder of that name is the user's own."""
    script, model = tmp_path / "train.py", "decapoda-research/llama-7b-hf"
    text = SCRIPT.format(before=WAYS.get(way, "").format(model=model), name=way.format(model=model))
    script.write_text(text)
    found = port_file(script)
    [error] = [finding for finding in found.findings if finding.severity == "error"]
    assert (
        found.status == "partial" and "was taken from the Hub" in error.message and "huggyllama/llama-7b" in error.fix
    )
    assert "rt.load_model(" in found.after and found.after.count("TODO(tpu-port") == 1
    script.write_text(text.replace(model, "huggyllama/llama-7b"))
    assert port_file(script).status == "ported"
    script.write_text(text)
    (tmp_path / model).mkdir(parents=True)
    assert port_file(script).status == "ported"


@pytest.mark.parametrize(
    ("model", "files", "severity"),
    [
        ("models/own", ["pytorch_model.bin"], "warning"),
        ("models/own", ["training_args.bin", "model.safetensors"], ""),
        ("models/own", ["pytorch_model.bin", "model.safetensors"], ""),
        ("lmsys/vicuna-7b-v1.5", [], "warning"),
        ("lmsys/vicuna-7b-v1.5", ["model.safetensors"], ""),
        ("meta-llama/Llama-2-7b-hf", [], ""),
    ],
)
def test_weights_in_torchs_files_alone(tmp_path: Path, model: str, files: list[str], severity: str) -> None:
    """rt.load_model needs torch to read them."""
    for file in files:
        (tmp_path / model).mkdir(parents=True, exist_ok=True)
        (tmp_path / model / file).touch()
        (tmp_path / model / "config.json").write_text('{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}')
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(before="", name=repr(model)))
    found = port_file(script)
    said = [each.severity for each in found.findings if "torch's files" in each.message]
    assert said == ([severity] if severity else []) and found.status == "ported"
    script.write_text(SCRIPT.format(before=WAYS["MODEL"].format(model=model), name="MODEL"))
    said = [each.severity for each in port_file(script).findings if "torch's files" in each.message]
    assert said == (["warning"] if severity and not files else [])


HELP = (
    "import argparse\np = argparse.ArgumentParser()\np.add_argument('--model', required=True, help='{}')\n"
    "args = p.parse_args()"
)


@pytest.mark.parametrize(
    ("said", "model"),
    [
        ('A model of the Hub (e.g., "gpt2").', "gpt2"),
        ("For example EleutherAI/pythia-70m.", "EleutherAI/pythia-70m"),
        ("gpt2 or Qwen/Qwen3-0.6B", ""),
        ("The path of a checkpoint", ""),
    ],
)
def test_a_model_of_another_family_that_a_help_text_names_is_a_warning(tmp_path: Path, said: str, model: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(before=HELP.format(said), name="args.model"))
    found = [each for each in port_file(script).findings if "this model's family" in each.message]
    assert [each.severity for each in found] == (["warning"] if model else [])
    assert not model or f"{model} (the help of --model)" in found[0].message


@pytest.mark.parametrize(
    ("tokenizer", "named"), [("microsoft/phi-2", True), ("Qwen/Qwen3-0.6B", False), ("../other", False)]
)
def test_the_tokenizer_of_another_family_tells_what_a_folder_holds(tmp_path: Path, tokenizer: str, named: bool) -> None:
    before = HELP.format("The path").replace("required=True", "default='../sft/final'")
    text = SCRIPT.format(before=before, name="args.model")
    script = tmp_path / "train.py"
    script.write_text(
        text.replace("AutoTokenizer.from_pretrained(args.model)", f"AutoTokenizer.from_pretrained('{tokenizer}')")
    )
    found = [each for each in port_file(script).findings if "this model's family" in each.message]
    assert [each.severity for each in found] == (["error"] if named else [])
    assert not named or "whose tokenizer it takes" in found[0].message


@pytest.mark.parametrize("attribute", ["eod_id", "eos_token_id"])
def test_what_the_tokenizers_of_one_family_alone_have_tells_it(tmp_path: Path, attribute: str) -> None:
    before = HELP.format("The path") + f"\n\ndef pad(tokenizer):\n    tokenizer.pad_token_id = tokenizer.{attribute}\n"
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(before=before, name="args.model"))
    found = [(each.severity, each.line) for each in port_file(script).findings if "family that Tunix" in each.message]
    line = script.read_text().partition("tokenizer.eod_id")[0].count("\n") + 1
    assert found == ([("warning", line)] if attribute == "eod_id" else [])


@pytest.mark.parametrize(
    ("held", "ported"),
    [("self.llm.model", False), ("loader.model", False), ("self.args.model", True), ("cfg.training.model", True)],
)
def test_the_model_of_another_object_is_no_name(held: str, ported: bool) -> None:
    """A torch model went to rt.load_model as if it were an id; that of settings is one."""
    text = (
        "from datasets import load_dataset\nfrom trl import SFTConfig, SFTTrainer\n\n"
        "class Runner:\n    def __init__(self, llm, args):\n        self.llm, self.args = llm, args\n\n"
        "    def run(self, loader, cfg):\n        rows = load_dataset('x', split='train')\n"
        f"        trainer = SFTTrainer({held}, args=SFTConfig('out'), train_dataset=rows)\n        trainer.train()\n"
    )
    found = port(text)
    assert (found.status == "ported") is ported, found.findings
    assert any("where this model comes from" in each.message for each in found.findings) is not ported


@pytest.mark.parametrize("other", [PHI, "Qwen/Qwen3-0.6B"])
def test_a_constant_that_two_modules_of_a_project_have(tmp_path: Path, other: str) -> None:
    """Each means its own; the same text twice is that text."""
    (tmp_path / "rows.py").write_text(
        f"from datasets import load_dataset\n\nMODEL_ID = '{other}'\n\n\ndef load_rows():\n"
        "    return load_dataset('a/b', split='train')\n"
    )
    (tmp_path / "model.py").write_text(
        "from transformers import AutoModelForCausalLM\n\n"
        f"MODEL_ID = '{PHI}'\n\n\ndef load_model(name=MODEL_ID):\n"
        "    return AutoModelForCausalLM.from_pretrained(name)\n"
    )
    script = tmp_path / "train.py"
    script.write_text(
        "from model import load_model\nfrom rows import load_rows\nfrom trl import SFTConfig, SFTTrainer\n\n"
        "trainer = SFTTrainer(load_model(), args=SFTConfig('out'), train_dataset=load_rows())\ntrainer.train()\n"
    )
    found = port_script(script)
    errors = [each for port in (found, *found.modules) for each in port.findings if each.severity == "error"]
    assert any(PHI in error.message for error in errors), errors


def test_what_leads_back_to_itself_is_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty options, each the default of the next, beside a file that isn't there: a port took over a minute."""
    looked = []
    find = settings_files.file_in
    monkeypatch.setattr(settings_files, "file_in", lambda folders, name: (looked.append(name), find(folders, name))[1])
    fields = [f"parser.add_argument('--f{n}', default=args.f{(n + 1) % 30})" for n in range(30)]
    text = "\n".join(["import yaml", *fields, "args = parser.parse_args()", "rows = yaml.safe_load(open('rows.yaml'))"])
    assert usual_values("args.f0", text, tmp_path / "train.py", None) == []
    assert looked == ["rows.yaml"]
    asked: list[list[str]] = []
    at = Settings._at
    monkeypatch.setattr(Settings, "_at", lambda self, path, depth: (asked.append(path), at(self, path, depth))[1])
    three = text.replace("default=args.f3)", "default=args.f0)")
    assert usual_values("args.f0", three, tmp_path / "train.py", None) == []
    assert asked == [["f0"], ["f1"], ["f2"]]
    closed = text.replace("default=args.f7", "default='Qwen/Qwen3-0.6B'")
    assert usual_values("args.f0", closed, tmp_path / "train.py", None) == [("Qwen/Qwen3-0.6B", "the default of --f0")]
