//! An in-process daemon and helpers for stories about it.
