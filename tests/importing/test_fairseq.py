"""Models of fairseq's fconv: log-probabilities of its equations in plain code, and refused models."""

import argparse
import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import nmtkit
from nmtkit.errors import UserError
from nmtkit.translation.loading import load_model

E, OUT = 6, 5
STACKS = {  # the widths of ConvS2S grow by a half, too; the decoder of fconv_iwslt_de_en has one layer less
    "encoder": [(4, 3), (4, 3), (6, 5), (8, 1)],
    "decoder": [(4, 3), (6, 5), (4, 1)],
}
LAYERS = {"encoder_layers": "[(4, 3)] * 2 + [(6, 5), (8, 1)]", "decoder_layers": "[(4, 3), (6, 5), (4, 1)]"}
SIZES = {"encoder": 11, "decoder": 9}
PAD, EOS = 1, 2  # fairseq's


def write(
    folder: Path, *, version: int = 2, share: bool = False, new: bool = False, **changed: Any
) -> dict[str, Tensor]:
    """Write a checkpoint with random weights and dictionaries; ``changed`` replaces options. Returns the tensors."""
    generator = torch.Generator().manual_seed(7)
    state: dict[str, Tensor] = {}
    out = E if share else OUT

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    def linear(name: str, rows: int, columns: int) -> None:
        state[f"{name}.weight_v"], state[f"{name}.weight_g"] = random(columns, rows), random(columns, 1)
        state[f"{name}.bias"] = random(columns)

    for side, words in SIZES.items():
        for name, count in (("tokens", words), ("positions", 14)):
            state[f"{side}.embed_{name}.weight"] = random(count, E)
            state[f"{side}.embed_{name}.weight"][PAD] = 0
        rows = STACKS[side][0][0]
        linear(f"{side}.fc1", E, rows)
        for k, (width, kernel) in enumerate(STACKS[side]):
            name = f"{side}.convolutions.{k}"
            state[f"{name}.weight_v"], state[f"{name}.bias"] = random(kernel, rows, 2 * width), random(2 * width)
            old = version < 2 and side == "decoder"
            state[f"{name}.weight_g"] = random(kernel, 1, 1) if old else random(1, 1, 2 * width)
            if rows != width:
                linear(f"{side}.projections.{k}", rows, width)
            if side == "decoder":
                linear(f"decoder.attention.{k}.in_projection", width, E)
                linear(f"decoder.attention.{k}.out_projection", E, width)
            rows = width
        linear(f"{side}.fc2", rows, E if side == "encoder" else out)
    if share:
        state["decoder.fc3.weight"], state["decoder.fc3.bias"] = state["decoder.embed_tokens.weight"], random(9)
    else:
        linear("decoder.fc3", out, SIZES["decoder"])
    if version == 2:
        state["decoder.version"] = torch.tensor([2.0])
    options = {
        "arch": "fconv", "encoder_embed_dim": E, "decoder_embed_dim": E, "decoder_out_embed_dim": out,
        **LAYERS, "decoder_attention": "True", "dropout": 0.1,
        "share_input_output_embed": share, "source_lang": "en", "target_lang": "de",
    } | changed  # fmt: skip
    content = {"args": argparse.Namespace(**options), "model": state}
    if new:  # the languages are options of the task there, and the architecture is the model's name
        task = {name: options.pop(name) for name in ("source_lang", "target_lang")}
        options["_name"] = options.pop("arch")
        content |= {"args": None, "cfg": {"model": argparse.Namespace(**options), "task": task}}
    folder.mkdir(exist_ok=True)
    torch.save(content, folder / "model.pt")
    for language, size in zip(("en", "de"), SIZES.values(), strict=True):
        lines = (f"{language}{id} {100 - id}\n" for id in range(4, size))
        (folder / f"dict.{language}.txt").write_text("".join(lines))
    return state


class Plain:
    """fairseq's equations for one sentence (S,) and the words before each target word (T,), without any padding."""

    def __init__(self, state: dict[str, Tensor], version: int):
        self.state, self.version = state, version

    def linear(self, name: str, x: Tensor) -> Tensor:
        v, g = self.state[f"{name}.weight_v"], self.state[f"{name}.weight_g"]
        y: Tensor = x @ (g * v / v.norm(dim=1, keepdim=True)).T + self.state[f"{name}.bias"]
        return y

    def conv(self, name: str, x: Tensor, before: int, after: int) -> Tensor:
        v, g = self.state[f"{name}.weight_v"], self.state[f"{name}.weight_g"]
        over = (1, 2) if g.shape[0] == len(v) and g.numel() == len(v) else (0, 1)
        w = v * g / v.norm(dim=over, keepdim=True)
        padded = functional.pad(x.T[None], (before, after))
        y = functional.conv1d(padded, w.permute(2, 1, 0), self.state[f"{name}.bias"])[0].T
        half = y.shape[1] // 2
        return y[:, :half] * torch.sigmoid(y[:, half:])

    def embed(self, side: str, ids: Tensor) -> Tensor:
        tokens, places = (self.state[f"{side}.embed_{name}.weight"] for name in ("tokens", "positions"))
        return tokens[ids] + places[PAD + 1 : PAD + 1 + len(ids)]

    def log_probs(self, src: Tensor, before: Tensor) -> Tensor:
        half = math.sqrt(0.5)
        g = self.embed("encoder", src)
        x = self.linear("encoder.fc1", g)
        for k, (_, kernel) in enumerate(STACKS["encoder"]):
            name = f"encoder.projections.{k}"
            kept = self.linear(name, x) if f"{name}.bias" in self.state else x
            x = (self.conv(f"encoder.convolutions.{k}", x, kernel // 2, kernel // 2) + kept) * half
        keys = self.linear("encoder.fc2", x)
        values = (keys + g) * half
        g = self.embed("decoder", before)
        x = self.linear("decoder.fc1", g)
        for k, (_, kernel) in enumerate(STACKS["decoder"]):
            name = f"decoder.projections.{k}"
            kept = self.linear(name, x) if f"{name}.bias" in self.state else x
            u = self.conv(f"decoder.convolutions.{k}", x, kernel - 1, 0)
            query = (self.linear(f"decoder.attention.{k}.in_projection", u) + g) * half
            context = (query @ keys.T).softmax(-1) @ values * math.sqrt(len(src))
            x = ((self.linear(f"decoder.attention.{k}.out_projection", context) + u) * half + kept) * half
        x = self.linear("decoder.fc2", x)
        if "decoder.fc3.weight" in self.state:
            return (x @ self.state["decoder.fc3.weight"].T + self.state["decoder.fc3.bias"]).log_softmax(-1)
        return self.linear("decoder.fc3", x).log_softmax(-1)


SWAP = [1, 0, *range(2, 20)]  # fairseq's <s> is 0 and <pad> 1, nmtkit's the other way round


@pytest.mark.parametrize(
    ("version", "share", "new"), [(2, False, False), (1, False, False), (2, True, False), (2, False, True)]
)
def test_log_probabilities_are_those_of_the_equations(version: int, share: bool, new: bool, tmp_path: Path) -> None:
    """In a batch of sentences of several lengths, for all words of the vocabulary, the symbols included."""
    state = write(tmp_path / "theirs", version=version, share=share, new=new)
    imported = nmtkit.import_model(tmp_path / "theirs", output=tmp_path / "ours")
    assert imported.found.toolkit == "fairseq"
    assert not imported.found.experiment.search.narrowing
    assert ("embeddings and output layer no longer share their weights" in imported.found.notes) == share
    assert imported.found.notes[-1].startswith("values in model.pt: ")  # the next line has those of the model here
    assert imported.found.tgt.words[:6] == ["<pad>", "<s>", "</s>", "<unk>", "de4", "de5"]
    model, _ = load_model(tmp_path / "ours", torch.device("cpu"))
    sources = [[4, 5, 6, 7, 8, 9, EOS], [10, 3, EOS], [EOS]]
    target = torch.tensor([5, 6, 3, 8, EOS])
    src = torch.tensor([row + [0] * (7 - len(row)) for row in sources])
    mask = torch.tensor([[k < len(row) for k in range(7)] for row in sources])
    with torch.no_grad():
        ours = model.output(model(src, mask, target.expand(3, -1))).log_softmax(-1)
    for row, source in enumerate(sources):
        before = torch.cat([torch.tensor([EOS]), target[:-1]])
        expected = Plain(state, version).log_probs(torch.tensor(source), before)[:, SWAP[:9]]
        assert torch.allclose(ours[row], expected, atol=1e-4)


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [
        ("arch", "transformer", "architecture transformer: cannot be imported; only fconv can"),
        ("arch", "fconv_self_att_wp", "architecture fconv_self_att_wp: cannot be imported"),
        (
            "decoder_layers",
            "[(6, 3)] * 2",
            "decoder_layers .*: cannot be imported; the first layer must have",
        ),
        ("encoder_layers", "[(4, -3)]", r"\(4, -3\): expected \(width, kernel\)"),
        ("encoder_layers", "[(4, 2)]", "an even kernel cannot be imported"),
        ("decoder_layers", "[]", r"model\.pt: decoder_layers: expected a list of \(width, kernel\)"),
        ("encoder_layers", "[(4, 3, 2)]", "residual 2: cannot be imported; only 1 can"),
        ("encoder_layers", "[(4, 3)] * 9 ** 9", "expected lists, joined by"),
        ("encoder_layers", "__import__('os').abort()", "expected lists, joined by"),
        ("decoder_attention", "[True, False, False]", "decoder_attention .*: cannot be imported; only True can"),
        ("decoder_embed_dim", 7, "decoder_embed_dim: 7 cannot be imported, only 6"),
        ("encoder_layers", "[(4, 3)] * 3", "tensor encoder.convolutions.2.weight_v: shape"),
        ("decoder_out_embed_dim", 7, "tensor decoder.fc2.weight_v: shape"),
        ("share_input_output_embed", True, "tensor decoder.fc3.weight: missing"),
        ("share_input_output_embed", torch.ones(2), "share_input_output_embed: tensor.* cannot be imported, only True"),
        ("source_lang", "../en", "language '../en': expected a code"),
        ("source_lang", "fr", "dict.fr.txt: not found"),
    ],
)
def test_what_cannot_be_held_exactly_is_refused(option: str, value: Any, complaint: str, tmp_path: Path) -> None:
    write(tmp_path / "theirs", **{option: value})
    refused(tmp_path / "theirs", complaint, tmp_path)


class Hostile:
    def __reduce__(self) -> Any:
        return os.mkdir, ("hostile",)


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("truncated", "not a checkpoint of tensors and plain values"),
        ("text", "not a checkpoint of tensors and plain values"),
        ("hostile", "not a checkpoint of tensors and plain values"),
        ("foreign", "not a checkpoint of fairseq"),
        ("dictionary", "has 12 words with the four symbols, but .* has 11"),
        ("line", "dict.en.txt:8: expected a word and a count"),
        ("repeated", r"dict\.en\.txt:8: duplicate word 'en4'; remove one of the lines"),
        ("sparse", "tensor encoder.fc1.bias: expected floating-point numbers"),
        ("without values", "tensor encoder.fc1.bias: expected floating-point numbers"),
        ("numbered", "tensor 1: has no place in nmtkit's architecture"),
        ("positions", "max_target_positions 8: cannot be imported; only max_source_positions, 12, can"),
        ("two", "has several checkpoints, model.pt, other.pt; name the file of one"),
    ],
)
def test_bad_files_are_answered_in_a_line(
    kind: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    state = write(tmp_path / "theirs")
    file, words = tmp_path / "theirs/model.pt", tmp_path / "theirs/dict.en.txt"
    match kind:
        case "truncated":
            file.write_bytes(file.read_bytes()[:-1000])
        case "text":
            file.write_text("not a pickle")
        case "hostile":
            torch.save({"model": {}, "args": Hostile()}, file)
        case "foreign":
            torch.save({"weight": torch.ones(2)}, file)
        case "dictionary":
            words.write_text(words.read_text() + "more 1\n")
        case "line":
            words.write_text(words.read_text() + "more\n")
        case "repeated":
            words.write_text(words.read_text() + "en4 1\n")
        case "sparse" | "without values" | "numbered" | "positions":
            content, bias = torch.load(file, weights_only=False), state["encoder.fc1.bias"]
            changed = {
                "sparse": {"encoder.fc1.bias": bias.to_sparse()},
                "without values": {"encoder.fc1.bias": bias.to("meta")},
                "numbered": {1: bias, "more": bias},
                "positions": {"decoder.embed_positions.weight": state["decoder.embed_positions.weight"][:10]},
            }
            torch.save(content | {"model": state | changed[kind]}, file)
        case "two":
            file.with_name("other.pt").write_bytes(file.read_bytes())
    refused(tmp_path / "theirs", complaint, tmp_path)
    assert not (tmp_path / "hostile").exists()


def refused(source: Path, complaint: str, folder: Path) -> None:
    """The import ends with one line, and nothing is written."""
    with pytest.raises(UserError, match=complaint) as error:
        nmtkit.import_model(source, output=folder / "ours")
    assert "\n" not in str(error.value)
    assert not (folder / "ours").exists()


def test_bpe_codes_bring_moses_tokenisation_and_a_word_given_twice_has_its_last_row(tmp_path: Path) -> None:
    write(tmp_path / "theirs")
    (tmp_path / "theirs/bpecodes").write_text("#version: 0.2\ne n\n")
    words = tmp_path / "theirs/dict.en.txt"
    words.write_text(words.read_text().replace("en7 93\n", "en4 93 #fairseq:overwrite\n"))
    found = nmtkit.import_model(tmp_path / "theirs", output=tmp_path / "ours").found
    for side in (found.prep.src, found.prep.tgt):
        assert (side.tokenizer, side.segmentation) == ("moses", "bpe")
        assert side.aggressive_hyphens
        assert side.escape
        assert not side.normalize
    assert set(found.files) == {"bpe.src", "bpe.tgt"}
    assert found.src.words[4:8] == ["<unused:4>", "en5", "en6", "en4"]
    assert found.src.counts[4:8] == [96, 95, 94, 93]


def test_search_is_that_of_fairseq_generate_and_options_that_a_checkpoint_lacks_have_fairseqs_defaults(
    tmp_path: Path,
) -> None:
    write(tmp_path / "theirs")
    file = tmp_path / "theirs/model.pt"
    content = torch.load(file, weights_only=False)
    for name in ("dropout", "decoder_attention", "share_input_output_embed"):
        delattr(content["args"], name)
    torch.save(content, file)
    found = nmtkit.import_model(file, output=tmp_path / "ours").found
    assert found.experiment.model.dropout == 0.1
    search = found.experiment.search
    assert (search.beam_size, search.length_penalty, search.unk, search.narrowing) == (5, "avg", True, False)
    assert search.longest(3) == search.longest(30) == 200
    del content["args"].encoder_layers
    torch.save(content, file)
    refused(file, "the first layer must have the encoder's width, 512", tmp_path / "refused")
