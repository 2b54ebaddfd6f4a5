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

/// The duration of the campaign, in seconds. The variable makes a campaign of the test.
const SECONDS: &str = "STEPLATCH_FUZZ_SECONDS";
/// The seed, a number; random without the variable.
const SEED: &str = "STEPLATCH_FUZZ_SEED";
/// The file that holds the input under check. It outlives a process that is aborted by it.
const CURRENT: &str = "STEPLATCH_FUZZ_CURRENT";

/// Time limit of one input, after which the process is aborted.
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
    /// If an input fails, once it is shrunk and written into the corpus.
    #[allow(clippy::print_stderr, reason = "a campaign talks to the person who runs it")]
    pub(crate) fn run(&self, target: &Target, pool: &mut Pool, check: &dyn Fn(&[u8]) -> u64) {
        let corpus = pool.inputs.len();
        let watch = Watch::start();
        let mut random = Random::new(self.seed);
        let mut checked = 0_u64;
        let started = Instant::now();
        // Thousands of caught panics would be printed while an input shrinks.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        while started.elapsed() < self.time {
            let input = target.mutated(pool, &mut random);
            write(&self.current, &input);
            watch.begin();
            let outcome = catch_unwind(AssertUnwindSafe(|| check(&input)));
            watch.end();
            checked += 1;
            let Ok(signature) = outcome else {
                eprintln!("fuzz: input {checked} of seed {} fails; it is shrunk now", self.seed);
                let shrunk = shrink(&input, |input| catch_unwind(AssertUnwindSafe(|| check(input))).is_err());
                let file = Path::new(target.corpus).join(file_name(&shrunk));
                write(&file, &shrunk);
                remove(&self.current);
                eprintln!("fuzz: {} bytes fail: '{}'", shrunk.len(), shrunk.escape_ascii());
                eprintln!("fuzz: they are in {}; commit the file with the fix", file.display());
                std::panic::set_hook(hook);
                check(&shrunk);
                panic!("the input fails only sometimes: the check is not deterministic");
            };
            pool.offer(signature, input, &mut random);
        }
        std::panic::set_hook(hook);
        remove(&self.current);
        let kinds = pool.inputs.len() - corpus;
        eprintln!("fuzz: {checked} inputs checked, {kinds} of new kinds, seed {}", self.seed);
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

/// A thread that aborts the process if one check does not end.
#[derive(Debug)]
struct Watch {
    /// Start time of the check, in milliseconds since the start of the watch; 0 between checks.
    begun: Arc<AtomicU64>,
    start: Instant,
}

impl Watch {
    fn start() -> Self {
        let watch = Self { begun: Arc::default(), start: Instant::now() };
        let (begun, start) = (Arc::clone(&watch.begun), watch.start);
        std::thread::spawn(move || {
            while Arc::strong_count(&begun) > 1 {
                std::thread::sleep(Duration::from_millis(500));
                let since = begun.load(Ordering::Relaxed);
                if since > 0 && start.elapsed() > Duration::from_millis(since) + CHECK_TIMEOUT {
                    hang();
                }
            }
        });
        watch
    }

    fn begin(&self) {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.begun.store(now.max(1), Ordering::Relaxed);
    }

    fn end(&self) {
        self.begun.store(0, Ordering::Relaxed);
    }
}

#[allow(clippy::print_stderr, reason = "a campaign talks to the person who runs it")]
fn hang() -> ! {
    eprintln!("fuzz: one input takes longer than {} s", CHECK_TIMEOUT.as_secs());
    std::process::abort();
}
