"""Trains, averages, translates and scores the rows of plan.yaml, and appends the results to results.jsonl, the ledger.

    python recipes/miniature/run.py                           # every row, one after the other
    python recipes/miniature/run.py --groups zhou --jobs 2    # the rows of one group, two at a time

WORK/CORPUS/raw has {train,dev,test}.LANGUAGE of each corpus; run.sh downloads them. This script makes everything else
below WORK, with nmtkit commands of its own Python. Rows in the ledger are skipped, and stopped or killed trainings are
resumed. OMP_NUM_THREADS is the number of threads of each training.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import yaml

HERE = Path(__file__).parent
BLEU, CHRF = "sacreBLEU-13a", "chrF2"  # their names in `nmtkit score --json`


class Job(NamedTuple):
    """One row of the plan with one seed."""

    group: str
    row: str
    seed: int
    corpus: str
    settings: dict[str, Any]  # preset, changes, data and search
    trained: str | None  # the row whose model this one translates with, if it does not train its own
    tested: bool  # false for rows that choose settings, which are never evaluated on the test set

    @property
    def folder(self) -> str:
        return f"{self.group}/{self.row}/seed{self.seed}"

    @property
    def id(self) -> str:
        """Ten hexadecimal digits of the hash of all settings that affect the result."""
        content = json.dumps([self.group, self.row, self.seed, self.settings], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:10]


def text(value: object) -> str:
    """A value of the plan for `--set`: null, true and false as in YAML."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def jobs(plan: dict[str, Any]) -> list[Job]:
    """Every row of every group with each of its seeds, in the order of the plan."""
    planned = []
    for group, content in plan["groups"].items():
        general = plan["common"] | plan["budgets"][content["budget"]]
        for row, of_row in content["rows"].items():
            family = plan["families"][of_row.get("family", content["family"])]
            settings = {
                "preset": of_row["preset"],
                "set": {key: text(value) for key, value in (general | family | of_row.get("set", {})).items()},
                "data": plan["corpora"][content["corpus"]],
                "translate": plan["translate"] + of_row.get("translate", []),
            }
            for seed in seeds(content, of_row):
                tested = content.get("tested", True)
                planned.append(Job(group, row, seed, content["corpus"], settings, of_row.get("trained"), tested))
    return planned


def seeds(group: dict[str, Any], row: dict[str, Any]) -> list[int]:
    """The seeds of a row, or of its group: first those fixed before any run, then those added later."""
    return row.get("seeds", group["seeds"]) + row.get("later", group.get("later", []))


def read_ledger(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Runner:
    """Runs jobs below ``work`` and appends to the ledger; ``run`` may be called by several threads."""

    def __init__(self, plan: dict[str, Any], work: Path, ledger: Path):
        self.plan, self.work, self.ledger = plan, work.resolve(), ledger
        self.lock = threading.Lock()  # for the ledger and the data folders
        self.commit = commit()

    def run(self, job: Job) -> None:
        """Prepare, train, test and append a line to the ledger, unless it is already there."""
        with self.lock:
            if job.id in {record["id"] for record in read_ledger(self.ledger)}:
                return
            self._prepare(job.corpus)
        folder = self.work / job.folder
        folder.mkdir(parents=True, exist_ok=True)
        model = self.work / job.group / (job.trained or job.row) / f"seed{job.seed}"
        print(f"{job.folder}: begun", flush=True)
        if not job.trained:
            self._train(job, folder)
        record = {
            "id": job.id, "group": job.group, "row": job.row, "seed": job.seed, "commit": self.commit,
            **history(model / "run"), **(self._test(job, folder, model) if job.tested else {}),
            "settings": job.settings,
        }  # fmt: skip
        with self.lock:
            self._append(record)
        print(f"{job.folder}: dev cross-entropy {record['passes'][-1]['cross_entropy']:.3f}", flush=True)

    def _train(self, job: Job, folder: Path) -> None:
        values = [f"--set={key}={value}" for key, value in job.settings["set"].items()]
        data = self.work / job.corpus / "data"
        self._nmtkit(folder, "train", "--model", job.settings["preset"], *values, "--seed", job.seed, "--data", data,
                     "--output", folder / "run")  # fmt: skip
        if job.tested:
            self._nmtkit(folder, "average", "--model", folder / "run", "--output", folder / "averaged")

    def _test(self, job: Job, folder: Path, model: Path) -> dict[str, Any]:
        """BLEU and chrF of the test set, whose translations are kept in test.hyp."""
        source = self.work / job.corpus / "raw" / f"test.{job.settings['data']['source']}"
        part, output = folder / "test.part", folder / "test.hyp"
        self._nmtkit(folder, "translate", "--model", model / "averaged", "--input", source, "--output", part,
                     *job.settings["translate"])  # fmt: skip
        part.replace(output)
        scores = self._score(job, output)["systems"][0]["scores"]
        return {"BLEU": scores[BLEU]["score"], "chrF": scores[CHRF]["score"], "signature": scores[BLEU]["signature"]}

    def compare(self, better: Job, worse: Job) -> None:
        """The paired test over sentences of two translations of the test set, unless it is in the ledger."""
        ids = [better.id, worse.id]
        outputs = [self.work / job.folder / "test.hyp" for job in (worse, better)]
        with self.lock:
            known = {record["id"]: record for record in read_ledger(self.ledger)}
            if "-".join(ids) in known or not known.keys() >= set(ids) or not all(output.exists() for output in outputs):
                return
            tested = self._score(worse, *outputs, "--paired", "ar")["paired"][BLEU]
            self._append({"id": "-".join(ids), "p": tested["systems"][1]["p"], "signature": tested["signature"]})

    def _prepare(self, corpus: str) -> None:
        """Make the data folder of a corpus; finished steps are marked by files."""
        folder = self.work / corpus
        for number, step in enumerate(self.plan["corpora"][corpus]["steps"], 1):
            mark = folder / f"step{number}.done"
            if not mark.exists():
                self._nmtkit(folder, *step)
                mark.write_text(" ".join(step) + "\n")

    def _score(self, job: Job, *arguments: object) -> Any:
        target = job.settings["data"]["target"]
        reference = self.work / job.corpus / "raw" / f"test.{target}"
        options = ("--reference", reference, "--language", target, "--json")
        return json.loads(self._nmtkit(self.work / job.folder, "score", *arguments, *options))

    def _nmtkit(self, folder: Path, *arguments: object) -> str:
        """The output of a command run in a folder, with its messages in the file log; its failure ends the runner."""
        command = [sys.executable, "-m", "nmtkit", *map(str, arguments)]
        with (folder / "log").open("a") as log:
            done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True, check=False)
        if done.returncode:
            last = (folder / "log").read_text().splitlines()[-1:]
            sys.exit(f"{folder.name}: nmtkit {arguments[0]} ended with status {done.returncode}: {' '.join(last)}")
        return done.stdout

    def _append(self, record: dict[str, Any]) -> None:
        """Append a line in a single write, so that a kill leaves all of it or nothing."""
        with self.ledger.open("ab", buffering=0) as file:
            file.write(json.dumps(record).encode() + b"\n")
            os.fsync(file.fileno())


def history(run: Path) -> dict[str, Any]:
    """The figures in the log of a training: machine and precision, words, seconds, and dev scores by epoch."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    windows = [record for record in records if record["kind"] == "train"]
    validations = [record for record in records if record["kind"] == "valid"]
    seen = [0, *(window["tokens"] for window in windows)]
    speeds = [window["tokens_per_second"] for window in windows]
    spent = sum((after - before) / speed for before, after, speed in zip(seen[:-1], seen[1:], speeds, strict=True))
    where = re.findall(r"([\d.]+) M parameters; .*; (\w+) on (.+)", (run / "train.log").read_text())[-1]
    return {
        "parameters": float(where[0]),  # millions
        "precision": where[1],
        "machine": f"{processor()}, {where[2]}",
        "words": seen[-1],
        "seconds": round(spent + sum(record["seconds"] for record in validations)),
        "passes": [{name: record[name] for name in ("cross_entropy", "bleu")} for record in validations],
    }


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", cpuinfo.read_text()) if cpuinfo.exists() else []
    return names[0] if names else platform.processor() or platform.machine()


def commit() -> str:
    """The commit of the nmtkit that trains, with -dirty if files were changed."""
    found = importlib.util.find_spec("nmtkit")
    assert found, "nmtkit is not installed"
    assert found.origin
    command = ["git", "-C", str(Path(found.origin).parent), "describe", "--always", "--dirty", "--abbrev=10"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def comparisons(plan: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Group, better row and worse row of all comparisons of the claims."""
    claims = [claim for paper in plan["papers"].values() for claim in paper["claims"]]
    return [tuple(rows) for claim in claims for rows in claim["compare"] + claim.get("beside", [])]


def pairs(plan: dict[str, Any], planned: list[Job]) -> list[tuple[Job, Job]]:
    """Better and worse job of every comparison, for every seed that both rows have."""
    found = {(job.group, job.row, job.seed): job for job in planned}
    return [
        (found[group, better, seed], found[group, worse, seed])
        for group, better, worse in comparisons(plan)
        for seed in seeds(plan["groups"][group], plan["groups"][group]["rows"][better])
        if (group, worse, seed) in found
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path, default=HERE / "plan.yaml")
    parser.add_argument("--ledger", type=Path, default=HERE / "results.jsonl")
    parser.add_argument("--work", type=Path, default=Path("work/miniature"), help="for everything else [%(default)s]")
    parser.add_argument("--groups", nargs="+", help="only these groups of the plan")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time [1]")
    options = parser.parse_args()
    plan = yaml.safe_load(options.plan.read_text())
    unknown = set(options.groups or ()) - set(plan["groups"])
    if unknown:
        parser.error(f"{options.plan} has no group {', '.join(sorted(unknown))}: only {', '.join(plan['groups'])}")
    planned = jobs(plan)
    runner = Runner(plan, options.work, options.ledger)

    def run(job: Job) -> None:
        runner.run(job)
        for better, worse in pairs(plan, planned):
            runner.compare(better, worse)

    wanted = [job for job in planned if not options.groups or job.group in options.groups]
    for translated_only in (False, True):  # rows that use another row's model run after it
        with ThreadPoolExecutor(options.jobs) as pool:
            running = [pool.submit(run, job) for job in wanted if (job.trained is not None) == translated_only]
            try:
                for job in running:
                    job.result()
            finally:
                pool.shutdown(cancel_futures=True)


if __name__ == "__main__":
    main()
