//! What only Temporal can show: a server that comes and goes, and workers of which any may end.
