"""The jobs on a disk that is full, made larger little by little.

usage: unshare --map-root-user --mount python full_disk.py FLUVIAL DROP_DUPLICATES EXAMPLES

In a mount namespace of its own, so that it needs no rights: each job runs in a tmpfs that has no
room left, ends with an error that says so, gets some more room, and runs again, until it is done.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

from jobs import JOBS
from places import Local
from soak import Differs, check, undisturbed

STEP = 96 * 1024
RUNS_MAX = 400
FULL = ("No space left", "no space left", "StorageFull", "storage full", "disk is full")


def size(folder, options):
    subprocess.run(["mount", "-o", options, "-t", "tmpfs", "tmpfs", folder], check=True)


def run(job, backend):
    """How often it ended for want of room."""
    with tempfile.TemporaryDirectory() as folder:
        size(folder, "size=64m")
        try:
            place = Local(pathlib.Path(folder))
            job.prepare(place.folder)
            used = int(subprocess.run(["du", "-sk", folder], capture_output=True, text=True).stdout.split()[0])
            room = used * 1024 + STEP
            for full in range(RUNS_MAX):
                size(folder, f"remount,size={room}")
                done = subprocess.run(
                    job.command(place, backend, 2), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
                )
                if done.returncode == 0:
                    check(job, place, job.rows(place))
                    return full
                if "panicked" in done.stderr or not any(word in done.stderr for word in FULL):
                    raise Differs(f"{job.name}: exit code {done.returncode}: {done.stderr[-2000:]}")
                room += STEP
            raise Differs(f"{job.name}: no end after {RUNS_MAX} runs")
        finally:
            subprocess.run(["umount", folder], check=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("fluvial")
    parser.add_argument("drop_duplicates")
    parser.add_argument("examples")
    given = parser.parse_args()
    for make in JOBS.values():
        job = make(given)
        undisturbed(job, "memory")
        for backend in ("memory", "lsm"):
            try:
                full = run(job, backend)
            except Differs as why:
                sys.exit(f"full disk, {backend}: {why}")
            print(f"full disk: {job.name}, {backend}: {full} runs ended for want of room, as undisturbed", flush=True)


if __name__ == "__main__":
    main()
