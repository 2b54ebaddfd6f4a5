//! Fuzzing of code that reads foreign bytes, on the stable compiler and without dependencies.
//!
//! A [`Target`] is a test with a corpus: committed files in `crates/CRATE/corpus/TARGET`. As an ordinary test it checks
//! each file and the same few hundred mutations each time. `cargo xtask fuzz` runs the same test for minutes with
//! random mutations, shrinks the input that fails, and writes it into the corpus.
//!
//! A check returns a signature of the input's effects. Inputs with a new signature are mutated further. Signatures
//! substitute for the coverage that instrumented fuzzers measure.

mod campaign;
mod mutation;
mod portions;
mod random;
mod shrink;

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use mutation::Mutator;
pub use portions::split_into_portions;
use random::Random;

/// Mutations in an ordinary test.
const ORDINARY_MUTATIONS: u32 = 200;

/// The seed of an ordinary test.
const ORDINARY_SEED: u64 = 20_261_123;

/// Maximum number of inputs with new signatures that are kept to be mutated further.
const MAX_KEPT_INPUTS: usize = 4_096;

/// Code that reads foreign bytes, with the form of its inputs.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The directory of the corpus: `concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/TARGET")`.
    pub corpus: &'static str,
    /// Words of the format. Mutations insert them.
    pub dictionary: &'static [&'static str],
    /// Maximum length of a mutated input, in bytes. Files of the corpus may be longer.
    pub max_bytes: usize,
}

impl Target {
    /// Checks the corpus and its mutations. `check` panics if the input violates an invariant, and returns a signature
    /// of the input's effects.
    ///
    /// # Panics
    /// If the check panics, or the corpus is empty.
    pub fn run<S: Hash>(&self, check: impl Fn(&[u8]) -> S) {
        let check = |input: &[u8]| {
            let mut hasher = DefaultHasher::new();
            check(input).hash(&mut hasher);
            hasher.finish()
        };
        let corpus = read_corpus(Path::new(self.corpus));
        let mut pool = Pool::default();
        for (name, input) in &corpus {
            let signature = run_named(&format!("{}/{name}", self.corpus), || check(input));
            pool.signatures.insert(signature);
            pool.inputs.push(input.clone());
        }
        if let Some(campaign) = campaign::Campaign::from_environment() {
            campaign.run(self, &mut pool, &check);
            return;
        }
        let mut random = Random::new(ORDINARY_SEED);
        for number in 0..ORDINARY_MUTATIONS {
            let input = self.mutate(&pool, &mut random);
            let name = || format!("mutation {number}, '{}'", input.escape_ascii());
            let signature =
                catch_unwind(AssertUnwindSafe(|| check(&input))).unwrap_or_else(|panic| fail(&name(), panic));
            pool.offer(signature, input, &mut random);
        }
    }

    fn mutate(&self, pool: &Pool, random: &mut Random) -> Vec<u8> {
        Mutator { inputs: &pool.inputs, dictionary: self.dictionary, max_bytes: self.max_bytes }.mutate(random)
    }
}

/// The inputs that are mutated.
#[derive(Debug, Default)]
struct Pool {
    inputs: Vec<Vec<u8>>,
    signatures: HashSet<u64>,
}

impl Pool {
    /// Keeps an input if its signature is new.
    fn offer(&mut self, signature: u64, input: Vec<u8>, random: &mut Random) {
        if !self.signatures.insert(signature) {
            return;
        }
        if self.inputs.len() < MAX_KEPT_INPUTS {
            self.inputs.push(input);
        } else {
            let index = random.below(self.inputs.len());
            self.inputs[index] = input;
        }
    }
}

/// Returns the files of a corpus, by name.
fn read_corpus(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let read = |path: &Path| std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let paths = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file());
    let files: BTreeMap<String, Vec<u8>> =
        paths.map(|path| (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), read(&path))).collect();
    assert!(!files.is_empty(), "the corpus {} is empty", directory.display());
    files
}

fn run_named<T>(name: &str, act: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| fail(name, panic))
}

#[allow(clippy::print_stderr, reason = "the output of a test is its message")]
fn fail(input: &str, panic: Box<dyn std::any::Any + Send>) -> ! {
    eprintln!("fuzz: the input that failed is {input}");
    resume_unwind(panic)
}
