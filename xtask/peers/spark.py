"""Apache Spark with Delta's own jars, as one of those who write and read a table."""

import glob

from engines import CHANGE, in_order
from pyspark.sql import SparkSession
import pyspark


class Spark:
    """A session on this machine. It appends and reads by streams, too."""

    name = "spark"
    named = f"Spark {pyspark.__version__}"
    streams = True

    def __init__(self, jars, folder, table):
        self.path = str(table)
        self.folder = folder
        self.copies = 0
        folder.mkdir()
        self.session = (
            SparkSession.builder.master("local[2]")
            .config("spark.jars", ",".join(glob.glob(f"{jars}/*.jar")))
            .config("spark.driver.memory", "1g")
            .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
            .config(
                "spark.sql.catalog.spark_catalog",
                "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            )
            .config("spark.databricks.delta.retentionDurationCheck.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.databricks.delta.snapshotPartitions", "2")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .getOrCreate()
        )
        self.session.sparkContext.setLogLevel("ERROR")

    def place(self):
        return f"delta.`{self.path}`"

    def rows(self, rows, columns):
        types = {"id": "BIGINT", "v": "BIGINT"}
        schema = ", ".join(f"{c} {types.get(c, 'STRING')}" for c in columns)
        return self.session.createDataFrame([tuple(row) for row in rows], schema)

    def append(self, rows, columns):
        """By a stream, from a table of its own."""
        feed = str(self.folder / f"feed{len(columns)}")
        self.rows(rows, columns).coalesce(1).write.format("delta").mode("append").save(feed)
        stream = self.session.readStream.format("delta").load(feed)
        writer = stream.writeStream.format("delta").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", feed + "-checkpoint")
        writer.start(self.path).awaitTermination()

    def delete(self, condition):
        self.session.sql(f"DELETE FROM {self.place()} WHERE {condition}")

    def update(self, condition, column, value):
        self.session.sql(f"UPDATE {self.place()} SET {column} = {value} WHERE {condition}")

    def merge(self, rows, columns):
        self.rows(rows, columns).createOrReplaceTempView("s")
        self.session.sql(
            f"MERGE INTO {self.place()} AS t USING s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def grow(self, row, columns):
        # A MERGE WITH SCHEMA EVOLUTION in SQL adds no column with these versions.
        rows = self.rows([row], columns).write.format("delta").mode("append")
        rows.option("mergeSchema", "true").save(self.path)

    def optimise(self):
        self.session.sql(f"OPTIMIZE {self.place()}")

    def vacuum(self):
        self.session.sql(f"VACUUM {self.place()} RETAIN 0 HOURS")

    def read(self, columns):
        found = self.session.read.format("delta").load(self.path).collect()
        return in_order([row.asDict() for row in found], columns)

    def stream(self, columns):
        self.copies += 1
        name = f"copy{self.copies}"
        stream = self.session.readStream.format("delta").load(self.path)
        writer = stream.writeStream.format("memory").queryName(name).trigger(availableNow=True)
        writer.start().awaitTermination()
        return in_order([row.asDict() for row in self.session.table(name).collect()], columns)

    def changes(self):
        reader = self.session.read.format("delta").option("readChangeFeed", "true")
        found = reader.option("startingVersion", 0).load(self.path).collect()
        return in_order([row.asDict() for row in found], CHANGE)
