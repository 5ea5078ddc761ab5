"""The token-weighted loss. Against TRL's: tests/real/test_loss.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from porter.runtime.losses.for_metrics import for_metrics, named
from porter.runtime.losses.policy_loss import k3
from porter.runtime.losses.token_loss import chosen_logits, model_inputs, token_loss, token_nll


class Fixed:
    """A model that always gives the same logits, and keeps what it was called with."""

    def __init__(self, logits: Any, **info: Any) -> None:
        self.logits, self.calls = logits, []
        self.__dict__.update(info)

    def __call__(self, *arguments: Any, **named: Any) -> tuple[Any, None]:
        self.calls.append((arguments, named))
        return self.logits, None


def batch(labels: list[list[int]], segments: list[list[int]], scale: list[float]) -> dict[str, Any]:
    tokens = jnp.maximum(jnp.asarray(labels), 0)
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    return {
        "input_tokens": tokens,
        "labels": jnp.asarray(labels),
        "positions": positions,
        "segment_ids": jnp.asarray(segments),
        "scale": jnp.asarray(scale),
    }


def test_mask_is_causal_within_a_document_and_padding_sees_itself() -> None:
    mask = model_inputs(batch([[1, 2, 3, 0]], [[1, 1, 2, 0]], [1.0]))["attention_mask"]
    assert mask[0].astype(int).tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def test_loss_is_the_scaled_sum_over_next_tokens() -> None:
    logits = jax.random.normal(jax.random.key(0), (2, 3, 5))
    labels = [[-100, 2, 4], [3, -100, 1]]
    loss = token_loss(Fixed(logits), **model_inputs(batch(labels, [[1, 1, 1]] * 2, [0.5, 2.0])))
    logp = jax.nn.log_softmax(logits)
    expected = -0.5 * (logp[0, 0, 2] + logp[0, 1, 4]) - 2.0 * logp[1, 1, 1]
    assert float(loss) == pytest.approx(float(expected), rel=1e-6)


def test_what_is_for_metrics_reaches_no_loss_and_one_that_is_asked_tells_them() -> None:
    logits = jax.random.normal(jax.random.key(0), (1, 3, 5))
    shares = {"accuracy": jnp.asarray([0.5]), "attended_entropy": jnp.asarray([0.25])}
    made = batch([[-100, int(logits[0, 0].argmax()), -100]], [[1, 1, 0]], [1.0])  # the second predicts nothing
    assert model_inputs(made | named(shares)).keys() == model_inputs(made).keys()
    telling = token_loss.with_metrics(for_metrics(made | named(shares)))
    loss, told = telling(Fixed(logits), **model_inputs(made))
    assert loss == token_loss(Fixed(logits), **model_inputs(made))
    logp = jax.nn.log_softmax(logits[0])
    entropy = -jnp.sum(jnp.exp(logp) * logp, axis=-1)
    assert told == {
        "mean_token_accuracy": 0.5,
        "entropy": pytest.approx(float(0.25 * (entropy[0] + entropy[1])), rel=1e-6),
    }
    assert token_loss.with_metrics({})(Fixed(logits), **model_inputs(made)) == (loss, {})


def test_a_compiled_loss_is_not_taken_for_one_of_another_batch() -> None:
    made = model_inputs(batch([[-100, 2, 4]], [[1, 1, 0]], [1.0]))
    model = Fixed(jax.random.normal(jax.random.key(0), (1, 3, 5)))
    losses = [token_loss.with_metrics({"entropy": jnp.asarray([share])}) for share in (0.5, 1.0)]
    first, second = (jax.jit(loss, static_argnums=0)(model, **made)[1]["entropy"] for loss in losses)
    assert float(second) == pytest.approx(2 * float(first))


def test_label_smoothing_is_the_mean_over_the_vocabulary() -> None:
    """(1 - factor) × likelihood of the label + factor × mean over the vocabulary, as transformers' LabelSmoother."""
    logits = jax.random.normal(jax.random.key(0), (2, 3, 5))
    made = batch([[-100, 2, 4], [3, -100, 1]], [[1, 1, 1]] * 2, [0.5, 2.0]) | {"smoothing": jnp.asarray([0.1, 0.1])}
    loss = token_loss(Fixed(logits), **model_inputs(made))
    logp = jax.nn.log_softmax(logits)
    likely = -0.5 * (logp[0, 0, 2] + logp[0, 1, 4]) - 2.0 * logp[1, 1, 1]
    spread = -0.5 * (logp[0, 0].mean() + logp[0, 1].mean()) - 2.0 * logp[1, 1].mean()
    assert float(loss) == pytest.approx(float(0.9 * likely + 0.1 * spread), rel=1e-6)


def test_untrained_rows_count_nothing_even_with_infinite_logits() -> None:
    nll = token_nll(jnp.full((1, 3, 4), -jnp.inf).at[..., 0].set(0.0), jnp.asarray([[-100, -100, -100]]))
    assert nll.tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_chosen_logits_and_their_gradient_are_a_gather_s(dtype: str) -> None:
    logits = jax.random.normal(jax.random.key(0), (2, 3, 7)).astype(dtype)
    tokens, weights = jnp.asarray([[0, 6, 3], [2, 2, 5]]), jnp.asarray([[1.0, 2.0, 0.5], [3.0, 0.0, 1.0]])

    def gathered(logits: Any) -> Any:
        return jnp.take_along_axis(logits, tokens[..., None], axis=-1)[..., 0]

    assert (chosen_logits(logits, tokens) == gathered(logits)).all()
    ours, theirs = (
        jax.grad(lambda x, of=of: (of(x) * weights).sum())(logits.astype("float32"))
        for of in (lambda x: chosen_logits(x, tokens), gathered)
    )
    assert (ours == theirs).all()
    assert chosen_logits(logits, jnp.full((2, 3), -100)).tolist() == [[0.0] * 3] * 2


def test_bfloat16_logits_are_summed_in_float32() -> None:
    logits = jnp.linspace(-4, 4, 4096, dtype=jnp.bfloat16).reshape(1, 1, 4096).repeat(2, 1)
    labels = jnp.asarray([[0, 7]])
    exact = token_nll(logits.astype(jnp.float32), labels)
    assert token_nll(logits, labels).dtype == jnp.float32
    assert np.array_equal(token_nll(logits, labels), exact)


def test_segments_reach_the_model_only_where_flash_attention_reads_them() -> None:
    inputs = model_inputs(batch([[1, 2]], [[1, 1]], [1.0]))
    logits = jnp.zeros((1, 2, 4))
    plain, flash = (Fixed(logits, config=SimpleNamespace(use_flash_attention=on)) for on in (False, True))
    token_loss(plain, **inputs)  # type: ignore[arg-type]
    token_loss(flash, **inputs)  # type: ignore[arg-type]
    assert plain.calls[0][1] == {}
    assert set(flash.calls[0][1]) == {"segment_ids"}


def test_packed_rows_beyond_gemma_2_s_window_are_refused() -> None:
    model = Fixed(
        jnp.zeros((1, 4, 4)),
        config=SimpleNamespace(sliding_window_size=2),
        porter=SimpleNamespace(family=SimpleNamespace(name="gemma2")),
    )
    inputs = model_inputs(batch([[1, 2, 3, 3]], [[1, 1, 2, 2]], [1.0]))
    assert float(token_loss(model, **inputs)) > 0  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sliding window of 2"):
        token_loss(model, **inputs, documents=jnp.asarray([2]))  # type: ignore[arg-type]


def test_the_divergence_within_rounding_is_none_and_pulls_at_nothing() -> None:
    reference = jnp.asarray([-0.5, -8.0, -8.0])
    apart = jnp.asarray([1e-6, 8e-6, -1e-3])
    pull = jax.grad(lambda logps: k3(logps, reference).sum())(reference + apart)
    np.testing.assert_allclose(pull, [0.0, 0.0, 1 - np.exp(1e-3)], rtol=1e-3)
    assert k3(reference + apart, reference)[:2].tolist() == [0.0, 0.0]
