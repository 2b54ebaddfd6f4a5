//! Files and functions, from outside.

mod blocking;
mod declarations;
mod functions;
mod inline;
mod limits;
mod replay;
mod story;
mod worker;
