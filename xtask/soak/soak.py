"""Kills, stops and doubles the real program, and reads what it wrote with other readers.

usage: soak.py FLUVIAL DROP_DUPLICATES EXAMPLES [--kills N] [--seed S] [--s3 URL] [--jobs A,B]

FLUVIAL is the program, DROP_DUPLICATES the example of that name, EXAMPLES the folder of the examples,
URL a server that speaks S3. Run by `cargo xtask soak`.

A history is one folder (or prefix) of one job: its processes are killed with SIGKILL, stopped for a
while (SIGSTOP, SIGCONT), and run in pairs, until twenty of them were killed while there was work left;
then one runs to the end. What deltalake or pyarrow reads then has to be what an undisturbed run left.
"""

import argparse
import collections
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from jobs import JOBS
from places import Local, Remote

KILLS_PER_HISTORY = 20
# A process that makes no progress for so long hangs, seconds.
HANGS = 120
# How a process may end by itself beside another one: it was overtaken, and says so.
OVERTAKEN = ("CONCURRENT", "fenced", "Fenced", "overtaken", "another run", "is gone")


class Differs(Exception):
    pass


def start(command):
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(process, what, alone):
    """Waits for an end by itself; an error is one only if nothing else ran."""
    try:
        _, errors = process.communicate(timeout=HANGS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise Differs(f"{what}: hangs")
    code = process.returncode
    if code == 0 or code == -signal.SIGKILL:
        return code
    if "panicked" in errors or (alone or not any(word in errors for word in OVERTAKEN)):
        raise Differs(f"{what}: exit code {code}: {errors[-2000:]}")
    return code


class History:
    """One job at one place, from its first process to its end."""

    def __init__(self, job, place, backend, rng):
        self.job, self.place, self.backend, self.rng = job, place, backend, rng
        self.counts = collections.Counter()

    def command(self, partitions=None):
        partitions = partitions or self.rng.randint(1, 4)
        return self.job.command(self.place, self.backend, partitions)

    def wait_for_a_moment(self, process):
        """Until some batches were planned, or some time has passed; and a moment more."""
        before, target = self.place.plans(self.job), self.rng.randint(0, 4)
        until = time.monotonic() + self.rng.choice([0.05, 0.3, 1.0, 3.0])
        while target and time.monotonic() < until and process.poll() is None:
            if self.place.plans(self.job) >= before + target:
                break
            time.sleep(0.001)
        time.sleep(self.rng.random() * self.rng.choice([0.002, 0.02, 0.1]))

    def kill(self, process):
        """Whether it was alive and had work left."""
        alive = process.poll() is None
        process.kill()
        process.communicate()
        return alive and self.place.commits(self.job) < self.job.batches

    def strike(self):
        """One process, or two, and what happens to them; how many were killed in flight."""
        kind = self.rng.choice(["kill", "kill", "kill", "stop", "pair", "stopped pair"])
        first = start(self.command())
        if kind == "kill":
            self.wait_for_a_moment(first)
            return self.count(kind, [self.kill(first)])
        if kind == "stop":
            self.wait_for_a_moment(first)
            first.send_signal(signal.SIGSTOP)
            time.sleep(self.rng.random() * 0.3)
            first.send_signal(signal.SIGCONT)
            self.wait_for_a_moment(first)
            return self.count(kind, [self.kill(first)])
        self.wait_for_a_moment(first)
        stopped = kind == "stopped pair"
        if stopped:
            first.send_signal(signal.SIGSTOP)
        second = start(self.command())
        self.wait_for_a_moment(second)
        if stopped:
            first.send_signal(signal.SIGCONT)
        self.wait_for_a_moment(first)
        killed = [self.kill(one) for one in self.rng.sample([first, second], self.rng.randint(1, 2))]
        for one in (first, second):
            if one.returncode is None:
                self.wait_for_a_moment(one)
                if self.rng.random() < 0.5:
                    killed.append(self.kill(one))
                else:
                    code = finish(one, f"{self.job.name}, one of two", alone=False)
                    self.counts["overtaken" if code else "survived its rival"] += 1
        return self.count(kind, killed)

    def count(self, kind, killed):
        self.counts[kind] += 1
        self.counts["killed in flight"] += sum(killed)
        return sum(killed)

    def run(self, kills):
        done = 0
        for _ in range(20 * kills):
            if done >= kills or self.place.commits(self.job) >= self.job.batches:
                break
            done += self.strike()
        self.end()
        return done

    def end(self):
        finish(start(self.command()), f"{self.job.name}, the last run", alone=True)
        check(self.job, self.place, self.job.rows(self.place))


def check(job, place, found):
    if found == job.expected:
        return
    missing = [row for row in job.expected if row not in found][:3]
    extra = [row for row in found if row not in job.expected][:3]
    raise Differs(
        f"{job.name} at {place}: {len(found)} rows for {len(job.expected)}; missing {missing}, too "
        f"much {extra}"
    )


def undisturbed(job, backend):
    with tempfile.TemporaryDirectory() as folder:
        place = Local(pathlib.Path(folder))
        job.prepare(place.folder)
        finish(start(job.command(place, backend, 2)), f"{job.name}, undisturbed", alone=True)
        job.expected, job.batches = job.rows(place), place.commits(job)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("fluvial")
    parser.add_argument("drop_duplicates")
    parser.add_argument("examples")
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--s3")
    parser.add_argument("--jobs")
    given = parser.parse_args()
    began = time.monotonic()
    rng = random.Random(given.seed)
    jobs = [make(given) for name, make in JOBS.items() if not given.jobs or name in given.jobs.split(",")]
    for job in jobs:
        undisturbed(job, "memory")
        print(f"{job.name}: {len(job.expected)} rows in {job.batches} batches, undisturbed", flush=True)
    total, histories, totals = 0, 0, collections.Counter()
    while total < given.kills:
        job, backend = jobs[histories % len(jobs)], ["memory", "lsm"][histories // len(jobs) % 2]
        remote = given.s3 and histories // (2 * len(jobs)) % 2 == 1
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            job.prepare(folder)
            place = Remote(folder, given.s3, f"soak-{given.seed}-{histories}") if remote else Local(folder)
            history = History(job, place, backend, rng)
            try:
                done = history.run(min(KILLS_PER_HISTORY, given.kills - total))
            except Differs as why:
                sys.exit(f"seed {given.seed}, history {histories}, {backend}: {why}")
        where = "s3" if remote else "local"
        total, histories = total + done, histories + 1
        totals.update(history.counts)
        totals[f"histories: {job.name} {backend} {where}"] += 1
        totals[f"killed in flight: {job.name} {where}"] += done
        print(f"history {histories}: {job.name}, {backend}, {where}: {done} kills in flight, as undisturbed "
              f"({total} of {given.kills})", flush=True)
    print(f"\n{total} kills in flight in {histories} histories, {time.monotonic() - began:.0f} s, no difference:")
    for what, count in sorted(totals.items()):
        print(f"{count:>6}  {what}")


if __name__ == "__main__":
    main()
