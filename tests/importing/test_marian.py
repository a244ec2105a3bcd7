"""Models of Marian: read from files as Marian writes them, they give its log-probabilities."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nmtkit
from nmtkit.errors import UserError
from nmtkit.evaluation.forced import score_candidates
from nmtkit.importing.found import Found
from nmtkit.importing.marian import finds, read
from nmtkit.models.base import Seq2Seq
from nmtkit.search.beam import beam_search
from nmtkit.symbols import SPELLINGS, UNK
from nmtkit.text.sentencepieces import learn_sentencepieces, package
from nmtkit.text.settings import load_prep
from tests.importing.marian import EOS, WORDS, Model, log_probs, model, write, write_words

DEEP = {
    "enc_type": "alternating", "enc_depth": 3, "enc_cell_depth": 2, "dec_depth": 3, "dec_cell_base_depth": 4,
    "dec_cell_high_depth": 2, "skip": True, "tied_embeddings": True,
}  # fmt: skip
PRE = {"transformer_preprocess": "n", "transformer_postprocess": "da", "transformer_postprocess_top": "n"}
MODELS: dict[str, Model] = {
    "OPUS-MT": model("transformer", enc_depth=2, dec_depth=2, tied_embeddings_all=True),
    "Transformer, normalised before": model("transformer", **PRE, transformer_ffn_activation="relu"),
    "Transformer, target tied": model("transformer", tied_embeddings=True),
    "Transformer of an old version": model("transformer", version="v1.7.6"),
    "shallow": model("s2s"),
    "shallow without normalisation": model("s2s", layer_normalization=False, tied_embeddings_all=True),
    "deep": model("s2s", **DEEP),
    "deep without normalisation": model("s2s", **DEEP, layer_normalization=False),
    "Nematus": model("nematus"),
    "Nematus, deep transition": model("nematus", enc_cell_depth=4, dec_cell_base_depth=5),
    "Nematus without normalisation": model("nematus", layer_normalization=False, version="v1.7.6"),
}
every_model = pytest.mark.parametrize("made", MODELS.values(), ids=MODELS)
OPUS, SHALLOW = MODELS["OPUS-MT"], MODELS["shallow"]


def built(found: Found) -> Seq2Seq:
    """The model with the parameters that were found."""
    seq2seq = found.experiment.build(len(found.src), len(found.tgt)).eval()
    seq2seq.load_state_dict(found.parameters)
    return seq2seq


def scores(found: Found, src: list[str], tgt: list[str]) -> np.ndarray:
    """The log-probabilities of the target's words and end."""
    [[result]] = score_candidates(
        built(found), [[found.src.ids(src)]], [[found.tgt.ids(tgt)]], device=torch.device("cpu"), max_tokens=100
    )
    return result


@every_model
@pytest.mark.parametrize(
    ("src", "tgt"),
    [(["the", "cat@@", "s", "no", "."], ["ê", "12", "12", ":"]), (["no"], []), (["zebra"], ["▁a", "the"])],
)
def test_log_probabilities_are_marians(made: Model, src: list[str], tgt: list[str], tmp_path: Path) -> None:
    found = read(write(made, tmp_path))
    ids = [[WORDS.index(word) if word in WORDS else 1 for word in side] + [EOS] for side in (src, tgt)]
    np.testing.assert_allclose(scores(found, src, tgt), log_probs(made, *ids), rtol=0, atol=1e-4)
    assert found.toolkit in ("Marian v1.12.43", "Marian v1.7.6")


@every_model
def test_steps_of_search_agree_with_all_steps_at_once(made: Model, tmp_path: Path) -> None:
    found = read(write(made, tmp_path))
    seq2seq = built(found)
    src, tgt = torch.tensor([[5, 6, 4, 2], [7, 2, 0, 0]]), torch.tensor([[4, 8, 9], [6, 5, 2]])
    hidden = seq2seq(src, src > 0, tgt)
    memory, state = seq2seq.begin(src, src > 0)
    for t, words in enumerate([torch.ones(2, dtype=torch.long), *tgt.t()[:-1]]):
        step, state, _ = seq2seq.step(memory, state, words)
        torch.testing.assert_close(step, seq2seq.output(hidden[:, t]).log_softmax(-1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("made", [OPUS, SHALLOW], ids=["OPUS-MT", "shallow"])
def test_what_marian_lacks_has_no_probability_and_the_rest_all_of_it(made: Model, tmp_path: Path) -> None:
    found = read(write(made, tmp_path))
    seq2seq, src = built(found), torch.tensor([[5, 2]])
    memory, state = seq2seq.begin(src, src > 0)
    probabilities = seq2seq.step(memory, state, torch.tensor([1]))[0].exp()[0]
    assert probabilities[:2].tolist() == [0, 0]  # <pad> and <s>
    assert found.tgt.words == [*SPELLINGS, *WORDS[2:]]
    assert torch.all(probabilities[2:] > 0)
    assert probabilities.sum().item() == pytest.approx(1)


def test_words_that_only_marian_can_tell_apart_keep_their_rows(tmp_path: Path) -> None:
    """White space other than the blank, an own <pad>, and what YAML would take for something else."""
    words = ["</s>", "<unk>", "\u00a0", "<pad>", "~", "null", "3.5", "yes", "\u3000x", "-", "z"]
    folder = write(OPUS, tmp_path)
    text = "".join(f"{json.dumps(word)}: {id}\n" for id, word in enumerate(words))
    (folder / "vocab.yml").write_text(text, encoding="utf-8")
    found = read(folder)
    assert found.src.words == [*SPELLINGS, "<00A0>", "~", "null", "3.5", "yes", "<3000>x", "-", "z"]
    table, bias = found.parameters["embedding.tgt.weight"], found.parameters["output.bias"]
    theirs = torch.from_numpy(OPUS.tensors["Wemb"])
    assert torch.equal(table[[0, 2, 3, 4]], theirs[[3, 0, 1, 2]])
    assert bias[0] == OPUS.tensors["decoder_ff_logit_out_b"][0, 3]
    assert torch.equal(table[1], torch.zeros(8))


def test_an_opus_folder_has_its_sentencepiece_models_and_its_settings_of_search(tmp_path: Path) -> None:
    folder = tmp_path / "opus-mt-en-de"
    settings = {"beam-size": 6, "normalize": 0.6, "max-length-factor": 2, "word-penalty": 0.2}
    write(OPUS, folder, models=["model.npz"], **settings)
    pieces = learn_sentencepieces(Counter({"the": 5, "cat": 4, "sat": 3}), 12, ["en"])
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(pieces)
    found = read(folder)
    assert (found.prep.src.language, found.prep.tgt.language) == ("en", "de")
    assert {found.prep.src.segmentation, found.prep.tgt.segmentation} == {"sentencepiece"}
    assert found.files == {"sentencepiece.src": pieces, "sentencepiece.tgt": pieces}
    assert found.prep.src.normalize
    search = found.experiment.search
    assert (search.beam_size, search.length_penalty, search.alpha, search.unk) == (6, "power", 0.6, False)
    assert search.longest(4) == 2 * (4 + 1)
    assert found.notes == (
        "segmentation: SentencePiece, source.spm and target.spm", "normalisation: punctuation, as by Moses",
        f"{folder / 'decoder.yml'}: word-penalty: 0.2 is not applied",
    )  # fmt: skip
    assert found.prep.pieces == 12
    (folder / "preprocess.sh").write_text("spm_encode --model source.spm", encoding="utf-8")
    assert not read(folder).prep.src.normalize
    (folder / "preprocess.sh").write_text('sed -e "s/\u2019/\'/g" | spm_encode --model $2', encoding="utf-8")
    assert read(folder).prep.src.normalize


@pytest.mark.parametrize("suffix", ["spm", "bpe"])
def test_subwords_of_one_side_alone_are_refused(suffix: str, tmp_path: Path) -> None:
    folder = write(OPUS, tmp_path)
    (folder / f"source.{suffix}").touch()
    with pytest.raises(
        UserError, match=rf"target\.{suffix}: not found, but source\.{suffix} is there; copy it there, too$"
    ):
        read(folder)


def test_languages_are_in_the_name_of_the_folder_or_of_its_link_or_given(tmp_path: Path) -> None:
    folder, link = write(OPUS, tmp_path / "model"), tmp_path / "opus-mt-en-de"
    link.symlink_to(folder)
    unknown, named = (nmtkit.import_model(path, output=tmp_path / "ours") for path in (folder, link))
    assert "languages: und to und; und is unknown: import again with `src_lang` and `tgt_lang`" in str(unknown)
    assert "languages: en to de\n" in str(named)
    given = nmtkit.import_model(link, output=tmp_path / "ours", src_lang="fr")
    assert "languages: fr to de\n" in str(given)
    prep = load_prep(tmp_path / "ours")
    assert (prep.src.language, prep.tgt.language) == ("fr", "de")
    link.rename(tmp_path / "fr-ro-2020")
    folder.rename(tmp_path / "en-ro")
    (tmp_path / "link").symlink_to("en-ro")
    assert read(tmp_path / "link").prep.tgt.language == "ro"


def test_models_in_unknown_languages_are_combined_when_these_are_given(tmp_path: Path) -> None:
    for name in ("model", "opus-mt-en-de"):
        write(OPUS, tmp_path / name)
        nmtkit.import_model(tmp_path / name, output=tmp_path / f"{name}-ours")
    models = [tmp_path / "opus-mt-en-de-ours", tmp_path / "model-ours"]
    with pytest.raises(
        UserError, match=r"target language is de and und; import again, with --tgt-lang, the one with und$"
    ):
        nmtkit.load(models, "cpu")
    nmtkit.import_model(tmp_path / "model", output=models[1], src_lang="en", tgt_lang="de")
    assert len([*nmtkit.load(models, "cpu").translate(["the"])]) == 1


def test_a_vocabulary_may_be_text_or_longer_than_the_model_s(tmp_path: Path) -> None:
    """Marian reads a file without the suffix of YAML or JSON as a word per line, and no more words than dim-vocabs."""
    folder = write(OPUS, tmp_path, vocabs=["vocab.txt"] * 2)
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in [*WORDS, "further"]), encoding="utf-8")
    found = read(folder)
    assert found.tgt.words == [*SPELLINGS, *WORDS[2:]]
    assert found.notes[1:] == ("vocabulary: the first 11 of the 12 words of vocab.txt, as in dim-vocabs",)
    (folder / "vocab.txt").write_text("</s>\n<unk>\nthe\nthe\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"vocab\.txt: is not a vocabulary of Marian"):
        read(folder)
    (folder / "vocab.txt").rename(folder / "vocab.fsv")
    with pytest.raises(UserError, match=r"vocab\.fsv: a factored vocabulary; models with factors cannot be imported$"):
        read(write(OPUS, tmp_path, vocabs=["vocab.fsv"] * 2))


def test_words_with_line_breaks_of_other_yaml_and_with_surrogate_pairs_are_read(tmp_path: Path) -> None:
    folder = write(OPUS, tmp_path)
    words = ["</s>", "<unk>", "a\u2028b", "\u0085", '"c\u2029"', '"\\ud83d\\ude00"', "d", "e", "f", "g", "h"]
    (folder / "vocab.yml").write_text("".join(f"{word}: {id}\n" for id, word in enumerate(words)), encoding="utf-8")
    assert read(folder).src.words[4:8] == ["a<2028>b", "<0085>", "c<2029>", "\U0001f600"]


def test_settings_that_a_decoder_yml_lacks_have_marians_defaults(tmp_path: Path) -> None:
    folder = write(OPUS, tmp_path)
    (folder / "decoder.yml").write_text("models: [model.npz]\nvocabs: [vocab.yml, vocab.yml]\n")
    search = read(folder).experiment.search
    assert (search.beam_size, search.length_penalty, search.unk) == (12, "none", False)
    assert [search.longest(length) for length in (0, 4)] == [3, 3 * (4 + 1)]


def test_settings_of_search_that_nmtkit_lacks_are_named(tmp_path: Path) -> None:
    without_effect = {"shortlist": [], "output-sampling": [], "force-decode": False, "word-penalty": 0.0}
    assert len(read(write(OPUS, tmp_path, **without_effect)).notes) == 1
    folder = write(
        OPUS, tmp_path, **{"shortlist": ["lex.s2t", 50, 50], "output-sampling": ["full"], "force-decode": True}
    )
    assert [note.partition("decoder.yml: ")[2] for note in read(folder).notes[1:]] == [
        "shortlist: ['lex.s2t', 50, 50] is not applied", "output-sampling: ['full'] is not applied",
        "force-decode: True is not applied",
    ]  # fmt: skip


def test_bpe_codes_of_an_opus_folder_are_taken_too(tmp_path: Path) -> None:
    folder = write(SHALLOW, tmp_path)
    assert read(folder).prep.src.segmentation == "words"
    for name in ("source.bpe", "target.bpe"):
        (folder / name).write_text("#version: 0.2\na b\n", encoding="utf-8")
    found = read(folder)
    assert (found.prep.src.segmentation, found.prep.src.tokenizer) == ("bpe", "none")
    assert set(found.files) == {"bpe.src", "bpe.tgt"}
    (folder / "source.bpe").write_bytes(b"\x96")
    with pytest.raises(UserError, match=r"source\.bpe:1: byte 0x96 is not UTF-8"):
        read(folder)


def test_a_sentencepiece_model_may_be_the_vocabulary(tmp_path: Path) -> None:
    package().SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat", "a cat"]), model_prefix=str(tmp_path / "vocab"), vocab_size=11,
        bos_id=-1, eos_id=0, unk_id=1, minloglevel=2,
    )  # fmt: skip
    pieces = (tmp_path / "vocab.model").rename(tmp_path / "vocab.spm")
    found = read(write(OPUS, tmp_path, vocabs=["vocab.spm"] * 2))
    assert found.src.words[:4] == list(SPELLINGS)
    assert "\u2581" in found.src.words
    assert found.files == {"sentencepiece.src": pieces.read_bytes(), "sentencepiece.tgt": pieces.read_bytes()}
    assert not found.prep.src.normalize
    pieces.write_bytes(b"text")
    with pytest.raises(UserError, match=r"vocab\.spm: not a SentencePiece model; make it with nmtkit prep$"):
        read(tmp_path)


def test_a_model_is_found_by_its_folder_and_by_its_weights(tmp_path: Path) -> None:
    folder = write(SHALLOW, tmp_path)
    assert finds(folder)
    assert finds(folder / "model.npz")
    assert not finds(folder / "vocab.yml")
    weights = (folder / "model.npz").rename(folder / "best.npz")
    assert read(weights).src.words == [*SPELLINGS, *WORDS[2:]]
    (folder / "decoder.yml").rename(folder / "best.npz.decoder.yml")
    assert read(weights).toolkit == "Marian v1.12.43"
    np.savez(weights, of_another_toolkit=np.zeros(3))
    assert not finds(weights)
    assert not finds(folder)


def test_a_folder_of_a_training_is_read_like_its_file(tmp_path: Path) -> None:
    folder = write(SHALLOW, tmp_path)
    settings = (folder / "decoder.yml").rename(folder / "model.npz.decoder.yml")
    np.savez(folder / "model.npz.optimizer.npz", adam_mt=np.zeros(3))
    assert read(folder).experiment.search.beam_size == 3
    (folder / "model.npz.best-bleu.npz.decoder.yml").write_bytes(settings.read_bytes())
    with pytest.raises(
        UserError, match=r": has several models, model\.npz, model\.npz\.best-bleu\.npz; name the file of one$"
    ):
        read(folder)


OPTIONS = {
    "type": ("amun", r"option type: 'amun' cannot be imported, only 'transformer' or 's2s' or 'nematus'"),
    "right-left": (True, "option right-left: True cannot be imported, only False"),
    "dim-vocabs": ([11, 12], r"option dim-vocabs: \[11, 12\], but .* have 11 and 11 words; give the vocabularies of"),
    "transformer-decoder-autoreg": ("average-attention", "option transformer-decoder-autoreg: 'average-att"),
    "transformer-ffn-activation": ("gelu", "option transformer-ffn-activation: 'gelu' cannot be imported, only 'sw"),
    "transformer-postprocess": ("dhn", r"options transformer-postprocess-emb, .*: '', '', 'hn', '' without dropout"),
    "dec-depth": (3, "option dec-depth: 3 cannot be imported, only 2"),
    "enc-depth": (0, "option enc-depth: 0 is not a number from 1 to 1,000,000"),
    "transformer-dim-ffn": (13, r"tensor encoder_l1_ffn_W1: shape \(8, 12\), expected \(8, 13\)"),
    "transformer-heads": (3, "model.heads: a width of 8 cannot be divided by 3"),
    "tied-embeddings-all": (False, "tensor encoder_Wemb: missing"),
}  # fmt: skip
RECURRENT = {
    "enc-cell": ("lstm", "option enc-cell: 'lstm' cannot be imported, only 'gru'"),
    "dec-cell": ("gru-nematus", "option dec-cell: 'gru-nematus' cannot be imported, only 'gru'"),
    "enc-type": ("bi-unidirectional", "option enc-type: 'bi-unidirectional' cannot be imported, only 'alternating'"),
    "skip": (False, "option skip: False cannot be imported, only True"),
    "dec-cell-base-depth": (1, "option dec-cell-base-depth: 1 is less than 2, around the attention"),
    "layer-normalization": ("yes", "option layer-normalization: 'yes' cannot be imported, only True or False"),
    "dec-cell-high-depth": (1, "tensor decoder_l2_cell2_U: has no place in nmtkit's architecture"),
}


@pytest.mark.parametrize(
    ("made", "option", "value", "message"),
    [
        (made, option, *case)
        for made, cases in ((OPUS, OPTIONS), (MODELS["deep"], RECURRENT))
        for option, case in cases.items()
    ],
)
def test_an_option_that_cannot_be_held_is_named(
    made: Model, option: str, value: Any, message: str, tmp_path: Path
) -> None:
    folder = write(Model(made.options | {option: value}, made.tensors), tmp_path)
    with pytest.raises(UserError, match=f"^{re.escape(str(folder / 'model.npz'))}: {message}"):
        read(folder)


def test_a_tensor_without_a_place_is_named(tmp_path: Path) -> None:
    folder = write(Model(OPUS.options, OPUS.tensors | {"encoder_top_ln_scale": np.ones((1, 8), np.float32)}), tmp_path)
    with pytest.raises(UserError, match=r"tensor encoder_top_ln_scale: has no place in nmtkit's architecture$"):
        read(folder)
    folder = write(Model(OPUS.options, OPUS.tensors | {"Wemb": np.ones((11, 8), np.int8)}), tmp_path)
    with pytest.raises(UserError, match=r"tensor Wemb: expected floating-point numbers$"):
        read(folder)


def test_a_file_without_options_is_refused(tmp_path: Path) -> None:
    folder = write(OPUS, tmp_path)
    np.savez(folder / "model.npz", **OPUS.tensors)
    with pytest.raises(UserError, match=r"model\.npz: has no special:model\.yml, which Marian writes into its models$"):
        read(folder)
    np.savez(folder / "model.npz", **{"special:model.yml": np.frombuffer(b"text", np.int8)})
    with pytest.raises(UserError, match=r"special:model\.yml: expected options, found 'text'$"):
        read(folder)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"models": ["a.npz", "b.npz"]},
            r"models: has several, a\.npz, b\.npz; import each file, then use nmtkit ensemble$",
        ),
        ({"models": []}, r"decoder\.yml: models: expected a list of 1, found \[\]$"),
        ({"vocabs": "vocab.yml"}, r"decoder\.yml: vocabs: expected a list of 2, found vocab\.yml$"),
        ({"vocabs": ["vocab.yml", "../other.yml"]}, r"other\.yml: not found, but .*decoder\.yml names it$"),
        (
            {"vocabs": ["en/vocab.yml", "de/vocab.yml"]},
            r"decoder\.yml: vocabs: en/vocab\.yml and de/vocab\.yml have the same name; rename one, in the options and",
        ),
        ({"normalize": "much"}, r"decoder\.yml: normalize: 'much' is not a number up to 1,000,000$"),
        ({"normalize": 10**400}, r"decoder\.yml: normalize: 1000.* is not a number up to 1,000,000$"),
        ({"max-length-factor": float("inf")}, r"decoder\.yml: max-length-factor: inf is not a number up to 1,000,000$"),
        ({"max-length-factor": float("nan")}, r"decoder\.yml: max-length-factor: nan is not a number up to 1,000,000$"),
        ({"beam-size": 0}, r"decoder\.yml: search\.beam_size: 0 is not between 1 and 10000$"),
    ],
)
def test_a_decoder_yml_that_does_not_name_a_model_is_refused(
    settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        read(write(OPUS, tmp_path, **settings))


def test_without_a_decoder_yml_its_lines_are_asked_for(tmp_path: Path) -> None:
    folder = write(OPUS, tmp_path)
    (folder / "decoder.yml").unlink()
    with pytest.raises(
        UserError, match=r"decoder\.yml: not found; write it: `models: \[FILE\.npz\]` and below it `vocabs:"
    ):
        read(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 0\n<unk>: 1\n", "vocab.yml: has no </s>; give the vocabulary that Marian was trained with"),
        ("</s>: 0\n<unk>: 2\n", "vocab.yml: is not a vocabulary of Marian, whose words have the ids 0, 1, 2, ..."),
        ("</s>: 0\n<unk>: 1\n- x\n", "vocab.yml:3: expected a map of words to ids"),
        (
            '</s>: 0\n<unk>: 1\n"\\ud83d": 2\n',
            r"vocab.yml: the word with the id 2, '\ud83d', has half a surrogate pair",
        ),
        ("", "vocab.yml: expected a map of words to ids"),
        ("[1, 2]", "vocab.yml: expected a map of words to ids"),
        ('</s>: 0\n<unk>: 1\n">>deu<<": 2\n', "vocab.yml: has >>deu<<, which marks a target language: multilingual"),
    ],
)
def test_a_vocabulary_that_is_none_of_marians_is_refused(text: str, message: str, tmp_path: Path) -> None:
    folder = write(OPUS, tmp_path)
    (folder / "vocab.yml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=re.escape(message)):
        read(folder)


def test_embeddings_of_both_sides_need_one_vocabulary(tmp_path: Path) -> None:
    folder = write(OPUS, tmp_path, vocabs=["vocab.yml", "other.yml"])
    write_words(folder / "other.yml", [*WORDS[:-1], "other"])
    with pytest.raises(
        UserError, match=r"other\.yml: differs from .*vocab\.yml, but the model has tied-embeddings-all$"
    ):
        read(folder)


def test_unk_is_not_written_unless_marian_may_write_it(tmp_path: Path) -> None:
    made = Model(OPUS.options, dict(OPUS.tensors))
    made.tensors["decoder_ff_logit_out_b"] = np.where(np.arange(len(WORDS)) == 1, 9, 0)[None].astype(np.float32)
    for allowed in (False, True):
        found = read(write(made, tmp_path, **({"allow-unk": True} if allowed else {})))
        src = torch.tensor([[5, 6, 2]])
        [[best]] = beam_search(built(found), src, src > 0, found.experiment.search)
        assert (UNK in best.ids) == allowed
