"""The jobs that are killed: windows and a join by the program, duplicates by a program in Rust."""

import datetime
import json
import os
import pathlib
import random

import pyarrow
import pyarrow.parquet

BEGIN = datetime.datetime(2026, 6, 10, 10, 0, 0)
PAGES = ["/", "/home", "/pricing", "/docs", "/docs/start", "/about us", "/änderungen"]


def at(seconds):
    return (BEGIN + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_lines(folder, number, rows):
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / f"part-{number:04}.json").write_text(text)


def in_order(rows):
    return sorted((json.dumps(row, default=str, sort_keys=True) for row in rows))


class Script:
    """An example of SQL with its checkpoint below `.fluvial/checkpoints`, or at a URL."""

    def __init__(self, given, example, table):
        self.fluvial, self.table = given.fluvial, table
        self.text = (pathlib.Path(given.examples) / example / "pipeline.sql").read_text()

    @property
    def checkpoint(self):
        return f".fluvial/checkpoints/{self.table}"

    def command(self, place, backend, partitions):
        script, options = place.folder / "pipeline.sql", []
        if place.url:
            text = self.text.replace(f"'out/{self.table}'", f"'{place.url}/out/{self.table}'")
            script = place.folder / "remote.sql"
            script.write_text(text)
            options = ["--checkpoint", f"{place.url}/.fluvial/checkpoints"]
            for name, value in place.environment.items():
                options += ["--set", f"storage.{name.lower()}={value}"]
        options += ["--set", f"state.backend={backend}", "--set", f"state.partitions={partitions}"]
        return [self.fluvial, "run", str(script)] + options

    def rows(self, place):
        return in_order(place.table(f"out/{self.table}"))


class Clickstream(Script):
    name = "clickstream"

    def __init__(self, given):
        super().__init__(given, "clickstream", "page_views_5m")
        self.text = self.text.replace("maxFilesPerTrigger => 10", "maxFilesPerTrigger => 4")

    def prepare(self, folder):
        rng = random.Random(2)
        (folder / "pipeline.sql").write_text(self.text)
        for number in range(160):
            rows = []
            for _ in range(10):
                time = 30 * number + rng.randrange(60) - rng.randrange(3600 if rng.random() < 0.05 else 400)
                rows.append({
                    "user_id": f"u{rng.randrange(50)}",
                    "page": rng.choice(PAGES),
                    "event_time": None if rng.random() < 0.05 else at(time),
                    "duration_s": rng.randrange(1, 1000) / 10,
                })
            write_lines(folder / "landing/clicks", number, rows)


class Join(Script):
    name = "join"

    def __init__(self, given):
        super().__init__(given, "ad_clicks", "ad_clicks")
        self.text = self.text.replace("format => 'json',", "format => 'json', maxFilesPerTrigger => 3,")

    def prepare(self, folder):
        rng = random.Random(3)
        (folder / "pipeline.sql").write_text(self.text)
        waiting = []
        for number in range(100):
            shown, clicked = [], []
            for one in range(8):
                time, name = 45 * number + rng.randrange(60), f"i{number}-{one}"
                shown.append({
                    "impression": name, "ad": rng.choice(PAGES), "shown": at(time), "cost": rng.randrange(100) / 10,
                })
                for _ in range(rng.choice([0, 0, 1, 1, 2])):
                    waiting.append((time + rng.randrange(720), name))
            waiting.sort()
            while waiting and waiting[0][0] < 45 * number:
                time, name = waiting.pop(0)
                clicked.append({"impression": name, "clicked": at(time), "amount": rng.randrange(1000) / 10})
            write_lines(folder / "landing/impressions", number, shown)
            write_lines(folder / "landing/clicks", number, clicked)


class Duplicates:
    name = "duplicates"
    checkpoint = "checkpoint"

    def __init__(self, given):
        self.program = given.drop_duplicates

    def prepare(self, folder):
        rng = random.Random(4)
        (folder / "in").mkdir()
        for number in range(100):
            seconds = [600 * number + rng.randrange(1200) for _ in range(10)]
            table = pyarrow.table({
                # Of most there are two or three, some of them more than two hours later.
                "id": [f"id-{time // 2000}-{rng.randrange(12)}" for time in seconds],
                "event_time": pyarrow.array(
                    [BEGIN + datetime.timedelta(seconds=time) for time in seconds], pyarrow.timestamp("us", tz="UTC")
                ),
                "v": pyarrow.array([number * 10 + i for i in range(10)], pyarrow.int64()),
            })
            pyarrow.parquet.write_table(table, folder / "in" / f"part-{number:04}.parquet")

    def command(self, place, backend, partitions):
        where = place.url or str(place.folder)
        settings = [f"state.backend={backend}", f"state.partitions={partitions}"]
        variables = [f"{name}={value}" for name, value in place.environment.items()]
        program = [self.program, str(place.folder / "in"), where] + settings
        return ["env", *variables, *program] if variables else program

    def rows(self, place):
        return in_order(place.files("out"))


JOBS = {job.name: job for job in (Clickstream, Join, Duplicates)}
