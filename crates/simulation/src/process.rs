//! A simulated process: a separate runtime with a clock that is stopped between steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Number of yields to the tasks of a process before its blocking threads are checked.
const YIELD_COUNT: usize = 6;

/// Real time between two checks of a blocking thread.
const POLL_INTERVAL: Duration = Duration::from_micros(10);

/// A simulated process. Dropping it kills the process: none of its tasks continues.
#[derive(Debug)]
pub(crate) struct Process {
    runtime: Runtime,
    blocking: Arc<BlockingThreads>,
    /// The main task. The process exits with it.
    main: JoinHandle<()>,
    /// Reading of the process's clock at its start (`started_at` on the world's clock).
    origin: Instant,
    started_at: Duration,
    /// End of the process's stop (SIGSTOP).
    stopped_until: Duration,
    /// True if the process did not run in the last step.
    is_behind: bool,
}

/// The threads of a process for blocking work. The world waits for them in real time, so that their speed does not
/// affect the schedule.
#[derive(Debug, Default)]
struct BlockingThreads {
    started_count: AtomicUsize,
    ended_count: AtomicUsize,
    /// Notified when a thread starts.
    thread_started: Notify,
}

impl Process {
    /// Starts a process at the time `now` of the world.
    pub(crate) fn start<F: Future<Output = ()> + Send + 'static>(now: Duration, main: impl FnOnce() -> F) -> Self {
        let blocking = Arc::<BlockingThreads>::default();
        let (beginning, ending) = (blocking.clone(), blocking.clone());
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .max_blocking_threads(1)
            // A thread ends with its work. Tokio requests the name of a thread on the thread of the process, before the
            // new thread starts.
            .thread_keep_alive(Duration::ZERO)
            .thread_name_fn(move || {
                beginning.started_count.fetch_add(1, Ordering::SeqCst);
                beginning.thread_started.notify_one();
                "blocking".to_owned()
            })
            .on_thread_stop(move || {
                ending.ended_count.fetch_add(1, Ordering::SeqCst);
            })
            .build();
        let runtime = runtime.expect("the system has file descriptors for a runtime");
        let (main, origin) = {
            let _context = runtime.enter();
            (tokio::spawn(main()), Instant::now())
        };
        Self { runtime, blocking, main, origin, started_at: now, stopped_until: Duration::ZERO, is_behind: true }
    }

    /// Runs the process until the time `now` of the world, unless it is stopped. `may_have_input` is true if input may
    /// have arrived since the last step.
    pub(crate) fn run_until(&mut self, now: Duration, may_have_input: bool) {
        if now < self.stopped_until {
            self.is_behind = true;
            return;
        }
        let target_time = self.origin + now.saturating_sub(self.started_at);
        let mut is_settled = !may_have_input && !std::mem::take(&mut self.is_behind);
        loop {
            if !is_settled {
                self.settle();
            }
            let is_time_reached = self.runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = self.blocking.thread_started.notified() => false,
                    () = tokio::time::sleep_until(target_time) => true,
                }
            });
            if is_time_reached {
                return;
            }
            is_settled = false;
        }
    }

    /// Runs the tasks without advancing the clock, until no blocking thread works.
    fn settle(&self) {
        loop {
            self.runtime.block_on(async {
                for _ in 0..YIELD_COUNT {
                    tokio::task::yield_now().await;
                }
            });
            if self.blocking.are_idle() {
                return;
            }
            while !self.blocking.are_idle() {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }

    /// Spawns a task in the process.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Stops the process. A later call never shortens the stop.
    pub(crate) fn stop_until(&mut self, target_time: Duration) {
        self.stopped_until = self.stopped_until.max(target_time);
    }

    /// Returns whether the main task has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.main.is_finished()
    }
}

impl BlockingThreads {
    fn are_idle(&self) -> bool {
        self.started_count.load(Ordering::SeqCst) == self.ended_count.load(Ordering::SeqCst)
    }
}
