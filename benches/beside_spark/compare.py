#!/usr/bin/env python3
"""Measures Fluvial beside Spark: the same files, the same query, one run after the other.

    python3 -m venv .venv && .venv/bin/pip install pyspark==4.1.4 polars numpy psutil   (and Java 17)
    cargo build --release --package fluvial-cli --package fluvial --example drop_duplicates --bin fluvial
    .venv/bin/python benches/beside_spark/compare.py low2m-json tiny startup

The main figure is rows per CPU second of the whole process (user and system), because machines
are shared. Spark has a warm-up run that does not count; Fluvial needs none. Both have two state
partitions and take two files a batch. The output of both is checked."""
import argparse, json, os, shutil, statistics, subprocess, sys, time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CLICKS = "user_id string, page string, event_time timestamp, duration_s double"
DATA = {
    "low2m": "clicks --rows 2000000 --keys 1000 --skew --files 20",
    "low10m": "clicks --rows 10000000 --keys 1000 --skew --files 20",
    "high2m": "clicks --rows 2000000 --keys 1000000 --files 20",
    "high10m": "clicks --rows 10000000 --keys 1000000 --files 20",
    "flat4m": "clicks --rows 4000000 --keys 1000 --files 20",
    "tiny": "tiny --files 260 --rows-per-file 100",
    "join": "join --rows 2000000 --files 10 --hours 1",
    "dedup": "dedup --distinct 5000000 --dups 1000000 --files 10 --hours 1",
}
FORMATS = {"dedup": "parquet", "flat4m": "json,csv,parquet"}
# What the output must hold: rows, and the sum of views.
CHECKS = {"low2m": (45000, 1881342), "low10m": (45000, 9406284), "high2m": (1842513, 1881342), "high10m": (8488143, 9406284)}
# Rows of the join, and the sum of val.
JOIN_CHECK = (1440391, 71310224)
JOBS = [f"{data}-{form}" for data in CHECKS for form in ("json", "parquet")] + ["tiny", "startup", "dedup", "join-parquet", "join-json"]
STATELESS = [f"{form}-stateless" for form in ("csv", "json", "parquet")]
JOBS += STATELESS

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("jobs", nargs="*", default=JOBS, metavar="JOB", help=f"one of {', '.join(JOBS)}; default all")
parser.add_argument("--data", type=Path, default=ROOT / "target" / "beside_spark", help="where generated data is kept")
parser.add_argument("--program", type=Path, default=ROOT / "target" / "release" / "fluvial")
parser.add_argument("--examples", type=Path, default=ROOT / "target" / "release" / "examples")
parser.add_argument("--repeat", type=int, default=3)
parser.add_argument("--without-spark", action="store_true", help="only Fluvial, for tuning")
args = parser.parse_args()


def data(name):
    folder = args.data / name
    if not folder.exists():
        print(f"generating {folder}", file=sys.stderr)
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        words = DATA[name].split() + ["--format", FORMATS.get(name, "json,parquet"), "--out", str(part)]
        subprocess.run([sys.executable, str(HERE / "generate.py"), *words], check=True)
        part.rename(folder)
    return folder


def sql(source, form, sink, mode, files):
    return f"""SET state.partitions = 2;
CREATE STREAMING TABLE views USING {sink} TBLPROPERTIES ('outputMode' = '{mode}', 'checkpointLocation' = 'checkpoint') AS
SELECT window(event_time, '5 minutes') AS w, page, count(*) AS views, sum(duration_s) AS total_duration_s
FROM STREAM read_files('{source}', format => '{form}', maxFilesPerTrigger => {files}, schema => '{CLICKS}')
WATERMARK event_time DELAY OF INTERVAL 10 MINUTES GROUP BY 1, 2;
"""


def join_sql(source, form):
    side = lambda name, schema, time: f"STREAM read_files('{source}/{name}/{form}', format => '{form}', maxFilesPerTrigger => 2, schema => '{schema}') WATERMARK {time} DELAY OF INTERVAL 10 MINUTES"
    return f"""SET state.partitions = 2;
CREATE STREAMING TABLE joined USING parquet LOCATION 'out' TBLPROPERTIES ('outputMode' = 'append', 'checkpointLocation' = 'checkpoint') AS
SELECT * FROM {side("imp", "imp_id string, imp_time timestamp, cost double", "imp_time")} AS i
JOIN {side("clk", "clk_id string, clk_time timestamp, val bigint", "clk_time")} AS c
ON imp_id = clk_id AND clk_time >= imp_time AND clk_time <= imp_time + INTERVAL 10 MINUTES;
"""


class Run:
    """One run of the program in a fresh folder."""

    def __init__(self, text, until=None, command=None):
        self.folder = args.data / "work"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        (self.folder / "job.sql").write_text(text)
        lines = open(self.folder / "progress", "w")
        start = time.perf_counter()
        command = command or [args.program, "run", "job.sql"]
        child = subprocess.Popen(command, cwd=self.folder, stdout=lines)
        if until is not None:
            while not (self.folder / until).exists() and child.poll() is None:
                time.sleep(0.0005)
            self.until = time.perf_counter() - start
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.wall = time.perf_counter() - start
        self.cpu, self.peak_mb = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
        if child.returncode != 0:
            sys.exit(f"the program failed: {(self.folder / 'progress').read_text()[-2000:]}")
        text = (self.folder / "progress").read_text()
        self.progress = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        self.progress = [line for line in self.progress if "batchId" in line]


def spark(*words):
    results = args.data / "spark.jsonl"
    results.unlink(missing_ok=True)
    command = [sys.executable, str(HERE / "spark.py"), *map(str, words), "--repeat", str(args.repeat), "--results", str(results)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return [json.loads(line) for line in results.read_text().splitlines()]


def median(values):
    return statistics.median(list(values))


def row(job, figure, ours, peer, better):
    ratio = f"{better(ours, peer):.1f}x" if peer else ""
    print(f"| {job} | {figure} | {ours:,.1f} | {peer:,.1f} | {ratio} |" if peer else f"| {job} | {figure} | {ours:,.1f} | | |", flush=True)


def ask(expression, folder):
    """What polars says of the files of a folder (`files`), in a process of its own: the memory of
    this one counts as that of the programs that it starts."""
    code = f"import json, polars; files = polars.scan_parquet({str(folder) + '/*.parquet'!r}); print(json.dumps({expression}))"
    return json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)


more = lambda ours, peer: ours / peer
less = lambda ours, peer: peer / ours


def clicks(job):
    name, form = job.split("-")
    source = data(name) / form
    runs = []
    for _ in range(args.repeat):
        runs.append(Run(sql(source, form, "parquet LOCATION 'out'", "append", 2)))
        check(name, runs[-1].folder / "out")
    rows = sum(line["numInputRows"] for line in runs[0].progress)
    peer = [] if args.without_spark else spark("clicks", "--input", source, "--format", form)
    assert all((line["out_rows"], line["out_sum"]) == CHECKS[name] for line in peer if "out_rows" in line)
    per_cpu = lambda lines: median(line["rows_per_jvm_cpu_s"] for line in lines) / 1000 if lines else None
    row(job, "k rows per CPU second", rows / median(r.cpu for r in runs) / 1000, per_cpu(peer), more)
    row(job, "k rows per second", rows / median(r.wall for r in runs) / 1000, median(p["rows_per_s"] for p in peer) / 1000 if peer else None, more)
    row(job, "peak memory MB", median(r.peak_mb for r in runs), max(p["jvm_hwm_mb"] for p in peer) if peer else None, less)


def check(name, folder):
    found = tuple(ask("files.select(polars.len(), polars.col('views').sum()).collect().row(0)", folder))
    assert found == CHECKS[name], f"{name}: {found[0]} rows, {found[1]} views"


def join(job):
    form = job.split("-")[1]
    source, runs = data("join"), []
    for _ in range(args.repeat):
        runs.append(Run(join_sql(source, form)))
        found = tuple(ask("files.select(polars.len(), polars.col('val').sum()).collect().row(0)", runs[-1].folder / "out"))
        assert found == JOIN_CHECK, f"{found[0]} rows, sum {found[1]}"
    rows = sum(line["numInputRows"] for line in runs[0].progress)
    peer = [] if args.without_spark else spark("join", "--input", source, "--format", form)
    assert all((line["out_rows"], line["out_sum"]) == JOIN_CHECK for line in peer if "out_rows" in line)
    row(job, "k rows per CPU second", rows / median(r.cpu for r in runs) / 1000, median(p["rows_per_jvm_cpu_s"] for p in peer) / 1000 if peer else None, more)
    row(job, "k rows per second", rows / median(r.wall for r in runs) / 1000, median(p["rows_per_s"] for p in peer) / 1000 if peer else None, more)
    row(job, "peak memory MB", median(r.peak_mb for r in runs), max(p["jvm_hwm_mb"] for p in peer) if peer else None, less)
    states = [line["stateOperators"][0] for line in runs[0].progress if line["stateOperators"]]
    largest = max(states, key=lambda state: state["numRowsTotal"])
    row(job, "state rows at most", largest["numRowsTotal"], None, less)
    row(job, "state bytes per row", largest["memoryUsedBytes"] / max(1, largest["numRowsTotal"]), None, less)


def stateless_sql(source, form):
    return f"""CREATE STREAMING TABLE long_visits USING parquet LOCATION 'out' TBLPROPERTIES ('outputMode' = 'append', 'checkpointLocation' = 'checkpoint') AS
SELECT user_id, page, event_time, duration_s * 2 AS doubled
FROM STREAM read_files('{source}', format => '{form}', maxFilesPerTrigger => 2, schema => '{CLICKS}') WHERE duration_s >= 15;
"""


def stateless(job):
    form = job.split("-")[0]
    source, runs = data("flat4m") / form, []
    sums = "select(polars.len(), polars.col('user_id').str.len_bytes().sum()).collect().row(0)"
    expected = tuple(ask(f"files.filter(polars.col('duration_s') >= 15).{sums}", data("flat4m") / "parquet"))
    for _ in range(args.repeat):
        runs.append(Run(stateless_sql(source, form)))
        found = tuple(ask(f"files.{sums}", runs[-1].folder / "out"))
        assert found == expected, f"{job}: {found}, expected {expected}"
    rows = sum(line["numInputRows"] for line in runs[0].progress)
    peer = [] if args.without_spark else spark("stateless", "--input", source, "--format", form)
    assert all((line["out_rows"], line["out_sum"]) == expected for line in peer if "out_rows" in line)
    row(job, "k rows per CPU second", rows / median(r.cpu for r in runs) / 1000, median(p["rows_per_jvm_cpu_s"] for p in peer) / 1000 if peer else None, more)
    row(job, "k rows per second", rows / median(r.wall for r in runs) / 1000, median(p["rows_per_s"] for p in peer) / 1000 if peer else None, more)
    row(job, "peak memory MB", median(r.peak_mb for r in runs), max(p["jvm_hwm_mb"] for p in peer) if peer else None, less)


def tiny(job):
    source = data("tiny") / "json"
    runs = [Run(sql(source, "json", "noop", "update", 1)) for _ in range(args.repeat)]
    peer = [] if args.without_spark else spark("tiny", "--input", source, "--format", "json", "--files-per-trigger", 1)
    # As for Spark: 200 batches after the first 50.
    times = [[line["durationMs"]["triggerExecution"] for line in r.progress if line["numInputRows"]][50:250] for r in runs]
    row(job, "median batch ms", median(map(median, times)), median(p["median_ms"] for p in peer) if peer else None, less)
    row(job, "p99 batch ms", median(sorted(t)[int(len(t) * 0.99) - 1] for t in times), median(p["p99_ms"] for p in peer) if peer else None, less)
    mean = [r.wall * 1000 / len(r.progress) for r in runs]
    row(job, "whole run per batch ms", median(mean), median(p["wall_s"] * 1000 / p["batches_total"] for p in peer) if peer else None, less)
    row(job, "peak memory MB", median(r.peak_mb for r in runs), max(p["jvm_hwm_mb"] for p in peer) if peer else None, less)


def startup(job):
    source = data("tiny") / "json"
    text = sql(source, "json", "parquet LOCATION 'out'", "append", 1)
    runs = [Run(text, until="checkpoint/commits/0") for _ in range(args.repeat)]
    peer = [] if args.without_spark else spark("startup", "--input", source, "--format", "json")
    row(job, "start to first commit ms", median(r.until * 1000 for r in runs), median(p["start_to_first_commit_s"] for p in peer) * 1000 if peer else None, less)


def dedup(job):
    source = data("dedup") / "parquet"
    command = [args.examples / "drop_duplicates", source]
    runs = []
    for _ in range(args.repeat):
        runs.append(Run("", command=command))
        found = ask("files.select(polars.len(), polars.col('id').n_unique()).collect().row(0)", runs[-1].folder / "out")
        assert found == [5_000_000, 5_000_000], f"{found[0]} rows, {found[1]} ids"
    rows = sum(line["numInputRows"] for line in runs[0].progress)
    state = max((line["stateOperators"][0] for line in runs[0].progress), key=lambda s: s["numRowsTotal"])
    peer = [] if args.without_spark else spark("dedup", "--input", source, "--delay", "2 hours")
    per_cpu = lambda lines: median(line["rows_per_jvm_cpu_s"] for line in lines) / 1000 if lines else None
    row(job, "k rows per CPU second", rows / median(r.cpu for r in runs) / 1000, per_cpu(peer), more)
    row(job, "k rows per second", rows / median(r.wall for r in runs) / 1000, median(p["rows_per_s"] for p in peer) / 1000 if peer else None, more)
    row(job, "peak memory MB", median(r.peak_mb for r in runs), max(p["jvm_hwm_mb"] for p in peer) if peer else None, less)
    row(job, "bytes of state per row", state["memoryUsedBytes"] / state["numRowsTotal"], max(p["state_mem_max"] / p["state_rows_max"] for p in peer) if peer else None, less)


print("| job | figure | Fluvial | Spark | ratio |\n|---|---|---:|---:|---:|")
for job in args.jobs:
    if job not in JOBS:
        sys.exit(f"no job {job}: there are {', '.join(JOBS)}")
    named = {"tiny": tiny, "startup": startup, "dedup": dedup, "join-parquet": join, "join-json": join, **{job: stateless for job in STATELESS}}
    named.get(job, clicks)(job)
