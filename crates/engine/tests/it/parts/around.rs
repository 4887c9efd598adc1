//! Parts that pass everything on, save what the test says.

/// A `BatchLog` around `self.$inner`; the methods given replace those passed on (plan,
/// put_plan and put_commit must be given).
macro_rules! log_around {
    ($type:ident, $inner:tt, { $($own:tt)* }) => {
        #[async_trait::async_trait]
        impl fluvial_core::BatchLog for $type {
            $($own)*
            async fn query_id(
                &self,
                proposed: &fluvial_core::QueryId,
            ) -> fluvial_core::Result<fluvial_core::QueryId> {
                self.$inner.query_id(proposed).await
            }
            async fn latest_plan(&self) -> fluvial_core::Result<Option<fluvial_core::Plan>> {
                self.$inner.latest_plan().await
            }
            async fn latest_commit(&self) -> fluvial_core::Result<Option<fluvial_core::Commit>> {
                self.$inner.latest_commit().await
            }
            async fn commit(
                &self,
                batch: fluvial_core::BatchId,
            ) -> fluvial_core::Result<Option<fluvial_core::Commit>> {
                self.$inner.commit(batch).await
            }
            async fn commits(&self) -> fluvial_core::Result<Vec<fluvial_core::Commit>> {
                self.$inner.commits().await
            }
            async fn truncate_before(
                &self,
                batch: fluvial_core::BatchId,
            ) -> fluvial_core::Result<()> {
                self.$inner.truncate_before(batch).await
            }
        }
    };
}

/// A `Sink` around `self.$inner`; `modes`, `open` and `commit` must be given.
macro_rules! sink_around {
    ($type:ident, $inner:tt, { $($own:tt)* }) => {
        #[async_trait::async_trait]
        impl fluvial_core::Sink for $type {
            $($own)*
            fn description(&self) -> String {
                self.$inner.description()
            }
            async fn writer(
                &self,
                batch: fluvial_core::BatchId,
                partition: fluvial_core::PartitionId,
            ) -> fluvial_core::Result<Box<dyn fluvial_core::SinkWriter>> {
                self.$inner.writer(batch, partition).await
            }
        }
    };
}

/// A `StateBackend` around `self.$inner`; `open` and `retain` must be given.
macro_rules! state_around {
    ($type:ident, $inner:tt, { $($own:tt)* }) => {
        #[async_trait::async_trait]
        impl fluvial_core::StateBackend for $type {
            $($own)*
            fn format(&self) -> &str {
                self.$inner.format()
            }
            async fn commit(
                &self,
                sealed: Vec<fluvial_core::SealedStore>,
            ) -> fluvial_core::Result<Vec<fluvial_core::Snapshot>> {
                self.$inner.commit(sealed).await
            }
        }
    };
}

pub(crate) use {log_around, sink_around, state_around};
