"""Models of Nematus: the authors' log-probabilities from files written like Nematus', and refused models."""

import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nmtkit as nmtkit_package
from nmtkit.errors import UserError
from nmtkit.importing.nematus import read
from nmtkit.models import bideep
from nmtkit.text.pipeline import TextPipeline
from nmtkit.translation.loading import load_model
from tests.importing.nematus_files import GOLDEN, SYSTEMS, nematus_ids, write


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_imported_model_has_the_log_probabilities_of_the_authors_code(system: str, tmp_path: Path) -> None:
    write(tmp_path / "theirs", system)
    imported = nmtkit_package.import_model(tmp_path / "theirs", output=tmp_path / "ours")
    assert imported.found.toolkit == "Nematus"
    model, _ = load_model(tmp_path / "ours", torch.device("cpu"))
    golden = np.load(GOLDEN / f"{system}.npz")
    sizes = json.loads(str(golden["config"]))["vocab"]
    # An id of the golden batch, whose softmax has all words, is Nematus' id, and then the imported model's.
    new = [{old: id + 2 for id, old in enumerate(nematus_ids(size))} for size in sizes]
    src, tgt = (
        [[new[side][int(id)] for id in row] for row in golden[name]] for side, name in enumerate(("src", "tgt"))
    )
    mask, real = torch.from_numpy(golden["src_mask"]), golden["tgt_mask"]
    with torch.no_grad():
        hidden = model(torch.tensor(src), mask, torch.tensor(tgt))
        log_probs = model.output(hidden).log_softmax(-1).gather(-1, torch.tensor(tgt)[..., None])[..., 0].numpy()
    assert np.abs(log_probs - golden["log_probs"])[real].max() < 1e-4


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [
        ("output_hidden_activation", "relu", "output_hidden_activation: 'relu' cannot be imported, only 'tanh'"),
        ("factors", 2, "factors: 2 cannot be imported, only 1"),
        ("enc_recurrence_transition_deep_input", True, "deep_input: True cannot be imported, only False"),
        ("decoder_deep", "lstm", "decoder_deep lstm with dec_deep_context True: cannot be imported"),
        ("dim", "ten", "dim: 'ten' is not a number from 1 to 1,000,000"),
        ("layer_normalisation", 1, "layer_normalisation: 1 cannot be imported, only True or False"),
        ("layer_normalisation", False, "tensor .*: has no place in nmtkit's architecture"),
        ("dim", 9, "tensor encoder_W: shape"),
        ("tie_decoder_embeddings", False, "tensor ff_logit_W: missing"),
        ("use_dropout", True, "use_dropout with model_version 0: cannot be imported"),
        ("n_words", 16, "n_words: 16, but the weights have 15 words"),
        ("enc_depth_bidirectional", 3, "enc_depth_bidirectional 3: is more than enc_depth"),
        ("tie_encoder_decoder_embeddings", True, "differs from"),
        ("dictionaries", ["a.json"], "dictionaries: expected a list of 2 files"),
        ("dictionaries", ["en/a.json", "de/a.json"], "dictionaries: en/a.json and de/a.json have the same name"),
        ("dictionaries", ["", "/"], "dictionaries: expected a list of 2 files"),
        ("decoder_deep", ["gru"], r"decoder_deep \['gru'\] with dec_deep_context True: cannot be imported"),
        ("dictionaries", ["a.json", "b.json"], "a.json: not found; the options name this dictionary"),
    ],
)
def test_what_cannot_be_held_exactly_is_refused(option: str, value: object, complaint: str, tmp_path: Path) -> None:
    write(tmp_path / "theirs", "bideep", **{option: value})
    refused(tmp_path / "theirs", complaint, tmp_path)


def test_the_command_says_what_it_found_and_what_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nmtkit: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("theirs"), "bideep")
    outcome = nmtkit("import", "theirs", "-o", "ours")
    assert (outcome.status, outcome.out) == (0, "")
    said = outcome.err.splitlines()
    assert said[0].startswith("Nematus: bideep (embedding 8, hidden 10,")
    assert said[1] == "languages: en to de"
    assert said[2] == "vocabularies: 19 + 17 words with the four symbols"
    assert "segmentation: none, because there is no *.bpe, *.codes, bpe.model or pair of bpe.model.LANGUAGE" in said
    assert "parameters in model.npz: 10,299" in said or any("parameters in model.npz" in line for line in said)
    assert said[-1] == "next: nmtkit translate -m ours < in.txt > out.txt"
    Path("in.txt").write_text("en2 en3 en4\n\nen9\n")
    Path("ref.txt").write_text("de2 de3\n\nde4\n")
    for options in ([], ["--precision", "int8"], ["-m", "ours"], ["--score-reference", "ref.txt"]):
        translated = nmtkit("translate", "-m", "ours", "-i", "in.txt", *options)
        assert translated.status == 0, translated.err
        assert translated.out.count("\n") == 3


def test_a_model_of_nmtkit_itself_needs_no_import(tmp_path: Path) -> None:
    nmtkit_package.import_model(write(tmp_path / "theirs", "bideep"), output=tmp_path / "ours")
    with pytest.raises(UserError, match="ours: is already a model of nmtkit; use it as it is"):
        nmtkit_package.import_model(tmp_path / "ours", output=tmp_path / "again")


def test_of_several_files_of_bpe_none_is_chosen(tmp_path: Path) -> None:
    file = write(tmp_path / "theirs", "bideep")
    for name in ("a.bpe", "b.codes"):
        (file.parent / name).write_text("#version: 0.2\n")
    with pytest.raises(UserError, match=r"theirs: has several files of BPE codes, a\.bpe, b\.codes; leave one there"):
        nmtkit_package.import_model(file, output=tmp_path / "ours")


def test_the_kind_of_a_dictionary_is_not_its_language(tmp_path: Path) -> None:
    file = write(tmp_path / "theirs", "bideep")
    options = file.with_name("model.npz.json")
    named = json.loads(options.read_text())["dictionaries"]
    for name, kind in zip(named, ("bpe", "src"), strict=True):
        file.with_name(Path(name).name).rename(file.with_name(f"vocab.{kind}.json"))
        options.write_text(options.read_text().replace(name, f"vocab.{kind}.json"))
    assert (read(file).prep.src.language, read(file).prep.tgt.language) == ("und", "und")


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        (["ende.bpe"], "BPE, ende.bpe for both sides"),
        (["bpe.model"], "BPE, bpe.model for both sides"),
        (["bpe.model.en", "bpe.model.de"], "BPE, bpe.model.en and bpe.model.de"),
        (["bpe.model.en"], "none, because there is no *.bpe, *.codes, bpe.model or pair of bpe.model.LANGUAGE"),
    ],
)
def test_bpe_codes_have_the_names_of_edinburghs_systems(codes: list[str], said: str, tmp_path: Path) -> None:
    file = write(tmp_path / "theirs", "nematus-baseline-noln")
    for name in codes:
        file.with_name(name).write_text(f"#version: 0.2\ne {name[-1]}\n")
    found = read(file)
    assert f"segmentation: {said}" in found.notes
    expected = dict(zip(("bpe.src", "bpe.tgt"), (codes[0], codes[-1]), strict=True)) if "none" not in said else {}
    assert found.files == {side: file.with_name(name).read_bytes() for side, name in expected.items()}
    assert {found.prep.src.segmentation, found.prep.tgt.segmentation} == {"bpe" if expected else "words"}


def test_truecasing_models_bring_moses_with_aggressive_hyphens_as_in_edinburghs_systems(tmp_path: Path) -> None:
    file = write(tmp_path / "theirs", "nematus-baseline-noln")
    models = {"truecase.src": b"the (5/6) The (1)\n", "truecase.tgt": b"der (4/4)\n"}
    file.with_name("truecase-model.en").write_bytes(models["truecase.src"])
    assert (read(file).prep.src.tokenizer, read(file).files) == ("none", {})  # both sides must have one
    file.with_name("truecase-model.de").write_bytes(models["truecase.tgt"])
    assert read(file).files == models
    nmtkit_package.import_model(file, output=tmp_path / "ours")
    tokens = TextPipeline.load(tmp_path / "ours", "src").tokens("The well-known \u201ccat\u201d & dog")
    assert tokens == "the well @-@ known &quot; cat &quot; &amp; dog".split()


def test_options_that_a_file_lacks_have_nematus_own_defaults(tmp_path: Path) -> None:
    for system in SYSTEMS:
        file = write(tmp_path / "theirs", system)
        settings, complete = file.with_name("model.npz.json"), read(file)
        options = json.loads(settings.read_text())
        usual = {
            "encoder": "gru", "decoder": "gru_cond", "decoder_deep": "gru", "factors": 1, "use_dropout": False,
            "enc_depth": 1, "enc_depth_bidirectional": options["enc_depth"], "enc_recurrence_transition_depth": 1,
            "dec_depth": 1, "dec_base_recurrence_transition_depth": 2, "dec_deep_context": False, "output_depth": 1,
            "dec_high_recurrence_transition_depth": 2 if "cond" in options["decoder_deep"] else 1,
            "layer_normalisation": False, "tie_decoder_embeddings": False, "tie_encoder_decoder_embeddings": False,
        }  # fmt: skip
        given = {name: value for name, value in options.items() if name not in usual or value != usual[name]}
        if given.pop("dec_deep_context", False):
            given["deep_include_ctx"] = True  # the older name
        settings.write_text(json.dumps(given))
        assert read(file).experiment == complete.experiment


def test_cells_that_reuse_the_attention_have_two_transitions_whatever_the_options_say(tmp_path: Path) -> None:
    complete = read(write(tmp_path / "theirs", "dec-crgru4")).experiment
    file = write(tmp_path / "theirs", "dec-crgru4", dec_high_recurrence_transition_depth=5)
    assert read(file).experiment == complete


def test_what_is_no_parameter_is_left_out_and_words_beyond_the_vocabulary_are_unknown(tmp_path: Path) -> None:
    file = write(tmp_path / "theirs", "nematus-baseline-noln")
    before, dictionary = read(file), file.with_name("vocab.en.json")
    others = ("adam_t", "adadelta_x", "rmsprop_x", "sgd_x", "zipped_params")
    np.savez(file, **dict(np.load(file)), **{name: np.zeros(3, np.float32) for name in others})
    dictionary.write_text(json.dumps(json.loads(dictionary.read_text()) | {"rare": 17, "rarer": 99}))
    after = read(file)
    assert after.src.words == before.src.words
    assert after.parameters.keys() == before.parameters.keys()


def test_levels_above_two_chains_have_their_annotations_in_nmtkits_order(tmp_path: Path) -> None:
    """If the chains have an even depth, the file has the state of the chain that ends forward first."""
    golden = np.load(GOLDEN / "enc-biuni4.npz")
    config = json.loads(str(golden["config"]))
    config["model"] |= {"bidirectional_layers": 2}
    model = bideep.build(bideep.Config(**config["model"]), *config["vocab"])
    weights = {name: torch.randn_like(tensor) for name, tensor in model.state_dict().items()}
    arrays = {f"param/{name}": tensor.numpy() for name, tensor in weights.items()}
    np.savez(tmp_path / "random.npz", config=json.dumps(config), **arrays)
    found = read(write(tmp_path / "theirs", str(tmp_path / "random"))).parameters
    compared = [name for name in found if not name.startswith(("embedding", "output"))]
    assert any("above" in name for name in compared)
    assert [name for name in compared if not torch.equal(found[name], weights[name])] == []


def test_a_run_is_not_overwritten_and_an_imported_model_is(tmp_path: Path) -> None:
    file = write(tmp_path / "theirs", "nematus-baseline-noln")
    for _ in range(2):
        nmtkit_package.import_model(file, output=tmp_path / "ours")
    with pytest.raises(UserError, match="holds a run or other files"):
        nmtkit_package.import_model(file, output=tmp_path / "theirs")
    (tmp_path / "ours/checkpoints/step-0/trainer.pt").touch()
    with pytest.raises(UserError, match="holds a run or other files"):
        nmtkit_package.import_model(file, output=tmp_path / "ours")


def test_a_model_that_import_did_not_write_is_kept(tmp_path: Path) -> None:
    file = write(tmp_path / "theirs", "nematus-baseline-noln")
    ours = tmp_path / "ours"
    nmtkit_package.import_model(file, output=ours)
    (ours / "data.json").write_text('{"train.src": "1"}')  # as in an average
    before = (ours / "config.yaml").read_bytes()
    with pytest.raises(UserError, match="ours: holds a model that nmtkit import did not write; give another `output`"):
        nmtkit_package.import_model(file, output=ours)
    assert (ours / "config.yaml").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ({"eos": 0, "UNK": 1, "en2": "2"}, "is not a dictionary of Nematus, which maps words to ids"),
        ({"eos": 0, "UNK": 2, "en2": 3}, "is not a dictionary of Nematus, where eos is 0, UNK is 1 and all ids differ"),
        ({"eos": 0, "UNK": 1, "en2": 1}, "is not a dictionary of Nematus, where eos is 0, UNK is 1 and all ids differ"),
        (
            {"eos": 0, "UNK": 1, "en2": 1, "beyond": 99},
            "is not a dictionary of Nematus, where eos is 0, UNK is 1 and all ids differ",
        ),
        ({"eos": 0, "UNK": 1, "en2": 2}, r"has 3 words, but the weights have \d+; copy the model's own there"),
    ],
)
def test_another_dictionary_is_refused(words: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    file = write(tmp_path / "theirs", "nematus-baseline-noln")
    file.with_name("vocab.en.json").write_text(json.dumps(words))
    refused(file, r"vocab\.en\.json: " + complaint, tmp_path)


def test_tables_of_both_sides_cannot_be_tied_alone(tmp_path: Path) -> None:
    tied = {"tie_decoder_embeddings": False, "tie_encoder_decoder_embeddings": True}
    file = write(tmp_path / "theirs", "bideep", **tied)
    refused(file, "tie_encoder_decoder_embeddings without tie_decoder_embeddings: cannot be imported", tmp_path)


def test_a_path_must_exist(tmp_path: Path) -> None:
    refused(tmp_path / "missing", "missing: not found; give the file or folder of a model", tmp_path)


def test_importing_again_does_not_replace_a_folder_that_contains_the_source(tmp_path: Path) -> None:
    write(tmp_path / "theirs", "nematus-baseline-noln")
    nmtkit_package.import_model(tmp_path / "theirs", output=tmp_path / "ours")
    source = (tmp_path / "theirs").rename(tmp_path / "ours/theirs")
    with pytest.raises(UserError, match=r"ours: contains .*theirs, the model to import; give another `output` folder"):
        nmtkit_package.import_model(source, output=tmp_path / "ours")
    assert list(source.iterdir())


def test_arrays_larger_than_the_free_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "theirs", "nematus-baseline-noln")
    monkeypatch.setattr("nmtkit.importing.npz.free_memory", lambda device: 1000)
    refused(file, "its arrays need 0 MiB of memory, 0 are free", tmp_path)


def refused(source: Path, complaint: str, folder: Path) -> None:
    """The import ends with one line, and nothing is written."""
    with pytest.raises(UserError, match=complaint) as error:
        nmtkit_package.import_model(source, output=folder / "ours")
    assert "\n" not in str(error.value)
    assert not (folder / "ours").exists()


def test_half_a_surrogate_pair_in_a_dictionary_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "theirs", "nematus-baseline-noln")
    path = file.with_name("vocab.en.json")
    path.write_text(path.read_text().replace('"en3"', '"\\ud83d"'))
    with pytest.raises(
        UserError, match=r"vocab\.en\.json: the word with the id 3, '\\ud83d', has half a surrogate pair"
    ):
        nmtkit_package.import_model(file, output=tmp_path / "ours")


def test_the_command_takes_languages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nmtkit: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("theirs"), "bideep", dictionaries=["a.json", "b.json"])
    for side, name in (("en", "a"), ("de", "b")):
        Path(f"theirs/vocab.{side}.json").rename(f"theirs/{name}.json")
    assert (
        "languages: und to und; und is unknown: import again with --src-lang and --tgt-lang"
        in nmtkit("import", "theirs").err
    )
    assert "languages: en to de\n" in nmtkit("import", "theirs", "--src-lang", "en", "-t", "de").err


def test_tied_and_untied_tables(tmp_path: Path) -> None:
    file = write(tmp_path / "theirs", "dec-out4", tie_decoder_embeddings=False)
    arrays = dict(np.load(file))
    np.savez(file, ff_logit_W=arrays["Wemb_dec"].T, **arrays)
    untied = nmtkit_package.import_model(file, output=tmp_path / "untied").found.parameters
    assert torch.equal(untied["output.weight"], untied["embedding.tgt.weight"])
    write(tmp_path / "theirs", "dec-out4", tie_encoder_decoder_embeddings=True)
    del arrays["Wemb_dec"]
    size = len(arrays["ff_logit_b"])
    np.savez(file, **{**arrays, "Wemb": arrays["Wemb"][:size]})
    options = json.loads(file.with_name("model.npz.json").read_text())
    options |= {"n_words_src": size, "dictionaries": ["vocab.de.json"] * 2}
    file.with_name("model.npz.json").write_text(json.dumps(options))
    tied = nmtkit_package.import_model(file, output=tmp_path / "tied").found.parameters
    assert "embedding.src.weight" not in tied


def test_weight_normalisation_is_part_of_the_imported_weights(tmp_path: Path) -> None:
    """W / (|W| s), with 1e-5 added to the squared length of each column."""
    file = write(tmp_path / "theirs", "nematus-baseline", weight_normalisation=True)
    arrays = dict(np.load(file))
    w = arrays["ff_state_W"].astype(np.float64)
    scale = np.linspace(0.5, 2, w.shape[1]).astype(np.float32)
    np.savez(file, ff_state_W_wns=scale, **arrays)
    found = nmtkit_package.import_model(file, output=tmp_path / "ours").found
    expected = w / (np.sqrt((w * w).sum(0) + 1e-5) * scale)
    np.testing.assert_allclose(found.parameters["decoder.initial.weight"].numpy(), expected, rtol=1e-6)
    assert "weight normalisation" in found.notes[-2]
    assert found.notes[-1].startswith("parameters in model.npz: ")  # the next line has those of the model here


def names_from_tensorflow(options: dict[str, Any]) -> set[str]:
    """The arrays that Nematus' ``theano_tf_convert.py --from_tf`` writes, if the checkpoint has all its variables."""

    def gru(prefix: str, parts: str, transition: int) -> set[str]:
        suffix = f"_drt_{transition}" if transition else ""
        names = [f"{prefix}_{part}{suffix}" for part in parts.split()]
        return {*names, *(f"{name}_ln{letter}" for name in names if "_b" not in name for letter in "bs")}

    levels = [f"encoder{way}{f'_{k + 1}' if k else ''}" for way in ("", "_r") for k in range(options["enc_depth"])]
    cells = [(name, options["enc_recurrence_transition_depth"]) for name in levels]
    high = options["dec_high_recurrence_transition_depth"]
    cells += [(f"decoder_{k + 2}", high) for k in range(options["dec_depth"] - 1)]
    names = gru("decoder", "U Ux W Wx b bx", 0) | gru("decoder", "Wc Wcx", 0)
    for k in range(options["dec_base_recurrence_transition_depth"] - 1):
        suffix = f"_drt_{k}" if k else ""
        added = gru("decoder", "U_nl Ux_nl b_nl bx_nl", 0)
        names |= {re.sub("_nl", f"_nl{suffix}", name) for name in added}
    for prefix, depth in cells:
        names |= gru(prefix, "U Ux W Wx b bx", 0)
        for k in range(1, depth):
            names |= gru(prefix, "U Ux b bx", k)
    names |= {f"decoder_{name}" for name in ("U_att", "W_comb_att", "Wc_att", "b_att", "c_tt")}
    names |= {f"decoder_{name}_ln{letter}" for name in ("W_comb_att", "Wc_att") for letter in "bs"}
    layers = ("ff_state", "ff_logit_ctx", "ff_logit_lstm", "ff_logit_prev")
    names |= {f"{layer}_{part}" for layer in layers for part in ("W", "b", "ln_b", "ln_s")}
    return names | {"Wemb", "Wemb_dec", "ff_logit_W", "ff_logit_b", "history_errs", "uidx"}


@pytest.mark.parametrize(
    "system", ["bideep", "dec-dt8", "dec-gru4", "enc-alt3", "enc-alt4", "enc-dt4", "nematus-baseline", "nematus-dt"]
)
def test_a_checkpoint_of_tensorflow_is_one_of_theano_after_nematus_own_conversion(system: str, tmp_path: Path) -> None:
    """Its names of arrays are the same; its options have a few other names."""
    file = write(tmp_path / "theirs", system)
    theano = nmtkit_package.import_model(file, output=tmp_path / "ours").found
    settings = file.with_name("model.npz.json")
    options = json.loads(settings.read_text())
    assert set(np.load(file)) <= names_from_tensorflow(options)
    arrays = dict(np.load(file)) | {"history_errs": np.array([]), "decoder_c_tt": np.zeros(1, np.float32)}
    np.savez(file, **arrays)
    new = {"dim_word": "embedding_size", "dim": "state_size", "n_words_src": "source_vocab_size",
           "n_words": "target_vocab_size", "layer_normalisation": "use_layer_norm"}  # fmt: skip
    options |= {"use_dropout": True, "output_hidden_activation": "tanh"}
    settings.write_text(json.dumps({new.get(name, name): value for name, value in options.items()}))
    tensorflow = nmtkit_package.import_model(file, output=tmp_path / "ours").found
    assert tensorflow.experiment.model == theano.experiment.model
    for name, tensor in tensorflow.parameters.items():
        if not name.endswith("score_shift"):  # which changes no probability, and which TensorFlow lacks
            assert torch.equal(tensor, theano.parameters[name])


def damaged(file: Path, kind: str) -> None:
    arrays = dict(np.load(file))
    match kind:
        case "truncated":
            file.write_bytes(file.read_bytes()[:-900])
        case "bomb":
            np.savez_compressed(file, **{**arrays, "Wemb": np.zeros((4_000_000, 8), np.float32)})
        case "shape":
            header = io.BytesIO()
            np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (2**60, 8)})
            with zipfile.ZipFile(file, "a") as archive:
                archive.writestr("huge.npy", header.getvalue() + b"1234")
        case "longer":
            with zipfile.ZipFile(file, "a") as archive:
                content = io.BytesIO()
                np.save(content, np.zeros(3, np.float32))
                archive.writestr("extra.npy", content.getvalue() + b"1234")
        case "twice":
            with zipfile.ZipFile(file) as archive:
                entry = archive.read("Wemb.npy")
            with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
                archive.writestr("Wemb.npy", entry)
        case "pickle":
            np.savez(file, **arrays, bad=np.array([{}], dtype=object))
        case "missing":
            del arrays["decoder_U"]
            np.savez(file, **arrays)
        case "left":
            np.savez(file, **arrays, ff_extra_W=np.zeros(3, np.float32))
        case "nan":
            arrays["ff_logit_b"][3] = np.nan
            np.savez(file, **arrays)
        case "scalar":
            np.savez(file, **{**arrays, "Wemb": np.float32(1)})
        case "foreign":
            np.savez(file, weights=np.zeros(3))


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("truncated", r"model\.npz: is damaged or not an \.npz file \(.*\); download it again"),
        ("bomb", "its arrays are more than 100 times as large as the file"),
        ("shape", r"\(huge\.npy: negative dimensions"),
        ("longer", r"\(extra\.npy: is longer than its header says\)"),
        ("twice", r"\(two arrays have the same name\)"),
        ("pickle", r"\(bad\.npy: Object arrays"),
        ("missing", "tensor decoder_U: missing"),
        ("left", "tensor ff_extra_W: has no place"),
        ("nan", "output.bias: contains values that are not finite"),
        ("scalar", "n_words_src: 17, but the weights have 1 words"),
        ("foreign", "not a model that nmtkit can import"),
    ],
)
def test_damaged_and_hostile_files_are_answered_in_a_line(kind: str, complaint: str, tmp_path: Path) -> None:
    file = write(tmp_path / "theirs", "nematus-baseline-noln")
    damaged(file, kind)
    refused(file, complaint, tmp_path)
