"""What Unsloth's preference trainers take: fields of their config as keywords, which TRL has lost."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.real


def test_settings_given_to_a_trainer_are_its_configs(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    import transformers
    import trl

    from porter.validate.torch_side.gpu_libraries.unsloth_parts.trl import taking_settings

    found: dict[str, Any] = {}

    def init(self: Any, model: Any = None, args: Any = None, processing_class: Any = None) -> None:
        found.update(args=args, processing_class=processing_class)

    made = taking_settings(init, "DPOConfig")
    config = trl.DPOConfig(str(tmp_path), learning_rate=3e-6, bf16=False)
    made(None, args=config, beta=0.3, max_length=77, tokenizer="words")
    assert found["args"] is config and (config.beta, config.max_length, found["processing_class"]) == (0.3, 77, "words")
    plain = transformers.TrainingArguments(str(tmp_path), learning_rate=4e-6, bf16=False)
    made(None, args=plain, beta=0.2)
    assert isinstance(found["args"], trl.DPOConfig) and (found["args"].beta, found["args"].learning_rate) == (0.2, 4e-6)
    with pytest.raises(TypeError, match="nonsense"):
        made(None, args=config, nonsense=1)
