//! Schemas of inputs: makes foreign schemas safe, and checks arguments against them.
//!
//! JSON Schema 2020-12 (<https://json-schema.org/draft/2020-12>). A check fetches nothing, searches patterns in linear
//! time, and neither the size nor the references of a schema can make a check take long.

mod clean;
mod references;
mod validator;

pub use clean::{Cleaned, clean};
pub use validator::{Unusable, Validator, Violation};

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
