"""MarianMTModels of transformers: log-probabilities of their equations, and refused models."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nmtkit.errors import UserError
from nmtkit.importing.reading import read
from nmtkit.importing.transformers import finds
from nmtkit.symbols import SPELLINGS
from tests.importing.marian import WORDS
from tests.importing.test_fairseq import Hostile
from tests.importing.test_marian import built
from tests.importing.transformers_files import PAD, log_probs, model, write

OURS = [3, *range(4, 2 + len(WORDS)), 0]  # nmtkit's ids of <unk>, the words and <pad>


@pytest.mark.parametrize("pickled", [False, True], ids=["safetensors", "bin"])
@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_log_probabilities_are_those_of_the_equations(tied: str, pickled: bool, tmp_path: Path) -> None:
    """For all words of the vocabulary, including <pad>, which only search excludes."""
    write(tmp_path, tied, pickled=pickled)
    found = read(tmp_path)
    assert found.toolkit == "transformers' Marian"
    file = "pytorch_model.bin" if pickled else "model.safetensors"
    assert found.experiment.paper.title == f"{file} of transformers' Marian"
    assert found.tgt.words == [*SPELLINGS, *WORDS[2:]]
    src, tgt = [3, 4, 2, 1, 0], [5, 1, 3, 0]
    ids = [2, *OURS]  # </s> first
    ours_src, ours_tgt = (torch.tensor([[ids[id] for id in side]]) for side in (src, tgt))
    seq2seq = built(found)
    with torch.no_grad():
        rows = seq2seq.output(seq2seq(ours_src, ours_src > 0, ours_tgt)).log_softmax(-1)[0]
    np.testing.assert_allclose(rows[:, ids].numpy(), log_probs(model(tied), src, tgt), rtol=0, atol=1e-4)


def test_search_is_that_of_generate(tmp_path: Path) -> None:
    write(tmp_path)
    search = read(tmp_path).experiment.search
    assert (search.beam_size, search.length_penalty, search.alpha, search.unk) == (3, "power", 1, True)
    assert search.longest(7) == 38  # of the 40, <pad> is the first and </s> the last
    (tmp_path / "generation_config.json").write_text(json.dumps({"num_beams": 6, "length_penalty": 0.5}))
    search = read(tmp_path).experiment.search
    assert (search.beam_size, search.alpha) == (6, 0.5)
    (tmp_path / "generation_config.json").write_text(json.dumps({"num_beams": None, "length_penalty": None}))
    search = read(tmp_path).experiment.search
    assert (search.beam_size, search.alpha) == (3, 1)


def test_settings_that_a_folder_lacks_have_transformers_defaults(tmp_path: Path) -> None:
    write(tmp_path)
    file = tmp_path / "config.json"
    given = json.loads(file.read_text())
    del given["num_beams"], given["max_length"]
    file.write_text(json.dumps(given))
    found = read(tmp_path).experiment
    assert (found.search.beam_size, found.search.length_penalty, found.search.alpha) == (1, "power", 1)
    assert found.search.longest(99) == 20 - 2
    assert found.model.dropout == 0.1
    file.write_text(json.dumps(given | {"dropout": 0.3}))
    assert read(tmp_path).experiment.model.dropout == 0.3


def test_the_target_vocabulary_has_its_own_size_unless_all_tables_are_one(tmp_path: Path) -> None:
    for tied in ("all", "target", "none"):
        write(tmp_path / tied, tied, decoder_vocab_size=99)
        if tied == "all":
            read(tmp_path / tied)
        else:
            refused(tmp_path / tied, r"target_vocab\.json: has 12 words, but .* has decoder_vocab_size 99")


def test_settings_of_search_that_nmtkit_lacks_are_named(tmp_path: Path) -> None:
    write(tmp_path, min_length=3)
    file = tmp_path / "generation_config.json"
    without_effect = {"repetition_penalty": 1.0, "bad_words_ids": [[PAD]], "no_repeat_ngram_size": 0}
    file.write_text(json.dumps(without_effect))
    assert read(tmp_path).notes[1:] == (f"{tmp_path / 'config.json'}: min_length: 3 is not applied",)
    file.write_text(json.dumps({"repetition_penalty": 1.2, "bad_words_ids": [[5]], "min_length": 0}))
    assert read(tmp_path).notes[1:] == (
        f"{file}: repetition_penalty: 1.2 is not applied", f"{file}: bad_words_ids: [[5]] is not applied",
    )  # fmt: skip


def test_languages_are_those_of_the_tokenizer_or_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "opus-mt-fr-ro"
    write(folder)
    assert (read(folder).prep.src.language, read(folder).prep.tgt.language) == ("fr", "ro")
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "ROMANCE"}))
    assert (read(folder).prep.src.language, read(folder).prep.tgt.language) == ("en", "ro")


def test_a_model_is_found_by_its_folder_and_by_its_weights(tmp_path: Path) -> None:
    write(tmp_path)
    assert finds(tmp_path)
    assert finds(tmp_path / "model.safetensors")
    assert not finds(tmp_path / "config.json")
    (tmp_path / "config.json").unlink()
    assert not finds(tmp_path)


def test_tables_that_are_stored_several_times_must_be_equal(tmp_path: Path) -> None:
    tensors = write(tmp_path)
    tensors["lm_head.weight"] = tensors["model.shared.weight"]
    tensors["model.encoder.embed_positions.weight"] = torch.zeros(9, 8)  # which transformers does not read
    (tmp_path / "model.safetensors").unlink()
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    assert "output.weight" not in read(tmp_path).parameters
    torch.save(tensors | {"lm_head.weight": tensors["lm_head.weight"] + 1}, tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"lm_head\.weight: differs from model\.shared\.weight, to which config.json"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("setting", "value", "complaint"),
    [
        ("model_type", "bart", "config.json: model_type: 'bart' cannot be imported, only 'marian'"),
        ("scale_embedding", False, "scale_embedding: False cannot be imported, only True"),
        ("normalize_before", True, "normalize_before: True cannot be imported, only False"),
        ("activation_function", "gelu", "activation_function: 'gelu' cannot be imported, only 'swish' or 'relu'"),
        ("decoder_layers", 3, "decoder_layers: 3 cannot be imported, only 2"),
        ("encoder_layers", 10**9, "encoder_layers: 1000000000 is not a number from 1 to 1,000,000"),
        ("encoder_layers", "two", "encoder_layers: 'two' is not a number from 1 to 1,000,000"),
        ("num_beams", "many", "num_beams: 'many' is not a number"),
        ("d_model", 10**12, "d_model: 1000000000000 is not a number from 1 to 1,000,000"),
        ("encoder_ffn_dim", 13, "decoder_ffn_dim: 12 cannot be imported, only 13"),
        ("vocab_size", 13, r"vocab.json: has 12 words, but .*config.json has vocab_size 13; copy the model's own"),
        ("eos_token_id", 5, "eos_token_id: 5 cannot be imported, only 0"),
        ("decoder_start_token_id", 3, "decoder_start_token_id: 3 cannot be imported, only 11"),
        ("tie_word_embeddings", False, "tie_word_embeddings: False cannot be imported, only True"),
    ],
)
def test_what_cannot_be_held_exactly_is_refused(setting: str, value: Any, complaint: str, tmp_path: Path) -> None:
    write(tmp_path, **{setting: value})
    refused(tmp_path, complaint.replace("\\\\", "\\"))


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("truncated", r"model\.safetensors: is damaged or not safetensors \(.*\); download it again"),
        ("text", "is damaged or not safetensors"),
        ("hostile", r"pytorch_model\.bin: is damaged or not a checkpoint of tensors and plain values"),
        ("list", r"pytorch_model\.bin: expected tensors by name, found list"),
        ("integers", "tensor final_logits_bias: expected floating-point numbers"),
        ("missing", "tensor final_logits_bias: missing"),
        ("further", "tensor model.encoder.layer_norm.weight: has no place"),
        ("start", "tensor model.shared.weight: the row 11 of <pad>, which starts translations, is not zero"),
        ("words", "vocab.json: not found; it belongs to the model"),
        ("padding", "vocab.json: has no <pad>; copy the model's own there"),
        ("config", "/config.json: damaged; transformers writes it beside the weights"),
        ("search", "generation_config.json: damaged; copy it again"),
        ("value", r"generation_config\.json: num_beams: 'many' is not a number"),
        ("out of bounds", r"generation_config\.json: search\.alpha: -1\.0 is not between 0 and 10"),
        ("parts", r"model\.safetensors\.index\.json: weights in several files cannot be imported; merge them with tr"),
        ("binary", r"model\.bin: if these are weights of Marian, give the \.npz file from which marian-conv made them"),
    ],
)
def test_bad_files_are_answered_in_a_line(kind: str, complaint: str, tmp_path: Path) -> None:
    tensors = write(tmp_path)
    weights, pickled = tmp_path / "model.safetensors", tmp_path / "pytorch_model.bin"
    match kind:
        case "truncated":
            weights.write_bytes(weights.read_bytes()[:-100])
        case "text":
            weights.write_text("weights")
        case "config":
            (tmp_path / "config.json").write_text("[1")
        case "search":
            (tmp_path / "generation_config.json").write_text("[]")
        case "value":
            (tmp_path / "generation_config.json").write_text('{"num_beams": "many"}')
        case "out of bounds":
            (tmp_path / "generation_config.json").write_text('{"length_penalty": -1.0}')
        case "parts":
            weights.rename(tmp_path / "model-00001-of-00002.safetensors")
            (tmp_path / "model.safetensors.index.json").write_text("{}")
        case "binary":
            weights.rename(tmp_path / "model.bin")
            (tmp_path / "config.json").unlink()
        case "words":
            (tmp_path / "vocab.json").unlink()
        case "padding":
            vocabulary = tmp_path / "vocab.json"
            vocabulary.write_text(vocabulary.read_text().replace("<pad>", "pad"))
        case _:
            weights.unlink()
            bias = "final_logits_bias"
            start = tensors["model.shared.weight"].clone()
            start[PAD, 0] = 1
            torch.save(
                {
                    "hostile": {"model": Hostile()},
                    "list": [tensors],
                    "integers": tensors | {bias: torch.ones(1, PAD + 1, dtype=torch.int8)},
                    "missing": {name: tensor for name, tensor in tensors.items() if name != bias},
                    "further": tensors | {"model.encoder.layer_norm.weight": torch.ones(8)},
                    "start": tensors | {"model.shared.weight": start},
                }[kind],
                pickled,
            )
    refused(tmp_path, complaint)


def refused(folder: Path, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint) as error:
        read(folder)
    assert "\n" not in str(error.value)
