import html.parser
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nmtkit.evaluation.report import History, training_charts
from nmtkit.experiment.presets import load_preset
from nmtkit.folders import ModelFolder
from nmtkit.ops.precision import resolve
from nmtkit.training.metrics import log_metrics
from nmtkit.translation import loading
from tests.echo import load_echo, write_folder

Run = Callable[..., Any]  # the command line of tests/conftest.py

SOURCES = ["a b c", "d e f g h", "a <b> & c", "", "lower " * 12]
REFERENCES = ["a b c", "d e f g h", "a c", "", "lower " * 12]


def write_run(folder: Path, preset: str, train_errors: bool) -> None:
    """A model that copies its source, with a history."""
    write_folder(folder)
    ModelFolder(folder).write_config(load_preset(preset))
    run = ModelFolder(folder)
    for epoch in (1, 2, 3):
        seen = {"update": 365 * epoch, "epoch": epoch}
        rate = {"lr": 0.012 / epoch} if train_errors else {}
        log_metrics(run, {"kind": "train", **seen, "loss": 4 / epoch, "lr_factor": 1.0, "tokens": 5000 * epoch, **rate})
        errors = {"train_token_error_rate": 0.5 / epoch} if train_errors else {}
        valid = {"cross_entropy": 5 / epoch, "token_error_rate": 0.6 / epoch, "bleu": 10.0 * epoch}
        valid |= {"chrf2": 15.5 * epoch} if train_errors else {}  # older versions logged none of these
        log_metrics(run, {"kind": "valid", **seen, **valid, **errors})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a test set and two models, one of them without attention."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loading, "load_model", load_echo)
    write_run(tmp_path / "run", "rnnsearch", train_errors=True)
    write_run(tmp_path / "blind", "deep-ed", train_errors=False)
    (tmp_path / "data").mkdir()
    for side, lines in (("src", SOURCES), ("tgt", REFERENCES)):
        (tmp_path / f"data/test.raw.{side}").write_text("".join(f"{line.strip()}\n" for line in lines))
    return tmp_path


class Page(html.parser.HTMLParser):
    """The elements of a page; fails for elements that are not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.counts: dict[str, int] = {}
        self.words = ""
        self.loads: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.loads += [value or "" for name, value in attributes if name in ("src", "href", "data", "xlink:href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def test_a_page_has_every_part_and_needs_nothing_else(nmtkit: Run) -> None:
    outcome = nmtkit("report", "run", "blind", "--paired", "ar")
    assert outcome.status == 0, outcome.err
    assert outcome.out == "report.html\n"
    text = Path("report.html").read_text("utf-8")
    page = Page(text)
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    assert headings == ["Scores", "Training", "By length of the source", "Without unknown words",
                        "Unknown words and names", "Are the differences due to chance?", "Attention",
                        "Most different", "Worst", "Configurations"]  # fmt: skip
    assert all(link.startswith("#s") for link in page.loads)
    assert page.counts["figure"] == 7 + 2 + 3  # training, lengths, attention of the model that has it
    assert "Dev chrF2 by updates" in page.words
    assert re.search(r"best dev chrF2\s*46\.50\s*-", page.words)
    assert "script" not in page.counts
    assert "url(" not in text
    assert "a <b> & c" in page.words  # text that looks like HTML is text
    assert "<b>" not in text
    assert "architecture: rnnsearch" in page.words
    assert "nrefs:1|case:mixed|eff:no|tok:13a" in page.words
    assert "|ar:10000|" in page.words
    assert "|bs:" not in page.words
    assert not list(Path().glob("*/test.hyp"))  # a report changes no model folder
    device = "cuda" if torch.cuda.is_available() else "cpu"
    assert f"translated in {resolve('auto', torch.device(device))} on {device};" in page.words


def test_the_bleu_of_the_development_set_is_explained_as_in_the_log_of_the_run(nmtkit: Run) -> None:
    said = "BLEU and chrF2 of the development set: sacreBLEU"
    Path("run/train.log").write_text(f"12:00 {said} 13a, 1 reference\n12:01 {said} zh, 2 references\n12:02 end\n")
    assert nmtkit("report", "run", "blind").status == 0
    words = Page(Path("report.html").read_text("utf-8")).words
    assert "dev BLEU, dev chrF2development set of runsacreBLEU zh, 2 references" in words
    assert "dev BLEU, dev chrF2development set of blind-" in words  # the log is missing


def test_no_two_lines_of_a_chart_look_alike() -> None:
    train = {"update": 1, "tokens": 9, "loss": 1.0, "lr_factor": 1.0, "tokens_per_second": 1.0}
    errors = {"token_error_rate": 0.1, "train_token_error_rate": 0.1}
    valid = {"update": 1, "cross_entropy": 1.0, "bleu": 1.0, "chrf2": 1.0, **errors}
    histories = [History(str(i), "rnnsearch", 1.0, "", 1, [train], [valid], [valid], {}) for i in range(20)]
    legends = re.findall('<ul class="legend">(.*?)</ul>', training_charts(histories))
    assert legends
    for legend in legends:
        lines = re.findall('<line class="(.*?)" style="(.*?)"', legend)
        assert len(set(lines)) == len(lines) >= 20


def test_text_that_is_written_from_right_to_left_is_shown_so(nmtkit: Run, folder: Path) -> None:
    for side in ("src", "tgt"):
        (folder / f"data/test.raw.{side}").write_text("a b c (d).\n" * 4 + "مرحبا، كيف حالك؟\n")
    assert nmtkit("report").status == 0
    text = Path("report.html").read_text("utf-8")
    assert '<dt>reference</dt><dd dir="auto">مرحبا، كيف حالك؟</dd>' in text
    assert "<dd>" not in text


def test_one_model_is_enough_and_lines_can_be_chosen(nmtkit: Run) -> None:
    assert nmtkit("report", "--lines", "2,1", "--count", "1", "-o", "one.html").status == 0
    text = Path("one.html").read_text("utf-8")
    assert re.findall(r"<h3>(.*?)</h3>", text) == ["Sentence 2", "Sentence 1"]
    assert "chance?" not in text
    assert "Most different" not in text
    assert text.count("<dl>") == 2 + 1


def test_subsets_have_the_given_metric_and_long_pairs_can_be_left_out_of_the_cross_entropy(nmtkit: Run) -> None:
    sentences = {}
    for most in (3, 100):
        assert nmtkit("report", "--subset-metric", "chrF2", "--max-length", most).status == 0
        words = Page(Path("report.html").read_text("utf-8")).words
        assert "chrF2 on the sentences in whose references" in words
        sentences[most] = re.findall(r"nats per sentence\s*([0-9.]+)", words)
    assert len(sentences[3]) == len(sentences[100]) == 1
    assert sentences[3] != sentences[100]


def test_replacements_of_unknown_words_and_names_are_reported(nmtkit: Run, folder: Path) -> None:
    (folder / "data/test.raw.src").write_text("a Xi Yo b\n" + "a\n" * 4)
    (folder / "data/test.raw.tgt").write_text("a Xi Yi b\n" + "a\n" * 4)
    told = {}
    for arguments in ([], ["--replace-unk"]):
        assert nmtkit("report", *arguments).status == 0
        text = Path("report.html").read_text("utf-8")
        told[bool(arguments)] = dict(re.findall(r"<tr>.*?>([^<>]+)</t.><t.[^>]*>([^<>]+)</td></tr>", text))
    rows = ("unknown words copied", "unknown words left", "names kept")
    assert [told[False][row] for row in rows] == ["0", "4", "0 of 1"]  # pieces
    assert [told[True][row] for row in rows] == ["4", "0", "1 of 1"]
    assert "of these, not in the vocabulary" not in text  # a model of subwords can write every name


def test_a_model_without_history_has_scores(nmtkit: Run) -> None:
    Path("run/metrics.jsonl").unlink()
    assert nmtkit("report").status == 0
    assert "<h2>Training" not in Path("report.html").read_text("utf-8")


def test_an_incomplete_last_line_of_a_killed_run_is_ignored(nmtkit: Run) -> None:
    with Path("run/metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "upd')
    assert nmtkit("report").status == 0


@pytest.mark.parametrize("line", ["", "3", "{}", '{"kind": "other"}', '{"kind": "train", "update": "3"}', "[" * 9999])
def test_an_invalid_line_of_the_history_is_reported(nmtkit: Run, line: str) -> None:
    with Path("run/metrics.jsonl").open("a") as file:
        file.write(f"{line}\n")
    complaint = "run/metrics.jsonl:7: not what nmtkit train writes; delete the line"
    assert nmtkit("report") == (1, "", f"nmtkit: error: {complaint}\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "run"], "a model is named twice; name each once"),
        (["data"], "data: not a model folder (no config.yaml); `nmtkit train` or `nmtkit import` makes one"),
        (["run", "-d", "none"], "none: no such folder; make it with nmtkit prep"),
        (["run", "-o", "a.pdf"], "--output a.pdf: is written as HTML; choose a name that ends in .html"),
        (["run", "--type", "a"], "--type needs --contrast"),
        (["run", "--lines", "0"], "--lines 0: expected numbers from 1 to 5, separated by commas"),
        (["run", "--lines", "²"], "--lines ²: expected numbers from 1 to 5, separated by commas"),
        (["run", "--lines", "1,x"], "--lines 1,x: expected numbers from 1 to 5, separated by commas"),
    ],
)  # fmt: skip
def test_errors_are_one_line(nmtkit: Run, arguments: list[str], complaint: str) -> None:
    outcome = nmtkit("report", *arguments)
    assert outcome.status == 1
    assert outcome.err.splitlines()[-1] == f"nmtkit: error: {complaint}"
    assert not Path("report.html").exists()


def test_a_page_that_cannot_be_written_is_an_error_before_a_system_translates(nmtkit: Run) -> None:
    complaint = "none/report.html: cannot be written: No such file or directory"
    assert nmtkit("report", "-o", "none/report.html") == (1, "", f"nmtkit: error: {complaint}\n")


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MEASURE = """<script>
document.title = JSON.stringify({
  page: document.documentElement.scrollWidth, window: window.innerWidth,
  outside: [...document.querySelectorAll("svg text")].filter(text => {
    const [box, frame] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
    return box.left < frame.left - 1 || box.right > frame.right + 1
      || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
  }).length,
  overlapping: [...document.querySelectorAll("svg.chart")].filter(chart => {
    const boxes = [...chart.querySelectorAll("text")].map(text => text.getBoundingClientRect());
    return boxes.some((a, i) => boxes.slice(i + 1).some(b =>
      a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1));
  }).length,
});
</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; apt install chromium")
@pytest.mark.parametrize("width", [500, 1280])  # no window of Chromium is narrower than 500 pixels
def test_in_a_browser_nothing_overlaps_or_overflows(nmtkit: Run, folder: Path, width: int) -> None:
    nmtkit("report", "run", "blind", "--lines", "1,2,5")
    page = Path("report.html").read_text("utf-8")
    Path("measured.html").write_text(page.replace("</body>", MEASURE), "utf-8")
    arguments = ["--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900", "--dump-dom"]
    shown = subprocess.run(
        [str(CHROMIUM), *arguments, f"--user-data-dir={folder / 'chromium'}", (folder / "measured.html").as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    [title] = re.findall(r"<title>(.*?)</title>", shown.stdout)
    found = json.loads(html.unescape(title))
    assert found["page"] <= found["window"]
    assert (found["outside"], found["overlapping"]) == (0, 0)
