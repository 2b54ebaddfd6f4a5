//! Blocking work in a separate thread.

/// Calls a possibly blocking `act` in a separate thread.
pub(crate) async fn blocking<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(act).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down and drops this task, too.
            Err(_) => std::future::pending().await,
        },
    }
}
