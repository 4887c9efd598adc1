#!/usr/bin/env python3
"""Measures a stream of many small commits into a Delta table, beside the deltalake package.

    python3 -m venv .venv && .venv/bin/pip install deltalake==1.6.6 pyarrow==26.0.1
    cargo build --release --package fluvial-cli
    .venv/bin/python benches/delta_commits/compare.py            # 10000 commits of 100 rows each

Both append the same rows to a table of their own on the same disk, one after the other. Fluvial's
time is that of a whole batch: plan, data, version, commit of the checkpoint, all of it synced to the
disk. That of the package is one call of write_deltalake, which syncs nothing. Memory is what the
process holds (VmRSS), at a tenth of the commits and at the end."""
import argparse, json, signal, statistics, subprocess, sys, tempfile, time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--program", type=Path, default=ROOT / "target" / "release" / "fluvial")
parser.add_argument("--commits", type=int, default=10000)
parser.add_argument("--rows", type=int, default=100)
parser.add_argument("--only", choices=["fluvial", "deltalake"])
parser.add_argument("--folder", type=Path, help="on the disk to measure; a temporary one if not given")
args = parser.parse_args()


def held(pid):
    """MB of memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024


def fluvial(folder):
    """Milliseconds of each batch, and memory at each tenth."""
    script = folder / "pipeline.sql"
    script.write_text(
        "CREATE STREAMING TABLE commits USING delta LOCATION 'fluvial' AS "
        f"SELECT timestamp, value FROM STREAM rate_micro_batch(rowsPerBatch => {args.rows})"
    )
    command = [args.program.resolve(), "run", script.name, "--trigger", "0s"]
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    times, memory = [], []
    for line in child.stdout:
        if not line.startswith('{"id"'):
            continue
        times.append(json.loads(line)["batchDuration"])
        if len(times) % (args.commits // 10) == 0:
            memory.append(held(child.pid))
        if len(times) == args.commits:
            child.send_signal(signal.SIGINT)
            break
    child.stdout.read()
    if child.wait() not in (0, 130):
        sys.exit(f"the program ended with {child.returncode}")
    return times, memory


PACKAGE = """
import sys, time, pyarrow, deltalake
path, commits, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
zone = pyarrow.timestamp("us", tz="UTC")
schema = pyarrow.schema([("timestamp", zone), ("value", pyarrow.int64())])
table = deltalake.DeltaTable.create(path, deltalake.Schema.from_arrow(schema))
for commit in range(commits):
    values = range(commit * rows, (commit + 1) * rows)
    times = pyarrow.array([commit * 1000000] * rows, pyarrow.int64()).cast(zone)
    batch = pyarrow.table({"timestamp": times, "value": pyarrow.array(values, pyarrow.int64())})
    start = time.perf_counter()
    deltalake.write_deltalake(table, batch, mode="append")
    print((time.perf_counter() - start) * 1000, flush=True)
"""


def package(folder):
    """The same for the package, in a process of its own."""
    command = [sys.executable, "-c", PACKAGE, str(folder / "package"), str(args.commits), str(args.rows)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    times, memory = [], []
    for line in child.stdout:
        times.append(float(line))
        if len(times) % (args.commits // 10) == 0:
            memory.append(held(child.pid))
    if child.wait() != 0:
        sys.exit("the package failed")
    return times, memory


def cpu(run, folder):
    """What it gives, and the CPU seconds of its process."""
    import resource
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = run(folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return *found, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main(folder):
    medians = {}
    for name, run in (("fluvial", fluvial), ("deltalake", package)):
        if args.only not in (None, name):
            continue
        start = time.monotonic()
        times, memory, seconds = cpu(run, folder)
        tenth = len(times) // 10
        first, last = (statistics.median(part) for part in (times[:tenth], times[-tenth:]))
        medians[name] = statistics.median(times)
        print(
            f"{name:9} {len(times)} commits in {time.monotonic() - start:.0f} s, {seconds:.0f} CPU s: "
            f"median {medians[name]:.1f} ms (first tenth {first:.1f}, last {last:.1f}), "
            f"p99 {statistics.quantiles(times, n=100)[98]:.0f} ms; memory MB at each tenth "
            f"{' '.join(f'{mb:.0f}' for mb in memory if mb)}",
            flush=True,
        )
    if len(medians) == 2:
        print(f"deltalake / fluvial: {medians['deltalake'] / medians['fluvial']:.2f}")


if args.folder:
    args.folder.mkdir(parents=True)
    main(args.folder)
else:
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
