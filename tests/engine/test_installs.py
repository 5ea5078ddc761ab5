"""Install commands: the GPU's libraries become the port's, everything else stays."""

from __future__ import annotations

import pytest

from porter.engine.assembling.installs import changed_words
from porter.engine.packs.packs import load_packs
from porter.engine.packs.said_by_packs import facts_in
from tests.engine.porting import PLAIN, check_becomes, check_noop, port

FACTS = facts_in(load_packs())


@pytest.mark.parametrize(
    ("words", "want"),
    [
        ("-q trl", '-q "tpu-port[tpu]"'),
        ("trl peft wandb", '"tpu-port[tpu]" wandb'),
        ("-U 'trl>=0.9' datasets==2.1 evaluate", '-U "tpu-port[tpu]" evaluate'),
        ("git+https://github.com/huggingface/peft.git@main rich", '"tpu-port[tpu]" rich'),
        ("torch --index-url https://download.pytorch.org/whl/cu121", '"tpu-port[tpu]"'),
        ("--no-deps trl", '"tpu-port[tpu]"'),
        ('-U trl=="0.8.6" transformers=="4.40.0" rich', '-U "tpu-port[tpu]" rich'),
        ("trl=='0.8.6' rich=='13'", "\"tpu-port[tpu]\" rich=='13'"),
        ("{xformers} trl", '"tpu-port[tpu]"'),
        ("rich wandb", "rich wandb"),
        ("transformers==4.40", "transformers==4.40"),
        ("flash-attn rich", "rich"),
        ("-r requirements.txt", "-r requirements.txt"),
    ],
)
def test_the_words_of_a_command(words: str, want: str) -> None:
    assert changed_words(words, FACTS, "tpu-port[tpu]") == want


def test_later_commands_lose_what_the_first_brings() -> None:
    assert changed_words("peft transformers==4.40 rich", FACTS, "") == "rich"


def test_a_library_that_the_port_still_imports_stays() -> None:
    assert changed_words("torch trl", FACTS, "tpu-port[tpu]", {"torch"}) == 'torch "tpu-port[tpu]"'


@pytest.mark.parametrize(
    ("words", "want"),
    [
        ("-q accelerate==0.21.0 peft==0.4.0 trl", '-q accelerate peft "tpu-port[tpu]"'),
        ("'peft>=0.4,<0.9' torch==2.0.1 trl", "'peft>=0.4' torch \"tpu-port[tpu]\""),
        ("'peft~=0.4' trl", 'peft "tpu-port[tpu]"'),
        ("peft!=0.5 trl", 'peft!=0.5 "tpu-port[tpu]"'),
        ("git+https://a.b/peft.git trl", 'git+https://a.b/peft.git "tpu-port[tpu]"'),
        ("-q transformers peft accelerate", '-q transformers "tpu-port[tpu]" peft accelerate'),
        ("transformers==4.31.0 peft==0.4.0 rich", '"tpu-port[tpu]" peft rich'),
        ('-q "tpu-port[tpu]" peft', '-q "tpu-port[tpu]" peft'),
    ],
)  # fmt: skip
def test_what_stays_is_of_the_port_s_day_and_the_port_s_libraries_stand_beside(words: str, want: str) -> None:
    assert changed_words(words, FACTS, "tpu-port[tpu]", {"peft", "accelerate", "torch"}) == want


@pytest.mark.parametrize("branch", ["", ".git", "@v4.33.0", ".git@refs/pull/25740/head", "@feature/x#egg=y"])
@pytest.mark.parametrize("host", ["git+https://github.com", "git+ssh://git@github.com"])
def test_a_branch_of_the_port_s_own_libraries_goes(host: str, branch: str) -> None:
    assert changed_words(f"{host}/huggingface/transformers{branch} rich", FACTS, "") == "rich"


def test_a_pin_that_goes_where_the_port_s_libraries_are_there_already() -> None:
    assert changed_words("peft==0.4.0 rich", FACTS, "", {"peft"}) == "peft rich"


@pytest.mark.parametrize(
    ("behind", "kept"),
    [
        ("", []),
        ("judge = AutoModelForSequenceClassification.from_pretrained('some/judge')\n", ["torch"]),
        (
            "judge = AutoModelForSequenceClassification.from_pretrained('some/judge', device_map='cpu')\n",
            ["torch", "accelerate"],
        ),
        (
            "judge = AutoModelForSequenceClassification.from_pretrained('some/judge', load_in_8bit=True)\n",
            ["torch", "accelerate", "bitsandbytes"],
        ),
        ("judge = pipeline('text-classification', 'some/judge')\n", ["torch"]),
        ("import deepspeed\nprint(deepspeed)\n", ["deepspeed"]),
        ("import sys, accelerate as a, deepspeed\nprint(a, deepspeed)\n", ["accelerate", "deepspeed"]),
    ],
)
def test_what_the_port_still_loads_with_stays(behind: str, kept: list[str]) -> None:
    libraries = "torch trl peft accelerate bitsandbytes deepspeed transformers"
    imports = "from transformers import AutoModelForSequenceClassification, pipeline\n"
    after = port(f"get_ipython().system('pip install {libraries}')\n{imports}{PLAIN}{behind}").after
    line = next(line for line in after.splitlines() if "pip install" in line)
    words = line.partition("pip install ")[2].rstrip("')").split()
    assert [word for word in words if word not in ('"tpu-port[tpu]"', "transformers")] == kept
    assert '"tpu-port[tpu]"' in words
    listed = "".join(f'#   "{name}",\n' for name in libraries.split())
    after = port(f"# /// script\n# dependencies = [\n{listed}# ]\n# ///\n{imports}{PLAIN}{behind}").after
    found = [line.strip('# ",') for line in after.splitlines() if line.startswith('#     "')]
    assert found == [*kept, "transformers", "tpu-port[tpu]"]


CARD = "# A model\n```python\nfrom unsloth import FastLanguageModel\nmodel = AutoModel.from_pretrained('x')\n```"
PROGRAM = "import unsloth\nprint(unsloth)"


@pytest.mark.parametrize(
    ("behind", "stays"),
    [
        (f'card = f"""{CARD}"""\nopen("README.md", "w").write(card)', False),
        (f"card = '''{CARD}'''", False),
        (f'print("""\n{PROGRAM}\n""")', False),
        (f'open("app.py", "w").write("""\n{PROGRAM}\n""")', True),
        (f'open("app.py", "w").write("""\n{CARD}\n""")', False),
        (PROGRAM, True),
    ],
)
def test_an_example_in_a_text_is_no_import(behind: str, stays: bool) -> None:
    after = port(f"!pip install torch trl 'unsloth[colab-new]'\n{PLAIN}{behind}\n").after
    line = after.splitlines()[0]
    assert line == ("!pip install \"tpu-port[tpu]\" 'unsloth[colab-new]'" if stays else '!pip install "tpu-port[tpu]"')


@pytest.mark.parametrize("command", ["pip -q install", "python -m pip --quiet install", "pip3 --retries=2 -q install"])
def test_options_of_pip_itself_stand_in_front_of_what_it_does(command: str) -> None:
    after = port(f"get_ipython().system('{command} torch trl')\n{PLAIN}").after
    assert after.splitlines()[0] == f"get_ipython().system('{command} \"tpu-port[tpu]\"')"


def test_what_uv_adds_to_a_project_is_the_port_s_libraries() -> None:
    after = port(f"get_ipython().system('uv add -U transformers trl peft wandb')\n{PLAIN}").after
    assert after.splitlines()[0] == "get_ipython().system('uv add -U transformers \"tpu-port[tpu]\" wandb')"


LOADS = "AutoModelForCausalLM.from_pretrained(path)"
PIPELINE = "pipeline('text-generation', model=path)"


@pytest.mark.parametrize("loads", [LOADS, PIPELINE])
@pytest.mark.parametrize(("adapts", "kept"), [("", False), (", peft_config=LoraConfig(r=4)", True)])
def test_peft_stays_where_transformers_may_load_adapters_that_the_port_saved(
    adapts: str, kept: bool, loads: str
) -> None:
    imports = "from transformers import AutoModelForCausalLM, pipeline\nfrom peft import LoraConfig\n"
    trains = PLAIN.replace("train_dataset=", f"{adapts[2:]}, train_dataset=" if adapts else "train_dataset=")
    judge = f"class Judge:\n    def load(self, path):\n        self.model = {loads}\n"
    after = port(f"get_ipython().system('pip install torch trl peft')\n{imports}{trains}{judge}").after
    line = next(line for line in after.splitlines() if "pip install" in line)
    assert loads[:-1] in after and ("peft" in line) == kept


def test_a_notebook_pasted_as_a_script() -> None:
    installs = "!pip install trl\n!pip install peft\nif True:\n    !pip install bitsandbytes\n"
    text = f"# %%\n{installs}# %%\n{PLAIN}%matplotlib inline\n"
    check_becomes(
        text,
        '!pip install "tpu-port[tpu]"\n# %%\n',
        "%matplotlib inline\n",
        gone=("peft\n", "bitsandbytes"),
    )


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("pip install -U pip && pip install trl peft rich", 'pip install -U pip && pip install "tpu-port[tpu]" rich'),
        ("cd src; pip install trl; cd ..", 'cd src; pip install "tpu-port[tpu]"; cd ..'),
        (
            "pip install trl && pip install peft && ls",
            'pip install "tpu-port[tpu]" && pip install "tpu-port[tpu]" && ls',
        ),
    ],
)
def test_commands_behind_one_another(line: str, becomes: str) -> None:
    check_becomes(f"# %%\n!{line}\n# %%\n{PLAIN}", f"!{becomes}\n# %%\n")


def test_a_notebook_exported_as_a_script() -> None:
    call = "get_ipython().system('pip install -q trl rich  # now')\n"
    check_becomes(call + PLAIN, "get_ipython().system('pip install -q \"tpu-port[tpu]\" rich  # now')")


def test_commands_of_a_script_without_training_stay() -> None:
    check_noop("!pip install trl\nprint(1)\n")


def test_text_that_only_looks_like_a_command_stays() -> None:
    text = f'"""\n!pip install trl\n"""\n{PLAIN}'
    assert port(text).after.startswith('"""\n!pip install trl\n"""\n')


def test_a_command_alone_in_its_branch_leaves_a_statement() -> None:
    installs = "!pip install trl\nif HEAD:\n    !pip install wandb\nelif OTHER:\n    !uv pip install -q unsloth\n"
    found = port(f"{installs}{PLAIN}")
    assert "elif OTHER:\n    pass\n" in found.after


IN_BRANCHES = """\
if {first}:
    !pip install unsloth  # anywhere
elif KAGGLE:
    !pip install trl
    !pip install peft
else:
    !pip install sentencepiece "datasets==4.3.0"
    !pip install --no-deps unsloth_zoo {{xformers}} trl
!pip install transformers==4.56.2 rich
!pip install --no-deps trl==0.22.2
"""


def test_every_branch_that_may_be_taken_has_the_port_s_libraries() -> None:
    text = IN_BRANCHES.format(first="'COLAB_' not in NAMES")
    found = check_becomes(
        text + PLAIN,
        '    !pip install "tpu-port[tpu]"  # anywhere\nelif KAGGLE:\n    !pip install "tpu-port[tpu]"\nelse:\n',
        '    !pip install sentencepiece\n    !pip install "tpu-port[tpu]"\n!pip install rich\n',
    )
    assert found.after.count("tpu-port[tpu]") == 3


def test_a_branch_that_may_not_be_taken_brings_nothing_to_what_follows() -> None:
    for head in ("if COLAB:\n", "def setup():\n", "for _ in NAMES:\n", "try:\n    import trl\nexcept ImportError:\n"):
        text = f"{head}    !pip install unsloth\n!pip install trl\n!pip install peft\n{PLAIN}"
        found = port(text)
        assert found.after.count("tpu-port[tpu]") == 2, found.after
        assert '\n!pip install "tpu-port[tpu]"' in found.after


def test_what_was_tried_first_is_there_behind_it() -> None:
    text = f"try:\n    !pip install unsloth\nexcept OSError:\n    !pip install unsloth[new]\n!pip install trl\n{PLAIN}"
    assert port(text).after.count("tpu-port[tpu]") == 2


def test_branches_of_a_script() -> None:
    calls = "import os\nif COLAB:\n    os.system('pip install trl')\nelse:\n    os.system('pip install unsloth')\n"
    found = port(f"{calls}os.system('pip install peft rich')\n{PLAIN}")
    assert found.after.count("tpu-port[tpu]") == 2 and "pip install rich" in found.after


HEAD_OF_A_NOTEBOOK = """\
!pip install -q --upgrade transformers==4.38.2
!pip install -q trl peft
{behind}
"""


@pytest.mark.parametrize(
    ("behind", "becomes"),
    [
        (
            "!pip install -q sentence-transformers==2.7.0  # for the search",
            '!pip install -q sentence-transformers==2.7.0  # for the search\n!pip install -q "tpu-port[tpu]"\n',
        ),
        ("!pip install -q bitsandbytes", '!pip install -q "tpu-port[tpu]"\n'),
        ("x = 1", '!pip install -q "tpu-port[tpu]"\nx = 1\n'),
    ],
)
def test_the_port_s_libraries_come_last_of_what_is_installed_before_the_imports(behind: str, becomes: str) -> None:
    after = port(HEAD_OF_A_NOTEBOOK.format(behind=behind) + PLAIN + "!pip install gradio\n").after
    assert after.startswith(becomes) and after.endswith("!pip install gradio\n")
    assert after.count("tpu-port[tpu]") == 1
