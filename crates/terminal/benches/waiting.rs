//! Cost of a wait during unrelated output.
//!
//! The output arrives in portions, as from a program that prints line after line, and each wait examines every portion.
//! The first measurement has no wait: any additional time of the others is the cost of their search.
#![allow(missing_docs, reason = "the macros of Criterion make public items")]

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use steplatch_pattern::Pattern;
use steplatch_terminal::measured::{Searching, Typescript};

/// Lines that arrive together.
const LINES_PER_PORTION: usize = 4;

const PORTIONS: usize = 512;

fn portions() -> Vec<String> {
    let line = |number: usize| {
        format!("2026-11-21T10:{:02}:{:02}Z worker {number}: step done, 0 errors\r\n", number / 60 % 60, number % 60)
    };
    (0..PORTIONS)
        .map(|portion| {
            (0..LINES_PER_PORTION).fold(String::new(), |mut text, at| {
                write!(text, "{}", line(portion * LINES_PER_PORTION + at)).expect("writing to a string cannot fail");
                text
            })
        })
        .collect()
}

fn waiting(criterion: &mut Criterion) {
    let portions = portions();
    let bytes: usize = portions.iter().map(String::len).sum();
    let waits: [(&str, &[&str]); 5] = [
        ("no wait", &[]),
        ("a pattern within a line", &[r"[1-9]\d* errors$"]),
        ("a pattern over several lines", &[r"done\s+Traceback[^:]*:"]),
        ("a pattern with look-around", &[r"(?<!no )errors(?= found)"]),
        (
            "ten patterns",
            &["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet"],
        ),
    ];
    let mut group = criterion.benchmark_group("waiting");
    group.throughput(Throughput::Bytes(bytes as u64));
    for (name, sources) in waits {
        let patterns: Vec<Pattern> =
            sources.iter().map(|source| Pattern::new(source).expect("the patterns are valid")).collect();
        let mut typescript = Typescript::new();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut search = Searching::new(patterns.clone(), typescript.end());
                for portion in &portions {
                    typescript.print(black_box(portion.as_bytes()));
                    assert!(!search.advance(&typescript), "the output contains no match");
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, waiting);
criterion_main!(benches);
