//! Speed of a terminal's intake of program output: plain lines, lines full of colours, and text outside of ASCII.
//!
//! Every byte takes the path of a real terminal: through the guard, into the history and onto the screen. The measured
//! terminal has run for a while: its scrollback is full and its older output is compressed.
#![allow(missing_docs, reason = "the macros of Criterion make public items")]

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use steplatch_terminal::measured::Typescript;

/// The most that one read of a pseudo-terminal returns on Linux.
const READ: usize = 4095;

/// Size of the output of one benchmark, in bytes: enough to fill the scrollback several times.
const BYTES: usize = 1 << 20;

fn numbers() -> String {
    repeat(|out, line| writeln!(out, "{line}\r"))
}

fn colours() -> String {
    repeat(|out, line| {
        let (red, green, blue) = (line % 256, line / 3 % 256, line / 7 % 256);
        writeln!(
            out,
            "\x1b[1;32m{line:>6}\x1b[0m \x1b[38;5;{red}mdebug\x1b[39m \x1b[38;2;{red};{green};{blue}mcrate::module\x1b[m \
             \x1b[4mtook\x1b[24m \x1b[7m{green} ms\x1b[27m\x1b[K\r"
        )
    })
}

fn unicode() -> String {
    repeat(|out, line| writeln!(out, "{line} Grüße, привет, 端末の画面, e\u{301}le\u{300}ve ── ✓ 🦀 👩\u{200d}💻\r"))
}

fn repeat(mut write: impl FnMut(&mut String, usize) -> std::fmt::Result) -> String {
    let mut out = String::new();
    for line in 1.. {
        write(&mut out, line).expect("writing to a string cannot fail");
        if out.len() >= BYTES {
            break;
        }
    }
    out
}

fn ingest(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ingest");
    for (name, output) in [("numbers", numbers()), ("colours", colours()), ("unicode", unicode())] {
        group.throughput(Throughput::Bytes(output.len() as u64));
        let mut typescript = Typescript::new();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for read in output.as_bytes().chunks(READ) {
                    typescript.print(black_box(read));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, ingest);
criterion_main!(benches);
