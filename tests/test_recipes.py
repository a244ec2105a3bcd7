"""Recipes name existing presets, and run end to end: downloads from a local server, a slice of text, 3 updates."""

import functools
import gzip
import http.server
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from nmtkit.experiment.presets import load_preset, preset_names
from nmtkit.text.sentencepieces import learn_sentencepieces
from tests.importing import marian, nematus_files, test_fairseq
from tests.test_quickstart_corpus import grammar

RECIPES = Path(__file__).parents[1] / "recipes"
PRESETS = set(preset_names())
SCRIPTS = sorted(RECIPES.glob("*/run.sh"))

# Stands in for eflomal, which is not everywhere: words are linked in the order in which they come.
ALIGNER = """#!{python}
import sys
options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
with open(options["-s"]) as src, open(options["-t"]) as tgt:
    links = [" ".join(f"{{i}}-{{i}}" for i in range(min(len(s.split()), len(t.split())))) for s, t in zip(src, tgt)]
for option in ("-f", "-r"):
    with open(options[option], "w") as file:
        file.writelines(line + "\\n" for line in links)
"""


def test_every_preset_is_in_the_table_and_every_preset_of_the_table_exists() -> None:
    families = "|".join(sorted({name.partition("-")[0].rstrip("1234567890") for name in PRESETS}))
    named = set(re.findall(rf"`((?:{families})\d*(?:-[a-z0-9]+)*)`", (RECIPES / "README.md").read_text()))
    assert named == PRESETS, "recipes/README.md has a row for every preset, and names no other"


def test_every_row_of_the_table_has_a_command() -> None:
    rows = [line for line in (RECIPES / "README.md").read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert cells
    assert [row for row in cells if not all(row)] == []


@pytest.mark.parametrize("document", sorted(RECIPES.rglob("*.md")), ids=lambda path: str(path.relative_to(RECIPES)))
def test_rows_of_tables_have_the_cells_of_their_head(document: Path) -> None:
    """A | that is not escaped begins a cell, also in code."""
    for table in re.findall(r"(?:^\|.*\n)+", document.read_text() + "\n", re.MULTILINE):
        rows = table.splitlines()
        assert [row for row in rows if len(re.split(r"(?<!\\)\|", row)) != len(rows[1].split("|"))] == []


def test_the_vocabularies_of_words_have_the_sizes_of_the_presets() -> None:
    for recipe, name in re.findall(r"([a-z0-9-]+)/run\.sh ([a-z0-9-]+)`", (RECIPES / "README.md").read_text()):
        if name in PRESETS and "words" in (data := load_preset(name)["data"])["segmentation"]:
            sizes = f"--src-size {data['src_vocab']} --tgt-size {data['tgt_vocab']}"
            assert sizes in (RECIPES / recipe / "run.sh").read_text(), name


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.parent.name)
def test_scripts_are_bash_and_say_what_they_were_checked_on(script: Path) -> None:
    subprocess.run(["bash", "-n", script], check=True)
    assert os.access(script, os.X_OK)
    if "lib.sh" in script.read_text():
        assert "SCALE=tiny" in (script.parent / "README.md").read_text()


@pytest.mark.slow
def test_every_command_of_the_table_has_a_preset_accepted_by_its_recipe(tmp_path: Path) -> None:
    (tmp_path / "ldc").mkdir()
    for script in SCRIPTS:
        if script.parent.name in (
            "back-translation",
            "distillation",
            "fine-tuning",
            "low-resource",
            "miniature",
            "multi30k",
            "published",
            "quickstart",
            "tatoeba-en-de",
            "terms",
        ):
            continue  # they take YAML files of their own, small versions or a language
        commands = re.findall(rf"{script.parent.name}/run\.sh ([a-z0-9-]+)`", (RECIPES / "README.md").read_text())
        assert commands
        for preset in {*commands, "transformer"}:  # downloads fail: nothing listens there
            environment = {
                **os.environ, "MIRROR": "http://127.0.0.1:9", "WORK": str(tmp_path / "work"),
                "LDC": str(tmp_path / "ldc"),
            }  # fmt: skip
            done = subprocess.run([script, preset], env=environment, capture_output=True, text=True, check=False)
            assert done.returncode != 0
            assert ("preset" in done.stderr) == (preset == "transformer"), done.stderr


Serve = Callable[[Mapping[str, Mapping[str, str]]], None]
Recipe = Callable[..., str]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serves archives, ``{path: {member: text}}``, on ``MIRROR``; members called .gz are compressed."""
    root = tmp_path / "served"
    root.mkdir()
    handler = functools.partial(Quiet, directory=str(root))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "mirror").write_text(f"http://127.0.0.1:{server.server_port}")

    def publish(archives: Mapping[str, Mapping[str, str]]) -> None:
        for path, members in archives.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            with tarfile.open(root / path, "w:gz" if path.endswith(".tgz") else "w") as archive:
                for name, text in members.items():
                    content = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
                    info = tarfile.TarInfo(name)
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))

    yield publish
    server.shutdown()
    server.server_close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """Runs a recipe with this nmtkit and returns its output."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (
        ("nmtkit", f'#!/bin/sh\nexec "{sys.executable}" -m nmtkit "$@"\n'),
        ("eflomal-align", ALIGNER.format(python=sys.executable)),
    ):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(RECIPES.parent),
        "SCALE": "tiny",
    }

    def run(name: str, *arguments: str, **variables: str) -> str:
        mirror = tmp_path / "mirror"
        if mirror.exists():
            variables["MIRROR"] = mirror.read_text()
        work = {"WORK": str(tmp_path / "work"), **variables}
        done = subprocess.run(
            [RECIPES / name / "run.sh", *arguments],
            env={**environment, **work},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


def texts(split: str, names: str) -> dict[str, str]:
    """Text of the quickstart's grammar, English and the other side, as files called ``names``: ``x.{}`` is x.en, x.fr.

    ``{en,de}`` in a name says what the second language is called; a German text is French here.
    """
    languages = re.search(r"\{(\w+),(\w+)\}", names)
    assert languages
    sides = zip(*CORPUS[split], strict=True)
    return {
        names.replace(languages.group(), language): "".join(line + "\n" for line in side)
        for language, side in zip(languages.groups(), sides, strict=True)
    }


def sgml(split: str, src: str, ref: str) -> dict[str, str]:
    sides = zip(*CORPUS[split], strict=True)
    return {
        name: "".join(f'<seg id="{i}"> {line} </seg>\n' for i, line in enumerate(side, 1))
        for name, side in zip((src, ref), sides, strict=True)
    }


CORPUS = grammar.make_corpus(1, 2000)
HOST12M = "~schwenk/cslm_joint_paper/data"


@pytest.mark.slow
def test_wmt14_en_fr_of_12m_pairs_runs_with_an_ensemble(serve: Serve, recipe: Recipe, tmp_path: Path) -> None:
    serve({
        f"{HOST12M}/bitexts.tgz": texts("train", "bitexts.selected/ep7_pc45.{en,fr}.gz"),
        f"{HOST12M}/dev+test.tgz": texts("dev", "dev/ntst1213.{en,fr}") | texts("test", "dev/ntst14.{en,fr}"),
    })  # fmt: skip
    printed = recipe("wmt14-en-fr", "deep-att-12m", SEEDS="1 2 3")
    assert "sentences whose references have no unknown word" in printed
    assert "by length of the source" in printed
    work = tmp_path / "work"
    assert {path.name for path in work.glob("run-*")} == {f"run-deep-att-12m-{seed}" for seed in (1, 2, 3)}
    for name in ("test.ensemble-deep-att-12m.fr", "test.ensemble-deep-att-12m.posunk.fr"):
        assert len((work / name).read_text().splitlines()) == 20


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["deep-att-1x1", "dtmt1-enfr"])
def test_wmt14_en_fr_of_36m_pairs_runs_end_to_end(serve: Serve, recipe: Recipe, tmp_path: Path, preset: str) -> None:
    serve({
        "wmt13/training-parallel-europarl-v7.tgz": texts("train", "training/europarl-v7.fr-en.{en,fr}"),
        "wmt13/training-parallel-commoncrawl.tgz": texts("train", "commoncrawl.fr-en.{en,fr}"),
        "wmt13/training-parallel-un.tgz": texts("train", "un/undoc.2000.fr-en.{en,fr}"),
        "wmt14/training-parallel-nc-v9.tgz": texts("train", "training/news-commentary-v9.fr-en.{en,fr}"),
        "wmt10/training-giga-fren.tar": texts("train", "giga-fren.release2.fixed.{en,fr}.gz"),
        "wmt12/test.tgz": texts_of_year(2012, "fr"),
        "wmt13/test.tgz": texts_of_year(2013, "fr"),
        "wmt14/test-full.tgz": sgml("test", *(f"test-full/newstest2014-fren-{x}.sgm" for x in ("src.en", "ref.fr"))),
    })  # fmt: skip
    recipe("wmt14-en-fr", preset)
    translations = tmp_path / "work" / f"test.run-{preset}-1.fr"
    assert len(translations.read_text().splitlines()) == 20


def test_compounds_are_split_as_in_the_scores_of_vaswani_et_al() -> None:
    plain = 'Ein "Rich-Text-Format" - so.\n\nS-Bahn-Hof, 5-6 km; -5 Grad\n'
    command = f'source {RECIPES}/lib.sh; PATH="{Path(sys.executable).parent}:$PATH"; split_compounds de'
    done = subprocess.run(["bash", "-euc", command], check=True, input=plain, stdout=subprocess.PIPE, text=True)
    hyphen = "##AT##-##AT##"
    assert done.stdout.splitlines() == [
        f"Ein &quot; Rich {hyphen} Text {hyphen} Format &quot; - so .", "",
        f"S {hyphen} Bahn {hyphen} Hof , 5 {hyphen} 6 km ; -5 Grad",
    ]  # fmt: skip


def serve_wmt14_en_de(serve: Serve) -> None:
    serve({
        "wmt13/training-parallel-europarl-v7.tgz": texts("train", "training/europarl-v7.de-en.{en,de}"),
        "wmt13/training-parallel-commoncrawl.tgz": texts("train", "commoncrawl.de-en.{en,de}"),
        "wmt14/training-parallel-nc-v9.tgz": texts("train", "training/news-commentary-v9.de-en.{en,de}"),
        "wmt12/test.tgz": texts_of_year(2012, "de"),
        "wmt13/test.tgz": texts_of_year(2013, "de"),
        "wmt14/test-full.tgz": sgml("test", *(f"test-full/newstest2014-deen-{x}.sgm" for x in ("src.en", "ref.de"))),
    })  # fmt: skip


WHOLE, SPLIT = "compounds as they are", "compounds split (rich ##AT##-##AT## text)"
COMPARABLE = ", to compare with the paper's figure"


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["transformer-base", "densenmt-ende-15"])
def test_wmt14_en_de_averages_checkpoints_as_in_the_paper_and_scores_both_ways(
    preset: str, serve: Serve, recipe: Recipe, tmp_path: Path
) -> None:
    serve_wmt14_en_de(serve)
    printed = recipe("wmt14-en-de", preset)
    titles = [line for line in printed.splitlines() if line.startswith("newstest2014")]
    assert titles == [f"newstest2014, {WHOLE}", f"newstest2014, {SPLIT}{COMPARABLE}"]
    whole, split = re.findall(r"^system +multi-bleu .*\n\S+ +([0-9.]+)", printed, re.MULTILINE)[-2:]
    assert float(whole) >= 0 <= float(split)
    [prep] = (tmp_path / "work").glob("data-*/prep.yaml")
    assert ("aggressive_hyphens: true" in prep.read_text()) == (preset == "densenmt-ende-15")
    means = {path.name for path in (tmp_path / "work").glob("averaged-*")}
    assert means == ({"averaged-transformer-base-1"} if preset == "transformer-base" else set())
    assert ("mean of step-3, step-2, step-1" in printed) == bool(means)


@pytest.mark.slow
def test_wmt14_en_de_runs_end_to_end_and_is_resumed(serve: Serve, recipe: Recipe, tmp_path: Path) -> None:
    serve_wmt14_en_de(serve)
    printed = recipe("wmt14-en-de", "deep-lau-ende")
    titles = [line for line in printed.splitlines() if line.startswith("newstest2014")]
    assert titles == [
        f"newstest2014, {WHOLE}{COMPARABLE}", f"newstest2014, {SPLIT}",
        f"newstest2014 +PosUnk, {WHOLE}{COMPARABLE}", f"newstest2014 +PosUnk, {SPLIT}",
    ]  # fmt: skip
    work = tmp_path / "work"
    for name in ("test.run-deep-lau-ende-1.de", "test.run-deep-lau-ende-1.posunk.de"):
        assert len((work / name).read_text().splitlines()) == 20
    done = "download", "corpora", "raw", "data-words-80k", "run-deep-lau-ende-1/checkpoints"
    made = {path: path.stat().st_mtime_ns for folder in done for path in (work / folder).rglob("*") if path.is_file()}
    printed = recipe("wmt14-en-de", "deep-lau-ende", SEEDS="1 2")
    assert re.search("^deviation ", printed, re.MULTILINE)
    assert (work / "ensemble-deep-lau-ende").is_dir()
    assert {path: path.stat().st_mtime_ns for path in made} == made


@pytest.mark.slow
def test_wmt17_en_de_runs_end_to_end(serve: Serve, recipe: Recipe, tmp_path: Path) -> None:
    wmt17 = "wmt17/translation-task"
    serve({
        "wmt13/training-parallel-europarl-v7.tgz": texts("train", "training/europarl-v7.de-en.{en,de}"),
        "wmt13/training-parallel-commoncrawl.tgz": texts("train", "commoncrawl.de-en.{en,de}"),
        f"{wmt17}/training-parallel-nc-v12.tgz": texts("train", "training/news-commentary-v12.de-en.{en,de}"),
        f"{wmt17}/rapid2016.tgz": texts("train", "rapid2016.de-en.{en,de}"),
        "wmt13/test.tgz": texts_of_year(2013, "de"),
        "wmt14/test-full.tgz": sgml("test", *(f"test-full/newstest2014-deen-{x}.sgm" for x in ("src.en", "ref.de"))),
        "wmt15/test.tgz": sgml("test", *(f"test/newstest2015-ende-{x}.sgm" for x in ("src.en", "ref.de"))),
        "wmt16/translation-task/test.tgz": sgml(
            "test", *(f"test/newstest2016-ende-{x}.sgm" for x in ("src.en", "ref.de"))
        ),
    })  # fmt: skip
    folder = tmp_path / "served" / "rsennrich" / "lingeval97" / "master"
    folder.mkdir(parents=True)
    (folder / "lingeval97.json").write_text(json.dumps([
        {"source": en, "reference": de, "errors": [
            {"type": "subj_verb_agreement", "contrastive": f"{de} {de}", "distance": distance, "frequency": 3}]}
        for distance, (en, de) in enumerate(CORPUS["test"][:30])
    ]))  # fmt: skip
    printed = recipe("wmt17-en-de", "nematus-baseline")
    assert re.search(r"nats per sentence|nats/sentence", printed)
    assert re.search(r"^subj_verb_agreement .* 20$", printed, re.MULTILINE)
    for year in (2013, 2014, 2015, 2016):
        assert len((tmp_path / "work" / f"newstest{year}.nematus-baseline.de").read_text().splitlines()) == 20


@pytest.mark.slow
def test_iwslt14_tr_en_runs_end_to_end_on_subwords_and_on_morphemes(
    serve: Serve, recipe: Recipe, tmp_path: Path
) -> None:
    sets = {f"tr-en/IWSLT14.TED.{name}.tr-en.{{}}.xml": "dev" for name in ("dev2010", "tst2010")}
    sets |= {f"tr-en/IWSLT14.TED.tst{year}.tr-en.{{}}.xml": "test" for year in (2011, 2012, 2013, 2014)}
    members = {name: f"<url>x</url>\n<title>A title</title>\n{text}"
               for name, text in texts("train", "tr-en/train.tags.tr-en.{tr,en}").items()}  # fmt: skip
    for name, split in sets.items():
        members |= sgml(split, name.format("tr"), name.format("en"))
    serve({"archive/2014-01/texts/tr/en/tr-en.tgz": members})
    folder = tmp_path / "served" / "OPUS-SETIMES" / "v2" / "moses"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "en-tr.txt.zip", "w") as archive:
        for name, text in texts("train", "SETIMES.en-tr.{en,tr}").items():
            archive.writestr(name, f"News\n{text}")
    recipe("iwslt14-tr-en", "densenmt-4l-1-e64")
    work = tmp_path / "work"
    assert {"A title", "News"} < set((work / "raw" / "train.tr").read_text().splitlines())
    assert len((work / "all.run-densenmt-4l-1-e64-bpe.en").read_text().splitlines()) == 80
    assert (work / "raw" / "train.en").read_text().startswith("A title\n")
    recipe("iwslt14-tr-en", "densenmt-4l-1-e64", MORPH=str(work / "raw"))
    assert len((work / "all.run-densenmt-4l-1-e64-morph.en").read_text().splitlines()) == 80


@pytest.mark.slow
def test_iwslt14_de_en_runs_end_to_end_on_the_talks_and_on_user_text(
    serve: Serve, recipe: Recipe, tmp_path: Path
) -> None:
    members = {name: f"<url>x</url>\n<title>A title</title>\n{text}"
               for name, text in texts("train", "de-en/train.tags.de-en.{de,en}").items()}  # fmt: skip
    for name in ("TED.dev2010", "TED.tst2010", "TED.tst2011", "TED.tst2012", "TEDX.dev2012"):
        members |= sgml("test", *(f"de-en/IWSLT14.{name}.de-en.{language}.xml" for language in ("de", "en")))
    serve({"fairseq/data/iwslt14/de-en.tgz": members})
    recipe("iwslt14-de-en", "densenmt-4l-2-e64", TEDX="1")
    work = tmp_path / "work"
    assert len((work / "test.densenmt-4l-2-e64.en").read_text().splitlines()) == 20
    sets = len((work / "corpora" / "test.en").read_text().splitlines()) / len(CORPUS["test"])
    assert sets == 5
    assert (work / "raw" / "train.en").read_text().startswith("A title\n")
    own = tmp_path / "own"
    recipe("iwslt14-de-en", "convs2s-4l-e64", TEXT=str(work / "text"), WORK=str(own), WORDS="1")
    for name in ("test.convs2s-4l-e64-words.en", "test.convs2s-4l-e64-words.greedy.en"):
        assert len((own / name).read_text().splitlines()) == 20
    assert "@@" in (work / "data" / "train.src").read_text()
    assert "@@" not in (own / "data-unsplit" / "train.src").read_text()


WMT14 = "test-full/newstest2014-{}-{}.sgm"
SETS = {
    "wmt14/test-full.tgz": sgml("test", WMT14.format("deen", "src.en"), WMT14.format("deen", "ref.de"))
    | sgml("test", WMT14.format("fren", "src.en"), WMT14.format("fren", "ref.fr")),
    "wmt17/translation-task/test.tgz": sgml(
        "test", "test/newstest2017-ende-src.en.sgm", "test/newstest2017-ende-ref.de.sgm"
    ),
}


def tar(folder: Path, path: Path) -> None:
    """The folder as an archive with one folder."""
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:bz2") as archive:
        archive.add(folder, "model")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "language"), [("opus-mt-en-de", "de"), ("uedin-wmt17-en-de", "de"), ("fconv-wmt14-en-de", "de"),
                             ("fconv-wmt14-en-fr", "fr")]
)  # fmt: skip
def test_published_systems_are_imported_and_scored(
    system: str, language: str, serve: Serve, recipe: Recipe, tmp_path: Path
) -> None:
    serve(SETS)
    served, theirs = tmp_path / "served", tmp_path / "theirs"
    if system.startswith("opus"):
        name = "opus.spm32k-spm32k.transformer-align.model1.npz.best-perplexity.npz"
        vocabularies = ["opus.spm32k-spm32k.vocab.yml"] * 2
        marian.write(marian.model("transformer", tied_embeddings_all=True), theirs, models=[name], vocabs=vocabularies)
        (theirs / "model.npz").rename(theirs / name)
        (theirs / "vocab.yml").rename(theirs / vocabularies[0])
        (theirs / "preprocess.sh").write_text("#!/bin/bash\n")
        pieces = learn_sentencepieces(Counter({"the": 5, "cat": 4, "no": 3}), 14, ["en"])
        for spm in ("source.spm", "target.spm"):
            (theirs / spm).write_bytes(pieces)
        archive = served / "OPUS-MT-models" / "en-de" / "opus-2020-02-26.zip"
        archive.parent.mkdir(parents=True)
        with zipfile.ZipFile(archive, "w") as file:
            for path in theirs.iterdir():
                file.write(path, path.name)
    elif system.startswith("uedin"):
        folder = served / "wmt17_systems" / "en-de"
        folder.parent.mkdir(parents=True)
        nematus_files.write(folder, "nematus-baseline")
        for path in folder.glob("model.npz*"):
            path.rename(path.with_name(path.name.replace("model", "model.l2r.ens1")))
        (folder / "ende.bpe").write_text("#version: 0.2\nt h\n")
        for side in ("en", "de"):
            (folder / f"truecase-model.{side}").write_text("the (5/5)\n")
    else:
        test_fairseq.write(theirs, target_lang=language)
        (theirs / "dict.de.txt").rename(theirs / f"dict.{language}.txt")
        (theirs / "bpecodes").write_text("#version: 0.2\nt h\n")
        version = ".v2" if language == "fr" else ""
        tar(theirs, served / "fairseq" / "models" / f"wmt14{version}.en-{language}.fconv-py.tar.bz2")
    printed = recipe("published", system)
    assert "published: " in printed
    assert "multi-bleu" in printed
    [translations] = (tmp_path / "work").glob(f"newstest*.{system}.{language}")
    assert len(translations.read_text().splitlines()) == 20


def serve_multi30k(served: Path, language: str = "de") -> None:
    folder = served / "multi30k" / "dataset" / "raw" / "master" / "data" / "task1" / "raw"
    folder.mkdir(parents=True)
    for split, name in (("train", "train"), ("dev", "val"), ("test", "test_2016_flickr")):
        for file, text in texts(split, f"{name}.{{en,{language}}}.gz").items():
            (folder / file).write_bytes(gzip.compress(text.encode()))


def serve_tatoeba(served: Path) -> None:
    (served / "anki").mkdir()
    with zipfile.ZipFile(served / "anki" / "deu-eng.zip", "w") as archive:
        archive.writestr("deu.txt", "".join(f"{en}\t{de}\tCC-BY\n" for en, de in sorted(CORPUS["train"])))


@pytest.mark.slow
def test_multi30k_runs_end_to_end(serve: Serve, recipe: Recipe, tmp_path: Path) -> None:
    serve({})
    serve_multi30k(tmp_path / "served")
    printed = recipe("multi30k", "rnnsearch")
    assert "BLEU" in printed
    assert len((tmp_path / "work" / "test2016.rnnsearch.de").read_text().splitlines()) == 20


@pytest.mark.slow
def test_tatoeba_en_de_replaces_unknown_words_of_three_models(serve: Serve, recipe: Recipe, tmp_path: Path) -> None:
    serve({})
    serve_tatoeba(tmp_path / "served")
    recipe("tatoeba-en-de")
    work = tmp_path / "work"
    for run in ("run-deep-att", "run-deep-att-unkpos", "run-deep-ed-unkpos"):
        for kind in ("plain", "posunk"):
            assert len((work / f"{run}.{kind}.de").read_text().splitlines()) == 20
    english = {name: set((work / "corpora" / f"{name}.en").read_text().splitlines()) for name in ("train", "test")}
    assert not english["train"] & english["test"]


@pytest.mark.slow
def test_low_resource_runs_end_to_end_and_keeps_every_line_of_the_test_set(
    serve: Serve, recipe: Recipe, tmp_path: Path
) -> None:
    serve({})
    folder = tmp_path / "served" / "AmericasNLP" / "americasnlp2021" / "raw" / "HEAD" / "data" / "hñähñu-spanish"
    folder.mkdir(parents=True)
    for split in ("train", "dev"):
        for file, text in texts(split, split + ".{en,de}").items():
            (folder / file.replace(".en", ".es").replace(".de", ".oto")).write_text(text)
    (tmp_path / "mono.es").write_text((folder / "dev.es").read_text())
    printed = recipe("low-resource", "oto", MONO=str(tmp_path / "mono.es"))
    assert printed.count("chrF2") >= 3
    work = tmp_path / "work" / "oto"
    for name in ("test.hyp.oto", "test.mbr.oto", "test.hyp.es"):
        assert len((work / name).read_text().splitlines()) == 20
    tagged = [line for line in (work / "back.oto").read_text().splitlines() if line.startswith("BT ")]
    assert len(tagged) == len((tmp_path / "mono.es").read_text().splitlines())
    assert "nematus-low-resource" in (work / "run" / "config.yaml").read_text()


@pytest.mark.slow
def test_low_resource_trains_one_model_for_several_languages(serve: Serve, recipe: Recipe, tmp_path: Path) -> None:
    serve({})
    data = tmp_path / "served" / "AmericasNLP" / "americasnlp2021" / "raw" / "HEAD" / "data"
    for language, folder in (("bzd", "bribri-spanish"), ("tar", "raramuri-spanish")):
        (data / folder).mkdir(parents=True)
        for split in ("train", "dev"):
            for file, text in texts(split, split + ".{en,de}").items():
                (data / folder / file.replace(".en", ".es").replace(".de", f".{language}")).write_text(text)
    printed = recipe("low-resource", "bzd", "tar")
    assert printed.count("chrF2") >= 2
    work = tmp_path / "work"
    lines = (work / "bzd-tar" / "train.es").read_text().splitlines()
    assert {line.split()[0] for line in lines} == {"bzd", "tar"}
    assert len(lines) == 2 * round(1.4 * (2000 - 200))
    for language in ("bzd", "tar"):
        assert len((work / "bzd-tar" / f"test.hyp.{language}").read_text().splitlines()) == 20


@pytest.mark.slow
def test_miniature_finds_both_corpora_and_runs_a_row(serve: Serve, recipe: Recipe, tmp_path: Path) -> None:
    serve({})
    serve_multi30k(tmp_path / "served")
    serve_tatoeba(tmp_path / "served")
    plan = yaml.safe_load((RECIPES / "miniature" / "plan.yaml").read_text())
    plan["budgets"]["six"] |= {"training.max_updates": 3}
    row = {"preset": "rnnsearch", "set": {"model.hidden": 8, "model.attention": 8}}
    plan["papers"] = {}
    plan["groups"] = {
        corpus: {"corpus": corpus, "budget": "six", "family": "rnnsearch", "seeds": [1], "rows": {"small": row}}
        for corpus in plan["corpora"]
    }
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    recipe("miniature", f"--plan={tmp_path / 'plan.yaml'}", f"--ledger={tmp_path / 'ledger.jsonl'}")
    lines = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert [line["group"] for line in lines] == ["multi30k", "tatoeba", "tatoeba-bpe"]


@pytest.mark.slow
def test_fine_tuning_runs_end_to_end(serve: Serve, recipe: Recipe, tmp_path: Path) -> None:
    serve({})
    serve_tatoeba(tmp_path / "served")
    serve_multi30k(tmp_path / "served")
    printed = recipe("fine-tuning")
    assert "starting with the weights of run/checkpoints/step-3" in printed
    assert re.search(r"vocab\.src: ([0-9,]+) of \1 words are in the model, 0 are new; 0 are dropped", printed)
    for name in ("run.general", "run-tuned.general", "run.domain", "run-tuned.domain"):
        assert len((tmp_path / "work" / f"{name}.de").read_text().splitlines()) == 20


@pytest.mark.slow
def test_back_translation_runs_end_to_end(serve: Serve, recipe: Recipe, tmp_path: Path) -> None:
    serve({})
    serve_tatoeba(tmp_path / "served")
    recipe("back-translation")
    work = tmp_path / "work"
    lines = {path.name: len(path.read_text().splitlines()) for path in work.glob("*.*") if path.is_file()}
    assert lines["synthetic.en"] == lines["monolingual.de"] > 0
    assert lines["both.en"] == lines["both.de"] == lines["pairs.de"] + lines["monolingual.de"]
    assert lines["run.de"] == lines["run-both.de"] == 20


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["replace", "append"])
def test_terms_are_marked_in_training_text_and_counted_in_translations(
    serve: Serve, recipe: Recipe, tmp_path: Path, kind: str
) -> None:
    serve({})
    serve_multi30k(tmp_path / "served", "fr")
    printed = recipe("terms", KIND=kind)
    work = tmp_path / "work"
    plain, marked = ((work / name).read_text().splitlines() for name in ("raw/train.en", f"marked.{kind}.en"))
    assert 0.2 < sum(a != b for a, b in zip(plain, marked, strict=True)) / len(plain) < 0.4
    if kind == "append":
        assert [re.sub(r" \[\w+\]", "", line) for line in marked] == plain
    [total] = set(re.findall(r"^\| .* \| \d+ of (\d+) \| \d+ of \1 \|", printed, re.MULTILINE))
    assert int(total) >= len((work / "terms" / "in.src").read_text().splitlines()) > 0
    assert f"| marked lines ({kind}) |" in printed


@pytest.mark.slow
def test_distillation_runs_end_to_end_and_accepts_trained_teachers(
    serve: Serve, recipe: Recipe, tmp_path: Path
) -> None:
    serve({})
    serve_multi30k(tmp_path / "served")
    printed = recipe("distillation")
    work = tmp_path / "work"
    assert len(list((work / "teacher").glob("members/*/config.yaml"))) == 3
    assert (work / "teacher.de").read_text() != (work / "raw" / "train.de").read_text()
    for side in ("src", "tgt"):
        rows = [(work / data / f"vocab.{side}").read_text().splitlines() for data in ("data", "data-teacher")]
        assert [row.partition("\t")[0] for row in rows[0]] == [row.partition("\t")[0] for row in rows[1]]
    speeds = dict(re.findall(r"^(\S+) +[0-9.]+ s +([0-9.]+) sentences/s$", printed, re.MULTILINE))
    assert len(speeds) == 15
    assert all(float(speed) > 0 for speed in speeds.values())
    for name in speeds:
        assert len((work / "test" / f"{name}.de").read_text().splitlines()) == 20
    # A piece of the teacher's text that is lost is made again, and nothing else of it.
    made = {path: path.stat().st_mtime_ns for path in (work / "parts").glob("de.*")}
    lost = min(made)
    text = lost.read_text()
    lost.unlink()
    recipe("distillation")
    assert lost.read_text() == text
    assert {path for path in made if path.stat().st_mtime_ns != made[path]} == {lost}
    own = tmp_path / "own"
    runs = [str(work / f"run-{name}") for name in ("bideep", "dtmt1")]
    recipe("distillation", WORK=str(own), TEACHERS=" ".join(runs))
    assert len(list((own / "teacher").glob("members/*/config.yaml"))) == 2
    assert not list(own.glob("run-bideep*"))


@pytest.mark.slow
def test_the_notebook_runs_from_its_first_cell_to_its_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ipykernel", reason="pip install 'nmtkit[notebook]'")
    nbclient = pytest.importorskip("nbclient", reason="pip install 'nmtkit[notebook]'")
    import nbformat

    monkeypatch.setenv("WORK", str(tmp_path))
    path = RECIPES / "notebook" / "tour.ipynb"
    notebook = nbformat.read(path, as_version=4)
    kept = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    nbclient.NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(path.parent)}}).execute()
    made = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    assert [len(outputs) for outputs in made] == [len(outputs) for outputs in kept]
    assert any(output.get("data", {}).get("text/plain") == "True" for outputs in made for output in outputs)


@pytest.mark.slow
def test_a_mistake_in_a_notebook_is_one_line() -> None:
    pytest.importorskip("ipykernel", reason="pip install 'nmtkit[notebook]'")
    nbclient = pytest.importorskip("nbclient", reason="pip install 'nmtkit[notebook]'")
    from nbformat import v4

    notebook = v4.new_notebook(cells=[v4.new_code_cell("import nmtkit; nmtkit.score([['a'], ['a', 'b']])")])
    nbclient.NotebookClient(notebook, timeout=900, allow_errors=True).execute()
    [shown] = notebook.cells[0].outputs
    assert shown.traceback == ["UserError: text 1 has 1 line but text 2 has 2; align them line by line"]


@pytest.mark.slow
def test_nist_zh_en_runs_end_to_end_on_user_text(recipe: Recipe, tmp_path: Path) -> None:
    ldc = tmp_path / "ldc"
    ldc.mkdir()
    for name, text in texts("train", "train.{zh,en}").items():
        (ldc / name).write_text(text)
    for mt in ("mt02", "mt03", "mt04", "mt05", "mt06", "mt08"):
        for reference in range(4):
            for name, text in texts("test", f"{mt}.{{zh,en{reference}}}").items():
                (ldc / name).write_text(text)
    printed = recipe("nist-zh-en", "deep-gru-2x1", LDC=str(ldc), SEEDS="1 2")
    for mt in ("mt03", "mt04", "mt05", "mt06"):
        assert re.search(rf"^{mt}$", printed, re.MULTILINE)
        assert re.search(rf"^{mt} \+PosUnk$", printed, re.MULTILINE)
    assert "mteval-lc of sources longer than this many words" in printed
    assert re.search(r"^ +>0 +80 ", printed, re.MULTILINE)


def texts_of_year(year: int, language: str) -> dict[str, str]:
    return sgml("dev", *(f"test/newstest{year}-src.{side}.sgm" for side in ("en", language)))


TINY = ["rnnsearch", "--vocab", "30", "40", "--length", "5", "--set", "model.embedding=4", "--set", "model.hidden=4"]


@pytest.mark.slow
def test_benchmarks_measure_a_tiny_model() -> None:
    def output(script: str, *arguments: str) -> str:
        command = [sys.executable, RECIPES / "benchmarks" / script, *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    trained = json.loads(output("train.py", *TINY, "--updates", "1", "--json"))
    assert trained.keys() == {"parameters", "words_per_second", "share", "peak_memory"}
    for options in (["--jobs", "2"], ["--precision", "int8"], ["--shortlist", "30"]):
        found = json.loads(output("translate.py", *TINY, "--sentences", "6", "--words", "9", *options, "--json"))
        assert found["words_per_second"] == pytest.approx(9 * found["sentences_per_second"])
    for dtype in ("float32", "bfloat16"):
        table = output("recurrences.py", "--width", "8", "--rows", "3", "--steps", "4", "--dtype", dtype).splitlines()
        assert [line.split("|")[1].strip() for line in table[-3:]] == ["GRU", "LAU", "LSTM"]
    assert [line.split("|")[1].strip() for line in output("loading.py", "20000", "40000").splitlines()[2:]] == [
        "20,000", "40,000",
    ]  # fmt: skip
    subprocess.run(["bash", "-n", RECIPES / "benchmarks" / "peers.sh"], check=True)
