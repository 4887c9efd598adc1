//! Who writes to an output folder, and how: fixed by the first.

use crate::file::layout::Layout;
use crate::file::manifest::damaged;
use crate::file::options::FileOptions;
use crate::file::store::{Created, create, read};
use fluvial_core::{Error, Result, SinkSpec, frame};
use object_store::ObjectStore;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

const KIND: (&str, u32) = ("owner", 1);

/// What the first query to open the folder wrote there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Owner {
    query: String,
    sink: String,
    format: String,
    partition_by: Vec<String>,
    /// Distance of low-water marks in batches; must never change, or marks mean something else.
    pub(crate) manifests_kept: NonZeroU64,
}

impl Owner {
    /// Takes the folder, or makes sure that it was taken by the same query in the same way.
    ///
    /// # Errors
    ///
    /// `Invalid` if it belongs to another query, or has another format or other folders.
    pub(crate) async fn claim(
        store: &dyn ObjectStore,
        layout: &Layout,
        spec: &SinkSpec,
        options: &FileOptions,
    ) -> Result<Self> {
        let claim = Self {
            query: spec.query.to_string(),
            sink: spec.sink.to_string(),
            format: options.format.name().to_owned(),
            partition_by: options.partition_by.clone(),
            manifests_kept: options.manifests_kept,
        };
        let path = layout.owner();
        // A look first: it is there at every start but the first.
        let found = match read(store, &path).await? {
            Some(found) => found,
            None => match create(store, &path, claim.to_bytes()?).await? {
                Created::Ours => return Ok(claim),
                Created::Theirs(found) => found,
            },
        };
        let owner = Self::parse(&found)?;
        owner.check(&claim)?;
        Ok(owner)
    }

    fn check(&self, claim: &Self) -> Result<()> {
        let refuse = |what: String, condition: &'static str| {
            Err(Error::invalid(what).with_condition(condition))
        };
        if (&self.query, &self.sink) != (&claim.query, &claim.sink) {
            return refuse(
                format!(
                    "the folder belongs to query {}, sink {}; query {} cannot write there: choose \
                     another folder, or go on with the checkpoint of that query",
                    self.query, self.sink, claim.query
                ),
                "SINK_OWNED_BY_ANOTHER_QUERY",
            );
        }
        if self.format != claim.format {
            return refuse(
                format!("the folder has {} files, not {}", self.format, claim.format),
                "FILE_SINK_FORMAT_CHANGED",
            );
        }
        if self.partition_by != claim.partition_by {
            return refuse(
                format!(
                    "the folder is partitioned by [{}], not [{}]",
                    self.partition_by.join(", "),
                    claim.partition_by.join(", ")
                ),
                "FILE_SINK_PARTITIONS_CHANGED",
            );
        }
        Ok(())
    }

    fn to_bytes(&self) -> Result<bytes::Bytes> {
        let body = serde_json::to_vec(self)
            .map_err(|e| Error::invalid(format!("the owner of the folder has no JSON: {e}")))?;
        Ok(frame::seal(KIND.0, KIND.1, &body))
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        let place = "the owner of the folder";
        let body = frame::open(KIND.0, KIND.1, bytes).map_err(|e| damaged(e).at(place))?;
        serde_json::from_slice(body)
            .map_err(|e| damaged(Error::corrupt(format!("{place}: {e}")).with_source(e)))
    }
}
