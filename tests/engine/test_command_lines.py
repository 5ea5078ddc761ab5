"""Hyper-parameters from a command line or a configuration tree: the port keeps the parser and reads it alike."""

import pytest

from .porting import check_becomes

IMPORTS = """from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer
"""


def script(head: str, name: str, rate: str, folder: str, lora: str, tail: str) -> str:
    return f"""{IMPORTS}{head}
    model = AutoModelForCausalLM.from_pretrained({name})
    trainer = SFTTrainer(
        model,
        args=SFTConfig(output_dir={folder}, learning_rate={rate}, max_steps=5, report_to="none"),
        train_dataset=load_dataset("json", data_files="rows.jsonl", split="train"),
        processing_class=AutoTokenizer.from_pretrained({name}),
        peft_config={lora},
    )
    trainer.train()
{tail}"""


HYDRA = """import hydra
from omegaconf import DictConfig


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg: DictConfig) -> None:"""
TYPER = """from pathlib import Path

import typer

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def main(name: str, output: Path = typer.Option(Path("out"), "--output", "-o"), rate: float = 2e-4, rank: int = 16):
    \"\"\"Fine-tune a model.\"\"\""""
CLICK = """import click


@click.command()
@click.option("--rate", type=float, default=2e-4)
@click.option("--rank", type=int, default=16)
@click.argument("name")
def main(name, rate, rank):"""
FIRE = """import fire


def main(name: str = "Qwen/Qwen3-0.6B", rate: float = 2e-4, rank: int = 16):"""
TYRO = """from dataclasses import dataclass

import tyro


@dataclass
class Args:
    name: str = "Qwen/Qwen3-0.6B"
    rate: float = 2e-4
    rank: int = 16


def main(args: Args) -> None:"""
RANK = "LoraConfig(r={rank}, lora_alpha=32)"

STYLES = {
    "hydra": (HYDRA, "cfg.model", "cfg.train.rate", "cfg.out", RANK.format(rank="cfg.lora.r"), "main()"),
    "typer": (TYPER, "name", "rate", "str(output)", RANK.format(rank="rank"), "app()"),
    "click": (CLICK, "name", "rate", '"out"', RANK.format(rank="rank"), "main()"),
    "fire": (FIRE, "name", "rate", '"out"', RANK.format(rank="rank"), "fire.Fire(main)"),
    "tyro": (TYRO, "args.name", "args.rate", '"out"', RANK.format(rank="args.rank"), "main(tyro.cli(Args))"),
}


@pytest.mark.parametrize("style", STYLES)
def test_values_stay_those_of_the_command_line(style: str) -> None:
    head, name, rate, folder, lora, call = STYLES[style]
    tail = f'\n\nif __name__ == "__main__":\n    {call}\n'
    rank = lora.partition("r=")[2].partition(",")[0]
    found = check_becomes(
        script(head, name, rate, folder, lora, tail),
        f"rt.load_model({name}, mesh)",
        f"optax.linear_schedule({rate}, 0.0, batches.steps)",
        f"rt.lora_rules(model, r={rank}, lora_alpha=32)",
        f"rt.fresh_dir({folder})",
        tail,
        gone=("import torch", "from trl", "from peft"),
    )
    # The parser with all its flags: up to the body's first line.
    assert head.partition("\n\n\n")[2] in found.after
    compile(found.after, "port.py", "exec")


def test_a_configuration_tree_spread_over_the_arguments() -> None:
    source = script(HYDRA, "cfg.model", "1e-4", '"out"', "LoraConfig(**cfg.lora)", "")
    source = source.replace('SFTConfig(output_dir="out", learning_rate=1e-4, max_steps=5, report_to="none")', "args")
    source = source.replace("    trainer = ", "    args = SFTConfig(**cfg.trainer)\n    trainer = ")
    found = check_becomes(
        source,
        "args = SFTConfig(**cfg.trainer)",
        "rt.SFTBatches.from_args(",
        "mean_over=rt.mean_over(model, ",
        "LoraConfig(**cfg.lora)",
        "rt.apply_peft(model, peft_config, mesh, seed=args.seed)",
    )
    assert "from porter.runtime.arguments import LoraConfig, SFTConfig" in found.after
