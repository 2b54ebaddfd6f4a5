//! Blocking work, outside the worker threads of the async runtime.

/// Runs work on a thread that may block.
pub(crate) async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and drops this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}
