use futures::future::BoxFuture;

/// Starts tasks on whatever runtime the program has. The engine itself has none.
pub trait Spawn: Send + Sync {
    /// Runs `task` to its end in the background.
    fn spawn(&self, task: BoxFuture<'static, ()>);
}
