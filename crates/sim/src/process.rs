//! One mortal process and its view of the disk.

use crate::clock::VirtualClock;
use crate::damage::{Damage, damaged};
use crate::disk::Disk;
use crate::exec::yield_now;
use crate::fault::{CrashAt, Fault, Flaky, When};
use crate::manners::Manners;
use crate::objects::{Objects, already_exists, full, generic};
use crate::rng::Rng;
use crate::upload::Upload;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// How long a slow call takes, and how many turns everybody else has meanwhile.
const SLOW: Duration = Duration::from_secs(60);
const SLOW_TURNS: u64 = 64;

/// The kind of an I/O call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// A put that replaces.
    Put,
    /// A put if absent.
    Create,
    /// A put if unchanged.
    Update,
    /// The start of a multipart upload.
    UploadStart,
    /// One part of it.
    UploadPart,
    /// Its end, which makes the object visible.
    UploadComplete,
    /// Its abandonment.
    UploadAbort,
    /// A read of an object or of a range.
    Get,
    /// A look at an object's size and tag.
    Head,
    /// A read of several ranges.
    GetRanges,
    /// A listing.
    List,
    /// A removal.
    Delete,
    /// A copy.
    Copy,
}

impl Op {
    /// Whether the call puts bytes on the disk.
    pub fn writes(self) -> bool {
        matches!(
            self,
            Self::Put
                | Self::Create
                | Self::Update
                | Self::UploadStart
                | Self::UploadPart
                | Self::UploadComplete
                | Self::Copy
        )
    }
}

/// One I/O call that a process made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What.
    pub op: Op,
    /// On which object or prefix.
    pub path: String,
}

#[derive(Debug)]
struct Life {
    crash: Option<CrashAt>,
    faults: BTreeMap<u64, Fault>,
    flaky: Option<Flaky>,
    crashed: bool,
    calls: Vec<Call>,
    manners: Manners,
    /// Whether its disk is full.
    full: bool,
    /// Whether it died of too many steps.
    exhausted: bool,
    /// Who waits in [`Process::live`].
    waiting: Vec<Waker>,
}

/// What happens at a step.
struct Event {
    turns: u64,
    fault: Option<Fault>,
    crash: Option<When>,
}

/// An `ObjectStore` as one process sees it. Every call is one step. Clones are the same process.
///
/// A rename is a copy and a delete, two steps, as on the object stores of the clouds.
#[derive(Debug, Clone)]
pub struct Process {
    disk: Disk,
    life: Arc<Mutex<Life>>,
}

impl Process {
    pub(crate) fn new(
        disk: Disk,
        crash: Option<CrashAt>,
        faults: BTreeMap<u64, Fault>,
        flaky: Option<Flaky>,
    ) -> Self {
        let (calls, waiting) = (Vec::new(), Vec::new());
        let manners = Manners::default();
        let (crashed, full, exhausted) = (false, false, false);
        let life = Life { crash, faults, flaky, crashed, calls, manners, full, exhausted, waiting };
        Self { disk, life: Arc::new(Mutex::new(life)) }
    }

    fn life<T>(&self, f: impl FnOnce(&mut Life) -> T) -> T {
        f(&mut self.life.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn manners(self, f: impl FnOnce(&mut Manners)) -> Self {
        self.life(|life| f(&mut life.manners));
        self
    }

    /// Answers of these steps (from 0) are faults.
    #[must_use]
    pub fn with_faults(self, faults: impl IntoIterator<Item = (u64, Fault)>) -> Self {
        self.life(|life| life.faults.extend(faults));
        self
    }

    /// Reads are damaged below this folder only: not everything has checksums.
    #[must_use]
    pub fn with_damage_below(self, folder: &str) -> Self {
        self.manners(|manners| manners.damaged_below = Path::from(folder))
    }

    /// Listings are stale below this folder only.
    #[must_use]
    pub fn with_stale_below(self, folder: &str) -> Self {
        self.manners(|manners| manners.stale_below = Path::from(folder))
    }

    /// Slow calls let time pass on this clock.
    #[must_use]
    pub fn with_clock(self, clock: VirtualClock) -> Self {
        self.manners(|manners| manners.clock = Some(clock))
    }

    /// Each call waits for up to three turns more before its effect: under an executor that polls
    /// in a fixed order, such as tokio's of one thread, the order of effects is then `rng`'s.
    #[must_use]
    pub fn with_turns(self, rng: Rng) -> Self {
        self.manners(|manners| manners.turns = Some(rng))
    }

    /// Calls of the dead answer with an error and have no effect, rather than never to answer: for
    /// libraries that wait for a call by blocking a thread. Await [`Self::live`] and look at
    /// nothing that is not on the disk.
    #[must_use]
    pub fn refusing_when_dead(self) -> Self {
        self.manners(|manners| manners.refuse_when_dead = true)
    }

    /// Dies at its step number `steps_max` (from 0): whoever takes so many makes no progress.
    #[must_use]
    pub fn with_steps_max(self, steps_max: u64) -> Self {
        self.manners(|manners| manners.steps_max = steps_max)
    }

    /// Whether it died of too many steps.
    pub fn exhausted(&self) -> bool {
        self.life(|life| life.exhausted)
    }

    /// The disk under it.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// This process as a shared store.
    pub fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::new(self.clone())
    }

    /// Whether the process is dead.
    pub fn crashed(&self) -> bool {
        self.life(|life| life.crashed)
    }

    /// Kills it now: none of its calls ever completes again.
    pub fn kill(&self) {
        let waiting = self.life(|life| {
            life.crashed = true;
            std::mem::take(&mut life.waiting)
        });
        waiting.into_iter().for_each(Waker::wake);
    }

    /// How many I/O steps it took.
    pub fn steps(&self) -> u64 {
        self.life(|life| life.calls.len() as u64)
    }

    /// Every call it made, in order, the one that it died in included.
    pub fn calls(&self) -> Vec<Call> {
        self.life(|life| life.calls.clone())
    }

    /// `future`'s value, or `None` as soon as the process is dead. Works under any executor.
    pub async fn live<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            if self.crashed() {
                return Poll::Ready(None);
            }
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                // Whoever ended in the same breath as a task of the same process died with it.
                return Poll::Ready((!self.crashed()).then_some(value));
            }
            // The crash may happen in another task of an executor with several.
            let dead = self.life(|life| {
                if !life.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                    life.waiting.push(cx.waker().clone());
                }
                life.crashed
            });
            if dead { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }

    /// What a call of the dead gets.
    async fn dead<T>(&self, op: Op, path: &Path) -> Result<T> {
        if self.life(|life| life.manners.refuse_when_dead) {
            return Err(generic(format!("{op:?} {path}: the process is dead")));
        }
        std::future::pending().await
    }

    fn begin(&self, op: Op, path: &Path) -> Event {
        self.life(|life| {
            let step = life.calls.len() as u64;
            life.calls.push(Call { op, path: path.to_string() });
            let mut crash = life.crash.filter(|crash| crash.step == step).map(|crash| crash.when);
            if step >= life.manners.steps_max {
                life.exhausted = true;
                crash = Some(When::Before);
            }
            let drawn = life.flaky.as_mut().and_then(Flaky::draw);
            let fault = life.faults.get(&step).copied().or(drawn);
            let fault = fault.and_then(|fault| life.manners.strike(fault, path));
            life.full |= fault == Some(Fault::Full);
            let turns = life.manners.turns.as_mut().map_or(0, |rng| rng.below(4));
            Event { turns, fault, crash }
        })
    }

    /// One step: the effect, and whatever goes wrong around it.
    pub(crate) async fn io<T: Damage>(
        &self,
        op: Op,
        path: &Path,
        effect: impl FnOnce(&mut Objects) -> Result<T>,
    ) -> Result<T> {
        yield_now().await;
        if self.crashed() {
            return self.dead(op, path).await;
        }
        let Event { mut turns, fault, crash } = self.begin(op, path);
        if fault == Some(Fault::Slow) {
            turns += SLOW_TURNS;
            if let Some(clock) = self.life(|life| life.manners.clock.clone()) {
                clock.advance(SLOW);
            }
        }
        for _ in 0..turns {
            yield_now().await;
        }
        // Another call of the same process may have died meanwhile.
        if self.crashed() {
            return self.dead(op, path).await;
        }
        if crash == Some(When::Before) {
            self.kill();
            return self.dead(op, path).await;
        }
        let conditional = matches!(op, Op::Create | Op::Update);
        match fault {
            Some(Fault::Conflict) if conditional => return Err(already_exists(path)),
            Some(Fault::Unavailable | Fault::Conflict) => {
                return Err(generic(format!("{op:?} {path}: the store was not reached")));
            }
            _ => {}
        }
        if op.writes() && self.life(|life| life.full) {
            return Err(full(&format!("{op:?} {path}")));
        }
        let stale = fault == Some(Fault::Stale) && op == Op::List;
        let answer = match stale {
            true => self.disk.with(|objects| effect(&mut objects.before_the_last_write(path))),
            false => self.disk.with(effect),
        };
        if crash == Some(When::After) {
            self.kill();
            return self.dead(op, path).await;
        }
        match fault {
            Some(Fault::LostAck) => Err(generic(format!("{op:?} {path}: the connection broke"))),
            Some(fault @ (Fault::Flip | Fault::Cut)) => answer.map(|value| damaged(value, fault)),
            _ => answer,
        }
    }

    fn listing(
        &self,
        prefix: Option<&Path>,
        offset: Option<&Path>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (process, prefix, offset) = (self.clone(), prefix.cloned(), offset.cloned());
        let read = async move {
            let shown = prefix.clone().unwrap_or_default();
            let found = process
                .io(Op::List, &shown, |objects| Ok(objects.list(prefix.as_ref(), offset.as_ref())))
                .await?;
            Ok::<_, object_store::Error>(futures::stream::iter(found.into_iter().map(Ok)))
        };
        futures::stream::once(read).try_flatten().boxed()
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sim")
    }
}

#[async_trait]
impl ObjectStore for Process {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let op = match &opts.mode {
            PutMode::Overwrite => Op::Put,
            PutMode::Create => Op::Create,
            PutMode::Update(_) => Op::Update,
        };
        let bytes = Bytes::from(payload);
        self.io(op, location, |objects| objects.put(location, bytes, opts.attributes, &opts.mode))
            .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.io(Op::UploadStart, location, |_| Ok(())).await?;
        Ok(Box::new(Upload::new(self.clone(), location.clone(), opts.attributes)))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let op = if options.head { Op::Head } else { Op::Get };
        self.io(op, location, |objects| objects.get(location, &options)).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.io(Op::GetRanges, location, |objects| objects.ranges(location, ranges)).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let process = self.clone();
        locations
            .and_then(move |path| {
                let process = process.clone();
                async move {
                    process
                        .io(Op::Delete, &path, |objects| {
                            objects.delete(&path);
                            Ok(())
                        })
                        .await?;
                    Ok(path)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listing(prefix, None)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listing(prefix, Some(offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let shown = prefix.cloned().unwrap_or_default();
        self.io(Op::List, &shown, |objects| Ok(objects.list_with_delimiter(prefix))).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let mode = match options.mode {
            CopyMode::Overwrite => PutMode::Overwrite,
            CopyMode::Create => PutMode::Create,
        };
        self.io(Op::Copy, to, |objects| objects.copy(from, to, &mode)).await
    }
}
