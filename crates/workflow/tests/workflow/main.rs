//! Machine workflows, from document to end, told as small stories.

mod contracts;
mod decisions;
mod definitions;
mod gates;
mod machine;
mod nested;
mod properties;
