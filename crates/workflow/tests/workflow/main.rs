//! Machine workflows, from document to end, as small scenarios.

mod commands;
mod contracts;
mod decisions;
mod definitions;
mod dialogues;
mod documentation;
mod endings;
mod fuzz;
mod gates;
mod generated;
mod hostile_patches;
mod items;
mod laws;
mod machine;
mod nested;
mod parallel;
mod pauses;
mod placeholders;
mod rehearsal;
mod repairs;
mod reruns;
mod results;
mod versions;
