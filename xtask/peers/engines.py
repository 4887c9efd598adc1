"""Those who write and read a Delta table: all have the same methods.

A row is a list of values in the order of the columns: a number, a text, a number, then texts.
"""

import json
import os
import subprocess

import deltalake
import pyarrow

# The columns that the table begins with, and the type of those that come later.
COLUMNS = ["id", "name", "v"]
PROPERTIES = {"delta.enableChangeDataFeed": "true"}
# From when it is set, what nobody needs may go at once, and Spark looks back no further.
FORGETFUL = {"delta.deletedFileRetentionDuration": "interval 0 hours"}


def records(rows, columns):
    return [dict(zip(columns, row)) for row in rows]


def in_order(found, columns):
    return [tuple(row.get(column) for column in columns) for row in found]


CHANGE = ["_commit_version", "_change_type"] + COLUMNS


class Package:
    """The deltalake package of Python."""

    name = "deltalake"
    named = f"deltalake {deltalake.__version__}"
    # It has no streams.
    streams = False

    def __init__(self, table):
        self.path = str(table)

    def table(self):
        return deltalake.DeltaTable(self.path)

    def rows(self, rows, columns):
        types = {"id": pyarrow.int64(), "v": pyarrow.int64()}
        schema = pyarrow.schema([(c, types.get(c, pyarrow.string())) for c in columns])
        return pyarrow.Table.from_pylist(records(rows, columns), schema=schema)

    def append(self, rows, columns):
        deltalake.write_deltalake(self.path, self.rows(rows, columns), mode="append")

    def delete(self, condition):
        self.table().delete(condition)

    def update(self, condition, column, value):
        self.table().update(updates={column: str(value)}, predicate=condition)

    def merge(self, rows, columns):
        merge = self.table().merge(
            self.rows(rows, columns), "t.id = s.id", source_alias="s", target_alias="t"
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def grow(self, row, columns):
        rows = self.rows([row], columns)
        deltalake.write_deltalake(self.path, rows, mode="append", schema_mode="merge")

    def forget(self):
        self.table().alter.set_table_properties(FORGETFUL)

    def optimise(self):
        self.table().optimize.compact()

    def vacuum(self):
        self.table().vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)

    def read(self, columns):
        return in_order(pyarrow.table(self.table().to_pyarrow_table()).to_pylist(), columns)

    def changes(self):
        feed = self.table().load_cdf(starting_version=0)
        found = pyarrow.table(pyarrow.RecordBatchReader.from_stream(feed).read_all()).to_pylist()
        return in_order(found, CHANGE)


class Fluvial:
    """The fluvial program. It appends and reads by streams, and does the rest in SQL."""

    name = "fluvial"
    named = "Fluvial"
    streams = True

    def __init__(self, program, folder, table):
        self.program = os.path.abspath(program)
        self.folder = folder
        self.path = table
        self.files = 0
        folder.mkdir()
        (folder / "landing").mkdir()

    def run(self, script):
        (self.folder / "script.sql").write_text(script)
        done = subprocess.run(
            [self.program, "run", "script.sql"],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{script}\n{done.stderr}")
        return done.stdout

    def place(self):
        return f"delta.`{self.path}`"

    def schema(self, columns):
        types = {"id": "BIGINT", "v": "BIGINT"}
        return ", ".join(f"{c} {types.get(c, 'STRING')}" for c in columns)

    def land(self, folder, rows, columns):
        self.files += 1
        lines = [json.dumps(record) for record in records(rows, columns)]
        target = self.folder / folder
        target.mkdir(exist_ok=True)
        # As files should land: whole.
        (target / ".tmp").write_text("\n".join(lines) + "\n")
        (target / ".tmp").rename(target / f"{self.files:04}.json")

    def append_stream(self, folder, columns, properties):
        properties = ", ".join(f"'{k}' = '{v}'" for k, v in properties.items())
        self.run(
            f"CREATE STREAMING TABLE {folder} USING delta LOCATION '{self.path}' "
            f"TBLPROPERTIES ({properties}) AS SELECT {', '.join(columns)} "
            f"FROM STREAM read_files('{folder}', format => 'json', "
            f"schema => '{self.schema(columns)}')"
        )

    def create(self):
        self.append_stream("landing", COLUMNS, PROPERTIES)

    def append(self, rows, columns):
        # One stream for each set of columns, which goes on from turn to turn.
        folder = "landing" if columns == COLUMNS else f"landing{len(columns)}"
        self.land(folder, rows, columns)
        self.append_stream(folder, columns, PROPERTIES)

    def delete(self, condition):
        self.run(
            f"MERGE INTO {self.place()} AS t USING (SELECT id FROM {self.place()} WHERE {condition}) "
            "AS s ON t.id = s.id WHEN MATCHED THEN DELETE"
        )

    def update(self, condition, column, value):
        self.run(
            f"MERGE INTO {self.place()} AS t USING (SELECT id FROM {self.place()} WHERE {condition}) "
            f"AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {column} = {value}"
        )

    def merge(self, rows, columns, evolution=""):
        folder = f"merge{self.files}"
        self.land(folder, rows, columns)
        source = f"read_files('{folder}', format => 'json', schema => '{self.schema(columns)}')"
        self.run(
            f"MERGE {evolution} INTO {self.place()} AS t USING (SELECT * FROM {source}) AS s "
            "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def grow(self, row, columns):
        self.merge([row], columns, "WITH SCHEMA EVOLUTION")

    def optimise(self):
        self.run(f"OPTIMIZE {self.place()}")

    def vacuum(self):
        self.run(f"VACUUM {self.place()}")

    def read(self, columns):
        lines = self.run(f"SELECT {', '.join(columns)} FROM {self.place()}").splitlines()
        rows = [line.strip("|").split("|") for line in lines if line.startswith("|")][1:]
        texts = [[cell.strip() for cell in row] for row in rows]
        texts = [[None if cell == "NULL" else cell for cell in row] for row in texts]
        for row in texts:
            for number in (0, 2):
                row[number] = None if row[number] is None else int(row[number])
        return [tuple(row) for row in texts]

    def copied(self, columns, options):
        """The rows of a stream of its own, through files of JSON."""
        self.files += 1
        copy = f"copy{self.files}"
        self.run(
            f"CREATE STREAMING TABLE {copy} USING json LOCATION '{copy}' AS "
            f"SELECT {', '.join(columns)} FROM STREAM {self.place()} {options}"
        )
        lines = []
        for file in (self.folder / copy).glob("*.json"):
            lines += file.read_text().splitlines()
        return in_order([json.loads(line) for line in lines], columns)

    def stream(self, columns):
        return self.copied(columns, "")

    def changes(self):
        options = "WITH (readChangeFeed = true, startingVersion = 0)"
        return self.copied(CHANGE, options)
