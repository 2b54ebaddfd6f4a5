//! A simulated process: a runtime of its own, whose clock stands still between steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Number of turns that the tasks of a process get at a time, for what they wake.
const TURNS: usize = 6;

/// Real time between two looks at a thread that blocks.
const LOOK_INTERVAL: Duration = Duration::from_micros(10);

/// A process of the simulation. Its drop is a kill: no task of it runs any more.
#[derive(Debug)]
pub(crate) struct Process {
    runtime: Runtime,
    blocking: Arc<BlockingThreads>,
    /// The main task. The process ends with it.
    main: JoinHandle<()>,
    /// The reading of its clock at its start, which was at the time `started` of the world.
    origin: Instant,
    started: Duration,
    /// End of the time for which it is stopped (SIGSTOP).
    stopped_until: Duration,
    /// True if it did not run the last time.
    is_behind: bool,
}

/// The threads of a process for work that blocks. The world waits for them in real time, so that their speed changes no
/// schedule.
#[derive(Debug, Default)]
struct BlockingThreads {
    begun: AtomicUsize,
    ended: AtomicUsize,
    /// Notified when one begins.
    begins: Notify,
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
            // A thread ends with its work. Its name is requested on the thread of the process, before it begins.
            .thread_keep_alive(Duration::ZERO)
            .thread_name_fn(move || {
                beginning.begun.fetch_add(1, Ordering::SeqCst);
                beginning.begins.notify_one();
                "blocking".to_owned()
            })
            .on_thread_stop(move || {
                ending.ended.fetch_add(1, Ordering::SeqCst);
            })
            .build();
        let runtime = runtime.expect("the system has descriptors for a runtime");
        let (main, origin) = {
            let _context = runtime.enter();
            (tokio::spawn(main()), Instant::now())
        };
        Self { runtime, blocking, main, origin, started: now, stopped_until: Duration::ZERO, is_behind: true }
    }

    /// Lets it run until the time `now` of the world, unless it is stopped. `is_touched`: something may have arrived
    /// since the last time.
    pub(crate) fn run_until(&mut self, now: Duration, is_touched: bool) {
        if now < self.stopped_until {
            self.is_behind = true;
            return;
        }
        let until = self.origin + now.saturating_sub(self.started);
        let mut is_settled = !is_touched && !std::mem::take(&mut self.is_behind);
        loop {
            if !is_settled {
                self.settle();
            }
            let is_there = self.runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = self.blocking.begins.notified() => false,
                    () = tokio::time::sleep_until(until) => true,
                }
            });
            if is_there {
                return;
            }
            is_settled = false;
        }
    }

    /// Lets it do what it can without the passing of time.
    fn settle(&self) {
        loop {
            self.runtime.block_on(async {
                for _ in 0..TURNS {
                    tokio::task::yield_now().await;
                }
            });
            if self.blocking.are_idle() {
                return;
            }
            while !self.blocking.are_idle() {
                std::thread::sleep(LOOK_INTERVAL);
            }
        }
    }

    /// Adds a task to it.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Stops it for a time. A further stop ends no earlier than the one before.
    pub(crate) fn stop_until(&mut self, until: Duration) {
        self.stopped_until = self.stopped_until.max(until);
    }

    /// Returns whether its main task has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.main.is_finished()
    }
}

impl BlockingThreads {
    fn are_idle(&self) -> bool {
        self.begun.load(Ordering::SeqCst) == self.ended.load(Ordering::SeqCst)
    }
}
