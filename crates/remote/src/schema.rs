//! Schemas of inputs: the cleaning of foreign schemas, and the validation of arguments.
//!
//! JSON Schema 2020-12 (<https://json-schema.org/draft/2020-12>). A validation fetches nothing, searches patterns in
//! linear time, and takes a short time for any size and any references of a schema.

mod clean;
mod keyword;
mod references;
mod validator;

pub use clean::{CleanedSchema, clean};
pub use validator::{InvalidSchema, Validator, Violation};

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
