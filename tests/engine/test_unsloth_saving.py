"""What Unsloth's model saves: adapters, GGUF files, a base in 4 bits that is merged."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file

from .porting import check_becomes, port
from .test_dating_by_commits import committed
from .unsloth_scripts import PUT_IN, script


def test_an_adapter_saved_by_unsloths_method() -> None:
    check_becomes(script() + "model.save_lora('lora')\n", "rt.save_adapter(model, 'lora')\n", gone=("save_lora",))


SAVES = "model.save_pretrained_gguf('out', tokenizer{})\n"
PINNED = "# /// script\n# dependencies = ['unsloth=={}']\n# ///\n"


@pytest.mark.parametrize(
    ("given", "before", "behind", "left"),
    [
        ("", "", "", "rt.save_gguf(model, 'out', tokenizer)\n"),
        (", quantization_method='q4_k_m'", "", "", "rt.save_gguf(model, 'out', tokenizer, 'q4_k_m')\n"),
        ("", "", "import os\nprint(os.listdir('out'))\n", 'tokenizer, layout="folder")\n'),
        ("", "", "print('out/unsloth.Q8_0.gguf')\n", 'tokenizer, layout="folder")\n'),
        ("", "", "print('out-unsloth.Q8_0.gguf')\n", 'tokenizer, layout="name")\n'),
        ("", PINNED.format("2024.5"), "", 'tokenizer, layout="name")\n'),
        ("", PINNED.format("2024.6"), "", 'tokenizer, layout="folder")\n'),
        ("", PINNED.format("2024.4"), "print('out/unsloth.Q8_0.gguf')\n", 'tokenizer, layout="folder")\n'),
        ("", PINNED.format("2025.3.19"), "", 'tokenizer, layout="folder")\n'),
        ("", PINNED.format("2026.1.1"), "", 'tokenizer, layout="working folder")\n'),
        ("", PINNED.format("2026.3.1"), "", "rt.save_gguf(model, 'out', tokenizer)\n"),
    ],
)
def test_gguf_files_are_made_by_llama_cpp(given: str, before: str, behind: str, left: str) -> None:
    ported = port(before + script() + SAVES.format(given) + behind)
    assert ported.status == "ported" and left in ported.after
    assert [finding.severity for finding in ported.findings if finding.rule == "TP722"] == ["warning"]


@pytest.mark.parametrize(("day", "layout"), [("2024-06-19", "name"), ("2024-06-20", "folder")])
def test_gguf_files_began_with_their_folders_name(tmp_path: Path, day: str, layout: str) -> None:
    text = script().replace("processing_class=", "tokenizer=") + SAVES.format("")
    assert f'layout="{layout}")' in port_file(committed(tmp_path, day, text)).after


@pytest.mark.parametrize(
    ("pin", "whole", "gguf"),
    [
        ("", True, True),
        ("unsloth==2025.3.19", False, False),
        ("unsloth==2025.6.1", True, False),
        ("unsloth==2025.10.1", True, False),
        ("unsloth==2025.10.2", True, True),
        ("trl<0.9.0", False, False),  # beside which Unsloth is of 2024
    ],
)
def test_a_base_in_4_bits_is_merged_as_its_release_does(pin: str, whole: bool, gguf: bool) -> None:
    text = PINNED.replace("unsloth=={}", pin) if pin else ""
    text += script().replace("load_in_4bit=False", "load_in_4bit=True")
    ported = port(text + SAVES.format("") + "model.save_pretrained_merged('whole', tokenizer)\n")
    assert ("rt.merge_and_unload(model, unquantized=True)" in ported.after) is whole
    assert ("rt.save_gguf(model, 'out', tokenizer, unquantized=True" in ported.after) is gguf


@pytest.mark.parametrize(("pin", "whole"), [("", False), ("2025.10.2", True)])
def test_a_script_that_looks_for_older_ggufs_has_their_weights(pin: str, whole: bool) -> None:
    text = PINNED.format(pin) if pin else ""
    text += script().replace("load_in_4bit=False", "load_in_4bit=True") + SAVES.format("")
    for file in ("out/unsloth.Q4_K_M.gguf", "out-unsloth.Q4_K_M.gguf"):
        assert ("unquantized=True" in port(f"{text}print('{file}')\n").after) is whole


@pytest.mark.parametrize(
    ("saves", "says"),
    [
        (SAVES.format("") + "print(open('out_gguf/Modelfile').read())\n", "writes no Modelfile"),
        (SAVES.format(", first_conversion='f16'"), "has no such method"),
        ("made = " + SAVES.format(""), "has no such method"),
    ],
)
def test_what_the_port_has_not_of_gguf_files_is_an_error(saves: str, says: str) -> None:
    ported = port(script() + saves)
    assert ported.status == "partial" and says in str(ported.findings)


@pytest.mark.parametrize(
    ("release", "load", "ends"),
    [
        ("2025.3.19", "", True),
        ("2025.3.19", ", fast_inference=False", True),
        ("2025.3.19", ", fast_inference=True", False),
        ("2026.8.8", "", True),
        ("2026.8.9", "", False),
    ],
)
def test_save_lora_without_vllm_ends_the_gpu_run(release: str, load: str, ends: bool) -> None:
    text = script().replace("load_in_4bit=False", f"load_in_4bit=False{load}")
    found = port(f"# pip install unsloth=={release}\n{text}model.save_lora('out')\n").findings
    said = next(each for each in found if each.rule == "TP723")
    assert (said.severity == "warning", f"Unsloth {release} gives a model no save_lora" in said.message) == (ends, ends)


def test_blocks_that_never_run_are_told_once() -> None:
    blocks = "".join(f"if False: model.save_pretrained_merged('{to}', tokenizer)\n" for to in "ab")
    found = [each for each in port(script() + blocks).findings if each.rule == "TP717"]
    assert [each.message.partition(" never")[0] for each in found] == ["2 blocks from here on"]


def test_the_comment_of_a_last_import_goes_with_it() -> None:
    text = script().replace("import SFTConfig, SFTTrainer\n", "import SFTConfig, SFTTrainer  # the trainer\n# Rows\n")
    after = port(text).after
    assert "from porter import runtime as rt\n\n# Rows\n" in after and "# the trainer" not in after


@pytest.mark.parametrize(
    ("ahead", "four", "fix"),
    [(True, False, "Write rt.save_model(model, 'base16')"), (True, True, "without load_in_4bit"), (False, False, "")],
)
def test_a_base_without_adapters_has_nothing_to_merge(ahead: bool, four: bool, fix: str) -> None:
    saved = "model.save_pretrained_merged('base16', tokenizer)\n"
    text = script().replace("load_in_4bit=False", f"load_in_4bit={four}")
    found = port(text.replace(PUT_IN, saved + PUT_IN) if ahead else text + saved)
    said = [each for each in found.findings if "has no adapters here" in each.message]
    assert found.status == ("partial" if ahead else "ported")
    assert len(said) == ahead and all(fix in each.fix for each in said)
