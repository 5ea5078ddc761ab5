"""The values of often used metrics, under the names and with the keywords of their modules on the Hub.

Each takes predictions and references. Libraries are imported where they are asked for: `packages.toml` has them
installed for a script that loads the metric.
"""

from __future__ import annotations

import collections
import math
import re
import string
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Values = dict[str, Any]
WANTED = ("predictions", "references", "prediction_scores")
ROUGE = ("rouge1", "rouge2", "rougeL", "rougeLsum")
ARTICLES = re.compile(r"\b(a|an|the)\b")
REGRESSION, BOTH = ("stsb",), ("mrpc", "qqp")  # GLUE's tasks that aren't scored by accuracy alone


def _of_sklearn(function: str, name: str) -> Callable[..., Values]:
    def score(predictions: Sequence[Any], references: Sequence[Any], **given: Any) -> Values:
        from sklearn import metrics

        value = getattr(metrics, function)(references, predictions, **given)
        return {name: float(value) if getattr(value, "size", 1) == 1 else value}

    return score


def _correlation(function: str, name: str) -> Callable[..., Values]:
    def score(predictions: Sequence[float], references: Sequence[float], return_pvalue: bool = False) -> Values:
        from scipy import stats

        found = getattr(stats, function)(predictions, references)
        return {name: float(found[0])} | ({"p-value": float(found[1])} if return_pvalue else {})

    return score


accuracy = _of_sklearn("accuracy_score", "accuracy")
f1 = _of_sklearn("f1_score", "f1")


def glue(predictions: Sequence[Any], references: Sequence[Any], config_name: str = "") -> Values:
    """As the GLUE task `config_name` is scored."""
    if config_name == "cola":
        return _of_sklearn("matthews_corrcoef", "matthews_correlation")(predictions, references)
    if config_name in REGRESSION:
        return SCORES["pearsonr"](predictions, references) | SCORES["spearmanr"](predictions, references)
    return accuracy(predictions, references) | (f1(predictions, references) if config_name in BOTH else {})


def rouge(
    predictions: Sequence[str],
    references: Sequence[Any],
    rouge_types: Sequence[str] | None = None,
    use_aggregator: bool = True,
    use_stemmer: bool = False,
    tokenizer: Callable[[str], list[str]] | None = None,
    whole: bool = False,
) -> Values:
    """F-measures of rouge_score; `whole`: its own aggregates, with `low`, `mid` and `high`."""
    from types import SimpleNamespace

    from rouge_score import rouge_scorer, scoring

    own = {} if tokenizer is None else {"tokenizer": SimpleNamespace(tokenize=tokenizer)}
    types = list(rouge_types or ROUGE)
    scorer = rouge_scorer.RougeScorer(types, use_stemmer=use_stemmer, **own)
    found = []
    for prediction, reference in zip(predictions, references, strict=True):
        many = isinstance(reference, list)
        found.append(scorer.score_multi(reference, prediction) if many else scorer.score(reference, prediction))
    if not use_aggregator:
        return {name: [each[name] if whole else each[name].fmeasure for each in found] for name in types}
    aggregator = scoring.BootstrapAggregator()
    for each in found:
        aggregator.add_scores(each)
    return {name: value if whole else value.mid.fmeasure for name, value in aggregator.aggregate().items()}


def bleu(
    predictions: Sequence[Any],
    references: Sequence[Any],
    tokenizer: Callable[[str], list[str]] | None = None,
    max_order: int = 4,
    smooth: bool = False,
) -> Values:
    """Corpus BLEU of texts, or of lists of tokens (Papineni et al. 2002)."""
    cut = tokenizer or words
    matches, possible = [0] * max_order, [0] * max_order
    length = wanted = 0
    for prediction, reference in zip(predictions, references, strict=True):
        own = cut(prediction) if isinstance(prediction, str) else list(prediction)
        given = [reference] if isinstance(reference, str) else reference
        others = [cut(each) if isinstance(each, str) else list(each) for each in given]
        length, wanted = length + len(own), wanted + min(map(len, others))
        for order in range(1, max_order + 1):
            most: collections.Counter[tuple[Any, ...]] = collections.Counter()
            for other in others:
                most |= _grams(other, order)
            matches[order - 1] += (_grams(own, order) & most).total()
            possible[order - 1] += max(len(own) - order + 1, 0)
    more = 1.0 if smooth else 0.0
    pairs = zip(matches, possible, strict=True)
    precisions = [(hit + more) / (all_ + more) if all_ + more else 0.0 for hit, all_ in pairs]
    ratio = length / wanted if wanted else 0.0
    penalty = 1.0 if ratio > 1.0 else math.exp(1 - 1 / ratio) if ratio else 0.0
    mean = math.exp(sum(map(math.log, precisions)) / max_order) if min(precisions) > 0 else 0.0
    return {
        "bleu": mean * penalty,
        "precisions": precisions,
        "brevity_penalty": penalty,
        "length_ratio": ratio,
        "translation_length": length,
        "reference_length": wanted,
    }


def words(text: str) -> list[str]:
    """Words and signs, each for itself."""
    return re.findall(r"\w+(?:[.,]\d+)*|[^\w\s]", text)


def _grams(tokens: Sequence[Any], order: int) -> collections.Counter[tuple[Any, ...]]:
    return collections.Counter(tuple(tokens[start : start + order]) for start in range(len(tokens) - order + 1))


def sacrebleu(predictions: Sequence[str], references: Sequence[Any], **given: Any) -> Values:
    """By the library of that name."""
    import sacrebleu as library

    found = library.corpus_bleu(predictions, _by_number(references), **given)
    names = {"score": "score", "counts": "counts", "totals": "totals", "precisions": "precisions", "bp": "bp"}
    return {key: getattr(found, name) for key, name in (names | {"sys_len": "sys_len", "ref_len": "ref_len"}).items()}


def chrf(predictions: Sequence[str], references: Sequence[Any], **given: Any) -> Values:
    """By sacrebleu."""
    from sacrebleu.metrics import CHRF

    found = CHRF(**given).corpus_score(predictions, _by_number(references))
    return {"score": found.score, "char_order": found.char_order, "word_order": found.word_order, "beta": found.beta}


def _by_number(references: Sequence[Any]) -> list[list[str]]:
    """The first reference of each row, then the second of each."""
    lists = [[each] if isinstance(each, str) else list(each) for each in references]
    return [list(column) for column in zip(*lists, strict=True)]


class _NoSynonyms:
    """In place of WordNet, whose data is fetched."""

    def synsets(self, word: str) -> list[Any]:
        return []


def meteor(
    predictions: Sequence[str], references: Sequence[Any], alpha: float = 0.9, beta: float = 3, gamma: float = 0.5
) -> Values:
    """By nltk, of equal words and equal stems: without its data there are no synonyms."""
    from nltk.translate import meteor_score

    given = {"alpha": alpha, "beta": beta, "gamma": gamma, "wordnet": _NoSynonyms()}
    found = []
    for prediction, reference in zip(predictions, references, strict=True):
        texts = [reference] if isinstance(reference, str) else reference
        own = words(prediction)
        found.append(max(meteor_score.single_meteor_score(words(text), own, **given) for text in texts))
    return {"meteor": sum(found) / len(found)}


def exact_match(
    predictions: Sequence[Any],
    references: Sequence[Any],
    regexes_to_ignore: Sequence[str] | None = None,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
) -> Values:
    """The share of predictions that are their reference."""
    dropped = (string.punctuation if ignore_punctuation else "") + (string.digits if ignore_numbers else "")

    def said(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        for pattern in regexes_to_ignore or ():
            value = re.sub(pattern, "", value)
        return (value.lower() if ignore_case else value).translate(str.maketrans("", "", dropped))

    pairs = list(zip(predictions, references, strict=True))
    return {"exact_match": sum(said(one) == said(other) for one, other in pairs) / len(pairs)}


def squad(predictions: Sequence[dict[str, Any]], references: Sequence[dict[str, Any]], **given: Any) -> Values:
    """Exact match and F1 of the words, in percent, over SQuAD's rows of `prediction_text` and `answers`."""
    answers = {row["id"]: row["answers"]["text"] or [""] for row in references}
    exact = overlap = 0.0
    for row in predictions:
        own = _normal(row["prediction_text"])
        others = [_normal(text) for text in answers[row["id"]]]
        exact += max(own == other for other in others)
        overlap += max(_overlap(own.split(), other.split()) for other in others)
    return {name: 100 * value / len(predictions) for name, value in (("exact_match", exact), ("f1", overlap))}


def squad_v2(predictions: Sequence[dict[str, Any]], references: Sequence[dict[str, Any]], **given: Any) -> Values:
    """As `squad`, under the names of its second version."""
    found = squad(predictions, references)
    return {"exact": found["exact_match"], "f1": found["f1"], "total": len(predictions)}


def _normal(text: str) -> str:
    kept = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(ARTICLES.sub(" ", kept).split())


def _overlap(own: Sequence[str], other: Sequence[str]) -> float:
    if not own or not other:
        return float(own == other)
    return 2 * (collections.Counter(own) & collections.Counter(other)).total() / (len(own) + len(other))


def wer(predictions: Sequence[str], references: Sequence[str]) -> float:
    """Wrong words for each of the references'."""
    return _errors([text.split() for text in predictions], [text.split() for text in references])


def cer(predictions: Sequence[str], references: Sequence[str]) -> float:
    """Wrong letters for each of the references'."""
    return _errors(predictions, references)


def _errors(predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> float:
    wrong = sum(_distance(*pair) for pair in zip(predictions, references, strict=True))
    return wrong / max(sum(map(len, references)), 1)


def _distance(one: Sequence[str], other: Sequence[str]) -> int:
    """Levenshtein's."""
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, 1):
        row = list(_next_row(row, place, letter, other))
    return row[-1]


def _next_row(above: Sequence[int], first: int, letter: str, other: Sequence[str]) -> Iterator[int]:
    left = first
    yield left
    for place, wanted in enumerate(other, 1):
        left = min(left + 1, above[place] + 1, above[place - 1] + (letter != wanted))
        yield left


def seqeval(predictions: Sequence[Any], references: Sequence[Any], **given: Any) -> Values:
    """Each entity's scores and those of all, by the library of that name."""
    from seqeval.metrics import accuracy_score, classification_report

    given.pop("suffix", None)
    report = classification_report(references, predictions, output_dict=True, zero_division=0)
    for name in ("macro avg", "weighted avg"):
        report.pop(name, None)
    whole = report.pop("micro avg", {"precision": 0.0, "recall": 0.0, "f1-score": 0.0})
    names = ("precision", "recall", "f1-score")
    each = {
        key: {"precision": row["precision"], "recall": row["recall"], "f1": row["f1-score"], "number": row["support"]}
        for key, row in report.items()
    }
    overall = {f"overall_{name.removesuffix('-score')}": whole[name] for name in names}
    return each | overall | {"overall_accuracy": accuracy_score(references, predictions)}


SCORES: dict[str, Callable[..., Any]] = {
    "accuracy": accuracy,
    "bleu": bleu,
    "cer": cer,
    "chrf": chrf,
    "exact_match": exact_match,
    "f1": f1,
    "glue": glue,
    "mae": _of_sklearn("mean_absolute_error", "mae"),
    "matthews_correlation": _of_sklearn("matthews_corrcoef", "matthews_correlation"),
    "meteor": meteor,
    "mse": _of_sklearn("mean_squared_error", "mse"),
    "pearsonr": _correlation("pearsonr", "pearsonr"),
    "precision": _of_sklearn("precision_score", "precision"),
    "recall": _of_sklearn("recall_score", "recall"),
    "roc_auc": _of_sklearn("roc_auc_score", "roc_auc"),
    "rouge": rouge,
    "sacrebleu": sacrebleu,
    "seqeval": seqeval,
    "spearmanr": _correlation("spearmanr", "spearmanr"),
    "squad": squad,
    "squad_v2": squad_v2,
    "wer": wer,
}
