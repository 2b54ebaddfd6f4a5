//! Files and functions, from outside.

mod declarations;
mod functions;
mod inline;
mod limits;
mod replay;
mod story;
mod worker;
