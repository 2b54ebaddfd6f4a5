//! Files and functions, through the public interface.

mod blocking;
mod declarations;
mod functions;
mod inline;
mod limits;
mod replay;
mod test_execution;
mod worker;
