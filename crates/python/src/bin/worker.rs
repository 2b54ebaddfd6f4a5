//! A worker process for the tests of this crate. The argument is its memory limit in MiB.

use std::io;

use steplatch_python::worker::{Allocator, serve};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> io::Result<()> {
    let memory = std::env::args().nth(1).and_then(|text| text.parse::<usize>().ok()).unwrap_or(512);
    serve(io::stdin(), io::stdout(), memory << 20)
}
