"""A resized vocabulary beside adapters, certain or by a flag of the run: what PEFT saves more."""

from __future__ import annotations

import pytest

from .porting import port, sft_script

IMPORTS = "import sys\nfrom peft import LoraConfig, get_peft_model"
RESIZED = "model.resize_token_embeddings(32003)\n"
ADAPTED = "model = get_peft_model(model, LoraConfig(r=8, target_modules=['q_proj']))"
CHOSEN = "lora = LoraConfig(r=8, target_modules=['q_proj']) if len(sys.argv) > 1 else None"


@pytest.mark.parametrize(
    ("between", "trainer", "says"),
    [
        (RESIZED + ADAPTED, "", True),
        (f"{RESIZED}if len(sys.argv) > 1:\n    {ADAPTED}", "", True),
        (RESIZED + CHOSEN, ", peft_config=lora", True),
        (RESIZED, "", False),
        (RESIZED, ", peft_config=None", False),
        (ADAPTED, "", False),
    ],
)
def test_the_embedding_that_peft_saves_beside_an_adapter(between: str, trainer: str, says: bool) -> None:
    found = port(sft_script(imports=IMPORTS, between=between, trainer=trainer))
    assert any("resized embedding and head" in finding.message for finding in found.findings) == says, found.after
