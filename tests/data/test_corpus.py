import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmtkit.config import merge
from nmtkit.data import encoding
from nmtkit.data.corpus import Corpus
from nmtkit.data.encoding import encode
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.symbols import PAD, SPELLINGS, UNK, UNKPOS
from nmtkit.text.manifest import describe_file
from nmtkit.text.prep import prepare
from nmtkit.text.raw import Files
from nmtkit.text.settings import Prep, Side
from nmtkit.writing import locked

OWN = Side("en", normalize=False, tokenizer="none", segmentation="words")
SENTENCES = [("the cat", "le chat"), ("the", "le"), ("a cat <s> sat", "un chat"), ("the cat sat", "le chat est assis")]
HELD_OUT = [("the dog", "le chien"), ("", ""), ("cat", "chat noir")]


def make(
    folder: Path, train: list[tuple[str, str]], dev: list[tuple[str, str]] | None = None, name: str = "dev"
) -> Path:
    """The data folder ``folder``/data with these sentences."""
    raw = {}
    for split, pairs in (("train", train), (name, dev)):
        if pairs is not None:
            raw[split] = Files(folder / f"{split}.en", folder / f"{split}.fr")
            for path, sentences in zip(raw[split], zip(*pairs, strict=True), strict=True):
                path.write_text("".join(sentence + "\n" for sentence in sentences), encoding="utf-8")
    prepare(raw, folder / "data", Prep(OWN, OWN), workers=1)
    return folder / "data"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make(tmp_path, SENTENCES, HELD_OUT)


def encode_all(data: Path, joint: bool = False, workers: int = 1) -> str:
    return str(encode(data, None, None, 1, joint, workers))


def test_a_corpus_has_the_sentences_of_the_folder_in_order(data: Path) -> None:
    encode_all(data)
    src, tgt = Vocabulary.load(data / "vocab.src"), Vocabulary.load(data / "vocab.tgt")
    for split, pairs in (("train", SENTENCES), ("dev", HELD_OUT)):
        corpus = Corpus.open(data, split)  # type: ignore[arg-type]
        assert len(corpus) == len(pairs)
        for number, (english, french) in enumerate(pairs):
            assert corpus.src(number).tolist() == src.ids(english.split())
            assert corpus.tgt(number).tolist() == tgt.ids(french.split())
        rows = np.arange(len(pairs))[::-1]
        lengths = [(len(english.split()), len(french.split())) for english, french in pairs]
        assert np.stack(corpus.lengths(rows), axis=1).tolist() == [list(pair) for pair in lengths[::-1]]


def test_words_spelled_like_symbols_are_unknown_words(data: Path) -> None:
    encode_all(data)
    assert Vocabulary.load(data / "vocab.src").words.count("<s>") == 1
    assert Corpus.open(data, "train").src(2).tolist()[2] == UNK


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1))
def test_lengths_and_sentences_agree(tmp_path: Path, shapes: list[tuple[int, int]]) -> None:
    data = make(tmp_path, [("x " * src, "y " * tgt) for src, tgt in shapes])
    encode_all(data)
    corpus = Corpus.open(data, "train")
    pairs = [(len(corpus.src(n)), len(corpus.tgt(n))) for n in range(len(corpus))]
    assert pairs == shapes == list(zip(*corpus.lengths(np.arange(len(corpus))), strict=True))


@pytest.mark.parametrize(("words", "dtype"), [(65_532, np.uint16), (65_533, np.uint32)])
def test_ids_take_two_bytes_as_long_as_they_fit(tmp_path: Path, words: int, dtype: type) -> None:
    data = make(tmp_path, [(" ".join(f"w{n}" for n in range(start, min(start + 200, words))), "x " * 200)
                           for start in range(0, words, 200)])  # fmt: skip
    encode_all(data)
    corpus = Corpus.open(data, "train")
    assert corpus.src(0).dtype == dtype
    assert corpus.tgt(0).dtype == np.uint16
    assert max(int(corpus.src(n).max()) for n in range(len(corpus))) == words + len(SPELLINGS) - 1


def test_any_number_of_processes_makes_the_same_files(data: Path) -> None:
    encode_all(data, workers=1)
    one = {path.name: path.read_bytes() for path in data.iterdir()}
    encode_all(data, workers=2)
    assert {path.name: path.read_bytes() for path in data.iterdir()} == one


def test_words_are_counted_alike_if_memory_holds_few_of_them(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encode_all(data)
    whole = (data / "vocab.src").read_bytes()
    monkeypatch.setattr(encoding, "_MOST_COUNTED", 1)
    monkeypatch.setattr(encoding, "_LINES", 1)
    encode_all(data)
    assert (data / "vocab.src").read_bytes() == whole


def test_a_joint_vocabulary_counts_the_words_of_both_sides(data: Path) -> None:
    encode_all(data, joint=True)
    src, tgt = Vocabulary.load(data / "vocab.src"), Vocabulary.load(data / "vocab.tgt")
    counts = Counter(word for pair in SENTENCES for sentence in pair for word in sentence.split() if word != "<s>")
    assert src.words == tgt.words
    assert dict(zip(src.words[4:], src.counts[4:], strict=True)) == counts


def test_the_report_tells_rows_and_coverage(data: Path) -> None:
    lines = str(encode(data, 6, None, 1, False, 1)).splitlines()
    assert lines == [
        f"{data}/vocab.src: 6 rows, 4 symbols and 2 of 4 word types",
        f"{data}/vocab.tgt: 9 rows, 4 symbols and 5 of 5 word types",
        "  train 10 + 9 tokens, of which 60.00% + 100.00% covered, 4 + 0 unknown",
        "  dev   3 + 4 tokens, of which 66.67% + 50.00% covered, 1 + 2 unknown",
    ]


def test_a_split_of_blank_lines_can_be_opened(tmp_path: Path) -> None:
    data = make(tmp_path, SENTENCES, [("", ""), ("", "")], "test")
    assert "  test  0 + 0 tokens, of which 100.00% + 100.00% covered" in encode_all(data)
    corpus = Corpus.open(data, "test")
    assert len(corpus) == 2
    assert corpus.src(1).tolist() == []


def test_a_vocabulary_without_a_word_is_refused(data: Path) -> None:
    with pytest.raises(UserError, match=r"data/train\.src: no word occurs 9999 times or more; lower `min_count`"):
        encode(data, None, None, 9999, False, 1)
    assert not (data / "vocab.src").exists()


def test_a_development_set_without_words_is_refused(data: Path) -> None:
    (data / "dev.tgt").write_text("\nle chien\n\n")  # like other toolkits that drop unusable pairs
    (data / "dev.src").write_text("the dog\n\ncat\n")
    manifest = json.loads((data / "manifest.json").read_text())
    manifest["files"] |= {name: describe_file(data / name) for name in ("dev.src", "dev.tgt")}
    (data / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(
        UserError, match=r"data/dev\.src, dev\.tgt: no pair of the development set has words on both sides"
    ):
        encode_all(data)


def test_a_split_that_was_never_prepared_is_reported(data: Path) -> None:
    encode_all(data)
    with pytest.raises(UserError, match=r"data: has no test set; give nmtkit prep one, then run nmtkit vocab"):
        Corpus.open(data, "test")


def test_a_folder_without_ids_says_how_to_make_them(data: Path) -> None:
    with pytest.raises(UserError, match=r"ids\.json: not found; make it with nmtkit vocab"):
        Corpus.open(data, "train")


def test_a_folder_not_made_by_prep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"manifest\.json: not found; make the folder with nmtkit prep"):
        encode_all(tmp_path)


def test_a_newer_vocabulary_is_detected(data: Path) -> None:
    encode_all(data)
    Vocabulary.choose(Counter(["le", "chat"]).items(), None, 1).save(data / "vocab.tgt")
    with pytest.raises(UserError, match=r"vocab\.tgt: the text was encoded with another vocabulary; run nmtkit vocab"):
        Corpus.open(data, "train")


def test_newer_text_is_detected(tmp_path: Path, data: Path) -> None:
    encode_all(data)
    make(tmp_path, SENTENCES, HELD_OUT)
    Corpus.open(data, "train")  # the same text again is no other text
    make(tmp_path, SENTENCES[::-1], HELD_OUT)
    with pytest.raises(UserError, match=r"data/train\.src: changed since it was encoded; run nmtkit vocab again"):
        Corpus.open(data, "train")
    encode_all(data)
    assert len(Corpus.open(data, "train")) == len(SENTENCES)
    make(tmp_path, [(english, f"{french} oui") for english, french in SENTENCES[::-1]], HELD_OUT)
    with pytest.raises(UserError, match=r"data/train\.tgt: changed since it was encoded; run nmtkit vocab again"):
        Corpus.open(data, "train")


def test_edited_text_is_detected(data: Path) -> None:
    path = data / "train.src"
    path.write_text(" ".join(reversed(path.read_text().split(" "))))
    with pytest.raises(
        UserError, match=r"train\.src: changed since prep wrote it; make the folder again with nmtkit prep"
    ):
        encode_all(data)
    assert not list(data.glob("*.ids"))


def test_a_file_that_was_deleted_since_prep_is_reported_before_words_are_counted(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(encoding, "_count_words")
    (data / "dev.tgt").unlink()
    with pytest.raises(UserError, match=r"data/dev\.tgt: in the manifest, but missing; make the folder again with"):
        encode(data, None, None, 1, False, 1)


def test_sides_of_different_lengths_are_detected(data: Path) -> None:
    encode_all(data)
    header = json.loads((data / "ids.json").read_text())
    header["files"]["dev.tgt"] |= {"lines": 0, "tokens": 0}
    (data / "ids.json").write_text(json.dumps(header))
    (data / "dev.tgt.ids").write_bytes(b"")
    (data / "dev.tgt.offsets").write_bytes(bytes(8))
    with pytest.raises(UserError, match=r"ids\.json: dev has sides of different lengths; run nmtkit vocab again"):
        Corpus.open(data, "dev")


@pytest.mark.parametrize("name", ["train.src.ids", "train.tgt.offsets"])
def test_a_truncated_or_missing_file_is_reported(data: Path, name: str) -> None:
    encode_all(data)
    content = (data / name).read_bytes()
    (data / name).write_bytes(content[:-1])
    with pytest.raises(UserError, match=f"{name}: has {len(content) - 1} bytes instead of {len(content)}; run nmtkit"):
        Corpus.open(data, "train")
    (data / name).unlink()
    with pytest.raises(UserError, match=f"{name}: has 0 bytes instead of"):
        Corpus.open(data, "train")


def test_a_damaged_header_is_reported(data: Path) -> None:
    encode_all(data)
    (data / "ids.json").write_text('{"files": ', encoding="utf-8")
    with pytest.raises(UserError, match=r"ids\.json: damaged; make it with nmtkit vocab"):
        Corpus.open(data, "train")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": "2"}, r"ids\.json .*: format_version: expected one of 1; found str '2'"),
        ({"files": {"train.src": {"dtype": "<f8"}}}, r"ids\.json .*: files.train.src.dtype: expected one of <u2, <u4"),
        ({"files": {"train.src": {"lines": -1}}}, r"ids\.json .*: files.train.src.lines: -1 is not at least 0"),
        ({"files": []}, r"ids\.json .*: files: expected 'key: value' pairs, found list"),
    ],
)
def test_a_header_of_another_version_or_tool_is_reported(data: Path, change: dict[str, object], message: str) -> None:
    encode_all(data)
    header = json.loads((data / "ids.json").read_text(encoding="utf-8"))
    (data / "ids.json").write_text(json.dumps(merge(header, change)), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        Corpus.open(data, "train")


@pytest.mark.parametrize("manifest", ['{"files": 3}', '{"files": {"train.src": {"lines": "3"}}}', '{"files": {}}'])
def test_a_damaged_manifest_is_reported(data: Path, manifest: str) -> None:
    (data / "manifest.json").write_text(manifest, encoding="utf-8")
    with pytest.raises(UserError, match=r"manifest\.json: .*make the folder with nmtkit prep"):
        encode_all(data)


def test_ids_out_of_range_and_offsets_out_of_order_are_reported(data: Path) -> None:
    encode_all(data)
    ids, offsets = np.fromfile(data / "train.src.ids", "<u2"), np.fromfile(data / "train.src.offsets", "<u8")
    words = len(Vocabulary.load(data / "vocab.src"))
    ids[offsets[2]] = words
    ids.tofile(data / "train.src.ids")
    corpus = Corpus.open(data, "train")
    corpus.src(1)
    with pytest.raises(UserError, match=rf"train\.src\.ids: sentence 3: id {words} is not a word; run nmtkit vocab"):
        corpus.src(2)
    ids[offsets[2]] = PAD  # as in an interrupted copy
    ids.tofile(data / "train.src.ids")
    with pytest.raises(UserError, match=rf"train\.src\.ids: sentence 3: id {PAD} is not a word; run nmtkit vocab"):
        Corpus.open(data, "train").src(2)
    offsets[[1, 2]] = offsets[[2, 1]]
    offsets.tofile(data / "train.src.offsets")
    with pytest.raises(UserError, match=r"train\.src\.offsets: damaged; run nmtkit vocab again"):
        Corpus.open(data, "train")


def test_a_folder_is_encoded_by_one_process_at_a_time(data: Path) -> None:
    with locked(data, "vocab"), pytest.raises(UserError, match=r"another vocab .* is writing there"):
        encode_all(data)


def test_concatenations_follow_the_pairs_of_a_corpus(data: Path) -> None:
    encode_all(data)
    corpus = Corpus.open(data, "train")
    couples = np.array([[3, 0], [1, 1]])
    whole, pairs = corpus.concatenated(couples[:1]).concatenated(couples), len(corpus)  # the second time, others
    assert len(whole) == pairs + 2
    assert whole.pairs == corpus.pairs == pairs
    for side, own in ((whole.src, corpus.src), (whole.tgt, corpus.tgt)):
        assert all(list(side(row)) == list(own(row)) for row in range(pairs))
        for row, (first, second) in enumerate(couples, pairs):
            assert list(side(row)) == [*own(first), *own(second)]
    assert [whole.lines(row) for row in (0, pairs - 1, pairs, pairs + 1)] == ["1", str(pairs), "4+1", "2+2"]
    assert corpus.lines(3) == "4"
    rows = np.array([pairs + 1, 2, pairs, 0], np.uint32)
    for lengths, side in zip(whole.lengths(rows), (whole.src, whole.tgt), strict=True):
        assert list(lengths) == [len(side(int(row))) for row in rows]


def test_the_header_describes_the_files_as_json(data: Path) -> None:
    encode_all(data)
    entry = json.loads((data / "ids.json").read_text(encoding="utf-8"))["files"]["train.src"]
    assert {key: entry[key] for key in ("dtype", "lines", "tokens")} == {"dtype": "<u2", "lines": 4, "tokens": 10}


def annotated(data: Path, tgt_size: int) -> list[list[list[str]]]:
    """The target sentences of training and development text after encoding, as words."""
    encode(data, None, tgt_size, 1, False, 1, unkpos=True)
    vocabulary = Vocabulary.load(data / "vocab.tgt")
    corpora = Corpus.open(data, "train"), Corpus.open(data, "dev")
    return [[vocabulary.tokens(corpus.tgt(n)) for n in range(len(corpus))] for corpus in corpora]


def test_an_annotated_corpus_has_the_source_positions_of_unknown_words(data: Path) -> None:
    (data / "train.align").write_text("0-0 1-1\n\n3-1\n2-0 1-2\n")
    (data / "dev.align").write_text("0-1\n\n0-1\n")
    train, dev = annotated(data, 21)  # one word: chat, which occurs as often as le
    assert train == [["<unkpos_0>", "chat"], [UNKPOS[-1]], [UNKPOS[-1], "chat"],
                     ["<unkpos_-2>", "chat", "<unkpos_1>", UNKPOS[-1]]]  # fmt: skip
    assert dev == [[UNKPOS[-1], "<unkpos_1>"], [], ["chat", "<unkpos_1>"]]
    assert "20 symbols and 1 of 5 word types" in str(encode(data, None, 21, 1, False, 1, unkpos=True))


def test_annotation_changes_nothing_but_unknown_target_words(data: Path) -> None:
    (data / "train.align").write_text("0-0\n" * 4)
    annotated(data, 22)
    found = Corpus.open(data, "train")
    found_src, found_tgt = ([side(n).tolist() for n in range(4)] for side in (found.src, found.tgt))
    encode(data, None, 22 - len(UNKPOS), 1, False, 1)
    plain = Corpus.open(data, "train")
    assert found_src == [plain.src(n).tolist() for n in range(4)]
    for n in range(4):
        pairs = zip(found_tgt[n], plain.tgt(n).tolist(), strict=True)
        assert all(4 <= a < 20 if b == UNK else a == b + len(UNKPOS) for a, b in pairs)


def test_text_without_alignment_has_unknown_words_without_position(data: Path) -> None:
    (data / "train.align").write_text("0-0\n" * 4)
    assert annotated(data, 21)[1] == [[UNKPOS[-1], UNKPOS[-1]], [], ["chat", UNKPOS[-1]]]


def test_another_alignment_makes_another_training_text(data: Path) -> None:
    hashes = []
    for links in ("0-0", "1-0", "0-0"):
        (data / "train.align").write_text(f"{links}\n" * 4)
        annotated(data, 21)
        hashes.append(json.loads((data / "ids.json").read_text())["files"]["train.tgt"]["alignment"])
    assert hashes[0] == hashes[2] != hashes[1]


def test_a_folder_that_cannot_be_annotated_is_refused(tmp_path: Path, data: Path) -> None:
    with pytest.raises(UserError, match=r"train\.align: not found, and `unkpos` needs it; make it with nmtkit align"):
        annotated(data, 21)
    (data / "train.align").write_text("0-0\n")
    with pytest.raises(UserError, match="`tgt_size` 20: with `unkpos`, 20 rows are symbols; use a larger one"):
        annotated(data, 20)
    with pytest.raises(UserError, match=r"train\.align has 1 line but the text 4; run nmtkit align again"):
        annotated(data, 21)
    (data / "train.align").write_text("0-0\n\n0\n\n")
    with pytest.raises(UserError, match=r"train\.align:3: expected links such as"):
        annotated(data, 21)
    settings = (data / "prep.yaml").read_text().replace("segmentation: words", "segmentation: bpe")
    (data / "prep.yaml").write_text(settings)
    with pytest.raises(UserError, match=r"`unkpos`: .*data has subwords, so no word is unknown; prepare it again with"):
        annotated(data, 21)
