"""NEFTune's noise: its size, that it depends on the seed alone, and that evaluation has none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from porter.runtime.arguments import SFTConfig
from porter.runtime.batches.sft_batches import SFTBatches
from porter.runtime.losses.neftune import noisy_embeddings
from porter.runtime.losses.token_loss import model_inputs, token_loss
from porter.runtime.training.training_settings import training_config
from porter.validate.jax_side.folded_batches import fold_batches
from tests.runtime.byte_tokens import byte_tokenizer

EMBED = 64


class Embedder:
    def encode(self, x: Any) -> Any:
        return jnp.zeros((*x.shape, EMBED), jnp.bfloat16)


class Model:
    """Gives back what it reads of its tokens."""

    def __init__(self) -> None:
        self.embedder = Embedder()

    def __call__(self, tokens: Any, *_: Any) -> tuple[Any, None]:
        return self.embedder.encode(tokens), None


def read(noise: list[float] | None, seeds: list[int] | None, length: int = 4096) -> np.ndarray:
    model, tokens = Model(), jnp.zeros((len(seeds or [0]), length), jnp.int32)

    @jax.jit
    def step(noise: Any, seeds: Any) -> Any:
        with noisy_embeddings(model, noise, seeds):
            return model(tokens)[0].astype(jnp.float32)

    given = (None, None) if noise is None else (jnp.asarray(noise), jnp.asarray(seeds, jnp.uint32))
    found = np.asarray(step(*given))
    assert not np.any(model(tokens)[0]), "the embedder is as it was"
    return found


def make(rows: list[dict[str, str]], **settings: Any) -> SFTBatches:
    mesh = SimpleNamespace(shape={"fsdp": 1, "tp": 1})
    given = {"batch_size": 2, "epochs": 1, "sampling": "sequential", "neftune_noise_alpha": 5.0, **settings}
    return SFTBatches(rows, byte_tokenizer(), mesh, **given)


ROWS = [{"text": letter * size} for letter, size in zip("abcd", (3, 8, 5, 2), strict=True)]


def test_noise_is_uniform_within_its_bound() -> None:
    first, second, none = read([4.0, 8.0, 0.0], [1, 2, 3])
    for row, bound in ((first, 4 / np.sqrt(EMBED)), (second, 8 / np.sqrt(EMBED))):
        assert 0.99 * bound < np.abs(row).max() <= bound
        assert row.std() == pytest.approx(bound / np.sqrt(3), rel=0.01) and abs(row.mean()) < 0.01 * bound
    assert not none.any()


def test_noise_depends_on_the_seed_alone() -> None:
    assert np.array_equal(read([1.0], [7]), read([1.0], [7]))
    assert not np.allclose(read([1.0], [7]), read([1.0], [8]))
    assert not read(None, None).any()


def test_batches_carry_the_bound_of_the_gpus_padding() -> None:
    """alpha / sqrt(L): L is the longest row of the micro-batch, with its end token, not this batch's 128."""
    first, second = make(ROWS)
    assert first["noise"].tolist() == pytest.approx([5 / np.sqrt(9)] * 2)
    assert second["noise"].tolist() == pytest.approx([5 / np.sqrt(6)] * 2)
    assert len({*first["noise_seeds"].tolist(), *second["noise_seeds"].tolist()}) == 4
    [apart] = make(ROWS, batch_size=4, processes=2)
    assert apart["noise"].tolist() == pytest.approx([5 / np.sqrt(9)] * 2 + [5 / np.sqrt(6)] * 2)
    [wide] = make(ROWS, batch_size=4, pad_to_multiple_of=8)
    assert wide["noise"].tolist() == pytest.approx([5 / np.sqrt(16)] * 4)
    [together] = make(ROWS, batch_size=4, padding_free=True, max_length=None)
    assert together["noise"].tolist() == pytest.approx([5 / np.sqrt(4 + 9 + 6 + 3)] * 4)
    bucketed = list(make(ROWS, accumulation=2, buckets=[128]))
    assert sorted(np.concatenate([batch["noise"] for batch in bucketed])) == pytest.approx(
        sorted([5 / 3] * 2 + [5 / np.sqrt(6)] * 2)
    )


def test_noise_is_the_same_again_and_another_with_another_seed() -> None:
    def seeds(**settings: Any) -> list[int]:
        return [seed for batch in make(ROWS, **settings) for seed in batch["noise_seeds"].tolist()]

    assert seeds() == seeds() != seeds(seed=43)
    made = make(ROWS)
    assert [batch["noise_seeds"].tolist() for batch in made] == [batch["noise_seeds"].tolist() for batch in made]


def test_evaluation_and_runs_without_have_no_noise() -> None:
    made = make(ROWS)
    evaluation = made.evaluation(ROWS, batch_size=2)
    assert all("noise" not in batch for batch in evaluation)
    assert all("noise" not in batch for batch in make(ROWS, neftune_noise_alpha=None))
    with pytest.raises(ValueError, match=r"NEFTune noise differs: use buckets"):
        make(ROWS, step_packing=[(1, 128)])


def test_the_loss_reads_the_noise() -> None:
    batch = model_inputs(next(iter(make(ROWS))))
    plain = {name: value for name, value in batch.items() if not name.startswith("noise")}
    assert float(token_loss(Model(), **plain)) != float(token_loss(Model(), **batch))


def test_other_batches_than_sft_refuse_it() -> None:
    args = SimpleNamespace(neftune_noise_alpha=5.0)
    with pytest.raises(ValueError, match="SimpleNamespace has no noise"):
        training_config(args, SimpleNamespace(steps=1))


def test_a_comparison_without_noise_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """validate leaves the noise out on both sides; the arguments go on asking for it."""

    class Folded(SFTBatches):
        pass

    fold_batches(Folded, 1, {})
    monkeypatch.setitem(globals(), "SFTBatches", Folded)
    batches = make(ROWS)
    assert batches.neftune_noise_alpha == 0.0 and "noise" not in next(iter(batches))
    args = SFTConfig("out", neftune_noise_alpha=5.0, save_strategy="no", report_to="none")
    assert training_config(args, batches).max_steps == batches.steps
