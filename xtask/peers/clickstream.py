"""The clickstream job through the program, its table read with the deltalake package.

usage: clickstream.py PROGRAM EXAMPLE EXPECTED

PROGRAM is the fluvial program, EXAMPLE the folder of the example, EXPECTED what Spark wrote. Run by
`cargo xtask peers delta`.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import deltalake

OURS = ("out", ".fluvial", "warehouse")


def run(program, folder):
    """Runs the pipeline; gives the reports of its batches."""
    done = subprocess.run(
        [program, "run", "pipeline.sql"], cwd=folder, stdout=subprocess.PIPE, text=True, check=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"id"')]
    return [json.loads(line) for line in lines]


def rows(table):
    """All rows, as Spark's were written down."""

    def text(time):
        return time.strftime("%Y-%m-%d %H:%M:%S")

    found = [
        {
            "start": text(row["w"]["start"]),
            "end": text(row["w"]["end"]),
            "page": row["page"],
            "views": row["views"],
            "total_duration_s": row["total_duration_s"],
        }
        for row in table.to_pyarrow_table().to_pylist()
    ]
    return in_order(found)


def in_order(found):
    return sorted(found, key=lambda row: (row["start"], row["page"]))


def check(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: expected {expected}, but found {found}")
    print(f"{what}: as expected")


def main(program, example, expected):
    expected = json.loads(pathlib.Path(expected).read_text())
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder) / "clickstream"
        shutil.copytree(example, folder, ignore=shutil.ignore_patterns(*OURS))
        landing = folder / "landing/clicks"
        # Whatever somebody has let land in the example since.
        for file in landing.iterdir():
            if file.name != "part-0001.json":
                file.unlink()
        batches = run(program, folder)
        path = str(folder / "out/page_views_5m")
        check("rows after the first run", rows(deltalake.DeltaTable(path)), in_order(expected["run1_rows"]))
        shutil.copy(folder / "later/part-0002.json", landing)
        batches += run(program, folder)
        table = deltalake.DeltaTable(path)
        check("rows after the second run", rows(table), in_order(expected["all_rows"]))

        application = f"{batches[0]['id']}/sink-0"
        versions = sorted(entry["version"] for entry in table.history())
        check("versions in the history", versions, list(range(table.version() + 1)))
        # The batch of each version; the table was made by version 0, before any batch.
        batch_of = [
            deltalake.DeltaTable(path, version=version).transaction_version(application)
            for version in versions
        ]
        check("batches in the history", batch_of, [None] + [b["batchId"] for b in batches])
    print(f"peers delta, clickstream: deltalake {deltalake.__version__} reads what Spark wrote, one txn per batch")


if __name__ == "__main__":
    main(*sys.argv[1:])
