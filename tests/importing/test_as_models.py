"""An imported model is a model like any other: it can be evaluated, served, fine-tuned, and combined with others."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

import nmtkit
from nmtkit import Request
from nmtkit.serving.app import make_app
from nmtkit.serving.engine import Engine
from nmtkit.serving.limits import Limits
from nmtkit.serving.metrics import Metrics
from nmtkit.serving.search import Offer, describe, search, translators_of
from nmtkit.serving.service import Service
from nmtkit.text.sentencepieces import MARK, package
from nmtkit.translation.jobs import Models
from tests.importing import marian, nematus_files, test_fairseq, transformers_files


def write_with_pieces(folder: Path) -> None:
    """A model whose vocabulary is a SentencePiece model."""
    folder.mkdir()
    package().SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat", "a cat"]), model_prefix=str(folder / "vocab"), vocab_size=11,
        bos_id=-1, eos_id=0, unk_id=1, minloglevel=2,
    )  # fmt: skip
    (folder / "vocab.model").rename(folder / "vocab.spm")
    marian.write(marian.model("transformer", tied_embeddings_all=True), folder, vocabs=["vocab.spm"] * 2)


Write = Callable[[Path], object]
WRITERS: dict[str, Write] = {
    "Nematus": lambda folder: nematus_files.write(folder, "bideep"),
    "Nematus, shallow": lambda folder: nematus_files.write(folder, "nematus-baseline"),
    "fairseq": test_fairseq.write,
    "OPUS-MT": lambda folder: marian.write(marian.model("transformer", tied_embeddings_all=True), folder),
    "OPUS-MT, SentencePiece": write_with_pieces,
    "OPUS-MT of Hugging Face": transformers_files.write,
    "Marian, s2s": lambda folder: marian.write(marian.model("s2s"), folder),
    "Marian, nematus": lambda folder: marian.write(marian.model("nematus"), folder),
}


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.slow) if name in ("Nematus", "OPUS-MT") else name for name in WRITERS],
)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An imported model."""
    folder = tmp_path_factory.mktemp("imported")
    WRITERS[request.param](folder / "theirs")
    nmtkit.import_model(folder / "theirs", output=folder / "imported")
    return folder / "imported"


@pytest.fixture(scope="module")
def lines(model: Path) -> list[list[str]]:
    """Source sentences and translations with words of the model."""
    sides = []
    for side in ("src", "tgt"):
        words = [row.partition("\t")[0] for row in (model / f"vocab.{side}").read_text().splitlines()][4:]
        sides.append(
            [" ".join(words[(n + k) % len(words)] for k in range(1 + n % 4)).replace(MARK, "") for n in range(24)]
        )
    return sides


def test_it_scores_translations_and_pairs(model: Path, lines: list[list[str]], tmp_path: Path) -> None:
    [[forced]] = nmtkit.load(model, "cpu").answer(lines[0][3:4], Request(references=True), lines[1][3:4])
    assert forced.score < 0
    for name, side in (("src", lines[0]), ("good", lines[1]), ("bad", [f"{line} {line}" for line in lines[1]])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in side))
    accuracy = nmtkit.contrast(
        source=tmp_path / "src", correct=tmp_path / "good", incorrect=tmp_path / "bad", model=model, device="cpu"
    )["type"][-1]
    assert accuracy.total == 24


def test_it_is_served(model: Path, lines: list[list[str]]) -> None:
    translators_of.cache_clear()
    offers = (Offer("model", Models((model,), "cpu", None, None, "float32", None).resolved()),)
    models, metrics, limits = {each.name: each for each in describe(offers, Request())}, Metrics(), Limits()
    engine = Engine(partial(search, offers), 1, metrics)
    app = make_app(Service(models, engine, limits, metrics, Request(), False, None), (), ("*",))
    with TestClient(app) as client:
        answer = client.post("/v1/translate", json={"text": lines[0][3]})
    translators_of.cache_clear()
    assert answer.status_code == 200
    [expected] = nmtkit.load(model, "cpu", precision="float32").translate(lines[0][3:4])
    assert answer.json()["text"] == expected


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_an_ensemble_with_itself_is_the_model_in_every_number_format(
    precision: str, model: Path, lines: list[list[str]]
) -> None:
    alone, twice = (nmtkit.load(folders, "cpu", precision=precision) for folders in (model, [model, model]))
    request = Request(n_best=2, max_len_a=0, max_len_b=8)
    one, two = (translator.answer(lines[0], request) for translator in (alone, twice))
    assert [[t.text for t in best] for best in one] == [[t.text for t in best] for best in two]
    np.testing.assert_allclose(
        [t.score for best in one for t in best], [t.score for best in two for t in best], rtol=1e-4, atol=1e-4
    )


def test_it_is_trained_further_on_text_prepared_like_its_own(
    model: Path, lines: list[list[str]], tmp_path: Path
) -> None:
    files = [tmp_path / "text.src", tmp_path / "text.tgt"]
    for path, side in zip(files, lines, strict=True):
        path.write_text("".join(f"{line}\n" for line in side))
    data, tuned = tmp_path / "data", tmp_path / "tuned"
    nmtkit.prep(train=files, dev=files, like=model, output=data, jobs=1)
    nmtkit.vocab(data, src_from=model / "vocab.src", tgt_from=model / "vocab.tgt", jobs=1)
    scored = nmtkit.score(data=data, model=model, split="dev", device="cpu")
    assert 0 <= scored["multi-bleu"].value <= 100
    nmtkit.train(start=model, data=data, output=tuned, max_updates=2, device="cpu")
    before, after = (nmtkit.load(folder, "cpu", precision="float32") for folder in (model, tuned))
    request = Request(references=True)
    scores = [[t.score for [t] in each.answer(lines[0], request, lines[1])] for each in (before, after)]
    assert np.isfinite(scores).all()
    assert scores[0] != scores[1]
    np.testing.assert_allclose(scores[1], scores[0], rtol=0.5)
