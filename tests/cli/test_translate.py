import gzip
import itertools
import json
import lzma
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmtkit.machine.processes import CAN_FORK
from tests.conftest import piped
from tests.documents.files import docx
from tests.echo import load_echo, write_folder

PROJECT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder whose run/ has a model that copies its source."""
    monkeypatch.setattr("nmtkit.translation.loading.load_model", load_echo)
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "run")
    return tmp_path


@pytest.fixture
def filtered(folder: Path, nmtkit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """``filtered(b"a\\n", "--tokenized")``: the output of ``nmtkit translate`` for this standard input."""

    def run(text: bytes, *arguments: object) -> Any:
        (folder / "stdin").write_bytes(text)
        with open(folder / "stdin") as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            return nmtkit("translate", *arguments)

    return run


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """The command in a new process, in the same folder."""
    started = []

    def run(*arguments: str, stdin: int | IO[bytes] = subprocess.PIPE, stderr: int = subprocess.PIPE) -> Any:
        environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
        command = [sys.executable, "-m", "tests.echo", "translate", *arguments]
        process = subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, cwd=folder, env=environment
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def test_one_line_out_for_every_line_in(filtered: Callable[..., Any]) -> None:
    text = "a b\n\n  \nc\r\nd\u2028e\x85f\na\x00b \U0001f600\n\ufeff\n".encode() + b"g " * 5000 + b"\nh"
    status, out, err = filtered(text)
    assert status == 0
    assert err == (
        "1 line with characters that run never saw: \U0001f600\n"
        "nmtkit: warning: 1 line is longer than 250 tokens (--max-input-length) and was translated in pieces\n"
    )
    lines = out.split("\n")
    assert lines[:5] == ["a b", "", "", "c", "d e f"]
    assert lines[5:7] == ["<unk> b <unk>", ""]
    assert lines[7] == " ".join("g" * 5000)
    assert lines[8:] == ["h", ""]


awkward = st.sampled_from(
    ["\r", "\u2028", "\x85", "\x00", "\x0c", "\x1e", "\ufeff", " ", "\t", "a", "lower", "|||", "</s>"]
)


@given(lines=st.lists(st.lists(awkward | st.characters(codec="utf-8", exclude_characters="\n")).map("".join)))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_line_is_lost_split_or_moved(filtered: Callable[..., Any], lines: list[str]) -> None:
    numbered = [f"{'abcdefgh'[i % 8]} {line}" if line.strip() else line for i, line in enumerate(lines)]
    _, out, _ = filtered("".join(f"{line}\n" for line in numbered).encode())
    found = out.split("\n")
    assert len(found) == len(lines) + 1
    assert all(f[:1] == n[:1] if n.strip() else True for f, n in zip(found, numbered, strict=False))
    assert "\r" not in out


def test_the_unknown_word_and_narrowing_beams_can_be_switched_off(filtered: Callable[..., Any]) -> None:
    allowed, forbidden = (filtered(b"b \xc3\xa9 c\n", option) for option in ("--unk", "--no-unk"))
    assert "<unk>" in allowed.out
    assert "<unk>" not in forbidden.out
    assert forbidden.out.strip()
    assert forbidden.status == 0
    assert filtered(b"a\n", "--no-narrowing") == filtered(b"a\n", "--narrowing") == (0, "a\n", "")


@pytest.mark.parametrize(
    "content",
    [docx(""), gzip.compress(b"a\n", mtime=0), zstandard.compress(b"a\n"), lzma.compress(b"a\n"), b"%PDF-1.7\n"],
)
def test_a_document_or_a_packed_file_is_not_translated_as_text(filtered: Callable[..., Any], content: bytes) -> None:
    status, out, err = filtered(content)
    assert (status, out) == (1, "")
    assert err == (
        "nmtkit: error: standard input: not text; give documents, .gz and .zst files their suffix, and unpack others\n"
    )


def test_a_document_that_is_packed_is_not_written_to_a_terminal(
    folder: Path, nmtkit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "letter.DOCX").write_bytes(docx(""))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert nmtkit("translate", "letter.DOCX") == (
        1,
        "",
        "nmtkit: error: letter.DOCX: is a binary file, which a terminal cannot show; name an output file (--output)\n",
    )


def test_text_in_utf_16_is_refused_with_its_conversion(filtered: Callable[..., Any]) -> None:
    status, out, err = filtered("a\n".encode("utf-16"))
    assert (status, out) == (1, "")
    assert "standard input: UTF-16, not UTF-8; convert the file, for example with: iconv -f utf-16 -t utf-8" in err


def test_a_line_that_is_not_utf8_is_translated_and_reported(filtered: Callable[..., Any]) -> None:
    status, out, err = filtered(b"a\nb \xe9 c\nd\n")
    assert (status, out) == (0, "a\nb <unk> c\nd\n")
    assert err == "nmtkit: warning: standard input:2: byte 0xE9 is not UTF-8; translated as \ufffd\n"


def test_many_lines_that_are_not_utf8_are_counted(filtered: Callable[..., Any]) -> None:
    status, out, err = filtered(b"\xe9\n" * 100)
    assert (status, len(out.splitlines())) == (0, 100)
    assert len(err.splitlines()) == 6
    remedy = "if they are in another encoding, convert them with iconv"
    assert err.splitlines()[-1] == f"nmtkit: warning: standard input: 100 lines are not UTF-8; {remedy}"


def test_a_byte_order_mark_is_no_text(filtered: Callable[..., Any]) -> None:
    assert filtered(b"\xef\xbb\xbfa\nb\n", "--tokenized").out == "a\nb\n"


def test_empty_input_has_empty_output(filtered: Callable[..., Any]) -> None:
    assert filtered(b"") == (0, "", "")
    assert filtered(b"\n").out == "\n"


def test_files_may_be_given_and_compressed(folder: Path, nmtkit: Callable[..., Any]) -> None:
    (folder / "in.gz").write_bytes(gzip.compress(b"a b\n\nc"))
    assert nmtkit("translate", "-i", "in.gz", "-o", "out.gz") == (0, "", "")
    assert gzip.decompress((folder / "out.gz").read_bytes()) == b"a b\n\nc\n"


def test_a_missing_file_is_an_error(nmtkit: Callable[..., Any]) -> None:
    status, out, err = nmtkit("translate", "-i", "none.txt", "-o", "out.txt")
    assert (status, out) == (1, "")
    assert err.startswith("nmtkit: error: none.txt: cannot be read")
    assert not Path("out.txt").exists()


def test_a_folder_is_read_if_a_language_of_its_texts_is_named(folder: Path, nmtkit: Callable[..., Any]) -> None:
    (folder / "dev").mkdir()
    (folder / "dev" / "one.en").write_text("a b\n")
    (folder / "dev" / "two.en").write_text("c\n")
    said = "dev: cannot be read: Is a directory; name a file in it, or a language of its texts, as dev:en"
    assert nmtkit("translate", "dev/") == (1, "", f"nmtkit: error: {said}\n")
    assert nmtkit("translate", "dev:en") == (0, "a b\nc\n", "")


def test_a_named_pipe_is_written_to_and_stays_one(folder: Path, filtered: Callable[..., Any]) -> None:
    os.mkfifo(folder / "pipe")
    reader = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert filtered(b"a b\n", "-o", "pipe") == (0, "", "")
    assert os.read(reader, 100) == b"a b\n"
    os.close(reader)
    assert (folder / "pipe").is_fifo()


def test_a_folder_is_no_place_for_translations(filtered: Callable[..., Any]) -> None:
    assert filtered(b"a\n", "-o", "run") == (1, "", "nmtkit: error: run: cannot be written: Is a directory\n")


def test_scores_precede_the_text(filtered: Callable[..., Any]) -> None:
    assert filtered(b"a b\n\n", "--scores", "sentence").out == "-0.316082\ta b\n0.000000\t\n"
    assert filtered(b"a b\n", "--scores", "sentence", "--length-penalty", "avg").out == "-0.105361\ta b\n"


def test_an_n_best_list_is_in_moses_format(filtered: Callable[..., Any]) -> None:
    lines = filtered(b"a\n\nb\n", "--n-best", "2").out.splitlines()
    assert lines[0] == "0 ||| a ||| -0.210721"
    assert [line.split(" ||| ")[0] for line in lines] == ["0", "0", "1", "2", "2"]
    assert lines[2] == "1 |||  ||| 0.000000"


def test_alignment_follows_the_text(filtered: Callable[..., Any]) -> None:
    assert filtered(b"a lower\n\n", "--alignment").out == "a lower\t0-0 1-1\n\t\n"
    assert filtered(b"a low@@ er\n", "--alignment", "--tokenized").out == "a low@@ er\t0-0 1-1 2-2\n"
    assert filtered(b"a\n", "--alignment", "--n-best", "1").out == "0 ||| a ||| -0.210721 ||| 0-0\n"


def test_scores_of_tokens_follow_the_text(filtered: Callable[..., Any]) -> None:
    out = filtered(b"a\n\n", "--scores", "token").out
    assert out == "-0.210721\ta\t-0.105361 -0.105361\n0.000000\t\t0.000000\n"


def test_json_has_everything(filtered: Callable[..., Any]) -> None:
    lines = filtered(b"a lower\n\n", "--json", "--alignment").out.splitlines()
    assert json.loads(lines[0]) == {
        "line": 0,
        "text": "a lower",
        "score": -0.421442,
        "log_prob": -0.421442,
        "tokens": ["a", "low@@", "er"],
        "quality": 0.9,
        "token_log_probs": [-0.105361] * 4,
        "pieces": 1,
        "alignment": [[0, 0], [1, 1]],
    }
    assert json.loads(lines[1])["text"] == ""
    assert [json.loads(line)["line"] for line in filtered(b"a\nb\n", "--json", "--n-best", "2").out.splitlines()] == [
        0, 0, 1, 1
    ]  # fmt: skip


def test_terms_are_read_from_a_file_and_json_has_those_satisfied(folder: Path, filtered: Callable[..., Any]) -> None:
    (folder / "terms.tsv").write_text("# mine\nb\tg|h\nc\td\n")
    [line] = filtered(b"a b\n", "--terms", "terms.tsv", "--json").out.splitlines()
    [term] = json.loads(line)["terms"]
    assert term["source"] == "b"
    assert term["form"] in json.loads(line)["text"].split()


def test_terms_that_no_line_has_or_that_do_not_fit_are_warned_of(folder: Path, filtered: Callable[..., Any]) -> None:
    (folder / "terms.tsv").write_text("b\tg h g h g h\nc\td\n")
    none = filtered(b"a B\n", "--terms", "terms.tsv").err
    unseen = "1 line with characters that run never saw: B\n"
    term = "no line contains a term of terms.tsv; terms match whole words, case included"
    no_term = f"nmtkit: warning: {term}\n"
    assert none == unseen + no_term
    long = filtered(b"c b c\n", "--terms", "terms.tsv", "--max-len-a", "0", "--max-len-b", "4").err
    assert long == "nmtkit: warning: 1 of 2 terms did not fit into the translations; --json names them\n"
    assert filtered(b"a c\n", "--terms", "terms.tsv").err == ""
    assert filtered(b"", "--terms", "terms.tsv").err == ""


def test_digits_that_the_model_never_saw_can_be_copied_as_the_warning_says(filtered: Callable[..., Any]) -> None:
    pattern, text = r"\d+([.,:]\d+)*", "a 7.३ b\na b\n".encode()
    told = "1 line with characters that run never saw: 7 . ३"
    copied = f"{told}; --keep '{pattern}' copies numbers\n"
    assert filtered(text) == (0, "a <unk> <unk> <unk> b\na b\n", copied)
    assert filtered(text, "--sample").err == filtered(text, "--tokenized").err == f"{told}\n"  # with --keep an error
    assert filtered(text, "--keep", pattern) == (0, "a 7.३ b\na b\n", "")
    assert filtered(b"a 7 B\n", "--keep", pattern).err == "1 line with characters that run never saw: B\n"


@pytest.mark.parametrize("segmentation", ["words", "bpe"])
def test_text_is_warned_of_that_is_tokenised_unlike_the_training_text_or_the_other_way_round(
    folder: Path, filtered: Callable[..., Any], segmentation: str
) -> None:
    settings = (folder / "run" / "prep.yaml").read_text()
    settings = settings.replace("tokenizer: none", "tokenizer: reversible")
    (folder / "run" / "prep.yaml").write_text(settings.replace("segmentation: bpe", f"segmentation: {segmentation}"))
    vocabulary = (folder / "run" / "vocab.src").read_text()
    plain, tokenised = b"a, b.\n" * 5, b"a , b .\n" * 5
    for trained_on, marks, other, told in (
        (
            plain,
            "\uffed,\t60\n\uffed.\t40\n,\t2\n",
            tokenised,
            "100% of the commas and full stops follow a space, but 2%",
        ),
        (tokenised, ",\t60\n.\t40\n", plain, "0% of the commas and full stops follow a space, but 100%"),
    ):
        rows = vocabulary.splitlines(keepends=True)
        (folder / "run" / "vocab.src").write_text("".join(rows[: -marks.count("\t")]) + marks)
        remedy = "detokenise" if other == tokenised else "tokenise"
        warning = f"{told} in the training text of run: translations will be bad; {remedy} the text first\n"
        assert warning in filtered(other).err
        assert "follow a space" not in filtered(trained_on).err
        assert "follow a space" not in filtered(other[: len(other) // 5 * 4]).err  # too few to judge by
    (folder / "run" / "vocab.src").write_text(vocabulary)
    assert "follow a space" not in filtered(tokenised).err + filtered(plain).err


def test_languages_as_the_first_term_may_be_a_header(folder: Path, filtered: Callable[..., Any]) -> None:
    (folder / "terms.csv").write_text("en,en\nc,d\n")
    warning = filtered(b"a c\n", "--terms", "terms.csv").err
    assert warning == "the first term is en = en; if that is a header, delete it from the file\n"


def test_given_translations_are_scored(folder: Path, filtered: Callable[..., Any]) -> None:
    (folder / "refs").write_text("a b\n\nx\n")
    out = filtered(b"a b\n\n\n", "--score-reference", "refs", "--scores", "sentence").out
    assert out == "-0.316082\ta b\n0.000000\t\n-inf\tx\n"
    assert filtered(b"a b\n\n\n", "--score-reference", "refs").out == out  # the default with references
    assert json.loads(filtered(b"a\nb\n\n", "--score-reference", "refs", "--json").out.splitlines()[2])["score"] is None


def test_translations_begin_with_their_prefixes(folder: Path, filtered: Callable[..., Any]) -> None:
    (folder / "begin").write_text("c\n\n")
    assert filtered(b"a b\na b\n", "--prefix", "begin").out == "c b\na b\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a\nb\nc\n", "begin: has only 2 lines, fewer than standard input; align them line by line"),
        (b"a\n", "begin: has more lines than the 1 of standard input; align them line by line"),
    ],
)
def test_a_file_beside_the_input_has_as_many_lines(
    folder: Path, filtered: Callable[..., Any], text: bytes, message: str
) -> None:
    (folder / "begin").write_text("c\n\n")
    for option in ("--prefix", "--score-reference"):
        status, _, err = filtered(text, option, "begin")
        assert (status, err) == (1, f"nmtkit: error: {message}\n")


def test_attention_matrices_come_in_a_file(folder: Path, filtered: Callable[..., Any]) -> None:
    assert filtered(b"a lower\n\n", "--attention", "looks.npz").out == "a lower\n\n"
    with np.load(folder / "looks.npz") as arrays:
        assert sorted(arrays) == [f"{n}.{name}" for n in (0, 1) for name in ("attention", "source", "target")]
        assert arrays["0.source"].tolist() == arrays["0.target"].tolist() == ["a", "low@@", "er", "</s>"]
        assert arrays["0.attention"].tolist() == np.eye(4).tolist()
        assert arrays["1.attention"].shape == (1, 1)


def test_a_sample_does_not_depend_on_the_position_of_the_line(filtered: Callable[..., Any]) -> None:
    first = filtered(b"a b c d e f\n", "--sample").out
    assert filtered(b"a\n\na b c d e f\n" * 2, "--sample").out.splitlines()[2::3] == 2 * first.splitlines()
    seeds = {filtered(b"a b c d e f\n", "--sample", "--seed", seed).out for seed in range(9)}
    assert len(seeds) > 1


def test_an_ensemble_is_given_model_by_model(folder: Path, filtered: Callable[..., Any]) -> None:
    write_folder(folder / "blind")
    assert filtered(b"a b\n", "-m", "run", "-m", "blind", "--alignment", "--weights", "3,1").out == "a b\t0-0 1-1\n"


def test_closed_standard_input_is_an_error(nmtkit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    status, _, err = nmtkit("translate")
    assert (status, err) == (1, "nmtkit: error: standard input is closed; name a file as --input\n")


def test_unknown_words_are_replaced_by_the_models_lexicon_or_by_the_one_given(
    folder: Path, filtered: Callable[..., Any]
) -> None:
    bare, own = write_folder(folder / "bare"), write_folder(folder / "own")
    other, bad = folder / "other", folder / "bad"
    (own / "lexicon.tsv").write_text("x\tX\t1\t1\n")
    other.write_text("y\tY\t1\t1\n")
    bad.write_text("y Y\n")
    copied = filtered(b"a Mr b\n\nx\n", "--replace-unk", "-m", bare)
    assert copied.out == "a Mr b\n\nx\n"
    remedy = "give one made by nmtkit align as --lexicon"
    assert copied.err.startswith(f"{bare} has no lexicon, so unknown words are only copied; {remedy}\n")
    assert filtered(b"a y x\n", "--replace-unk", "-m", own).out == "a y X\n"
    assert filtered(b"a y x\n", "--replace-unk", "-m", own, "--lexicon", other).out == "a Y x\n"
    assert filtered(b"y x\n", "--replace-unk", "-m", own, "--alignment").out == "y X\t0-0 1-1\n"
    told = filtered(b"a y x\n\ny\n", "--replace-unk", "--unk-origin", "papers", "-m", own, "--json")
    assert told.err == "nmtkit: unknown words (papers): 1 translated, 2 copied, 0 left\n"
    quiet = filtered(b"a y x\n", "--quiet", "--replace-unk", "-m", own)
    assert quiet == (0, "a y X\n", "")
    values = [json.loads(line)["unknown"] for line in told.out.splitlines()]
    assert values == [
        dict(zip(("translated", "copied", "left"), n, strict=True)) for n in [(1, 1, 0), (0, 0, 0), (0, 1, 0)]
    ]
    assert filtered(b"a b\n", "--replace-unk", "-m", own).err == ""
    assert "bad:1: expected source word" in filtered(b"a\n", "--replace-unk", "-m", own, "--lexicon", bad).err


def test_a_lexicon_that_cannot_be_read_is_an_error_before_the_first_line(filtered: Callable[..., Any]) -> None:
    for text in (b"a\n", b""):
        said = filtered(text, "--replace-unk", "--lexicon", "none.tsv", "-o", "out")
        assert said == (1, "", "nmtkit: error: none.tsv: cannot be read: No such file or directory\n")


@pytest.mark.skipif(not CAN_FORK, reason="spawned workers read the lexicon themselves")
def test_a_lexicon_from_a_pipe_serves_every_process(folder: Path, nmtkit: Callable[..., Any]) -> None:
    (folder / "lexicon").write_text("x\tX\t1\t1\n")
    (folder / "long").write_text("a x\n" * 600)
    with piped(folder / "lexicon") as lexicon:
        said = nmtkit("translate", "-q", "--replace-unk", "--lexicon", lexicon, "--jobs", "2", "-i", "long")
    assert said == (0, "a X\n" * 600, "")


def test_a_model_that_cannot_replace_unknown_words_says_so(folder: Path, filtered: Callable[..., Any]) -> None:
    (write_folder(folder / "blind") / "lexicon.tsv").write_text("x\tX\t1\t1\n")
    status, out, err = filtered(b"a\n", "--replace-unk", "-m", "blind")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "this model cannot replace unknown words: it has no attention" in err


def test_a_model_without_attention_cannot_align(folder: Path, filtered: Callable[..., Any]) -> None:
    write_folder(folder / "blind")
    status, out, err = filtered(b"a\n", "--alignment", "-m", "blind")
    assert (status, out) == (1, "")
    assert "this model cannot align words: it has no attention" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n-best", "4"], "4 best translations need a beam size of at least 4, not 3"),
        (["--sample", "--n-best", "10001"], "--n-best: 10001 is not between 1 and 10000"),
        (["--n-best", "2", "--scores", "sentence"], "--scores: an n-best list already has scores; leave it out"),
        (["--score-reference", "x", "--n-best", "2"], "--score-reference: these are scored without a search"),
        (["--lexicon", "other"], "--lexicon: is for unknown words, a shortlist or --keep; add --replace-unk"),
        (["--unk-origin", "papers"], "--unk-origin: has no effect without --replace-unk; add it"),
        (["--score-reference", "x", "--shortlist", "9"], "scored without a search; leave --shortlist out"),
        (["--score-reference", "x", "-b", "9"], "scored without a search; leave --beam-size out"),
        (["--shortlist", "9"], "--shortlist: run has no lexicon; give one made by nmtkit align as --lexicon"),
        (["--score-reference", "x", "--replace-unk", "--mbr", "2"], "leave --mbr and --replace-unk out"),
        (["--sample", "--replace-unk"], "--sample: sampling does not support prefixes, beam settings or attention"),
        (["--sample", "--alignment", "-b", "7"], "or attention; leave --beam-size and --alignment out"),
        (["--sample", "--prefix", "x"], "or attention; leave --prefix out"),
        (["--sample", "-b", "7"], "or attention; leave --beam-size out"),
        (["--sample", "--stop", "first"], "prefixes, beam settings or attention; leave --stop out"),
        (["--score-reference", "x", "--stop", "all"], "scored without a search; leave --stop out"),
        (["--seed", "7"], "--seed: has no effect without --sample; add it"),
        (["--seed", "-1", "--sample"], "--seed: -1 is less than 0"),
        (["--attention", "x.npz", "--n-best", "2"], "--attention: is for the best translation only"),
        (["--attention", "x.json"], "--attention x.json: must be an .npz file; choose a name that ends in .npz"),
        (["--prefix", "none.txt"], "none.txt: cannot be read"),
        (["-o", "x.DOCX"], "--output x.DOCX: lines of text do not make a document; end its name in .txt"),
        (["--weights", "1,x"], "--weights 1,x: expected one number for each model, such as 2,1,1"),
        (["-m", "run", "-m", "run", "--weights", "1,0"], "--weights: 0 is not a number above 0"),
        (["--weights", "1"], "--combine and --weights are for an ensemble; name several models"),
        (["-m", "run", "-m", "run", "--weights", "1"], "--weights: 1 of them for 2 models; give one for each"),
        (["--alpha", "0.5"], "--alpha: --length-penalty none does not use it; only gnmt and power do"),
        (["--max-len-a", "inf"], "--max-len-a: inf is not between 0 and 1000"),
        (["--device", "toaster"], "--device toaster: not a device; use auto, cpu, cuda or cuda:1"),
        (["--device", "meta"], "--device meta: cannot be used here"),
        (["--max-len-c", "1"], "No such option: --max-len-c"),
    ],
)
def test_options_that_cannot_work_are_errors(filtered: Callable[..., Any], arguments: list[str], message: str) -> None:
    status, out, err = filtered(b"a\n", *arguments)
    assert (status, out) == (1, "")
    assert message in err


def test_products_in_8_bit_integers_reach_every_process(nmtkit: Callable[..., Any], folder: Path) -> None:
    (folder / "long").write_text("a b c\n" * 600)
    said = nmtkit("translate", "--precision", "int8", "--jobs", "2", "-i", "long")
    assert said == (0, "a b c\n" * 600, "")


def test_standard_input_that_cannot_be_read_is_an_error(
    folder: Path, nmtkit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(os.devnull, "wb") as written:
        monkeypatch.setattr("sys.stdin", written)
        outcome = nmtkit("translate")
    assert outcome == (1, "", "nmtkit: error: standard input: cannot be read: Bad file descriptor\n")


def test_options_reach_the_search(filtered: Callable[..., Any]) -> None:
    options = ["--beam-size", "4", "--length-penalty", "gnmt", "--alpha", "0", "--max-tokens", "64", "--n-best", "4"]
    assert len(filtered(b"a\n" * 50, *options).out.splitlines()) == 200


def test_translations_are_written_while_the_input_is_still_open(start: Callable[..., Any]) -> None:
    process = start("--jobs", "2")
    for text in (b"a b\n", b"c\n"):
        process.stdin.write(text)
        process.stdin.flush()
        assert process.stdout.readline() == text  # would hang if the filter waited for more
    process.stdin.write(b"d\ne")  # the rest of this line comes later
    process.stdin.flush()
    assert process.stdout.readline() == b"d\n"
    process.stdin.write(b"\n" + b"a b\n" * 1000)  # so much that there are several processes, and the dialogue goes on
    process.stdin.flush()
    assert [process.stdout.readline() for _ in range(1001)] == [b"e\n"] + [b"a b\n"] * 1000
    process.stdin.write(b"e")
    process.stdin.flush()
    assert process.communicate(b" f\n")[0] == b"e f\n"
    assert process.returncode == 0


@pytest.mark.slow
def test_a_closed_pipe_ends_quietly(start: Callable[..., Any], folder: Path) -> None:
    (folder / "big").write_bytes(b"a b c\n" * 200_000)
    with open(folder / "big", "rb") as big:
        process = start(stdin=big)
        assert process.stdout.readline() == b"a b c\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        process.wait(timeout=60)


def test_several_processes_give_the_same_translations_as_one(nmtkit: Callable[..., Any], folder: Path) -> None:
    (folder / "in").write_text("".join(f"{'abcdefgh'[i % 8]} b{' c' * (i % 5)}\n\n" for i in range(700)))
    options = ["-i", "in", "--scores", "sentence", "--alignment"]
    alone, shared = (nmtkit("translate", *options, "--jobs", jobs) for jobs in ("1", "2"))
    assert shared == alone
    assert shared.out.count("\n") == 1400


def test_errors_of_a_process_are_reported(nmtkit: Callable[..., Any], folder: Path) -> None:
    write_folder(folder / "blind")
    (folder / "in").write_text("\n" * 700 + "a\n" * 700)  # a blank line needs no looking
    status, out, err = nmtkit("translate", "-i", "in", "-m", "blind", "--jobs", "2", "--alignment")
    assert (status, out.count("\n") < 1400) == (1, True)
    assert err.startswith("nmtkit: error: this model cannot align words: it has no attention")


@pytest.mark.slow
def test_ctrl_c_ends_quietly(start: Callable[..., Any]) -> None:
    process = start()
    process.stdin.write(b"a\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"a\n"
    process.send_signal(signal.SIGINT)
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 130


@pytest.mark.slow
def test_progress_is_shown_on_a_terminal_only(start: Callable[..., Any], folder: Path) -> None:
    (folder / "in").write_bytes(b"a b\n" * 100)
    ours, theirs = pty.openpty()
    process = start("-i", "in", stderr=theirs)
    os.close(theirs)
    assert process.stdout.read() == b"a b\n" * 100
    assert b"translating" in os.read(ours, 1 << 16)
    os.close(ours)


def test_an_input_file_is_not_overwritten(
    folder: Path, filtered: Callable[..., Any], nmtkit: Callable[..., Any]
) -> None:
    (folder / "in").write_text("a\n")
    (folder / "link").symlink_to("in")
    complaint = "nmtkit: error: --output {}: is also an input and would be overwritten; choose another file\n"
    for output in ("in", "link"):
        assert nmtkit("translate", "-i", "in", "-o", output) == (1, "", complaint.format(output))
    assert filtered(b"a\n", "--prefix", "in", "-o", "in") == (1, "", complaint.format("in"))
    assert filtered(b"a\n", "-o", "stdin") == (1, "", complaint.format("stdin"))
    assert (folder / "in").read_text() == "a\n"
    (folder / "texts").mkdir()
    (folder / "texts" / "one.en").symlink_to("../in")
    assert nmtkit("translate", "-i", "texts:en", "-o", "in") == (1, "", complaint.format("in"))
    assert nmtkit("translate", "-i", "in", "-o", "out") == nmtkit("translate", "-i", "in", "-o", "out") == (0, "", "")


def test_neither_output_replaces_a_file_that_is_read(folder: Path, filtered: Callable[..., Any]) -> None:
    (folder / "begin").write_text("a\n")
    (folder / "words").write_text("y\tY\t1\t1\n")
    before = {path.name: path.read_bytes() for path in (folder / "begin", folder / "words")}
    read = ["--prefix", "begin", "--replace-unk", "--lexicon", "words"]
    for option, name in itertools.product(("--output", "--attention"), ("begin", "words", "stdin")):
        complaint = f"nmtkit: error: {option} {name}: is also an input and would be overwritten; choose another file\n"
        assert filtered(b"a\n", *read, option, name) == (1, "", complaint)
    assert {name: (folder / name).read_bytes() for name in before} == before


@pytest.mark.parametrize("options", [["--prefix", "-"], ["--score-reference", "-"], ["-i", "stdin", "--prefix", "-"]])
def test_standard_input_can_be_given_only_once(filtered: Callable[..., Any], options: list[str]) -> None:
    once = "-i" in options
    complaint = "nmtkit: error: -: standard input can be read only once; name a file instead of the other -\n"
    assert filtered(b"a\n", *options) == ((0, "a\n", "") if once else (1, "", complaint))


@pytest.mark.parametrize("name", ["new", "old", "link"])
def test_both_outputs_cannot_be_one_file(folder: Path, filtered: Callable[..., Any], name: str) -> None:
    (folder / "old").write_text("kept\n")
    (folder / "link").symlink_to("old")
    output = "old" if name == "link" else name
    complaint = f"nmtkit: error: --attention {name}: is also the output of the translations; choose another file\n"
    assert filtered(b"a\n", "-o", output, "--attention", name) == (1, "", complaint)
    assert ((folder / "old").read_text(), (folder / "new").exists()) == ("kept\n", False)


def test_a_file_that_is_replaced_keeps_its_mode(folder: Path, filtered: Callable[..., Any]) -> None:
    (folder / "out").write_text("old")
    (folder / "out").chmod(0o600)
    assert filtered(b"a\n", "-o", "out") == (0, "", "")
    assert ((folder / "out").read_text(), (folder / "out").stat().st_mode & 0o777) == ("a\n", 0o600)


@pytest.mark.parametrize(
    ("number", "status"), [pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow), (signal.SIGINT, 130)]
)
def test_signals_leave_no_temporary_file(
    start: Callable[..., Any], folder: Path, number: signal.Signals, status: int
) -> None:
    before = {*folder.iterdir()}
    process = start("-o", "out", "--jobs", "2")
    process.stdin.write(b"a b\n" * 2000)
    process.stdin.flush()
    # So much is there only when all processes have started.
    while not [path for path in folder.iterdir() if path not in before and path.stat().st_size >= 4 * 1000]:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == status
    assert {*folder.iterdir()} == before


def test_long_lines_are_counted(filtered: Callable[..., Any]) -> None:
    text = b"a b\n" + b"a b c . " * 3 + b"\n" + b"a " * 9 + b"\n"
    status, out, err = filtered(text, "--max-input-length", "8", "--alignment", "--jobs", "1")
    assert status == 0
    assert out.splitlines()[1] == " ".join(["a b c <unk>"] * 3) + "\t" + " ".join(f"{i}-{i}" for i in range(12))
    assert err == (
        "1 line with characters that run never saw: .\n"
        "nmtkit: warning: 2 lines are longer than 8 tokens (--max-input-length) and were translated in pieces\n"
    )
