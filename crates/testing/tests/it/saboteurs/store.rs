//! Bugs that look like a store which does not do as it is told: in the logs, in the state, in the
//! files of the sink.

use super::caught;
use async_trait::async_trait;
use fluvial_testing::{Query, gallery};
use futures::stream::{BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::sync::{Arc, Mutex};

/// One bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trick {
    /// A plan is acknowledged and written only with the next commit.
    LatePlan,
    /// A commit is acknowledged and never written.
    NoCommit,
    /// A commit is acknowledged and written with the next one.
    LateCommit,
    /// Plans and commits have no election: the last one stays.
    EverybodyWins,
    /// The identity of the query is written anew at each start.
    NewIdentity,
    /// Half of a plan is written and acknowledged.
    HalfPlan,
    /// State is acknowledged and never written.
    NoState,
    /// Half of the state is written and acknowledged.
    HalfState,
    /// A bit of the state is flipped.
    FlippedState,
    /// Cleaning takes all state.
    GreedyCleaning,
    /// The record of what a batch read is never written.
    NoSourceLog,
    /// Half of the sink's record of a batch is written and acknowledged.
    HalfManifest,
    /// A file of output never gets its final name.
    NoMove,
    /// A file of output is acknowledged and never written.
    NoData,
    /// Half of a file of output is written.
    HalfData,
    /// A file of output gets its final name twice.
    TwoCopies,
}

/// The query over a store with a bug.
pub(crate) fn tricked(query: Query, trick: Trick) -> Query {
    query.store_around(move |inner| {
        Arc::new(Tricky { inner, trick, held: Arc::new(Mutex::new(None)) })
    })
}

#[derive(Debug, Clone)]
struct Tricky {
    inner: Arc<dyn ObjectStore>,
    trick: Trick,
    /// What was acknowledged and not written yet.
    held: Arc<Mutex<Option<(Path, PutPayload)>>>,
}

/// What becomes of a put.
enum Put {
    AsTold,
    Never,
    Later,
    Half,
    Flipped,
    Overwriting,
}

impl Tricky {
    fn put(&self, path: &Path) -> Put {
        let path = path.as_ref();
        let below = |folder: &str| path.starts_with(folder);
        match self.trick {
            Trick::LatePlan if below("checkpoint/offsets/") => Put::Later,
            Trick::LateCommit if below("checkpoint/commits/") => Put::Later,
            Trick::NoCommit if below("checkpoint/commits/") => Put::Never,
            Trick::EverybodyWins
                if below("checkpoint/offsets/") || below("checkpoint/commits/") =>
            {
                Put::Overwriting
            }
            Trick::NewIdentity if below("checkpoint/metadata") => Put::Overwriting,
            Trick::HalfPlan if below("checkpoint/offsets/") => Put::Half,
            Trick::NoState if below("checkpoint/state/") => Put::Never,
            Trick::HalfState if below("checkpoint/state/") => Put::Half,
            Trick::FlippedState if below("checkpoint/state/") => Put::Flipped,
            Trick::NoSourceLog if below("checkpoint/sources/") => Put::Never,
            Trick::HalfManifest if below("output/_fluvial/commits/") => Put::Half,
            Trick::NoData if below("output/_fluvial/staged/") => Put::Never,
            Trick::HalfData if below("output/_fluvial/staged/") => Put::Half,
            _ => Put::AsTold,
        }
    }

    /// Writes what was held back.
    async fn catch_up(&self) -> Result<()> {
        let held = self.held.lock().unwrap().take();
        if let Some((path, payload)) = held {
            self.inner.put(&path, payload).await?;
        }
        Ok(())
    }
}

fn bytes_of(payload: &PutPayload) -> Vec<u8> {
    payload.iter().flat_map(|piece| piece.iter().copied()).collect()
}

fn told() -> PutResult {
    PutResult { e_tag: Some("0".into()), version: None }
}

impl fmt::Display for Tricky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.trick)
    }
}

#[async_trait]
impl ObjectStore for Tricky {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> Result<PutResult> {
        let mut bytes = bytes_of(&payload);
        let changed = match self.put(path) {
            Put::AsTold => {
                if self.trick == Trick::LatePlan && path.as_ref().contains("/commits/") {
                    self.catch_up().await?;
                }
                payload
            }
            Put::Never => return Ok(told()),
            Put::Later => {
                self.catch_up().await?;
                *self.held.lock().unwrap() = Some((path.clone(), payload));
                return Ok(told());
            }
            Put::Half => bytes[..bytes.len() / 2].to_vec().into(),
            Put::Flipped => {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                bytes.into()
            }
            Put::Overwriting => {
                options.mode = PutMode::Overwrite;
                payload
            }
        };
        self.inner.put_opts(path, changed, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        if self.trick != Trick::GreedyCleaning {
            return self.inner.delete_stream(paths);
        }
        let (inner, listed) = (Arc::clone(&self.inner), Arc::clone(&self.inner));
        let all = paths.flat_map(move |path| match path {
            Ok(path) if path.as_ref().starts_with("checkpoint/state/") => {
                let folder = Path::from("checkpoint/state");
                listed.list(Some(&folder)).map(|meta| meta.map(|meta| meta.location)).boxed()
            }
            other => futures::stream::iter([other]).boxed(),
        });
        inner.delete_stream(all.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        if self.trick == Trick::TwoCopies {
            let twin = Path::from(to.as_ref().replace("part-", "part-twin-"));
            self.inner.copy(from, &twin).await?;
        }
        match self.trick {
            Trick::NoMove => Ok(()),
            _ => self.inner.copy_opts(from, to, options).await,
        }
    }
}

macro_rules! caught_in {
    ($($name:ident: $trick:ident in $query:ident;)*) => {$(
        #[test]
        fn $name() {
            let violation = caught(&tricked(gallery::$query(), Trick::$trick), &gallery::events());
            println!("{}: {violation}", stringify!($name));
        }
    )*};
}

caught_in! {
    a_plan_that_is_not_durable_is_caught: LatePlan in distinct;
    a_commit_that_is_not_written_is_caught: NoCommit in stateless;
    a_commit_that_comes_late_is_caught: LateCommit in tumbling;
    logs_without_an_election_are_caught: EverybodyWins in distinct;
    a_query_that_forgets_who_it_is_is_caught: NewIdentity in stateless;
    half_a_plan_is_caught: HalfPlan in stateless;
    state_that_is_not_written_is_caught: NoState in tumbling;
    half_of_the_state_is_caught: HalfState in tumbling;
    a_flipped_bit_of_state_is_caught: FlippedState in tumbling;
    cleaning_what_is_in_use_is_caught: GreedyCleaning in tumbling;
    a_source_that_forgets_what_it_read_is_caught: NoSourceLog in stateless;
    half_a_record_of_the_sink_is_caught: HalfManifest in stateless;
    output_that_never_gets_its_name_is_caught: NoMove in stateless;
    output_that_is_not_written_is_caught: NoData in stateless;
    half_of_the_output_is_caught: HalfData in stateless;
    output_that_is_there_twice_is_caught: TwoCopies in stateless;
}
