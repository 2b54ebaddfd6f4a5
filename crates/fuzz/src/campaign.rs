//! Random mutations for a given time, as run by `cargo xtask fuzz`.

use std::hash::{BuildHasher as _, DefaultHasher, Hash as _, Hasher as _, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::random::Random;
use crate::shrink::shrink;
use crate::{Pool, Target};

/// The duration of the campaign, in seconds. A test with this variable runs a campaign.
const SECONDS: &str = "STEPLATCH_FUZZ_SECONDS";
/// The seed, a number; random if the variable is not set.
const SEED: &str = "STEPLATCH_FUZZ_SEED";
/// The file that holds the input under check. It outlives a process that is aborted by it.
const CURRENT: &str = "STEPLATCH_FUZZ_CURRENT";

/// Time limit of one input. The process is aborted afterwards.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// A run with random mutations.
#[derive(Debug)]
pub(crate) struct Campaign {
    time: Duration,
    seed: u64,
    current: PathBuf,
}

impl Campaign {
    /// Returns the campaign requested by the environment, if any.
    pub(crate) fn from_environment() -> Option<Self> {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        Some(Self {
            time: Duration::from_secs(number(SECONDS)?),
            seed: number(SEED).unwrap_or_else(|| RandomState::new().hash_one(())),
            current: std::env::var_os(CURRENT)?.into(),
        })
    }

    /// Checks mutations until the time is up.
    ///
    /// # Panics
    /// If an input fails, after it was shrunk and written into the corpus.
    #[allow(clippy::print_stderr, reason = "the output of a campaign is for the person who runs it")]
    pub(crate) fn run(&self, target: &Target, pool: &mut Pool, check: &dyn Fn(&[u8]) -> u64) {
        let corpus_size = pool.inputs.len();
        let watchdog = Watchdog::start();
        let mut random = Random::new(self.seed);
        let mut checked_count = 0_u64;
        let started = Instant::now();
        // Thousands of caught panics would be printed while an input shrinks.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        while started.elapsed() < self.time {
            let input = target.mutate(pool, &mut random);
            write(&self.current, &input);
            watchdog.begin();
            let outcome = catch_unwind(AssertUnwindSafe(|| check(&input)));
            watchdog.end();
            checked_count += 1;
            let Ok(signature) = outcome else {
                eprintln!("fuzz: input {checked_count} of seed {} fails; shrinking it", self.seed);
                let shrunk = shrink(&input, |input| catch_unwind(AssertUnwindSafe(|| check(input))).is_err());
                let file = Path::new(target.corpus).join(file_name(&shrunk));
                write(&file, &shrunk);
                remove(&self.current);
                eprintln!("fuzz: {} bytes fail: '{}'", shrunk.len(), shrunk.escape_ascii());
                eprintln!("fuzz: the input is in {}; commit the file with the fix", file.display());
                std::panic::set_hook(hook);
                check(&shrunk);
                panic!("the input fails only sometimes: the check is not deterministic");
            };
            pool.offer(signature, input, &mut random);
        }
        std::panic::set_hook(hook);
        remove(&self.current);
        let new_signatures = pool.inputs.len() - corpus_size;
        eprintln!("fuzz: {checked_count} inputs checked, {new_signatures} with new signatures, seed {}", self.seed);
    }
}

/// Returns the name of an input in the corpus.
fn file_name(input: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    format!("found-{:016x}", hasher.finish())
}

fn write(file: &Path, bytes: &[u8]) {
    std::fs::write(file, bytes).unwrap_or_else(|error| panic!("{} cannot be written: {error}", file.display()));
}

fn remove(file: &Path) {
    // A file that stays is overwritten by the next campaign.
    let _ = std::fs::remove_file(file);
}

/// A thread that aborts the process if one check hangs.
#[derive(Debug)]
struct Watchdog {
    /// Start time of the check, in milliseconds since the start of the watchdog; 0 between checks.
    begun: Arc<AtomicU64>,
    start: Instant,
}

impl Watchdog {
    fn start() -> Self {
        let watchdog = Self { begun: Arc::default(), start: Instant::now() };
        let (begun, start) = (Arc::clone(&watchdog.begun), watchdog.start);
        std::thread::spawn(move || {
            while Arc::strong_count(&begun) > 1 {
                std::thread::sleep(Duration::from_millis(500));
                let since = begun.load(Ordering::Relaxed);
                if since > 0 && start.elapsed() > Duration::from_millis(since) + CHECK_TIMEOUT {
                    abort_on_timeout();
                }
            }
        });
        watchdog
    }

    fn begin(&self) {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.begun.store(now.max(1), Ordering::Relaxed);
    }

    fn end(&self) {
        self.begun.store(0, Ordering::Relaxed);
    }
}

#[allow(clippy::print_stderr, reason = "the output of a campaign is for the person who runs it")]
fn abort_on_timeout() -> ! {
    eprintln!("fuzz: one input takes longer than {} s", CHECK_TIMEOUT.as_secs());
    std::process::abort();
}
