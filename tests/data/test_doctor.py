"""A corpus with one planted fault of each kind, and the lines that must be found."""

import random
from pathlib import Path
from unicodedata import normalize

import pytest

from nmtkit.data.doctor import Finding, examine_ids, examine_text
from nmtkit.data.encoding import encode
from nmtkit.text.prep import prepare
from nmtkit.text.raw import Files
from nmtkit.text.settings import Prep, Side

ENGLISH = ["the cat sleeps in the garden", "a dog and the house", "we see the mouse", "she is in a small house"]
FRENCH = ["le chat dort dans le jardin", "un chien et la maison", "nous voyons la souris", "elle est dans une maison"]

# (line, side, what is there instead, what is found)
FAULTS: list[tuple[int, str, bytes, str]] = [
    (10, "src", b"caf\xe9", "not UTF-8; convert the file"),
    (20, "src", b"", "blank"),
    (30, "tgt", b" \xe2\x80\xa8", "blank"),
    (40, "tgt", b"mot " * 251, "more than 250 words"),
    (50, "src", b"a bell\x07 rings in the house", "control characters"),
    (60, "tgt", "мы видим мышь".encode(), "not in the script of fr"),
    (70, "tgt", b"the dog sleeps in the small house 70", "looks like en, not fr"),
    (80, "src", b"le chien dort dans la maison 80", "looks like fr, not en"),
    (90, "tgt", b"x " * 80, "more than 9 times as long as the other side"),
]


def text(size: int, seed: int) -> tuple[list[bytes], list[bytes]]:
    """Pairs of which no two are equal."""
    numbers = random.Random(seed).choices(range(len(ENGLISH)), k=size)
    return tuple(  # type: ignore[return-value]
        [f"{sentences[n]} {seed}-{i}".encode() for i, n in enumerate(numbers)] for sentences in (ENGLISH, FRENCH)
    )


def write(folder: Path, split: str, sides: tuple[list[bytes], list[bytes]]) -> Files:
    files = Files(folder / f"{split}.en", folder / f"{split}.fr")
    for path, lines in zip(files, sides, strict=True):
        path.write_bytes(b"".join(line + b"\n" for line in lines))
    return files


def corpus(folder: Path) -> dict[str, tuple[list[bytes], list[bytes]]]:
    return {"train": text(300, 1), "dev": text(20, 2), "test": text(20, 3)}


def examine(folder: Path, sides: dict[str, tuple[list[bytes], list[bytes]]]) -> list[Finding]:
    return examine_text({split: write(folder, split, pair) for split, pair in sides.items()}, "en", "fr")


def test_a_sound_corpus_has_no_findings(tmp_path: Path) -> None:
    assert examine(tmp_path, corpus(tmp_path)) == []


def test_faults_in_a_folder_of_texts_are_found_in_their_files(tmp_path: Path) -> None:
    folder = tmp_path / "train"
    folder.mkdir()
    one, other = text(150, 1), text(150, 2)
    one[0][9] = b"caf\xe9"
    other[1][19] = b""
    write(folder, "a", one)
    other = (other[0] + one[0][:1], other[1] + one[1][:1])
    table = folder / "b.en-fr.tsv"
    table.write_bytes(b"en\tfr\n" + b"".join(b"%s\t%s\n" % pair for pair in zip(*other, strict=True)))
    found = examine_text({"train": Files(Path(f"{folder}:en"), Path(f"{folder}:fr"))}, "en", "fr")
    assert sorted(str(finding).partition(";")[0].removeprefix(f"{folder}/") for finding in found) == [
        "a.en:10: not UTF-8",
        "b.en-fr.tsv:152, column 1: the same pair as on an earlier line",
        "b.en-fr.tsv:1: looks like a header, which would be read as a sentence pair",
        "b.en-fr.tsv:21, column 2: blank",
    ]


def test_tokenised_text_is_a_finding_and_plain_text_with_french_punctuation_is_not(tmp_path: Path) -> None:
    sides = corpus(tmp_path)
    sides["train"] = tuple([line + b" , oui . Pourquoi : oh ?" for line in side] for side in sides["train"])  # type: ignore[assignment]
    sides["test"] = tuple([line + b" : oui, non. Pourquoi ?" for line in side] for side in sides["test"])  # type: ignore[assignment]
    assert [str(finding) for finding in examine(tmp_path, sides)] == [
        f"{tmp_path}/train.{language}: looks tokenised: commas and full stops follow a space; a model of tokenised "
        f"text translates plain text badly; detokenise it first, for example with sacremoses -l {language} detokenize"
        for language in ("en", "fr")
    ]


def test_lines_that_correspond_to_others_by_their_lengths_are_found(tmp_path: Path) -> None:
    sides = corpus(tmp_path)
    for line, words in enumerate(random.Random(1).choices(range(40), k=300)):
        for side, word in zip(sides["train"], (b" the", b" le"), strict=True):
            side[line] += word * words
    assert examine(tmp_path, sides) == []
    del sides["train"][0][0], sides["train"][1][-1]
    correspond = "lines 21 to 120 correspond to lines 22 to 121"
    remedy = "find the first misaligned pair, where a line was lost or broken in two, or leave these lines out"
    lines = f"lines 21 to 220 do not correspond to those of {tmp_path}/train.fr ({correspond})"
    found = f"{tmp_path}/train.en: by their lengths, {lines}; {remedy}"
    (finding,) = (each for each in examine(tmp_path, sides) if "lengths" in each.what)
    assert (str(finding), finding.fatal) == (found, False)


def test_rows_of_csv_are_examined_as_those_of_a_table(tmp_path: Path) -> None:
    rows = [f'{src.decode()};"{tgt.decode()}; oui"' for src, tgt in zip(*text(200, 1), strict=True)]
    rows[4], rows[9] = "source;target", f"{rows[9]};more"
    path = tmp_path / "a.en-fr.csv"
    path.write_text("\n".join(["source;target", *rows]))
    found = examine_text({"train": Files(Path(f"{path}:1"), Path(f"{path}:2"))}, "en", "fr")
    assert [str(finding).partition("en-fr.csv")[2] for finding in found] == [
        ":1: looks like a header, which would be read as a sentence pair; remove it",
        ":11: has more columns than the first line, 2; is there a delimiter outside quotation marks?",
        ": row 6, column 1: the same pair as on an earlier line",
    ]


def test_all_lines_of_a_finding_are_those_of_one_file_of_a_folder(tmp_path: Path) -> None:
    folders = tmp_path / "train", tmp_path / "dev"
    for folder in folders:
        folder.mkdir()
    one, other, held_out = text(150, 1), text(150, 2), text(20, 3)
    write(folders[0], "a", (one[0][:140], one[1]))  # of different lengths
    write(folders[0], "b", (other[0] + one[0][:2], other[1] + one[1][:2]))
    write(folders[1], "a", held_out)
    write(folders[1], "b", ([*one[0][2:4], *([b"\xe2\x80\x99"] * 6)], [*one[1][2:4], *([b"x"] * 6)]))
    sides = {folder.name: Files(Path(f"{folder}:en"), Path(f"{folder}:fr")) for folder in folders}
    found = [str(finding).removeprefix(f"{tmp_path}/") for finding in examine_text(sides, "en", "fr")]
    also, unseen = f"the pair is also in {folders[0]}:en", f"'\u2019' (U+2019) does not occur in {folders[0]}:en"
    assert f"dev/b.en:1: {also} (2 such lines: 1, 2)" in found
    assert f"dev/b.en:3: {unseen} (6 such lines: 3, 4, 5, 6, 7, ...)" in found
    assert "train/b.en:151: the same pair as on an earlier line (2 such lines: 151, 152)" in found


@pytest.mark.parametrize("split", ["train", "dev"])
def test_every_planted_fault_is_found_in_its_file_and_line(tmp_path: Path, split: str) -> None:
    sides = corpus(tmp_path)
    sides[split] = text(300, 9)
    if split == "dev":
        sides["train"] = text(900, 1)
    for line, side, content, _ in FAULTS:
        sides[split][side == "tgt"][line - 1] = content
    sides[split][0][39] = b"word " * 100
    found = [str(finding) for finding in examine(tmp_path, sides)]
    for line, side, _, what in FAULTS:
        place = f"{tmp_path / split}.{'en' if side == 'src' else 'fr'}:{line}: {what}"
        assert sum(finding.startswith(place) for finding in found) == 1, (place, found)
    assert len(found) == len(FAULTS)


def test_a_pair_that_comes_again_is_found_but_not_a_blank_one(tmp_path: Path) -> None:
    sides = corpus(tmp_path)
    for side in sides["train"]:
        side[99] = side[199] = side[4]
        side[150] = side[160] = b""
    found = {finding.what: str(finding) for finding in examine(tmp_path, sides)}
    again = "the same pair as on an earlier line"
    assert found[again] == f"{tmp_path}/train.en:100: {again} (2 such lines: 100, 200)"
    assert len(found) == 2


def test_a_test_pair_that_is_in_the_training_text_is_found(tmp_path: Path) -> None:
    sides = corpus(tmp_path)
    for test, train in zip(sides["test"], sides["train"], strict=True):
        test[6] = train[33]
    (finding,) = examine(tmp_path, sides)
    assert str(finding) == f"{tmp_path}/test.en:7: the pair is also in {tmp_path}/train.en"
    for test in sides["test"]:
        test[9] = test[6]  # the first of them is named
    (finding,) = examine(tmp_path, sides)
    assert str(finding) == f"{tmp_path}/test.en:7: the pair is also in {tmp_path}/train.en"


def test_a_test_pair_that_occurs_twice_in_the_training_text_is_counted_once(tmp_path: Path) -> None:
    sides = corpus(tmp_path)
    for test, train in zip(sides["test"], sides["train"], strict=True):
        test[6], test[3], train[80] = train[33], train[50], train[33]
    found = {finding.what: str(finding) for finding in examine(tmp_path, sides)}
    also = f"the pair is also in {tmp_path}/train.en"
    assert found[also] == f"{tmp_path}/test.en:4: {also} (2 such lines: 4, 7)"


def test_a_translation_that_is_its_source_is_found(tmp_path: Path) -> None:
    sides = corpus(tmp_path)
    sides["dev"][1][3] = sides["dev"][0][3]
    (finding,) = examine(tmp_path, sides)
    assert str(finding) == f"{tmp_path}/dev.fr:4: the same as its source"


@pytest.mark.parametrize("split", ["train", "dev"])
def test_every_line_of_a_table_that_is_too_short_is_found(tmp_path: Path, split: str) -> None:
    sides = corpus(tmp_path)
    files = {name: write(tmp_path, name, pair) for name, pair in sides.items()}
    lines = [b"\t".join(pair) for pair in zip(*sides[split], strict=True)]
    lines[4] = lines[6] = b"no tab"
    table = tmp_path / f"{split}.en-fr.tsv"
    table.write_bytes(b"".join(line + b"\n" for line in lines))
    files[split] = Files(Path(f"{table}:1"), Path(f"{table}:2"))
    (finding,) = examine_text(files, "en", "fr")
    assert str(finding) == f"{table}:5: has 1 column, not 2 (2 such lines: 5, 7)"
    assert finding.fatal


def test_after_a_first_row_that_is_too_short_no_other_has_too_many_columns(tmp_path: Path) -> None:
    table = tmp_path / "train.en-fr.csv"
    table.write_bytes(b"no comma\n" + b"".join(b"%s,%s\n" % pair for pair in zip(*text(20, 1), strict=True)))
    (finding,) = examine_text({"train": Files(Path(f"{table}:1"), Path(f"{table}:2"))}, "en", "fr")
    assert str(finding) == f"{table}:1: has 1 column, not 2"


@pytest.mark.parametrize("name", ["train.en-fr.tsv", "train.en-fr.csv"])
def test_for_a_table_in_utf_16_the_conversion_is_suggested_instead_of_columns(tmp_path: Path, name: str) -> None:
    table = tmp_path / name
    table.write_bytes("the cat\tle chat\r\na dog\tun chien\r\n".encode("utf-16"))
    (finding,) = examine_text({"train": Files(Path(f"{table}:1"), Path(f"{table}:2"))}, "en", "fr")
    assert str(finding) == f"{table}:1: not UTF-8; convert the file, for example with: iconv -f utf-16 -t utf-8"
    assert finding.fatal


def test_odd_rows_of_a_table_are_found(tmp_path: Path) -> None:
    files = {name: write(tmp_path, name, pair) for name, pair in corpus(tmp_path).items()}
    lines = [b"\t".join(pair) for pair in zip(*text(300, 1), strict=True)]
    lines[:1], lines[4] = [b"English\tfr"], b'"the ""cat"" sleeps"\tle chat dort'
    lines[6] += b"\tla nuit"
    table = tmp_path / "train.en-fr.tsv"
    table.write_bytes(b"".join(line + b"\n" for line in lines))
    files["train"] = Files(Path(f"{table}:1"), Path(f"{table}:2"))
    found = list(map(str, examine_text(files, "en", "fr")))
    assert found[:3] == [
        f"{table}:1: looks like a header, which would be read as a sentence pair; remove it",
        f"{table}:5: quoted as in CSV, but quotes are read as text; "
        "export the table as tab-separated text without quotes, or rename it .csv",
        f"{table}:7: has more columns than the first line, 2; is there a tab in a sentence?",
    ]


def test_windows_1252_that_was_read_as_latin_1_is_found(tmp_path: Path) -> None:
    sides = corpus(tmp_path)
    sides["train"][0][8] = "“the cat” sleeps".encode("cp1252").decode("latin1").encode()
    (finding,) = examine(tmp_path, sides)
    assert str(finding).endswith("Windows-1252 read as Latin-1; convert the original with: iconv -f cp1252 -t utf-8")


def test_control_characters_that_prep_cannot_restore_are_named_first(tmp_path: Path) -> None:
    sides = corpus(tmp_path)
    sides["train"][0][8] = "\x93the cat\x94 \x07sleeps".encode()
    (finding,) = examine(tmp_path, sides)
    assert str(finding).endswith(": control characters")


def test_another_apostrophe_than_in_the_training_text_is_found(tmp_path: Path) -> None:
    sides = corpus(tmp_path)
    sides["train"][1][7] = b"l'ami"
    for number in range(5):
        sides["dev"][1][number] = f"l\u2019ami {number}".encode()
    (finding,) = examine(tmp_path, sides)
    assert str(finding) == (
        f"{tmp_path}/dev.fr:1: '\u2019' (U+2019) does not occur in {tmp_path}/train.fr (5 such lines: 1, 2, 3, 4, 5)"
    )


def test_invisible_characters_that_prep_deletes_are_no_fault(tmp_path: Path) -> None:
    sides = corpus(tmp_path)
    for number in range(5):
        sides["dev"][1][number] = sides["dev"][1][number].decode().replace("e", "e\u00ad").encode()
    assert examine(tmp_path, sides) == []


def test_a_text_that_is_not_written_like_the_training_text_is_found(tmp_path: Path) -> None:
    sides = corpus(tmp_path) | {"test": text(100, 3)}
    sides["test"] = ([line.upper() for line in sides["test"][0]], sides["test"][1])
    finding = examine(tmp_path, sides)[-1]
    assert finding.path == tmp_path / "test.en"
    assert finding.what.startswith(f"not written like {tmp_path}/train.en: capital letters in 100% of the lines")


def test_the_other_normal_form_of_a_letter_is_no_other_letter(tmp_path: Path) -> None:
    sides = corpus(tmp_path)
    sides["train"][1][7] = normalize("NFD", "el café").encode()
    for number in range(5):
        sides["dev"][1][number] = normalize("NFC", f"el café {number}").encode()
    assert examine(tmp_path, sides) == []


def test_a_language_without_spaces_is_as_long_as_its_characters(tmp_path: Path) -> None:
    src, tgt = text(100, 1)
    long = [b"\xe0\xb9\x81\xe0\xb8\xa1\xe0\xb8\xa7" * 7 + line.split()[-1] for line in tgt]
    long[4] = b"\xe0\xb9\x81"
    long[6] = b"\xe0\xb9\x81" * 300
    found = map(str, examine_text({"train": write(tmp_path, "train", (src, long))}, "en", "th"))
    assert [line for line in found if "times as long" in line] == [
        f"{tmp_path}/train.en:5: more than 9 times as long as the other side",
        f"{tmp_path}/train.fr:7: more than 9 times as long as the other side",
    ]


def test_a_character_that_is_rare_or_in_the_training_text_is_not_a_finding(tmp_path: Path) -> None:
    sides = corpus(tmp_path)
    sides["train"][1][7] = "l\u2019ami".encode()
    for number in range(5):
        sides["dev"][1][number] = f"l\u2019ami {number}".encode()
    for number in range(4):
        sides["test"][0][number] = f"caf\u00e9 {number}".encode()
    assert examine(tmp_path, sides) == []


def test_sides_of_unequal_length_are_found_where_one_ends(tmp_path: Path) -> None:
    sides = corpus(tmp_path)
    del sides["train"][1][280:]
    (finding,) = examine(tmp_path, sides)
    assert str(finding) == f"{tmp_path}/train.fr:281: the text ends before this line; the other side has more"
    assert finding.fatal


def test_findings_name_the_first_lines_and_count_the_rest(tmp_path: Path) -> None:
    sides = corpus(tmp_path)
    for line in range(10, 80, 10):
        sides["train"][1][line - 1] = b""
    (finding,) = examine(tmp_path, sides)
    assert str(finding) == f"{tmp_path}/train.fr:10: blank (7 such lines: 10, 20, 30, 40, 50, ...)"
    assert not finding.fatal


def test_for_text_in_utf_16_the_conversion_is_suggested(tmp_path: Path) -> None:
    sides = corpus(tmp_path)
    files = {split: write(tmp_path, split, pair) for split, pair in sides.items()}
    files["dev"].src.write_bytes(files["dev"].src.read_text().encode("utf-16"))
    files["test"].tgt.write_bytes(files["test"].tgt.read_text().encode("utf-16-le"))  # no mark, and UTF-8 with zeros
    found = [
        finding for finding in examine_text(files, "en", "fr") if "UTF-8" in finding.what or "utf-8" in finding.what
    ]
    remedy = "convert the file, for example with: iconv -f utf-16 -t utf-8"
    places = [str(finding).partition(" (")[0] for finding in found]
    assert f"{tmp_path}/dev.en:1: not UTF-8; {remedy}" in places
    assert f"{tmp_path}/test.fr:1: control characters; {remedy}" in places
    assert not any("latin1" in place for place in places)


@pytest.mark.parametrize(("src", "tgt"), [([], []), ([b"", b" "], [b"un", b"deux"]), ([b"a", b""], [b"", b"b"])])
def test_a_development_set_without_a_pair_of_words_is_fatal(tmp_path: Path, src: list[bytes], tgt: list[bytes]) -> None:
    found = examine(tmp_path, corpus(tmp_path) | {"dev": (src, tgt)})
    (finding,) = (finding for finding in found if finding.fatal)
    assert str(finding) == f"{tmp_path}/dev.en: no pair of the development set has words on both sides"


def test_a_test_set_without_a_pair_of_words_is_found(tmp_path: Path) -> None:
    [finding] = examine(tmp_path, corpus(tmp_path) | {"test": ([], [])})
    assert (finding.path.name, finding.what, finding.fatal) == (
        "test.en", "no pair of the test set has words on both sides", False
    )  # fmt: skip


def test_words_that_the_vocabulary_leaves_out_are_counted(tmp_path: Path) -> None:
    sides = corpus(tmp_path)
    sides["dev"][0][7:10] = b"purple elephants fly over us", b"the house purple elephants", b""
    raw = {split: write(tmp_path, split, pair) for split, pair in sides.items()}
    words = Prep(Side("en", segmentation="words"), Side("fr", segmentation="words"))
    prepare(raw, tmp_path / "data", words, workers=1)
    encode(tmp_path / "data", None, None, 2, False, 1)
    found = [str(finding) for finding in examine_ids(tmp_path / "data")]
    assert any("dev.src: " in line and "tokens are unknown words" in line for line in found)
    assert f"{tmp_path}/data/dev.src:8: more than half of the words are unknown" in found


def test_unknown_words_with_a_position_are_unknown_words(tmp_path: Path) -> None:
    raw = {split: write(tmp_path, split, pair) for split, pair in corpus(tmp_path).items()}
    data = tmp_path / "data"
    prepare(raw, data, Prep(Side("en", segmentation="words"), Side("fr", segmentation="words")), workers=1)
    (data / "train.align").write_text("\n" * len((data / "train.tgt").read_bytes().splitlines()))
    found = []
    for unkpos in (False, True):  # with the same five words
        encode(data, 9, 25 if unkpos else 9, 1, False, 1, unkpos)
        found.append([str(finding) for finding in examine_ids(data)])
    assert found[0] == found[1]
    assert any("train.tgt: " in line and "tokens are unknown words" in line for line in found[1])


def test_unknown_subwords_need_other_text_instead_of_bpe(tmp_path: Path) -> None:
    sides = corpus(tmp_path)
    sides["dev"][0][:] = ["\u03b1\u03b2 \u03b3".encode()] * len(sides["dev"][0])
    raw = {split: write(tmp_path, split, pair) for split, pair in sides.items()}
    prepare(raw, tmp_path / "data", Prep(Side("en"), Side("fr"), 20), workers=1)
    encode(tmp_path / "data", None, None, 2, False, 1)
    findings = [finding for finding in examine_ids(tmp_path / "data") if "%" in finding.what]
    [told] = [str(finding) for finding in findings if finding.path.name == "dev.src"]
    remedy = "use fewer merges or pieces, a larger vocabulary, or training text with these characters"
    assert told.endswith(f" tokens are unknown subwords; {remedy}")
