//! Bytes that a bad disk or a bad line gives back.

use crate::fault::Fault;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use object_store::{GetResult, GetResultPayload, ListResult, ObjectMeta, PutResult};

/// What an answer becomes when its bytes are damaged. Answers without bytes stay.
pub(crate) trait Damage: Sized {
    fn damage(self, change: &dyn Fn(Bytes) -> Bytes) -> Self {
        let _ = change;
        self
    }
}

impl Damage for () {}
impl Damage for PutResult {}
impl Damage for ListResult {}
impl Damage for Vec<ObjectMeta> {}

impl Damage for Vec<Bytes> {
    fn damage(self, change: &dyn Fn(Bytes) -> Bytes) -> Self {
        self.into_iter().map(change).collect()
    }
}

impl Damage for GetResult {
    fn damage(self, change: &dyn Fn(Bytes) -> Bytes) -> Self {
        let (meta, range, attributes) =
            (self.meta.clone(), self.range.clone(), self.attributes.clone());
        // The bytes of a simulated object are there already: this polls nothing that waits.
        let pieces = crate::exec::block_on(self.into_stream().collect::<Vec<_>>());
        let pieces: Vec<_> = pieces.into_iter().map(|piece| piece.map(change)).collect();
        let payload = GetResultPayload::Stream(stream::iter(pieces).boxed());
        Self { payload, meta, range, attributes }
    }
}

/// The answer as `fault` leaves it: half of the bytes, or one bit in the middle flipped.
pub(crate) fn damaged<T: Damage>(answer: T, fault: Fault) -> T {
    answer.damage(&|bytes| match fault {
        Fault::Cut => bytes.slice(..bytes.len() / 2),
        _ => {
            let mut bytes = bytes.to_vec();
            let middle = bytes.len() / 2;
            if let Some(byte) = bytes.get_mut(middle) {
                *byte ^= 0x10;
            }
            bytes.into()
        }
    })
}
