"""The same words in each toolkit's own kind of file."""

import json
from collections import Counter
from pathlib import Path

import pytest

from nmtkit.data.foreign import read_words
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.symbols import SPELLINGS
from nmtkit.text.sentencepieces import SentencePieces, learn_sentencepieces

WORDS = ["the", "no", "12", "eos", "über", "a:b", "'", '"', "#x", "@@"]
FILES = {
    "dict.en.txt": "".join(f"{word} {900 - n}\n" for n, word in enumerate(WORDS)) + "madeupword0000 0\n",
    "flags.txt": "<s> 1 #fairseq:overwrite\n@@ 9\n"
    + "".join(f"{word} 3\n" for word in WORDS[:-1])
    + "@@ 3 #fairseq:overwrite\n",
    "opennmt.vocab": "<unk>\t0\n<blank>\t0\n" + "".join(f"{word}\t7\n" for word in WORDS),
    "sentencepiece.vocab": "<unk>\t0\n<s>\t0\n</s>\t0\n" + "".join(f"{w}\t-{n}.5e-05\n" for n, w in enumerate(WORDS)),
    "joeynmt.txt": "\n".join(["<unk>", "<pad>", "<s>", "</s>", *WORDS]),
    "marian.yml": "</s>: 0\n<unk>: 1\n" + "".join(f"{json.dumps(w)}: {n}\n" for n, w in enumerate(WORDS, 2)),
    "plain.yml": '</s>: 0\nthe: 1\nno: 2\n12: 3\neos: 4\nüber: 5\na:b: 6\n"\'": 7\n\'"\': 8\n"#x": 9\n"@@": 10\n',
    "nematus.json": json.dumps({"eos": 0, "UNK": 1} | {w: n for n, w in enumerate(WORDS, 2) if w != "eos"}),
    "sockeye.json": json.dumps({w: n for n, w in [*enumerate(WORDS, 4), (0, "<pad>"), (1, "<unk>")]}, indent=4),
}


@pytest.mark.parametrize("name", FILES)
def test_words_of_every_toolkit_are_read_in_order_without_symbols(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILES[name], encoding="utf-8")
    assert read_words(tmp_path / name) == [word for word in WORDS if (name, word) != ("nematus.json", "eos")]


def test_a_vocabulary_of_nmtkit_keeps_words_that_are_symbols_of_other_toolkits(tmp_path: Path) -> None:
    words = [*SPELLINGS, "the", "<mask>", "cat", "madeupword0000"]  # an imported model of fairseq has the last one
    Vocabulary(words, [0] * len(words)).save(tmp_path / "vocab.src")
    assert [*SPELLINGS, *read_words(tmp_path / "vocab.src")] == words


def test_a_sentencepiece_model_is_a_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "joint.spm"
    path.write_bytes(learn_sentencepieces(Counter({"the": 5, "cat": 4, "sat": 3}), 12, ["en"]))
    pieces = SentencePieces.load(path).pieces
    assert set(read_words(path)) == {piece for piece in pieces if piece not in SPELLINGS}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "the 3\ncat\n", r"a\.txt:2: expected a word and a count, found 'cat'"),
        ("a.txt", "the\ncat 4\n", r"a\.txt:2: expected a word, found 'cat 4'"),
        ("a.txt", "the\n\n", r"a\.txt:2: expected a word, found ''"),
        ("a.txt", "the\nthe\n", r"a\.txt: has the word 'the' twice; remove one of them"),
        ("a.txt", "<s>\n</s>\n", r"a\.txt: has no words; give a vocabulary of fairseq, OpenNMT"),
        ("a.json", '["the"]', r"a\.json: expected a map of words to ids"),
        ("a.json", '{"the": "first"}', r"a\.json: expected a map of words to ids"),
        ("a.json", '{"the": 1e400}', r"a\.json: expected a map of words to ids"),
        ("a.json", '{"the": 10.5}', r"a\.json: expected a map of words to ids"),
        ("a.json", '{"the', r"a\.json: expected a map of words to ids"),
        ("a.yml", "the: [", r"a\.yml:1: expected a map of words to ids"),
        ("a.yml", "the: 0\n\x07: 1\n", r"a\.yml:2: expected a map of words to ids"),
        (
            "a.json",
            '{"the": 0, "\\ud83d": 1}',
            r"a\.json: the word with the id 1, '\\ud83d', has half a surrogate pair",
        ),
        ("a.spm", "the\n", r"a\.spm: not a SentencePiece model"),
        ("a.json", '{"the cat": 5}', r"a\.json: 'the cat' contains white space, so it is not a token"),
    ],
)
def test_an_invalid_vocabulary_file_is_reported(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        read_words(tmp_path / name)
