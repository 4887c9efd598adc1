"""A table that Fluvial, the deltalake package of Python and Apache Spark write in turns.

usage: tables.py PROGRAM [JARS]

PROGRAM is the fluvial program. With JARS, a folder with Delta's jars, Spark takes part. After every
step each of them must see the same rows, as a table and as a stream, and in the end the same
changes. Run by `cargo xtask peers delta`.
"""

import pathlib
import sys
import tempfile

from engines import COLUMNS, Fluvial, Package


def key(row):
    return tuple((value is None, value) for value in row)


class Check:
    """The engines, and what the table must hold: id -> row."""

    def __init__(self, engines):
        self.engines = engines
        self.rows = {}
        self.columns = list(COLUMNS)
        self.checks = 0

    def same(self, what, found, expected):
        found, expected = sorted(found, key=key), sorted(expected, key=key)
        if found != expected:
            missing = [row for row in expected if row not in found]
            wrong = [row for row in found if row not in expected]
            sys.exit(f"{what}: missing {missing}, wrong {wrong}, {len(found)} for {len(expected)}")
        self.checks += 1

    def see(self, step):
        """Every engine reads the table, and streams it from the beginning."""
        expected = [tuple(row) for row in self.rows.values()]
        for engine in self.engines:
            self.same(f"{step}, read by {engine.name}", engine.read(self.columns), expected)
            if engine.streams:
                stream = engine.stream(self.columns)
                self.same(f"{step}, streamed by {engine.name}", stream, expected)

    def row(self, number, text):
        """A row as all columns have it by now."""
        return [number, text, number * 10] + [None] * (len(self.columns) - 3)

    def turn(self, engine, first):
        """One engine does everything that can be done to rows from `first` on."""
        for number in range(first, first + 4):
            self.rows[number] = self.row(number, engine.name)
        engine.append([self.rows[number] for number in range(first, first + 4)], self.columns)
        self.see(f"append by {engine.name}")

        engine.delete(f"id = {first}")
        del self.rows[first]
        self.see(f"delete by {engine.name}")

        engine.update(f"id = {first + 1}", "v", -1)
        self.rows[first + 1][2] = -1
        self.see(f"update by {engine.name}")

        merged = [self.row(first + 2, "merged"), self.row(first + 50, "merged")]
        engine.merge(merged, self.columns)
        for row in merged:
            self.rows[row[0]] = row
        self.see(f"merge by {engine.name}")

    def grow(self, engine, column):
        """One engine adds a column, and writes to it."""
        self.columns.append(column)
        for row in self.rows.values():
            row.append(None)
        number = 1000 + len(self.columns)
        row = self.row(number, "grown")
        row[-1] = column
        engine.grow(row, self.columns)
        self.rows[number] = row
        self.see(f"column {column} by {engine.name}")

    def optimise(self, engine):
        engine.optimise()
        self.see(f"optimise by {engine.name}")

    def vacuum(self, engine):
        engine.vacuum()
        self.see(f"vacuum by {engine.name}")

    def changes(self):
        """All engines agree about what happened in which version."""
        first, *others = [(engine, engine.changes()) for engine in self.engines]
        for engine, changes in others:
            self.same(f"changes, {engine.name} beside {first[0].name}", changes, first[1])
        return len(first[1])


def main(program, jars=None):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        table = folder / "table"
        fluvial = Fluvial(program, folder / "fluvial", table)
        engines = [fluvial, Package(table)]
        if jars:
            from spark import Spark

            engines.append(Spark(jars, folder / "spark", table))
        fluvial.create()
        check = Check(engines)
        for number, engine in enumerate(engines):
            check.turn(engine, 1 + 100 * number)
        changes = check.changes()
        for number, engine in enumerate(engines):
            check.grow(engine, f"extra{number}")
            check.optimise(engine)
        Package(table).forget()
        for engine in engines:
            check.turn(engine, 2000 + 100 * engines.index(engine))
            check.vacuum(engine)
        names = ", ".join(engine.named for engine in engines)
        print(f"peers delta, tables: {check.checks} comparisons, {changes} changes: {names} agree")


if __name__ == "__main__":
    main(*sys.argv[1:])
