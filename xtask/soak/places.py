"""Where a job has its checkpoint and its output: in a folder, or on a server that speaks S3."""

import pyarrow.dataset
import pyarrow.fs
from deltalake import DeltaTable

BUCKET = "fluvial"


def newest(names):
    """How many entries a log has: they are numbered from zero."""
    numbers = [int(name) for name in names if name.isdigit()]
    return max(numbers) + 1 if numbers else 0


class Place:
    def plans(self, job):
        return newest(self.names(job.checkpoint + "/offsets"))

    def commits(self, job):
        return newest(self.names(job.checkpoint + "/commits"))


class Local(Place):
    def __init__(self, folder):
        self.folder, self.url, self.environment = folder, None, {}

    def __str__(self):
        return str(self.folder)

    def names(self, path):
        try:
            return [entry.name for entry in (self.folder / path).iterdir()]
        except FileNotFoundError:
            return []

    def table(self, path):
        return DeltaTable(str(self.folder / path)).to_pyarrow_table().to_pylist()

    def files(self, path):
        # pyarrow leaves out what begins with _, as other readers do.
        return pyarrow.dataset.dataset(str(self.folder / path), format="parquet").to_table().to_pylist()


class Remote(Place):
    def __init__(self, folder, server, prefix):
        self.folder, self.prefix, self.url = folder, prefix, f"s3://{BUCKET}/{prefix}"
        self.environment = {
            "AWS_ENDPOINT": server,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "fluvial",
            "AWS_SECRET_ACCESS_KEY": "fluvial",
        }
        self.store = pyarrow.fs.S3FileSystem(
            access_key="fluvial", secret_key="fluvial", region="us-east-1", endpoint_override=server
        )

    def __str__(self):
        return self.url

    def names(self, path):
        selector = pyarrow.fs.FileSelector(f"{BUCKET}/{self.prefix}/{path}", allow_not_found=True)
        return [entry.base_name for entry in self.store.get_file_info(selector)]

    def table(self, path):
        options = {**self.environment, "AWS_ENDPOINT_URL": self.environment["AWS_ENDPOINT"]}
        return DeltaTable(f"{self.url}/{path}", storage_options=options).to_pyarrow_table().to_pylist()

    def files(self, path):
        found = pyarrow.dataset.dataset(
            f"{BUCKET}/{self.prefix}/{path}", format="parquet", filesystem=self.store
        )
        return found.to_table().to_pylist()
