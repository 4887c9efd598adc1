use futures::future::BoxFuture;

/// Starts tasks on whatever runtime the program has. The engine itself has none.
pub trait Spawn: Send + Sync {
    /// Runs `task` to its end in the background.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// As [`Self::spawn`], for a task that may block its thread for as long as it likes: it must
    /// not hold up any other task, nor the end of the program.
    fn spawn_blocking(&self, task: BoxFuture<'static, ()>);
}
